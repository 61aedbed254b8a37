"""The property attack, its intervals and threat models, and the defences of h1."""

import dataclasses
import itertools
import math

import dp_accounting
import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import nn

from ppkit.attacks import property as attacks
from ppkit.attacks import property_defences as defences
from ppkit.evaluation import auc, log_loss
from ppkit.models import classification_loss, mlp
from ppkit.spnn import rivals, training


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
    assert np.ptp(alike) == 0 and alike[0] == pytest.approx(math.log(10))


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
            r"hidden_known must be a matrix with rows and columns, got shape \(3,\)",
        ),
        (
            np.ones((3, 2)),
            [0, 1],
            np.ones((3, 2)),
            "mlp",
            r"property_known must hold one bit a record, got shape \(2,\) for 3",
        ),
        (
            np.ones((3, 2)),
            [0, 1, 2],
            np.ones((3, 2)),
            "mlp",
            "property_known must be 0 or 1, got 2",
        ),
        (np.ones((3, 2)), [0, 1, 1], np.ones((3, 3)), "mlp", "same features, got 2 and 3"),
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


def test_an_interval_stays_between_0_and_1_and_needs_two_of_each():
    assert attacks.leak([0, 0, 1, 1], [1, 2, 3, 4])[:3] == (1, 1, 1)
    bits, scores, _ = tied(n=12)
    assert attacks.leak(bits, scores + 3 * bits).high <= 1
    with pytest.raises(ValueError, match="two records of each kind, got 1 with the property and 3"):
        attacks.leak([0, 0, 1, 0], [1, 2, 3, 4])


# --- the threat models


def test_nothing_is_one_half():
    found = attacks.attack(
        "nothing", attacks.Scene(hidden=np.zeros((5, 2)), bits=np.array([1, 1, 1, 0, 0])), rng=rng()
    )
    assert found == attacks.Leak(0.5, 0.5, 0.5)


def test_known_records_that_are_all_alike_are_said_to_teach_nothing():
    one = scene()
    alike = dataclasses.replace(one, known_bits=np.ones(len(one.known_bits), int))
    found = attacks.attack("adaptive", alike, rng=rng())
    assert found.auc == 0.5
    assert found.why == f"all {len(one.known_bits)} known records have the property 1"
    assert attacks.attack("adaptive", one, rng=rng()).why == ""


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
        assert of[threat].auc == auc(s.bits, scores), threat
    assert len({found.auc for found in of.values()}) == len(attacks.THREATS)
    assert of["transfer_own_start"].auc < 0.3 and of["ceiling"].auc > of["adaptive"].auc > 0.7


def test_the_attacked_bits_decide_no_score():
    s, m = scene(), 300
    found = attacks.attack("adaptive", s, n_known=m, rng=rng())
    turned = attacks.attack("adaptive", scene(bits=1 - s.bits), n_known=m, rng=rng())
    assert found.auc == pytest.approx(1 - turned.auc, abs=1e-12)


def test_an_attacker_who_knows_m_records_uses_no_other():
    s = scene(n=500)
    poisoned = np.arange(500)[np.isin(np.arange(500), rng(4).permutation(500)[:50], invert=True)]
    changed = s.known.copy()
    changed[poisoned] = 1e6
    assert attacks.attack("adaptive", s, n_known=50, rng=rng(4)) == attacks.attack(
        "adaptive", scene(n=500, known=changed), n_known=50, rng=rng(4)
    )


@pytest.mark.parametrize(
    "threat, changed, settings, said",
    [
        (
            "guess",
            {},
            {},
            "threat must be one of nothing, transfer, transfer_own_start, adaptive, ceiling, got",
        ),
        ("transfer", {"shadow": None}, {}, "threat 'transfer' needs shadow in the scene"),
        ("ceiling", {"raw": None, "raw_known": None}, {}, "needs raw_known and raw in"),
        (
            "adaptive",
            {},
            {"n_known": 1},
            "n_known must be a whole number from 2 to the 200 known records, got 1",
        ),
        ("adaptive", {}, {"n_known": 201}, "got 201"),
        ("adaptive", {"bits": np.zeros(3)}, {}, "bits must hold one bit a record"),
    ],
)
def test_a_scene_that_does_not_fit_is_refused(threat, changed, settings, said):
    with pytest.raises(ValueError, match=said):
        attacks.attack(threat, scene(n=200, **changed), rng=rng(), **settings)


def test_the_sweep_rises_with_what_is_known_and_draws_anew():
    table = attacks.sweep(scene(), sizes=(4, 30, 3_000), repeats=4, rng=rng())
    assert table.columns.tolist() == ["n_known", "auc"] and table.n_known.tolist() == [4, 30, 3_000]
    assert table.auc.is_monotonic_increasing and table.auc.iloc[-1] - table.auc.iloc[0] > 0.05
    all_known = attacks.attack("adaptive", scene(), rng=rng())  # every draw is the same set
    assert table.auc.iloc[2] == pytest.approx(all_known.auc, abs=1e-9)
    draws = rng()
    oracle = [attacks.attack("adaptive", scene(), n_known=4, rng=draws).auc for _ in range(4)]
    assert table.auc.iloc[0] == pytest.approx(np.mean(oracle), abs=1e-9)


def test_a_sweep_beyond_the_known_records_is_refused():
    with pytest.raises(ValueError, match="from 2 to the 200 known records, got 201"):
        attacks.sweep(scene(n=200), sizes=[100, 201], repeats=2, rng=rng())


def test_a_sweep_without_draws_is_refused():
    with pytest.raises(ValueError, match="repeats must be a whole number >= 1"):
        attacks.sweep(scene(n=200), sizes=[100], rng=rng(), repeats=0)


# --- the defences


def test_noisy_hidden_clips_rows_and_adds_the_noise_it_says():
    h = 3 * torch.randn(40_000, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    clipped = defences.NoisyHidden(clip_bound=2.0, noise_multiplier=0.0, rng=torch.Generator())(h)
    expected = torch.stack([row * min(1.0, 2.0 / float(row.norm())) for row in h[:200]])
    torch.testing.assert_close(clipped[:200], expected, rtol=1e-12, atol=0)
    layer = defences.NoisyHidden(
        clip_bound=2.0, noise_multiplier=0.5, rng=torch.Generator().manual_seed(1)
    )
    noise = layer(h) - clipped
    assert (
        float(noise.std()) == pytest.approx(1.0, abs=0.02) and abs(float(noise.mean())) < 0.02
    )  # 120,000 draws: 7 sigma
    assert not torch.equal(layer(h), layer(h))  # anew every time


def test_noisy_hidden_keeps_gradients_of_small_rows_and_serves_in_front_of_the_hidden_layers():
    h = torch.tensor([[0.3, 0.4], [3.0, 4.0]], dtype=torch.float64, requires_grad=True)
    net = nn.Sequential(
        defences.NoisyHidden(
            clip_bound=1.0, noise_multiplier=0.1, rng=torch.Generator().manual_seed(0)
        )
    )
    net(h).sum().backward()
    torch.testing.assert_close(h.grad[0], torch.ones(2, dtype=torch.float64))
    assert (
        abs(float(h.grad[1] @ h.detach()[1])) < 1e-12
    )  # a clipped row does not hear of its length
    assert list(net.parameters()) == []


def test_noise_put_where_h1_is_made_is_in_all_that_the_server_gets():
    class Noisy(rivals.NN):
        noisy = defences.NoisyHidden(
            clip_bound=1.0, noise_multiplier=5.0, rng=torch.Generator().manual_seed(0)
        )

        def first(self, parts):
            return self.noisy(super().first(parts))

    parts = [torch.randn(2_000, 3, generator=torch.Generator().manual_seed(i)) for i in (1, 2)]
    looks = []
    for kind in (rivals.NN, Noisy):
        net = kind([3, 3], (4, 4), rng=torch.Generator().manual_seed(3))
        looks += training.train(
            net,
            parts,
            torch.arange(2_000) % 2,
            training.Schedule(epochs=1, batch=2_000),
            look_at=[0],
            optimiser=torch.optim.SGD(net.parameters(), lr=0.1),
        ).looks
    clean, noisy = (look.h1 for look in looks)
    noise = noisy - clean * (1 / clean.norm(dim=1, keepdim=True).clamp_min(1))
    assert (
        float(noise.std()) == pytest.approx(5.0, abs=0.3) and clean.std() < 1
    )  # 8,000 draws: 7 sigma


def test_noisy_rows_are_clipped_then_noised():
    X = 4 * rng().standard_normal((30_000, 4))
    clipped = defences.noisy_rows(X, clip_bound=3.0, noise_multiplier=0.0, rng=rng())
    lengths = np.linalg.norm(X, axis=1)
    np.testing.assert_allclose(clipped, X * np.minimum(1, 3 / lengths)[:, None], rtol=1e-12)
    noise = defences.noisy_rows(X, clip_bound=3.0, noise_multiplier=0.2, rng=rng(1)) - clipped
    assert noise.std() == pytest.approx(0.6, abs=0.01)


def test_the_epsilon_is_that_of_two_clip_bounds_apart():
    for noise, releases, delta in itertools.product((0.3, 2.0), (1, 60), (1e-5,)):
        exact = dp_accounting.get_epsilon_gaussian(noise / (2 * math.sqrt(releases)), delta)
        assert defences.epsilon_of_releases(
            noise, delta=delta, n_releases=releases
        ) == pytest.approx(exact, rel=1e-9)


def test_the_epsilon_is_attained_by_two_rows_at_opposite_ends():
    noise, releases, delta = 4.0, 9, 1e-3
    epsilon = defences.epsilon_of_releases(noise, delta=delta, n_releases=releases)
    C = 2.0
    ends = defences.NoisyHidden(clip_bound=C, noise_multiplier=0.0, rng=torch.Generator())(
        torch.tensor([[50.0, 0.0], [-50.0, 0.0]])
    )
    mu = math.sqrt(releases) * float((ends[0] - ends[1]).norm()) / (noise * C)
    attained = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(
        -mu / 2 - epsilon / mu
    )
    assert attained == pytest.approx(delta, rel=1e-6)


def guarded_gradient(strength, reduction=1.0):
    draws = torch.Generator().manual_seed(0)
    h1 = torch.randn(64, 3, generator=draws, dtype=torch.float64, requires_grad=True)
    bits = (h1[:, 0] > 0).long().detach()
    defender = defences.Defender(3, strength=strength, rng=torch.Generator().manual_seed(1))
    h1_in_graph = h1 * 1.0
    defender.guard(h1_in_graph, bits)
    (reduction * (h1_in_graph**2).mean()).backward()
    return h1, bits, defender


def test_the_defender_changes_the_gradient_by_what_finite_differences_say():
    plain, _, _ = guarded_gradient(0.0)
    torch.testing.assert_close(plain.grad, 2 * plain.detach() / plain.numel())
    h1, bits, defender = guarded_gradient(0.7)
    turned = (plain.grad - h1.grad) / 0.7
    for i, j in [(0, 0), (5, 1), (63, 2)]:
        losses = []
        for step in (1e-5, -1e-5):
            moved = h1.detach().clone()
            moved[i, j] += step
            losses.append(defender._loss(moved, bits).item())
        assert float(turned[i, j]) == pytest.approx((losses[0] - losses[1]) / 2e-5, rel=1e-4)


def test_the_defender_learns_and_leaves_no_gradient_in_the_graph():
    h1, bits, defender = guarded_gradient(1.0)
    before = defender._loss(h1.detach(), bits).item()
    for _ in range(60):
        defender.guard(h1 * 1.0, bits)
    assert defender._loss(h1.detach(), bits).item() < before - 0.1


class TwoParts(nn.Module):
    """A net as zhou2021's: called with row numbers, h1 shown as a copy outside autograd."""

    def __init__(self, X):
        super().__init__()
        self.X, self.theta = (
            X,
            mlp((6, 2), rng=torch.Generator().manual_seed(1), dtype=torch.float64),
        )
        self.hidden = mlp((2, 8, 1), rng=torch.Generator().manual_seed(2), dtype=torch.float64)

    def forward(self, rows):
        h1 = self.theta(self.X[rows])
        self.h1 = h1.detach()
        return self.hidden(h1)


@pytest.mark.slow
def test_a_guarded_layer_hides_the_property_that_it_showed():
    draws = torch.Generator().manual_seed(0)
    X = torch.randn(2_000, 6, generator=draws, dtype=torch.float64)
    y, bits = (X[:, 0] > 0).long(), (X[:, 1] > 0).long()
    shown, rows = [], torch.arange(1_000, 3_000)
    for strength in (0.0, 0.5):
        net = TwoParts(torch.cat([torch.zeros(1_000, 6, dtype=torch.float64), X]))
        defender = defences.Defender(2, strength=strength, rng=torch.Generator().manual_seed(3))
        defender.attach(
            net, np.r_[np.full(1_000, 7), bits]
        )  # the rows that are not used must not be looked at
        optimiser = torch.optim.SGD(net.parameters(), lr=0.3)
        for _ in range(150):
            optimiser.zero_grad()
            classification_loss(net(rows), y).backward()
            optimiser.step()
        with torch.no_grad():
            logits = net(rows)[:, 0]
            net.hidden(net.h1[:5])  # prediction is not guarded, whatever its rows are
        shown.append((auc(bits, attacks.infer(net.h1, bits, net.h1, rng=rng())), auc(y, logits)))
    assert shown[0][0] > 0.75 and shown[1][0] < 0.58 and min(shown[0][1], shown[1][1]) > 0.95


def test_what_is_taken_out_has_no_covariance_in_any_training():
    draws = rng()
    X = torch.from_numpy(draws.standard_normal((3_000, 7)) @ draws.standard_normal((7, 7)) + 2)
    bits = (X[:, 2].numpy() + draws.standard_normal(3_000) > 2).astype(int)
    c = defences.property_direction(X, bits)
    theta = [torch.from_numpy(draws.standard_normal((n, 4))) for n in (3, 4)]
    plain = X @ torch.cat(theta)
    defences.take_out(theta, c)
    h1 = X @ torch.cat(theta)
    gap = h1[bits == 1].mean(dim=0) - h1[bits == 0].mean(dim=0)
    assert (
        float(gap.abs().max())
        < 1e-12
        < 0.1
        < float((plain[bits == 1].mean(dim=0) - plain[bits == 0].mean(dim=0)).abs().max())
    )
    scores = attacks.infer(h1, bits, h1, rng=rng())
    assert np.ptp(scores) < 1e-9  # the constant is the best line
    again = [part.clone() for part in theta]
    defences.take_out(again, c)
    torch.testing.assert_close(again, theta, rtol=0, atol=1e-12)


def test_taking_out_after_every_step_by_the_optimisers_hook():
    net = nn.ParameterList([torch.ones(2, 3), torch.ones(1, 3)])
    c = torch.tensor([0.6, 0.0, 0.8])
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    optimiser.register_step_post_hook(lambda *_: defences.take_out(net, c))
    (net[0].sum() + 3 * net[1].sum()).backward()
    optimiser.step()
    assert (c @ torch.cat(list(net))).abs().max().item() < 1e-6 and net[0].requires_grad
    assert net[0][1].tolist() == pytest.approx([0.9, 0.9, 0.9])


@pytest.mark.parametrize(
    "wrong, said",
    [
        (
            lambda: defences.NoisyHidden(clip_bound=0.0, noise_multiplier=1.0, rng=None),
            "clip_bound must be a finite number > 0, got 0",
        ),
        (
            lambda: defences.NoisyHidden(clip_bound=1.0, noise_multiplier=-1.0, rng=None),
            "noise_multiplier must be .* >= 0, got -1",
        ),
        (
            lambda: defences.noisy_rows([1.0], clip_bound=1.0, noise_multiplier=1.0, rng=rng()),
            r"got shape \(1,\)",
        ),
        (
            lambda: defences.noisy_rows(
                [[np.nan]], clip_bound=1.0, noise_multiplier=1.0, rng=rng()
            ),
            "must be finite",
        ),
        (
            lambda: defences.epsilon_of_releases(0.0, delta=1e-5, n_releases=1),
            "noise_multiplier must be",
        ),
        (
            lambda: defences.Defender(2, strength=-1, rng=torch.Generator()),
            "strength must be a finite number >= 0, got -1",
        ),
        (
            lambda: defences.Defender(2, strength=1, rng=torch.Generator()).guard(
                torch.ones(3, 2), [0, 1]
            ),
            r"got \(2,\) for 3",
        ),
        (
            lambda: defences.Defender(2, strength=1, rng=torch.Generator()).guard(
                torch.ones(2, 2), [0, 1]
            ),
            "h1 is outside autograd",
        ),
        (lambda: defences.property_direction(torch.eye(3), [0, 1]), "one bit a record"),
        (
            lambda: defences.property_direction(torch.ones(4, 2), [0, 1, 0, 1]),
            "no covariance with X",
        ),
        (lambda: defences.take_out([torch.ones(2, 3)], torch.ones(2)), "of length 1.41"),
        (
            lambda: defences.take_out([torch.ones(2, 3)], torch.tensor([1.0])),
            r"with 2 entries, got \(1,\)",
        ),
    ],
)
def test_bad_settings_of_a_defence_are_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        wrong()
