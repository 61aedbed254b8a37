"""The exponent of a power law: the textbook's, the same in the ledger's rule, and wider where more
confidence is asked."""

import numpy as np
import pytest
from scipy import integrate

from ppkit.rules import Evidence
from ppkit.rules import slope as ledger_slope
from ppkit.slopes import fitted


def test_it_is_the_ledgers():
    rng = np.random.default_rng(2)
    x = np.array([0.1, 0.3, 1.0, 3.0, 10.0])
    runs = 0.5 * x[:, None] ** -1.7 * rng.gamma(3, 1 / 3, size=(5, 40))
    value, low, high = fitted(x, runs)
    rule = ledger_slope(Evidence(dict(zip(x, runs)), options={"at": -2, "abs": 0.1}))
    u, v = np.log(x) - np.log(x).mean(), np.log(runs.mean(axis=1))
    by_hand = (u @ v) / (u @ u)
    error = np.sqrt(((v - v.mean() - by_hand * u) ** 2).sum() / 3 / (u @ u))
    reach = (high - value) / error  # Student's density with 3 degrees of freedom, integrated
    inside = integrate.quad(
        lambda t: 2 / (np.pi * np.sqrt(3) * (1 + t**2 / 3) ** 2), -reach, reach
    )[0]
    assert value == pytest.approx(by_hand, rel=1e-9) and inside == pytest.approx(0.95, abs=1e-9)
    assert high - value == pytest.approx(value - low)
    assert value == rule.value and rule.why == f"95% interval {low:.2f} to {high:.2f}"
    assert fitted(x, runs.mean(axis=1)) == (value, low, high)
    wide = fitted(x, runs, confidence=0.99)
    assert wide[0] == value and wide[1] < low < high < wide[2]


def test_a_flat_line_has_slope_0():
    assert fitted([1, 2, 4], [3.0, 3.0, 3.0]) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: fitted([1, 2], [1, 2]), "three points or more"),
        (lambda: fitted([1, 2, 3], [1, 2]), r"\(3,\) and \(2,\)"),
        (lambda: fitted([1, 2, -3], [1, 2, 3]), "must be > 0, got points"),
        (lambda: fitted([1, 2, np.inf], [1, 2, 3]), "must be > 0, got points"),
        (lambda: fitted([1, 2, 3], [1, 2, 3], confidence=95), "confidence must be in .*got 95"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
