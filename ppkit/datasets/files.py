"""Finding a real file and reading it as a table, whatever it is packed in."""

import gzip
import hashlib
import os
import re
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import pandas as pd

from ppkit import project

ENDINGS = (".csv", ".csv.gz", ".csv.zip", ".zip", ".parquet")
READING = "1"                     # count up when a CSV is read in another way, so that no older .cache is taken
UNREADABLE = (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error,      # what the readers raise
              KeyError, TypeError)                                                             # these two from spoilt parquet


class Found(NamedTuple):
    """A file, how to name it to a person without telling where this machine keeps it, and which file of a zip it is."""
    path: Path
    label: str
    member: str = ""


def places(root: str | os.PathLike | None = None) -> tuple[tuple[Path, str], ...]:
    """The folders where real files may lie, each with its label, in the order in which they are searched.

    root: only this folder.  None: $PPKIT_DATA (a relative one counts from the project's folder), then data/raw.
    ValueError if $PPKIT_DATA names no folder.
    """
    if root is not None:
        return ((Path(root), "the folder given as root"),)
    raw = (project.root() / "data" / "raw", "data/raw")
    if not os.environ.get("PPKIT_DATA"):
        return (raw,)
    given = project.root() / os.environ["PPKIT_DATA"]
    if not given.is_dir():
        raise ValueError("PPKIT_DATA names no folder: set it to the folder that holds the real files, or unset it")
    return ((given, "$PPKIT_DATA"), raw)


def find(stems: tuple[str, ...], root: str | os.PathLike | None = None) -> Found | None:
    """The first file called one of the stems with one of ENDINGS, or None.

    The order is that of places, then of stems, then of ENDINGS.  Capitals do not count, and a blank, "_", "-" and "%20"
    are one and the same; of two names that differ in nothing else the one spelt like the stem is taken, else the first
    by alphabet.  Last come zips of any other name that hold a .csv of such a name (Kaggle's archive.zip).
    ValueError if a folder bears such a name, or a place cannot be listed.
    """
    for folder, label in places(root):
        names = _listed(folder, label)
        alike = {_plain(name): name for name in reversed(names)}
        for wanted in (stem + ending for stem in stems for ending in ENDINGS):
            name = wanted if wanted in names else alike.get(_plain(wanted))
            if name is not None:
                if (folder / name).is_dir():
                    raise ValueError(f"{name} in {label} is a folder, expected a file")
                return Found(folder / name, f"{label}/{name}", _member(folder / name, stems))
        for name in names:
            member = _member(folder / name, stems)
            if member:
                return Found(folder / name, f"{label}/{name}", member)
    return None


def sha256(path: Path) -> str:
    """The file's SHA-256 in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_table(found: Found) -> pd.DataFrame:
    """The file's rows as they stand; a packed or plain CSV is kept as parquet in the project's .cache, by checksum.

    One parsed copy is kept per name: another checksum or another READING replaces it.
    ValueError, naming the file, if it cannot be read to its end.
    """
    if found.path.suffix.lower() == ".parquet":
        return parsed(found.path, member=found.member)
    try:
        key = hashlib.sha256(f"{sha256(found.path)} {READING}".encode()).hexdigest()[:16]
    except OSError as error:
        raise ValueError(f"{found.path.name} cannot be read: {error.strerror}") from error
    stem = _plain(Path(found.member or found.path.name).name).split(".")[0].replace(" ", "-")
    kept = project.root() / ".cache" / f"{stem}-{key}.parquet"
    try:
        return pd.read_parquet(kept)
    except UNREADABLE:                             # not kept yet, or not whole
        table = parsed(found.path, member=found.member)
    _keep(table, kept, stem)
    return table


def parsed(path: Path, name: str = "", member: str = "") -> pd.DataFrame:
    """The file's rows, read now; by the ending of its name (or of `name`) it is parquet, zipped, gzipped or plain CSV.

    member: which .csv of a zip; "" if it holds one only.  ValueError, naming the file, if it cannot be read to its end.
    """
    name = name or path.name
    expected = "a whole table with a header"
    try:
        if path.stat().st_size == 0:
            raise ValueError("the file is empty")
        if name.lower().endswith(".parquet"):
            expected = "a whole parquet file"
            return pd.read_parquet(path)
        if name.lower().endswith(".zip"):
            with zipfile.ZipFile(path) as archive, archive.open(member or _only_csv(archive)) as file:
                return pd.read_csv(file, low_memory=False)
        if name.lower().endswith(".gz"):
            with gzip.open(path) as file:
                return pd.read_csv(file, low_memory=False)
        return pd.read_csv(path, low_memory=False)
    except UNREADABLE as error:
        raise ValueError(f"{name} cannot be read to its end, expected {expected}: {_why(error, path)}") from error


def _why(error: Exception, path: Path) -> str:
    """The error's first line, without the paths of this machine."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).strip().split("\n")[0].replace(str(path), path.name) or type(error).__name__


def _keep(table: pd.DataFrame, kept: Path, stem: str) -> None:
    """Write the parsed copy in one step and remove the older ones of that name; no matter if nothing can be written."""
    part = kept.with_suffix(f".{os.getpid()}.part")
    try:
        kept.parent.mkdir(exist_ok=True)
        table.to_parquet(part, index=False)
        os.replace(part, kept)
        for other in kept.parent.iterdir():
            if other != kept and re.fullmatch(re.escape(stem) + r"-[0-9a-f]{16}\.parquet", other.name):
                other.unlink(missing_ok=True)
    except (OSError, ValueError, TypeError):       # a folder that cannot be written, or a table that is refused later
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _listed(folder: Path, label: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ValueError(f"{label} cannot be searched, expected a folder of data files: {error.strerror}") from error


def _plain(name: str) -> str:
    return re.sub(r"[ _-]|%20", " ", name).casefold()


def _csvs(archive: zipfile.ZipFile) -> list[str]:
    hidden = ("__MACOSX", ".")
    return [name for name in archive.namelist() if name.lower().endswith(".csv")
            and not any(part.startswith(hidden) for part in PurePosixPath(name).parts)]


def _member(path: Path, stems: tuple[str, ...]) -> str:
    """The .csv in a zip that bears one of the stems as its name, the first stem first; "" if none, or if it is no zip."""
    if path.suffix.lower() != ".zip":
        return ""
    try:
        with zipfile.ZipFile(path) as archive:
            named = {_plain(PurePosixPath(name).stem): name for name in reversed(_csvs(archive))}
    except (OSError, zipfile.BadZipFile):          # said when it is read
        return ""
    return next((named[_plain(stem)] for stem in stems if _plain(stem) in named), "")


def _only_csv(archive: zipfile.ZipFile) -> str:
    names = _csvs(archive)
    if len(names) != 1:
        raise ValueError(f"expected one .csv in the archive, found {len(names)}")
    return names[0]
