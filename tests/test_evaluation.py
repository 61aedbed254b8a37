"""AUC against its definition by pairs, and its interval against the spread of simulated test sets."""

import numpy as np
import pytest

from ppkit.evaluation import auc, auc_halfwidth


def test_auc_is_the_share_of_ordered_pairs():
    rng = np.random.default_rng(0)
    y, score = rng.integers(2, size=200), rng.integers(20, size=200)
    pairs = [(p > n) + 0.5 * (p == n) for p in score[y == 1] for n in score[y == 0]]
    assert auc(y, score) == pytest.approx(np.mean(pairs), abs=1e-12)


def test_the_interval_covers_and_is_not_much_too_wide():
    """2,000 test sets of 60 and 400 exponential scores (A = .9): coverage between .92 and .99.

    With true coverage .95 the binomial standard error is .0049; .92 and .99 are 6 and 8 of them away, which
    happens by chance less than 1e-7 of the time; Hanley and McNeil's variance is exact for exponential scores.
    """
    rng = np.random.default_rng(1)
    covered = []
    for _ in range(2_000):
        score = np.r_[rng.exponential(9.0, 60), rng.exponential(1.0, 400)]
        value = auc(np.r_[np.ones(60), np.zeros(400)], score)
        covered.append(abs(value - 0.9) <= auc_halfwidth(value, n_positives=60, n_negatives=400))
    assert 0.92 <= np.mean(covered) <= 0.99


def test_more_rows_and_better_models_are_surer():
    small, large = (auc_halfwidth(0.9, n_positives=n, n_negatives=5 * n) for n in (50, 5_000))
    assert large == pytest.approx(small / 10, rel=0.02)
    assert auc_halfwidth(1.0, n_positives=5, n_negatives=5) == 0


@pytest.mark.parametrize("call, words", [
    (lambda: auc([0, 0], [1.0, 2.0]), "needs both classes"),
    (lambda: auc([0, 1], [1.0, np.nan]), "1 of 2 are not"),
    (lambda: auc_halfwidth(1.2, n_positives=5, n_negatives=5), r"lies in \[0, 1\], got 1.2"),
    (lambda: auc_halfwidth(0.9, n_positives=0, n_negatives=5), "got 0 and 5"),
])
def test_bad_input(call, words):
    with pytest.raises(ValueError, match=words):
        call()
