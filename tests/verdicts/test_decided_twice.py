"""A claim that was decided on the stand-in and on real rows: which of the two decides, when the row
depends on the data, what it then loses, and which verdicts an interval leaves possible."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from ppkit import datasets
from ppkit.datasets.dataset import made
from ppkit.verdicts import ledger, rules, statements, wording
from ppkit.verdicts.rows import Result, Sighting
from ppkit.verdicts.rules import Evidence

CLAIM = next(iter(statements.claims("zhou2021").values()))
CLAIM = replace(
    CLAIM,
    kind="claim",
    rule={"at_least": 0.5},
    because="as said",
    missing=None,
    out_of_reach=None,
    witness=None,
)
YES, NO, REFUTED = "reproduced", "not reproduced", "refuted"
HOLDS = "the direction holds"
FAR = {"what": "all cards", "price": "an account", "command": "ppkit data fetch creditcard"}


def found(alone, standing="rerunnable", possible=(), profile="quick", **more):
    """What was found on one source; possible: the verdicts beside its own, None if unknown."""
    interval = [] if possible is None else [rules.plain(alone), *possible]
    said = {"value": 0.5, "data": standing, "notebook": "n"}
    return Result(alone=alone, possible=interval, standing=standing, profile=profile, **said | more)


def decided(*results, claim=CLAIM):
    row = ledger.decided(claim, list(results))
    assert ledger.decided(claim, list(results)[::-1]).verdict == row.verdict
    assert len(row.also) == len(results) - 1
    assert bool(row.witness) == bool(row.depends_on) == row.verdict.startswith("depends on")
    return row


def verdict(*results, claim=CLAIM):
    row = decided(*results, claim=claim)
    return row.verdict, row.standing


@pytest.mark.parametrize("standin, real", [(YES, NO), (NO, YES), (REFUTED, NO), (YES, REFUTED)])
def test_it_depends_on_the_data_whichever_way_it_turns(standin, real):
    mine = found(standin, value=0.25, data="stand-in: 9 rows")
    row = decided(mine, found(real, "partial", value=0.75, data="real subset: 4 of 9 rows"))
    assert (row.verdict, row.alone, row.value) == ("depends on the data", standin, 0.25)
    assert row.depends_on == ["the data"]
    assert row.witness == [
        Sighting(setting="stand-in", value=0.25, verdict=standin, data="stand-in: 9 rows"),
        Sighting(setting="real subset", value=0.75, verdict=real, data="real subset: 4 of 9 rows"),
    ]
    assert wording.seen(row) == f"stand-in: 0.25 ({standin}) against real subset: 0.75 ({real})"


def test_the_same_verdict_twice_stands_and_what_stands_beside_it_does_not_turn_it():
    assert verdict(found(YES), found(YES, "partial")) == (YES, "rerunnable")
    better = found(NO, "partial", possible=None, detail="better than printed")
    row = decided(found(NO, detail=HOLDS), better)
    assert (row.verdict, row.detail, row.standing) == (NO, HOLDS, "rerunnable")
    assert wording.beside(row) == [
        "○ not reproduced (better than printed), ours 0.5 (partial, quick)"
    ]


@pytest.mark.parametrize(
    "standin, real",
    [
        (found(YES, possible=[NO]), found(NO, "partial")),
        (found(YES), found(NO, "partial", possible=[YES])),
        (found(YES, possible=[NO]), found(NO, "partial", possible=[YES])),
        (found(YES), found("undecided", "partial", detail="28 positives")),
        (found(YES), found("undecided", "partial", possible=None, detail="28 positives")),
        (found(YES), found("not tried: needs 310,000 rows", "partial", possible=None)),
        (found(YES, profile="paper"), found(NO, "partial", profile="quick")),
    ],
)
def test_the_stand_in_s_verdict_stands_unless_both_intervals_exclude_the_other(standin, real):
    row = decided(standin, real)
    assert (row.verdict, row.standing, row.detail) == (YES, "rerunnable", "")


@pytest.mark.parametrize("which", [(None, ()), ((), None), (None, None)])
def test_where_no_interval_is_known_neither_verdict_has_credit(which):
    results = found(YES, possible=which[0]), found(NO, "partial", possible=which[1])
    row = decided(*results)
    assert row.verdict == "undecided" and row.alone == YES
    assert row.detail == "other data say otherwise, no interval is known"
    assert wording.symbol(row) == "≈"
    waits = replace(CLAIM, out_of_reach=FAR)
    assert verdict(*results, claim=waits)[0] == "out of reach: all cards"


def test_the_paper_s_own_file_decides_when_it_is_complete():
    assert verdict(found(NO), found(YES, "complete")) == (YES, "complete")
    assert verdict(found(NO), found(YES, "complete", possible=None)) == (YES, "complete")
    assert verdict(found(YES), found(NO, "partial"), found(NO, "complete")) == (NO, "complete")
    quick = found(NO, profile="paper"), found(YES, "complete", profile="quick")
    assert verdict(*quick) == (NO, "rerunnable")


def test_only_the_complete_file_closes_what_is_out_of_reach_for_want_of_it():
    waits, far = replace(CLAIM, out_of_reach=FAR), "out of reach: all cards"
    assert verdict(found(YES), claim=waits)[0] == far
    assert verdict(found(YES), found(YES, "partial"), claim=waits)[0] == far
    row = decided(found(YES), found(NO, "partial"), claim=waits)
    assert (row.verdict, row.alone, row.out_of_reach) == (far, YES, FAR)
    assert verdict(found(NO), found(YES, "complete"), claim=waits) == (YES, "complete")
    quick = found(NO, profile="paper"), found(YES, "complete", profile="quick")
    assert verdict(*quick, claim=waits) == (far, "rerunnable")  # it does not decide there
    needs = found("not tried: needs 9 rows", "partial", possible=None)
    assert verdict(needs, claim=waits) == ("not tried: needs 9 rows", "partial")


def test_what_is_missing_stays_undecided_also_on_the_complete_file():
    waits = replace(CLAIM, missing="when one stops")
    for results in ([found(YES)], [found(NO), found(YES, "complete")]):
        assert verdict(*results, claim=waits)[0] == "undecided"
    turned = decided(found(YES), found(NO, "partial"), claim=waits)
    assert (turned.verdict, turned.missing) == ("undecided", "when one stops")


@pytest.mark.parametrize("kind, one, other", [("check", "passed", "failed")])
def test_a_check_is_not_turned_by_data(kind, one, other):
    check = replace(CLAIM, kind=kind, missing="nothing", out_of_reach=None)
    assert verdict(found(one), found(other, "partial"), claim=check) == (one, "rerunnable")


def test_two_runs_make_one_row_that_keeps_both_whatever_their_order(monkeypatch):
    monkeypatch.setattr(ledger, "every_claim", lambda: {CLAIM.id: CLAIM})
    untried = ledger.untried(CLAIM)
    standin, real = (
        ledger.decided(CLAIM, [found(alone, standing)])
        for alone, standing in ((YES, "rerunnable"), (NO, "partial"))
    )
    [both] = ledger.best(ledger.best([], [standin]), [real])
    assert both == ledger.best([real], [standin])[0] == ledger.best([both], [untried])[0]
    assert (both.alone, [one.alone for one in both.also]) == (YES, [NO])
    assert both.verdict == "depends on the data"
    assert wording.beside(both) == [f"○ {NO}, ours 0.5 (partial, quick)"]
    assert wording.beside(standin) == []
    [renewed] = ledger.best([both], [replace(real, alone=YES, possible=[YES])])
    assert (renewed.verdict, len(renewed.also), renewed.witness) == (YES, 1, [])


def test_beside_a_row_stands_undecided_what_its_interval_leaves_open():
    real = (
        found(NO, "partial", possible=[YES]),
        found("undecided", "partial", detail="28 positives"),
    )
    said = f"≈ undecided ({NO}), ours 0.5", "≈ undecided (28 positives), ours"
    for one, beginning in zip(real, said, strict=True):
        [line] = wording.beside(ledger.decided(CLAIM, [found(YES), one]))
        assert line.startswith(beginning)


def test_a_finding_loses_its_mark_with_a_claim_that_depends_on_the_data():
    finding = statements.findings()[0]
    row = replace(ledger.untried(CLAIM), cause=finding.id, verdict="refuted")
    turned = replace(row, verdict="depends on the data")
    assert wording.mark(finding, [row]) == wording.MARKS[finding.the_paper_is]
    assert wording.mark(finding, [row, turned]) == "◇"
    assert wording.mark(finding, [row, replace(turned, cause="another")]) != "◇"
    assert wording.mark(finding, [row, replace(turned, kind="question")]) != "◇"


class TestRecord:
    """What a row keeps of its data."""

    @pytest.fixture
    def book(self):
        return ledger.Ledger("wu2020", notebook="n", profile="quick", needs={"lending": 40})

    def test_a_row_that_needs_more_rows_says_how_many(self, book):
        loans = datasets.load("lending", "standin", rows=39)
        row = book.record("lending.pca", 9.0, data=loans)
        assert (row.verdict, row.value, row.data) == (
            "not tried: needs 40 rows",
            None,
            loans.source,
        )
        assert book.record("psi.nonnegative", math.nan, data=loans).alone == row.alone  # a check
        assert book.record("lending.pca", 9.0, data=loans, needs=39).value == 9.0
        assert book.record("lending.pca", 9.0, data=ledger.FORMULA).value == 9.0
        row = book.record("lending.pca", 9.0, data=ledger.FORMULA, needs=None)
        assert row.alone == row.verdict and row.standing == "rerunnable"

    def test_seeds_leave_an_interval_and_one_number_leaves_none(self, book):
        one = book.record("lending.pca", 9.0, data=ledger.FORMULA)
        several = book.record("lending.pca", [9.0, 9.1], data=ledger.FORMULA)
        assert one.possible == [] and several.possible == ["reproduced"]


def possible(name, values, halfwidth=0.0, **options):
    evidence = Evidence(values, printed="0.90", options={name: None, **options})
    return rules.possible(rules.RULES[name], evidence, halfwidth)


def test_the_interval_of_a_mean_over_seeds_is_student_s():
    seeds = np.array([0.45, 0.5, 0.55, 0.6])
    low, high = stats.t.interval(0.95, 3, seeds.mean(), stats.sem(seeds))
    assert possible("at_least", seeds, at_least=low - 1e-6) == [YES]
    assert possible("at_least", seeds, at_least=low + 1e-2) == [YES, NO]
    assert possible("at_least", seeds, at_least=high + 1e-6) == [NO]
    assert possible("at_most", seeds, at_most=high + 1e-6) == [YES]
    assert possible("at_most", seeds, at_most=low - 1e-6) == [NO]


def test_seeds_that_disagree_make_nothing_firm():
    seeds = [0.9, -0.1, -0.1, -0.1, -0.1]  # "not reproduced", whatever the mean
    assert possible("at_least", seeds, at_least=0.05) == [YES, NO]


def test_a_half_width_comes_before_the_seeds_and_a_row_keeps_what_either_leaves_open():
    assert possible("at_most", [0.1, 0.1], 0.5, at_most=0.4) == [YES, NO]
    assert possible("at_most", [0.1, 0.3], 0.05, at_most=0.4) == [YES]
    assert possible("at_most", [0.1, 0.3], at_most=0.4) == [YES, NO]
    assert possible("at_most", 0.1, 0.5, at_most=0.4) == [YES, NO]
    book = ledger.Ledger("wang2018", notebook="n", profile="quick")
    few = dict(data=ledger.FORMULA, positives=66, halfwidth=0.01)
    row = book.record("intro.standalone", [0.3, 0.1], **few)
    assert (row.alone, row.possible) == (YES, [NO, YES])  # 66 frauds decide, seeds doubt


def test_within_may_be_missed_on_either_side():
    assert possible("within", 0.9, 0.5, abs=0.05, better="higher") == [YES, NO]
    assert possible("within", 0.9, 0.04, abs=0.05) == [YES]


def test_an_ordering_may_be_off_at_every_step():
    arms = {"a": [0.1, 0.1], "b": [0.2, 0.2], "c": [0.3, 0.3]}
    asked = dict(ordering=["a", "b", "c"], slack=0.0)
    assert possible("ordering", arms, 0.01, **asked) == [YES]
    assert possible("ordering", arms, 0.2, **asked) == [YES, NO]
    swapped = dict(ordering=["a", "c", "b"], slack=0.0)
    assert possible("ordering", arms, 0.01, **swapped) == [NO]
    assert possible("ordering", arms, 0.08, **swapped) == [YES, NO]
    assert possible("ordering", {arm: of[0] for arm, of in arms.items()}, **asked) == []


def test_a_slope_has_its_own_interval():
    exact = {n: [n**-2.0] for n in (1.0, 2.0, 4.0, 8.0)}
    assert possible("slope", exact, at=-2, abs=0.1) == [YES]
    assert possible("slope", exact, at=-3, abs=0.1) == [NO]
    bent = {1.0: [1.0], 2.0: [0.3], 4.0: [0.07], 8.0: [0.012]}
    assert possible("slope", bent, at=-2, abs=0.1) == [YES, NO]


def test_no_interval_is_known_of_one_number_or_of_points():
    assert possible("at_least", 0.3, at_least=0.5) == []
    assert possible("flat", [0.1, 0.2], 0.1, flat={"spread": 1}) == []
    without = [name for name, rule in rules.RULES.items() if rule.interval is None]
    assert without == ["digits", "flat", "bound", "claim_fails_if_attained", "proof_step"]


@pytest.mark.parametrize(
    "kind, n_rows, variant, standing",
    [
        ("real", 4, "", "complete"),
        ("real", 4, "no_lag", "complete"),
        ("real", 3, "", "partial"),
        ("real", 4, "OpenIntro", "partial"),  # all of it, and not the file that wu2020 used
        ("stand-in", 4, "", "rerunnable"),
        ("simulated", 4, "", "rerunnable"),
    ],
)
def test_what_a_verdict_on_these_rows_is_worth(kind, n_rows, variant, standing):
    data = made(
        name="a",
        X=np.zeros((n_rows, 1), np.float32),
        y=np.zeros(n_rows, np.int8),
        feature_names=("x",),
        numeric=np.array([True]),
        kind=kind,
        note="",
        variant=variant,
        of_rows=4 if kind == "real" else None,
    )
    assert data.standing == standing
    subset = "not rerunnable as it stands: a subset; `ppkit data fetch a` and the same command"
    row = ledger.Ledger("wu2020", notebook="n", profile="quick").record("lending.pca", 9, data=data)
    assert (subset in row.note) == (kind == "real" and n_rows == 3)
    assert row.standing == standing
