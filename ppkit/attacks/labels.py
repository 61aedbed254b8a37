"""What the gradients of training tell about the labels that only one party holds.

Every record's gradient is G_i = (p_i - y_i) c_i, whatever the layers: p_i - y_i < 0 exactly for the
positives, and c_i (the derivative of the logit) points to one side for nearly all records. One
direction then separates the labels, and the first singular vector of G is such a direction: nothing
has to be trained or known. What may help is in `label_defences`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sklearn.linear_model import Ridge

from ppkit.attacks.arrays import matrix, views_of


class Direction(NamedTuple):
    """scores: (N,), higher for who seems positive."""

    scores: np.ndarray


def first_direction(gradients) -> Direction:
    """Scores of the labels: the gradients along their own first singular direction.

    scores = s G v,  v = argmax |G v| over |v| = 1,  s = +1 or -1

    The sign s of a singular direction is open. Where positives are rarer, p - y has its long tail
    on their side, so s makes the scores' third moment positive; who knows one positive record knows
    s anyway.
    gradients: (N, width), one row a record: of h1 (what a holder gets), or of the last hidden layer
    (what the server gets, (p - y) w: rank one).
    Returns a Direction.  ValueError if a value is not finite, or all are 0.
    Guarantee: where v^T c_i has one sign for all i, scores have AUC 1 (0 if s is wrong), and their
    signs are the labels.
    Source: zhou2021, Fig. 4, lines 43-44 hand G to the holders; Li et al. 2022 use the cosine to a
    known positive's gradient.

    >>> first_direction([[0.1, 0.2], [0.2, 0.4], [-0.9, -1.8], [0.1, 0.2]]).scores > 0
    array([False, False,  True, False])
    """
    return averaged([gradients])


def averaged(gradients: Sequence) -> Direction:
    """Scores from several steps on the same records in one order: noise fresh in each step averages
    out, the label stays.

    scores = s sum_t G_t v_t / sd(G_t v_t),  v_t^T v_(t-1) >= 0

    gradients: T arrays (N, width) as for `first_direction`; the weights behind them change little
    from one to the next, so that directions keep their sense.  Returns a Direction.
    """
    stack, total, before = views_of(gradients, "gradients"), 0.0, None
    for G in stack:
        if not G.any():
            raise ValueError("all gradients are 0: there is no direction")
        G, exponent = _scaled(G)
        v = np.linalg.eigh(G.T @ (G / np.abs(G).max()))[1][:, -1]
        v = v if before is None or v @ before >= 0 else -v
        scores, before = G @ v, v
        total = total + (scores / scores.std() if len(stack) > 1 and scores.std() > 0 else scores)
    total = total if ((total - total.mean()) ** 3).sum() >= 0 else -total
    return Direction(np.ldexp(total, exponent) if len(stack) == 1 else total)


def _scaled(values: np.ndarray) -> tuple[np.ndarray, int]:
    """Values = scaled 2^exponent, the largest scaled one in [.5, 1): no power of them is out of
    range, and a power of 2 rounds nothing."""
    exponent = int(np.frexp(np.abs(values).max())[1])
    return np.ldexp(values, -exponent), exponent


def norms(gradients) -> np.ndarray:
    """Scores of the labels by |G_i|, for comparison: high where |p - y| is, so right only if p is
    small for all negatives.

    gradients: (N, width).  Returns (N,), >= 0.  Source: Li et al. 2022.

    >>> norms([[3.0, 4.0], [0.0, 0.0]]).tolist()
    [5.0, 0.0]
    """
    scaled, exponent = _scaled(matrix("gradients", gradients))
    return np.ldexp(np.linalg.norm(scaled, axis=1), exponent)


def explained(
    inputs, targets, *, ridge: float = 1e-3, folds: int = 5, rng: np.random.Generator
) -> np.ndarray:
    """Share of each target's variance that a ridge regression on the inputs explains in records it
    was not fitted on.

    For what one holder's columns and the gradients together tell about another holder's columns:
    the difference between explained([X_B, G], X_A) and explained(X_B, X_A) is what training told.
    inputs: (N, F), scaled inside to mean 0 and deviation 1 (a constant column is left out).
    targets: (N, d).
    ridge: times N, >= 0.  folds: >= 2.  rng: cuts the folds.
    Returns (d,), R^2 of each target over all folds, at most 1.  ValueError for too few rows or an
    argument out of range.
    """
    inputs, targets = matrix("inputs", inputs), matrix("targets", targets)
    if len(inputs) != len(targets):
        raise ValueError(
            f"inputs and targets must have the same rows, got {len(inputs)} and {len(targets)}"
        )
    if not 2 <= folds <= len(inputs) or not ridge >= 0:
        raise ValueError(
            f"folds must be 2 to {len(inputs)} (the rows) and ridge >= 0, got {folds} and {ridge}"
        )
    spread = inputs.std(axis=0)
    inputs = (inputs[:, spread > 0] - inputs[:, spread > 0].mean(axis=0)) / spread[spread > 0]
    guess = np.empty_like(targets)
    for held_out in np.array_split(rng.permutation(len(inputs)), folds):
        fitted = np.setdiff1d(np.arange(len(inputs)), held_out)
        regression = Ridge(ridge * len(fitted)).fit(inputs[fitted], targets[fitted])
        guess[held_out] = regression.predict(inputs[held_out])
    varies = targets.var(axis=0)
    left = ((targets - guess) ** 2).mean(axis=0)
    return np.where(varies > 0, 1 - left / np.where(varies > 0, varies, 1), 0.0)
