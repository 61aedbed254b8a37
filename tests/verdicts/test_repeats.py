"""The interval of a number measured on splits and starts: by hand, by its coverage, and as the
ledger decides with it."""

import math

import numpy as np
import pytest
from made_rows import MEASURED

from ppkit.verdicts import FORMULA, Ledger
from ppkit.verdicts.repeats import Repeats

T_3 = 3.182446305284263  # Student's .975 quantile at 3 degrees of freedom, from a table


def test_the_interval_is_students_over_the_means_of_the_splits():
    values = [[0.9, 0.7], [0.5, 0.5], [0.6, 0.8], [0.4, 0.2]]
    found = Repeats(values)
    means = [0.8, 0.5, 0.7, 0.3]
    spread = math.sqrt(sum((one - 0.575) ** 2 for one in means) / 3)
    assert found.mean == pytest.approx(0.575)
    assert found.spread == pytest.approx(spread)
    assert found.halfwidth == pytest.approx(T_3 * spread / 2)
    within = (0.02 + 0.0 + 0.02 + 0.02) / 4  # half of each squared difference, averaged
    split, start = found.deviations
    assert start == pytest.approx(math.sqrt(within))
    assert split == pytest.approx(math.sqrt(spread**2 - within / 2))
    assert str(found) == "4 splits with 2 starts each"


def test_more_starts_of_the_same_splits_are_no_more_splits():
    rng = np.random.default_rng(0)
    splits = rng.standard_normal((12, 1))
    once, often = Repeats(splits), Repeats(np.repeat(splits, 50, axis=1))
    assert often.halfwidth == pytest.approx(once.halfwidth)
    assert often.deviations == pytest.approx((once.spread, 0.0))
    assert math.isnan(once.deviations[1])


def test_the_interval_holds_the_mean_as_often_as_it_says():
    """4,000 draws; by Hoeffding the share is off by more than .045 with a chance below 1e-6."""
    rng = np.random.default_rng(1)
    draws = 4_000
    assert 2 * math.exp(-2 * draws * 0.045**2) < 1e-6
    drawn = (
        Repeats(1.5 + rng.standard_normal((6, 1)) + 2 * rng.standard_normal((6, 3)))
        for _ in range(draws)
    )
    held = np.mean([abs(one.mean - 1.5) <= one.halfwidth for one in drawn])
    assert abs(held - 0.95) < 0.045


def test_splits_that_all_agree_have_an_interval_that_is_known():
    assert 0 < Repeats(np.zeros((5, 2))).halfwidth < 1e-9


@pytest.mark.parametrize(
    "values", [[0.1, 0.2], [[0.1, 0.2]], [[0.1], [math.nan]], np.zeros((3, 0))]
)
def test_other_shapes_are_refused_with_their_shape(values):
    with pytest.raises(ValueError, match=r"\(splits, starts\), of two splits or more, got shape"):
        Repeats(values)


@pytest.fixture
def book():
    return Ledger("wang2018", notebook="wang2018", profile="quick")


def test_the_interval_decides_and_not_how_many_splits_agree(book):
    """fig6.beats asks for at least 0."""
    firm = np.tile([[0.04], [-0.01]], (20, 3))  # half of the splits lie under 0
    loose = np.tile([[0.2], [-0.19]], (20, 3))
    by_seeds = book.record("fig6.beats", firm.mean(axis=1), data=FORMULA)
    assert (by_seeds.verdict, by_seeds.spread > 0) == ("not reproduced", True)
    row = book.record("fig6.beats", Repeats(firm), data=FORMULA)
    assert (row.verdict, row.possible) == ("reproduced", ["reproduced"])
    assert row.value == pytest.approx(0.015) and row.spread == pytest.approx(Repeats(firm).spread)
    assert "40 splits with 3 starts each: decided by the interval, half-width 0.008" in row.note
    row = book.record("fig6.beats", Repeats(loose), data=FORMULA)
    assert (row.verdict, row.detail) == ("undecided", "40 splits with 3 starts each")
    assert row.possible == ["reproduced", "not reproduced"][::-1]
    row = book.record("fig6.beats", Repeats(-firm), data=FORMULA)
    assert row.verdict == "not reproduced"


def test_repeats_take_no_other_interval(book):
    for other in ({"halfwidth": 0.1}, {"positives": 120}):
        with pytest.raises(ValueError, match="fig6.beats: Repeats have an interval of their own"):
            book.record("fig6.beats", Repeats(np.ones((3, 2))), data=FORMULA, **other)


@pytest.mark.parametrize(
    "mean, detail, why",
    [
        (0.001, "", "the interval holds 0"),
        (0.004, "the direction holds", "the sign holds, the size does not"),
    ],
)
def test_a_direction_holds_only_where_the_interval_leaves_out_0(claims_of, mean, detail, why):
    rule = {"rule.within.abs": 0.01, "because": "as said"}
    claims_of(kind="claim", printed="0.1", **rule, **MEASURED)
    book = Ledger("made2026", notebook="x", profile="quick")
    scattered = Repeats(mean + np.tile([[0.004], [-0.004]], (10, 1)))  # half-width .0019
    row = book.record("a.b", scattered, data=FORMULA)
    assert (row.verdict, row.detail) == ("not reproduced", detail)
    assert row.note.split("; ")[0] == why


@pytest.mark.parametrize("last, detail", [(0.139, ""), (0.145, "the direction holds")])
def test_an_ordering_is_a_difference_whose_interval_is_wider(claims_of, last, detail):
    rule = {"rule.ordering": ["a", "b"], "rule.slack": 0.5, "because": "as said"}
    claims_of(kind="claim", **rule, **MEASURED)
    book = Ledger("made2026", notebook="x", profile="quick")
    few = dict(positives=50, halfwidth=0.1)  # of an AUC; of a difference of two .141
    row = book.record("a.b", {"a": [0.0], "b": [last]}, data=FORMULA, **few)
    assert (row.verdict, row.detail) == ("not reproduced", detail)


def test_a_slope_has_an_interval_of_its_own(claims_of):
    rule = {"rule.slope.at": 1.0, "rule.slope.abs": 0.1, "because": "as said"}
    claims_of(kind="claim", **rule, **MEASURED)
    book = Ledger("made2026", notebook="x", profile="quick")
    line = {x: [float(x) ** 0.05] for x in (1, 10, 100, 1000)}
    row = book.record("a.b", line, data=FORMULA, positives=50, halfwidth=0.06)
    assert (row.verdict, row.detail) == ("not reproduced", "the direction holds")
