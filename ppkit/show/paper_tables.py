"""A table of a paper in the paper's own layout: what it prints, what we get, and the difference."""

import pandas as pd

from ppkit.show import numbers


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
    lines = {}
    for row, texts in table.rows.items():
        printed = dict(zip(table.columns, texts, strict=True))
        here = {column: float(value) for (of, column), value in ours.items() if of == row}
        places = {
            column: _decimals(printed[column]) if digits is None else digits for column in here
        }
        lines[row, "printed"] = printed
        lines[row, "ours"] = {
            column: numbers.number(value, places[column]) for column, value in here.items()
        }
        lines[row, "difference"] = {
            column: _difference(value, printed[column], places[column])
            for column, value in here.items()
        }
    frame = pd.DataFrame.from_dict(lines, orient="index", columns=table.columns).fillna("")
    frame.index = pd.MultiIndex.from_tuples(frame.index, names=[table.name, ""])
    shown = numbers.Table(frame)
    shown.said = f"Data: {numbers.sources(data)}."
    return shown


def _difference(ours: float, printed: str, places: int) -> str:
    try:
        return f"{ours - float(printed.replace(',', '')):+,.{places}f}"
    except ValueError:  # the cell holds words, or nothing
        return ""


def _decimals(printed: str) -> int:
    return len(printed.partition(".")[2])
