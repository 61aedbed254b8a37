"""What a file is by its first bytes, whatever its name says; and what to do with a file that is
neither a CSV nor parquet.
"""

import re

HEAD = 1 << 20  # bytes that are looked at, enough for a header of ten thousand columns

_BEGINNINGS = {  # what a file begins with
    b"PK\x03\x04": "zip",
    b"PK\x05\x06": "zip",  # one that holds nothing
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PAR1\x15": "parquet",
    b"ARROW1\x00": "arrow",
    b"FEA1\x00": "arrow",
    b"SQLite format 3\x00": "sqlite",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "excel",
    b"\x89HDF\r\n\x1a\n": "hdf5",
    b"\x93NUMPY": "numpy",
    b"7z\xbc\xaf\x27\x1c": "archive",
    b"Rar!\x1a": "archive",
    b"version https://git-lfs": "lfs",
    b"\x80\x02": "pickle",
    b"\x80\x03": "pickle",
    b"\x80\x04": "pickle",
    b"\x80\x05": "pickle",
    b"RDX2\n": "r",
    b"RDX3\n": "r",
    b"X\n\x00": "r",
}
_TEXT_MARKS = {  # of an encoding
    b"\xff\xfe\x00\x00": "utf-32",
    b"\x00\x00\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
    b"\xef\xbb\xbf": "utf-8-sig",
}
_BZ2 = re.compile(rb"BZh[1-9](1AY&SY|\x17\x72\x45)")  # a block, or the end of an empty one
_PAGE = re.compile(
    rb"<(!doctype|html|head|title|body|meta|script|table|div|center|h1|error)\b|<!--|<\?xml",
    re.IGNORECASE,
)
_JSON = re.compile(rb'(\{\s*"|\[\s*[\[{])')
NEITHER: dict[str, tuple[str, str]] = {  # what it is, and what to do
    "nothing": ("empty", "download or write it again"),
    "html": ("a web page", "log in where it lies and download it again"),
    "json": ("JSON", "pandas.read_json(...).to_csv(..., index=False) writes its rows as a CSV"),
    "lfs": ("a Git LFS pointer", "`git lfs pull` brings the file that it points to"),
    "excel": ("an Excel workbook", "save it in Excel as 'CSV UTF-8'"),
    "sqlite": ("an SQLite database", "`sqlite3 -csv -header FILE 'SELECT * FROM t'` writes a CSV"),
    "duckdb": ("a DuckDB database", "COPY t TO 'FILE.parquet' in DuckDB writes one of its tables"),
    "arrow": ("an Arrow file", "pandas.read_feather(...).to_parquet(...) writes it as parquet"),
    "hdf5": ("an HDF5 file", "write its table as parquet"),
    "numpy": ("a NumPy array", "write its columns, with their names, as a CSV"),
    "pickle": ("a pickle, which can run code", "write the table as parquet, from where you trust"),
    "r": ("an R object", "write.csv(..., row.names = FALSE) in R writes a CSV"),
    "archive": ("an archive of a kind that is not read", "unpack it here"),
    "tar": ("a tar archive", "unpack it here"),
    "bytes": ("no text: it holds zero bytes", "write it as a CSV in UTF-8"),
}


def kind_of(head: bytes) -> str:
    r"""What a file is by its first bytes: "csv", "parquet", a packing or one of NEITHER.

    A packing is "zip", "gzip", "bz2", "xz" or "zstd".
    head: the first HEAD bytes of the file, all of it where it is shorter.
    What is nothing else is "csv".

    >>> kind_of(b"PAR1\x15\x04"), kind_of(b"id,amount"), kind_of(b"<!DOCTYPE html>"), kind_of(b"")
    ('parquet', 'csv', 'html', 'nothing')
    """
    if not head.strip(b"\x00 \t\r\n\xef\xbb\xbf"):
        return "nothing"
    for beginning, kind in _BEGINNINGS.items():
        if head.startswith(beginning):
            return kind
    if _BZ2.match(head):
        return "bz2"
    if head[8:12] == b"DUCK":
        return "duckdb"
    if head[257:262] == b"ustar":
        return "tar"
    if encoding_of(head).startswith("utf-16"):
        return "csv"
    if b"\x00" in head:
        return "bytes"
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if _PAGE.match(text):
        return "html"
    if _JSON.match(text):
        return "json"
    return "csv"


def encoding_of(head: bytes) -> str:
    """The encoding of a text by its mark; "utf-8" where it has none."""
    for mark, encoding in _TEXT_MARKS.items():
        if head.startswith(mark):
            return encoding
    return "utf-8"


def neither(kind: str) -> str:
    """Why a file of this kind is not read, and what to do: the end of a sentence.

    >>> neither("html")
    'is a web page, expected a CSV or parquet file: log in where it lies and download it again'
    """
    what, remedy = NEITHER[kind]
    return f"is {what}, expected a CSV or parquet file: {remedy}"
