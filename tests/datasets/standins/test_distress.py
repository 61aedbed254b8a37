"""The stand-in of distress: its companies live and end as companies do."""

import numpy as np
import pytest
from invented_companies import follows

from ppkit.datasets import standins
from ppkit.datasets.distress import COLUMNS, TARGET, arranged, checked_table
from ppkit.datasets.standins import distress
from ppkit.datasets.standins.distress import MACRO


@pytest.fixture(scope="module")
def shipped():
    return standins.parameters("distress")


@pytest.fixture(scope="module")
def drawn(shipped):
    return distress.sample(shipped, 10_000, np.random.default_rng(1))


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 7, 3_672, 10_000])
def test_any_number_of_rows_in_the_file_s_order(shipped, rows):
    made = distress.sample(shipped, rows, np.random.default_rng(4))
    assert len(made) == rows and tuple(made.columns) == (*COLUMNS, "account")
    np.testing.assert_array_equal(
        made.sort_values(["account", "Time"], kind="stable").index, np.arange(rows)
    )
    assert not made.duplicated(["account", "Time"]).any()
    np.testing.assert_array_equal((made["account"] - 1) % 422 + 1, made["Company"])
    for variant, width in (("paper", 555), ("no_lag", 132), ("forecast", 133)):
        data = arranged(made, kind="stand-in", of_rows=None, variant=variant)
        assert (
            data.X.shape == (rows, width) and data.source == f"stand-in: {rows:,} rows ({variant})"
        )


@pytest.mark.slow
def test_sampled_rows_pass_the_checks_of_the_file(shipped):
    made = distress.sample(
        shipped, 3_000, np.random.default_rng(4)
    )  # more have too many distressed
    again = checked_table(made.drop(columns="account"), "standin.csv").table
    np.testing.assert_array_equal(again["account"], made["account"])


def test_x81_is_the_target_of_the_year_before_and_never_distressed(drawn):
    next_year = follows(drawn)
    assert next_year.sum() > 8_000
    np.testing.assert_array_equal(
        drawn["x81"].to_numpy()[1:][next_year], drawn[TARGET].to_numpy()[:-1][next_year]
    )
    assert (drawn["x81"] > -0.5).all()


def test_a_company_has_no_gaps_and_ends_with_its_distress(drawn):
    same = np.diff(drawn["account"]) == 0
    np.testing.assert_array_equal(np.diff(drawn["Time"])[same], 1)
    failed = (drawn[TARGET] <= -0.5).to_numpy()
    assert not failed[:-1][same].any() and failed.sum() > 200


def test_companies_of_one_closing_month_share_the_national_figures(drawn):
    dates = drawn.groupby(["Time", *MACRO]).ngroups
    assert dates == drawn.groupby(["Time", "x61"]).ngroups and 14 < dates <= 9 * 14
    commonest = drawn.groupby(["Time", "x61"]).size().groupby("Time").max()
    assert (commonest / drawn.groupby("Time").size() > 0.5).all()
    assert (drawn.groupby(["account", "Time"])[list(MACRO)].nunique() == 1).all(axis=None)


def test_industry_stays_and_ages_count_the_years(drawn):
    assert (drawn.groupby("account")["x80"].nunique() == 1).all()
    next_year = follows(drawn)
    for column in ("x82", "x83"):
        np.testing.assert_array_equal(np.diff(drawn[column])[next_year], 1)
    assert (drawn["x82"] >= 1).all() and (drawn["x83"] >= drawn["x82"]).all()
    assert drawn["x80"].between(1, 37).all()
