"""How well a score separates fraud from the rest, and how sure a test set of this size can be."""

import numpy as np
from scipy.stats import norm, rankdata
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


def auc_halfwidth(y, score, *, confidence: float = 0.95) -> float:
    """Half the width of the normal confidence interval for the AUC on this test set.

    z * sqrt(var(V10) / m + var(V01) / n), V10 and V01 the placement values of m positives and n negatives.
    y, score: as for `auc`, at least two of each class.  confidence: in (0, 1).
    Source: DeLong, DeLong and Clarke-Pearson 1988.

    >>> round(auc_halfwidth([0, 0, 0, 1, 1, 1], [.1, .4, .5, .35, .8, .9]), 3)
    0.487
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie in (0, 1), got {confidence}")
    y, score = np.asarray(y) == 1, np.asarray(score, dtype=float)
    m, n = int(y.sum()), int((~y).sum())
    if min(m, n) < 2:
        raise ValueError(f"needs two of each class, got {m} positives and {n} negatives")
    ranks = rankdata(score)
    above = (ranks[y] - rankdata(score[y])) / n
    below = 1 - (ranks[~y] - rankdata(score[~y])) / m
    return float(norm.ppf(0.5 + confidence / 2) * np.sqrt(above.var(ddof=1) / m + below.var(ddof=1) / n))
