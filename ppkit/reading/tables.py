"""The rows of a CSV or parquet file, packed or not, as a table."""

import bz2
import csv
import gzip
import hashlib
import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from .csv_layout import DOUBLED, QUOTED, Layout, Unfit, layout_of, may_be_thousands, uneven_row
from .first_bytes import HEAD, NEITHER, PACKED, kind_of, neither, spreadsheet

UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    RuntimeError,
    csv.Error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    zlib.error,
)
_CHUNK = 1 << 20  # bytes
_TOO_MANY_FIELDS = re.compile(r"Expected (\d+) fields in line (\d+), saw (\d+)")  # pandas' words


class Rows(NamedTuple):
    """A table as it was read; the SHA-256 of the CSV, unpacked, "" of a parquet file; and what was
    no plain CSV, in words.
    """

    table: pd.DataFrame
    sha256: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """Where rows lie: in a file or a member of a zip, and in which packings, from outside in."""

    path: Path
    member: str = ""
    packings: tuple[str, ...] = ()

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """What is inside, unpacked as it is read."""
        with ExitStack() as stack:
            if self.member:
                archive = stack.enter_context(zipfile.ZipFile(self.path))
                file = stack.enter_context(archive.open(self.member))
            else:
                file = stack.enter_context(open(self.path, "rb"))
            for kind in self.packings:
                file = stack.enter_context(_UNPACKED[kind](file))
            yield file


def read_rows(
    path: Path,
    *,
    said: str = "",
    member: str = "",
    texts: tuple[str, ...] = (),
    largest: int | None = None,
    otherwise: str | None = None,
) -> Rows:
    """The rows of a CSV or parquet file, packed or not, whatever it is called.

    Read are parquet, and CSV in UTF-8 or UTF-16, alone or in gzip, bz2, xz, zstd or zip; with
    commas, semicolons (then also with a decimal comma), tabs or bars; below a line "sep=;" or a
    sentence.  Of a parquet file, decimals become numbers, categories the values they stand for, and
    an empty text is missing, as in a CSV.
    said: how a person knows the file, default its name.  member: of a zip, "" for its only file.
    texts: columns of which "NA", "null" and the like are texts, and digits too.
    largest: bytes that the CSV may have, unpacked; None for any number.
    otherwise: the encoding of a CSV that is not UTF-8, None to refuse it.
    An index of pandas stays one, and so do the names of the rows that R writes without a header.
    ValueError in one sentence, never with a value of a row: a file of another kind, which it names,
    with what to do; a zip of several files; a CSV whose columns are uncertain, see
    `csv_layout.layout_of`; a file that cannot be read to its end.
    """
    with named(path, said):
        source, head = _unwrapped(path, member or _only_member(path), largest)
        kind = kind_of(head)
        if kind in NEITHER:
            raise Unfit(neither(kind))
        if kind not in ("csv", "parquet"):  # a packing too many
            raise Unfit(neither("archive"))
        if kind == "parquet":
            with source.opened() as file:
                return Rows(_parquet(file), "")
        with source.opened() as file:
            digest = _digest(file, largest)
        layout = layout_of(head)
        try:
            return Rows(_csv(source, layout, layout.encoding, texts), digest, layout.notes)
        except UnicodeDecodeError as error:
            if otherwise is None or layout.encoding != "utf-8":
                expected = layout.encoding.removesuffix("-sig").upper()
                raise Unfit(f"is no text in {expected}: save it as a CSV in UTF-8") from error
        notes = (*layout.notes, f"not in UTF-8, read as {otherwise.capitalize()}")
        return Rows(_csv(source, layout, otherwise, texts), digest, notes)


def _csv(source: Source, layout: Layout, encoding: str, texts: tuple[str, ...]) -> pd.DataFrame:
    settings = dict(
        encoding=encoding,
        sep=layout.separator,
        decimal=layout.decimal,
        skiprows=layout.skip,
        low_memory=False,
    )
    try:
        with source.opened() as file:
            table = pd.read_csv(file, dtype=dict.fromkeys(texts, "str"), **settings)
    except pd.errors.ParserError as error:
        raise _said_by_pandas(error) from error
    # what pandas reads as missing, such as "NA" and "null", stays here as it stands in the file
    as_written = settings | dict(dtype="str", keep_default_na=False, na_values=[""])
    for column in texts:
        if column in table and table[column].isna().any():
            with source.opened() as file:
                table[column] = pd.read_csv(file, **as_written)[column].to_numpy()
    if layout.separator != "," and layout.decimal == ".":
        _refuse_thousands(table, source, as_written)
    return table


def _said_by_pandas(error: pd.errors.ParserError) -> ValueError:
    """A row that is longer than the header in our words, something else in pandas'."""
    longer = _TOO_MANY_FIELDS.search(str(error))
    if not longer:
        return error
    n_columns, line, n_fields = map(int, longer.groups())
    remedy = f"{QUOTED}, and {DOUBLED}"
    return Unfit(uneven_row(n_fields, n_columns, remedy, f"line {line:,}"))


def _refuse_thousands(table: pd.DataFrame, source: Source, as_written: dict) -> None:
    """Refuse a column all of whose points may mark thousands, as Excel writes them in German.

    Beside a comma as the separator a point is the decimal one.
    """
    possible = [i for i, kind in enumerate(table.dtypes) if kind == np.float64]
    possible = [i for i in possible if _in_thousandths(table.iloc[:, i].to_numpy())]
    if not possible:
        return
    with source.opened() as file:
        texts = pd.read_csv(file, **as_written)
    for i in possible:
        if may_be_thousands(texts.iloc[:, i].dropna()):
            raise Unfit(
                f"holds numbers such as 1.200 in column {str(table.columns[i])[:40]!r}, which may "
                "be 1200 or 1.2: write it without marks of thousands, or with a comma as the "
                "separator"
            )


def _in_thousandths(values: np.ndarray) -> bool:
    """Whether the values are whole thousandths below 1000, and all but 0 at least 1."""
    held = np.abs(values[np.isfinite(values)])
    broken = held[held % 1 != 0]
    few_digits = np.abs(broken * 1000 - np.rint(broken * 1000)) < 1e-6
    return bool(len(held)) and bool(np.all(few_digits & (broken >= 1) & (broken < 1000)))


def _parquet(file: BinaryIO) -> pd.DataFrame:
    # here, because a CSV needs none of it
    import pyarrow.parquet as pq

    schema = pq.read_schema(file)
    twins = [name for name in schema.names if schema.names.count(name) > 1]
    if twins:
        raise Unfit(f"has two columns with the name {twins[0][:40]!r}: take one out or rename it")
    file.seek(0)
    table = pd.read_parquet(file)
    for field in schema:
        if field.name not in table.columns:
            continue  # the index of pandas
        if pa.types.is_decimal(field.type):
            table[field.name] = _decimals(table[field.name], field.type.scale)
        elif isinstance(table[field.name].dtype, pd.CategoricalDtype):
            table[field.name] = pd.Series(table[field.name].tolist(), index=table.index)
        if pd.api.types.is_string_dtype(table[field.name]):
            # pyarrow keeps an empty field of a CSV as an empty text
            table[field.name] = table[field.name].mask(table[field.name] == "")
    return table


def _decimals(values: pd.Series, scale: int) -> pd.Series:
    """Whole numbers to the last digit, others as float64."""
    whole = values.dropna()
    if scale <= 0 and len(whole) == len(values) and (whole.abs() < 2**63).all():
        return values.astype(object).map(int).astype(np.int64)
    if scale <= 0:
        return values.astype(object).map(str, na_action="ignore")
    return values.astype(object).astype(np.float64)


# what is inside


def _only_member(path: Path) -> str:
    """The one file of a zip, "" of another file."""
    with open(path, "rb") as file:
        if kind_of(file.read(HEAD)) != "zip":
            return ""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    if kind := spreadsheet(names):
        raise Unfit(neither(kind))
    held = members(path)
    of_its_name = [name for name in held if PurePosixPath(name).name == path.name]
    if len(held) == 1 or len(of_its_name) == 1:
        return (of_its_name or held)[0]
    listed = ", ".join(repr(name[:60]) for name in held[:3])
    raise Unfit(
        f"is a zip of {len(held)} files{listed and f' ({listed})'}, expected one: take out the "
        "one that is meant"
    )


def members(path: Path) -> list[str]:
    """The files of a zip, without folders and what macOS adds.  One of UNREADABLE if it is none."""
    with zipfile.ZipFile(path) as archive:
        names = [one.filename for one in archive.infolist() if not one.is_dir()]
    # macOS adds files that begin with a point
    return [name for name in names if not PurePosixPath(name).name.startswith(".")]


def _unwrapped(path: Path, member: str, largest: int | None) -> tuple[Source, bytes]:
    """The source without its packings, of which at most two are taken off; its first bytes."""
    if member and largest is not None:
        with zipfile.ZipFile(path) as archive:
            if (declared := archive.getinfo(member).file_size) > largest:
                raise ValueError(f"it declares {declared:,} bytes, expected at most {largest:,}")
    source = Source(path, member)
    while True:
        with source.opened() as file:
            head = file.read(HEAD)
        kind = kind_of(head)
        if kind not in PACKED or len(source.packings) == 2:
            return source, head
        source = Source(path, member, (*source.packings, kind))


def _zstd(file: BinaryIO) -> BinaryIO:
    return io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd"))


_UNPACKED = {
    "gzip": lambda file: gzip.GzipFile(fileobj=file),
    "bz2": bz2.BZ2File,
    "xz": lzma.LZMAFile,
    "zstd": _zstd,
}


def _digest(file: BinaryIO, largest: int | None) -> str:
    """The SHA-256 of what is inside, read to its end, or to more bytes than there may be."""
    digest, n_bytes = hashlib.sha256(), 0
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
        n_bytes += len(chunk)
        if largest is not None and n_bytes > largest:
            raise ValueError(f"it has more than {largest:,} bytes, unpacked")
    return digest.hexdigest()


def all_missing(table: pd.DataFrame, columns: Collection) -> np.ndarray:
    """Which rows hold nothing in these columns, as a mask (N,)."""
    missing = np.ones(len(table), bool)
    for column in columns:
        missing &= table[column].isna().to_numpy()
        if not missing.any():
            break
    return missing


@contextmanager
def named(path: Path, said: str = "") -> Iterator[None]:
    """One sentence with the file's name, not its path, for whatever keeps it from being read.

    said: how a person knows the file, default its name.
    """
    said = said or path.name
    try:
        yield
    except Unfit as error:
        raise ValueError(f"{said} {error}") from error
    except UNREADABLE as error:
        why = getattr(error, "strerror", None) or str(error).strip().split("\n")[0]
        raise ValueError(
            f"{said} cannot be read to its end: {why.replace(str(path), path.name)}"
        ) from error
