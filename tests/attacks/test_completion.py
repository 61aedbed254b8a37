"""A holder's own half and a few labels, on data whose labels need one direction."""

import numpy as np
import pytest

from ppkit.attacks import completion
from ppkit.evaluation import auc


def rows(n=2_000, d=30, seed=0):
    """X and labels that one direction of X decides."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    direction = rng.normal(size=d) / d**0.5
    return X, direction, (X @ direction + 0.3 * rng.normal(size=n) > 1).astype(int)


def test_a_half_that_knows_the_direction_helps_and_a_random_one_does_not():
    X, direction, y = rows()
    known = completion.few_labels(y, 20, rng=np.random.default_rng(1))
    rest = np.setdiff1d(np.arange(len(y)), known)
    random = np.random.default_rng(2).normal(size=(30, 8)) / 30**0.5
    found = {}
    for name, half in (
        ("right", np.outer(3 * direction, np.ones(8))),
        ("random", random),
        ("", None),
    ):
        own = np.random.default_rng(3)
        scores = completion.completed(X, known, y[known], half=half, rng=own)
        found[name] = auc(y[rest], scores[rest])
    assert found["right"] > 0.9
    assert found["right"] > found["random"] + 0.1 and found["right"] > found[""] + 0.1


def test_many_labels_need_no_half():
    X, _, y = rows()
    known = completion.few_labels(y, 1_000, rng=np.random.default_rng(1))
    rest = np.setdiff1d(np.arange(len(y)), known)
    scores = completion.completed(X, known, y[known], rng=np.random.default_rng(3))
    assert auc(y[rest], scores[rest]) > 0.9


def test_half_of_the_labels_told_are_positives_but_at_most_half_of_all():
    y = np.zeros(1_000, int)
    y[:30] = 1
    for n, positives in ((20, 10), (100, 15)):
        rows_told = completion.few_labels(y, n, rng=np.random.default_rng(0))
        assert len(set(rows_told)) == n and y[rows_told].sum() == positives


def test_what_does_not_fit_is_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="4 rows for 3 columns"):
        completion.completed(np.ones((5, 3)), [0], [1], half=np.ones((4, 2)), rng=rng)
    with pytest.raises(ValueError, match="labels must be 0 or 1, got 2"):
        completion.few_labels([0, 2], 2, rng=rng)
    with pytest.raises(ValueError, match="1 negatives, fewer than 2"):
        completion.few_labels([0, 1], 2, rng=rng)
