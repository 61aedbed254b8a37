"""The columns of a holder's file: one that only numbers the rows is refused, one that can tell the
network little is named and goes on.

A sentence names a column and never a value.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

# an index that pandas, R, polars or DuckDB wrote along, by the name that they give it
_NO_NAME = re.compile(r"\s*|Unnamed: \d+(\.\d+)*(_level_\d+)?")
# in small letters, without blanks, points, hyphens and underscores, and without a ".1" at the end
_INDEX = re.compile(
    r"index|idx|(index)?level\d+|rn|unnamed:\d+|(file)?row(names?|nr|no|num|number|id|index|idx)"
)
# the names that R, readr, Spark, DuckDB, polars and Excel give to a column without one; features
# are called so too
_PERHAPS_INDEX = re.compile(r"x|v1|c\d+|column\d+|\d+|no|nr|id|row|number")
FEWEST = 5  # fewer rows count by chance
ENOUGH = 20  # this many sorted values all lie a tenth of a step beside a line once in 10^20 files
BESIDE = 0.1  # of a step: so far may a standardised number in float32 lie beside its place
FULL = 0.75  # an index without a tenth of its rows fills nine tenths of its places
THIN = 100  # places a row: more, and numbers with two decimals look like an index of chosen rows
PARTS = 10  # files that are joined, at most
LONG = 100  # numbers of the longest of them, at least: days of a month and years are features
# a standardised column has mean 0 and standard deviation 1
LARGE, SMALL = 5.0, 0.02
COPIES = 0.999  # a correlation with the label
SPLITS = 0.999  # an AUC for the label
STANDARDISE = "subtract the mean of its training rows from each and divide by their deviation"
_OUT = "(pandas: to_csv(index=False), R: row.names = FALSE)"


def refuse_row_names(table: pd.DataFrame, path: Path, ids: str, said: str) -> None:
    """Refuse a file with an index that pandas has read as its own.

    A CSV file whose rows have one field more than its header is one: R's write.table names no
    column of row names, and a comma at the end of each row moves all columns by one. Only names 0,
    1, 2, ... in this order pass, which pandas cannot tell from no names. In a parquet file the ids
    may be the index.
    table: as pandas read it.  path: of the file.  ids: the name of their column.  said: the file in
    words.  ValueError in one sentence.
    """
    if ids in table.index.names:
        raise ValueError(
            f"{said} keeps {ids!r} as pandas' index: write it again after reset_index()"
        )
    with open(path, "rb") as file:
        is_parquet = file.read(4) == b"PAR1"
    # pandas makes names that go in equal steps a RangeIndex too
    if not is_parquet and not table.index.equals(pd.RangeIndex(len(table))):
        raise ValueError(
            f"{said} has one field more in its rows than names in its header: write it without "
            f"row names {_OUT} and without a comma at the end of a row"
        )


def refuse_index(table: pd.DataFrame, column: str, ids: pd.Series, said: str) -> None:
    """Refuse a column that is no feature but a number of the row: it has no name, counts the rows
    in the file's order, equals the ids, or has the name and the values of an index.

    table: a file's columns.  column: one of them.  ids: the rows' ids.  said: the file in words.
    Counting is by any step, up or down, with a gap now and then, with each number the same number
    of times, or anew in each of a few long parts. Equal are ids as numbers. All are seen shifted
    and scaled too. A sorted column that does not go in equal steps is a feature like others
    (`remarks` names it).
    ValueError in one sentence that says what to do.
    """
    values = table[column]
    if not isinstance(column, str) or _NO_NAME.fullmatch(column):
        place = table.columns.get_loc(column) + 1
        raise ValueError(
            f"{said}: column {place} has no name ({column!r}), like an index that was written "
            f"along: take it out {_OUT}, or name it if it is a feature"
        )
    if not pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values):
        return
    numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    if not np.isfinite(numbers).all():
        return
    if _equals(numbers, ids) and not _counts_rows(numbers):
        what, otherwise = "equals the ids", ""
    elif _counts_rows(numbers):
        what = "counts the rows of the file"
        otherwise = "; if it is a feature, shuffle the rows of all holders in the same way"
    elif _is_index(column, numbers):
        what = "has the name and the values of an index"
        otherwise = "; if it is a feature, rename it"
    else:
        return
    raise ValueError(f"{said}: column {column!r} {what}: take it out {_OUT}{otherwise}")


def remarks(X: np.ndarray, y: np.ndarray | None, names: Sequence[str], said: str) -> list[str]:
    """What to say of features that go on to be trained on: one sentence for each kind.

    X: (n, d) float32, the training rows.  y: their labels, where the holder has them.  names: of
    the d columns.  said: the file in words.
    Named are columns of one value; copies of the labels (the same up to shift, scale and sign, or
    one value for each label); columns that split two labels, with an AUC of SPLITS or more; and
    columns far from standardised.
    """
    constant = [name for name, x in zip(names, X.T) if x.min() == x.max()]
    copies = [name for name, x in zip(names, X.T) if y is not None and _copies(x, y)]
    sentences = []
    if constant:
        sentences.append(
            f"{said} has columns with one value in all training rows, which tell the network "
            f"nothing: {listed(constant)}"
        )
    if copies:
        sentences.append(
            f"{said} has columns that copy the labels: {listed(copies)}; take out what is not "
            "known before the label is"
        )
    splits = [
        name
        for name, x in zip(names, X.T)
        if y is not None and name not in constant + copies and _splits(x, y)
    ]
    if splits:
        sentences.append(
            f"{said} has columns that tell the labels by themselves, with an AUC of {SPLITS} or "
            f"more: {listed(splits)}; take out what is not known before the label is"
        )
    far = unscaled(X, names)
    if far:
        sentences.append(
            f"{said} has columns that are far from standardised: {listed(far)}; {STANDARDISE}, or "
            "the network learns little from them and the run may stop"
        )
    return sentences


def remarks_on_order(X: np.ndarray, names: Sequence[str], said: str) -> list[str]:
    """What to say of features that look like a number of the row and may be none.

    X: (N, d) float32, all rows in the file's order.  names, said: as for `remarks`.
    Named are columns that rise, or fall, from the first row to the last, and columns with another
    number in each row that leave few numbers out.
    """
    rising = [name for name, x in zip(names, X.T) if _is_sorted(x)]
    mixed = [name for name, x in zip(names, X.T) if name not in rising and _is_mixed(x)]
    sentences = []
    if rising:
        sentences.append(
            f"{said} has columns that rise or fall with the rows of the file, like a count: "
            f"{listed(rising)}; take out what only numbers the rows, and shuffle the rows of all "
            "holders in the same way, or the test rows are unlike the training rows"
        )
    if mixed:
        sentences.append(
            f"{said} has columns with another number in each row and hardly a gap, like a count of "
            f"rows that were shuffled later: {listed(mixed)}; take out what only numbers the rows"
        )
    return sentences


def remarks_on_new_rows(X: np.ndarray, names: Sequence[str], said: str) -> list[str]:
    """The same for rows to predict: whether they are standardised as the training rows should be.

    Fewer than ENOUGH rows say nothing of that.
    """
    far = unscaled(X, names) if len(X) >= ENOUGH else []
    if not far:
        return []
    return [
        f"{said} has columns that are far from standardised: {listed(far)}; if the training rows "
        "were standardised, these need the same two numbers, or their scores are worth little"
    ]


def unscaled(X: np.ndarray, names: Sequence[str]) -> list[str]:
    """The features that are far from standardised.

    Far is a mean or a standard deviation over LARGE, or a deviation under SMALL where there are
    more than two values.
    """
    return [name for name, x in zip(names, X.T) if _is_far(x.astype(np.float64))]


def largest(X: np.ndarray, names: Sequence[str]) -> list[str]:
    """The features whose largest value is within a factor of ten of the largest of all."""
    sizes = np.abs(X).max(axis=0, initial=0.0)
    return [names[j] for j in np.flatnonzero(sizes >= sizes.max(initial=0.0) / 10)]


def listed(names: Sequence[str], at_most: int = 6) -> str:
    """Names in a sentence; of many the first ones and how many more."""
    shown = ", ".join(repr(name) for name in names[:at_most])
    return shown + (f" and {len(names) - at_most} more" if len(names) > at_most else "")


def _counts_rows(numbers: np.ndarray) -> bool:
    """Whether the numbers count the rows in the file's order, up or down."""
    if _goes_by_one_step(numbers):
        return True
    places = _places(numbers)
    if places is None:
        return False
    return any(_counts(count) for count in (places, places.max() - places))


def _goes_by_one_step(numbers: np.ndarray) -> bool:
    """Whether the numbers go up, or down, by one step from row to row, but for rounding."""
    n = len(numbers)
    if n < FEWEST:
        return False
    step = (numbers[-1] - numbers[0]) / (n - 1)
    beside = np.abs(numbers - (numbers[0] + step * np.arange(n))).max()
    return bool(step != 0 and beside <= abs(step) * (BESIDE if n >= ENOUGH else 1e-6))


def _counts(places: np.ndarray) -> bool:
    """Whether places go up from row to row with few gaps, each the same number of times, or anew in
    each of a few long parts.
    """
    steps, n_places = np.diff(places), places.max() + 1
    if steps.min() > 0:
        return len(places) >= FULL * n_places
    repeats = np.bincount(places)
    if steps.min() == 0 and len(repeats) >= ENOUGH:
        # the last number may be cut short
        return bool((repeats[:-1] == repeats[0]).all() and repeats[-1] <= repeats[0])
    restarts = np.flatnonzero(steps < 0)
    anew = places[0] == 0 and not places[restarts + 1].any()
    by_one = (np.delete(steps, restarts) == 1).all()
    return bool(anew and by_one and len(restarts) < PARTS and n_places >= LONG)


def _places(numbers: np.ndarray) -> np.ndarray | None:
    """Which place of a scale of equal steps each number has, from 0 at the smallest; None where
    they lie on no such scale, where it is nearly empty, or where there are too few rows to tell.

    The step is first the smallest gap, which float32 has rounded, and then the mean over gaps of
    more and more steps.
    """
    distinct = np.unique(numbers)
    if len(numbers) < ENOUGH or len(distinct) < 3:
        return None
    gaps = np.diff(distinct)
    step = gaps.min()
    if distinct[-1] - distinct[0] > THIN * len(numbers) * step:
        return None
    for reach in 2.0 ** np.arange(1, 24):
        near = gaps[gaps < reach * step]
        step = near.sum() / np.rint(near / step).sum()
    places = (numbers - distinct[0]) / step
    if np.abs(places - np.rint(places)).max() > BESIDE:
        return None
    return np.rint(places).astype(np.int64)


def _equals(numbers: np.ndarray, ids: pd.Series) -> bool:
    """Whether the numbers are the ids, or on a straight line over them, but for float32."""
    keys = pd.to_numeric(ids, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    if len(keys) < FEWEST or not np.isfinite(keys).all() or keys.min() == keys.max():
        return False
    first, last = keys.argmin(), keys.argmax()
    slope = (numbers[last] - numbers[first]) / (keys[last] - keys[first])
    beside = np.abs(numbers - (numbers[first] + slope * (keys - keys[first]))).max()
    return bool(slope != 0 and beside <= 1e-6 * abs(numbers[last] - numbers[first]))


def _is_sorted(x: np.ndarray) -> bool:
    """Whether many numbers never fall, or never rise, from row to row."""
    if len(np.unique(x)) < ENOUGH:
        return False
    steps = np.diff(x)
    return bool((steps >= 0).all() or (steps <= 0).all())


def _is_mixed(x: np.ndarray) -> bool:
    """Whether numbers differ and fill their places."""
    places = _places(x.astype(np.float64))
    if places is None or len(np.unique(places)) < len(places):
        return False
    return _is_full(np.bincount(places))


def _is_index(column: str, numbers: np.ndarray) -> bool:
    """Whether a column has the name of an index and numbers as one has, in whatever order.

    Such numbers all differ, or fill their places as parts do that count from the same number on:
    no number has more rows than the one before. A name that features have too needs full places.
    """
    name = re.sub(r"[\s._-]", "", re.sub(r"(?<=[^.])\.\d+$", "", column.strip())).casefold()
    surely, perhaps = _INDEX.fullmatch(name), _PERHAPS_INDEX.fullmatch(name)
    if not surely and not perhaps:
        return False
    all_differ = len(np.unique(numbers)) == len(numbers)
    if surely and all_differ and (numbers == np.rint(numbers)).all():
        return True
    places = _places(numbers)
    if places is None:
        return False
    repeats = np.bincount(places)
    if surely and (all_differ or _is_full(repeats) and _numbers_long(name, places)):
        return True
    in_parts = len(repeats) >= ENOUGH and bool((np.diff(repeats) <= 0).all())
    return _is_full(repeats) and (all_differ or in_parts)


def _is_full(repeats: np.ndarray) -> bool:
    """Whether few places have no row.  repeats: rows at each place."""
    return float((repeats > 0).mean()) >= FULL


def _numbers_long(name: str, places: np.ndarray) -> bool:
    """Whether there are as many numbers as parts would have, or any number at a level's name."""
    n_places = places.max() + 1
    return "level" in name or n_places >= ENOUGH and len(places) <= PARTS * n_places


def _copies(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether x is the labels, shifted, scaled or negated, or has one value for each label."""
    if x.min() == x.max():
        return False
    classes = np.unique(y)
    if len(np.unique(x)) == len(classes):
        of_each = [x[y == label] for label in classes]
        if all(values.min() == values.max() for values in of_each):
            return True
    return abs(float(np.corrcoef(x.astype(np.float64), y)[0, 1])) > COPIES


def _splits(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether x puts nearly all rows of one label above nearly all of the other; of few rows it
    does so by chance.
    """
    labels, n_rows = np.unique(y, return_counts=True)
    if len(labels) != 2 or n_rows.min() < FEWEST:
        return False
    auc = roc_auc_score(y == labels[1], x)
    return bool(max(auc, 1 - auc) >= SPLITS)


def _is_far(x: np.ndarray) -> bool:
    """Whether a column is far from mean 0 and standard deviation 1."""
    spread = float(x.std())
    if spread == 0:
        return False
    is_small = spread < SMALL and len(np.unique(x)) > 2
    return abs(float(x.mean())) > LARGE or spread > LARGE or is_small
