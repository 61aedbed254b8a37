"""The stand-in of creditcard: the file's rate, order and drift."""

import numpy as np
import pytest
import standin_tables

from ppkit.datasets import creditcard, standins
from ppkit.datasets.standins import creditcard as of_creditcard


@pytest.mark.slow
def test_creditcard_has_the_full_file_s_rate_the_order_of_time_and_cents():
    table = standin_tables.cards(
        standins.parameters("creditcard"), 284_807, np.random.default_rng(5)
    )
    creditcard.checked_table(table[1:], "stand-in")
    with pytest.raises(
        ValueError, match="this is not the published file"
    ):  # nor does a file of it pass for real
        creditcard.checked_table(table, "stand-in")
    assert int(table["Class"].sum()) == 492
    assert table["Time"].is_monotonic_increasing and (table["Time"] == table["Time"].round()).all()
    np.testing.assert_allclose(table["Amount"] * 100, (table["Amount"] * 100).round(), atol=1e-6)
    assert table["Amount"].max() <= of_creditcard.LARGEST_AMOUNT


@pytest.mark.slow
def test_creditcard_keeps_day_and_night_and_the_drift_of_its_columns():
    table = standin_tables.cards(
        standins.parameters("creditcard"), 100_000, np.random.default_rng(6)
    )
    assert table["Time"].between(0, 172_799).all()  # 16 blocks of three hours
    hour = table["Time"] // 3_600 % 24
    night, day = table[hour < 6], table[hour >= 8]
    assert len(night) / 6 < 0.5 * len(day) / 16
    assert (
        night["Class"].mean() > 1.5 * day["Class"].mean()
        and night["Amount"].mean() < 0.85 * day["Amount"].mean()
    )
    assert (
        table["V3"][table["Time"] < 86_400].mean() > 1 + table["V3"][table["Time"] >= 86_400].mean()
    )
