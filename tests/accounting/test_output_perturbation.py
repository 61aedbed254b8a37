"""One noisy vector: against quadrature, draws of the noise itself, and the pure limit."""

import math

import numpy as np
import pytest
from scipy import stats

from ppkit.accounting import get_epsilon_output_perturbation


def exact_delta(at, epsilon, p):
    """Oracle: quadrature over the density of the length and of the cosine."""
    r, r_weight = np.polynomial.legendre.leggauss(300)
    low, high = stats.gamma(p).ppf([1e-15, 1 - 1e-15])
    r = low + (high - low) * (r + 1) / 2
    r_weight = r_weight * stats.gamma(p).pdf(r) * (high - low) / 2
    angle, c_weight = np.polynomial.legendre.leggauss(400)
    angle = math.pi * (angle + 1) / 2  # the cosine's density is that of sin^(p - 2) of the angle
    c_weight = c_weight * np.sin(angle) ** (p - 2)
    c_weight /= c_weight.sum()
    loss = np.sqrt(r[:, None] ** 2 + 2 * r[:, None] * epsilon * np.cos(angle) + epsilon**2)
    loss -= r[:, None]
    return float(r_weight @ -np.expm1(np.minimum(at - loss, 0)) @ c_weight)


@pytest.mark.slow
@pytest.mark.parametrize("p", [2, 5, 30, 300])
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 10.0])
@pytest.mark.parametrize("delta", [1e-3, 0.05])
def test_from_above_and_near_the_quadrature(p, epsilon, delta):
    found = get_epsilon_output_perturbation(epsilon, delta=delta, n_parameters=p)
    assert exact_delta(found, epsilon, p) <= delta * (1 + 1e-3)
    lower = found - 0.02 * epsilon
    assert found == 0.0 or lower < 0 or exact_delta(lower, epsilon, p) > delta


@pytest.mark.slow
def test_draws_of_the_noise_itself():
    """No event over so many drawn vectors is likelier than the bound allows."""
    epsilon, p, n = 2.0, 30, 200_000
    rng = np.random.default_rng(0)
    way = rng.standard_normal((n, p))
    noise = rng.gamma(p, 1.0, (n, 1)) * way / np.linalg.norm(way, axis=1, keepdims=True)
    pull = np.eye(p)[0] * epsilon
    loss = np.linalg.norm(noise + pull, axis=1) - np.linalg.norm(noise, axis=1)
    for delta in (1e-3, 1e-2, 1e-1):
        at = get_epsilon_output_perturbation(epsilon, delta=delta, n_parameters=p)
        drawn = -np.expm1(np.minimum(at - loss, 0))
        slack = math.sqrt(math.log(2e9) / (2 * n))  # Hoeffding: 1e-9
        assert drawn.mean() <= delta + slack


def test_no_delta_leaves_the_pure_budget_and_many_parameters_leave_little():
    pure = get_epsilon_output_perturbation(2.0, delta=1e-300, n_parameters=30)
    assert pure == pytest.approx(2.0, rel=1e-6) and pure <= 2.0
    by_size = [
        get_epsilon_output_perturbation(2.0, delta=1e-3, n_parameters=p)
        for p in (2, 10, 100, 1_000)
    ]
    assert by_size == sorted(by_size, reverse=True) and by_size[-1] < 0.25


@pytest.mark.parametrize(
    "changed, sentence",
    [
        (dict(epsilon=0.0), "epsilon must be a finite number > 0, got 0.0"),
        (dict(epsilon=101.0), "epsilon must be from 1e-06 to 100, got 101.0"),
        (dict(delta=0.0), r"delta must be in \(0, 1\), got 0.0"),
        (dict(n_parameters=1), "n_parameters must be a whole number >= 2, got 1"),
        (dict(n_parameters=10**7), "n_parameters must be at most 1,000,000, got 10000000"),
    ],
)
def test_what_is_out_of_range_is_refused(changed, sentence):
    with pytest.raises(ValueError, match=sentence):
        get_epsilon_output_perturbation(**dict(epsilon=2.0, delta=1e-6, n_parameters=30) | changed)
