"""Labels randomised once and noise shaped to them: what they cost, and what they hide."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import norm

from ppkit.attacks.label_defences import auc_limit, randomised, shaped_noise
from ppkit.attacks.labels import first_direction
from ppkit.evaluation import auc


def rare(n=400, n_positive=12, seed=1):
    y = np.zeros(n, int)
    y[np.random.default_rng(seed).choice(n, n_positive, replace=False)] = 1
    return y


def test_randomised_labels_are_unbiased_of_two_values_and_flip_as_often_as_epsilon_says():
    y = torch.cat([torch.zeros(40_000), torch.ones(40_000)])
    got, q = (
        randomised(y, epsilon=1.5, rng=torch.Generator().manual_seed(0)),
        1 / (1 + math.exp(1.5)),
    )
    low, high = -q / (1 - 2 * q), (1 - q) / (1 - 2 * q)
    assert torch.isclose(got.unique(), torch.tensor([low, high], dtype=torch.float64)).all()
    margin = math.sqrt(
        math.log(4 / 1e-7) / (2 * 40_000)
    )  # Hoeffding: both shares within it but for a chance of 1e-7
    for label in (0, 1):
        flipped = ((got > 0.5) != (label == 1))[y == label].double().mean()
        assert abs(float(flipped) - q) < margin
        assert abs(float(got[y == label].mean()) - label) < margin / (1 - 2 * q)


def test_no_score_of_a_randomised_label_passes_the_limit_and_the_label_itself_attains_it():
    y = torch.tensor(rare(60_000, 30_000))
    for epsilon in (0.5, 2.0):
        got = randomised(y, epsilon=epsilon, rng=torch.Generator().manual_seed(1))
        assert (
            abs(auc(y.numpy(), got.numpy()) - auc_limit(epsilon)) < 0.02
        )  # 30,000 a class: Hoeffding, chance < 1e-9
    assert auc_limit(0) == 0.5 and auc_limit(math.inf) == 1.0
    grid = np.linspace(0, 1, 100_001)  # the limit is the area under the two lines of epsilon-DP
    curve = np.minimum(math.exp(1.2) * grid, 1 - math.exp(-1.2) * (1 - grid))
    assert auc_limit(1.2) == pytest.approx(np.trapezoid(curve, grid), abs=1e-6)


@pytest.mark.parametrize("power", [0.2, 1.0, 20.0])
def test_shaped_noise_spends_its_power_keeps_the_direction_and_beats_equal_noise(power):
    y = torch.tensor(rare(20_000, 400))
    w = torch.tensor([2.0, -1.0, 0.5], dtype=torch.float64)
    p = 0.2 * torch.rand(20_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    g = (p - y)[:, None] * w
    got = shaped_noise(g, y, power=power, rng=torch.Generator().manual_seed(1))
    added, unit = got - g, w / w.norm()
    assert (added - (added @ unit)[:, None] * unit).abs().max() < 1e-9  # along w only
    along = g @ unit
    m0, m1 = along[y == 0].mean(), along[y == 1].mean()
    gap = float((m1 - m0) ** 2)
    spent = float(((added @ unit) ** 2).mean())
    assert 0.75 * power * gap < spent < 1.25 * power * gap

    def bound(l0, l1):
        a, b = float(along[y == 0].var()) + l0, float(along[y == 1].var()) + l1
        return (a / b + b / a + gap / a + gap / b) / 2 - 1

    l0, l1 = (float(((added @ unit)[y == c] ** 2).mean()) for c in (0, 1))
    assert bound(l0, l1) < 1.02 * bound(power * gap, power * gap)


def test_shaped_noise_hides_labels_in_one_look_as_its_bound_says():
    y = torch.tensor(rare(20_000, 4_000))
    p = 0.2 + 0.1 * torch.randn(
        20_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    g = (p - y)[:, None] * torch.ones(1, 2)
    got = shaped_noise(g, y, power=4.0, rng=torch.Generator().manual_seed(1))
    scores, positive = first_direction(got).scores, int(np.argmin((got.sum(1) * y).numpy()))
    seen = auc(y.numpy(), np.sign(scores[positive]) * scores)
    assert (
        0.55 < seen < norm.cdf(1 / math.sqrt(2 * 4.0)) + 0.03
    )  # equal Gaussian noise of variance 4 D


def test_a_batch_of_one_class_is_left_as_it_is():
    g = torch.randn(5, 2, generator=torch.Generator().manual_seed(0))
    assert torch.equal(shaped_noise(g, torch.zeros(5), power=1.0, rng=torch.Generator()), g)


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda rng: randomised(torch.tensor([0, 1]), epsilon=0.0, rng=rng),
            "epsilon must be > 0, got 0.0",
        ),
        (
            lambda rng: randomised(torch.tensor([0, 2]), epsilon=1.0, rng=rng),
            "labels must be 0 or 1, got 2",
        ),
        (
            lambda rng: shaped_noise(torch.ones(2, 2), torch.tensor([0, 1]), power=0.0, rng=rng),
            "power must be > 0, got 0.0",
        ),
        (lambda rng: auc_limit(-1.0), "epsilon must be >= 0, got -1.0"),
    ],
)
def test_bad_settings_of_defences_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(torch.Generator())
