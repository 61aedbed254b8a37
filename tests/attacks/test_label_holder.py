"""The label holder's view: networks whose weights are drawn, so that the truth is known."""

import numpy as np
import pytest
from scipy.special import expit

from ppkit.attacks import features, label_holder

N, D, WIDTH, LAST = 600, 5, 4, 4


def looks_of(n_looks, seed=0, digits=0.0):
    """h_L, A's part and B's columns; the weights move from look to look."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D))
    weight, bias = rng.normal(size=(WIDTH, LAST)), rng.normal(size=LAST)
    theta, own_theta = rng.normal(size=(D, WIDTH)) / 2, rng.normal(size=(3, WIDTH)) / 2
    X_own, looks, own, thetas = rng.normal(size=(N, 3)), [], [], []
    for _ in range(n_looks):
        theta = theta + 0.1 * rng.normal(size=theta.shape)
        own.append(X_own @ own_theta)
        h_last = expit(expit(own[-1] + X @ theta) @ weight + bias)
        looks.append(h_last + digits * rng.normal(size=h_last.shape))
        thetas.append(theta)
    return X, looks, own, thetas


def solved(X, looks, own, known):
    rng, fits = np.random.default_rng(1), []
    for h_last, sums in zip(looks, own):
        about = dict(rng=rng, start=fits[-1] if fits else None)
        fits.append(label_holder.fit(h_last[known], sums[known], X[known], **about))
    return fits


def test_known_records_give_the_weights_and_two_looks_give_the_rest():
    X, looks, own, thetas = looks_of(2)
    known, others = np.arange(60), np.arange(60, N)
    fits = solved(X, looks, own, known)
    for one, theta in zip(fits, thetas):
        assert one.rms < 1e-6
        np.testing.assert_allclose(one.theta, theta, atol=1e-4)
    got = label_holder.rebuilt(looks, own, fits)
    assert features.r_squared(X[others], got[others]) > 0.999


def test_one_look_gives_as_many_directions_as_there_are_neurons():
    X, looks, own, _ = looks_of(1)
    known, others = np.arange(60), np.arange(60, N)
    got = label_holder.rebuilt(looks, own, solved(X, looks, own, known))
    assert features.r_squared(X[others], got[others]) == pytest.approx(WIDTH / D, abs=0.07)


def test_a_start_that_does_not_solve_a_look_is_not_the_last_word():
    """A fit that stuck at another look: its neurons are steps, and no slope leads away."""
    X, looks, own, thetas = looks_of(1)
    known, rng = np.arange(60), np.random.default_rng(1)
    stuck = label_holder.Fit(
        1e6 * rng.normal(size=(D, WIDTH)), rng.normal(size=(WIDTH, LAST)), np.zeros(LAST), 0.2
    )
    found = label_holder.fit(looks[0][known], own[0][known], X[known], rng=rng, start=stuck)
    assert found.rms < 1e-6
    np.testing.assert_allclose(found.theta, thetas[0], atol=1e-4)


def test_a_look_that_is_not_solved_counts_nothing():
    """Under SGLD one look in four stuck, and its numbers overflowed."""
    X, looks, own, _ = looks_of(3)
    fits = solved(X, looks, own, np.arange(60))
    stuck = label_holder.Fit(1e160 * fits[2].theta, fits[2].weight, fits[2].bias, 0.2)
    np.testing.assert_array_equal(
        label_holder.rebuilt(looks, own, [*fits[:2], stuck]),
        label_holder.rebuilt(looks[:2], own[:2], fits[:2]),
    )


def test_looks_under_equal_noise_all_count():
    """Noise of .003 on h_L leaves each fit an rms of about .02; its weights are right."""
    X, looks, own, _ = looks_of(5, digits=0.003)
    clipped = [np.clip(one, 1e-6, 1 - 1e-6) for one in looks]
    known, others = np.arange(60), np.arange(60, N)
    fits = solved(X, clipped, own, known)
    by_looks = [
        features.r_squared(X[others], label_holder.rebuilt(clipped[:t], own[:t], fits[:t])[others])
        for t in (1, 5)
    ]
    assert by_looks[0] < WIDTH / D < 0.85 < by_looks[1]


def test_noise_on_h_last_stops_it():
    X, looks, own, _ = looks_of(2, digits=0.03)
    clipped = [np.clip(one, 0.01, 0.99) for one in looks]
    known, others = np.arange(60), np.arange(60, N)
    got = label_holder.rebuilt(clipped, own, solved(X, clipped, own, known))
    assert features.r_squared(X[others], got[others]) < 0.5


def test_too_few_known_records_are_refused():
    X, looks, own, _ = looks_of(1)
    with pytest.raises(ValueError, match="5 known records give 20 numbers for 40 unknowns"):
        label_holder.fit(looks[0][:5], own[0][:5], X[:5], rng=np.random.default_rng(0))
