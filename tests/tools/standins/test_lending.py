"""The stand-in of lending is fitted: what it keeps of a table, and of no row."""

import numpy as np
import pandas as pd
import pytest
import standin_tables
from invented_loans import as_openintro, invented
from scipy import stats

from ppkit.datasets.lending import COLUMNS, checked_table
from ppkit.datasets.standins import lending as standin
from tools.standins import lending as fitting


@pytest.fixture(scope="module")
def table():
    """3,000 invented loans, checked, whose rate and amount rise over the file."""
    return checked_table(as_openintro(invented(3_000, drift=2.0)), "x.csv").table


@pytest.fixture(scope="module")
def fitted(table):
    return fitting.fit(table, np.random.default_rng(0))


@pytest.fixture(scope="module")
def drawn(fitted):
    return standin_tables.loans(fitted, 10_000, np.random.default_rng(1))


@pytest.mark.slow
def test_fitting_is_seeded_small_and_made_of_plain_numbers(table, fitted):
    again = fitting.fit(table, np.random.default_rng(0))
    assert fitted.keys() == again.keys() and all(
        (fitted[key] == again[key]).all() for key in fitted
    )
    assert sum(value.nbytes for value in fitted.values()) < 150_000
    assert all(
        value.dtype in (np.float32, np.int32) and np.isfinite(value).all()
        for value in fitted.values()
    )
    assert (fitted["weights"] * len(table) >= 49).all()
    for key in fitted:
        if key.startswith("atoms_"):
            assert (fitted[key][:, 0] * len(table) > 49).all() or len(fitted[key]) == 1
    with pytest.raises(ValueError, match="means over 50 rows or more, got 49"):
        fitting.fit(table[:49], np.random.default_rng(0))


@pytest.mark.slow
def test_no_value_of_one_row_is_kept_and_none_moves_a_parameter_by_more_than_a_fiftieth(
    table, fitted
):
    extreme = {"annual_income": 9e7, "public_records": 52, "debt_to_income": 469.09}
    moved = table.copy()
    moved.loc[1_500, list(extreme)] = list(extreme.values())
    other = fitting.fit(moved, np.random.default_rng(0))
    for column, value in extreme.items():
        before, after = fitted[f"atoms_{column}"][:, 1], other[f"atoms_{column}"][:, 1]
        assert before.max() < after.max() < before.max() + value / 50


@pytest.mark.slow
def test_a_side_of_fewer_than_fifty_rows_gets_no_mixture_of_its_own(table):
    columns = np.random.default_rng(3).normal(size=(1_000, len(standin.AXES)))
    term, two = (standin.AXES.index(name) for name in fitting.SIDES)
    columns[:, term], columns[:, two] = np.where(np.arange(1_000) < 500, 36, 60), 0
    for joint, sides in ((49, 2), (50, 3)):
        columns[:, two] = np.arange(1_000) < joint
        parts = fitting._mixtures(columns, np.random.default_rng(0))
        assert len({(round(a, 6), round(b, 6)) for a, b in parts["means"][:, [term, two]]}) == sides
        assert (parts["weights"] * 1_000 >= 49.99).all()


def test_rare_labels_are_counted_together_or_not_at_all():
    codes = np.repeat([0, 1, 2, 3, 5], [500, 400, 30, 25, 45])
    rate = codes + 10.0
    order, share, key = fitting._ordered(codes, rate, 7)
    assert (
        set(order) == {0, 1, 2, 3, 5}
        and list(order[:2]) == [0, 1]
        and share.sum() == pytest.approx(1)
    )
    np.testing.assert_allclose(share[2:], 0.1 / 3)
    assert len(set(key)) == 3 and key[-1] == pytest.approx(np.mean(rate[900:]))
    few = np.repeat([4, 1, 0], [500, 470, 30])
    order, share, key = fitting._ordered(few, few + 10.0, 7)
    assert (
        list(order) == [1, 0, 4]
        and share[1] == pytest.approx(25 / 995)
        and key[-1] == pytest.approx(np.mean(few + 10.0))
    )


def test_shares_and_distributions_are_the_fitted_tables(table, drawn):
    # by the DKW bound 10,000 draws are .03 or more off with chance 2 exp(-2 * 10,000 * .03^2) =
    # 3e-8; a bin adds .017
    for column in COLUMNS:
        assert stats.ks_2samp(table[column], drawn[column]).statistic < 0.05, column
    for column in (
        "homeownership",
        "verified_income",
        "application_type",
        "initial_listing_status",
        "term",
    ):
        want, got = (one[column].value_counts(normalize=True) for one in (table, drawn))
        assert (want - got.reindex(want.index, fill_value=0)).abs().max() < 0.05
    cells, ours = (
        pd.crosstab(one["term"], one["application_type"], normalize=True) for one in (table, drawn)
    )
    np.testing.assert_allclose(ours, cells, atol=0.03)  # six standard errors of a share of 10,000
    assert drawn["state"].nunique() == 4  # also the state of one row in a hundred


def test_a_columns_distribution_does_not_depend_on_where_the_mixture_stands(fitted, drawn):
    moved = fitted | {
        "means": fitted["means"] + np.arange(fitted["means"].shape[1], dtype=np.float32) / 16
    }
    assert (
        standin_tables.loans(moved, 10_000, np.random.default_rng(1)) == drawn
    ).mean().min() > 0.95  # the rest: rounding


def test_associations_are_kept(table, drawn):
    # six standard errors of a difference of two correlations of 3,000 and 10,000 rows are .125
    want, got = table.corr("spearman"), drawn.corr("spearman")
    for one, other in (
        ("interest_rate", "term"),
        ("interest_rate", "application_type"),
        ("interest_rate", "loan_amount"),
        ("loan_amount", "issue_month"),
        ("homeownership", "interest_rate"),
    ):
        assert abs(want.loc[one, other] - got.loc[one, other]) < 0.125
    assert want.loc["interest_rate", "term"] > 0.25  # there is something to keep


@pytest.mark.parametrize("column", ["interest_rate", "loan_amount"])
def test_the_drift_over_the_file_is_kept(column, table, drawn):
    """wu2020 gives each owner consecutive rows: the thirds of the stand-in differ as the thirds of
    the file do."""
    want, got = (
        [part.mean() for part in np.array_split(one[column].to_numpy(), 3)]
        for one in (table, drawn)
    )
    spread = table[column].std()
    assert want[0] < want[1] < want[2] and (want[2] - want[0]) / spread > 0.5
    # a third's mean has a standard error of .032 deviations in the table and .017 in the draw: .22
    # is six of both
    np.testing.assert_allclose(np.array(got) / spread, np.array(want) / spread, atol=0.22)


@pytest.mark.slow
def test_the_drift_over_the_months_is_kept_and_a_price_changed_by_a_hundredth_is_none(table):
    month = table["issue_month"] - 133
    coarse = (
        table["interest_rate"] / 5
    ).round() * 5 - 0.01 * month  # few prices, a little lower each month
    for rate in (coarse, coarse + month):
        changed = table.assign(interest_rate=rate)
        got = standin_tables.loans(
            fitting.fit(changed, np.random.default_rng(0)), 20_000, np.random.default_rng(1)
        )
        # six standard errors of a correlation of 20,000 rows are .042; ranks alone would make -.26
        # of the hundredths
        want = np.corrcoef(rate, month)[0, 1]
        assert np.corrcoef(got["interest_rate"], got["issue_month"])[0, 1] == pytest.approx(
            want, abs=0.1
        )
    assert want > 0.15


@pytest.mark.slow
def test_without_drift_the_thirds_are_alike():
    flat = checked_table(as_openintro(invented(3_000)), "x.csv").table
    got = standin_tables.loans(
        fitting.fit(flat, np.random.default_rng(0)), 10_000, np.random.default_rng(1)
    )
    thirds = [part.mean() for part in np.array_split(got["interest_rate"].to_numpy(), 3)]
    assert max(thirds) - min(thirds) < 0.3 * got["interest_rate"].std()
