"""What a stand-in draws from: columns kept as a few numbers, and mixtures of normals."""

import numpy as np
from numpy.random import Generator
from scipy.special import ndtr

Arrays = dict[str, np.ndarray]  # by name
Table = tuple[np.ndarray, np.ndarray]  # points, ascending, and values
_POINTS = 1_200  # of a distribution function's table, at least


def draw_mixture(parameters: Arrays, n: int, rng: Generator) -> np.ndarray:
    """n draws from the mixture, component after component.

    parameters: weights (K,), means (K, D), factors (K, D, D), lower Cholesky factors of the
    covariances.  n: >= 0.  Returns (D, n) float64: a draw is a column.
    """
    weights, means, factors = (parameters[key] for key in ("weights", "means", "factors"))
    counts = rng.multinomial(n, weights / weights.sum())
    draws = rng.standard_normal((means.shape[1], n))
    ends = np.cumsum(counts)
    starts = ends - counts
    for mean, factor, start, end in zip(means, factors, starts, ends, strict=True):
        draws[:, start:end] = factor @ draws[:, start:end] + mean[:, None]
    return draws


def mixture_cdfs(parameters: Arrays) -> list[Table]:
    """Each axis' distribution under a mixture of normals, as points and the probabilities below.

    `looked_up(z, mixture_cdfs(parameters)[axis])` is the probability below z.
    parameters: as of `draw_mixture`.
    Returns D pairs, ascending, with probabilities from 1e-12 to 1 - 1e-12.  The points lie around
    every component, evenly from -6.5 to 6.5 of its deviations.
    Guarantee: exact at the points.  Between them off by at most h^2 / 8 times .242, the largest
    slope of the normal density; h is their distance, .2 deviations, or less if components are few.
    """
    weights, means, factors = (parameters[key] for key in ("weights", "means", "factors"))
    shares, deviations = weights / weights.sum(), np.sqrt((factors**2).sum(axis=2))
    around = np.linspace(-6.5, 6.5, max(66, _POINTS // len(shares)))[:, None]
    tables = []
    for mean, deviation in zip(means.T, deviations.T, strict=True):
        points = np.unique(mean + deviation * around)
        below = ndtr((points[:, None] - mean) / deviation) @ shares
        tables.append((points, below.clip(1e-12, 1 - 1e-12)))
    return tables


def looked_up(z: np.ndarray, table: Table) -> np.ndarray:
    """The table's values at z, (N,), linear between its points; in order it is twice as fast."""
    order, values = np.argsort(z), np.empty(len(z))
    values[order] = np.interp(z[order], *table)
    return values


def from_normal(z: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """Values of normal scores: the quantile function through the knots.

    Between the outer knots' bins piecewise linear in the probability; beyond the middle of the last
    two knots the tail is exponential with the last bin's mean, likewise below.
    z: (N,).  knots: (m,) ascending.  Returns (N,); the one knot's value everywhere if m = 1.
    """
    if knots[-1] == knots[0]:
        return np.full(len(z), float(knots[0]))
    p, m = ndtr(z), len(knots)
    low, high = (knots[0] + knots[1]) / 2, (knots[-2] + knots[-1]) / 2
    middles = (np.arange(1, m - 1) + 0.5) / m
    values = np.interp(p, np.r_[1 / m, middles, 1 - 1 / m], np.r_[low, knots[1:-1], high])
    below, above = p < 1 / m, p > 1 - 1 / m
    values[below] = low + (low - knots[0]) * np.log(p[below] * m)
    values[above] = high - (knots[-1] - high) * np.log(ndtr(-z[above]) * m)
    return values


def from_uniform(p: np.ndarray, atoms: np.ndarray) -> np.ndarray:
    """Values at probabilities: the quantile function of the bins.

    In a stretch the values are uniform with its mean and standard deviation; in the last bin, if it
    is a stretch, they are generalised Pareto with both, from where the bin before ends (or from
    where a uniform one would begin).
    p: (N,) in [0, 1].  atoms: (m, 3) as `atoms` gives it.  Returns (N,).
    """
    share, mean, spread = atoms.T
    above = np.cumsum(share)
    place = np.searchsorted(above[:-1], p, side="right")
    within = np.clip((p - (above - share)[place]) / share[place], 0.0, 1.0)
    values = mean[place] + np.sqrt(3) * spread[place] * (2 * within - 1)
    if spread[-1] > 0 and len(share) > 1:
        last = place == len(share) - 1
        low = max(mean[-1] - np.sqrt(3) * spread[-1], mean[-2] + np.sqrt(3) * spread[-2])
        excess = max(mean[-1] - low, 1e-3 * spread[-1])
        shape = (1 - (excess / spread[-1]) ** 2) / 2  # below 1/2: mean and deviation exist
        shape = shape if abs(shape) > 1e-6 else 1e-6
        values[last] = low + excess * (1 - shape) / shape * (
            np.maximum(1 - within[last], 1e-9) ** -shape - 1
        )
    return values
