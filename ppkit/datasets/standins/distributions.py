"""What a stand-in draws from: columns kept as a few numbers, and mixtures of normals."""

import numpy as np
from scipy.special import ndtr


def draw_mixture(parameters: dict[str, np.ndarray], n: int, rng: np.random.Generator) -> np.ndarray:
    """n draws from the mixture, in random order of components.

    parameters: weights (K,), means (K, D), factors (K, D, D), lower Cholesky factors of the
    covariances.  n: >= 0.  Returns (n, D) float64.
    """
    weights, means, factors = (
        np.asarray(parameters[key], np.float64) for key in ("weights", "means", "factors")
    )
    component = rng.choice(len(weights), n, p=weights / weights.sum())
    drawn = rng.standard_normal((n, means.shape[1]))
    for k in range(len(weights)):
        mine = np.flatnonzero(component == k)
        drawn[mine] = drawn[mine] @ factors[k].T + means[k]
    return drawn


def mixture_cdf(
    z: np.ndarray,
    weights: np.ndarray,
    means: np.ndarray,
    deviations: np.ndarray,
    grid: np.ndarray | None = None,
) -> np.ndarray:
    """Probabilities below z under a mixture of normals, by a table over the grid.

    z: (N,).  weights, means, deviations: (K,).  grid: ascending, default 4,001 points from -8 to 8.
    Returns (N,) in (0, 1).
    """
    grid = np.linspace(-8, 8, 4001) if grid is None else grid
    below = ndtr((grid[:, None] - means) / deviations) @ (weights / weights.sum())
    return np.interp(z, grid, below)


def from_normal(z: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """Values of normal scores: the quantile function through the knots.

    Between the outer knots' bins piecewise linear in the probability; beyond the middle of the last
    two knots the tail is exponential with the last bin's mean, likewise below.
    z: (N,).  knots: (m,) ascending.  Returns (N,); the one knot's value everywhere if m = 1.
    """
    z, m = np.asarray(z, np.float64), len(knots)
    if m < 2 or knots[-1] == knots[0]:
        return np.full(len(z), float(knots[0]))
    p, low, high = ndtr(z), (knots[0] + knots[1]) / 2, (knots[-2] + knots[-1]) / 2
    values = np.interp(
        p, np.r_[1 / m, (np.arange(1, m - 1) + 0.5) / m, 1 - 1 / m], np.r_[low, knots[1:-1], high]
    )
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
    share, mean, spread = np.asarray(atoms, np.float64).T
    above = np.cumsum(share)
    place = np.minimum(np.searchsorted(above[:-1], p, side="right"), len(share) - 1)
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
