"""The accountants of DP-SGD over the whole range that they promise.

No oracle here is dp_accounting's: one round in closed form at 60 digits, moments by quadrature, the
Gaussian by mpmath, and what a simple test attains.
"""

import math
from itertools import product

import mpmath
import numpy as np
import pytest
from scipy import optimize, stats

from ppkit.accounting import (
    calibrate_noise_multiplier,
    get_epsilon_fixed_batches,
    get_epsilon_poisson,
    privacy_loss,
)
from ppkit.accounting.budget import smallest
from ppkit.accounting.gaussian import poisson_bounds
from ppkit.accounting.privacy_loss import SampledGaussian

DIGITS = 60
PROMISED = 1e-3  # the noise that an answer may waste


def gaussian_delta(epsilon, noise):
    """Balle and Wang 2018, Theorem 8, at 60 digits."""
    epsilon, noise = mpmath.mpf(epsilon), mpmath.mpf(noise)
    half, shift = 1 / (2 * noise), epsilon * noise
    return mpmath.ncdf(half - shift) - mpmath.exp(epsilon) * mpmath.ncdf(-half - shift)


def root(falling, wanted):
    """The epsilon at which a falling function is `wanted`, by halving; 0 if it is below at 0."""
    if falling(mpmath.mpf(0)) <= wanted:
        return mpmath.mpf(0)
    low, high = mpmath.mpf(0), mpmath.mpf(1)
    while falling(high) > wanted:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > wanted else (low, middle)
    return high


def every_batch(noise, delta, n_rounds, moved=1):
    """Upper bound: the Gaussian, the record in every batch."""
    with mpmath.workdps(DIGITS):
        each = noise / (moved * math.sqrt(n_rounds))
        return float(root(lambda epsilon: gaussian_delta(epsilon, each), delta))


def one_round(noise, delta, rate, moved=1):
    """Exact for one round, add/remove: q delta_G(ln(1 + (e^epsilon - 1) / q)).

    A lower bound for more rounds."""
    with mpmath.workdps(DIGITS):
        if delta >= rate:
            return 0.0
        whole = root(lambda e: gaussian_delta(e, noise / moved), mpmath.mpf(delta) / rate)
        return float(mpmath.log1p(rate * mpmath.expm1(whole)))


def log_ratio(x, noise, rate):
    """ln (P / Q)(x) of one round, add/remove."""
    y = (x - 0.5) / noise**2
    return np.logaddexp(np.log1p(-rate) if rate < 1 else -np.inf, np.log(rate) + y)


def by_moments(noise, delta, rate, n_rounds):
    """Upper bound: Renyi moments of one round by the trapezoidal rule, added up.

    Mironov, Talwar and Zhang 2019: those of P over Q bound both directions."""
    best = math.inf
    for order in 1 + np.logspace(-2, math.log10(5_000 * noise + 1), 40):
        x = np.linspace(-14 * noise, order + 14 * noise, 20_001)
        terms = stats.norm.logpdf(x, scale=noise) + order * log_ratio(x, noise, rate)
        highest = terms.max()
        moment = highest + math.log(np.exp(terms - highest).sum() * (x[1] - x[0]))
        gained = (n_rounds * moment - math.log(delta * order)) / (order - 1)
        best = min(best, gained + math.log1p(-1 / order))
    return max(0.0, best)


def attained(noise, delta, rate, n_rounds):
    """Lower bound: the attacker adds all rounds' sums up, and sees N(m, T s^2), m rounds with it.

    m is binomial with the record, 0 without. By a threshold on the sum, over a few hundred m."""
    m = np.unique(np.linspace(0, n_rounds, min(n_rounds + 1, 401)).round())
    mass = np.diff(np.r_[0.0, stats.binom.cdf(m, n_rounds, rate)])  # fewer rounds: rounded down
    m, mass = np.r_[0.0, m[:-1] + 1], mass
    spread = noise * math.sqrt(n_rounds)
    cuts = spread * np.linspace(-2, 14, 161)
    with np.errstate(divide="ignore", invalid="ignore"):
        there = np.log(stats.norm.sf((cuts[:, None] - m) / spread) @ mass - delta)
    return max(0.0, float(np.nanmax(there - stats.norm.logsf(cuts / spread))))


RATES = (1e-5, 1e-3, 0.1, 1.0)
ROUNDS = (1, 1_000, 1_000_000)
DELTAS = (0.1, 1e-5, 2.0**-40, 2.0**-60, 2.0**-128)
CORNERS = [
    (rate, n_rounds, delta) for rate, n_rounds, delta in product(RATES, ROUNDS, DELTAS)
]  # 60, each with a noise of its own: little, fair and much in turn


def noise_of(which, rate, n_rounds):
    """About the noise of an epsilon of 1,000, 1 and 1e-4, by the central limit.

    Never below .0011: a little less must still lie above the smallest noise allowed, .001."""
    fair = max(0.3, 3 * rate * math.sqrt(n_rounds))
    return (0.0011 if n_rounds == 1 else fair / 20, fair, 1e4 * fair)[which % 3]


def drawn():
    rng = np.random.default_rng(40)
    for _ in range(100):
        rate, n_rounds = 10 ** rng.uniform(-5, 0), int(10 ** rng.uniform(0, 6))
        scale = max(0.3, rate * math.sqrt(n_rounds))
        yield (
            float(max(0.0011, scale * 10 ** rng.uniform(-1.5, 2))),
            float(rate),
            n_rounds,
            float(2.0 ** -rng.uniform(3.4, 128)),
        )


def holds_and_is_monotone(noise, rate, n_rounds, delta):
    settings = dict(delta=delta, sample_rate=rate, n_rounds=n_rounds)
    found = get_epsilon_poisson(noise, **settings)
    assert math.isfinite(found) and found >= 0
    low = max(one_round(noise, delta, rate), attained(noise, delta, rate, n_rounds))
    assert low * (1 - 1e-9) - 1e-12 <= found
    assert found <= every_batch(noise, delta, n_rounds) * (1 + 1e-9) + 1e-12
    assert found <= by_moments(noise, delta, rate, n_rounds) * (1 + 3 * PROMISED)
    wasteful = get_epsilon_poisson(noise * (1 - 3 * PROMISED), **settings)
    assert found <= wasteful
    cheaper = [
        get_epsilon_poisson(noise * 1.3, **settings),
        get_epsilon_poisson(noise, **settings | dict(delta=min(0.5, 2 * delta))),
        get_epsilon_poisson(noise, **settings | dict(sample_rate=rate * 0.8)),
        get_epsilon_poisson(noise, **settings | dict(n_rounds=max(1, int(n_rounds * 0.8)))),
    ]
    assert max(cheaper) <= wasteful


@pytest.mark.slow
@pytest.mark.parametrize("which", range(len(CORNERS)))
def test_sixty_corners(which):
    rate, n_rounds, delta = CORNERS[which]
    holds_and_is_monotone(noise_of(which, rate, n_rounds), rate, n_rounds, delta)


@pytest.mark.slow
@pytest.mark.parametrize("point", list(drawn()))
def test_a_hundred_drawn_points(point):
    holds_and_is_monotone(*point)


@pytest.mark.parametrize("noise, rate", [(1.0, 0.01), (1.584, 9.05e-5), (0.3, 1e-5), (8.0, 0.5)])
@pytest.mark.parametrize("delta", [1e-7, 2.0**-60, 2.0**-128])
def test_the_grid_is_right_for_one_round_at_any_delta(noise, rate, delta):
    pair = SampledGaussian(noise, rate)
    exact = one_round(noise, delta, rate)
    held = privacy_loss.epsilon(pair, "forth", delta=delta, n_rounds=1)
    assert exact * (1 - 1e-9) <= held <= exact * (1 + PROMISED)
    moved = privacy_loss.epsilon(SampledGaussian(noise / 2, rate), "both", delta=delta, n_rounds=1)
    exact = one_round(noise, delta, rate, moved=2)
    assert exact * (1 - 1e-9) <= moved <= exact * (1 + PROMISED)


def two_rounds(epsilon, noise, rate, back):
    """delta of two rounds: the second in closed form, the first by the trapezoidal rule."""
    x = np.linspace(-12 * noise, 1 + 12 * noise, 40_001)
    loss = log_ratio(x, noise, rate)
    law = {
        False: rate * stats.norm.pdf(x, 1, noise) + (1 - rate) * stats.norm.pdf(x, 0, noise),
        True: stats.norm.pdf(x, 0, noise),
    }
    rest = epsilon - loss if not back else -(epsilon + loss)  # L must pass it, or fall below it
    with np.errstate(divide="ignore", invalid="ignore"):
        cut = noise**2 * np.log((np.exp(rest) - 1 + rate) / rate) + 0.5
    cut = np.where(np.exp(rest) <= 1 - rate, -np.inf, cut)
    tail = stats.norm.cdf if back else stats.norm.sf
    there = rate * tail(cut, 1, noise) + (1 - rate) * tail(cut, 0, noise)
    here = tail(cut, 0, noise)
    gained = here - np.exp(-rest) * there if back else there - np.exp(rest) * here
    return float((law[back] * np.maximum(gained, 0)).sum() * (x[1] - x[0]))


def log_delta(epsilon, noise, rate, n_rounds, back):
    """ln delta of many rounds by Fourier inversion, exact up to rounding:

    delta = 1 / (2 pi) int M(z)^T e^(-z epsilon) / (z (z + 1)) dt,  z = tilt + i t,
    M(z) = E e^(z L) by the trapezoidal rule, at the tilt where the integrand is least."""
    x = np.linspace(-45 * noise, 45 * noise + 60, 20_001)
    loss = log_ratio(x, noise, rate)
    law = stats.norm.logpdf(x, scale=noise)
    law, loss = (law, -loss) if back else (law + loss, loss)

    def log_moment(tilt):
        terms = law + tilt * loss
        return terms.max() + math.log(np.exp(terms - terms.max()).sum() * (x[1] - x[0]))

    def height(log_tilt):
        tilt = math.exp(log_tilt)
        return n_rounds * log_moment(tilt) - tilt * epsilon - math.log(tilt * (1 + tilt))

    tilt = math.exp(optimize.minimize_scalar(height, bounds=(-6, 4), method="bounded").x)
    masses = np.exp(law + tilt * loss - log_moment(tilt)) * (x[1] - x[0])
    likely = np.flatnonzero(masses > 1e-25)
    masses, losses = masses[likely], loss[likely]
    mean = masses @ losses
    spread = math.sqrt(n_rounds * (masses @ (losses - mean) ** 2))
    step = math.pi / (40 * spread + 45 / tilt + abs(n_rounds * mean - epsilon))
    t = step * np.arange(1_000)
    sums = np.exp(1j * np.outer(t, losses - mean)) @ masses
    z = tilt + 1j * t
    terms = sums**n_rounds * np.exp(1j * t * (n_rounds * mean - epsilon)) / (z * (z + 1))
    assert abs(terms[-1]) < 1e-10 * abs(terms[0])  # the integral has ended
    whole = (terms.real.sum() - terms[0].real / 2) * step / math.pi
    return n_rounds * log_moment(tilt) - tilt * epsilon + math.log(whole)


@pytest.mark.slow
@pytest.mark.parametrize(
    "noise, rate, n_rounds, delta",
    [(7.3, 0.59, 7_558, 1.8e-10), (5.0, 0.3, 10_000, 1e-3), (1.85, 0.0151, 6_702, 1.2e-3)],
)
@pytest.mark.parametrize("direction", ["forth", "back"])
def test_thousands_of_rounds_are_the_fourier_integral(noise, rate, n_rounds, delta, direction):
    pair = SampledGaussian(noise, rate)
    held = privacy_loss.epsilon(pair, direction, delta=delta, n_rounds=n_rounds)
    at = lambda epsilon: log_delta(epsilon, noise, rate, n_rounds, direction == "back")
    assert at(held) <= math.log(delta) < at(held * (1 - PROMISED))


@pytest.mark.parametrize("noise, rate", [(1.0, 0.2), (2.0, 0.01), (0.7, 0.6)])
@pytest.mark.parametrize("direction", ["forth", "back"])
def test_two_rounds_are_the_integral_in_both_directions(noise, rate, direction):
    delta = 1e-8
    held = privacy_loss.epsilon(SampledGaussian(noise, rate), direction, delta=delta, n_rounds=2)
    at = lambda epsilon: two_rounds(epsilon, noise, rate, direction == "back")
    assert at(held) <= delta * (1 + 1e-6) and at(held * (1 - PROMISED)) > delta


@pytest.mark.parametrize("n_rounds", [1, 50])
def test_nearly_every_batch_is_the_gaussian_at_a_cryptographers_delta(n_rounds):
    for relation, moved in (("add_remove", 1), ("replace_one", 2)):
        exact = every_batch(5.0, 2.0**-128, n_rounds, moved)
        held = get_epsilon_poisson(
            5.0, delta=2.0**-128, sample_rate=1 - 1e-9, n_rounds=n_rounds, neighbouring=relation
        )
        assert exact * (1 - 1e-6) <= held <= exact * (1 + 1e-9)


def test_a_coarser_grid_never_reports_less():
    pair = SampledGaussian(1.0, 0.01)
    settings = dict(delta=1e-6, n_rounds=50)
    fine, coarse, coarsest = (
        privacy_loss.both_ways(pair, accuracy=accuracy, **settings)
        for accuracy in (1e-4, 1e-3, 1e-2)
    )
    assert fine < coarse < coarsest < 1.02 * fine


@pytest.mark.parametrize(
    "noise, epochs, published", [(1.3, 15, 1.19), (1.1, 60, 3.01), (0.7, 45, 7.10)]
)
def test_it_is_below_the_published_values_of_the_tutorials(noise, epochs, published):
    """tensorflow/privacy, tutorials/README.md, "Select Parameters", at commit d435fcb.

    Batches of 256 of 60,000, delta 1e-5. By Renyi moments with the older, looser conversion."""
    rounds = math.ceil(epochs * 60_000 / 256)
    spent = get_epsilon_poisson(noise, delta=1e-5, sample_rate=256 / 60_000, n_rounds=rounds)
    assert attained(noise, 1e-5, 256 / 60_000, rounds) < spent
    assert spent < by_moments(noise, 1e-5, 256 / 60_000, rounds) < published


def test_delta_down_to_a_cryptographers_costs_no_jump():
    """At 1e-15 it was infinite, and the noise for 2^-60 was 32768."""
    deltas = [1e-5, 1e-10, 1e-13, 1e-14, 1e-15, 1e-16, 2.0**-60, 2.0**-80, 2.0**-100, 2.0**-128]
    spent = [get_epsilon_poisson(1.0, delta=at, sample_rate=0.01, n_rounds=100) for at in deltas]
    fixed = [
        get_epsilon_fixed_batches(2.0, delta=at, n_records=1_000, batch_size=10, n_rounds=100)
        for at in deltas
    ]
    for row in (spent, fixed):
        gained = np.diff(row) / np.diff(-np.log(deltas))
        assert (gained > 0).all() and gained.max() < 2 * gained[gained > 0].min() + 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "epsilon, delta, rate, n_rounds, low, high",
    [
        (1.0, 2.0**-60, 0.01, 100, 1.52, 2.12),  # was 32768
        (0.001, 1e-5, 0.01, 1_000, 545, 550),  # was 2371; by the central limit 545.3
        (1e-4, 1e-5, 0.01, 1_000, 2_900, 3_000),
        (1_000.0, 2.0**-128, 0.01, 1_000, 0.1, 0.4),
        (1.0, 0.1, 0.5, 10, 0.5, 2),
        (1.0, 0.1, 1e-5, 1_000_000, 0.31, 0.316),  # took 136 s on a busy machine
    ],
)
def test_the_noise_for_a_budget(epsilon, delta, rate, n_rounds, low, high):
    settings = dict(delta=delta, sample_rate=rate, n_rounds=n_rounds)
    noise = calibrate_noise_multiplier(epsilon, **settings)
    assert low < noise < high
    assert get_epsilon_poisson(noise, **settings) <= epsilon
    assert epsilon < get_epsilon_poisson(noise * 0.999, **settings)


@pytest.mark.slow
def test_the_inverse_over_its_whole_range():
    rng = np.random.default_rng(41)
    for _ in range(12):
        epsilon, rate = 10 ** rng.uniform(-4, 3), 10 ** rng.uniform(-3, 0)
        settings = dict(
            delta=float(2.0 ** -rng.uniform(10, 128)),
            sample_rate=float(rate),
            n_rounds=int(10 ** rng.uniform(1, 4)),
        )
        noise = calibrate_noise_multiplier(epsilon, **settings)
        assert get_epsilon_poisson(noise, **settings) <= epsilon
        assert epsilon < get_epsilon_poisson(noise * 0.999, **settings)


def test_a_budget_that_holds_without_noise_is_refused():
    with pytest.raises(ValueError, match=r"delta must be below 0.00995022, the chance"):
        calibrate_noise_multiplier(1.0, delta=0.01, sample_rate=1e-5, n_rounds=1_000)
    spent = get_epsilon_poisson(1.0, delta=0.01, sample_rate=1e-5, n_rounds=1_000)
    assert spent == 0.0


@pytest.mark.parametrize("noise", [0.05, 0.02, 0.001])
def test_little_noise_is_priced_and_not_below_a_sure_sample(noise):
    """.05 took 89 s and 3.3 GB, .001 was a MemoryError."""
    found = get_epsilon_poisson(noise, delta=1e-5, sample_rate=0.01, n_rounds=100)
    once = one_round(noise, 1e-5, 0.01)
    assert once < found < every_batch(noise, 1e-5, 100)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("batch_size", [1, 100, 1_000])
@pytest.mark.parametrize("n_rounds", [1, 1_000])
def test_fixed_batches_and_replaced_records_lie_between_their_bounds(noise, batch_size, n_rounds):
    delta, rate = 2.0**-60, batch_size / 1_000
    low = one_round(noise, delta, rate, moved=2)
    high = every_batch(noise, delta, n_rounds, moved=2)
    fixed = get_epsilon_fixed_batches(
        noise, delta=delta, n_records=1_000, batch_size=batch_size, n_rounds=n_rounds
    )
    assert low * (1 - 1e-9) <= fixed <= high * (1 + 1e-9)
    settings = dict(delta=delta, sample_rate=rate, n_rounds=n_rounds)
    replaced = get_epsilon_poisson(noise, neighbouring="replace_one", **settings)
    assert get_epsilon_poisson(noise, **settings) <= replaced <= high * (1 + 1e-9)


@pytest.mark.parametrize("rate, bound", [(1.0, "Gaussian"), (0.1, "PLD"), (1e-8, "batches seen")])
def test_which_bound_is_the_least(rate, bound):
    bounds = poisson_bounds(1.0, 1e-6, rate, 10, "add_remove")
    assert smallest(bounds).bound == bound
