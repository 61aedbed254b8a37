"""What every reader of a real file asks of its columns: there, numbers, finite, in range; one
sentence where not.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
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
            near = [one for one in others if one.strip().casefold() == column.casefold()]
            shown = ", ".join(repr(one[:40]) for one in (near or others)[:3])
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

    whole: whether they must be whole numbers.
    ValueError with file, column, row (from 1), value and expectation for text, truth values, gaps,
    infinities, and numbers out of range.
    """
    column, is_truth = values.name, pd.api.types.is_bool_dtype(values)
    if is_truth or not pd.api.types.is_numeric_dtype(values):
        texts, kind = values.astype(str), "truth value" if is_truth else "text"
        row = int(np.argmax(pd.to_numeric(texts, errors="coerce").isna().to_numpy()))
        raise ValueError(
            f"{file}: column {str(column)[:40]!r} must hold numbers"
            f"{', 0 and 1 for truth values' if is_truth else ''}, got {kind} "
            f"{texts.iloc[row][:40]!r} in row {row + 1}"
        )
    held = values.to_numpy(np.float64, na_value=np.nan)
    more = f" of {len(held):,} (a file cut short ends like this)"
    refuse(
        ~np.isfinite(held), file, column, "hold finite numbers", lambda row: f"{held[row]}", more
    )
    expected, outside = f"be between {low:,} and {high:,}", (held < low) | (held > high)
    refuse(outside, file, column, expected, lambda row: f"{held[row]:g}")
    broken = (held % 1 != 0) & whole
    refuse(broken, file, column, "hold whole numbers", lambda row: f"{held[row]:g}")
    return held


def refuse(
    wrong: np.ndarray,
    file: str,
    column: str,
    expected: str,
    got: Callable[[int], str],
    more: str = "",
) -> None:
    """Refuse a column with a wrong row: ValueError with file, column, expectation, value and row.

    wrong: bool (N,).  expected: what the column must do or be.  got: what stands in a row (from 0).
    """
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"{file}: column {column!r} must {expected}, got {got(row)} in row {row + 1}{more}"
        )


def means(table: pd.DataFrame, published: dict[str, float], file: str) -> None:
    """Refuse all rows of the published file if their means are not the published ones (to 1e-6)."""
    for column, wanted in published.items():
        found = float(table[column].mean())
        if not abs(found - wanted) <= 1e-6 * abs(wanted):
            raise ValueError(
                f"{file}: column {column!r} has mean {found:.6f} over all {len(table):,} rows, "
                f"expected {wanted:.6f}: this is not the published file"
            )


def scaled(column: str, found: str, expected: str, file: str) -> ValueError:
    """The error for a column that is not in the published units, to be raised.

    found, expected: what the file holds and should hold, in words.
    """
    return ValueError(
        f"{file}: column {column!r} {found}, expected {expected}: these rows were scaled, put the "
        "file there as it was published"
    )


def typical_at_least(table: pd.DataFrame, least: dict[str, float], file: str) -> None:
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
    found = int(pd.util.hash_pandas_object(rows, index=False).duplicated().sum())
    allowed = min(known, len(rows) // 20 if len(rows) >= 200 else np.inf)
    if found > allowed:
        raise ValueError(
            f"{file}: {found:,} of {len(rows):,} rows repeat an earlier row exactly, "
            f"expected at most {allowed:,}: this is a copied or oversampled file"
        )
