"""The rows of a CSV or parquet file, packed or not, as a table."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ppkit.reading.csv_layout import Layout, Unfit, layout_of, refuse_twins
from ppkit.reading.first_bytes import HEAD, NEITHER, kind_of, neither

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    RuntimeError,
    lzma.LZMAError,
    zipfile.BadZipFile,
    zlib.error,
)


class Rows(NamedTuple):
    """A table as it was read; the SHA-256 of the CSV, unpacked, "" of a parquet file; and what was
    no plain CSV, in words.
    """

    table: pd.DataFrame
    sha256: str
    notes: tuple[str, ...] = ()


def read_rows(
    path: Path,
    *,
    said: str = "",
    member: str = "",
    texts: tuple[str, ...] = (),
    largest: int | None = None,
    latin_1: bool = False,
) -> Rows:
    """The rows of a CSV or parquet file, packed or not, whatever it is called.

    Read are parquet, and CSV in UTF-8 or UTF-16, alone or in gzip, bz2, xz, zstd or zip; with
    commas, semicolons (then also with a decimal comma), tabs or bars; below a line "sep=;" or a
    sentence.  The names of the rows that R writes without a header are left out.  Of a parquet
    file, decimals become numbers, categories the values they stand for, an index with a name is a
    column, and an empty text is missing, as in a CSV.
    said: how a person knows the file, default its name.  member: of a zip, "" for its only file.
    texts: columns of which "NA", "null" and the like are texts, and digits too; in parquet, where
    they have a type, those of decimals.
    largest: bytes that the file may have, unpacked; None for any number.
    latin_1: whether a CSV that is not UTF-8 is read as Latin-1, or refused.
    ValueError in one sentence, never with a value of a row: a file of another kind, which it names,
    with what to do; a zip of several files; a CSV whose columns are uncertain, see
    `csv_layout.layout_of`; a file that cannot be read to its end.
    """
    with named(path, said):
        content = _content(path, member or _only_member(path), largest)
        kind = kind_of(content[:HEAD])
        if kind == "parquet":
            return Rows(_parquet(content, texts), "")
        if kind != "csv":  # something else, or a packing too many
            raise Unfit(neither(kind if kind in NEITHER else "archive"))
        layout = layout_of(content[:HEAD])
        try:
            table = _csv(content, layout, texts)
        except UnicodeDecodeError as error:
            if layout.encoding != "utf-8" or not latin_1:
                expected = layout.encoding.removesuffix("-sig").upper()
                raise Unfit(f"is no text in {expected}: save it as a CSV in UTF-8") from error
            notes = (*layout.notes, "not in UTF-8, read as Latin-1")
            layout = replace(layout, encoding="latin-1", notes=notes)
            table = _csv(content, layout, texts)
        return Rows(table, hashlib.sha256(content).hexdigest(), layout.notes)


def _csv(content: bytes, layout: Layout, texts: tuple[str, ...]) -> pd.DataFrame:
    import pandas as pd

    def read(**choices) -> pd.DataFrame:
        return pd.read_csv(
            io.BytesIO(content),
            encoding=layout.encoding,
            sep=layout.separator,
            decimal=layout.decimal,
            skiprows=layout.skip,
            low_memory=False,
            **choices,
        )

    table = read(dtype=dict.fromkeys(texts, "str"))
    for column in texts:
        if column in table and table[column].isna().any():
            # what pandas reads as missing, such as "NA" and "null", stays as it stands in the file
            as_written = read(dtype="str", keep_default_na=False, na_values=[""])
            table[column] = as_written[column].to_numpy()
    return table.reset_index(drop=True)


def _parquet(content: bytes, texts: tuple[str, ...]) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.ParquetFile(io.BytesIO(content)).read()
    refuse_twins(table.column_names)
    fields = [field.with_type(_plain(field.type, field.name in texts)) for field in table.schema]
    table = table.cast(pa.schema(fields, metadata=table.schema.metadata)).to_pandas()
    has_names = any(name is not None for name in table.index.names)
    # pyarrow keeps an empty field of a CSV as an empty text
    return table.reset_index(drop=not has_names).replace("", np.nan)


def _plain(kind: pa.DataType, is_text: bool) -> pa.DataType:
    """The type of numbers for decimals, and of what its values stand for for a category.

    is_text: whether whole decimals are texts, as long as they may be."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_decimal(kind):
        if is_text and kind.scale == 0:
            return pa.string()
        return pa.int64() if kind.scale <= 0 else pa.float64()
    return kind


def _content(path: Path, member: str, largest: int | None) -> bytes:
    """The bytes of a file, or of a member of a zip, without packings; at most two are taken off."""
    if member:
        with zipfile.ZipFile(path) as archive:
            n_declared = archive.getinfo(member).file_size
            if largest is not None and n_declared > largest:
                raise ValueError(f"it declares {n_declared:,} bytes, expected at most {largest:,}")
            content = archive.read(member)
    else:
        content = path.read_bytes()
    for _ in range(2):
        kind = kind_of(content[:HEAD])
        if kind in _UNPACKED:
            with _UNPACKED[kind](io.BytesIO(content)) as file:
                content = file.read(-1 if largest is None else largest + 1)
    if largest is not None and len(content) > largest:
        raise ValueError(f"it has more than {largest:,} bytes, unpacked")
    return content


def _zstd(file: io.BytesIO) -> pa.NativeFile:
    import pyarrow as pa

    return pa.CompressedInputStream(file, "zstd")


_UNPACKED: dict[str, Callable[[io.BytesIO], pa.NativeFile | io.BufferedIOBase]] = {
    "gzip": lambda file: gzip.GzipFile(fileobj=file),
    "bz2": bz2.BZ2File,
    "xz": lzma.LZMAFile,
    "zstd": _zstd,
}


def _only_member(path: Path) -> str:
    """The one file of a zip, or the one that is called as the zip; "" of another file."""
    with open(path, "rb") as file:
        if kind_of(file.read(HEAD)) != "zip":
            return ""
    inside = members(path)
    if any(name.startswith("xl/workbook.") for name in inside):
        raise Unfit(neither("excel"))
    of_its_name = [name for name in inside if PurePosixPath(name).name == path.name]
    chosen = of_its_name if len(of_its_name) == 1 else inside
    if len(chosen) == 1:
        return chosen[0]
    listed = ", ".join(repr(name[:60]) for name in inside[:3])
    raise Unfit(
        f"is a zip of {len(inside)} files ({listed}), expected one: take out the one that is meant"
    )


def members(path: Path) -> list[str]:
    """The files of a zip, without folders and what macOS adds.  One of UNREADABLE if it is none."""
    with zipfile.ZipFile(path) as archive:
        names = [one.filename for one in archive.infolist() if not one.is_dir()]
    # macOS adds files that begin with a point
    return [name for name in names if not PurePosixPath(name).name.startswith(".")]


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
