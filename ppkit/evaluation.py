"""How well a score separates fraud from the rest, whether its probabilities are true, and how sure
that, a difference between two models and a fitted slope are.

A test set of 28 frauds could have come out otherwise.  So for a difference between two models it is
drawn again, within each label, and both models are scored on what was drawn (`weighted_score`).
"""

from collections.abc import Callable, Sequence

import numpy as np

from ppkit.validation import binary, finite, must_be, one_of

SCORES = ("auc", "average_precision", "accuracy", "log_loss", "log of log_loss")


def auc(y, score) -> float:
    """Area under the ROC curve: the chance that a positive scores above a negative, ties counted
    half.

    y: (N,) labels in {0, 1}, both present.  score: (N,) finite numbers, higher means positive.
    ValueError if y holds one class only or a score is not finite.

    >>> auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    others, positives = _by_label(y, score, "AUC")
    both = (np.searchsorted(others, positives, side).sum() for side in ("left", "right"))
    return float(sum(both) / (2 * len(others) * len(positives)))


def average_precision(y, score) -> float:
    """Average precision: the mean, over the positives, of the precision among all rows that score
    at least as high.

    A score that knows nothing has the share of positives (.0017 for the card transactions), not .5:
    where frauds are few, AUC hides behind the many easy negatives what this shows.
    y: (N,) labels in {0, 1}, both present.  score: (N,) finite numbers, higher means positive.
    Returns a number in (0, 1].
    ValueError if y holds one class only or a score is not finite.

    >>> round(average_precision([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]), 4)
    0.8333
    """
    others, positives = _by_label(y, score, "average precision")
    reached, false = (len(one) - np.searchsorted(one, positives) for one in (positives, others))
    return float(np.mean(reached / (reached + false)))


def log_loss(y, logit) -> float:
    """Mean negative log-likelihood, from logits so that a confident mistake costs what it should
    and stays finite.

    1/N sum_i log(1 + exp(z_i)) - y_i z_i

    y: (N,) labels in {0, 1}, N >= 1.  logit: (N,) finite z = log(p / (1 - p)).
    Returns nats a row, >= 0.
    ValueError if a logit is not finite or N is 0.

    >>> round(log_loss([0, 1], [0.0, 0.0]), 4)
    0.6931
    """
    y, logit = _paired(y, logit)
    return float(np.mean(np.logaddexp(0, np.where(y == 1, -logit, logit))))


def calibration_slope(y, logit) -> float:
    """Whether probabilities mean what they say: 1 if the logits are as spread as the truth, under
    1 if too confident.

    slope b of the fit P(y = 1) = expit(a + b z)

    Multiplying all logits by c divides the slope by c and leaves AUC as it is. A binned calibration
    error would say little here: at .17% fraud nearly all rows lie in its first bin, whatever the
    model.
    y: (N,) labels in {0, 1}, both present.  logit: (N,) finite z = log(p / (1 - p)).
    Returns the slope: infinite where the logits separate the classes (no likelihood is largest
    then), 0 where all logits are equal.  ValueError if y holds one class only or a logit is not
    finite.
    Source: Cox 1958.

    >>> z = np.repeat([-1.0, 1.0], 100)
    >>> y = np.r_[np.arange(100) < 27, np.arange(100) < 73]
    >>> round(calibration_slope(y, z), 3), round(calibration_slope(y, 3 * z), 3)
    (0.995, 0.332)
    """
    from scipy import optimize
    from scipy.special import expit

    y, logit = _both_classes(y, logit, "calibration")
    spread = logit.std()
    if spread <= 1e-12 * max(1.0, abs(logit.mean())):
        return 0.0
    low, high = logit[y == 1], logit[y == 0]
    if low.min() >= high.max() or low.max() <= high.min():
        return float(np.copysign(np.inf, low.mean() - high.mean()))
    columns = np.array([np.ones(len(y)), (logit - logit.mean()) / spread]).T
    fitted = optimize.minimize(
        lambda ab: np.logaddexp(0, (1 - 2 * y) * (columns @ ab)).mean(),
        [np.log(y.mean() / (1 - y.mean())), 0.0],
        jac=lambda ab: columns.T @ (expit(columns @ ab) - y) / len(y),
        hess=lambda ab: columns.T * ((p := expit(columns @ ab)) * (1 - p)) @ columns / len(y),
        method="trust-exact",
        options={"gtol": 1e-12},
    )
    return float(fitted.x[1] / spread)


def auc_halfwidth(value: float, *, n_positives: int, n_negatives: int) -> float:
    """Half the width of the normal 95% interval of an AUC on a test set of this size.

    1.96 * sqrt((A (1-A) + (m-1) (A / (2-A) - A^2) + (n-1) (2 A^2 / (1+A) - A^2)) / (m n))

    value: the AUC A, in [0, 1].  n_positives, n_negatives: m and n, >= 1.  Returns a number >= 0.
    ValueError if an argument is out of range.
    Source: Hanley and McNeil 1982, whose exponential model is on the cautious side.

    >>> round(auc_halfwidth(0.95, n_positives=66, n_negatives=404), 3)
    0.037
    """
    must_be("in [0, 1]", value=value)
    must_be("a whole number >= 1", n_positives=n_positives, n_negatives=n_negatives)
    both, neither = value / (2 - value) - value**2, 2 * value**2 / (1 + value) - value**2
    variance = value * (1 - value) + (n_positives - 1) * both + (n_negatives - 1) * neither
    return float(1.96 * np.sqrt(variance / (n_positives * n_negatives)))


def weighted_score(name: str, y: np.ndarray, logit: np.ndarray) -> Callable[[np.ndarray], float]:
    """A score as a function of how often each row counts; all ones give the functions above.

    A row that was drawn w times counts w times, so one pass over rows that were sorted once is a
    bootstrap's draw.

    name: one of SCORES.  y: (N,) labels in {0, 1}.  logit: (N,) log-odds of class 1.
    Returns a function of weights (N,), >= 0 with rows of both labels.  ValueError for another name.
    """
    y, logit = np.asarray(y), np.asarray(logit, dtype=np.float64)
    one_of(SCORES, score=name)
    if name == "accuracy":
        right = ((logit > 0) == y).astype(np.float64)
        return lambda w: float(w @ right / w.sum())
    if name.endswith("log_loss"):
        loss = np.logaddexp(0, np.where(y == 1, -logit, logit))
        mean = lambda w: float(w @ loss / w.sum())
        return mean if name == "log_loss" else lambda w: float(np.log(mean(w)))
    level = np.unique(-logit, return_inverse=True)[1]  # highest first; ties are one level
    holds = np.bincount(level, y == 1) > 0  # levels between two of these score as one
    positive, level = np.flatnonzero(y == 1), np.cumsum(holds | np.r_[False, holds[:-1]])[level]

    def by_rank(w: np.ndarray) -> float:
        rows = np.bincount(level, w)
        hits = np.bincount(level[positive], w[positive], minlength=len(rows))
        reached, others = np.cumsum(hits), np.cumsum(rows - hits)
        if name == "average_precision":
            # no row is passed before the first one that counts
            return float(hits @ (reached / np.maximum(reached + others, 1e-300)) / reached[-1])
        under = others[-1] - others + (rows - hits) / 2
        return float(hits @ under / (reached[-1] * others[-1]))

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


def difference_halfwidth(
    name: str,
    y: np.ndarray,
    pairs: Sequence[tuple[np.ndarray, np.ndarray]],
    *,
    n_draws: int = 1_000,
    per_seed: int = 1,
    rng: np.random.Generator,
) -> float:
    """Half the width of a 95% interval of the mean over pairs of `difference`: test rows and seeds
    could both be others.

    1.96 sqrt(s_rows^2 + s_seeds^2 / S),
        s_rows: of the mean over all pairs, over n_draws bootstraps of the test rows within labels
        s_seeds: of the S seeds' own means

    pairs: S * per_seed pairs of log-odds, all pairs of a seed one after the other.
    n_draws: >= 2.  per_seed: pairs that share a seed, such as the banks of a federation, >= 1; with
    one seed the seeds' part is left out.
    Returns a number > 0 (at least 1e-6).  ValueError for an unknown score or n_draws < 2, and for
    pairs that are no multiple of per_seed.
    """
    must_be("a whole number >= 2", n_draws=n_draws)
    must_be("a whole number >= 1", per_seed=per_seed)
    if len(pairs) % per_seed:
        raise ValueError(f"pairs must be a multiple of per_seed {per_seed}, got {len(pairs)}")
    by_label = np.argsort(y, kind="stable")
    scored = [tuple(weighted_score(name, y[by_label], z[by_label]) for z in pair) for pair in pairs]
    sizes, drawn = np.bincount(y), []
    for _ in range(n_draws):
        w = np.hstack([np.bincount(rng.integers(0, n, n), minlength=n) for n in sizes], dtype=float)
        drawn.append(np.mean([first(w) - second(w) for first, second in scored]))
    seeds = difference(name, y, pairs).reshape(-1, per_seed).mean(axis=1)
    between = seeds.var(ddof=1) / len(seeds) if len(seeds) > 1 else 0.0
    return max(1.96 * float(np.sqrt(np.var(drawn) + between)), 1e-6)


def _paired(y, score) -> tuple[np.ndarray, np.ndarray]:
    """Labels and finite scores as arrays, one score a label."""
    y, score = np.asarray(y), np.asarray(score, float)
    if y.ndim != 1 or y.shape != score.shape or y.size == 0:
        raise ValueError(f"needs one score a label, got {score.shape} scores for {y.shape} labels")
    finite(scores=score)
    binary(labels=y)
    return y, score


def _by_label(y, score, what: str) -> list[np.ndarray]:
    """The scores of the negatives and of the positives, each ascending."""
    y, score = _both_classes(y, score, what)
    return [np.sort(score[y == label]) for label in (0, 1)]


def _both_classes(y, score, what: str) -> tuple[np.ndarray, np.ndarray]:
    y, score = _paired(y, score)
    if y.min() == y.max():
        raise ValueError(f"{what} needs both classes, got only label {y[:1]}")
    return y, score
