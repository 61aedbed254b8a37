"""The columns of a holder's file: one that only numbers the rows is refused, one that can tell the
network little is named and goes on.

A sentence names a column and never a value.
"""

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

# an index that pandas, R, polars, DuckDB, Dask or Spark wrote along, by the name that they give it
_NO_NAME = re.compile(r"\s*|Unnamed: \d+(\.\d+)*(_level_\d+)?")
# in small letters, without blanks, points, hyphens and underscores, and without a ".1" at the end
_INDEX = re.compile(
    r"index|idx|(index)?level\d+|rn|unnamed:\d+|(file)?row(names?|nr|no|num|number|id|index|idx)|"
    r"nulldaskindex|monotonicallyincreasingid(\(\))?"
)
# the names that R, readr, Spark, DuckDB, polars and Excel give to a column without one, and those
# of a person who numbers rows; features are called so too
_PERHAPS_INDEX = re.compile(
    r"x|v1|c\d+|column\d+|\d+|no|nr|id|row|number|#|s[lr]?no|serial(no|number)?|obs"
)
FEWEST = 5  # fewer rows count by chance
ENOUGH = 20  # this many sorted values all lie a tenth of a step beside a line once in 10^20 files
BESIDE = 0.1  # of a step: so far may a standardised number in float32 lie beside its place
FULL = 0.75  # an index without a tenth of its rows fills nine tenths of its places
THIN = 100  # places a row: more, and numbers with two decimals look like an index of chosen rows
PARTS = 10  # files that were joined, each with an index of its own, at most
# a standardised column has mean 0 and standard deviation 1
LARGE, SMALL = 5.0, 0.02
TELLS = 0.999  # an AUC for a label
STANDARDISE = "subtract the mean of its training rows from each and divide by their deviation"
_OUT = "(pandas: to_csv(index=False), R: row.names = FALSE)"


def refuse_index(table: pd.DataFrame, column: str, ids: pd.Series, said: str) -> None:
    """Refuse a column that is no feature but a number of the row: it has no name, counts the rows
    in the file's order, equals the ids, or has the name and the values of an index.

    table: a file's columns.  column: one of them.  ids: the rows' ids.  said: the file in words.
    Counting is by any step, up or down, with a gap now and then. Equal are ids as numbers. All are
    seen shifted and scaled too. A sorted column that does not go in equal steps is a feature like
    others (`remarks` names it).
    ValueError in one sentence that says what to do.
    """
    if not isinstance(column, str) or _NO_NAME.fullmatch(column):
        place = table.columns.get_loc(column) + 1
        raise ValueError(
            f"{said}: column {place} has no name ({column!r}), like an index that was written "
            f"along: take it out {_OUT}, or name it if it is a feature"
        )
    numbers = _as_numbers(table[column])
    if not _fits_float32(numbers):
        return
    if _counts_rows(numbers):
        what = "counts the rows of the file"
        otherwise = "; if it is a feature, shuffle the rows of all holders in the same way"
    elif _equals(numbers, _as_numbers(ids)):
        what, otherwise = "equals the ids", ""
    elif _is_index(column, numbers):
        what = "has the name and the values of an index"
        otherwise = "; if it is a feature, rename it"
    else:
        return
    raise ValueError(f"{said}: column {column!r} {what}: take it out {_OUT}{otherwise}")


def refuse_dates(column: pd.Series, said: str) -> None:
    """Refuse a column of dates, times or durations: pandas makes whole numbers of them, in a unit
    that hangs on the file, and -2^63 of a gap.

    said: the file in words.  ValueError in one sentence that says what to do.
    """
    if column.dtype.kind in "mM":
        raise ValueError(
            f"{said}: feature {column.name!r} must be numbers, got dates or times: write numbers "
            "in their place, such as the days since a fixed day"
        )


def as_numbers(column: pd.Series, said: str, dtype: type[np.floating]) -> np.ndarray:
    """A feature as finite numbers (N,).

    said: the file in words.  ValueError in one sentence that names the column and the first row,
    for dates, text, gaps and what is too large for dtype.
    """
    refuse_dates(column, said)
    values = pd.to_numeric(column, errors="coerce")
    is_text = (values.isna() & column.notna()).to_numpy()
    if is_text.any():
        raise ValueError(
            f"{said}: feature {column.name!r} must be numbers, row {is_text.argmax():,} (from 0) "
            "is the first that is none: write digits with a decimal point and nothing else, and "
            "for categories a column of 0 and 1 each"
        )
    # what is too large becomes infinite, and is refused
    with np.errstate(over="ignore"):
        x = values.to_numpy(np.float64, na_value=np.nan).astype(dtype)
    is_bad = ~np.isfinite(x)
    if is_bad.any():
        raise ValueError(
            f"{said}: feature {column.name!r} must be finite in {dtype.__name__}, got "
            f"{is_bad.sum():,} of {len(x):,} values that are not, row {is_bad.argmax():,} (from 0) "
            "first: fill the gaps, or take these rows out at all holders"
        )
    return x


def remarks(
    X: np.ndarray, y: np.ndarray | None, names: Sequence[str], said: str, *, n_train: int
) -> list[str]:
    """What to say of features that go on to be trained on: one sentence for each kind.

    X: (N, d) float32, all rows in the file's order, of which the first n_train are for training.
    y: (N,) labels, where the holder has them.  names: of the d columns.  said: the file in words.
    Named are columns that have one value, that tell a label from the others with an AUC of TELLS
    or more, or that are far from standardised, in the training rows; and columns that rise, or
    fall, from the first row to the last.
    """
    constant, telling, rising = [], [], []
    for name, x in zip(names, X.T):
        of_training = x[:n_train]
        if of_training.min() == of_training.max():
            constant.append(name)
        elif y is not None and _tells(of_training, y[:n_train]):
            telling.append(name)
        if _is_sorted(x):
            rising.append(name)
    known = "; take out what is not known before the label is"
    scaling = f"; {STANDARDISE}, or the network learns little from them and the run may stop"
    order = (
        "; take out what only numbers the rows, and shuffle the rows of all holders in the same "
        "way, or the test rows are unlike the training rows"
    )
    kinds = (
        (constant, "with one value in all training rows, which tell the network nothing", ""),
        (telling, f"that tell the labels by themselves, with an AUC of {TELLS} or more", known),
        (unscaled(X[:n_train], names), "that are far from standardised", scaling),
        (rising, "that rise or fall with the rows of the file, like a count", order),
    )
    return [
        f"{said} has columns {what}: {listed(found)}{remedy}"
        for found, what, remedy in kinds
        if found
    ]


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
    return [name for name, size in zip(names, sizes) if size >= sizes.max(initial=0.0) / 10]


def listed(names: Sequence[str], at_most: int = 6) -> str:
    """Names in a sentence; of many the first ones and how many more."""
    shown = ", ".join(repr(name) for name in names[:at_most])
    return shown + (f" and {len(names) - at_most} more" if len(names) > at_most else "")


def _as_numbers(values: pd.Series) -> np.ndarray:
    """float64 (N,), NaN for what is no number."""
    return pd.to_numeric(values, errors="coerce").to_numpy(np.float64, na_value=np.nan)


def _fits_float32(numbers: np.ndarray) -> bool:
    """Whether no number is missing, infinite, or too large to be a feature."""
    return bool((np.abs(numbers) < np.finfo(np.float32).max).all())


def _counts_rows(numbers: np.ndarray) -> bool:
    """Whether the numbers count the rows in the file's order, up or down, with few gaps."""
    places = _places(numbers)
    if places is None:
        return False
    steps = np.diff(places)
    return bool((steps > 0).all() or (steps < 0).all()) and _is_full(places)


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


def _is_full(places: np.ndarray) -> bool:
    """Whether few places have no row."""
    return len(np.unique(places)) >= FULL * (places.max() + 1)


def _equals(numbers: np.ndarray, ids: np.ndarray) -> bool:
    """Whether the numbers are the ids, or on a straight line over them, but for float32."""
    if len(ids) < FEWEST or not _fits_float32(ids):
        return False
    if np.ptp(ids) == 0 or np.ptp(numbers) == 0:
        return False
    return abs(np.corrcoef(numbers, ids)[0, 1]) > 1 - 1e-10


def _is_index(column: str, numbers: np.ndarray) -> bool:
    """Whether a column has the name of an index and numbers as one has, in whatever order.

    Such numbers all differ, or fill their places as a few parts do that each have an index of
    their own. A name that features have too needs numbers that differ and fill their places.
    """
    name = re.sub(r"[\s._-]", "", re.sub(r"(?<=[^.])\.\d+$", "", column.strip())).casefold()
    is_surely_one = _INDEX.fullmatch(name)
    if not is_surely_one and not _PERHAPS_INDEX.fullmatch(name):
        return False
    all_differ = len(np.unique(numbers)) == len(numbers)
    if is_surely_one and all_differ and (numbers % 1 == 0).all():
        return True
    places = _places(numbers)
    if places is None:
        return False
    if not is_surely_one:
        return all_differ and _is_full(places)
    n_places = places.max() + 1
    in_parts = n_places >= ENOUGH and len(places) <= PARTS * n_places and _is_full(places)
    return all_differ or bool(in_parts)


def _is_sorted(x: np.ndarray) -> bool:
    """Whether many numbers never fall, or never rise, from row to row."""
    if len(np.unique(x)) < ENOUGH:
        return False
    steps = np.diff(x)
    return bool((steps >= 0).all() or (steps <= 0).all())


def _tells(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether x puts nearly all rows of one label above, or below, nearly all others; of few rows
    it does so by chance.
    """
    for label in np.unique(y):
        is_label = y == label
        if min(is_label.sum(), (~is_label).sum()) >= FEWEST:
            auc = roc_auc_score(is_label, x)
            if max(auc, 1 - auc) >= TELLS:
                return True
    return False


def _is_far(x: np.ndarray) -> bool:
    """Whether a column is far from mean 0 and standard deviation 1."""
    spread = float(x.std())
    if spread == 0:
        return False
    is_small = spread < SMALL and len(np.unique(x)) > 2
    return abs(float(x.mean())) > LARGE or spread > LARGE or is_small
