"""Finding a real file, and one that almost has its name."""

import hashlib
import os
import re
from itertools import product
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ppkit import project
from ppkit.reading import UNREADABLE, Rows, all_missing, members, named, read_rows
from ppkit.reading.first_bytes import HEAD, NEITHER, kind_of, neither, spreadsheet

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

    member: which file of a zip it is, "" if it is none, or if the zip has one file only.
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
    hold a file of such a name (Kaggle's archive.zip), and zips that are called a stem themselves,
    whatever their first bytes say that they are.
    ValueError for a zip that cannot be opened, as one whose download was cut off, and for one that
    holds two files of one name.
    """
    for folder, label in places(root):
        for stem, ending in product(stems, ENDINGS):
            if (folder / (stem + ending)).is_file():
                return Found(folder / (stem + ending), f"{label}/{stem}{ending}")
        called = {f"{stem}{ending}.zip" for stem, ending in product(stems, ("", *ENDINGS))}
        for path in sorted(folder.glob("*.zip")):
            if path.name in called and path.is_file() and _kind(path) not in ("", "zip"):
                return Found(path, f"{label}/{path.name}")
            with named(path):
                inside = members(path)
            for stem, ending in product(stems, ENDINGS):
                held = _of_name(inside, stem + ending, path.name)
                if held:
                    return Found(path, f"{label}/{path.name}", held)
            if len(inside) == 1 and path.name in {f"{stem}.zip" for stem in stems}:
                return Found(path, f"{label}/{path.name}", inside[0])
    return None


def alike(
    stems: tuple[str, ...], root: str | os.PathLike | None, beginnings: dict[str, str]
) -> str:
    """Which file lies there whose name is almost one of the stems, in half a sentence; "" if none.

    beginnings: of names that the publisher gives to parts of the data, with the stem that is meant.
    "creditcard (1).csv", "creditcard.CSV", "Credit_Card.csv.crdownload", "creditcard_2023.csv" are
    almost "creditcard"; a folder is, too, and a file of such a name inside a zip.
    """
    wanted = {_bare(stem): stem for stem in reversed(stems)}
    for folder, label in places(root):
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            inside = _inside(path) if path.suffix.casefold() == ".zip" else []
            for name in (path.name, *(PurePosixPath(member).name for member in inside)):
                stem = wanted.get(_bare(name), "")
                for word in beginnings:
                    stem = beginnings[word] if name.startswith(word) else stem
                if stem:
                    held = "" if name == path.name else f" (it holds {name})"
                    here = f"{label}/{path.name}{held}"
                    do = f"unpack it and call it {stem}.csv" if held else _do(path, stem)
                    return f"a file like it lies there: {here}, {do}"
    return ""


def _do(path: Path, stem: str) -> str:
    if not path.is_dir():
        return _do_with_file(path, stem)
    if keys := sorted({part.name.split("=")[0] for part in path.glob("*=*") if part.is_dir()}):
        return (
            f"a folder that is partitioned by {', '.join(keys)[:60]}: write one file without "
            "partitions (Spark: coalesce(1) and no partitionBy, DuckDB: no PARTITION_BY), move it "
            f"here and call it {stem}.csv or {stem}.parquet"
        )
    parts = [part for part in path.iterdir() if part.name.startswith(("part-", "data_"))]
    if not parts:
        return f"a folder: move the file in it here and call it {stem}.csv"
    return (
        f"a folder of {len(parts)} parts, as Spark and DuckDB write them: write one part (Spark: "
        f"coalesce(1)), move it here and call it {stem}.csv or {stem}.parquet"
    )


def _do_with_file(path: Path, stem: str) -> str:
    if path.suffix.casefold() in _CUT_OFF:
        return f"a download that did not end: download it again and call it {stem}.csv"
    kind = _kind(path) if path.is_file() else ""
    if kind == "zip":
        kind = spreadsheet(_inside(path))
    if kind in NEITHER:
        return f"which {neither(kind)}; call what you get {stem}.csv"
    return f"call it {stem}.csv to have it taken"


def _kind(path: Path) -> str:
    """What a file is by its first bytes, "" for one that cannot be opened."""
    try:
        with open(path, "rb") as file:
            return kind_of(file.read(HEAD))
    except OSError:
        return ""


def _bare(name: str) -> str:
    """What is left of a name without endings, marks of copies, blanks and a plural."""
    return _COPY.sub("", _ANY_ENDING.sub("", name.casefold())).removesuffix("s")


def sha256(path: Path) -> str:
    """The file's SHA-256 in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_table(found: Found, largest: int) -> Rows:
    """The file's rows as they stand, without lines that hold nothing; other text than UTF-8 is read
    as Latin-1, and the notes say so.

    largest: bytes that the CSV may have, unpacked; a zip is asked before it is unpacked.
    ValueError, one sentence with the file's name, as `read_rows`, or if there are more bytes.
    """
    rows = read_rows(found.path, member=found.member, largest=largest, otherwise="latin-1")
    table = rows.table.reset_index(drop=True)
    empty = all_missing(table, table.columns)
    if not empty.any():
        return rows._replace(table=table)
    said = f"lines without a value, left out: {int(empty.sum()):,}"
    return rows._replace(table=table[~empty].reset_index(drop=True), notes=(*rows.notes, said))


def _inside(path: Path) -> list[str]:
    try:
        return members(path)
    except UNREADABLE:
        return []


def _of_name(inside: list[str], name: str, archive: str) -> str:
    held = [member for member in inside if PurePosixPath(member).name == name]
    if len(held) > 1:
        raise ValueError(
            f"{archive} holds {len(held)} files with the name {name!r} "
            f"({', '.join(map(repr, held[:3]))}): take out the one that is meant"
        )
    return held[0] if held else ""
