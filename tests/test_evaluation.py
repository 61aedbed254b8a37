"""Each measure against its definition, and the interval of an AUC against the spread of simulated
test sets."""

import math
from functools import partial

import numpy as np
import pytest
from scipy import integrate, optimize
from sklearn import metrics

from ppkit.evaluation import (
    SCORES,
    auc,
    auc_halfwidth,
    average_precision,
    calibration_slope,
    difference,
    difference_halfwidth,
    log_loss,
    weighted_score,
)
from ppkit.verdicts.rules import Evidence, fitted_slope
from ppkit.verdicts.rules import slope as ledger_slope


def test_auc_is_the_share_of_ordered_pairs():
    rng = np.random.default_rng(0)
    y, score = rng.integers(2, size=200), rng.integers(20, size=200)
    pairs = [(p > n) + 0.5 * (p == n) for p in score[y == 1] for n in score[y == 0]]
    assert auc(y, score) == pytest.approx(np.mean(pairs), abs=1e-12)


@pytest.mark.parametrize("digits", [0, 1, 15])
def test_scores_by_rank_are_scikit_learns(digits):
    """One row of each label and more; with few digits most scores are ties."""
    rng = np.random.default_rng(7)
    for n in (2, 3, 10, 500):
        y = np.r_[0, 1, rng.integers(2, size=n - 2)]
        score = rng.standard_normal(n).round(digits) + y
        assert auc(y, score) == pytest.approx(metrics.roc_auc_score(y, score), abs=1e-12)
        expected = metrics.average_precision_score(y, score)
        assert average_precision(y, score) == pytest.approx(expected, abs=1e-12)


@pytest.mark.slow
def test_the_interval_covers_and_is_not_much_too_wide():
    """2,000 test sets of 60 and 400 exponential scores (A = .9): coverage between .92 and .99.

    With true coverage .95 the binomial standard error is .0049; .92 and .99 are 6 and 8 of them
    away, which happens by chance less than 1e-7 of the time; Hanley and McNeil's variance is exact
    for exponential scores.
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


def problem(slope=1.0, n=4_000, seed=0):
    """Labels drawn with chance expit(-3 + slope * z), and logits -3 + z."""
    rng = np.random.default_rng(seed)
    z = 2 * rng.standard_normal(n)
    return (rng.random(n) < 1 / (1 + np.exp(3 - slope * z))).astype(np.int8), z - 3


def test_average_precision_is_the_mean_precision_at_each_positive():
    rng = np.random.default_rng(2)
    for score in (rng.normal(size=300), rng.integers(10, size=300)):  # without and with ties
        y = rng.integers(2, size=300)
        precisions = [np.mean(y[score >= own]) for own in score[y == 1]]
        assert average_precision(y, score) == pytest.approx(np.mean(precisions), abs=1e-12)
    assert average_precision(y, np.zeros(300)) == pytest.approx(y.mean())


def test_log_loss_is_the_mean_surprise_and_survives_certainty():
    y, z = problem()
    p = 1 / (1 + np.exp(-z))
    assert log_loss(y, z) == pytest.approx(-np.mean(np.log(np.where(y == 1, p, 1 - p))), rel=1e-12)
    assert log_loss([1], [-5_000.0]) == 5_000.0 and log_loss([0, 1], [-5_000.0, 5_000.0]) == 0.0


@pytest.mark.parametrize("slope", [0.3, 1.0, 2.5, -0.7])
def test_the_calibration_slope_is_the_most_likely_one(slope):
    """Oracle: a general minimiser on the same likelihood."""
    y, z = problem(slope)
    fitted = optimize.minimize(
        lambda ab: log_loss(y, ab[0] + ab[1] * z), [0.0, 0.0], method="BFGS", options={"gtol": 1e-9}
    )
    assert calibration_slope(y, z) == pytest.approx(fitted.x[1], abs=1e-4)
    assert calibration_slope(y, z) == pytest.approx(
        slope, abs=0.25
    )  # by seed; standard error about .05


def test_scaling_the_logits_divides_the_slope_and_moves_nothing_else_in_the_ranking():
    y, z = problem()
    for factor in (3.0, 1e-3, 50.0):
        assert calibration_slope(y, factor * z) * factor == pytest.approx(
            calibration_slope(y, z), rel=1e-6
        )
        assert auc(y, factor * z) == auc(y, z) and average_precision(
            y, factor * z
        ) == average_precision(y, z)
    losses = [log_loss(y, factor * z) for factor in (0.2, 0.6, 1.0, 2.0, 3.0)]
    assert min(losses) == losses[2] and losses[4] > losses[3] and losses[0] > losses[1]


def test_few_positives_far_out():
    """28 of 28,480, all but one above every negative: a large slope, found, no warning, and a
    likelihood at its top."""
    rng = np.random.default_rng(3)
    y = np.zeros(28_480, int)
    y[:28] = 1
    z = np.where(y == 1, rng.normal(8, 2, y.size), rng.normal(-9, 1, y.size))
    z[0] = -8.0
    slope = calibration_slope(y, z)

    def best(b):
        return optimize.minimize_scalar(
            lambda a: log_loss(y, a + b * z),
            bounds=(-50, 50),
            options={"xatol": 1e-10},
            method="bounded",
        ).fun

    assert best(slope) <= min(best(0.99 * slope), best(1.01 * slope))


def test_calibration_at_its_ends():
    assert calibration_slope([0, 0, 1], [-1.0, 0.0, 2.0]) == math.inf
    assert calibration_slope([0, 1, 1], [2.0, 2.0, 1.0]) == -math.inf
    assert calibration_slope([0, 1, 0], [0.5, 0.5, 0.5]) == 0.0


@pytest.mark.parametrize(
    "call, words",
    [
        (
            lambda: average_precision([1, 1], [1.0, 2.0]),
            r"average precision needs both classes, got only label \[1\]",
        ),
        (lambda: calibration_slope([0, 0], [1.0, 2.0]), "calibration needs both classes"),
        (lambda: log_loss([0, 1], [1.0, np.inf]), "scores must be finite, got 1 of 2 values"),
        (lambda: log_loss([], []), "needs one score a label"),
        (lambda: auc([0, 1], [1.0, 2.0, 3.0]), r"got \(3,\) scores for \(2,\) labels"),
        (lambda: log_loss([0, 2], [1.0, 2.0]), "labels must be 0 or 1, got 2"),
        (lambda: auc([0, 0], [1.0, 2.0]), "needs both classes"),
        (lambda: auc([0, 1], [1.0, np.nan]), "scores must be finite, got 1 of 2 values"),
        (
            lambda: auc_halfwidth(1.2, n_positives=5, n_negatives=5),
            r"value must be in \[0, 1\], got 1.2",
        ),
        (lambda: auc_halfwidth(0.9, n_positives=0, n_negatives=5), "n_positives must be a whole"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(ValueError, match=words):
        call()


# ---- differences between two models

ORACLES = {
    "auc": auc,
    "average_precision": average_precision,
    "log_loss": log_loss,
    "accuracy": lambda y, z: float(np.mean((z > 0) == y)),
    "log of log_loss": lambda y, z: float(np.log(log_loss(y, z))),
}


def rows(n=400, share=0.1, seed=0, ties=False):
    rng = np.random.default_rng(seed)
    y = (np.arange(n) < share * n).astype(int)
    z = rng.normal(size=n) + 1.5 * y
    return y, np.round(z) if ties else z


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("name", SCORES)
def test_a_row_that_counts_twice_is_a_row_twice(name, ties):
    y, z = rows(ties=ties)
    counts = np.random.default_rng(1).integers(0, 4, len(y))
    counts[0] = 1
    found = weighted_score(name, y, z)
    assert found(np.ones(len(y))) == pytest.approx(ORACLES[name](y, z), rel=1e-12)
    assert found(counts.astype(float)) == pytest.approx(
        ORACLES[name](np.repeat(y, counts), np.repeat(z, counts)), rel=1e-12
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", SCORES)
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
    found = difference_halfwidth(name, y, [(z, other)], n_draws=400, rng=np.random.default_rng(4))
    assert found == pytest.approx(
        1.96 * np.std(drawn), rel=0.2
    )  # each has a relative error of about 1 / sqrt(800) = .035


def test_seeds_that_scatter_widen_it_by_their_standard_error():
    y, _ = rows()
    right = np.where(y == 1, 1.0, -1.0)
    pairs = [(right, right), (right, -right), (-right, right)]  # the same whatever rows are drawn
    assert difference("accuracy", y, pairs) == pytest.approx([0.0, 1.0, -1.0])
    width = partial(difference_halfwidth, "accuracy", y, rng=np.random.default_rng(0))
    assert width(pairs) == pytest.approx(1.96 * np.sqrt(1 / 3), rel=1e-9)
    banks = [(right, right), (right, -right), (right, -right), (right, right)]
    assert width(banks, per_seed=2) == 1e-6  # what a seed's pairs have in common counts
    assert width(pairs[:1]) == 1e-6


def test_all_pairs_make_the_interval_and_not_the_first_one_alone():
    y, z = rows()
    other = z + np.random.default_rng(2).normal(size=len(z))
    width = partial(difference_halfwidth, "auc", y, n_draws=200)
    draw = partial(np.random.default_rng, 4)
    alone = width([(z, other)], rng=draw())
    assert width([(z, z), (z, other)], per_seed=2, rng=draw()) == pytest.approx(alone / 2, rel=1e-9)
    assert width([(z, other), (z, other)], rng=draw()) == pytest.approx(alone, rel=1e-9)
    assert width([(z, other), (other, z)], per_seed=2, rng=draw()) == 1e-6  # they cancel


def test_the_share_of_errors_has_the_binomial_s_width():
    y, rng = np.repeat([0, 1], 500), np.random.default_rng(0)
    wrong = rng.random(1_000) < 0.2
    right = np.where(y == 1, 1.0, -1.0)
    share = [wrong[y == k].mean() for k in (0, 1)]
    exact = np.sqrt(sum(p * (1 - p) / 500 for p in share)) / 2
    found = difference_halfwidth("accuracy", y, [(right, np.where(wrong, -right, right))], rng=rng)
    assert found == pytest.approx(1.96 * exact, rel=0.15)


def test_bad_scores_and_draws_are_named():
    y, z = rows()
    with pytest.raises(ValueError, match="score must be one of .* got 'f1'"):
        weighted_score("f1", y, z)
    with pytest.raises(ValueError, match="n_draws must be a whole number >= 2, got 1"):
        difference_halfwidth("auc", y, [(z, z)], n_draws=1, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match="pairs must be a multiple of per_seed 2, got 1"):
        difference_halfwidth("auc", y, [(z, z)], per_seed=2, rng=np.random.default_rng(0))


# ---- slopes


def test_the_slope_is_the_textbook_s_and_the_ledger_s():
    rng = np.random.default_rng(2)
    x = np.array([0.1, 0.3, 1.0, 3.0, 10.0])
    runs = 0.5 * x[:, None] ** -1.7 * rng.gamma(3, 1 / 3, size=(5, 40))
    value, low, high = fitted_slope(x, runs)
    rule = ledger_slope(Evidence(dict(zip(x, runs)), options={"at": -2, "abs": 0.1}))
    u, v = np.log(x) - np.log(x).mean(), np.log(runs.mean(axis=1))
    by_hand = (u @ v) / (u @ u)
    error = np.sqrt(((v - v.mean() - by_hand * u) ** 2).sum() / 3 / (u @ u))
    reach = (high - value) / error  # Student's density with 3 degrees of freedom, integrated
    inside = integrate.quad(
        lambda t: 2 / (np.pi * np.sqrt(3) * (1 + t**2 / 3) ** 2), -reach, reach
    )[0]
    assert value == pytest.approx(by_hand, rel=1e-9) and inside == pytest.approx(0.95, abs=1e-9)
    assert high - value == pytest.approx(value - low)
    assert value == rule.value and rule.why == f"95% interval {low:.2f} to {high:.2f}"
    assert fitted_slope(x, runs.mean(axis=1)) == (value, low, high)


def test_a_flat_line_has_slope_0():
    assert fitted_slope([1, 2, 4], [3.0, 3.0, 3.0]) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: fitted_slope([1, 2], [1, 2]), "three points > 0 or more"),
        (lambda: fitted_slope([1, 2, 3], [1, 2]), "as many means of runs > 0, got points"),
        (lambda: fitted_slope([1, 2, -3], [1, 2, 3]), "three points > 0 or more"),
        (lambda: fitted_slope([1, 2, np.inf], [1, 2, 3]), "three points > 0 or more"),
    ],
)
def test_bad_points_of_a_slope_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
