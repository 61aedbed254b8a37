"""Finding a real file and reading it as a table, whatever it is packed in."""

import gzip
import hashlib
import os
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from ppkit import project

ENDINGS = (".csv", ".csv.gz", ".csv.zip", ".zip", ".parquet")


class Found(NamedTuple):
    """A file, and how to name it to a person without telling where this machine keeps it."""
    path: Path
    label: str


def places(root: str | os.PathLike | None = None) -> tuple[tuple[Path, str], ...]:
    """The folders where real files may lie, each with its label, in the order in which they are searched.

    root: only this folder.  None: $PPKIT_DATA (a relative one counts from the project's folder), then data/raw.
    """
    if root is not None:
        return ((Path(root), "the folder given as root"),)
    raw = (project.root() / "data" / "raw", "data/raw")
    if not os.environ.get("PPKIT_DATA"):
        return (raw,)
    return ((project.root() / os.environ["PPKIT_DATA"], "$PPKIT_DATA"), raw)


def find(stems: tuple[str, ...], root: str | os.PathLike | None = None) -> Found | None:
    """The first file called one of the stems with one of ENDINGS, or None.

    ValueError if a folder bears such a name.
    """
    for folder, label in places(root):
        for stem in stems:
            for ending in ENDINGS:
                path = folder / (stem + ending)
                if path.is_dir():
                    raise ValueError(f"{path.name} in {label} is a folder, expected a file")
                if path.is_file():
                    return Found(path, f"{label}/{path.name}")
    return None


def sha256(path: Path) -> str:
    """The file's SHA-256 in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_table(found: Found) -> pd.DataFrame:
    """The file's rows as they stand; a packed or plain CSV is kept as parquet in the project's .cache, by checksum.

    ValueError, naming the file, if it cannot be read to its end.
    """
    if found.path.suffix == ".parquet":
        return _read(found)
    kept = project.root() / ".cache" / f"{found.path.name.split('.')[0]}-{sha256(found.path)[:16]}.parquet"
    try:
        return pd.read_parquet(kept)
    except (OSError, ValueError):                  # not kept yet, or not whole
        table = _read(found)
    part = kept.with_suffix(f".{os.getpid()}.part")
    try:
        kept.parent.mkdir(exist_ok=True)
        table.to_parquet(part, index=False)
        os.replace(part, kept)
    except (OSError, ValueError, TypeError):       # a folder that cannot be written, or a table that is refused later
        with suppress(OSError):
            part.unlink(missing_ok=True)
    return table


def _read(found: Found) -> pd.DataFrame:
    name = found.path.name
    try:
        if name.endswith(".parquet"):
            return pd.read_parquet(found.path)
        if name.endswith(".zip"):
            with zipfile.ZipFile(found.path) as archive:
                members = [one for one in archive.namelist() if one.lower().endswith(".csv")]
                if len(members) != 1:
                    raise ValueError(f"expected one .csv in the archive, found {len(members)}")
                with archive.open(members[0]) as file:
                    return pd.read_csv(file, low_memory=False)
        if name.endswith(".gz"):
            with gzip.open(found.path) as file:
                return pd.read_csv(file, low_memory=False)
        return pd.read_csv(found.path, low_memory=False)
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ValueError(f"{name} cannot be read to its end, expected a whole "
                         f"{'parquet file' if name.endswith('.parquet') else 'table with a header'}: {why}") from error
