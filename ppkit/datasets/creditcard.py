"""The card transactions of ULB and Worldline (Kaggle: mlg-ulb/creditcardfraud): the file and what it must look like."""

import numpy as np
import pandas as pd

from .dataset import Dataset, made, real_source
from .files import Found, read_table

STEMS = ("creditcard", "creditcardfraud")
FULL_ROWS, FULL_FRAUDS = 284_807, 492
FULL_SHA256 = "76274b691b16a6c49d3f159c883398e03ccd6d1ee12d9d8ee38f4b4b98551a89"
FEATURES = ("Time", *(f"V{i}" for i in range(1, 29)), "Amount")
HOW = ("download creditcard.csv from www.kaggle.com/datasets/mlg-ulb/creditcardfraud and put it, or the zip, "
       "into data/raw")
_RANGES = {"Time": (0, 172_800), "Amount": (0, 100_000)} | {f"V{i}": (-200, 200) for i in range(1, 29)}


def real(found: Found, rows: int | None, seed: int) -> Dataset:
    """The real rows, checked; with `rows`, so many of them in file order, drawn with the classes in proportion.

    ValueError, naming file, column, row and expectation, for anything that is not the known table.
    """
    table = checked_table(read_table(found), found.path.name)
    if rows is not None:
        table = table.iloc[_drawn(table["Class"].to_numpy(), rows, seed, found.path.name)]
    features = table[list(FEATURES)].to_numpy(np.float32)
    return made(name="creditcard", X=np.ascontiguousarray(features), y=table["Class"].to_numpy(np.int8),
                feature_names=FEATURES, numeric=np.ones(len(FEATURES), bool),
                source=real_source(len(table), FULL_ROWS), of_rows=FULL_ROWS,
                note="card transactions of two days in September 2013 in Europe: 28 principal components, time, amount")


def checked_table(table: pd.DataFrame, file: str) -> pd.DataFrame:
    """The table, its 31 columns in order; ValueError in one sentence for the first thing that is wrong.

    Columns: Time (seconds, 0 to 172,800), V1..V28 (-200 to 200), Amount (0 to 100,000), Class (0 or 1); at most
    284,807 rows, and 492 frauds when they are all there.
    """
    wanted = (*FEATURES, "Class")
    for column in wanted:
        if column not in table.columns:
            others = sorted(set(map(str, table.columns)) - set(wanted))
            hint = f" (found {', '.join(map(repr, others[:3]))} instead)" if others else ""
            raise ValueError(f"{file}: column {column!r} is missing{hint}, expected Time, V1 to V28, Amount and Class")
    if len(table.columns) > len(wanted):
        extra = next(column for column in table.columns if column not in wanted)
        raise ValueError(f"{file}: column {str(extra)!r} is not known, expected Time, V1 to V28, Amount and Class only")
    if len(table) == 0:
        raise ValueError(f"{file}: no rows below the header, expected up to {FULL_ROWS:,}")
    for column in wanted:
        _check_column(table[column], file)
    if len(table) > FULL_ROWS:
        raise ValueError(f"{file}: {len(table):,} rows, expected at most {FULL_ROWS:,}")
    frauds = int((table["Class"] == 1).sum())
    if len(table) == FULL_ROWS and frauds != FULL_FRAUDS:
        raise ValueError(f"{file}: column 'Class' counts {frauds} frauds in {FULL_ROWS:,} rows, expected {FULL_FRAUDS}")
    return table[list(wanted)]


def _check_column(values: pd.Series, file: str) -> None:
    column = values.name
    if not pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values):
        numbers = pd.to_numeric(values.astype(str), errors="coerce")
        row = int(np.argmax(numbers.isna().to_numpy()))
        raise ValueError(f"{file}: column {column!r} must hold numbers, got {str(values.iloc[row])!r} in row {row + 1}")
    held = values.to_numpy(np.float64, na_value=np.nan)
    if not np.isfinite(held).all():
        row = int(np.argmin(np.isfinite(held)))
        raise ValueError(f"{file}: column {column!r} must hold finite numbers, got {held[row]} in row {row + 1} of "
                         f"{len(held):,} (a file cut short ends like this)")
    if column == "Class":
        wrong, expected = ~np.isin(held, (0, 1)), "0 or 1"
    else:
        low, high = _RANGES[column]
        wrong, expected = (held < low) | (held > high), f"between {low:,} and {high:,}"
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(f"{file}: column {column!r} must be {expected}, got {held[row]:g} in row {row + 1}")


def _drawn(y: np.ndarray, rows: int, seed: int, file: str) -> np.ndarray:
    if not 1 <= rows <= len(y):
        raise ValueError(f"rows must be between 1 and the {len(y):,} of {file}, got {rows}")
    rng = np.random.default_rng(seed)
    frauds = np.flatnonzero(y == 1)
    n_frauds = min(round(rows * len(frauds) / len(y)), rows)
    others = rng.choice(np.flatnonzero(y == 0), rows - n_frauds, replace=False)
    return np.sort(np.concatenate([rng.choice(frauds, n_frauds, replace=False), others]))
