"""What goes to a worker and comes back: files in one archive of bytes, looked at whole before
anything of it is written."""

import io
import os
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from ppkit.runs import Refused, cut

BESIDE_AT_MOST = 5_000_000  # bytes of the files that go to a worker with a notebook
BYTES_AT_MOST = 2 * 1024**3  # of an archive
FILES_AT_MOST = 10_000
PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE)


def packed(files: Mapping[str, bytes]) -> bytes:
    """Files by name, such as "html/a.html", as one archive.

    >>> sorted(unpacked(packed({"a": b"1", "b/c": b"2"})))
    ['a', 'b/c']
    """
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            archive.addfile(about, io.BytesIO(content))
    return made.getvalue()


def of_folders(folder: Path, places: Iterable[str]) -> dict[str, bytes]:
    """The files in some places of a folder by name; links are left out."""
    files = [file for place in places for file in sorted(folder.glob(f"{place}/*"))]
    plain = (file for file in files if file.is_file() and not file.is_symlink())
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in plain}


def beside(notebook: Path) -> bytes:
    """The files of a notebook's folder that a worker gets with it, as an archive: all below it but
    notebooks, links and what is hidden or made by Python.

    Refused if they are more than BESIDE_AT_MOST bytes.
    """
    files, size = {}, 0
    for folder, below, names in os.walk(notebook.parent):
        below[:] = sorted(one for one in below if not one.startswith((".", "__pycache__")))
        for file in (Path(folder, name) for name in sorted(names)):
            if file.suffix == ".ipynb" or file.name.startswith(".") or file.is_symlink():
                continue
            size += file.stat().st_size
            if size > BESIDE_AT_MOST or len(files) == FILES_AT_MOST:
                raise Refused(
                    f"a worker gets the files beside {notebook.name}, and {notebook.parent} "
                    f"holds more than {BESIDE_AT_MOST / 1e6:g} MB: put the notebook into a folder "
                    "that holds what it reads and nothing else"
                )
            if file.is_file():
                files[file.relative_to(notebook.parent).as_posix()] = file.read_bytes()
    return packed(files)


def unpacked(archive: bytes) -> dict[str, bytes]:
    """The files of an archive by name; nothing is written.

    ValueError if these are no bytes of an archive, if it is cut off or too large, or holds anything
    but plain files with names of their own that stay in the folder where they are put.
    """
    if not isinstance(archive, bytes):
        raise ValueError(f"an archive must be bytes, got {type(archive).__name__}")
    if len(archive) > BYTES_AT_MOST:
        raise ValueError(f"an archive has {len(archive):,} bytes, more than {BYTES_AT_MOST:,}")
    files = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as members:
            for about in members:
                _must_be_plain(about)
                content = members.extractfile(about).read()
                if len(content) != about.size or about.name in files:
                    raise ValueError(f"an archive is cut off or holds {cut(about.name)!r} twice")
                if len(files) == FILES_AT_MOST:
                    raise ValueError(f"an archive holds more than {FILES_AT_MOST:,} files")
                files[about.name] = content
    except (tarfile.TarError, EOFError) as error:
        raise ValueError(f"no archive, or one that was cut off: {error}") from None
    return files


def put(files: Mapping[str, bytes], folder: Path) -> None:
    """Write the files of an archive into a folder.  OSError where they cannot be written."""
    for name, content in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def _must_be_plain(about: tarfile.TarInfo) -> None:
    name = about.name
    path = PurePosixPath(name)
    inside = name and path.as_posix() == name and not path.is_absolute() and ".." not in path.parts
    if not inside or any(sign in name for sign in "\\:\0"):
        raise ValueError(f"an archive holds the name {cut(name)!r}, which is not inside a folder")
    if about.type not in PLAIN or about.issparse():
        raise ValueError(f"an archive holds {cut(name)!r}, which is no plain file")
