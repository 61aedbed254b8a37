"""One column's distribution as a few dozen means, and the way from values to normal scores and back through them."""

import numpy as np
from scipy.special import ndtr, ndtri

ROWS_A_KNOT = 50                 # what is kept of real rows is never an average over fewer


def knots(values: np.ndarray, *, at_most: int = 128) -> np.ndarray:
    """Means of bins of equally many rows, in ascending order: all that a stand-in keeps of a column's distribution.

    values: (N,), N >= 1.  at_most: bins, >= 1.
    Returns (m,), m = min(at_most, N // 50), at least 1.  Knot i stands for the probability (i + 1/2) / m.
    ValueError if there is no value.
    Guarantee: none that is formal; each number is a mean over at least 50 rows (over all of them if there are fewer).

    >>> knots(np.arange(100.0))
    array([24.5, 74.5])
    """
    if len(values) == 0:
        raise ValueError("knots need at least one value, got none")
    bins = max(1, min(at_most, len(values) // ROWS_A_KNOT))
    ordered = np.sort(np.asarray(values, np.float64))
    edges = np.linspace(0, len(ordered), bins + 1).round().astype(int)
    return np.add.reduceat(ordered, edges[:-1]) / np.diff(edges)


def to_normal(values: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """Normal scores of values: the quantile function through the knots, turned round.

    Between the outer knots' bins piecewise linear in the probability; beyond the middle of the last two knots the tail is
    exponential with the last bin's mean, likewise below.  A run of equal knots is a point mass, in its middle.
    values: (N,).  knots: (m,) ascending.
    Returns z (N,) in [-6, 6]; zeros if m < 2 or all knots are equal.
    """
    values, m = np.asarray(values, np.float64), len(knots)
    if m < 2 or knots[-1] == knots[0]:
        return np.zeros(len(values))
    low, high, left, right = _tails(knots)
    inner, position = np.unique(np.r_[low, knots[1:-1], high], return_inverse=True)
    place = np.r_[1 / m, (np.arange(1, m - 1) + 0.5) / m, 1 - 1 / m]
    middle = np.bincount(position, place) / np.bincount(position)
    p = np.interp(values, inner, middle)
    below, above = values < low, values > high
    with np.errstate(divide="ignore", over="ignore"):
        p[below] = np.exp(-(low - values[below]) / left) / m if left > 0 else 0.0
        z = ndtri(p)
        z[above] = -ndtri(np.exp(-(values[above] - high) / right) / m if right > 0 else np.zeros(above.sum()))
    return np.clip(z, -6, 6)


def from_normal(z: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """Values of normal scores, the way back of `to_normal`.

    z: (N,).  knots: (m,) ascending.  Returns (N,); the one knot's value everywhere if m = 1.
    """
    z, m = np.asarray(z, np.float64), len(knots)
    if m < 2 or knots[-1] == knots[0]:
        return np.full(len(z), float(knots[0]))
    low, high, left, right = _tails(knots)
    p = ndtr(z)
    values = np.interp(p, np.r_[1 / m, (np.arange(1, m - 1) + 0.5) / m, 1 - 1 / m], np.r_[low, knots[1:-1], high])
    below, above = p < 1 / m, p > 1 - 1 / m
    values[below] = low + left * np.log(p[below] * m)
    values[above] = high - right * np.log(ndtr(-z[above]) * m)
    return values


def _tails(knots: np.ndarray) -> tuple[float, float, float, float]:
    """Where the two outer bins begin, and the mean excess beyond: midway between the outer two knots."""
    low, high = (knots[0] + knots[1]) / 2, (knots[-2] + knots[-1]) / 2
    return low, high, low - knots[0], knots[-1] - high
