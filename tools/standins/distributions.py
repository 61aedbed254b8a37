"""What is kept of real rows: columns as means over at least 50 rows each, the normal scores behind
columns, and mixtures of normals that hold how these hang together.
"""

import math
import warnings

import numpy as np
import pandas as pd
from numpy.random import Generator
from scipy.special import ndtr, ndtri
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from ppkit.datasets.standins.distributions import Arrays

ROWS_A_KNOT = 50  # what is kept of real rows is never an average over fewer
MANY = 20  # a column with more levels than this is taken as continuous


def enough(rows: np.ndarray) -> None:
    """ValueError for fewer than ROWS_A_KNOT rows."""
    if len(rows) < ROWS_A_KNOT:
        raise ValueError(f"a stand-in keeps means over {ROWS_A_KNOT} rows or more, got {len(rows)}")


def knots(values: np.ndarray, *, at_most: int = 128) -> np.ndarray:
    """Means of bins of equally many rows, ascending: what is kept of a column's distribution.

    values: (N,), N >= 50.  at_most: bins, >= 1.
    Returns (m,), m = min(at_most, N // 50).  ValueError for fewer rows.
    Knot i stands for the probability (i + 1/2) / m.
    Guarantee: none that is formal; each number is a mean over at least 50 rows.

    >>> knots(np.arange(100.0))
    array([24.5, 74.5])
    """
    enough(values)
    bins = min(at_most, len(values) // ROWS_A_KNOT)
    ordered = np.sort(np.asarray(values, np.float64))
    edges = np.linspace(0, len(ordered), bins + 1).round().astype(int)
    return np.add.reduceat(ordered, edges[:-1]) / np.diff(edges)


def atoms(values: np.ndarray, *, at_most: int = 200) -> np.ndarray:
    """What is kept of a column with ties: ascending bins, each one repeated value or a stretch of
    rarer ones.

    A value held by at least max(50, N / at_most) rows is a bin of its own; the values between two
    such ones are gathered into stretches of so many rows.  What is left over under 50 rows joins a
    neighbouring bin without moving its numbers; at the upper end it makes one stretch with that
    bin.
    values: (N,), N >= 50.  at_most: about how many bins, >= 1.
    Returns (m, 3): share of the rows, mean, standard deviation (0 for one value).
    ValueError for fewer rows.
    Guarantee: none that is formal; each number is over at least 50 rows.

    >>> atoms(np.r_[np.zeros(60), 2.0, np.full(139, 3.0)]).round(3).tolist()
    [[0.305, 0.0, 0.0], [0.695, 3.0, 0.0]]
    """
    enough(values)
    levels, counts = np.unique(np.asarray(values, np.float64), return_counts=True)
    wanted = max(ROWS_A_KNOT, math.ceil(len(values) / at_most))
    group, last, gathered = np.empty(len(counts), int), -1, wanted
    for place, rows in enumerate(counts.tolist()):
        if rows >= wanted or gathered >= wanted:
            last, gathered = last + 1, 0
        group[place] = last
        gathered += rows
    while counts[group == group[-1]].sum() < ROWS_A_KNOT:  # the upper tail keeps its rows
        group[group == group[-1]] -= 1
    rows_of_group = np.bincount(group, counts)
    kept = rows_of_group >= ROWS_A_KNOT
    joined = np.maximum(np.cumsum(kept) - 1, 0)  # the bin that the rows of each group count for
    moments = []
    for one in np.flatnonzero(kept):
        own = group == one
        mean = np.average(levels[own], weights=counts[own])
        variance = np.average((levels[own] - mean) ** 2, weights=counts[own])
        moments.append([mean, np.sqrt(variance) if own.sum() > 1 else 0.0])
    return np.column_stack([np.bincount(joined, rows_of_group) / len(values), moments])


def scores(
    columns: np.ndarray, rng: Generator, *, sweeps: int = 15, at_random: tuple[int, ...] = ()
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
            ndtri(low + (high - low) * _within(values, rng))
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
    column = pd.Series(values)
    known, levels = max(column.count(), 1), column.nunique()
    low = ((column.rank(method="min") - 1) / known).fillna(0.0).to_numpy()
    high = (column.rank(method="max") / known).fillna(1.0).to_numpy()
    return low, high, 1 < levels <= MANY or (levels > 1 and column.hasnans)


def _within(values: np.ndarray, rng: Generator) -> np.ndarray:
    """Places in (0, 1) inside each row's bounds: the rows of a tie, as those of a gap, evenly
    spaced, at random."""
    ties = pd.Series(rng.random(len(values))).groupby(values, dropna=False)
    return ((ties.rank() - 0.5) / ties.transform("size")).to_numpy()


def _redrawn(
    Z: np.ndarray, place: int, low: np.ndarray, high: np.ndarray, rng: Generator
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


def mixture(
    Z: np.ndarray,
    n_components: int,
    rng: Generator,
    *,
    ridge: float = 1e-3,
    steps: int = 60,
    start: Arrays | None = None,
) -> Arrays:
    """A Gaussian mixture with full covariances, by expectation-maximisation from k-means++.

    Components under 50 rows are dropped, and the others go on from where they are.
    Z: (N, D).  n_components: wanted at the start, >= 1.
    ridge: share of a column's variance that is added to its variance in each component.
    steps: of expectation-maximisation, at most, after each drop.  start: a mixture to go on from,
    instead of k-means++.
    Returns weights (K,), means (K, D), factors (K, D, D): lower Cholesky factors of the
    covariances.
    """
    scale = np.where(Z.std(axis=0) > 1e-9, Z.std(axis=0), 1.0)
    model = GaussianMixture(
        min(n_components, len(Z) // ROWS_A_KNOT),
        reg_covar=ridge,
        max_iter=steps,
        tol=1e-3,
        init_params="k-means++",
        random_state=int(rng.integers(2**31)),
    )
    if start is not None:
        factors = start["factors"] / scale[:, None]
        precisions = np.linalg.inv(factors @ factors.transpose(0, 2, 1))
        _go_on_from(model, start["weights"], start["means"] / scale, precisions)
    while True:
        with warnings.catch_warnings():  # what counts is measured later
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(Z / scale)
        kept = model.weights_ * len(Z) >= ROWS_A_KNOT
        if kept.all():
            break
        kept[np.argmax(model.weights_)] = True
        _go_on_from(model, model.weights_[kept], model.means_[kept], model.precisions_[kept])
    return {
        "weights": model.weights_,
        "means": model.means_ * scale,
        "factors": scale[:, None] * np.linalg.cholesky(model.covariances_),
    }


def _go_on_from(
    model: GaussianMixture, weights: np.ndarray, means: np.ndarray, precisions: np.ndarray
) -> None:
    model.set_params(
        n_components=len(weights),
        weights_init=weights / weights.sum(),
        means_init=means,
        precisions_init=precisions,
    )
