"""Finding a real file and reading it as a table, whatever it is packed in."""

import gzip
import hashlib
import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NamedTuple

import pandas as pd

from ppkit import project

ENDINGS = (".csv", ".csv.gz", ".parquet")
UNREADABLE = (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error)


class Found(NamedTuple):
    """A file and how to name it to a person without telling where this machine keeps it.

    member: which file of a zip it is, "" if it is none.
    """

    path: Path
    label: str
    member: str = ""


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

    The order is that of places, then of stems, then of ENDINGS.  Last come zips of any name that
    hold a CSV of such a name (Kaggle's archive.zip).
    ValueError for a zip that cannot be opened, as one whose download was cut off.
    """
    for folder, label in places(root):
        for stem, ending in product(stems, ENDINGS):
            if (folder / (stem + ending)).is_file():
                return Found(folder / (stem + ending), f"{label}/{stem}{ending}")
        for path in sorted(folder.glob("*.zip")):
            with _named(path), zipfile.ZipFile(path) as archive:
                held = {PurePosixPath(name).name: name for name in archive.namelist()}
            for stem in stems:
                if f"{stem}.csv" in held:
                    return Found(path, f"{label}/{path.name}", held[f"{stem}.csv"])
    return None


def sha256(path: Path) -> str:
    """The file's SHA-256 in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_table(found: Found, largest: int) -> tuple[pd.DataFrame, str]:
    """The file's rows as they stand, and the SHA-256 of the CSV, unpacked; "" of a parquet file.

    largest: bytes that the CSV of a zip may declare, looked at before it is unpacked.
    ValueError, naming the file, if it cannot be read to its end, or declares more.
    """
    with _named(found.path):
        if found.path.suffix == ".parquet":
            return pd.read_parquet(found.path), ""
        with _csv(found, largest) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            file.seek(0)
            return pd.read_csv(file, low_memory=False), digest


@contextmanager
def _csv(found: Found, largest: int) -> Iterator[BinaryIO]:
    """The CSV, unpacked as it is read."""
    if found.member:
        with zipfile.ZipFile(found.path) as archive:
            if (declared := archive.getinfo(found.member).file_size) > largest:
                raise ValueError(f"it declares {declared:,} bytes, expected at most {largest:,}")
            with archive.open(found.member) as file:
                yield file
    else:
        with (gzip.open if found.path.suffix == ".gz" else open)(found.path, "rb") as file:
            yield file


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """One sentence with the file's name, not its path, for whatever keeps it from being read."""
    try:
        yield
    except UNREADABLE as error:
        why = getattr(error, "strerror", None) or str(error).strip().split("\n")[0]
        raise ValueError(
            f"{path.name} cannot be read to its end: {why.replace(str(path), path.name)}"
        ) from error
