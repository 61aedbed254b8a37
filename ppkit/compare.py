"""How sure a difference between two models is, when both are judged on the same few frauds.

A test set of 28 frauds could have come out otherwise: it is drawn again, within each label, and
both models are scored on what was drawn.  A row that was drawn w times counts w times, so a score
is a weighted one and takes one pass over rows that were sorted once; the scores are those of
`ppkit.evaluation`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

SCORES = ("auc", "average_precision", "accuracy", "log_loss", "log of log_loss")


def weighted_score(name: str, y: np.ndarray, logit: np.ndarray) -> Callable[[np.ndarray], float]:
    """The score as a function of how often each row counts; all ones give `evaluation`'s.

    name: one of SCORES.  y: (N,) labels in {0, 1}.  logit: (N,) log-odds of class 1.
    Returns a function of weights (N,), >= 0 with rows of both labels.  ValueError for another name.
    """
    y, logit = np.asarray(y), np.asarray(logit, dtype=np.float64)
    if name not in SCORES:
        raise ValueError(f"score must be one of {SCORES}, got {name!r}")
    if name == "accuracy":
        right = ((logit > 0) == y).astype(np.float64)
        return lambda w: float(w @ right / w.sum())
    if name.endswith("log_loss"):
        loss = np.logaddexp(0, np.where(y == 1, -logit, logit))
        mean = lambda w: float(w @ loss / w.sum())
        return mean if name == "log_loss" else lambda w: float(np.log(mean(w)))
    order = np.argsort(-logit, kind="stable")
    ranked, frauds = logit[order], order[y[order] == 1]
    levels, first_fraud = np.unique(
        -logit[frauds], return_index=True
    )  # the frauds' logits, highest first; ties are one level
    above, through = (
        np.searchsorted(-ranked, levels, side="left"),
        np.searchsorted(-ranked, levels, side="right"),
    )
    edges = np.unique(np.r_[0, above, through[through < len(y)]])
    at_above, at_through = (
        np.searchsorted(edges, above),
        np.searchsorted(np.r_[edges, len(y)], through),
    )
    sorted_weights = np.empty(len(y))

    def by_rank(w: np.ndarray) -> float:
        rows = np.r_[
            0.0, np.cumsum(np.add.reduceat(np.take(w, order, out=sorted_weights), edges))
        ]  # that rank above an edge
        hits = np.add.reduceat(w[frauds], first_fraud)
        reached = np.cumsum(hits)
        if name == "average_precision":
            return float(
                hits
                @ np.divide(reached, rows[at_through], out=np.zeros_like(hits), where=hits > 0)
                / reached[-1]
            )
        over, tied = (
            rows[at_above] - (reached - hits),
            rows[at_through] - rows[at_above] - hits,
        )  # genuine rows
        genuine = rows[-1] - reached[-1]
        return float(hits @ (genuine - over - tied / 2) / (reached[-1] * genuine))

    return by_rank


def difference(
    name: str, y: np.ndarray, pairs: Sequence[tuple[np.ndarray, np.ndarray]]
) -> np.ndarray:
    """score(first) - score(second) of every pair of log-odds, one pair a seed; arguments as in
    `weighted_score`."""
    ones = np.ones(len(y))
    return np.array(
        [
            weighted_score(name, y, first)(ones) - weighted_score(name, y, second)(ones)
            for first, second in pairs
        ]
    )


def halfwidth(
    name: str,
    y: np.ndarray,
    pairs: Sequence[tuple[np.ndarray, np.ndarray]],
    *,
    n_draws: int = 1_000,
    rng: np.random.Generator,
) -> float:
    """Half the width of a 95% interval of the mean over seeds of `difference`: test rows and seeds
    could both be others.

    1.96 sqrt(s_rows^2 + s_seeds^2 / S),    s_rows: of the first pair's difference over n_draws
    bootstraps within labels

    pairs: S >= 1 pairs of log-odds, one a seed; with S = 1 the seeds' part is left out.  n_draws:
    >= 2.
    Returns a number > 0 (at least 1e-6).  ValueError for an unknown score or n_draws < 2.
    """
    if n_draws < 2:
        raise ValueError(f"n_draws must be >= 2, got {n_draws}")
    y, (first, second) = np.asarray(y), (weighted_score(name, y, z) for z in pairs[0])
    labels = [np.flatnonzero(y == k) for k in (0, 1)]
    drawn, w = [], np.empty(len(y))
    for _ in range(n_draws):
        for rows in labels:
            w[rows] = np.bincount(rng.integers(0, len(rows), len(rows)), minlength=len(rows))
        drawn.append(first(w) - second(w))
    seeds = difference(name, y, pairs)
    between = seeds.var(ddof=1) / len(seeds) if len(seeds) > 1 else 0.0
    return max(1.96 * float(np.sqrt(np.var(drawn) + between)), 1e-6)
