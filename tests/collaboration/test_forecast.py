"""The calibrated forecast: laws with a known answer, a brute-force fit, limits."""

import math

import numpy as np
import pytest

from ppkit.collaboration.forecast import Forecast, fit, r_squared, spread
from ppkit.verdicts.rules import fitted_slope

N_RECORDS = np.array([[n] * 3 for n in (1000, 3000, 10_000, 30_000)] * 2)
EPSILONS = np.array([[0.5, 1.0, 2.0]] * 4 + [[10.0, 5.0, np.inf]] * 4)


def test_spread_by_hand_and_its_limits():
    assert spread([1000, 2000], [0.5, 2.0]) == pytest.approx(math.sqrt(4 + 0.25) / 3000, rel=1e-14)
    assert spread([5], [np.inf]) == 0.0
    np.testing.assert_allclose(
        spread([1000, 2000], [[0.5, 2.0], [1.0, 1.0]]),
        [math.sqrt(4.25) / 3000, math.sqrt(2) / 3000],
    )
    first = spread(
        [1000, 1000, 4000], [0.1, 0.1, 0.3]
    )  # the paper's formula for Fig. 6: 1/(2000 + n1) sqrt(200 + 1/eps1^2)
    assert first == pytest.approx(math.sqrt(200 + 1 / 0.09) / 6000, rel=1e-12)


@pytest.mark.parametrize("exponent", [1.0, 2.0])
@pytest.mark.parametrize("floor", [0.0, 0.02])
def test_a_law_is_found_again(exponent, floor):
    truth = Forecast(4e5, exponent, floor)
    psi = truth.psi(N_RECORDS, EPSILONS)
    found = fit(psi, N_RECORDS, EPSILONS, exponent=exponent, floor=floor)
    np.testing.assert_allclose(found.psi(N_RECORDS, EPSILONS), psi, rtol=1e-5)
    assert r_squared(truth, psi, N_RECORDS, EPSILONS) == 1.0
    budgets = [[1.0], [2.0]]  # one size for all settings
    found = fit(truth.psi([900], budgets), [900], budgets, exponent=exponent, floor=floor)
    assert found.constant == pytest.approx(4e5)


def test_r_squared_against_its_definition_and_below_zero():
    psi, forecast = np.array([0.5, 0.02, 0.1]), Forecast(100.0)
    n, budgets = [[10], [100], [50]], [[1.0], [0.5], [1.0]]
    errors = np.log(psi) - np.log([1.0, 100 / 50**2, 100 / 2500])
    expected = 1 - (errors**2).sum() / ((np.log(psi) - np.log(psi).mean()) ** 2).sum()
    assert r_squared(forecast, psi, n, budgets) == pytest.approx(expected)
    assert r_squared(Forecast(1e6), psi, n, budgets) < 0


def test_the_slope_halves_at_the_bend():
    forecast, n = Forecast(3e5, 2.0, 0.02), [1000, 2000, 500]
    at = forecast.bend(n)
    up, down = (math.log(forecast.psi(n, [at * math.exp(h)] * 3)) for h in (1e-4, -1e-4))
    assert forecast.psi(n, [at] * 3) == pytest.approx(0.04)
    assert (up - down) / 2e-4 == pytest.approx(-1.0, rel=1e-6)
    once = Forecast(3e2, 1.0, 0.02)
    assert once.psi(n, [once.bend(n)] * 3) == pytest.approx(0.04)
    assert Forecast(3.0).bend(n) == math.inf


def test_the_floor_bends_the_line_and_widens_its_interval():
    x = np.geomspace(0.1, 100, 7)
    straight = fitted_slope(x, Forecast(3e5).psi([1000] * 3, x[:, None] * np.ones(3)))
    bent = fitted_slope(x, Forecast(3e5, floor=0.02).psi([1000] * 3, x[:, None] * np.ones(3)))
    assert straight == pytest.approx((-2, -2, -2)) and bent[0] > -1.6 and bent[2] - bent[1] > 0.3


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: spread([1000], [1.0, 1.0]), r"one entry per owner, got shapes \(1,\) and \(2,\)"),
        (
            lambda: spread([1000, 0], [1.0, 1.0]),
            r"n_records must be numbers >= 1, got \[1000.0, 0.0\]",
        ),
        (lambda: spread([1000, 10], [1.0, -2.0]), "epsilons must be > 0, got .*-2.0"),
        (lambda: spread([1000, 10], [1.0, np.nan]), "epsilons must be > 0, got .*nan"),
        (lambda: fit([0.1, 0.0], [[10], [20]], [1.0]), "below every psi"),
        (lambda: fit([0.1], [10], [np.inf]), "every setting needs noise"),
        (
            lambda: r_squared(Forecast(300.0), [0.03, 0.0003], [[100], [1000]], [np.inf]),
            "every setting needs noise",
        ),
        (
            lambda: fit([0.1, 0.2], [[10], [20]], [1.0], floor=0.15),
            "floor must be .*got 0.15 and psi from 0.1",
        ),
        (
            lambda: r_squared(Forecast(1.0), [0.1, 0.2], [[10], [20], [30]], [1.0]),
            r"one number for each setting, got shape \(2,\) for settings of shape \(3,\)",
        ),
        (
            lambda: r_squared(Forecast(1.0), [0.1, 0.2, 0.3], [[10], [20]], [1.0]),
            r"one number for each setting, got shape \(3,\) for settings of shape \(2,\)",
        ),
        (lambda: fit([0.1, 0.2], [10], [1.0]), r"shape \(2,\) for settings of shape \(1,\)"),
        (lambda: fit([], [10], [1.0]), r"shape \(0,\) for settings of shape \(1,\)"),
        (lambda: fit(["low"], [10], [1.0]), "psi must be numbers"),
        (lambda: r_squared(Forecast(1.0), [0.1], [10], [1.0]), "not all equal, got 0.1 to 0.1"),
        (
            lambda: r_squared(Forecast(1.0), [0.0, 0.1], [[10], [20]], [1.0]),
            "psi must be two numbers > 0 or more",
        ),
        (lambda: Forecast(-1.0), "constant must be a finite number > 0, got -1.0"),
        (lambda: Forecast(1.0, floor=-1.0), "floor must be a finite number >= 0, got -1.0"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
