"""What every reader of a real file asks of its columns: there, numbers, finite, in range; one
sentence where not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

JUDGED = 100  # rows from which on the scales of columns are judged


class Checked(NamedTuple):
    """A table that passed: canonical columns; the rows of the full file; which of several files it
    is ("" if one only); what was left out, in words.
    """

    table: pd.DataFrame
    of_rows: int
    layout: str = ""
    note: str = ""


def columns_and_rows(
    table: pd.DataFrame, wanted: tuple[str, ...], file: str, *, expected: str, at_most: int
) -> None:
    """Refuse a table that lacks a column, has no rows, or more than there are.

    wanted: the columns.  expected: the same in words, for the sentence, which also says what is
    there.  at_most: rows.
    """
    for column in wanted:
        if column not in table.columns:
            others = sorted(set(map(str, table.columns)) - set(wanted))
            shown = ", ".join(repr(name[:40]) for name in others[:3])
            hint = f" (found {shown} instead)" if others else ""
            raise ValueError(f"{file}: column {column!r} is missing{hint}, expected {expected}")
    if len(table) == 0:
        raise ValueError(f"{file}: no rows below the header, expected up to {at_most:,}")
    if len(table) > at_most:
        raise ValueError(f"{file}: {len(table):,} rows, expected at most {at_most:,}")


def numbers(
    values: pd.Series, file: str, low: float, high: float, *, whole: bool = False
) -> np.ndarray:
    """The column as float64, if it holds finite numbers from low to high only.

    whole: whether they must be whole numbers.  Truth values are 0 and 1.
    ValueError with file, column, row (from 1), value and expectation for text, dates, gaps,
    infinities, and numbers out of range.
    """
    import pandas as pd

    if values.dtype.kind in "mM":  # pandas would count their nanoseconds, and a gap as -2^63
        values = values.astype(str)
    held = pd.to_numeric(values, errors="coerce").astype(np.float64)
    refuse(held.isna() & values.notna(), values, file, "hold numbers")
    of_rows = f" of {len(held):,} (a file cut short ends like this)"
    refuse(~np.isfinite(held), held, file, "hold finite numbers", of_rows)
    refuse((held < low) | (held > high), held, file, f"be between {low:,} and {high:,}")
    if whole:
        refuse(held % 1 != 0, held, file, "hold whole numbers")
    return held.to_numpy()


def refuse(
    wrong: pd.Series | np.ndarray, values: pd.Series, file: str, expected: str, more: str = ""
) -> None:
    """Refuse a column with a wrong row: ValueError with file, column, expectation, value and row.

    wrong: bool (N,).  values: the column.  expected: what it must do or be.
    """
    if wrong.any():
        row = int(np.argmax(wrong))
        value = values.iloc[row]
        got = f"{value:g}" if isinstance(value, (int, float, np.number)) else repr(str(value)[:40])
        raise ValueError(
            f"{file}: column {values.name!r} must {expected}, got {got} in row {row + 1}{more}"
        )


def positives(
    n: int, what: str, table: pd.DataFrame, file: str, *, published: int, of_rows: int
) -> None:
    """Refuse more positives than the published file has, and other than these in all its rows."""
    all_rows = len(table) == of_rows
    if n > published or all_rows and n != published:
        raise ValueError(
            f"{file}: {n:,} {what} in {len(table):,} rows, "
            f"expected {'' if all_rows else 'at most the '}{published} of the published file"
        )


def means(table: pd.DataFrame, published: Mapping[str, float], file: str) -> None:
    """Refuse all rows of the published file if their means are not the published ones (to 1e-6)."""
    for column, wanted in published.items():
        mean = float(table[column].mean())
        if not abs(mean - wanted) <= 1e-6 * abs(wanted):
            raise ValueError(
                f"{file}: column {column!r} has mean {mean:.6f} over all {len(table):,} rows, "
                f"expected {wanted:.6f}: this is not the published file"
            )


def scaled(column: str, held: str, expected: str, file: str) -> ValueError:
    """The error for a column that is not in the published units, to be raised.

    held, expected: what the file holds and should hold, in words.
    """
    return ValueError(
        f"{file}: column {column!r} {held}, expected {expected}: these rows were scaled, put the "
        "file there as it was published"
    )


def typical_at_least(table: pd.DataFrame, least: Mapping[str, float], file: str) -> None:
    """Refuse JUDGED rows or more whose median in a column lies below the least that is named.

    A column that was standardised, or turned into shares of 1, does.
    """
    for column, wanted in least.items():
        median = float(table[column].median())
        if len(table) >= JUDGED and median < wanted:
            raise scaled(column, f"has median {median:g}", f"at least {wanted:g}", file)


def repeats(rows: pd.DataFrame, file: str, *, known: float = np.inf) -> None:
    """Refuse a table in which more rows repeat an earlier one than in the published file.

    rows: the columns that tell rows apart.  known: how many rows of the published file repeat an
    earlier one, if they were counted; part of the file has no more, because k equal rows
    count k - 1 and fewer of them count fewer.  Of 200 rows or more, at most one in
    twenty may repeat.
    ValueError with the file, what was found and what is accepted.
    Guarantee: of creditcard, 1,081 of 284,807 rows are repeats; by Hoeffding's bound for draws
    without replacement, n random rows have more than n / 20 with a chance of at most
    exp(-n KL(.05 || .0038)), which is below 1e-7 for n = 200.
    """
    import pandas as pd

    n_repeated = int(pd.util.hash_pandas_object(rows, index=False).duplicated().sum())
    allowed = min(known, len(rows) // 20 if len(rows) >= 200 else np.inf)
    if n_repeated > allowed:
        raise ValueError(
            f"{file}: {n_repeated:,} of {len(rows):,} rows repeat an earlier row exactly, "
            f"expected at most {allowed:,}: this is a copied or oversampled file"
        )
