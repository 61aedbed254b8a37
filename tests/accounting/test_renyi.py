"""Renyi bounds against enumeration, quadrature and dp-accounting."""

import math

import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant
from scipy import integrate, stats

from ppkit import accounting
from ppkit.accounting import renyi

DELTA = 2.0**-30
D = 14_312
SMALL = dict(sample_rate=0.01, n_uploads=1431, n_parameters=D, delta=DELTA)


def binomial_laws(m, p):
    """Signs of m coordinates: fair without the record, + with chance p with it, with 1 - p when it
    is its opposite."""
    k = np.arange(m + 1)
    return [stats.binom.pmf(k, m, chance) for chance in (0.5, p, 1 - p)]


def exact_log_moment(p, q, order):
    return math.log(math.fsum(q * (p / q) ** order))


def exact_curve(without, with_record):
    """Oracle: the larger of the two directions, term by term."""

    def curve(orders):
        both = [
            [exact_log_moment(a, b, order) for order in orders]
            for a, b in ((with_record, without), (without, with_record))
        ]
        return np.max(both, axis=0) / (np.asarray(orders) - 1)

    return curve


@pytest.mark.parametrize("m, p", [(1, 0.6), (3, 0.9), (8, 0.52)])
@pytest.mark.parametrize("rate", [0.001, 0.05, 0.4])
def test_sampled_moments_bound_the_enumerated_ones(m, p, rate, monkeypatch):
    monkeypatch.setattr(renyi, "ORDERS", np.arange(1, 21))
    monkeypatch.setattr(renyi, "_binomials", renyi._binomials.__wrapped__)
    without, up, down = binomial_laws(m, p)
    curve = exact_curve(without, up)
    with_up, with_down = ((1 - rate) * without + rate * law for law in (up, down))
    added = accounting.sampled_log_moments(curve, rate, "add_remove")
    replaced = accounting.sampled_log_moments(curve, rate, "replace_one")
    assert added[0] == replaced[0] == 0.0
    for order, bound_add, bound_replace in zip(range(2, 21), added[1:], replaced[1:]):
        forth, back = (
            exact_log_moment(with_up, without, order),
            exact_log_moment(without, with_up, order),
        )
        assert max(forth, back) <= bound_add * (1 + 1e-9) + 1e-15
        assert exact_log_moment(with_up, with_down, order) <= bound_replace * (1 + 1e-9) + 1e-15
        if rate * order < 0.1 and p < 0.7:  # and they are not loose where the second order rules
            assert bound_add <= 1.2 * max(forth, back)


def test_sampled_moments_agree_with_dp_accounting_for_the_gaussian():
    orders = np.arange(2, 65)
    theirs = rdp_privacy_accountant._compute_rdp_poisson_subsampled_gaussian(0.01, 1.0, orders)
    ours = accounting.sampled_log_moments(lambda alpha: alpha / 2, 0.01, "add_remove")[1:64] / (
        orders - 1
    )
    assert (
        ours >= np.array(theirs) * (1 - 1e-9)
    ).all()  # a bound for every mechanism of this curve, the Gaussian included
    np.testing.assert_allclose(
        ours[5:], theirs[5:], rtol=1e-7
    )  # where `forth` rules the two formulas are the same


def test_sampled_moments_are_convex_through_one():
    moments = accounting.sampled_log_moments(lambda alpha: 0.02 * alpha, 0.01, "add_remove")
    slopes = np.diff(moments) / np.diff(renyi.ORDERS)
    assert (slopes[1:] >= slopes[:-1] * (1 - 1e-9)).all()


@pytest.mark.parametrize("shift", [1e-9, 0.05, 1.0, 6.0])
@pytest.mark.parametrize("order", [1.5, 2.0, 7.0])
def test_laplace_curve_against_quadrature(shift, order):
    def integrand(z):
        return math.exp(-order * abs(z - shift) - (1 - order) * abs(z)) / 2

    moment = sum(
        integrate.quad(integrand, low, high, epsabs=1e-14, epsrel=1e-12)[0]
        for low, high in ((-80, 0), (0, shift), (shift, 80 + shift * order))
    )
    bound = float(accounting.laplace_curve(shift, 5)(np.array([order]))[0])
    assert bound == pytest.approx(5 * math.log(moment) / (order - 1), rel=1e-6, abs=1e-12)
    assert 0 < bound <= 5 * order * shift**2 / 2


def test_bounded_range_curve_covers_every_two_point_response():
    orders = np.r_[1.01, 1.5, 2, 5, 20, 100]
    for width in (0.01, 0.5, 2.0, 8.0):
        cover = accounting.bounded_range_curve(width, 1)(orders)
        for t in np.linspace(0.01, 0.99, 37) * width:  # losses t and t - width
            high = (math.exp(width) - math.exp(t)) / math.expm1(width)
            log_terms = np.logaddexp(
                math.log(high) + (orders - 1) * t, math.log1p(-high) + (orders - 1) * (t - width)
            )
            assert (log_terms / (orders - 1) <= cover * (1 + 1e-9) + 1e-12).all()


@pytest.mark.parametrize("rho", [0.01, 0.5, 7.155])
def test_conversion_lies_between_the_exact_gaussian_and_the_textbook(rho):
    delta, mu = 2.0**-30, math.sqrt(2 * rho)

    def gaussian_delta(epsilon):
        return stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(
            -mu / 2 - epsilon / mu
        )

    epsilon = accounting.curve_epsilon(lambda alpha: alpha * rho, delta)
    assert gaussian_delta(epsilon) < delta
    assert epsilon < rho + 2 * math.sqrt(rho * math.log(1 / delta))


def test_rounds_add_up_and_a_large_delta_costs_nothing():
    once = accounting.curve_epsilon(lambda alpha: alpha * 0.3, 1e-6, 10)
    assert once == pytest.approx(
        accounting.curve_epsilon(lambda alpha: alpha * 3.0, 1e-6), rel=1e-12
    )
    assert accounting.curve_epsilon(lambda alpha: alpha * 1e-9, 0.5) == 0.0
