"""Mechanisms against the laws they claim: sequential exponential mechanisms, quadrature, and the
noiseless limit."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy import integrate

from ppkit import mechanisms
from ppkit.mechanisms import SELECTIONS

FAILURE = 1e-7


def exponential_mechanisms_in_turn(g, n, scale):
    """Oracle: n exponential mechanisms, each over all signed candidates of the coordinates left;
    exact, by enumeration."""
    law = Counter()
    for order in itertools.permutations(range(len(g)), n):
        for signs in itertools.product((-1, 1), repeat=n):
            probability, left = 1.0, set(range(len(g)))
            for j, sign in zip(order, signs):
                total = sum(math.exp(g[i] / scale) + math.exp(-g[i] / scale) for i in left)
                probability *= math.exp(sign * g[j] / scale) / total
                left.remove(j)
            law[frozenset(zip(order, signs))] += probability
    return law


def laplace_first_of_two(g, scale):
    """Oracle: the law of (index, sign) for d = 2, n = 1 with Laplace noise on the signed values, by
    quadrature."""

    def density(z, at):
        return math.exp(-abs(z - at) / scale) / (2 * scale)

    def mass_within(r, at):
        low, high = (-r - at) / scale, (r - at) / scale
        cdf = [0.5 * math.exp(z) if z < 0 else 1 - 0.5 * math.exp(-z) for z in (low, high)]
        return cdf[1] - cdf[0]

    law = {}
    for j, sign in itertools.product((0, 1), (-1, 1)):
        value, _ = integrate.quad(
            lambda r: density(sign * r, g[j]) * mass_within(r, g[1 - j]),
            0,
            60 * scale,
            points=sorted({abs(v) for v in g}),
            limit=200,
        )
        law[frozenset({(j, sign)})] = value
    return law


def assert_same_law(draw, law, trials):
    """Total variation of `trials` draws from `law`; the limit fails with chance <= FAILURE
    (McDiarmid's inequality)."""
    assert sum(law.values()) == pytest.approx(1, abs=1e-7)
    seen = Counter(draw() for _ in range(trials))
    assert set(seen) <= set(law)
    distance = 0.5 * sum(abs(seen[event] / trials - p) for event, p in law.items())
    expected = 0.5 * sum(math.sqrt(p * (1 - p) / trials) for p in law.values())
    slack = math.sqrt(math.log(1 / FAILURE) / (2 * trials))
    assert math.exp(-2 * trials * slack**2) <= 1.01 * FAILURE < 1e-6
    assert distance < expected + slack


def drawn(name, g, n, scale, rng):
    indices, signs = SELECTIONS[name](g, n, scale=scale, rng=rng)
    return frozenset(zip(indices.tolist(), signs.tolist()))


@pytest.mark.slow
@pytest.mark.parametrize(
    "g, n, scale",
    [([0.9, -0.4, 0.1], 2, 0.8), ([1.0, -2.0, 0.5, 0.0], 1, 2.0), ([0.7, -0.2], 2, 0.5)],
)
def test_gumbel_has_the_law_of_exponential_mechanisms_in_turn(g, n, scale):
    rng = np.random.default_rng(1)
    assert_same_law(
        lambda: drawn("gumbel", g, n, scale, rng),
        exponential_mechanisms_in_turn(g, n, scale),
        40_000,
    )


@pytest.mark.slow
def test_laplace_selection_has_the_law_found_by_quadrature():
    rng = np.random.default_rng(2)
    g = [0.8, -0.5]
    assert_same_law(lambda: drawn("laplace", g, 1, 0.7, rng), laplace_first_of_two(g, 0.7), 40_000)


@pytest.mark.parametrize("shape", [(), (3, 5), (100_000,)])
def test_laplace_noise_is_that_of_numpys_generator(shape):
    ours, numpys = np.random.default_rng(8), np.random.default_rng(8)
    values = np.full(shape, 2.0)
    noisy = mechanisms.laplace(values, scale=0.5, rng=ours)
    assert noisy.shape == shape
    np.testing.assert_allclose(noisy, values + numpys.laplace(scale=0.5, size=shape), rtol=1e-13)
    assert ours.random() == numpys.random()


def test_laplace_noise_is_finite_where_the_draw_is_0():
    class Zero:
        def random(self, size):
            return np.zeros(size)

    assert mechanisms.laplace(np.zeros(2), scale=1.0, rng=Zero()) == pytest.approx(
        [-53 * math.log(2)] * 2
    )


@pytest.mark.parametrize("name", ["gumbel", "laplace", "laplace_true_sign"])
@pytest.mark.parametrize("n", [1, 7, 40])
def test_without_noise_the_largest_coordinates_leave_with_their_sign(name, n):
    g = np.random.default_rng(3).normal(size=40)
    g[5] = 0.0
    indices, signs = SELECTIONS[name](g, n, scale=0.0, rng=np.random.default_rng(4))
    np.testing.assert_array_equal(indices, np.sort(np.argsort(-np.abs(g))[:n]))
    np.testing.assert_array_equal(signs, np.sign(g[indices]))
    assert signs.dtype == np.int8


@pytest.mark.parametrize("name", ["gumbel", "laplace", "laplace_true_sign"])
def test_noise_far_below_the_gaps_changes_nothing(name):
    g = np.arange(1, 31) * np.where(np.arange(30) % 2, 1.0, -1.0)
    indices, signs = SELECTIONS[name](g, 10, scale=1e-3, rng=np.random.default_rng(5))
    np.testing.assert_array_equal(indices, np.arange(20, 30))  # fails with chance < 30 exp(-500)
    np.testing.assert_array_equal(signs, np.sign(g[20:]))


def test_signed_values_sends_the_largest_values_not_the_largest_sizes():
    indices, signs = mechanisms.laplace_signed_values(
        [3.0, -9.0, 1.0, 2.0], 2, scale=0.0, rng=np.random.default_rng(6)
    )
    assert indices.tolist() == [0, 3] and signs.tolist() == [1, 1]


def test_true_sign_is_kept_under_any_noise_and_noisy_signs_are_not():
    g = np.random.default_rng(7).normal(size=2_000)
    rng = np.random.default_rng(8)
    indices, signs = mechanisms.laplace_true_sign(g, 500, scale=1e6, rng=rng)
    np.testing.assert_array_equal(signs, np.sign(g[indices]))
    for name in ("gumbel", "laplace"):
        indices, signs = SELECTIONS[name](g, 500, scale=1e6, rng=rng)
        agree = int((signs == np.sign(g[indices])).sum())
        assert 2 * math.exp(-2 * 120**2 / 500) < 1e-6  # Hoeffding, fair signs
        assert abs(agree - 250) < 121


def test_the_scale_of_the_gradient_cancels():
    g = np.random.default_rng(9).normal(size=200)
    for name, select in SELECTIONS.items():
        summed = select(g * 1166, 20, scale=0.3 * 1166, rng=np.random.default_rng(10))
        mean = select(g, 20, scale=0.3, rng=np.random.default_rng(10))
        np.testing.assert_array_equal(summed[0], mean[0], err_msg=name)
        np.testing.assert_array_equal(summed[1], mean[1], err_msg=name)


def test_huge_ratios_do_not_overflow():
    indices, signs = mechanisms.gumbel_top_n(
        [1e300, -1e300, 1.0, 0.0], 2, scale=1e-300, rng=np.random.default_rng(11)
    )
    assert indices.tolist() == [0, 1] and signs.tolist() == [1, -1]


@pytest.mark.parametrize(
    "noise, cdf",
    [
        (
            mechanisms.laplace,
            lambda z: np.where(z < 0, 0.5 * np.exp(-np.abs(z)), 1 - 0.5 * np.exp(-np.abs(z))),
        ),
        (mechanisms.gaussian, lambda z: np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in z])),
    ],
)
def test_noise_has_its_distribution(noise, cdf):
    size = 20_000
    z = np.sort((noise(np.full(size, 3.0), scale=2.0, rng=np.random.default_rng(12)) - 3.0) / 2.0)
    bound = math.sqrt(math.log(2 / FAILURE) / (2 * size))  # Dvoretzky-Kiefer-Wolfowitz
    assert np.abs(np.arange(1, size + 1) / size - cdf(z)).max() < bound + 1 / size
    np.testing.assert_array_equal(
        noise([[1.0, 2.0]], scale=0.0, rng=np.random.default_rng(0)), [[1.0, 2.0]]
    )


@pytest.mark.parametrize("name", SELECTIONS)
@pytest.mark.parametrize(
    "g, n, scale, message",
    [
        (
            [1.0, np.nan],
            1,
            1.0,
            "values must be finite, got 1 of 2 values that are NaN or infinite",
        ),
        ([1.0, 2.0], 3, 1.0, "n a whole number from 1 to its length, .* n = 3"),
        ([1.0, 2.0], 0, 1.0, "n must be a whole number >= 1, got 0"),
        ([1.0, 2.0], 1.5, 1.0, "n must be a whole number >= 1, got 1.5"),
        ([1.0, 2.0], 1, -0.5, "scale must be a finite number >= 0, got -0.5"),
        ([1.0, 2.0], 1, float("nan"), "scale must be .*got nan"),
        ([[1.0, 2.0]], 1, 1.0, r"g must be a vector .*got shape \(1, 2\)"),
    ],
)
def test_bad_input_is_named(name, g, n, scale, message):
    with pytest.raises(ValueError, match=message):
        SELECTIONS[name](g, n, scale=scale, rng=np.random.default_rng(0))
