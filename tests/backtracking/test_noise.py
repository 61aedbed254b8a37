"""The law of a ratio of normal variables, against quadrature, simulation and limits known by
hand."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate
from scipy.stats import cauchy, norm

from ppkit.backtracking.analytic import reconstruct, shared_gradient
from ppkit.backtracking.noise import error_cdf, ratio_cdf, rounds_until
from ppkit.models import mlp

FAILURE = 1e-7


def law(mean_top=0.0, sd_top=1.0, mean_bottom=0.0, sd_bottom=1.0):
    return {
        "mean_top": mean_top,
        "sd_top": sd_top,
        "mean_bottom": mean_bottom,
        "sd_bottom": sd_bottom,
    }


def cdf_by_quadrature(t, *, mean_top, sd_top, mean_bottom, sd_bottom):
    """Oracle: integrate P(T <= t b) over b > 0 and P(T >= t b) over b < 0."""

    def inside(b):
        side = norm.cdf if b > 0 else norm.sf
        return norm.pdf(b, mean_bottom, sd_bottom) * side((t * b - mean_top) / sd_top)

    low, high = mean_bottom - 12 * sd_bottom, mean_bottom + 12 * sd_bottom
    corners = [0.0, mean_bottom] + ([mean_top / t] if t else [])
    ends = sorted({low, high, *(c for c in corners if low < c < high)})
    return sum(
        integrate.quad(inside, a, b, epsabs=1e-13, epsrel=1e-11, limit=400)[0]
        for a, b in zip(ends, ends[1:])
    )


def assert_law(draws, cdf):
    """The empirical distribution function is off by more than the slack with chance <= FAILURE
    (DKW, Massart's constant)."""
    draws = np.sort(draws)
    slack = math.sqrt(math.log(2 / FAILURE) / (2 * len(draws)))
    assert 2 * math.exp(-2 * len(draws) * slack**2) <= 1.01 * FAILURE < 1e-6
    at = np.linspace(0, len(draws) - 1, 400).astype(int)
    assert np.abs((at + 1) / len(draws) - cdf(draws[at])).max() < slack + 1 / len(draws)


@pytest.mark.slow
def test_ratio_cdf_equals_quadrature():
    rng = np.random.default_rng(0)
    for case in range(45):
        t, top, bottom = rng.standard_normal(3) * 10 ** rng.uniform(-2, 1, 3)
        t, top, bottom = (0.0 if case % k == 0 else v for k, v in ((7, t), (10, top), (15, bottom)))
        given = law(top, 10 ** rng.uniform(-1, 1), bottom, 10 ** rng.uniform(-1, 1))
        assert ratio_cdf(t, **given) == pytest.approx(cdf_by_quadrature(t, **given), abs=1e-10)


@pytest.mark.parametrize(
    "given", [law(), law(1.0, 0.5, 2.0, 0.3), law(-3.0, 1.0, 0.2, 1.0), law(0.5, 2.0, -1.0, 0.5)]
)
def test_ratio_cdf_is_what_draws_do(given):
    rng = np.random.default_rng(1)
    top = rng.normal(given["mean_top"], given["sd_top"], 200_000)
    bottom = rng.normal(given["mean_bottom"], given["sd_bottom"], 200_000)
    assert_law(top / bottom, lambda t: ratio_cdf(t, **given))


def test_limits_known_by_hand():
    t = np.linspace(-50, 50, 101)
    np.testing.assert_allclose(ratio_cdf(t, **law(0, 2.0, 0, 0.5)), cauchy.cdf(t / 4), atol=1e-14)
    np.testing.assert_allclose(
        ratio_cdf(t, **law(3.0, 2.0, 1.0, 1e-9)), norm.cdf(t, 3, 2), atol=1e-7
    )
    given = law(1.3, 0.7, -0.4, 0.9)
    turned = law(-1.3, 0.7, 0.4, 0.9)
    np.testing.assert_allclose(
        ratio_cdf(t, **given), ratio_cdf(t, **turned), atol=1e-14
    )  # signs of both cancel
    mirror = law(-1.3, 0.7, -0.4, 0.9)
    np.testing.assert_allclose(ratio_cdf(t, **given), 1 - ratio_cdf(-t, **mirror), atol=1e-14)
    assert (np.diff(ratio_cdf(np.linspace(-9, 9, 2001), **given)) >= -1e-15).all()


def test_there_is_no_mean():
    """M P(|A| > M) goes to 2 f_B(0) E|T| > 0, so the integral of P(|A| > M) over M, which is E|A|,
    diverges."""
    given = law(1.0, 0.5, 1.0, 0.5)
    expected = (
        2
        * norm.pdf(0, 1.0, 0.5)
        * integrate.quad(lambda v: abs(v) * norm.pdf(v, 1.0, 0.5), -5, 7)[0]
    )
    for M in (
        1e3,
        1e5,
        1e7,
    ):  # what is left after the limit falls like 1 / M; rounding of a chance grows like M
        assert M * (1 - ratio_cdf(M, **given) + ratio_cdf(-M, **given)) == pytest.approx(
            expected, rel=3 / M + 1e-15 * M
        )
    assert expected > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("noise_scale", [0.003, 0.1, 2.0])
@pytest.mark.parametrize("n_rounds", [1, 4])
def test_the_attackers_error_has_the_law_that_is_claimed(noise_scale, n_rounds):
    """End to end: logistic regression on one record, noise on every shared gradient, averaged,
    reconstructed."""
    generator = torch.Generator().manual_seed(3)
    x = torch.tensor([[1.7, -0.4]], dtype=torch.float64)
    dW, db = (
        g.numpy()
        for g in shared_gradient(
            mlp((2, 1), rng=generator, dtype=torch.float64), x, torch.tensor([1])
        )
    )
    rng = np.random.default_rng(4)
    errors = []
    for _ in range(4000):
        noise = noise_scale * rng.standard_normal((n_rounds, 3))
        seen = np.append(dW[0], db) + noise.mean(axis=0)
        errors.append(np.abs(reconstruct(seen[None, :2], seen[2:]).row - x[0].numpy()))
    for feature, value in enumerate((1.7, -0.4)):
        given = {
            "value": value,
            "bias_grad": db[0],
            "noise_scale": noise_scale,
            "n_rounds": n_rounds,
        }
        assert_law(np.array(errors)[:, feature], lambda e: error_cdf(e, **given))


def test_many_neurons_added_up_by_their_proportions_are_one_neuron_of_their_length():
    rng = np.random.default_rng(5)
    delta = 0.1 * rng.standard_normal(16)
    length = np.linalg.norm(delta)
    top = (delta / length) @ (1.5 * delta[:, None] + 0.05 * rng.standard_normal((16, 100_000)))
    bottom = (delta / length) @ (delta[:, None] + 0.05 * rng.standard_normal((16, 100_000)))
    assert_law(
        np.abs(top / bottom - 1.5),
        lambda e: error_cdf(e, value=1.5, bias_grad=length, noise_scale=0.05),
    )


def test_averaging_undoes_noise_at_one_over_the_square_root():
    given = {"value": 0.8, "bias_grad": 0.4, "noise_scale": 0.02}
    for p in (0.5, 0.9):
        normal = norm.ppf((1 + p) / 2) * math.hypot(1, 0.8) * 0.02 / 0.4
        assert error_cdf(normal, **given) == pytest.approx(p, abs=0.01)
        assert error_cdf(normal / 10, **given, n_rounds=100) == pytest.approx(p, abs=1e-3)
    assert error_cdf(0.1, **given, n_rounds=4) == error_cdf(0.1, **{**given, "noise_scale": 0.01})


def test_with_much_noise_the_error_levels_off_where_a_cauchy_variable_does():
    for value in (0.0, 1.0, -7.0):
        far = math.sqrt(1 + value**2)  # atan(a + e) - atan(a - e) = pi / 2
        half = error_cdf(far, value=value, bias_grad=1e-3, noise_scale=1e4)
        assert half == pytest.approx(0.5, abs=1e-6)


def test_more_noise_is_not_always_more_error():
    """The attacker forgets the sign of db, and all else with it."""
    law = {"value": -2.0, "bias_grad": -0.3}
    assert error_cdf(0.0, **law, noise_scale=1.0) == 0
    errors = np.array([5.0, 10.0, 20.0])
    less, more = (error_cdf(errors, **law, noise_scale=s) for s in (1.0, 10.0))
    assert (more > less).all()


@pytest.mark.parametrize("error, p", [(0.1, 0.9), (0.5, 0.5), (20.0, 0.5)])
def test_rounds_until_is_the_least_number(error, p):
    given = {"value": 1.0, "bias_grad": 0.3, "noise_scale": 1.1}
    rounds = rounds_until(error, p=p, **given)
    assert error_cdf(error, n_rounds=rounds, **given) >= p
    assert rounds == 1 or error_cdf(error, n_rounds=rounds - 1, **given) < p
    assert (rounds == 1) == (error == 20)


def test_bad_input_is_named():
    for settings, message in (
        ({"sd_top": 0.0}, r"sd_top must be finite and at least 1e-300, got 0.0"),
        ({"sd_bottom": -1.0}, r"sd_bottom must be finite and at least 1e-300, got -1.0"),
        ({"mean_top": math.inf}, r"mean_top must be finite, got 1 of 1"),
        ({"mean_bottom": math.nan}, r"mean_bottom must be finite, got 1 of 1"),
    ):
        with pytest.raises(ValueError, match=message):
            ratio_cdf(0.0, **{**law(), **settings})
    given = {"value": 1.0, "bias_grad": 1.0, "noise_scale": 1.0}
    for p in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match=r"p must be in \(0, 1\)"):
            rounds_until(0.1, p=p, **given)
    with pytest.raises(ValueError, match="error must be a finite number >= 0, got -1.0"):
        error_cdf(-1.0, **given)
    with pytest.raises(ValueError, match="n_rounds must be a whole number >= 1, got 0"):
        error_cdf(0.5, **given, n_rounds=0)
    with pytest.raises(ValueError, match="noise_scale must be finite and at least 1e-300, got 0.0"):
        error_cdf(0.5, **{**given, "noise_scale": 0.0})
    with pytest.raises(ValueError, match="bias_grad must not be 0"):
        rounds_until(0.1, p=0.5, value=1.0, bias_grad=0, noise_scale=1.0)
