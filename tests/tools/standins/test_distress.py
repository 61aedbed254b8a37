"""The stand-in of distress is fitted: what it keeps of a table, and of no row."""

import io

import numpy as np
import pytest
from invented_companies import follows, invented
from scipy import stats

from ppkit.datasets.distress import TARGET, checked_table
from ppkit.datasets.standins import distress as standin
from ppkit.datasets.standins.distress import MACRO
from tools.standins import distress as fitting


@pytest.fixture(scope="module")
def table():
    return checked_table(invented(), "invented.csv").table


@pytest.fixture(scope="module")
def fitted(table):
    return fitting.fit(table, np.random.default_rng(0))


@pytest.fixture(scope="module")
def drawn(fitted):
    return standin.sample(fitted, 10_000, np.random.default_rng(1))


def test_the_rate_is_the_fitted_one(table, drawn):
    assert abs((drawn[TARGET] <= -0.5).mean() - (table[TARGET] <= -0.5).mean()) < 0.006
    by_year = [(one[TARGET] <= -0.5).groupby(one["Time"]).mean() for one in (table, drawn)]
    assert (by_year[0] - by_year[1]).abs().max() < 0.06


def test_the_samples_have_each_year_s_national_means(table, drawn):
    real, ours = (one.groupby("Time")[list(MACRO)].mean() for one in (table, drawn))
    steps = real.diff().abs().mean()
    assert ((real - ours).abs() < 0.2 * steps).all(axis=None)


@pytest.mark.slow
def test_the_place_in_the_file_tells_as_much_about_age_as_in_the_table(table):
    listed = table["x82"] - table["Time"]
    noisy = (
        (-listed + 6 * np.random.default_rng(3).normal(size=331)[table["account"]])
        .groupby(table["account"])
        .transform("first")
    )
    ordered = table.assign(Company=noisy.rank(method="dense").astype(int))
    wanted = stats.spearmanr(ordered["Company"], listed).statistic
    made = standin.sample(
        fitting.fit(ordered, np.random.default_rng(0)), 3_000, np.random.default_rng(1)
    )
    assert (
        wanted < -0.5
        and abs(stats.spearmanr(made["account"], made["x82"] - made["Time"]).statistic - wanted)
        < 0.12
    )


def test_a_company_resembles_itself_the_year_before(table, drawn):
    for one in (table, drawn):
        rank, next_year = one["x1"].rank().to_numpy(), follows(one)
        assert np.corrcoef(rank[1:][next_year], rank[:-1][next_year])[0, 1] > 0.4


@pytest.mark.slow
def test_rows_look_like_those_of_the_table_and_distress_looks_like_distress(table, drawn):
    rank_correlations = [
        one[list(standin.FIRM)].corr("spearman").to_numpy() for one in (table, drawn)
    ]
    assert np.abs(rank_correlations[0] - rank_correlations[1]).max() < 0.15
    for column in (*standin.FIRM, "x80", "x82", "x83", TARGET):
        assert stats.ks_2samp(table[column], drawn[column]).statistic < 0.1, column
    gaps = []
    for one in (table, drawn):
        failed, ranks = one[TARGET] <= -0.5, one[list(standin.FIRM)].rank(pct=True)
        gaps.append(ranks[failed].mean() - ranks[~failed].mean())
    assert np.corrcoef(gaps)[0, 1] > 0.97


def test_the_year_before_distress_looks_half_like_it(table, drawn):
    slopes = []
    for one in (table, drawn):
        failed, ranks = (
            (one[TARGET] <= -0.5).to_numpy(),
            one[list(standin.FIRM)].rank(pct=True).to_numpy(),
        )
        before = np.r_[failed[1:] & follows(one), False]
        far, near = (
            ranks[rows].mean(axis=0) - ranks[~failed].mean(axis=0) for rows in (failed, before)
        )
        slopes.append(near @ far / (far @ far))
    assert 0.3 < slopes[0] < 0.9 and abs(slopes[1] - slopes[0]) < 0.15


@pytest.mark.slow
def test_a_pilot_mends_the_covariance_of_healthy_years_and_the_means_of_both_classes(fitted):
    held = {
        name: value.astype(float if value.dtype.kind == "f" else int)
        for name, value in fitted.items()
    }
    held["steps"] = 0.5 * held["steps"]  # years back lose their spread and their distress
    wanted, means = (
        held["factors"][0] @ held["factors"][0].T,
        np.array([[0.3], [-1.0]]) * np.ones(61),
    )

    def apart(parameters):
        rng = np.random.default_rng(3)
        panel = standin.panel(parameters, standin.draw_lives(held, 40_000, rng), rng)
        white = np.linalg.solve(held["factors"][0], panel.rests[~panel.failed].T)
        return (
            np.linalg.norm(np.cov(white) - np.eye(61)),
            max(
                np.abs(panel.scores[panel.failed == fate].mean(axis=0) - means[int(fate)]).max()
                for fate in (False, True)
            ),
        )

    before = apart(held | {"recolour": np.eye(61), "shifts": np.zeros((2, 61))})
    after = apart(held | fitting._corrected(held, means, wanted, np.random.default_rng(4)))
    assert before[0] > 2.5 and after[0] < 0.8 and before[1] > 0.3 and after[1] < 0.15


def test_parameters_are_few_and_hold_no_value_of_a_row(table, fitted):
    packed = io.BytesIO()
    np.savez_compressed(packed, **fitted)
    assert packed.tell() <= 300_000
    assert {array.dtype.str for array in fitted.values()} <= {"<f4", "<i4"} and all(
        np.isfinite(a).all() for a in fitted.values()
    )
    bins = len(table) // 50
    assert fitted["knots"].shape == (61, bins) and fitted["steps"].shape == fitted[
        "recolour"
    ].shape == (61, 61)
    for column, kept in zip(standin.FIRM, fitted["knots"], strict=True):
        values, counts = np.unique(table[column].to_numpy(np.float32), return_counts=True)
        assert not np.isin(kept, values[counts < 50]).any()
        assert values[0] <= kept.min() and kept.max() < values[-1]
    assert not np.isin(fitted["outcome_knots"], table[TARGET].to_numpy(np.float32)).any()
    listed, counts = np.unique(table["x82"] - table["Time"], return_counts=True)
    alone = fitted["lives_listed"][:, 2] == 0
    assert np.isin(fitted["lives_listed"][alone, 1], listed[counts >= 50]).all() and alone.any()
    for month in (
        table.groupby(["Time", *MACRO])
        .filter(lambda rows: len(rows) < 50)[list(MACRO)]
        .to_numpy(np.float32)
    ):
        assert not np.isin(fitted["lives_macro"], month).any()


@pytest.mark.slow
def test_one_outlier_moves_no_parameter_by_more_than_a_fiftieth_of_it(table, fitted):
    changed = table.copy()
    changed.loc[changed["x9"].idxmax(), "x9"] = 1e6
    other = fitting.fit(changed, np.random.default_rng(0))
    assert (
        np.abs(other["knots"][8, -1]) < 1e6 / 49
        and (other["knots"][8, :-1] == fitted["knots"][8, :-1]).all()
    )
    for name in fitted.keys() - {"knots"}:  # all else sees ranks, and its rank is as it was
        np.testing.assert_array_equal(other[name], fitted[name])


@pytest.mark.slow
def test_the_depth_of_distress_is_a_mean_over_all_distressed_rows(table, fitted):
    changed, lowest = table.copy(), table[TARGET].idxmin()
    changed.loc[lowest, TARGET] -= 100
    n_low = int((table[TARGET] <= -0.5).sum())
    other = fitting.fit(changed, np.random.default_rng(0))
    assert n_low >= 50
    assert other["depth"] - fitted["depth"] == pytest.approx(100 / n_low, rel=1e-3)
    assert fitted["depth"] == pytest.approx(
        -0.5 - table[TARGET][table[TARGET] <= -0.5].mean(), rel=1e-5
    )


def test_a_step_into_distress_is_no_mean_over_fewer_than_fifty_pairs(table):
    low = (table[TARGET] <= -0.5).to_numpy()
    pairs = np.flatnonzero(follows(table) & low[1:]) + 1
    U = np.random.default_rng(2).normal(size=(len(table), 61)) + low[:, None]
    for kept, some in ((len(pairs), True), (50, True), (49, False)):
        marked = low.copy()
        marked[pairs[kept:]] = False
        assert fitting._backwards(U, table, marked)["step_low"].any() == some


def test_industries_of_fewer_than_fifty_rows_are_kept_together(table, fitted):
    rows = np.bincount(table["x80"] - 1, minlength=37)
    small = rows < 50
    assert (
        small.any()
        and (fitted["lives_groups"][small] == 0).all()
        and len(fitted["lives_shares"]) < 37
    )
    per_group = np.bincount(fitted["lives_groups"], rows)
    assert per_group.min() >= 50
    np.testing.assert_allclose(fitted["lives_shares"] * len(table), per_group, rtol=1e-5)


def test_too_few_rows_of_a_year_or_of_distress_are_refused(table):
    for few in (table[table["account"] <= 50], table[table[TARGET] > -0.5]):
        with pytest.raises(ValueError, match=r"50 rows of each year and of distress, got \d+$"):
            fitting.fit(few, np.random.default_rng(0))


def test_years_that_lose_companies_without_distress_are_where_healthy_ones_end():
    counts, none = np.array([300, 300, 200, 200]), np.zeros(4, int)
    np.testing.assert_allclose(fitting._leaves(counts, none, none), [0, 1 / 3, 0, 2 / 3])
    fails = np.array([0, 100, 0, 0])  # the loss is their distress
    np.testing.assert_allclose(fitting._leaves(counts, fails, none), [0, 0, 0, 1])
