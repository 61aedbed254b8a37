import math

import numpy as np
import pytest
import torch
from scipy.stats import norm

from ppkit.attacks.label_defences import auc_limit, randomised, shaped_noise
from ppkit.attacks.labels import averaged, explained, first_direction, norms
from ppkit.evaluation import auc
from ppkit.models import mlp


def gradients_of(y, width=4, seed=0, spread=0.2, noise=0.0):
    """(p - y) c with p in (0, .6) and c to one side of 0: what one step sends; the last layer's if
    spread is 0."""
    rng = np.random.default_rng(seed)
    p = 0.6 * rng.random(len(y))
    return (p - y + noise * rng.normal(size=len(y)))[:, None] * (
        1 + spread * rng.uniform(-1, 1, (len(y), width))
    )


def rare(n=400, n_positive=12, seed=1):
    y = np.zeros(n, int)
    y[np.random.default_rng(seed).choice(n, n_positive, replace=False)] = 1
    return y


def test_one_direction_separates_the_labels_and_its_sign_is_the_label():
    y = rare()
    got = first_direction(gradients_of(y))
    assert auc(y, got.scores) == 1.0 and ((got.scores > 0) == (y == 1)).all()


def test_the_direction_is_that_of_the_gradients_as_they_are_not_less_their_mean():
    """Along (1, 0) every record has length 1 to 3, along (0, 1) the spread is larger: about the
    mean (0, 1) would come first."""
    G = np.array([[2.0, 1.9], [2.0, -1.9], [2.1, 1.9], [1.9, -1.9], [3.0, 0.0]])
    v = np.linalg.svd(G)[2][0]
    for scale in (1e-170, 1.0, 1e90):
        scores = first_direction(scale * G).scores / scale
        np.testing.assert_allclose(np.abs(scores), np.abs(G @ v), rtol=1e-12)
    assert abs(v[0]) > 0.99 and np.linalg.eigh(np.cov(G.T))[1][0, -1] ** 2 < 0.1


@pytest.mark.parametrize("sign", [1, -1])
def test_the_rarer_class_settles_the_sign_whatever_the_weights_sign(sign):
    y = rare()
    assert auc(y, first_direction(sign * gradients_of(y)).scores) == 1.0


@pytest.mark.parametrize("sign", [1, -1])
def test_scores_and_norms_grow_with_the_gradients_at_any_size(sign):
    """Powers of 2 round nothing: every score is the same multiple, to the last bit."""
    G = sign * gradients_of(rare(50, 4))
    exponents = [-996, -500, -372, 0, 365, 664, 996]  # 1e-300 to 1e300
    alone, length = first_direction(G).scores, norms(G)
    twice = averaged([G, G[:, ::-1]]).scores
    for scale in (2.0**e for e in exponents):
        np.testing.assert_array_equal(first_direction(scale * G).scores / scale, alone)
        np.testing.assert_array_equal(norms(scale * G) / scale, length)
        both = averaged([scale * G, G[:, ::-1] * scale]).scores
        np.testing.assert_array_equal(both, twice)
    for scale in (1e-300, 1e-150, 1e-112, 1e110, 1e200, 1e300):
        np.testing.assert_allclose(first_direction(scale * G).scores / scale, alone, rtol=1e-9)


def test_where_positives_are_common_the_sign_is_wrong():
    y = 1 - rare()
    G = gradients_of(y)
    assert auc(y, first_direction(G).scores) == 0.0


def test_a_real_first_batch_of_a_sigmoid_network_gives_its_labels_away():
    rng = torch.Generator().manual_seed(3)
    X, y = torch.randn(500, 9, generator=rng), (torch.rand(500, generator=rng) < 0.04).double()
    h1 = (X @ torch.randn(9, 8, generator=rng)).requires_grad_()
    net = mlp((8, 8, 1), rng=rng, activation="sigmoid")
    logits = net(torch.sigmoid(h1))[:, 0]
    torch.nn.functional.binary_cross_entropy_with_logits(logits.double(), y).backward()
    assert auc(y.numpy(), first_direction(h1.grad).scores) == 1.0


def test_norms_fail_where_the_direction_does_not():
    """Untrained, p is about .6: negatives have the longer gradients."""
    y = rare()
    G = (0.6 - y)[:, None] * np.ones((1, 4))
    assert auc(y, norms(G)) == 0.0 and auc(y, first_direction(G).scores) == 1.0


def test_directions_that_flip_between_records_hide_labels():
    y, rng = rare(2000, 600), np.random.default_rng(0)
    G = gradients_of(y) * rng.choice([-1, 1], 2000)[:, None]
    assert abs(auc(y, first_direction(G).scores) - 0.5) < 0.1


def test_fresh_noise_averages_out_over_steps():
    y = rare(1000, 30)
    looks = [gradients_of(y, seed=t, spread=0, noise=2.0) for t in range(60)]
    assert auc(y, first_direction(looks[0]).scores) < 0.85 < 0.99 < auc(y, averaged(looks).scores)


def test_one_step_with_long_gradients_does_not_drown_the_others():
    y = rare(1000, 30)
    looks = [
        gradients_of(y, seed=t, spread=0, noise=2.0) * (1e4 if t == 0 else 1) for t in range(60)
    ]
    assert auc(y, averaged(looks).scores) > 0.99


def test_averaging_keeps_the_sense_of_a_direction_from_step_to_step():
    y = rare()
    turning = [
        gradients_of(y, seed=t, spread=0) * np.array([1, 1, math.cos(t / 4), math.sin(t / 4)])
        for t in range(20)
    ]
    assert auc(y, averaged(turning).scores) == 1.0
    one = averaged([turning[0]])
    assert np.array_equal(one.scores, first_direction(turning[0]).scores)


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"gradients": np.zeros((5, 2))}, "all gradients are 0"),
        ({"gradients": np.full((5, 2), np.inf)}, "gradients must be finite, got 10 of 10"),
        ({"gradients": np.ones(5)}, "gradients must be a matrix"),
    ],
)
def test_bad_gradients_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        first_direction(**kwargs)


# ---- what gradients tell about another holder's columns


def test_explained_equals_a_loop_of_least_squares_and_is_one_where_targets_are_linear():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(120, 3))
    targets = np.c_[inputs @ [1.0, -2.0, 0.5] + 3, rng.normal(size=120), np.ones(120)]
    got = explained(inputs, targets, ridge=0.0, rng=np.random.default_rng(1))
    assert got[0] == pytest.approx(1) and got[1] < 0.1 and got[2] == 0
    folds, guess = np.array_split(np.random.default_rng(1).permutation(120), 5), np.empty(120)
    for fold in folds:
        rest = np.setdiff1d(np.arange(120), fold)
        centre = inputs[rest].mean(axis=0)
        coefficients = np.linalg.lstsq(
            inputs[rest] - centre, targets[rest, 1] - targets[rest, 1].mean(), rcond=None
        )[0]
        guess[fold] = (inputs[fold] - centre) @ coefficients + targets[rest, 1].mean()
    expected = 1 - ((targets[:, 1] - guess) ** 2).mean() / targets[:, 1].var()
    assert got[1] == pytest.approx(expected)


def test_explained_counts_what_a_gradient_adds():
    rng = np.random.default_rng(0)
    mine, theirs = rng.normal(size=(400, 2)), rng.normal(size=(400, 2))
    G = (theirs @ [1.0, 1.0])[:, None] * [1.0, 0.5]
    alone, told = (
        explained(columns, theirs, rng=np.random.default_rng(1))
        for columns in (mine, np.c_[mine, G, np.ones(400)])
    )
    assert alone.max() < 0.05 and told.min() > 0.4


@pytest.mark.parametrize("kwargs", [{"folds": 1}, {"folds": 11}, {"ridge": -1.0}])
def test_bad_folds_are_refused(kwargs):
    with pytest.raises(ValueError, match="folds must be 2 to 10 .the rows. and ridge >= 0"):
        explained(np.ones((10, 2)), np.ones((10, 2)), rng=np.random.default_rng(0), **kwargs)
    with pytest.raises(ValueError, match="the same rows, got 10 and 9"):
        explained(np.ones((10, 2)), np.ones((9, 2)), rng=np.random.default_rng(0))


# ---- defences


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
            lambda rng: shaped_noise(torch.ones(3, 2), torch.tensor([0, 1]), power=1.0, rng=rng),
            "one label a gradient",
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


def test_gradients_and_labels_that_cannot_be_are_refused_by_the_noise():
    G, y = torch.ones(4, 2), torch.tensor([0, 1, 0, 1])
    bad, draws = torch.full((4, 2), torch.nan), torch.Generator()
    with pytest.raises(ValueError, match="gradient must be finite, got 8 of 8 values that are NaN"):
        shaped_noise(bad, y, power=1.0, rng=draws)
    with pytest.raises(ValueError, match="labels must be 0 or 1, got 2"):
        shaped_noise(G, 2 * y, power=1.0, rng=draws)
