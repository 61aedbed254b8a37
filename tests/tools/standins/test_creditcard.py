"""The stand-in of creditcard is fitted, and its parameters are attacked."""

import numpy as np
import pandas as pd
import pytest
import standin_tables
from scipy import stats

from ppkit.datasets.standins import creditcard as of_creditcard
from tools.standins import creditcard as fitting_creditcard
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


def invented(rng):
    """Heavy tails that come together, an amount in a straight line of V, V12 and the amount higher
    in every second block of three hours; a fortieth are frauds far off in V1 to V3, another
    fortieth hide."""
    n = 6_000
    label = (np.arange(n) % 20 == 0).astype(int)
    V = rng.normal(size=(n, 28)) * np.where(rng.random(n) < 0.2, 3.0, 1.0)[:, None]
    V[:, 1] = 0.8 * V[:, 0] + 0.6 * V[:, 1]
    V[np.arange(n) % 40 == 0, :3] += 12.0
    made = pd.DataFrame(V, columns=[f"V{i}" for i in range(1, 29)])
    made.insert(0, "Time", np.sort(rng.integers(0, 172_800, n)).astype(float))
    odd = made["Time"] // 10_800 % 2
    made["V12"] += 2 * odd
    V[:, 8] += odd
    made["Amount"] = (60 + 10 * V[:, 8] - 12 * V[:, 9] + rng.normal(size=n)).clip(0).round(2)
    made.loc[(label == 1) & (rng.random(n) < 0.3), "Amount"] = 1.0
    return made.assign(Class=label)


@pytest.mark.slow
def test_fit_and_sample_on_invented_rows_keep_what_there_is():
    rng = np.random.default_rng(7)
    made = invented(rng)
    fitted = fitting_creditcard.fit(made, rng)
    drawn = standin_tables.cards(fitted, 200_000, rng)
    genuine, real = (table[table["Class"] == 0] for table in (drawn, made))
    # two samples of 5,700 and 199,654 from one law exceed .05 with chance below 2 exp(-2 * 5,541 *
    # .05^2) = 2e-12
    for column in of_creditcard.FEATURES:
        assert stats.ks_2samp(genuine[column], real[column]).statistic < 0.05, column
    for of in (np.asarray, np.square):  # extremes come together
        pair = [np.corrcoef(of(one["V1"]), of(one["V2"]))[0, 1] for one in (genuine, real)]
        assert pair[0] == pytest.approx(pair[1], abs=0.1)
    told = [
        np.linalg.lstsq(np.c_[np.ones(len(one)), one.iloc[:, 1:29]], one["Amount"])[1][0]
        / len(one)
        / one["Amount"].var()
        for one in (genuine, real)
    ]
    assert told == pytest.approx([told[1]] * 2, abs=0.05) and told[1] < 0.1
    for column, up in (("V12", 2), ("Amount", 10)):  # the drift over blocks
        of_block = [
            one[column].groupby(one["Time"] // 10_800 % 2).mean().diff()[1]
            for one in (genuine, real)
        ]
        assert of_block == pytest.approx([up, up], abs=up / 4), column
    few = made[(made["Time"] >= 10_800) | (np.arange(6_000) % 10 == 1)]
    assert ((few["Time"] < 10_800) & (few["Class"] == 0)).sum() < 50
    drift = fitting_creditcard.fit(few, rng)["drift_0"]
    assert not drift[0].any() and drift[1:].all()  # no mean over fewer than 50 rows
    for label in (0, 1):
        rows = (made["Class"] == label).sum()
        assert (fitted[f"weights_{label}"] * rows >= 49.99).all()
    with pytest.raises(ValueError, match="means over 50 rows or more, got 9"):
        fitting_creditcard.fit(made.assign(Class=[1] * 9 + [0] * 5_991), rng)
    # frauds: some hide, some cry out, and as many are of exactly 1.00; of 345 a share of one half
    # has a binomial spread of .027, so .15 off has chance below 1e-7
    frauds, theirs = (table[table["Class"] == 1] for table in (drawn, made))
    assert len(frauds) == 345
    assert abs((frauds["V1"] > 6).mean() - 0.5) < 0.15
    ones = [(one["Amount"] == 1).mean() for one in (frauds, theirs)]
    assert abs(ones[0] - ones[1]) < 0.13 and ones[1] > 0.2


def test_rows_are_their_axes_and_back():
    """The axes in the wrong order or a sign turned would not give the rows again."""
    rng = np.random.default_rng(8)
    rows = invented(rng)[list(of_creditcard.FEATURES)].to_numpy()
    kept = fitting_creditcard._straight(rows)
    axes = of_creditcard.apart(rows, kept)
    np.testing.assert_allclose(of_creditcard.together(axes, kept), rows, atol=1e-9)
    np.testing.assert_array_equal(axes[:, -2:], rows[:, [-1, 0]])
    # what is left of V says nothing of the amount, and has no part along b
    assert np.abs(axes[:, :28] @ kept["b"]).max() < 1e-9 * np.abs(rows).max()
    assert np.abs(np.corrcoef(axes[:, :28].T, rows[:, -1])[-1, :-1]).max() < 1e-9
