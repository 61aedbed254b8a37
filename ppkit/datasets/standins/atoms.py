"""Distributions of columns with round and repeated values: point masses and stretches, each held by at least 50 rows."""

import numpy as np
from scipy.special import ndtr

from .marginals import ROWS_A_KNOT


def atoms(values: np.ndarray, *, at_most: int = 200) -> np.ndarray:
    """What is kept of a column with ties: ascending bins, each one repeated value or a stretch of rarer ones.

    A value held by at least max(50, N / at_most) rows is a bin of its own; the values between two such ones are gathered
    into stretches of so many rows.  What is left over under 50 rows joins a neighbouring bin without moving its numbers; at the
    upper end it makes one stretch with that bin.
    values: (N,), N >= 1.  at_most: about how many bins, >= 1.
    Returns (m, 3): share of the rows, mean, standard deviation (0 for one value).  ValueError if there is no value.
    Guarantee: none that is formal; each number is over at least 50 rows (over all of them if there are fewer).

    >>> atoms(np.r_[np.zeros(60), 2.0, np.full(139, 3.0)]).round(3).tolist()
    [[0.305, 0.0, 0.0], [0.695, 3.0, 0.0]]
    """
    if len(values) == 0:
        raise ValueError("atoms need at least one value, got none")
    levels, counts = np.unique(np.asarray(values, np.float64), return_counts=True)
    wanted = max(ROWS_A_KNOT, -(-len(values) // at_most))
    groups, is_open = [], False                                    # [first level, behind the last level, a stretch?]
    for place, count in enumerate(counts):
        if count >= wanted:
            groups.append([place, place + 1, False])
            is_open = False
        elif is_open and counts[groups[-1][0]:groups[-1][1]].sum() < wanted:
            groups[-1][1] = place + 1
        else:
            groups.append([place, place + 1, True])
            is_open = True
    while len(groups) > 1 and counts[groups[-1][0]:].sum() < ROWS_A_KNOT:       # the upper tail keeps its rows
        groups[-2:] = [[groups[-2][0], groups[-1][1], True]]
    bins, waiting = [], 0
    for first, end, stretch in groups:
        rows, held = counts[first:end].sum(), levels[first:end]
        if rows < ROWS_A_KNOT and len(groups) > 1:
            waiting += rows
            if bins:
                bins[-1][0], waiting = bins[-1][0] + waiting, 0
            continue
        mean = np.average(held, weights=counts[first:end])
        spread = np.sqrt(np.average((held - mean) ** 2, weights=counts[first:end])) if stretch else 0.0
        bins.append([rows + waiting, mean, spread])
        waiting = 0
    table = np.array(bins)
    table[:, 0] /= len(values)
    return table


def from_uniform(p: np.ndarray, atoms: np.ndarray) -> np.ndarray:
    """Values at probabilities: the quantile function of the bins.

    In a stretch the values are uniform with its mean and standard deviation; in the last bin, if it is a stretch, they
    are generalised Pareto with both, from where the bin before ends (or from where a uniform one would begin).
    p: (N,) in [0, 1].  atoms: (m, 3) as `atoms` gives it.  Returns (N,).
    """
    share, mean, spread = np.asarray(atoms, np.float64).T
    above = np.cumsum(share)
    place = np.minimum(np.searchsorted(above[:-1], p, side="right"), len(share) - 1)
    within = np.clip((p - (above - share)[place]) / share[place], 0.0, 1.0)
    values = mean[place] + np.sqrt(3) * spread[place] * (2 * within - 1)
    if spread[-1] > 0 and len(share) > 1:
        last = place == len(share) - 1
        low = max(mean[-1] - np.sqrt(3) * spread[-1], mean[-2] + np.sqrt(3) * spread[-2])
        excess = max(mean[-1] - low, 1e-3 * spread[-1])
        shape = (1 - (excess / spread[-1]) ** 2) / 2               # below 1/2: mean and deviation exist
        shape = shape if abs(shape) > 1e-6 else 1e-6
        values[last] = low + excess * (1 - shape) / shape * (np.maximum(1 - within[last], 1e-9) ** -shape - 1)
    return values


def mixture_cdf(z: np.ndarray, weights: np.ndarray, means: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    """Probabilities below z under a mixture of normals, by a table of 4,001 points from -8 to 8.

    z: (N,).  weights, means, deviations: (K,).  Returns (N,) in (0, 1).
    """
    grid = np.linspace(-8, 8, 4001)
    below = ndtr((grid[:, None] - means) / deviations) @ (weights / weights.sum())
    return np.interp(z, grid, below)
