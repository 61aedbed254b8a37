"""The defences of h1: noise, an adversary in training, a direction taken out of theta."""

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
from ppkit.evaluation import auc
from ppkit.models import classification_loss, mlp
from ppkit.spnn import rivals, training


def rng(seed=0):
    return np.random.default_rng(seed)


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
    ],
)
def test_bad_settings_of_a_defence_are_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        wrong()
