"""Finding a real file, measuring it and reading it as a table, whatever it is packed in."""

import gzip
import hashlib
import os
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NamedTuple

import numpy as np
import pandas as pd
from pyarrow import parquet

from ppkit import project
from ppkit.writing import whole

ENDINGS = (".csv", ".csv.gz", ".csv.zip", ".zip", ".parquet")
BLOCK = 1 << 16
# count up when a CSV is read in another way, so that no older .cache is taken
READING = "1"
# what the readers raise
UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
    # these two from spoilt parquet
    KeyError,
    TypeError,
)


class Found(NamedTuple):
    """A file and how to name it to a person without telling where this machine keeps it.

    member: which file of a zip it is, "" if it is the only one.  stem: under which it was found.
    """

    path: Path
    label: str
    member: str = ""
    stem: str = ""


class Size(NamedTuple):
    """How much a file may hold when it is unpacked: bytes, and cells, which cost most memory."""

    n_bytes: int
    n_cells: int


class _TooLarge(ValueError):
    """A file beyond its Size, in a sentence of its own."""


def few_times(n_bytes: int, rows: int, columns: int) -> Size:
    """Three times the published file: room for longer numbers, line ends, commas in a text."""
    return Size(3 * n_bytes, 3 * rows * columns)


def places(root: str | os.PathLike | None = None) -> tuple[tuple[Path, str], ...]:
    """The folders where real files may lie, each with its label, in the order of the search.

    root: only this folder.  None: $PPKIT_DATA (a relative one counts from the project's folder),
    then data/raw.
    ValueError if $PPKIT_DATA names no folder.
    """
    if root is not None:
        return ((Path(root), "the folder given as root"),)
    raw = (project.root() / "data" / "raw", "data/raw")
    if not os.environ.get("PPKIT_DATA"):
        return (raw,)
    given = project.root() / os.environ["PPKIT_DATA"]
    if not given.is_dir():
        raise ValueError(
            "PPKIT_DATA names no folder: set it to the folder that holds the real "
            "files, or unset it"
        )
    return ((given, "$PPKIT_DATA"), raw)


def find(stems: tuple[str, ...], root: str | os.PathLike | None = None) -> Found | None:
    """The first file called one of the stems with one of ENDINGS, or None.

    The order is that of places, then of stems, then of ENDINGS.  Capitals do not count, and a
    blank, "_", "-" and "%20" are one and the same; of two names that differ in nothing else the one
    spelt like the stem is taken, else the first by alphabet.  Last come zips of any other name that
    hold a .csv of such a name (Kaggle's archive.zip).
    ValueError if a folder bears such a name, or a place cannot be listed.
    """
    for folder, label in places(root):
        names = _listed(folder, label)
        alike = {_plain(name): name for name in reversed(names)}
        for stem, ending in product(stems, ENDINGS):
            wanted = stem + ending
            name = wanted if wanted in names else alike.get(_plain(wanted))
            if name is not None:
                if (folder / name).is_dir():
                    raise ValueError(f"{name} in {label} is a folder, expected a file")
                return Found(folder / name, f"{label}/{name}", _member(folder / name, stems), stem)
        for name in names:
            if member := _member(folder / name, stems):
                named = {_plain(stem): stem for stem in reversed(stems)}
                stem = named[_plain(PurePosixPath(member).stem)]
                return Found(folder / name, f"{label}/{name}", member, stem)
    return None


def sha256(path: Path) -> str:
    """The file's SHA-256 in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_table(found: Found, largest: Size | None = None) -> pd.DataFrame:
    """The file's rows as they stand; a CSV is kept as parquet in the project's .cache, by checksum.

    largest: what the file may hold, None for anything; it is measured before a row is parsed.
    Returns a table whose attrs["sha256"] is the checksum of the CSV, unpacked; that of a parquet
    file has none, whatever the file says of itself.
    One parsed copy is kept per name: another checksum or another READING replaces it.
    ValueError, naming the file, if it cannot be read to its end or is larger than `largest`.
    """
    if found.path.suffix.lower() == ".parquet":
        return parsed(found.path, member=found.member, largest=largest)
    digest = measured(found.path, member=found.member, largest=largest)
    key = hashlib.sha256(f"{digest} {READING}".encode()).hexdigest()[:16]
    stem = _plain(Path(found.member or found.path.name).name).split(".")[0].replace(" ", "-")
    kept = project.root() / ".cache" / f"{stem}-{key}.parquet"
    try:
        table = pd.read_parquet(kept)
    except UNREADABLE:  # not kept yet, or not whole
        table = parsed(found.path, member=found.member)
        _keep(table, kept, stem)
    table.attrs = {"sha256": digest}
    return table


def measured(path: Path, name: str = "", member: str = "", largest: Size | None = None) -> str:
    """SHA-256 of a zipped, gzipped or plain CSV, which is unpacked block by block and never held.

    name, member: as for `parsed`.  largest: what it may hold, None for anything.
    ValueError, naming the file, if it cannot be read to its end, or as soon as it is known to hold
    more than `largest`: by the size that the zip or the folder declares, before anything is
    unpacked, and by what has come out so far, whatever was declared.
    """
    name = name or path.name
    with (
        _to_its_end(path, name, "a whole table with a header"),
        _csv(path, name, member) as (file, declared),
    ):
        _refuse_beyond(largest, name, declared, 0)
        digest, n_bytes, n_cells = hashlib.sha256(), 0, 0
        while block := file.read(BLOCK):
            digest.update(block)
            held = np.frombuffer(block, np.uint8)
            n_bytes += len(block)
            n_cells += np.count_nonzero(held == ord(",")) + np.count_nonzero(held == ord("\n"))
            _refuse_beyond(largest, name, n_bytes, n_cells, so_far=True)
        return digest.hexdigest()


def parsed(
    path: Path, name: str = "", member: str = "", largest: Size | None = None
) -> pd.DataFrame:
    """The file's rows, read now; by the ending of its name (or of `name`) it is parquet, zipped,
    gzipped or plain CSV.

    member: which .csv of a zip; "" if it holds one only.  largest: what the metadata of a parquet
    file may declare; a CSV has to be `measured` before.
    ValueError, naming the file, if it cannot be read to its end or declares more than `largest`.
    """
    name = name or path.name
    if not name.lower().endswith(".parquet"):
        with (
            _to_its_end(path, name, "a whole table with a header"),
            _csv(path, name, member) as (file, _),
        ):
            return pd.read_csv(file, low_memory=False)
    with _to_its_end(path, name, "a whole parquet file"):
        about = parquet.read_metadata(path)
        groups = [about.row_group(group) for group in range(about.num_row_groups)]
        n_bytes = sum(group.total_byte_size for group in groups)
        n_cells = sum(
            group.column(column).num_values
            for group in groups
            for column in range(group.num_columns)
        )
        _refuse_beyond(largest, name, n_bytes, n_cells)
        table = pd.read_parquet(path)
        table.attrs = {}  # a file may say anything of itself
        return table


def _refuse_beyond(
    largest: Size | None, name: str, n_bytes: int, n_cells: int, *, so_far: bool = False
) -> None:
    """One sentence for a file that holds more than `largest`; so_far: not all was counted yet."""
    if largest is None:
        return
    for unit, counted, most in zip(("bytes", "cells"), (n_bytes, n_cells), largest, strict=True):
        if counted > most:
            found = "more" if so_far else f"{counted:,}"
            raise _TooLarge(
                f"{name} holds {found} {unit} when it is unpacked, expected at most "
                f"{most:,}, far more than the published file has"
            )


@contextmanager
def _csv(path: Path, name: str, member: str) -> Iterator[tuple[BinaryIO, int]]:
    """The CSV, unpacked as it is read, and how many bytes it declares.

    Of gzip that is 0: what a gzip file declares is modulo 2^32, and stands at its end.
    """
    if name.lower().endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            about = archive.getinfo(member or _only_csv(archive))
            with archive.open(about) as file:
                yield file, about.file_size
    elif name.lower().endswith(".gz"):
        with gzip.open(path) as file:
            yield file, 0
    else:
        with open(path, "rb") as file:
            yield file, path.stat().st_size


@contextmanager
def _to_its_end(path: Path, name: str, expected: str) -> Iterator[None]:
    """One sentence with the file's name for whatever keeps it from being read."""
    try:
        if path.stat().st_size == 0:
            raise ValueError("the file is empty")
        yield
    except _TooLarge:
        raise
    except UNREADABLE as error:
        if isinstance(error, OSError) and error.strerror:
            raise ValueError(f"{name} cannot be read: {error.strerror}") from error
        raise ValueError(
            f"{name} cannot be read to its end, expected {expected}: {_why(error, path)}"
        ) from error


def _why(error: Exception, path: Path) -> str:
    """The error's first line, without the paths of this machine."""
    return str(error).strip().split("\n")[0].replace(str(path), path.name) or type(error).__name__


def _keep(table: pd.DataFrame, kept: Path, stem: str) -> None:
    """Write the parsed copy in one step and remove the older ones of that name; no matter if
    nothing can be written.
    """
    with suppress(OSError, ValueError, TypeError):  # no folder to write, or a table refused later
        kept.parent.mkdir(exist_ok=True)
        with whole(kept) as part:
            table.to_parquet(part, index=False)
        for other in kept.parent.iterdir():
            if other != kept and re.fullmatch(
                re.escape(stem) + r"-[0-9a-f]{16}\.parquet", other.name
            ):
                other.unlink(missing_ok=True)


def _listed(folder: Path, label: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ValueError(
            f"{label} cannot be searched, expected a folder of data files: {error.strerror}"
        ) from error


def _plain(name: str) -> str:
    return re.sub(r"[ _-]|%20", " ", name).casefold()


def _csvs(archive: zipfile.ZipFile) -> list[str]:
    hidden = ("__MACOSX", ".")
    return [
        name
        for name in archive.namelist()
        if name.lower().endswith(".csv")
        and not any(part.startswith(hidden) for part in PurePosixPath(name).parts)
    ]


def _member(path: Path, stems: tuple[str, ...]) -> str:
    """The .csv in a zip that bears one of the stems as its name, the first stem first; "" if none,
    or if it is no zip.
    """
    if path.suffix.lower() != ".zip":
        return ""
    try:
        with zipfile.ZipFile(path) as archive:
            named = {_plain(PurePosixPath(name).stem): name for name in reversed(_csvs(archive))}
    except (OSError, zipfile.BadZipFile):  # said when it is read
        return ""
    return next((named[_plain(stem)] for stem in stems if _plain(stem) in named), "")


def _only_csv(archive: zipfile.ZipFile) -> str:
    names = _csvs(archive)
    if len(names) != 1:
        raise ValueError(f"expected one .csv in the archive, found {len(names)}")
    return names[0]
