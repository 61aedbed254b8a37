"""How a CSV is laid out, as its first lines tell: encoding, lines above the header, what stands
between two columns, the decimal mark; and what makes its columns uncertain.
"""

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ppkit.reading.first_bytes import HEAD, encoding_of

SEPARATORS = (";", "\t", "|", ",")  # of two that fit alike the first: names and numbers hold commas
_SEP_LINE = re.compile(r'"?sep=(.)"?[,;\s]*', re.IGNORECASE)  # Excel's own first line
_WITH_POINT = re.compile(r"[-+]?\d*\.\d+([eE][-+]?\d+)?%?")
_WITH_COMMA = re.compile(r"[-+]?\d*,\d+([eE][-+]?\d+)?")
_WHOLE = re.compile(r"[-+]?\d+")
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+")
_POINTED_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(\.\d{3})+")  # or three decimals


class Unfit(ValueError):
    """Why a file is not read: the end of a sentence that begins with its name."""


@dataclass(frozen=True)
class Layout:
    """How to read a CSV; `notes` say what was no plain CSV in UTF-8 with commas.

    skip: lines above the header.
    """

    encoding: str
    skip: int
    separator: str
    decimal: str
    notes: tuple[str, ...]


def layout_of(head: bytes) -> Layout:
    """The layout of a CSV by its first HEAD bytes, all of it where it is shorter.

    The separator is the one by which most rows have as many fields as the header.  A decimal comma
    is taken only beside another separator than the comma, where no number has a point, and where
    the comma cannot be a mark of thousands.
    Lines above the header are left out if they hold one sentence and the next line has columns.
    Unfit, the end of a sentence that begins with the file's name: a header of numbers, two
    columns with one name, rows with other numbers of fields than the header, and beside another
    separator than the comma a column whose points may all mark thousands.
    """
    is_cut = len(head) >= HEAD
    encoding = encoding_of(head)
    lines = io.StringIO(head.decode(encoding, errors="replace"), newline="").readlines()
    if is_cut:
        lines.pop()
    skip, separator = _above(lines)
    below = lines[skip:]
    separator = separator or _separator(below)
    rows = _rows(below, separator)
    if is_cut:
        rows.pop()  # a text of several lines may be cut
    header = rows.pop(0) if rows else []
    _refuse_numbers(header)
    refuse_twins(header)
    _refuse_uneven(header, rows, has_escapes=_has_escapes(below, separator))
    decimal = "." if separator == "," else _decimal(header, rows)

    notes = []
    if encoding.startswith("utf-16"):
        notes.append(f"read as {encoding.upper()}")
    if skip:
        notes.append(f"left out above the header: {' '.join(lines[:skip]).strip()[:60]!r}")
    if separator != ",":
        notes.append(f"{separator!r} stands between its columns")
    if decimal != ".":
        notes.append("its decimal mark is a comma")
    return Layout(encoding, skip, separator, decimal, tuple(notes))


def _above(lines: list[str]) -> tuple[int, str]:
    """How many lines stand above the header, and the separator that they name, if any."""
    full = [i for i, line in enumerate(lines) if line.strip()]
    if not full:
        return 0, ""
    of_excel = _SEP_LINE.fullmatch(lines[full[0]].rstrip("\r\n"))
    if of_excel:
        return full[0] + 1, of_excel[1]
    skip = 0
    for here, below in pairwise(full):
        widest = max(len(_fields(lines[below], separator)) for separator in SEPARATORS)
        if not _is_sentence(lines[here]) or widest == 1:
            break
        skip = here + 1
    return skip, ""


def _is_sentence(line: str) -> bool:
    """Whether a line of a CSV holds one text of three words or more and nothing else.

    >>> _is_sentence("Notes offered by Prospectus,,,"), _is_sentence("id,amount")
    (True, False)
    """
    texts = [field for field in _fields(line, ",") if field.strip()]
    if len(texts) != 1 or any(separator in texts[0] for separator in ";\t|"):
        return False
    return len(texts[0].split()) >= 3


def _fields(line: str, separator: str) -> list[str]:
    return next(csv.reader([line], delimiter=separator), [])


def _separator(lines: list[str]) -> str:
    """The one of those in the header by which most rows have as many fields as the header."""
    header = next((line for line in lines if line.strip()), "")
    possible = [separator for separator in SEPARATORS if len(_fields(header, separator)) > 1]

    def fit(separator: str) -> tuple[float, int]:
        header, *rows = _rows(lines, separator)
        n_agree = sum(len(row) == len(header) for row in rows)
        return n_agree / max(len(rows), 1), len(header)

    return max(possible, key=fit, default=",")


def _rows(lines: list[str], separator: str) -> list[list[str]]:
    """The header and the rows, without empty lines."""
    try:
        return [row for row in csv.reader(lines, delimiter=separator) if row]
    except csv.Error as error:
        raise Unfit(
            f"has a text of more than {csv.field_size_limit():,} characters, as where a quote is "
            "not closed: write quotes inside a text twice"
        ) from error


def _refuse_numbers(header: list[str]) -> None:
    names = [name.strip() for name in header]
    all_whole = bool(names) and all(_WHOLE.fullmatch(name) for name in names)
    if all_whole or any(_WITH_POINT.fullmatch(name) for name in names):
        raise Unfit(
            "has no header: its first line holds numbers, expected the names of its columns"
        )


def refuse_twins(names: Sequence[str]) -> None:
    """Unfit if two columns have one name.  Columns without a name are not compared."""
    for name in names:
        if name.strip() and names.count(name) > 1:
            raise Unfit(f"has two columns with the name {name[:40]!r}: take one out or rename it")


def _has_escapes(lines: list[str], separator: str) -> bool:
    """Whether quotes stand inside texts behind a backslash, as Spark writes them: then neither a
    separator nor an end follows, as it does where a text itself ends with a backslash.
    """
    inside = re.compile(rf'\\"[^"\r\n{re.escape(separator)}]')
    return any(inside.search(line) for line in lines)


def _refuse_uneven(header: list[str], rows: list[list[str]], *, has_escapes: bool) -> None:
    """Refuse rows that are longer than the header, and any uneven ones beside escaped quotes.

    Rows with one field more pass only if the first one is the row's name, as in R: all differ, and
    the last field holds something.  Shorter rows pass, as a file's last lines are.
    """
    longer = [row for row in rows if len(row) > len(header)]
    uneven = longer or [row for row in rows if len(row) < len(header) and has_escapes]
    if not uneven:
        return
    if not has_escapes and {len(row) for row in rows} == {len(header) + 1}:
        if not any(row[-1].strip() for row in rows):
            raise Unfit(
                "has one field more in its rows than names in its header: write it without a comma "
                "at the end of a row"
            )
        if len({row[0] for row in rows}) == len(rows) > 1:
            return
    raise Unfit(
        f"has {len(uneven[0])} fields in a row below a header of {len(header)} columns, so that "
        "its columns are uncertain: put texts that hold the separator between quotes, and write "
        "quotes inside a text twice, in Spark by option('escape', '\"')"
    )


def _decimal(header: list[str], rows: list[list[str]]) -> str:
    """The decimal mark beside another separator than the comma."""
    fields = [field.strip() for row in rows for field in row]
    if any(_WITH_POINT.fullmatch(field) for field in fields):
        _refuse_thousands(header, rows)
        return "."
    with_comma = [field for field in fields if _WITH_COMMA.fullmatch(field)]
    is_certain = any(not _THOUSANDS.fullmatch(field) for field in with_comma)
    return "," if is_certain else "."


def _refuse_thousands(header: list[str], rows: list[list[str]]) -> None:
    """Refuse a column whose numbers with a point may all be whole ones with marks of thousands.

    They may where one to three digits, not beginning with 0, stand before the point and three
    behind it: "1.200" is 1200 in German and 1.2 in English.
    """
    full = [row[-len(header) :] for row in rows if len(row) >= len(header)]
    for name, fields in zip(header, zip(*full)):
        with_point = [field.strip() for field in fields if "." in field]
        if with_point and all(_POINTED_THOUSANDS.fullmatch(field) for field in with_point):
            raise Unfit(
                f"holds numbers such as 1.200 in column {name[:40]!r}, which may be 1200 or 1.2: "
                "write it without marks of thousands, or with a comma as the separator"
            )
