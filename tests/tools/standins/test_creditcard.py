"""The attack on creditcard's parameters."""

import numpy as np
import pytest

from tools.standins.creditcard import attack


@pytest.mark.parametrize(("leaks", "low", "high"), [(3.0, 0.5, 1.0), (0.0, 0.0, 0.03)])
def test_the_attack_names_members_where_their_density_tells_and_none_where_it_does_not(
    leaks, low, high
):
    """Without a leak at most 3% of 200 rows of 64 fits are named: 6,400 guesses of members at a
    threshold that 1% of as many others pass, so that .02 more has chance below 1e-9."""
    noise = np.random.default_rng(5)

    def fit(half, rng):
        return np.isin(np.arange(200), half)

    def log_density(inside, rows):
        return leaks * inside[rows] + noise.normal(size=len(rows)) + rows / 20

    [row] = attack(fit, log_density, 200, {"rows": np.arange(200)}, 0)
    assert row["rows"] == 200 and row["chance"] == 0.01
    assert low <= row["caught"] <= high and row["low"] < row["caught"] < row["high"]
