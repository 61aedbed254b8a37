"""Losses against a loop over records and finite differences; the fast hinge sums against masks."""

import math

import numpy as np
import pytest
from collaboration_loop import mean_gradient, objective

from ppkit.collaboration import hits
from ppkit.collaboration.losses import Loss, hinge, queries, squared
from ppkit.collaboration.owners import Bounds, Owner, blocks, clip_records

LOSSES = [squared(), squared(0.3), hinge(), hinge(0.2), hinge(0.0)]


def problem(loss, sizes=(40, 70, 55), p=4, seed=0):
    rng = np.random.default_rng(seed)
    X = clip_records(2 * rng.standard_normal((sum(sizes), p)), l1_bound=4.0, constant=True)
    z = X @ rng.standard_normal(p + 1)
    y = np.where(z > 0, 1.0, -1.0) if loss.signs else np.clip(z / 3, -1, 1)
    return blocks(X, y, sizes), rng


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_value_and_gradients_are_those_of_a_loop_over_records(loss):
    owners, rng = problem(loss)
    thetas = rng.standard_normal((3, 7, 5))
    values = loss.value(thetas, owners)
    expected = [[objective(owners, loss, theta) for theta in row] for row in thetas]
    np.testing.assert_allclose(values, expected, rtol=1e-13)
    assert isinstance(loss.value(thetas[0, 0], owners), float)
    columns = thetas.reshape(-1, 5).T
    for at, owner in enumerate(owners):
        got = queries(loss, owners, together=7).gradient(at, columns)
        np.testing.assert_allclose(
            got.T,
            [mean_gradient(owner, loss, theta) for theta in columns.T],
            rtol=1e-12,
            atol=1e-14,
        )


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_gradients_are_those_of_the_value(loss):
    owners, rng = problem(loss)
    n = sum(owner.n_records for owner in owners)
    theta, step = rng.standard_normal(5), 1e-7
    asked = queries(loss, owners)
    g = loss.regularisation * theta + sum(
        owner.n_records / n * asked.gradient(at, theta[:, None])[:, 0]
        for at, owner in enumerate(owners)
    )
    slopes = [
        (loss.value(theta + step * e, owners) - loss.value(theta - step * e, owners)) / (2 * step)
        for e in np.eye(5)
    ]
    np.testing.assert_allclose(g, slopes, atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_no_record_within_the_bounds_has_a_larger_gradient_than_xi_and_one_attains_it(loss):
    bounds = Bounds(record_l1=3.0, theta_max=0.7, label=2.0 if not loss.signs else 1.0)
    xi, rng = loss.gradient_bound(bounds), np.random.default_rng(0)
    largest = 0.0
    for trial in range(300):
        if trial:
            x = rng.standard_normal(4)
            x *= 3.0 / np.abs(x).sum()
            theta, label = rng.uniform(-0.7, 0.7, 4), rng.uniform(-bounds.label, bounds.label)
        else:  # the worst: the margin far on the wrong side, or the residual as large as it can be
            x, theta, label = np.array([3.0, 0, 0, 0]), np.array([-0.7, 0, 0, 0]), bounds.label
        label = math.copysign(1.0, label) if loss.signs else label
        g = mean_gradient(Owner("one", x[None], np.array([label])), loss, theta)
        largest = max(largest, float(np.abs(g).sum()))
    assert largest <= xi * (1 + 1e-12)
    assert largest == pytest.approx(xi, rel=1e-12)


@pytest.mark.parametrize("loss", [squared(), squared(0.3)], ids=str)
def test_curvature_bounds_every_second_difference(loss):
    owners, rng = problem(loss)
    low, high = loss.curvature(owners)
    assert 0 <= low < high
    ratios = []
    for _ in range(200):
        theta, way = rng.standard_normal(5) * 0.3, rng.standard_normal(5)
        way *= 1e-3 / np.linalg.norm(way)
        f = loss.value(np.array([theta - way, theta, theta + way]), owners)
        ratios.append((f[0] - 2 * f[1] + f[2]) / 1e-6)
    assert low - 1e-6 <= min(ratios) and max(ratios) <= high + 1e-6
    X = np.concatenate([owner.X for owner in owners])
    w = np.linalg.eigvalsh(2 * X.T @ X / len(X)) + loss.regularisation
    assert (low, high) == pytest.approx((w[0], w[-1]), rel=1e-10)


def test_the_hinge_has_no_smoothness():
    assert hinge(0.7).curvature(problem(hinge())[0]) == (0.7, math.inf)


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.0, 1e-9, 1e-3, 0.05, 3.0])
@pytest.mark.parametrize("together", [1, 33, 300])
def test_hinge_sums_do_not_depend_on_how_close_the_models_are(spread, together):
    rng = np.random.default_rng(3)
    Z = rng.standard_normal((2_500, 9))
    thetas = (rng.standard_normal(9) + spread * rng.standard_normal((300, 9))).T
    a, b = hits.Lines(Z, np.dtype(float)).sums(thetas, together)
    below = Z @ thetas < 1
    np.testing.assert_allclose(a, Z.T @ below, rtol=0, atol=1e-10)
    np.testing.assert_array_equal(b, below.sum(axis=0))


def test_a_margin_of_exactly_1_costs_nothing_and_pulls_nothing():
    owner = Owner("a", np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1.0, 1.0]))
    g = queries(hinge(0.0), (owner,)).gradient(0, np.array([[1.0], [0.5]]))
    assert g[:, 0].tolist() == [0.0, -0.5] and hinge(0.0).value([1.0, 0.5], (owner,)) == 0.25


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: Loss("zero_one", 0.0), "kind must be one of squared, hinge, got 'zero_one'"),
        (lambda: hinge(-0.1), "regularisation must be a finite number >= 0, got -0.1"),
        (lambda: squared(math.inf), "regularisation .* got inf"),
    ],
)
def test_refusals_name_the_value(call, message):
    with pytest.raises(ValueError, match=message):
        call()
