"""ULB's card transactions (Kaggle: mlg-ulb/creditcardfraud): the file and what it must hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ppkit.datasets.checks import (
    JUDGED,
    Checked,
    columns_and_rows,
    means,
    numbers,
    positives,
    refuse,
    repeats,
    scaled,
)
from ppkit.datasets.dataset import HELD_OUT, Dataset, Parts, hashed, made
from ppkit.sources import Kind

if TYPE_CHECKING:
    import pandas as pd

STEMS = ("creditcard",)
BEGINNINGS = {f"creditcard{mark}fraud": "creditcard" for mark in ("", "-", "_")}  # Kaggle's name
FULL_ROWS, FULL_FRAUDS, FULL_REPEATS = 284_807, 492, 1_081
LARGEST = 450_000_000  # bytes, unpacked: three times the published file
FULL_SHA256 = "76274b691b16a6c49d3f159c883398e03ccd6d1ee12d9d8ee38f4b4b98551a89"
PUBLISHED_MEANS = {"Time": 94_813.859575, "Amount": 88.349619}
FEATURES = ("Time", *(f"V{i}" for i in range(1, 29)), "Amount")
COLUMNS = (*FEATURES, "Class")
HOW = (
    "run `ppkit data fetch creditcard`, or download creditcard.csv from "
    "www.kaggle.com/datasets/mlg-ulb/creditcardfraud and put it, or the zip, into data/raw"
)
_COMPONENTS = [f"V{i}" for i in range(1, 29)]
RANGES = {"Time": (0, 172_800), "Amount": (0, 100_000)} | {
    f"V{i}": (-200, 200) for i in range(1, 29)
}
_FIRST_NIGHT, _DAY = 12_000, 86_400  # seconds
_EXPECTED = "Time, V1 to V28, Amount and Class"


def checked_table(table: pd.DataFrame, file: str) -> Checked:
    """The table, its 31 columns in order; ValueError in one sentence for the first thing wrong.

    Columns: Time (whole seconds, 0 to 172,800), V1..V28 (-200 to 200), Amount (0 to 100,000, two
    decimals), Class (0 or 1).  At most 284,807 rows, 492 frauds and 1,081 repeats (see
    `checks.repeats`); of 284,807 rows exactly 492 frauds, and the published means of Time and
    Amount.  Labels as `_told_by_v14` asks, units as `_unscaled`.
    """
    import pandas as pd

    columns_and_rows(table, COLUMNS, file, expected=_EXPECTED, at_most=FULL_ROWS)
    held = {
        column: numbers(table[column], file, low, high, whole=column in ("Time", "Class"))
        for column, (low, high) in (RANGES | {"Class": (0, 1)}).items()
    }
    checked = pd.DataFrame(held)[list(COLUMNS)]
    _unscaled(checked, file)
    frauds = int(checked["Class"].sum())
    positives(frauds, "frauds", checked, file, published=FULL_FRAUDS, of_rows=FULL_ROWS)
    if len(checked) == FULL_ROWS:
        means(checked, PUBLISHED_MEANS, file)
    repeats(checked, file, known=FULL_REPEATS)
    _told_by_v14(checked, frauds, file)
    return Checked(checked, FULL_ROWS)


def _unscaled(table: pd.DataFrame, file: str) -> None:
    """Refuse rows whose columns were standardised, or divided by their largest value or range.

    Amount is in cents, to the digits of float32.  Of 100 rows or more, V1 to V28 hold a value
    beyond 1, and the widest of these components is at least twice as wide as the narrowest, by
    standard deviation and by interquartile range.
    Guarantee: of our 44,212 published rows all but 84 have a component beyond 1.  In about 3,600
    parts of 100 or 1,000 of them (at random, frauds only, genuine only, early, late, cheap, dear,
    neighbours) the widest was at least 3.8 times as wide as the narrowest.
    """
    amounts = table["Amount"]
    is_broken = ~np.isclose(amounts, amounts.round(2), rtol=1e-6, atol=1e-6)
    refuse(is_broken, amounts, file, "hold amounts with two decimals")
    components = table[_COMPONENTS].to_numpy()
    lower, upper = np.percentile(components, [25, 75], axis=0)
    for widths in (components.std(axis=0), upper - lower):
        is_narrow = np.abs(components).max() <= 1 or widths.max() < 2 * widths.min()
        if len(table) >= JUDGED and is_narrow:
            raise scaled("V28", "spreads like V1", "components in falling order", file)


def _told_by_v14(table: pd.DataFrame, frauds: int, file: str) -> None:
    """Refuse labels that were wiped out, inverted or permuted.

    Of 64 frauds or more, at least a quarter must have V14 < -2.  At least 285 of the 492 published
    frauds have it, and 2% of the genuine rows.  Fewer frauds are not judged.
    8,000 rows or more must hold a fraud.  Somebody may have picked genuine rows on purpose; that
    file is refused too, because no notebook can learn or test anything with it.
    Guarantee: a random part of the published rows is refused with a chance below 1e-6.  Of m frauds
    drawn without replacement, Hoeffding's bound for the first rule is exp(-m KL(1/4 || 285/492)).
    n rows hold no fraud with a chance of at most (1 - 492/284,807)^n.
    """
    if frauds == 0 and len(table) >= 8_000:
        about = len(table) * FULL_FRAUDS / FULL_ROWS
        raise ValueError(
            f"{file}: column 'Class' counts no fraud in {len(table):,} rows, expected "
            f"about {about:.0f}"
        )
    plain = int((table.loc[table["Class"] == 1, "V14"] < -2).sum())
    if frauds >= 64 and plain < frauds / 4:
        raise ValueError(
            f"{file}: column 'Class' does not belong to these rows: {plain} of "
            f"{frauds} frauds have V14 below -2, expected at least a quarter"
        )


def arranged(table: pd.DataFrame, *, kind: Kind, of_rows: int | None, variant: str = "") -> Dataset:
    """The Dataset of a checked table: 30 features, Class as y, Time as time.

    kind, of_rows, variant: as on a Dataset.
    """
    X = np.ascontiguousarray(table[list(FEATURES)].to_numpy(np.float32))
    y, time = table["Class"].to_numpy(), table["Time"].to_numpy()
    return assembled(X, y, time, kind=kind, of_rows=of_rows, variant=variant)


def assembled(
    X: np.ndarray,
    y: np.ndarray,
    time: np.ndarray,
    *,
    kind: Kind,
    of_rows: int | None,
    variant: str = "",
) -> Dataset:
    """The Dataset of features, X float32 (N, 30), labels, y (N,), and seconds, time (N,).

    kind, of_rows, variant: as on a Dataset, which takes X as it is and copies the rest.
    """
    return made(
        name="creditcard",
        X=X,
        y=y.astype(np.int8),
        feature_names=FEATURES,
        numeric=np.ones(len(FEATURES), bool),
        kind=kind,
        of_rows=of_rows,
        variant=variant,
        time=time.astype(np.float64),
        note="card transactions of two days in September 2013 in Europe: 28 principal "
        "components, time, amount",
    )


def typical(time: np.ndarray, y: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """Which rows stay when the first night's genuine ones are thinned, as a mask (N,).

    A subset may hold too many of that night, as ours for development does.  Kept is the share that
    makes the first 12,000 seconds of day one to day two's as the rest of day one is to the rest of
    day two: those with the smallest chance.
    time: (N,), seconds.  y: (N,), 1 for fraud.  chance: (N,) in [0, 1), see `dataset.hashed`.
    With FULL_ROWS rows all stay.
    """
    within, late = time % _DAY < _FIRST_NIGHT, time >= _DAY
    (rest, first), (rest_2, second) = (
        np.bincount(within[(y == 0) & (late == day)], minlength=2) for day in (False, True)
    )
    if len(y) == FULL_ROWS or min(first, rest_2) == 0:
        return np.ones(len(y), bool)
    return (y == 1) | late | ~within | (chance < (second * rest / rest_2 / first))


def folds(components: np.ndarray, time: np.ndarray, y: np.ndarray) -> Parts[np.ndarray]:
    """The rows that a stand-in may be fitted to, and those that judge it, as masks (N,).

    They are four folds and the fifth, as `dataset.hashed` tells them apart, the first night thinned
    as in `typical`.
    components: (N, 29), V1 to V28 and the amount.  time, y: (N,).
    """
    fold, chance = hashed(components)
    kept = typical(time, y, chance)
    return Parts(kept & (fold != HELD_OUT), kept & (fold == HELD_OUT))
