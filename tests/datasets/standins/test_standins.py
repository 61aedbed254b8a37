"""Stand-ins: what they keep of real rows, and what they give back."""

import hashlib

import numpy as np
import pandas as pd
import pytest
import standin_tables
from scipy import stats

from ppkit import datasets
from ppkit.datasets import loading, standins
from ppkit.datasets.standins import creditcard as of_creditcard
from ppkit.datasets.standins.distributions import draw_mixture, from_normal
from tools.standins import creditcard as fitting_creditcard
from tools.standins import fitting
from tools.standins.distributions import knots, mixture

NAMES = tuple(standins.SAMPLERS)


@pytest.fixture(autouse=True)
def no_files_by_chance(monkeypatch):
    monkeypatch.setenv("PPKIT_SOURCE", "standin")


# one column


def test_a_knot_is_a_mean_over_at_least_fifty_rows(rng=np.random.default_rng(0)):
    values = rng.standard_t(2, 1_234)
    kept = knots(values)
    assert len(kept) == 24 and np.all(np.diff(kept) > 0)
    ordered = np.sort(values)
    sizes = [len(part) for part in np.array_split(ordered, 24)]
    assert min(sizes) >= 50
    edges = np.linspace(0, 1_234, 25).round().astype(int)
    np.testing.assert_allclose(
        kept, [ordered[a:b].mean() for a, b in zip(edges, edges[1:], strict=False)]
    )
    assert not np.isin(kept, values).any()
    assert (
        len(knots(values, at_most=5)) == 5
        and len(knots(values[:99])) == 1
        and knots(np.array([3.0])) == [3.0]
    )


@pytest.mark.parametrize(
    "law",
    [stats.norm(), stats.t(3), stats.lognorm(1.0), stats.uniform()],
    ids=["normal", "t3", "lognormal", "uniform"],
)
def test_normal_scores_become_values_of_the_column(law):
    values = law.rvs(20_000, random_state=1)
    kept = knots(values)
    drawn = from_normal(np.random.default_rng(2).standard_normal(20_000), kept)
    # two samples of 20,000 from one law exceed .03 with chance 2 exp(-2 * 10,000 * .03^2) = 3e-8;
    # the knots add what they add
    assert stats.ks_2samp(drawn, values).statistic < 0.03
    assert 0.5 < np.abs(drawn).mean() / np.abs(values).mean() < 2


def test_values_rise_with_the_scores_and_a_constant_stays_one():
    values = np.r_[np.zeros(600), np.arange(1, 401)].astype(float)
    drawn = from_normal(np.linspace(-6, 6, 1_001), knots(values))
    assert np.all(np.diff(drawn) >= 0) and drawn[500] == 0 and 400 < drawn[-1] < 1_000
    np.testing.assert_array_equal(from_normal(np.array([-1.0, 2.0]), knots(np.full(200, 7.0))), 7)


# the mixture


def test_a_mixture_finds_two_clouds_and_samples_them():
    rng = np.random.default_rng(3)
    Z = np.vstack([rng.normal(-3, 1, (600, 2)), rng.normal(3, 0.5, (400, 2))])
    fitted = mixture(Z, 2, rng)
    order = np.argsort(fitted["means"][:, 0])
    np.testing.assert_allclose(fitted["weights"][order], [0.6, 0.4], atol=0.02)
    np.testing.assert_allclose(fitted["means"][order], [[-3, -3], [3, 3]], atol=0.2)
    drawn = draw_mixture(fitted, 50_000, rng)
    np.testing.assert_allclose(np.cov(drawn), np.cov(Z.T), rtol=0.05, atol=0.05)


def test_no_component_leans_on_fewer_than_fifty_rows():
    rng = np.random.default_rng(4)
    Z = np.vstack(
        [rng.normal(0, 1, (400, 3)), rng.normal(30, 0.01, (10, 3))]
    )  # ten customers far from all others
    fitted = mixture(Z, 6, rng)
    assert (fitted["weights"] * len(Z)).min() >= 50
    assert np.abs(fitted["means"] - 30).max(axis=1).min() > 5
    assert len(mixture(Z[:60], 6, rng)["weights"]) == 1


# what is shipped


@pytest.mark.parametrize("name", NAMES)
def test_any_number_of_rows_by_seed_in_the_layout_of_the_file(name):
    for rows in (1, 7, 5_000):
        assert datasets.load(name, rows=rows).n_rows == rows
    one, again, other = (datasets.load(name, rows=2_000, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.X, again.X)
    np.testing.assert_array_equal(one.y, again.y)
    assert (one.X != other.X).any()
    assert one.source.startswith("stand-in: 2,000 rows")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_by_default_as_many_rows_as_the_real_file(name):
    assert datasets.load(name).n_rows == loading.REAL[name].FULL_ROWS


@pytest.mark.parametrize("name", NAMES)
def test_the_parameters_are_small_and_finite_and_those_that_were_measured(name):
    content = standins.FOLDER.joinpath(f"{name}.npz").read_bytes()
    assert len(content) <= fitting.LARGEST
    assert hashlib.sha256(content).hexdigest() == standins.measured(name)["parameters"]
    for array in standins.parameters(name).values():
        assert np.isfinite(array).all()


def test_what_cannot_be_shipped_is_not_packed():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="parameters take .* bytes, expected at most 300,000"):
        fitting.packed({"rows": rng.normal(size=100_000)})
    assert fitting.packed({"a": np.arange(3)}) == fitting.packed({"a": np.arange(3)})


# creditcard


@pytest.mark.slow
def test_creditcard_has_the_full_file_s_rate_the_order_of_time_and_cents():
    table = standin_tables.cards(
        standins.parameters("creditcard"), 284_807, np.random.default_rng(5)
    )
    loading.creditcard.checked_table(table[1:], "stand-in")
    with pytest.raises(
        ValueError, match="this is not the published file"
    ):  # nor does a file of it pass for real
        loading.creditcard.checked_table(table, "stand-in")
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
    with pytest.raises(ValueError, match="at least 50 rows with Class 1, got 9"):
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


def test_a_mixture_that_goes_on_from_a_fit_stays_there():
    rng = np.random.default_rng(9)
    Z = np.vstack([rng.normal(-3, 1, (600, 2)), rng.normal(3, 0.5, (400, 2))])
    first = mixture(Z, 2, rng)
    again = mixture(Z, 2, rng, start=first)
    for key, value in first.items():
        np.testing.assert_allclose(again[key], value, atol=0.01)
