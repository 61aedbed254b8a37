"""Finding a real file, and one that almost has its name."""

import os
import re
from itertools import product
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from zipfile import is_zipfile

from ppkit import project
from ppkit.reading import UNREADABLE, Rows, members, named, read_rows

ENDINGS = (".csv", ".csv.gz", ".csv.bz2", ".csv.xz", ".csv.zst", ".parquet")
_ANY_ENDING = re.compile(
    r"(~|\.(csv|tsv|txt|dat|gz|gzip|bz2|xz|zst|zstd|zip|7z|rar|tar|tgz|parquet|pq|feather|arrow|"
    r"xlsx?|ods|json|jsonl|db|sqlite|duckdb|pkl|rds|part|crdownload|download|html?|bak|old|orig|"
    r"\d+))+$"
)
_COPY = re.compile(
    r"%20|\(\d+\)|[_\-]\d{4}\b|\b(copy of|kopie von|copie de|copia de)\b|"
    r"\b(copy|kopie|copie|copia)\b(\s*\d+)?|[\s_\-+.,]"
)
_CUT_OFF = (".part", ".crdownload", ".download")  # what browsers call a download that goes on


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
    hold one file of such a name (Kaggle's archive.zip).
    ValueError for a zip that cannot be opened, as one whose download was cut off.
    """
    names = [stem + ending for stem, ending in product(stems, ENDINGS)]
    for folder, label in places(root):
        for name in names:
            if (folder / name).is_file():
                return Found(folder / name, f"{label}/{name}")
        for path in sorted(folder.glob("*.zip")):
            with named(path):
                inside = members(path)
            for name in names:
                of_its_name = [member for member in inside if PurePosixPath(member).name == name]
                if len(of_its_name) == 1:
                    return Found(path, f"{label}/{path.name}", of_its_name[0])
    return None


def alike(
    stems: tuple[str, ...],
    root: str | os.PathLike | None,
    beginnings: dict[str, str],
    nickname: str = "",
) -> str:
    """Which file lies there whose name is almost one of the stems, in half a sentence; "" if none.

    beginnings: of names that the publisher gives to parts of the data, with the stem that is meant.
    nickname: what we call the data; a file of that name is meant as the first stem.
    "creditcard (1).csv", "creditcard.CSV", "Credit_Card.csv.crdownload", "creditcard_2023.csv" are
    almost "creditcard"; a folder is, too, and a file of such a name inside a zip, whatever that is
    called.
    """
    meant = {_bare(nickname): stems[0]} if nickname else {}
    meant |= {_bare(stem): stem for stem in reversed(stems)}
    for folder, label in places(root):
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            here = f"a file like it lies there: {label}/{path.name}"
            if stem := _meant(path.name, meant, beginnings):
                return f"{here}, {_do(path, stem)}"
            for member in _inside(path):
                name = PurePosixPath(member).name
                if stem := _meant(name, meant, beginnings):
                    return f"{here} (it holds {name}), unpack it and call it {stem}.csv"
    return ""


def _meant(name: str, meant: dict[str, str], beginnings: dict[str, str]) -> str:
    """The stem that a name almost is; "" if it is like none.

    meant: stems by the bare names that are taken for them.
    """
    for word, stem in beginnings.items():
        if name.startswith(word):
            return stem
    return meant.get(_bare(name), "")


def _bare(name: str) -> str:
    """What is left of a name without endings, marks of copies, blanks and a plural."""
    return _COPY.sub("", _ANY_ENDING.sub("", name.casefold())).removesuffix("s")


def _do(path: Path, stem: str) -> str:
    if path.is_dir():
        return (
            "a folder: move the file in it here and call it "
            f"{stem}.csv or {stem}.parquet; Spark writes one file after coalesce(1)"
        )
    if path.suffix.casefold() in _CUT_OFF:
        return f"a download that did not end: download it again and call it {stem}.csv"
    return f"call it {stem}.csv to have it taken"


def _inside(path: Path) -> list[str]:
    """The files in a zip; none in another file, or in a zip that cannot be opened."""
    try:
        return members(path) if path.is_file() and is_zipfile(path) else []
    except UNREADABLE:
        return []


def read_table(found: Found, largest: int) -> Rows:
    """The file's rows as they stand, without lines that hold nothing; other text than UTF-8 is read
    as Latin-1, and the notes say so.

    largest: bytes that the file may have, unpacked; a zip is asked before it is unpacked.
    ValueError, one sentence with the file's name, as `read_rows`, or if there are more bytes.
    """
    rows = read_rows(found.path, member=found.member, largest=largest, latin_1=True)
    table = rows.table.dropna(how="all", ignore_index=True)
    n_empty = len(rows.table) - len(table)
    if not n_empty:
        return rows
    said = f"lines without a value, left out: {n_empty:,}"
    return rows._replace(table=table, notes=(*rows.notes, said))
