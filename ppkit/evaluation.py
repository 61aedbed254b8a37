"""How well a score separates fraud from the rest, and how sure a test set of this size can be."""

import numpy as np
from sklearn.metrics import roc_auc_score


def auc(y, score) -> float:
    """Area under the ROC curve: the chance that a positive scores above a negative, ties counted half.

    y: (N,) labels in {0, 1}, both present.  score: (N,) finite numbers, higher means positive.
    ValueError if y holds one class only or a score is not finite.

    >>> auc([0, 0, 1, 1], [.1, .4, .35, .8])
    0.75
    """
    y, score = np.asarray(y), np.asarray(score)
    if not np.isfinite(score).all():
        raise ValueError(f"scores must be finite, {np.count_nonzero(~np.isfinite(score))} of {score.size} are not")
    if np.unique(y).size < 2:
        raise ValueError(f"AUC needs both classes, got only label {np.unique(y)}")
    return float(roc_auc_score(y, score))


def auc_halfwidth(value: float, *, n_positives: int, n_negatives: int) -> float:
    """Half the width of the normal 95% interval of an AUC on a test set of this size.

    1.96 * sqrt((A (1-A) + (m-1) (A / (2-A) - A^2) + (n-1) (2 A^2 / (1+A) - A^2)) / (m n))

    value: the AUC A, in [0, 1].  n_positives, n_negatives: m and n, >= 1.  Returns a number >= 0.
    ValueError if an argument is out of range.
    Source: Hanley and McNeil 1982, whose exponential model is on the cautious side.

    >>> round(auc_halfwidth(0.95, n_positives=66, n_negatives=404), 3)
    0.037
    """
    if not 0 <= value <= 1:
        raise ValueError(f"an AUC lies in [0, 1], got {value}")
    if min(n_positives, n_negatives) < 1:
        raise ValueError(f"needs positives and negatives, got {n_positives} and {n_negatives}")
    both, neither = value / (2 - value) - value**2, 2 * value**2 / (1 + value) - value**2
    variance = value * (1 - value) + (n_positives - 1) * both + (n_negatives - 1) * neither
    return float(1.96 * np.sqrt(variance / (n_positives * n_negatives)))
