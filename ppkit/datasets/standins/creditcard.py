"""The stand-in for creditcard: a mixture of normals for each class, and columns' distributions."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from scipy.special import ndtr, ndtri

from ppkit.datasets import creditcard
from ppkit.datasets.creditcard import FEATURES, FULL_FRAUDS, FULL_ROWS, RANGES
from ppkit.datasets.dataset import Dataset
from ppkit.datasets.standins.blocks import Block, in_order, streams
from ppkit.datasets.standins.distributions import (
    Arrays,
    Table,
    draw_mixture,
    from_normal,
    from_uniform,
    looked_up,
    mixture_cdfs,
)

LARGEST_AMOUNT, TWO_DAYS = 26_000, 172_800  # the published maxima are 25,691.16 and 172,792
AMOUNT, TIME, SPANS = 29, 30, 16  # axes; of three hours each
MIXTURE = ("weights", "means", "factors")


def dataset(parameters: Arrays, rows: int, rng: Generator, variant: str = "") -> Dataset:
    """Rows in order of time, fraud at the full file's rate of 492 in 284,807 (rounded), amounts in
    whole cents.

    parameters: as `tools/standins/creditcard.py` fits them.  rows: >= 1.  variant: "".
    """
    drawn = draw_blocks(parameters, rows, rng)
    X, y = in_order(drawn, rows=rows, features=len(FEATURES), target=np.int8)
    return creditcard.assembled(X, y, X[:, 0], kind="stand-in", of_rows=None, variant=variant)


def draw_blocks(parameters: Arrays, rows: int, rng: Generator) -> Iterator[Block]:
    """The same rows block by block, those of the genuine ones first; a block's place is the time
    before it is rounded to a second."""
    kept = {key: value.astype(np.float64) for key, value in parameters.items()}
    frauds = round(rows * FULL_FRAUDS / FULL_ROWS)
    for label, of_class, own in zip((0, 1), (rows - frauds, frauds), rng.spawn(2), strict=True):
        law = _law(kept, label)
        for size, stream in streams(of_class, own):
            axes = _axes(law, size, stream)
            yield Block(together(axes.T, kept), np.full(size, label), axes[TIME])


@dataclass(frozen=True)
class _Law:
    """What the axes of one class are drawn from.

    mixture: of normals over the 31 axes.  amount, time: their distributions in the mixture and the
    bins of their own.  tables: the other axes' own values by those of the mixture, by axis.
    drift: what each span of three hours is off from the mean over all, (30, 16).
    undrifted: the deviation that is left to an amount's normal score beside its drift.
    """

    mixture: Arrays
    amount: tuple[Table, np.ndarray]
    time: tuple[Table, np.ndarray]
    tables: dict[int, Table]
    drift: np.ndarray
    undrifted: float


def _law(kept: Arrays, label: int) -> _Law:
    mixture = {key: kept[f"{key}_{label}"] for key in MIXTURE}
    cdfs = mixture_cdfs(mixture)
    amount, time = ((cdfs[axis], kept[f"atoms_{axis}_{label}"]) for axis in (AMOUNT, TIME))
    tables = {}
    for axis in range(AMOUNT):
        name = f"knots_{axis}_{label}"
        if name in kept:
            points, below = cdfs[axis]
            tables[axis] = points, from_normal(ndtri(below), kept[name])
    drift = kept[f"drift_{label}"].T
    evenly = (np.arange(100_000) + 0.5) / 100_000
    of_span = np.bincount(spans(from_uniform(evenly, time[1])), minlength=SPANS) / len(evenly)
    variance = of_span @ (drift[AMOUNT] - of_span @ drift[AMOUNT]) ** 2
    return _Law(mixture, amount, time, tables, drift, undrifted=np.sqrt(1 - variance))


def _axes(law: _Law, n: int, rng: Generator) -> np.ndarray:
    """n draws from a class, (31, n); an axis whose distribution is kept gets it, and what a span
    of three hours is off from the mean over all is added (to the amount as a normal score)."""
    axes = draw_mixture(law.mixture, n, rng)
    cdf, bins = law.time
    axes[TIME] = from_uniform(looked_up(axes[TIME], cdf), bins)
    moved = law.drift[:, spans(axes[TIME])]
    cdf, bins = law.amount
    score = ndtri(looked_up(axes[AMOUNT], cdf)) * law.undrifted + moved[AMOUNT]
    axes[AMOUNT] = from_uniform(ndtr(score), bins)
    for axis, table in law.tables.items():
        axes[axis] = looked_up(axes[axis], table)
    axes[:AMOUNT] += moved[:AMOUNT]
    return axes


def spans(time: np.ndarray) -> np.ndarray:
    """Of the 16 spans of three hours the one of each time, (N,)."""
    return (time // 10_800).astype(int).clip(0, SPANS - 1)


def apart(rows: np.ndarray, kept: Arrays) -> np.ndarray:
    """The axes of rows: what is left of V1 to V28 without the amount, the amount's error, the
    amount, the time.

    With u = (V - centre) / spread the amount is nearly level + u.b, to a euro for most rows; what
    it is not is the error e.  What is left of V is
    u - (u.b) b / |b|^2 - amount * pull,
    pull: of a regression of what stands before it on the amount.
    rows: (N, 30) in the order of FEATURES.  kept: centre, spread, b, pull (28,), level ().
    Returns (N, 31).
    """
    time, V, amount = rows[:, 0], rows[:, 1:-1], rows[:, -1]
    u, b = (V - kept["centre"]) / kept["spread"], kept["b"]
    told = u @ b
    left = u - np.outer(told, b / (b @ b)) - np.outer(amount, kept["pull"])
    return np.column_stack([left, amount - kept["level"] - told, amount, time])


def together(axes: np.ndarray, kept: Arrays) -> np.ndarray:
    """Rows of these axes, the way back of `apart`, in whole seconds and cents and in their ranges.

    axes: (N, 31).  Returns (N, 30) in the order of FEATURES.
    """
    b, amount = kept["b"], np.round(np.clip(axes[:, -2], 0, LARGEST_AMOUNT), 2)
    left = axes[:, :-3] + np.outer(amount, kept["pull"])
    told = amount - kept["level"] - axes[:, -3] - left @ b
    V = kept["centre"] + kept["spread"] * (left + np.outer(told, b / (b @ b)))
    low, high = np.array([RANGES[column] for column in FEATURES], float).T
    time = np.floor(np.minimum(axes[:, -1], TWO_DAYS - 1))
    return np.clip(np.column_stack([time, V, amount]), low, high)
