"""A table of a paper in the paper's own layout: what it prints, what we get, and the difference."""

import pandas as pd

from ppkit.show import numbers

LINES = ("printed", "ours", "difference")


def beside(table, ours: dict, *, data, digits: int | None = None) -> numbers.Table:
    """A paper's table, three lines a row: printed, ours, difference (ours less printed).

    table: of `verdicts.tables`.  data: as `show.sources`.
    ours: our number by (row, column) of the table; a column without any is a setting and stands in
    the first line only.
    digits: decimals of ours and of the difference; None for as many as the cell's printed text has.
    Returns a table of text.  KeyError if the paper's table has no such row or column.
    """
    for row, column in ours:
        if row not in table.rows or column not in table.columns:
            raise KeyError(f"{table.name} has no cell ({row!r}, {column!r})")
    compared = {column for _, column in ours}
    lines = {}
    for row, texts in table.rows.items():
        cells = dict(zip(table.columns, texts, strict=True))
        for line in LINES:
            lines[row, line] = {
                column: _cell(line, cells[column], ours.get((row, column)), digits)
                if column in compared or line == "printed"
                else ""
                for column in table.columns
            }
    frame = pd.DataFrame.from_dict(lines, orient="index", columns=list(table.columns))
    frame.index = pd.MultiIndex.from_tuples(frame.index, names=[table.name, ""])
    shown = numbers.Table(frame)
    shown.said = f"Data: {numbers.sources(data)}."
    return shown


def _cell(line: str, printed: str, value, digits: int | None) -> str:
    if line == "printed":
        return printed
    if value is None:
        return ""
    places = _decimals(printed) if digits is None else digits
    if line == "ours":
        return numbers.number(float(value), places)
    try:
        return f"{float(value) - float(printed.replace(',', '')):+,.{places}f}"
    except ValueError:  # the cell holds words, or nothing
        return ""


def _decimals(printed: str) -> int:
    return len(printed.partition(".")[2])
