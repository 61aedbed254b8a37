"""Two layers are found from known records, the fit says where it does not find them, and the looks
then give the other records."""

import numpy as np
import pytest

from ppkit.attacks import features
from ppkit.attacks.second_layer import Effort, columns, fit_layers


def f(z):
    return np.clip(z + 0.5, 0, 1)


def network(d=6, width=3, n=400, looks=1, seed=0):
    """X, and theta, W, c and h_2 of each look."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    layers = []
    for _ in range(looks):
        theta = rng.uniform(-1, 1, (d, width)) * 0.4
        layers.append((theta, rng.normal(size=(width, width)), rng.normal(size=width)))
    return X, layers, [f(X @ theta) @ W + c for theta, W, c in layers]


def as_true(theta, found):
    """The found neurons in the order and with the signs of the true ones, or None."""
    signed = np.c_[found, -found]
    apart = np.abs(signed[:, :, None] - theta[:, None, :]).max(axis=0)
    return signed[:, apart.argmin(axis=0)]


def test_weights_come_back_to_1e_6_in_floating_point():
    X, [(theta, W, c)], [h2] = network()
    got = fit_layers(h2[:100], X[:100], width=3, rng=np.random.default_rng(1))
    assert got.recovered and got.predicted == 1
    assert np.abs(as_true(theta, got.layers.theta) - theta).max() < 1e-6
    assert np.abs(got.layers.predicted(X) - h2).max() < 1e-6


def test_weights_come_back_to_the_rounding_in_fixed_point():
    X, [(theta, W, c)], [h2] = network()
    rounded = np.round(h2 * 2**16) / 2**16
    got = fit_layers(
        rounded[:100], X[:100], width=3, noise=features.ROUNDED_16, rng=np.random.default_rng(1)
    )
    assert got.recovered
    error = np.abs(as_true(theta, got.layers.theta) - theta).max()
    assert 1e-9 < error < 1e-3


def test_too_few_known_records_are_not_taken_for_a_success():
    X, _, [h2] = network(d=20)
    got = fit_layers(
        h2[:40],
        X[:40],
        width=3,
        effort=Effort(n_fits=10, judging=0.25),
        rng=np.random.default_rng(1),
    )
    assert not got.recovered and got.n_fits == 10
    with pytest.raises(ValueError, match="25 known records are needed to fit"):
        fit_layers(h2[:20], X[:20], width=3, rng=np.random.default_rng(1))


def test_what_two_layers_cannot_give_is_not_recovered_and_says_so():
    X, _, [h2] = network()
    shuffled = np.random.default_rng(2).permutation(h2)
    got = columns(
        [shuffled], range(100), X[:100], width=3, effort=Effort(n_fits=6),
        rng=np.random.default_rng(1),
    )  # fmt: skip
    assert got.X is None and got.used == [] and got.expected_r2 is None
    assert got.why.startswith("not recovered: 6 fits of the first look leave")


def test_the_judge_is_no_record_of_the_fit():
    """Known records whose h_2 is wrong in every fifth place: whoever judges by the fit alone, or by
    the truth, would not see it."""
    X, _, [h2] = network()
    wrong = h2[:100].copy()
    wrong[::5] += 0.01
    got = fit_layers(wrong, X[:100], width=3, effort=Effort(n_fits=6), rng=np.random.default_rng(1))
    assert not got.recovered


def test_looks_add_up_to_the_other_records_and_the_server_knows_how_well():
    X, layers, views = network(looks=1)
    rng = np.random.default_rng(3)
    theta, W, c = layers[0]
    for _ in range(9):  # as in training, each look a small move from the one before
        theta = theta + 0.1 * rng.normal(size=theta.shape)
        views.append(f(X @ theta) @ W + c)
    others = slice(100, None)
    one, all_ten = (
        columns(some, range(100), X[:100], width=3, rng=np.random.default_rng(1))
        for some in (views[:1], views)
    )
    assert one.used == [0] and all_ten.used == list(range(10))
    r2 = [features.r_squared(X[others], got.X[others]) for got in (one, all_ten)]
    assert r2[0] < 0.6 and r2[1] > 0.9
    for value, got in zip(r2, (one, all_ten)):
        assert abs(value - got.expected_r2) < 0.1


def test_refused():
    X, _, [h2] = network()
    with pytest.raises(ValueError, match="judging must be in"):
        Effort(judging=1.0)
    with pytest.raises(ValueError, match="h_2 must have 4 columns"):
        columns([h2], range(100), X[:100], width=4, rng=np.random.default_rng(1))
