"""Rows that were found, each with the true row that it is nearest to."""

import itertools

import numpy as np
import pytest

from ppkit.backtracking.matching import row_errors


def test_row_errors_are_those_of_the_best_assignment():
    rng = np.random.default_rng(0)
    for n_found, n_true in ((4, 4), (2, 4), (5, 3)):
        found, truth = rng.standard_normal((n_found, 3)), rng.standard_normal((n_true, 3))
        cost = np.sqrt(((truth[:, None] - found[None]) ** 2).mean(axis=2))
        least = min(
            sum(cost[i, j] for i, j in zip(rows, columns))
            for rows in itertools.combinations(range(n_true), min(n_found, n_true))
            for columns in itertools.permutations(range(n_found), min(n_found, n_true))
        )
        errors = row_errors(found, truth)
        assert errors[np.isfinite(errors)].sum() == pytest.approx(least, rel=1e-12)
        assert np.isinf(errors).sum() == max(0, n_true - n_found)
    assert np.isinf(row_errors(np.zeros((0, 3)), np.ones((2, 3)))).all()
