"""The property attack, its intervals and threat models."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from scipy.stats import norm

from ppkit.attacks import property as attacks
from ppkit.evaluation import auc, log_loss


def gaussians(n=4_000, shift=1.0, width=4, seed=0):
    """Hidden features whose first column holds the bit: AUC Phi(shift / sqrt(2)) for who knows
    it."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, n)
    hidden = rng.standard_normal((n, width))
    hidden[:, 0] += shift * bits
    return hidden, bits


def scene(n=3_000, **changed):
    hidden, bits = gaussians(4 * n)
    flipped = -hidden
    parts = {
        "hidden": hidden[:n],
        "bits": bits[:n],
        "known": hidden[n : 2 * n],
        "known_bits": bits[n : 2 * n],
        "shadow": hidden[2 * n :],
        "shadow_own_start": flipped[2 * n :],
        "shadow_bits": bits[2 * n :],
        "raw": 3 * hidden[:n] + bits[:n, None],
        "raw_known": 3 * hidden[n : 2 * n] + bits[n : 2 * n, None],
    }
    return attacks.Scene(**{**parts, **changed})


def rng(seed=0):
    return np.random.default_rng(seed)


# --- the attackers


@pytest.mark.slow
@pytest.mark.parametrize("attacker", attacks.ATTACKERS)
def test_an_attacker_reaches_the_best_auc_there_is(attacker):
    hidden, bits = gaussians(20_000, shift=1.5)
    scores = attacks.infer(
        hidden[:10_000], bits[:10_000], hidden[10_000:], attacker=attacker, rng=rng()
    )
    best = norm.cdf(1.5 / math.sqrt(2))
    assert (
        best - 0.03 < auc(bits[10_000:], scores) < best + 0.015
    )  # deterministic by seed; the standard error is .004


def test_logistic_is_at_the_optimum_of_its_ridge_loss():
    hidden, bits = gaussians(300)
    scores = attacks.infer(5 + 7 * hidden, bits, 5 + 7 * hidden, rng=rng())
    z = (hidden - hidden.mean(axis=0)) / hidden.std(axis=0)
    solved = np.linalg.lstsq(np.c_[z, np.ones(300)], scores, rcond=None)[0]
    residual = bits - 1 / (1 + np.exp(-scores))
    np.testing.assert_allclose(
        z.T @ residual, solved[:4], atol=1e-6
    )  # gradient of sum log-loss + |w|^2 / 2 is 0
    assert abs(residual.sum()) < 1e-6


@pytest.mark.slow
def test_the_perceptron_sees_what_no_line_can():
    draws = rng()
    hidden = draws.standard_normal((6_000, 3))
    bits = (np.abs(hidden[:, 1]) > 0.67).astype(int)
    known, target = slice(0, 3_000), slice(3_000, None)
    line, curve = (
        auc(
            bits[target],
            attacks.infer(hidden[known], bits[known], hidden[target], attacker=a, rng=rng()),
        )
        for a in attacks.ATTACKERS
    )
    assert line < 0.55 and curve > 0.97


@pytest.mark.slow
def test_the_perceptron_depends_on_its_rng_only():
    hidden, bits = gaussians(550)
    one, again, other = (
        attacks.infer(hidden, bits, hidden[:50], attacker="mlp", rng=rng(s)) for s in (1, 1, 2)
    )
    assert (one == again).all() and (one != other).any()
    state = torch.get_rng_state()
    attacks.infer(hidden[:60], bits[:60], hidden, attacker="mlp", rng=rng())
    assert torch.equal(state, torch.get_rng_state())


def test_scores_do_not_depend_on_the_units_of_the_features():
    hidden, bits = gaussians(500)
    units = np.array([1e-6, 1.0, 1e3, 50.0])
    one, other = (
        attacks.infer(h, bits, h, rng=rng()) for h in (hidden, hidden * units - 9 * units)
    )
    np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("attacker", attacks.ATTACKERS)
def test_a_score_does_not_depend_on_who_else_is_attacked(attacker):
    hidden, bits = gaussians(600)
    all_of_them, few = (
        attacks.infer(hidden, bits, h, attacker=attacker, rng=rng()) for h in (hidden, hidden[:20])
    )
    np.testing.assert_allclose(all_of_them[:20], few, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("attacker", attacks.ATTACKERS)
def test_scores_are_log_odds(attacker):
    hidden, bits = gaussians(8_000, shift=2.0)
    scores = attacks.infer(
        hidden[:4_000], bits[:4_000], hidden[4_000:], attacker=attacker, rng=rng()
    )
    truth = 2 * hidden[4_000:, 0] - 2
    assert log_loss(bits[4_000:], scores) < log_loss(bits[4_000:], truth) + 0.015


def test_a_constant_column_and_a_single_value_of_the_property_teach_nothing():
    hidden, bits = gaussians(500)
    with_constant = np.c_[hidden, np.full(500, 0.1)]
    target = np.c_[hidden, np.full(500, 77.0)]
    np.testing.assert_array_equal(
        attacks.infer(with_constant, bits, target, rng=rng()),
        attacks.infer(hidden, bits, hidden, rng=rng()),
    )
    alike = attacks.infer(hidden[:9], np.ones(9), hidden, rng=rng())
    assert not alike.any()


def test_tensors_are_taken_like_arrays():
    hidden, bits = gaussians(400)
    tensors = [
        torch.from_numpy(hidden).requires_grad_(),
        torch.from_numpy(bits),
        torch.from_numpy(hidden),
    ]
    np.testing.assert_array_equal(
        attacks.infer(*tensors, rng=rng()), attacks.infer(hidden, bits, hidden, rng=rng())
    )


@pytest.mark.parametrize(
    "known, bits, target, attacker, said",
    [
        (
            np.ones((3, 2)),
            [0, 1, 1],
            np.ones((3, 2)),
            "forest",
            "attacker must be one of logistic, mlp, got 'forest'",
        ),
        (
            np.ones(3),
            [0, 1, 1],
            np.ones((3, 2)),
            "mlp",
            r"hidden_known must be a matrix, got shape \(3,\)",
        ),
        (
            np.ones((3, 2)),
            [0, 1, 2],
            np.ones((3, 2)),
            "mlp",
            "property_known must be 0 or 1, got 2",
        ),
        (
            np.ones((3, 2)),
            [0, 1, 1],
            np.full((3, 2), np.inf),
            "mlp",
            "hidden_target must be finite, got 6 of 6 values",
        ),
    ],
)
def test_bad_input_is_refused_in_one_sentence(known, bits, target, attacker, said):
    with pytest.raises(ValueError, match=said):
        attacks.infer(known, bits, target, attacker=attacker, rng=rng())


# --- the intervals


def delong(bits, *scores):
    """Oracle: all pairs, one by one; AUCs, and the covariance matrix of them."""
    bits = np.asarray(bits)
    tables = []
    for score in scores:
        ones, zeros = np.asarray(score)[bits == 1], np.asarray(score)[bits == 0]
        tables.append([[1.0 if a > b else 0.5 if a == b else 0.0 for b in zeros] for a in ones])
    tables = np.array(tables)
    m, n = tables.shape[1:]
    return tables.mean(axis=(1, 2)), np.cov(tables.mean(axis=2), ddof=1).reshape(
        len(scores), -1
    ) / m + np.cov(tables.mean(axis=1), ddof=1).reshape(len(scores), -1) / n


def tied(seed=3, n=60):
    draws = rng(seed)
    bits = draws.permutation(np.r_[np.ones(n // 3, int), np.zeros(n - n // 3, int)])
    return (
        bits,
        np.round(draws.standard_normal(n) + bits, 1),
        np.round(draws.standard_normal(n) + 0.5 * bits, 1),
    )


def test_the_interval_is_delongs_over_all_pairs():
    bits, scores, _ = tied()
    found = attacks.leak(bits, scores)
    (value,), covariance = delong(bits, scores)
    half = norm.ppf(0.975) * math.sqrt(covariance[0, 0])
    assert found[:3] == pytest.approx((value, value - half, value + half), abs=1e-12)


def test_the_difference_is_paired():
    bits, one, other = tied()
    values, c = delong(bits, one, other)
    half = norm.ppf(0.975) * math.sqrt(c[0, 0] + c[1, 1] - 2 * c[0, 1])
    gap = values[0] - values[1]
    assert attacks.difference(bits, one, other) == pytest.approx(
        (gap, gap - half, gap + half), abs=1e-12
    )
    assert attacks.difference(bits, one, one) == (0, 0, 0)


@pytest.mark.slow
def test_the_interval_covers_as_often_as_it_says():
    truth, covered, n_runs = norm.cdf(1 / math.sqrt(2)), 0, 200
    for seed in range(n_runs):
        hidden, bits = gaussians(300, width=1, seed=seed)
        found = attacks.leak(bits, hidden[:, 0])
        covered += found.low <= truth <= found.high
    assert (
        0.90 * n_runs < covered < 0.985 * n_runs
    )  # expected 190, standard deviation 3.1; deterministic by seed


def test_an_interval_stays_between_0_and_1():
    assert attacks.leak([0, 0, 1, 1], [1, 2, 3, 4])[:3] == (1, 1, 1)
    bits, scores, _ = tied(n=12)
    assert attacks.leak(bits, scores + 3 * bits).high <= 1


# --- the threat models


def test_nothing_is_one_half():
    found = attacks.attack(
        "nothing", attacks.Scene(hidden=np.zeros((5, 2)), bits=np.array([1, 1, 1, 0, 0])), rng=rng()
    )
    assert found == attacks.Leak(0.5, 0.5, 0.5)


def test_known_records_that_are_all_alike_teach_nothing():
    one = scene()
    alike = dataclasses.replace(one, known_bits=np.ones(len(one.known_bits), int))
    found = attacks.attack("adaptive", alike, rng=rng())
    assert found.auc == 0.5


def test_each_threat_uses_the_arrays_that_its_name_says():
    s = scene()
    of = {threat: attacks.attack(threat, s, rng=rng()) for threat in attacks.THREATS}
    expected = {
        "transfer": attacks.infer(s.shadow, s.shadow_bits, s.hidden, rng=rng()),
        "transfer_own_start": attacks.infer(s.shadow_own_start, s.shadow_bits, s.hidden, rng=rng()),
        "adaptive": attacks.infer(s.known, s.known_bits, s.hidden, rng=rng()),
        "ceiling": attacks.infer(s.raw_known, s.known_bits, s.raw, rng=rng()),
    }
    for threat, scores in expected.items():
        assert of[threat].auc == pytest.approx(auc(s.bits, scores), abs=1e-12), threat
    assert len({found.auc for found in of.values()}) == len(attacks.THREATS)
    assert of["transfer_own_start"].auc < 0.3 and of["ceiling"].auc > of["adaptive"].auc > 0.7


def test_the_attacked_bits_decide_no_score():
    s = scene()
    found = attacks.attack("adaptive", s, rng=rng())
    turned = attacks.attack("adaptive", scene(bits=1 - s.bits), rng=rng())
    assert found.auc == pytest.approx(1 - turned.auc, abs=1e-12)


@pytest.mark.parametrize(
    "threat, changed, said",
    [
        (
            "guess",
            {},
            "threat must be one of nothing, transfer, transfer_own_start, adaptive, ceil",
        ),
        ("transfer", {"shadow": ()}, "threat 'transfer' needs shadow of the scene"),
        ("ceiling", {"raw": (), "raw_known": ()}, "'ceiling' needs raw_known and raw of the scene"),
    ],
)
def test_a_scene_that_does_not_fit_is_refused(threat, changed, said):
    with pytest.raises(ValueError, match=said):
        attacks.attack(threat, scene(n=200, **changed), rng=rng())


def test_the_sweep_rises_with_what_is_known_and_draws_anew():
    table = attacks.sweep(scene(), sizes=(4, 30, 3_000), repeats=4, rng=rng())
    assert table.columns.tolist() == ["n_known", "auc"] and table.n_known.tolist() == [4, 30, 3_000]
    assert table.auc.is_monotonic_increasing and table.auc.iloc[-1] - table.auc.iloc[0] > 0.05
    all_known = attacks.attack("adaptive", scene(), rng=rng())  # every draw is the same set
    assert table.auc.iloc[2] == pytest.approx(all_known.auc, abs=1e-9)
    s, draws, oracle = scene(), rng(), []
    for _ in range(4):
        rows = draws.permutation(3_000)[:4]
        few = dataclasses.replace(s, known=s.known[rows], known_bits=s.known_bits[rows])
        oracle.append(attacks.attack("adaptive", few, rng=draws).auc)
    assert table.auc.iloc[0] == pytest.approx(np.mean(oracle), abs=1e-9)
