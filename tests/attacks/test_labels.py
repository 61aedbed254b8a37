import math

import numpy as np
import pytest
import torch

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
    np.testing.assert_allclose(np.abs(first_direction(G).scores), np.abs(G @ v), rtol=1e-12)
    assert abs(v[0]) > 0.99 and np.linalg.eigh(np.cov(G.T))[1][0, -1] ** 2 < 0.1


@pytest.mark.parametrize("sign", [1, -1])
def test_the_rarer_class_settles_the_sign_whatever_the_weights_sign(sign):
    y = rare()
    assert auc(y, first_direction(sign * gradients_of(y)).scores) == 1.0


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
    targets = np.c_[inputs @ [1.0, -2.0, 0.5] + 3, rng.normal(size=120)]
    got = explained(inputs, targets, ridge=0.0, rng=np.random.default_rng(1))
    assert got[0] == pytest.approx(1) and got[1] < 0.1
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
