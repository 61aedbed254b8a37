"""How a CSV is laid out, as its first lines tell: encoding, lines above the header, what stands
between two columns, the decimal mark; and what makes its columns uncertain.
"""

import csv
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass

from .first_bytes import HEAD, encoding_of

SEPARATORS = (",", ";", "\t", "|")
_SEP_LINE = re.compile(r'^"?sep=(.)"?[,;\s]*$', re.IGNORECASE)  # Excel's own first line
_WITH_POINT = re.compile(r"[-+]?\d*\.\d+([eE][-+]?\d+)?%?")
_WITH_COMMA = re.compile(r"[-+]?\d*,\d+([eE][-+]?\d+)?")
_WHOLE = re.compile(r"[-+]?\d+")
_NUMBERS = (_WITH_POINT, _WITH_COMMA, _WHOLE)
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
    header: tuple[str, ...]
    skip: int = 0
    separator: str = ","
    decimal: str = "."
    notes: tuple[str, ...] = ()


def layout_of(head: bytes) -> Layout:
    """The layout of a CSV by its first HEAD bytes, all of it where it is shorter.

    The separator is the one by which most rows have as many fields as the header; a decimal comma
    is taken only beside another one than the comma, where no number has a point, and where it
    cannot be a mark of thousands.
    Lines above the header are left out if they hold one sentence and the next line has columns.
    Unfit, the end of a sentence that begins with the file's name: a header of numbers, two
    columns with one name, rows with other numbers of fields than the header.
    """
    encoding = encoding_of(head)
    lines = io.StringIO(head.decode(encoding, errors="replace"), newline="").readlines()
    if len(head) >= HEAD:
        lines = lines[:-1]  # the last one may be cut
    notes = [f"read as {encoding.upper()}"] if encoding.startswith("utf-16") else []
    skip, separator = _above(lines)
    if skip:
        notes.append(f"left out above the header: {' '.join(lines[:skip]).strip()[:60]!r}")
    separator = separator or _separator(lines[skip:])
    rows = _rows(lines[skip:], separator)
    if len(head) >= HEAD:
        rows = rows[:-1]  # a text of several lines may be cut
    header = tuple(rows[0]) if rows else ()
    _refuse_numbers(header)
    _refuse_twins(header)
    _refuse_uneven(header, rows[1:], escaped=_escapes(lines, separator))
    decimal = _decimal(rows[1:]) if separator != "," else "."
    if separator != ",":
        notes.append(f"{separator!r} stands between its columns")
    if decimal != ".":
        notes.append("its decimal mark is a comma")
    return Layout(encoding, header, skip, separator, decimal, tuple(notes))


def _above(lines: list[str]) -> tuple[int, str]:
    """How many lines stand above the header, and the separator that they name, if any."""
    first = next((i for i, line in enumerate(lines) if line.strip()), 0)
    if first < len(lines) and (named := _SEP_LINE.match(lines[first].rstrip("\r\n"))):
        return first + 1, named[1]
    skip, full = 0, [i for i, line in enumerate(lines) if line.strip()]
    for here, below in zip(full, full[1:]):
        if not (is_sentence(lines[here]) and _columns(lines[below]) > 1):
            break
        skip = here + 1
    return skip, ""


def is_sentence(line: str) -> bool:
    """Whether a line of a CSV holds one text of three words or more and nothing else.

    >>> is_sentence("Notes offered by Prospectus,,,"), is_sentence("id,amount"), is_sentence("id")
    (True, False, False)
    """
    fields = [field for row in csv.reader([line]) for field in row if field.strip()]
    if len(fields) != 1 or any(one in fields[0] for one in SEPARATORS[1:]):
        return False
    return len(fields[0].split()) >= 3


def _columns(line: str) -> int:
    return max(len(next(csv.reader([line], delimiter=one), [])) for one in SEPARATORS)


def _separator(lines: list[str]) -> str:
    """The one of those in the header that fits the rows best; the header alone may hold a comma in
    the name of a column.
    """
    header = next((line for line in lines if line.strip()), "")
    possible = [one for one in SEPARATORS if len(next(csv.reader([header], delimiter=one), [])) > 1]
    if len(possible) < 2:
        return possible[0] if possible else ","
    return max(possible, key=lambda one: _fit(lines, one))


def _fit(lines: list[str], separator: str) -> tuple[float, float, int]:
    """Of the rows, the share with as many fields as the header; of their fields, the share of
    numbers; the fields of the header.
    """
    header, *rows = _rows(lines, separator)
    n_columns = len(header)
    agree = [row for row in rows if len(row) == n_columns]
    fields = [field.strip() for row in agree for field in row]
    numeric = sum(any(form.fullmatch(field) for form in _NUMBERS) for field in fields)
    return len(agree) / max(len(rows), 1), numeric / max(len(fields), 1), n_columns


def _rows(lines: list[str], separator: str) -> list[list[str]]:
    """The header and the rows, without empty lines."""
    try:
        return [row for row in csv.reader(lines, delimiter=separator) if row]
    except csv.Error as error:
        raise Unfit(
            f"has a text of more than {csv.field_size_limit():,} characters, as where a quote is "
            "not closed: write quotes inside a text twice"
        ) from error


def _refuse_numbers(header: tuple[str, ...]) -> None:
    """Names 0, 1, 2, ... are pandas' own; other numbers are a row."""
    names = [name.strip() for name in header]
    whole = bool(names) and all(_WHOLE.fullmatch(name) for name in names)
    counted = whole and sorted(map(int, names)) == list(range(len(names)))
    if any(_WITH_POINT.fullmatch(name) for name in names) or whole and not counted:
        raise Unfit(
            "has no header: its first line holds numbers, expected the names of its columns"
        )


def _refuse_twins(header: tuple[str, ...]) -> None:
    seen: set[str] = set()
    for name in header:
        if name.strip() and name in seen:
            raise Unfit(f"has two columns with the name {name[:40]!r}: take one out or rename it")
        seen.add(name)


def _escapes(lines: list[str], separator: str) -> bool:
    """Whether quotes stand inside texts behind a backslash, as Spark writes them: then neither a
    separator nor an end follows, as it does where a text itself ends with a backslash.
    """
    inside = re.compile(rf'\\"[^"\r\n{re.escape(separator)}]')
    return any(inside.search(line) for line in lines)


def _refuse_uneven(header: tuple[str, ...], rows: list[list[str]], *, escaped: bool) -> None:
    """Rows with one field more than the header pass only if the first one is the row's name, as in
    R: all differ, and the last field holds something.  Shorter rows pass, as a file's last lines
    are.  Beside quotes behind a backslash neither passes.
    """
    longer = [row for row in rows if len(row) > len(header)]
    shorter = [row for row in rows if len(row) < len(header)]
    if escaped and (longer or shorter):
        raise Unfit(uneven_row(len((longer or shorter)[0]), len(header), DOUBLED))
    if not longer:
        return
    by_one = {len(row) for row in rows} == {len(header) + 1}
    ends_empty = not any(row[-1].strip() for row in rows)
    if by_one and ends_empty:
        raise Unfit(
            "has one field more in its rows than names in its header: write it without row names "
            "(pandas: to_csv(index=False), R: row.names = FALSE) and without a comma at the end of "
            "a row"
        )
    if by_one and len({row[0] for row in rows}) == len(rows) > 1:
        return
    raise Unfit(uneven_row(len(longer[0]), len(header), QUOTED))


QUOTED = "put texts that hold the separator between quotes"
DOUBLED = "write quotes inside a text twice, in Spark by option('escape', '\"')"


def uneven_row(n_fields: int, n_columns: int, remedy: str, where: str = "a row") -> str:
    """Why a file whose rows do not fit its header is not read: the end of a sentence."""
    return (
        f"has {n_fields} fields in {where} below a header of {n_columns} columns, so that its "
        f"columns are uncertain: {remedy}"
    )


def _decimal(rows: list[list[str]]) -> str:
    fields = [field.strip() for row in rows for field in row]
    if any(_WITH_POINT.fullmatch(field) for field in fields):
        return "."
    with_comma = [field for field in fields if _WITH_COMMA.fullmatch(field)]
    certain = [field for field in with_comma if not _THOUSANDS.fullmatch(field)]
    return "," if certain else "."


def may_be_thousands(fields: Iterable[str]) -> bool:
    """Whether each number with a point may be a whole number with marks of thousands.

    It may where one to three digits, not beginning with 0, stand before it and three behind it:
    "1.200" is 1200 in German and 1.2 in English.

    >>> may_be_thousands(["950", "1.200"]), may_be_thousands(["1.200", "0.125"])
    (True, False)
    """
    with_point = [field.strip() for field in fields if "." in field]
    return bool(with_point) and all(_POINTED_THOUSANDS.fullmatch(field) for field in with_point)
