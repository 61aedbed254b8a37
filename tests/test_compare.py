"""Weighted scores against `evaluation` on repeated rows, and the interval against the plain
bootstrap and a known variance."""

import numpy as np
import pytest

from ppkit import compare, evaluation

ORACLES = {
    "auc": evaluation.auc,
    "average_precision": evaluation.average_precision,
    "log_loss": evaluation.log_loss,
    "accuracy": lambda y, z: float(np.mean((z > 0) == y)),
    "log of log_loss": lambda y, z: float(np.log(evaluation.log_loss(y, z))),
}


def rows(n=400, share=0.1, seed=0, ties=False):
    rng = np.random.default_rng(seed)
    y = (np.arange(n) < share * n).astype(int)
    z = rng.normal(size=n) + 1.5 * y
    return y, np.round(z) if ties else z


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("name", compare.SCORES)
def test_a_row_that_counts_twice_is_a_row_twice(name, ties):
    y, z = rows(ties=ties)
    counts = np.random.default_rng(1).integers(0, 4, len(y))
    counts[0] = 1
    found = compare.weighted_score(name, y, z)
    assert found(np.ones(len(y))) == pytest.approx(ORACLES[name](y, z), rel=1e-12)
    assert found(counts.astype(float)) == pytest.approx(
        ORACLES[name](np.repeat(y, counts), np.repeat(z, counts)), rel=1e-12
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", compare.SCORES)
def test_the_interval_is_the_plain_bootstrap_s(name):
    y, z = rows()
    other = z + np.random.default_rng(2).normal(size=len(z))
    rng, drawn = np.random.default_rng(3), []
    for _ in range(400):
        i = np.concatenate(
            [
                rng.choice(part, len(part))
                for part in (np.flatnonzero(y == 0), np.flatnonzero(y == 1))
            ]
        )
        drawn.append(ORACLES[name](y[i], z[i]) - ORACLES[name](y[i], other[i]))
    found = compare.halfwidth(name, y, [(z, other)], n_draws=400, rng=np.random.default_rng(4))
    assert found == pytest.approx(
        1.96 * np.std(drawn), rel=0.2
    )  # each has a relative error of about 1 / sqrt(800) = .035


def test_seeds_that_scatter_widen_it_by_their_standard_error():
    y, z = rows()
    right = np.where(y == 1, 1.0, -1.0)
    pairs = [
        (right, np.where(np.arange(len(y)) < wrong, -right, right)) for wrong in (0, 40, 80)
    ]  # accuracies 1, .9, .8
    assert compare.difference("accuracy", y, pairs) == pytest.approx([0.0, 0.1, 0.2])
    found = compare.halfwidth("accuracy", y, pairs, rng=np.random.default_rng(0))
    assert found == pytest.approx(
        1.96 * np.sqrt(0.01 / 3), rel=1e-9
    )  # the first pair is one model twice: no part of rows
    assert compare.halfwidth("accuracy", y, pairs[:1], rng=np.random.default_rng(0)) == 1e-6


def test_the_share_of_errors_has_the_binomial_s_width():
    y, rng = np.repeat([0, 1], 500), np.random.default_rng(0)
    wrong = rng.random(1_000) < 0.2
    right = np.where(y == 1, 1.0, -1.0)
    share = [wrong[y == k].mean() for k in (0, 1)]
    exact = np.sqrt(sum(p * (1 - p) / 500 for p in share)) / 2
    found = compare.halfwidth("accuracy", y, [(right, np.where(wrong, -right, right))], rng=rng)
    assert found == pytest.approx(1.96 * exact, rel=0.15)


def test_bad_input_is_named():
    y, z = rows()
    with pytest.raises(ValueError, match="score must be one of .* got 'f1'"):
        compare.weighted_score("f1", y, z)
    with pytest.raises(ValueError, match="n_draws must be >= 2, got 1"):
        compare.halfwidth("auc", y, [(z, z)], n_draws=1, rng=np.random.default_rng(0))
