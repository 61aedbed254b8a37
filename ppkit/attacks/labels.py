"""What the gradients of training tell about the labels that only one party holds.

Every record's gradient is G_i = (p_i - y_i) c_i, whatever the layers: p_i - y_i < 0 exactly for the
positives, and c_i (the derivative of the logit) points to one side for nearly all records. One
direction then separates the labels, and the first singular vector of G is such a direction: nothing
has to be trained or known. What may help is in `label_defences`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.preprocessing import StandardScaler

from ppkit.attacks.arrays import deviations, matrices, matrix
from ppkit.validation import must_be, same_rows


class Direction(NamedTuple):
    """scores: (N,), higher for who seems positive."""

    scores: np.ndarray


def first_direction(gradients: ArrayLike) -> Direction:
    """Scores of the labels: the gradients along their own first singular direction.

    scores = s G v,  v = argmax |G v| over |v| = 1,  s = +1 or -1

    The sign s of a singular direction is open. Where positives are rarer, p - y has its long tail
    on their side, so s makes the scores' third moment positive; who knows one positive record knows
    s anyway.
    gradients: (N, width), one row a record: of h1 (what a holder gets), or of the last hidden layer
    (what the server gets, (p - y) w: rank one).
    Returns a Direction.  ValueError if a value is not finite.
    Guarantee: where v^T c_i has one sign for all i, scores have AUC 1 (0 if s is wrong), and their
    signs are the labels.
    Source: zhou2021, Fig. 4, lines 43-44 hand G to the holders; Li et al. 2022 use the cosine to a
    known positive's gradient.

    >>> first_direction([[0.1, 0.2], [0.2, 0.4], [-0.9, -1.8], [0.1, 0.2]]).scores > 0
    array([False, False,  True, False])
    """
    return averaged([gradients])


def averaged(gradients: Sequence[ArrayLike]) -> Direction:
    """Scores from several steps on the same records in one order: noise fresh in each step averages
    out, the label stays.

    scores = s sum_t G_t v_t / sd(G_t v_t),  v_t^T v_(t-1) >= 0

    gradients: T arrays (N, width) as for `first_direction`; the weights behind them change little
    from one to the next, so that directions keep their sense.  Returns a Direction.
    """
    stack = matrices("gradients", gradients)
    total, before = np.zeros(len(stack[0])), None
    for G in stack:
        v = np.linalg.eigh(G.T @ G)[1][:, -1]
        if before is not None and v @ before < 0:
            v = -v
        before = v
        scores = G @ v
        spread = deviations(scores) if len(stack) > 1 else 1.0
        # a step whose gradients are all alike tells nothing
        total += scores / spread if spread > 0 else 0.0
    skew = ((total - total.mean()) ** 3).sum()
    return Direction(total if skew >= 0 else -total)


def norms(gradients: ArrayLike) -> np.ndarray:
    """Scores of the labels by |G_i|, for comparison: high where |p - y| is, so right only if p is
    small for all negatives.

    gradients: (N, width).  Returns (N,), >= 0.  Source: Li et al. 2022.

    >>> norms([[3.0, 4.0], [0.0, 0.0]]).tolist()
    [5.0, 0.0]
    """
    return np.linalg.norm(matrix("gradients", gradients), axis=1)


def explained(
    inputs: ArrayLike,
    targets: ArrayLike,
    *,
    ridge: float = 1e-3,
    folds: int = 5,
    rng: np.random.Generator,
) -> np.ndarray:
    """Share of each target's variance that a ridge regression on the inputs explains in records it
    was not fitted on.

    For what one holder's columns and the gradients together tell about another holder's columns:
    the difference between explained([X_B, G], X_A) and explained(X_B, X_A) is what training told.
    inputs: (N, F), scaled inside to mean 0 and deviation 1.
    targets: (N, d).
    ridge: times N, >= 0.  folds: >= 2.  rng: cuts the folds.
    Returns (d,), R^2 of each target over all folds, at most 1; 0 of a target with one value.
    ValueError for a value that is not finite, other rows in targets, or more folds than records.
    """
    columns = StandardScaler().fit_transform(matrix("inputs", inputs))
    truth = matrix("targets", targets)
    same_rows(inputs=columns, targets=truth)
    must_be("a whole number >= 2", folds=folds)
    if folds > len(truth):
        raise ValueError(f"folds must be at most the {len(truth)} records, got {folds}")
    guess = np.empty_like(truth)
    for held_out in np.array_split(rng.permutation(len(truth)), folds):
        fitted = np.setdiff1d(np.arange(len(truth)), held_out)
        regression = Ridge(ridge * len(fitted)).fit(columns[fitted], truth[fitted])
        guess[held_out] = regression.predict(columns[held_out]).reshape(-1, truth.shape[1])
    shares = r2_score(truth, guess, multioutput="raw_values")
    return np.where(np.ptp(truth, axis=0) > 0, shares, 0.0)
