"""The stand-in for creditcard: a mixture of normals for each class, and columns' distributions."""

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from ..creditcard import COLUMNS, FEATURES, FULL_FRAUDS, FULL_ROWS, RANGES
from .distributions import draw_mixture, from_normal, from_uniform, mixture_cdf

LARGEST_AMOUNT, TWO_DAYS = 26_000, 172_800  # the published maxima are 25,691.16 and 172,792
AMOUNT, TIME, BLOCKS = 29, 30, 16  # axes; of three hours each
MIXTURE = ("weights", "means", "factors")


def sample(parameters: dict[str, np.ndarray], rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Rows in order of time, fraud at the full file's rate of 492 in 284,807 (rounded), amounts in
    whole cents.

    parameters: as `tools/standins/creditcard.py` fits them.  rows: >= 1.
    Returns a table in the checked layout.
    """
    kept = {key: value.astype(np.float64) for key, value in parameters.items()}
    frauds = round(rows * FULL_FRAUDS / FULL_ROWS)
    labels = np.repeat(np.array([0, 1], np.int8), [rows - frauds, frauds])
    values = together(
        np.vstack([_axes(kept, label, int((labels == label).sum()), rng) for label in (0, 1)]), kept
    )
    order = np.argsort(values[:, 0], kind="stable")
    return pd.DataFrame(values[order], columns=list(FEATURES)).assign(Class=labels[order])[
        list(COLUMNS)
    ]


def _axes(kept: dict, label: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """n draws from a class's mixture, (n, 31); an axis whose distribution is kept gets it, and what
    a block of three hours is off from the mean over all is added (to the amount as a normal
    score)."""
    own, drift = {key: kept[f"{key}_{label}"] for key in MIXTURE}, kept[f"drift_{label}"]
    drawn, deviations = draw_mixture(own, n, rng), np.sqrt((own["factors"] ** 2).sum(axis=2))
    moved = np.zeros((n, drift.shape[1]))
    for axis in reversed(range(drawn.shape[1])):  # the time first
        bins, knots = (kept.get(f"{what}_{axis}_{label}") for what in ("atoms", "knots"))
        if n and not (bins is None and knots is None):
            order = np.argsort(drawn[:, axis])  # in order, interpolation is several times faster
            values = drawn[order, axis]
            grid = np.quantile(values, np.linspace(0, 1, min(n, 2_001)))
            p = mixture_cdf(
                values, own["weights"], own["means"][:, axis], deviations[:, axis], grid
            ).clip(1e-12, 1 - 1e-12)
            if axis == AMOUNT:
                p = ndtr(ndtri(p) * np.sqrt(1 - moved[:, AMOUNT].var()) + moved[order, AMOUNT])
            drawn[order, axis] = (
                from_normal(ndtri(p), knots) if bins is None else from_uniform(p, bins)
            )
        if axis == TIME:
            moved = drift[blocks(drawn[:, TIME])]
    drawn[:, :AMOUNT] += moved[:, :AMOUNT]
    return drawn


def blocks(time: np.ndarray) -> np.ndarray:
    """Of the 16 blocks of three hours the one of each time, (N,)."""
    return (time // 10_800).astype(int).clip(0, BLOCKS - 1)


def apart(rows: np.ndarray, kept: dict[str, np.ndarray]) -> np.ndarray:
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


def together(axes: np.ndarray, kept: dict[str, np.ndarray]) -> np.ndarray:
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
