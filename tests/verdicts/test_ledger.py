"""The ledger refuses what it cannot decide, writes what it decided, and keeps the better of two
runs.  Of a claim that was decided on several sources of data it says which one decides, and when
the claim depends on the data."""

import hashlib
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from made_rows import AT_LEAST, MADE, MEASURED, TRIED

from ppkit import datasets
from ppkit.datasets.dataset import made
from ppkit.verdicts import ledger, rows, rules, statements, wording
from ppkit.verdicts.ledger import FORMULA, Ledger
from ppkit.verdicts.rows import Result, Sighting


@pytest.fixture
def book():
    return Ledger("wang2018", notebook="wang2018", profile="quick")


def test_the_reference_repairs_tries_and_witnesses_every_claim_that_asks_for_it():
    kept = ledger.reference()
    assert {row.id for row in kept} == set(statements.every_claim())
    for row in kept:
        plain = rules.plain(row.verdict)
        assert plain != rules.REFUTED or row.repaired, row.id
        assert row.kind != "claim" or plain in rules.VERDICTS, row.id  # none is "not tried"
        assert row.kind == "claim" or plain not in rules.VERDICTS, row.id
        assert (plain == rules.DEPENDS) == bool(row.witness) == bool(row.depends_on), row.id
        if plain == rules.DEPENDS:
            assert row.verdict == f"depends on {' and '.join(row.depends_on)}".replace("_", " ")
            assert len({seen.setting for seen in row.witness}) == len(row.witness) >= 2, row.id
            said = {rules.plain(seen.verdict) for seen in row.witness}
            assert rules.exclude(said) and said <= set(rules.DECIDED), row.id
        if plain == rules.OUT_OF_REACH:
            assert row.verdict == f"out of reach: {row.out_of_reach['what']}", row.id
        if plain == rules.UNDECIDED:
            assert row.missing or row.detail, row.id


def test_no_row_waits_for_a_run_that_has_been_made():
    """What is missing may be a run of the paper profile only where the number is of another."""
    for row in ledger.reference():
        assert row.profile != "paper" or "--profile paper" not in (row.missing or ""), row.id


def recorded(claims_of, values, **table):
    claims_of(**table)
    return Ledger("made2026", notebook="x", profile="quick").record("a.b", values, data=FORMULA)


def test_a_question_gets_an_answer_and_no_verdict(claims_of):
    row = recorded(claims_of, [0.2, 0.4], kind="question", says="How much?", **MEASURED)
    assert (row.verdict, row.rule, row.kind) == (
        "answered",
        None,
        "question",
    ) and row.value == pytest.approx(0.3)


@pytest.mark.parametrize("value, verdict", [(0.6, "passed"), (0.4, "failed")])
def test_a_check_passes_or_fails(claims_of, value, verdict):
    row = recorded(claims_of, value, kind="check", **AT_LEAST)
    assert (row.verdict, row.alone, row.detail) == (verdict, verdict, "")


def test_a_check_that_its_rule_leaves_undecided_has_not_failed(claims_of, monkeypatch):
    def wants_two(evidence):
        return rules.Outcome(rules.UNDECIDED, None, detail="1 more value would decide")

    monkeypatch.setitem(rules.RULES, "wants_two", rules.Rule(decide=wants_two))
    claims_of(kind="check", rule="wants_two", because="as said", **MEASURED)
    row = Ledger("made2026", notebook="x", profile="quick").record("a.b", 0.6, data=FORMULA)
    assert wording.marked(row) == "≈ undecided (1 more value would decide)"
    assert ledger.best([], [row]) == [row]


BOTH = [(0.6, "reproduced"), (0.4, "not reproduced (the direction holds)")]


@pytest.mark.parametrize("value, here", BOTH)
def test_what_is_missing_leaves_a_claim_undecided_and_says_what_the_rule_says_here(
    claims_of, value, here
):
    row = recorded(claims_of, value, kind="claim", missing="forty more seeds", **AT_LEAST)
    assert (row.verdict, row.alone) == ("undecided", here.partition(" (")[0])
    assert wording.reason(row).startswith(f"on this data: {here}; forty more seeds")
    assert wording.symbol(row) == "≈"


@pytest.mark.parametrize("value, here", BOTH)
def test_what_is_out_of_reach_names_it_its_price_and_the_command(claims_of, value, here):
    reach = {"what": "all cards", "price": "an account", "command": "ppkit data fetch creditcard"}
    row = recorded(claims_of, value, kind="claim", out_of_reach=reach, **AT_LEAST)
    assert (row.verdict, row.alone) == ("out of reach: all cards", here.partition(" (")[0])
    said = f"on this data: {here}; price: an account; then `ppkit data fetch creditcard`"
    assert wording.reason(row).startswith(said) and wording.marked(row) == (
        "□ out of reach: all cards"
    )


@pytest.mark.parametrize(
    "waits, verdict",
    [
        ({"missing": "a run"}, "undecided"),
        ({"out_of_reach": {"what": "a", "price": "b", "command": "c"}}, "out of reach: a"),
        ({}, "not tried"),
    ],
)
def test_a_claim_that_nobody_recorded_says_what_it_waits_for(claims_of, waits, verdict):
    claims_of(kind="claim", **waits, **AT_LEAST)
    [row] = ledger.merge([])
    assert (row.verdict, row.alone, row.note) == (
        verdict,
        "not tried",
        "no notebook of this run recorded it",
    )
    claims_of(kind="check", **waits, **AT_LEAST)
    assert ledger.merge([])[0].verdict == "not tried"  # only claims have verdicts


def test_a_rule_that_changed_after_the_run_marks_its_row_until_it_runs_again(claims_of):
    row = recorded(claims_of, 0.6, kind="claim", **AT_LEAST)
    digest = hashlib.sha256(b'{"at_least": 0.5}').hexdigest()
    assert (row.rule_digest, row.stale) == (digest, False)
    assert ledger.best([], [row])[0].stale is False
    claims_of(kind="claim", **{**AT_LEAST, "rule.at_least": 0.55})
    [old] = ledger.best([row], ledger.merge([]))
    assert (old.stale, old.verdict) == (True, "reproduced")
    assert "its rule has changed since this run: run it again" in wording.reason(old)
    again = Ledger("made2026", notebook="x", profile="quick").record("a.b", 0.6, data=FORMULA)
    assert ledger.best([old], [again])[0].stale is False
    [unknown] = ledger.best([replace(row, rule_digest="")], ledger.merge([]))
    assert not unknown.stale  # a run that did not keep its rules tells nothing
    claims_of(kind="question", **MEASURED)
    [asked] = ledger.best([row], ledger.merge([]))
    assert (asked.stale, asked.verdict) == (False, "answered")  # it has no rule that could be newer


def test_an_amendment_stands_in_the_reason_of_its_row(claims_of):
    row = recorded(
        claims_of, 0.6, kind="claim", amended="2026-11-22: asked for .5 before", **AT_LEAST
    )
    assert wording.reason(row).endswith("amended 2026-11-22: asked for .5 before")


def test_a_row_keeps_paper_number_ours_and_verdict(book, tmp_path, monkeypatch):
    monkeypatch.setenv("PPKIT_RUN", str(tmp_path))
    row = book.record("table1.row5.basic", 18.506, data=FORMULA)
    assert (row.verdict, row.printed, row.value, row.data, row.note) == (
        "reproduced",
        "18.50",
        18.506,
        "formula",
        "cut, not rounded",
    )
    said = "wang2018.table1.row5.basic   reproduced   ours 18.51, formula   (cut, not rounded)"
    assert repr(row) == said
    book.record("model.parameters", 14312, data=FORMULA)
    _, written = rows.read(tmp_path / "claims/wang2018.json")
    assert [entry.short_id for entry in written] == ["table1.row5.basic", "model.parameters"]
    assert written[0] == row == book._rows[row.id]


def test_a_lesson_writes_no_rows(tmp_path, monkeypatch):
    monkeypatch.setenv("PPKIT_RUN", str(tmp_path))
    page = Ledger("wang2018", notebook=None, profile="quick")
    page.record("table1.row5.basic", 18.506, data=FORMULA)
    assert [*tmp_path.iterdir()] == []


def test_the_data_of_a_row_is_the_data_set_s_own_word(book):
    data = datasets.load("transactions", rows=2_000)
    row = book.record("data.features", data.X.shape[1], data=data)
    assert row.data == data.source == f"simulated: {data.n_rows:,} rows"
    with pytest.raises(
        ValueError, match="data must be a Dataset as its own module makes it, or FORMULA, got str"
    ):
        book.record("data.features", 264, data="real: 700,000 rows")


@pytest.mark.parametrize("source", ["auto", "standin"])
@pytest.mark.parametrize("name", ["creditcard", "distress", "lending"])
def test_no_stand_in_is_ever_recorded_as_real(name, source, book, tmp_path, monkeypatch):
    """Whatever a notebook may do with a stand-in, the ledger writes down that it is one, or
    refuses."""
    monkeypatch.delenv("PPKIT_SOURCE", raising=False)
    data = datasets.load(name, source, rows=3_000, root=tmp_path)
    ways = [data]
    if data.is_classification:
        ways.append(datasets.undersample(data, 0.5, 0))
    for one in ways:
        row = book.record("data.features", one.X.shape[1], data=one)
        assert row.data == one.source and row.data.startswith(f"stand-in: {one.n_rows:,} rows")

    class Relabelled(datasets.Dataset):
        source = "real: 284,807 rows"

    class LooksLikeOne:
        source, kind, X, y = "real: 284,807 rows", "real", data.X, data.y

    forged = object.__new__(Relabelled)
    for attempt in (LooksLikeOne(), forged, "real: 284,807 rows", data.X):
        with pytest.raises(
            ValueError, match="data must be a Dataset as its own module makes it, or FORMULA"
        ):
            book.record("data.features", 30, data=attempt)
    assert not json.dumps([row.data for row in book._rows.values()]).count("real")


def test_bad_records_are_refused_with_the_id_or_value(book):
    with pytest.raises(ValueError, match="wang2018 has no claim 'fig9.rises'"):
        book.record("fig9.rises", 1, data=FORMULA)
    with pytest.raises(ValueError, match="66 positives are fewer than 100"):
        book.record("headline.improves", 0.1, data=FORMULA, positives=66)
    with pytest.raises(
        ValueError, match="no claims for paper 'wang2019': there are .*kanodia2020, wang2018.* in "
    ):
        Ledger("wang2019", notebook="x", profile="quick")


def test_few_positives_are_decided_by_their_interval_and_say_so(book):
    sure = book.record("fig6.beats", [0.05, 0.05], data=FORMULA, positives=500, halfwidth=0.06)
    unsure = book.record("fig6.beats", [0.05, 0.05], data=FORMULA, positives=66, halfwidth=0.06)
    worse = book.record("fig6.beats", [-0.2, -0.2], data=FORMULA, positives=66, halfwidth=0.06)
    assert [(row.verdict, row.detail) for row in (sure, unsure, worse)] == [
        ("reproduced", ""),
        ("undecided", "66 positives"),
        ("not reproduced", ""),
    ]
    assert wording.marked(unsure) == "≈ undecided (66 positives)"
    assert "66 positives: decided by the interval" in unsure.note
    scattered = [0.05, -0.04, -0.01]  # no result, and no verdict either: the interval holds both
    row = book.record("fig6.beats", scattered, data=FORMULA, positives=66, halfwidth=0.06)
    assert (row.verdict, row.alone, row.detail) == ("undecided", "undecided", "66 positives")


@pytest.mark.parametrize(
    "halfwidth, text", [(0.06, "0.060"), (0.0005, "0.001"), (0.000312, "0.00031")]
)
def test_a_half_width_never_prints_as_zero(book, halfwidth, text):
    row = book.record("fig6.beats", [0.05, 0.05], data=FORMULA, positives=66, halfwidth=halfwidth)
    assert f"half-width {text};" in row.note + ";"


def test_many_claims_at_once(book):
    table = book.record_all(
        "table1.",
        {"row1.basic_holds": 66.9, "row4.basic_holds": 1431.2},
        data=FORMULA,
        against={"row1.basic_holds": 3.01, "row4.basic_holds": 2862.4},
        proven={"row1.basic_holds": None, "row4.basic_holds": 1431.2},
    )
    assert table["verdict"].tolist() == ["✕ refuted", "● reproduced"]


def test_merge_lists_every_claim_once_and_refuses_strangers(book):
    book.record("model.parameters", 14312, data=FORMULA)
    row = book._rows["wang2018.model.parameters"]
    merged = ledger.merge([replace(row, value=1.0), row])  # the later one
    assert [one.id for one in merged] == [*statements.every_claim()]
    assert [one for one in merged if one.data is not None] == [row]
    assert {rules.plain(one.verdict) for one in merged if one.id != row.id} == {
        "not tried",
        "undecided",
        "out of reach",
    }
    with pytest.raises(ValueError, match="no claim has the id 'nobody.said'"):
        ledger.merge([replace(row, id="nobody.said")])


def test_the_reference_prefers_decided_then_paper_then_new(claims_of):
    claims_of(kind="claim", **AT_LEAST)
    [untried] = ledger.merge([])

    def row(alone, profile, value, data="simulated"):
        found = {"data": data, "standing": "rerunnable", "note": "", "profile": profile}
        return replace(untried, verdict=alone, alone=alone, value=value, **found)

    quick, paper = row("reproduced", "quick", 1.0), row("not reproduced", "paper", 2.0)
    for old, new in ((quick, paper), (paper, quick), (paper, untried)):
        assert ledger.best([old], [new]) == [paper]
    assert ledger.best([quick], [row("refuted", "quick", 3.0)])[0].value == 3
    quick, paper = (row("reproduced", profile, 1.0, "formula") for profile in ("quick", "paper"))
    # of a formula the profile that decides its claim, since its steps may be the profile's
    assert ledger.best([paper], [quick]) == ledger.best([quick], [paper]) == [quick]
    newer = replace(quick, value=3.0)
    assert ledger.best([quick], [newer]) == [newer]
    claims_of(kind="claim", **AT_LEAST | {"decided_by": "paper"})
    assert ledger.best([paper], [quick])[0].profile == "paper"
    assert ledger.best([quick], [paper])[0].profile == "paper"
    claims_of(kind="claim", **AT_LEAST)
    assert ledger.best([], [untried]) == ledger.best([untried], [untried]) == [untried]
    # a run of sources that do not know the claim takes nothing away
    assert ledger.best([paper], []) == [paper] and ledger.best([], []) == []


def test_beside_a_formula_no_row_waits_for_more_rows(claims_of):
    claims_of(kind="claim", **AT_LEAST)
    [untried] = ledger.merge([])
    waits = replace(
        untried, alone="not tried: needs 9 rows", data="real: 4 rows", standing="partial"
    )
    found = dict(verdict="reproduced", alone="reproduced", value=1.0, standing="rerunnable")
    formula = replace(untried, **found, data="formula", profile="quick")
    sampled = replace(formula, data="simulated")
    assert [one.data for one in ledger.best([waits], [formula])[0].results] == ["formula"]
    assert len(ledger.best([waits], [sampled])[0].results) == 2


def test_what_was_a_claim_in_its_run_is_answered_as_a_question_and_passes_as_a_check(claims_of):
    claims_of(kind="question", says="Is it?", **MEASURED)
    [untried] = ledger.merge([])
    old = replace(
        untried,
        kind="claim",
        says="It is.",
        rule="at_least",
        run="a",
        verdict="not reproduced",
        alone="not reproduced",
        detail="the direction holds",
        possible=["not reproduced"],
        data="stand-in: 9 rows",
        standing="rerunnable",
        profile="paper",
        value=1.0,
    )
    other = replace(old.results[0], standing="partial", alone="not tried: needs 9 rows")
    [row] = ledger.best([old], [replace(old, also=[other])])
    assert (row.kind, row.says, row.rule, row.verdict, row.alone) == (
        "question",
        "Is it?",
        None,
        "answered",
        "answered",
    )
    assert (row.detail, row.possible, row.value, row.run) == ("", [], 1.0, "a")
    assert row.also[0].alone == "not tried: needs 9 rows"
    claims_of(kind="check", **AT_LEAST)
    for alone, said in (("reproduced", "passed"), ("not reproduced", "failed")):
        [row] = ledger.best([replace(old, alone=alone)], ledger.merge([]))
        assert (row.verdict, row.alone, row.detail, row.possible) == (said, said, "", [])
    claims_of(kind="claim", **AT_LEAST)
    [row] = ledger.best([replace(old, kind="check")], ledger.merge([]))
    assert (row.kind, row.verdict, row.detail) == ("claim", old.verdict, old.detail)


def test_the_scoreboard_of_nothing_is_empty():
    assert ledger.scoreboard([]).empty


def test_the_scoreboard_counts_claims_and_causes_and_sets_questions_apart():
    def row(verdict, kind="claim", cause=None, id="a", data=MADE.data):
        return replace(MADE, verdict=verdict, kind=kind, cause=cause, id=id, data=data)

    rows = [
        row("refuted", cause="c"),
        row("refuted", cause="c"),
        row("refuted", id="b"),
        replace(row("not reproduced"), detail="better than printed"),
        row("reproduced"),
        row("reproduced", data="formula"),
        replace(row("not reproduced"), detail="the proof has a gap"),
        replace(row("undecided"), detail="28 positives"),
        row("out of reach: all cards"),
        row("depends on the data"),
        row("depends on clip"),
        row("not tried"),
        row("answered", "question"),
        row("not tried", "question"),
        row("passed", "check"),
    ]
    assert ledger.scoreboard(rows).loc["made2026"].to_dict() == {
        "reproduced": 1,
        "reproduced on other data": 1,
        "not reproduced": 2,
        "refuted": 3,
        "undecided": 1,
        "depends on": 2,
        "out of reach": 1,
        "not tried": 1,
        "causes of refuted": 2,
        "questions": 2,
        "checks": 1,
        "decided on": "formula; simulated: 9 rows, paper profile",
    }
    assert wording.counted(rows[:5]) == (
        "1 reproduced on other data, 1 not reproduced, 3 refuted; data: simulated"
    )


def test_values_keep_their_seeds(book):
    row = book.record("headline.improves", np.array([0.01, 0.03]), data=FORMULA)
    assert row.value == pytest.approx(0.02) and row.spread == pytest.approx(
        np.std([0.01, 0.03], ddof=1)
    )


def test_the_picture_of_a_row_is_the_claim_s_own_as_it_is_now():
    old = [replace(row, figure="gone") for row in ledger.merge([])]
    assert {row.id: row.figure for row in ledger.best(old, old)} == {
        claim.id: claim.figure for claim in statements.every_claim().values()
    }


def test_a_row_beside_the_reference_says_how_robust_the_reference_is(book, monkeypatch):
    kept = {row.id: row for row in ledger.reference()}
    rows = [
        replace(kept["wang2018.table1.row5.basic"], robustness=TRIED),
        replace(kept["wang2018.table1.row5.advanced"], robustness=None, not_varied="untried"),
    ]
    monkeypatch.setattr(ledger, "reference", lambda: rows)
    book.record("table1.row5.basic", 18.5, data=FORMULA)
    book.record("table1.row5.advanced", 2.35, data=FORMULA)
    robust, other = book.beside_reference()["robustness"]
    assert (robust, other) == (wording.robust(rows[0]), "untried") and "7 of 9" in robust


def test_a_table_of_verdicts_is_short_and_names_the_verdict_that_counts(book, monkeypatch):
    untried = {row.id: row for row in ledger.merge([])}

    def kept(verdict, profile, id):
        return replace(untried[f"wang2018.{id}"], verdict=verdict, profile=profile)

    rows = [kept("reproduced", "quick", "table1.row5.basic")]
    monkeypatch.setattr(ledger, "reference", lambda: rows)
    book.record("table1.row5.basic", 18.5, data=FORMULA)
    alike = book.table()
    assert [*alike.columns] == ["printed", "ours", "verdict", "data"]
    assert [*alike.loc["table1.row5.basic"]] == ["18.50", "18.5", "● reproduced", "formula"]
    rows += [kept("not reproduced", "paper", "model.parameters")]
    book.record("model.parameters", 14312, data=FORMULA)
    book.record("bits.saved", 30.0, data=FORMULA)  # the reference has no such row
    assert [*book.table()[ledger.ANOTHER]] == ["", "○ not reproduced (paper profile)", ""]
    assert [*book.table("model").index] == ["model.parameters"]
    assert book.table("nothing").empty


def test_before_there_is_a_reference_a_table_has_nothing_to_compare_with(
    book, tmp_path, monkeypatch
):
    monkeypatch.setattr("ppkit.project.root", lambda: tmp_path)
    assert ledger.reference() == []
    book.record("model.parameters", 14312, data=FORMULA)
    assert [*book.table().columns] == ["printed", "ours", "verdict", "data"]


@pytest.fixture
def kept(monkeypatch):
    """A reference of five rows, two of which head their paper."""

    def row(id, notebook, verdict, headline, **about):
        paper = notebook[:8]
        own = {"id": f"{paper}.{id}", "paper": paper, "notebook": notebook, "verdict": verdict}
        own |= {"headline": headline, "printed": "1.5", "value": 1.0}
        own |= {"data": "formula", "profile": "quick"}
        return replace(MADE, **own | about)

    on_stand_in = {"data": "stand-in: 9 rows", "profile": "paper", "printed": None}
    rows = [
        row("a.b", "zhou2021_dial", "refuted", True),
        row("a.c", "zhou2021_dial", "out of reach: x", True, **on_stand_in),
        row("a.d", "zhou2021_method", "reproduced", False),
        row("a.e", "zhou2021_method", "reproduced", False, **on_stand_in),
        row("a.b", "wang2018", "reproduced", False),
    ]
    monkeypatch.setattr(ledger, "reference", lambda: rows)


def test_the_answer_is_the_claims_that_head_a_paper(kept):
    answer = ledger.answer("zhou2021")
    assert [*answer.index] == ["a.b", "a.c"]
    assert [*answer.loc["a.b"]] == ["It is.", "1.5", "1", "✕ refuted", "formula"]
    far = ["It is.", "", "1", "□ out of reach: x", "stand-in: 9 rows, paper profile"]
    assert [*answer.loc["a.c"]] == far
    none = ledger.answer("wang2018")
    assert none.empty and [*none.columns] == [*answer.columns]
    with pytest.raises(ValueError, match="no claims for paper 'wang2019'"):
        ledger.answer("wang2019")


def test_the_summary_counts_the_rows_of_a_paper_or_of_one_record(kept):
    assert ledger.summary("zhou2021", "zhou2021_dial") == (
        "2 rows: 1 refuted, 1 out of reach\ndecided on: formula (1); stand-in, paper profile (1)"
    )
    whole = ledger.summary("zhou2021")
    assert whole.startswith(
        "4 rows: 1 reproduced, 1 reproduced on other data, 1 refuted, 1 out of reach\n"
    )
    with pytest.raises(
        ValueError, match="no row of the reference is of 'zhou2021' and notebook 'x'"
    ):
        ledger.summary("zhou2021", "x")


# ---- decided on several sources of data

CLAIM = next(iter(statements.claims("zhou2021").values()))


CLAIM = replace(
    CLAIM,
    kind="claim",
    rule={"at_least": 0.5},
    because="as said",
    decided_by="quick",
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


def open_here():
    """A stand-in's result whose interval holds both verdicts."""
    both = found("undecided", detail="28 positives")
    return replace(both, possible=[YES, NO])


@pytest.mark.parametrize("real", [YES, NO])
def test_real_rows_that_decide_outrank_a_stand_in_that_its_interval_leaves_undecided(real):
    row = decided(open_here(), found(real, "partial", value=0.75))
    assert (row.verdict, row.standing, row.value) == (real, "partial", 0.75)
    assert [one.alone for one in row.also] == ["undecided"]


@pytest.mark.parametrize(
    "real",
    [
        found(YES, "partial", possible=[NO]),
        found(YES, "partial", possible=None),
        found("undecided", "partial", possible=[YES, NO]),
        found(YES, "partial", profile="paper"),
        found("not tried: needs 9 rows", "partial", possible=None),
    ],
)
def test_real_rows_that_leave_room_decide_nothing_for_the_stand_in(real):
    assert verdict(open_here(), real) == ("undecided", "rerunnable")


def test_a_quick_run_on_real_rows_decides_nothing_that_the_paper_profile_decides():
    sized = replace(CLAIM, decided_by="paper")
    quick, real = open_here(), found(YES, "partial")
    assert verdict(quick, real, claim=sized)[0] == "undecided"
    paper = [replace(one, profile="paper") for one in (quick, real)]
    assert verdict(*paper, claim=sized) == (YES, "partial")


def test_real_rows_decide_no_claim_that_waits():
    waits = replace(CLAIM, missing="ten more runs")
    assert verdict(open_here(), found(YES, "partial"), claim=waits)[0] == "undecided"


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


def test_a_ledger_has_a_profile_and_the_name_of_the_notebook_that_runs(claims_of, monkeypatch):
    claims_of(kind="claim", **AT_LEAST)
    with pytest.raises(ValueError, match="profile must be one of quick, paper, got 'fast'"):
        Ledger("made2026", notebook="x", profile="fast")
    monkeypatch.setenv("PPKIT_NOTEBOOK", "x")
    for fits in ("x", None):
        assert Ledger("made2026", notebook=fits, profile="quick").notebook == fits
    with pytest.raises(ValueError, match="notebook must be 'x', .* got 'y'"):
        Ledger("made2026", notebook="y", profile="quick")


def test_what_a_rule_refuses_says_which_claim_it_is(claims_of):
    with pytest.raises(ValueError, match=r"a\.b: this rule takes numbers, got"):
        recorded(claims_of, {"a": 1.0}, kind="claim", **AT_LEAST)


def test_two_ledgers_of_one_notebook_keep_each_other_s_rows(tmp_path, monkeypatch):
    monkeypatch.setenv("PPKIT_RUN", str(tmp_path))
    first, second = (Ledger(p, notebook="n", profile="quick") for p in ("wang2018", "wu2020"))
    first.record("table1.row5.basic", 18.5, data=FORMULA)
    second.record("lending.pca", 9.0, data=FORMULA)
    first.record("table1.row5.basic", 18.506, data=FORMULA)
    kept = {row.id: row.value for row in rows.read(tmp_path / "claims/n.json")[1]}
    assert kept == {"wang2018.table1.row5.basic": 18.506, "wu2020.lending.pca": 9.0}
