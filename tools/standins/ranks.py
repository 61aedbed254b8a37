"""Normal scores behind columns of numbers, codes and gaps, so that a mixture of normals can hold
how they hang together.
"""

import numpy as np
from scipy.special import ndtr, ndtri

MANY = 20  # a column with more levels than this is taken as continuous


def scores(
    columns: np.ndarray,
    rng: np.random.Generator,
    *,
    sweeps: int = 15,
    at_random: tuple[int, ...] = (),
) -> np.ndarray:
    """Normal scores of every column by rank; ties are spread as the other columns suggest, gaps
    filled likewise.

    A tie says only between which two quantiles the score lies. A score drawn there at random would
    weaken every association of the column, so it is drawn there from its normal distribution given
    the row's other scores, column after column, `sweeps` times (Gibbs sampling of the Gaussian
    copula's rank likelihood).
    columns: (N, D), nan for a gap.  rng: of the draws.  sweeps: >= 0.  at_random: columns whose
    ties stay spread at random, for those whose dependence on the others is far from a normal one.
    Returns Z (N, D), finite; a column with one level or none depends on nothing.
    Source: P. D. Hoff, Extending the rank likelihood for semiparametric copula estimation, Annals
    of Applied Statistics 1, 2007, section 3.
    """
    bounds = [_bounds(values) for values in columns.T]
    Z = np.column_stack(
        [
            ndtri(low + (high - low) * _within(values, low, rng))
            for values, (low, high, _) in zip(columns.T, bounds, strict=True)
        ]
    )
    for _ in range(sweeps):
        for place, (low, high, drawn) in enumerate(bounds):
            if drawn and place not in at_random:
                Z[:, place] = _redrawn(Z, place, low, high, rng)
    return Z


def _bounds(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
    """Per row the probabilities between which its score lies, and whether it is redrawn (few
    levels, or gaps).
    """
    known = ~np.isnan(values)
    levels, place, counts = np.unique(values[known], return_inverse=True, return_counts=True)
    edges = np.r_[0, np.cumsum(counts)] / max(known.sum(), 1)
    low, high = np.zeros(len(values)), np.ones(len(values))
    low[known], high[known] = edges[place], edges[place + 1]
    return low, high, 1 < len(levels) <= MANY or (len(levels) > 1 and not known.all())


def _within(values: np.ndarray, low: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Places in (0, 1) inside each row's bounds: the rows of a tie evenly spaced, at random."""
    order = np.lexsort((rng.random(len(values)), values, low, np.isnan(values)))
    _, first, place, counts = np.unique(
        np.column_stack([low, np.isnan(values)])[order],
        axis=0,
        return_index=True,
        return_inverse=True,
        return_counts=True,
    )
    within = np.empty(len(values))
    within[order] = (np.arange(len(values)) - first[place.ravel()] + 0.5) / counts[place.ravel()]
    return within


def _redrawn(
    Z: np.ndarray, place: int, low: np.ndarray, high: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    others = np.delete(Z, place, axis=1)
    others = others - others.mean(axis=0)
    spread = others.T @ others / len(Z) + 1e-6 * np.eye(others.shape[1])
    weights = np.linalg.solve(spread, others.T @ (Z[:, place] - Z[:, place].mean()) / len(Z))
    mean = others @ weights
    deviation = np.sqrt(max(Z[:, place].var() - weights @ spread @ weights, 1e-2))
    below, above = ndtr((ndtri(low) - mean) / deviation), ndtr((ndtri(high) - mean) / deviation)
    p = np.clip(below + (above - below) * rng.random(len(Z)), 1e-9, 1 - 1e-9)
    return mean + deviation * ndtri(p)
