"""The ledger refuses what it cannot decide, writes what it decided, and keeps the better of two
runs."""

import hashlib
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from house import ROOT

from ppkit import datasets
from ppkit.dpstgd import TABLE_1
from ppkit.verdicts import ledger, rows, rules, statements, wording
from ppkit.verdicts.ledger import FORMULA, Ledger
from ppkit.verdicts.rows import Robustness, Row, Sighting, Turn


@pytest.fixture
def book():
    return Ledger("wang2018", notebook="wang2018", profile="quick")


def test_every_cell_of_table_1_and_every_part_of_the_paper_has_a_claim():
    ids = set(statements.claims("wang2018"))
    cells = {
        f"wang2018.table1.row{i}.{kind}" for i in range(1, 9) for kind in ("basic", "advanced")
    }
    assert cells | {f"{cell}_holds" for cell in cells} <= ids
    parts = {id.split(".")[1] for id in ids}
    assert parts >= {
        "fig2",
        "fig3",
        "fig4",
        "fig5",
        "fig6",
        "lemma4_1",
        "thm4_2",
        "thm4_3",
        "appB",
        "model",
        "data",
        "bits",
    }
    assert len(ids) >= 32


def test_every_part_of_kanodia2020_has_a_claim():
    found = statements.claims("kanodia2020")
    parts = {id.split(".")[1] for id in found}
    assert (
        parts == {"data", "attack", "clip", "noise", "price", "federation", "rule", "library"}
        and len(found) >= 56
    )


def test_every_part_of_wu2020_has_a_claim():
    found = statements.claims("wu2020")
    parts = {id.split(".")[1] for id in found}
    assert (
        parts
        == {
            "theorem1",
            "kappa",
            "assumption3",
            "theorem2",
            "theorem3",
            "algorithm2",
            "psi",
            "lending",
            "within90",
            "forecast",
            "collaboration",
            *(f"fig{i}" for i in range(2, 12)),
        }
        and len(found) >= 73
    )


def test_the_claims_print_what_the_code_s_table_prints():
    found = statements.claims("wang2018")
    for i, row in enumerate(TABLE_1, start=1):
        assert found[f"wang2018.table1.row{i}.basic"].printed == row.printed_basic
        assert found[f"wang2018.table1.row{i}.advanced"].printed == row.printed_advanced
        assert (
            f"eps {row.epsilon}, q {row.sample_rate:g}, n {row.n_uploads} "
            in found[f"wang2018.table1.row{i}.basic"].says
        )


def test_every_row_says_what_it_measures_and_why_and_empirical_claims_cannot_be_refuted():
    found = [claim for paper in statements.papers() for claim in statements.claims(paper).values()]
    for claim in found:
        assert claim.says.endswith("?" if claim.kind == "question" else "."), claim.id
        assert claim.amended is None or re.match(r"2026-\d\d-\d\d: \w", claim.amended), claim.id
        assert claim.kind in ("claim", "question", "check"), claim.id
        waits = claim.kind == "claim" and claim.missing and not claim.measure  # for a run to come
        assert (claim.rule is None) == bool(claim.kind == "question" or waits), claim.id
        assert waits or claim.measure and claim.decided_by in ("quick", "paper"), claim.id
        if claim.rule:
            assert len(claim.because) > 5, claim.id
            name, options = rules.parse(claim.rule)
            assert claim.printed is not None or name != "digits", claim.id
            if re.search(r"AUC|baseline|Fig\. [3-6]", claim.says + claim.place):
                assert name not in ("bound", "claim_fails_if_attained"), claim.id


@pytest.mark.parametrize("paper", ["kanodia2020", "wang2018", "wu2020", "zhou2021"])
def test_every_claim_has_a_place_in_its_paper_and_one_of_a_sentence_its_fingerprint(paper):
    for claim in statements.claims(paper).values():
        assert claim.place.strip() == claim.place and len(claim.place) > 3, claim.id
        sentence = claim.fingerprint is not None
        assert claim.kind != "claim" or sentence or claim.cell, claim.id
        assert not sentence or re.fullmatch(r"[1-9]\d*:[0-9a-f]{64}", claim.fingerprint), claim.id


def test_only_a_claim_waits_or_is_repaired_and_says_what_is_missing_and_what_it_costs():
    every = statements.every_claim()
    for claim in every.values():
        assert claim.kind == "claim" or not (claim.out_of_reach or claim.repaired), claim.id
        for said in (claim.missing, claim.repaired, *(claim.out_of_reach or {}).values()):
            assert said is None or len(said) > 3, claim.id
        if claim.out_of_reach:
            command = claim.out_of_reach["command"]
            assert command.startswith(("ppkit ", "papermill ")), claim.id
        if claim.witness:
            rows = [f"{claim.paper}.{id}" for id in claim.witness["settings"].values()]
            assert len(rows) == len(set(rows)) >= 2 and set(rows) <= set(every), claim.id
            assert claim.id in rows or claim.witness["choice"], claim.id


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
            assert len(said) >= 2 and said <= set(rules.DECIDED), row.id
        if plain == rules.OUT_OF_REACH:
            assert row.verdict == f"out of reach: {row.out_of_reach['what']}", row.id
        if plain == rules.UNDECIDED:
            assert row.missing or row.detail, row.id


def test_a_cause_is_a_finding_of_the_same_paper_and_every_finding_has_rows():
    found = {finding.id: finding for finding in statements.findings()}
    rows = [
        claim
        for paper in statements.papers()
        for claim in statements.claims(paper).values()
        if claim.cause
    ]
    assert {(claim.cause, claim.paper) for claim in rows} == {
        (id, finding.paper) for id, finding in found.items()
    }
    right = [finding for finding in found.values() if finding.the_paper_is == "right"]
    assert 15 <= len(found) <= 25 and 3 * len(right) >= len(found)
    for finding in found.values():
        assert (ROOT / "figures" / f"{finding.picture}.png").exists(), finding.id
        assert (ROOT / "notebooks" / f"{finding.lesson}.ipynb").exists(), finding.id
        assert not finding.title.endswith(".") and finding.text.endswith("."), finding.id
    assert set(statements.titles()) == set(statements.papers())


def test_a_row_that_lacks_a_field_is_refused_with_its_id(claims_of):
    with pytest.raises(ValueError, match=r"made2026\.toml, claim 'a\.b': .*'kind'"):
        claims_of()


@pytest.fixture
def claims_of(tmp_path, monkeypatch):
    """The claims of a paper that has the one row a.b with the given fields, beside files that are
    no papers."""

    def claims_of(**table):
        lines = [
            f"{key} = {_toml(value)}"
            for key, value in {"place": "Fig. 1", "says": "It is.", **table}.items()
        ]
        (tmp_path / "made2026.toml").write_text("\n".join(["[a.b]", *lines]))
        for other in ("findings.toml", "made2026.choices.toml"):
            (tmp_path / other).write_text("")
        monkeypatch.setattr(statements, "folder", lambda: tmp_path)
        assert statements.papers() == ["made2026"]
        return statements.claims("made2026")

    return claims_of


def _toml(value) -> str:
    """A text, a number, a list or a dict as TOML, on one line."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(key)} = {_toml(of)}' for key, of in value.items())} }}"
    return json.dumps(value)


MEASURED = {"measure": "AUC", "decided_by": "quick"}
AT_LEAST = {**MEASURED, "rule.at_least": 0.5, "because": "as said"}


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
    claims_of(kind="claim", **waits)
    [row] = ledger.merge([])
    assert (row.verdict, row.alone, row.note) == (
        verdict,
        "not tried",
        "no notebook of this run recorded it",
    )
    claims_of(kind="check", **waits)
    assert ledger.merge([])[0].verdict == "not tried"  # only claims have verdicts


@pytest.mark.parametrize(
    "given, why",
    [
        (
            {"missing": "a run", "out_of_reach": {"what": "a", "price": "b", "command": "c"}},
            "says both what is missing and what is out of reach",
        ),
        ({"out_of_reach": {"what": "a", "price": "b"}}, "out_of_reach has what, price and command"),
        ({"open": "depends on the data"}, "'open'"),
        ({"to_come": "a canary"}, "'to_come'"),
        ({"where": "Fig. 1"}, "'where'"),
        ({"rule": {"within": {}}}, "the rule within needs the option abs or rel"),
    ],
)
def test_a_claim_says_one_thing_that_it_waits_for_and_no_field_that_is_gone(claims_of, given, why):
    with pytest.raises(ValueError, match=rf"made2026\.toml, claim 'a\.b': .*{why}"):
        claims_of(kind="claim", **given)


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
        ValueError, match="no claims for paper 'wang2019': there are kanodia2020, wang2018"
    ):
        Ledger("wang2019", notebook="x", profile="quick")


def test_few_positives_are_decided_by_their_interval_and_say_so(book):
    sure = book.record(
        "intro.standalone", [0.05, 0.05], data=FORMULA, positives=500, halfwidth=0.06
    )
    unsure = book.record(
        "intro.standalone", [0.05, 0.05], data=FORMULA, positives=66, halfwidth=0.06
    )
    worse = book.record(
        "intro.standalone", [-0.2, -0.2], data=FORMULA, positives=66, halfwidth=0.06
    )
    assert [(row.verdict, row.detail) for row in (sure, unsure, worse)] == [
        ("reproduced", ""),
        ("undecided", "66 positives"),
        ("not reproduced", ""),
    ]
    assert wording.marked(unsure) == "≈ undecided (66 positives)"
    assert "66 positives: decided by the interval" in unsure.note
    scattered = [0.05, -0.04, -0.01]  # no result, and no verdict either: the interval holds both
    row = book.record("intro.standalone", scattered, data=FORMULA, positives=66, halfwidth=0.06)
    assert (row.verdict, row.alone, row.detail) == ("undecided", "undecided", "66 positives")


@pytest.mark.parametrize(
    "halfwidth, text", [(0.06, "0.060"), (0.0005, "0.001"), (0.000312, "0.00031")]
)
def test_a_half_width_never_prints_as_zero(book, halfwidth, text):
    row = book.record(
        "intro.standalone", [0.05, 0.05], data=FORMULA, positives=66, halfwidth=halfwidth
    )
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
    assert ledger.best([paper], [quick]) == [quick]  # a formula is the same in every profile
    assert ledger.best([quick], [paper]) == [paper]
    assert ledger.best([], [untried]) == ledger.best([untried], [untried]) == [untried]


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


TURN = Turn(choice="first_step", at="2.0", verdict="reproduced", value=0.25)
TRIED = Robustness(
    main="reproduced",
    main_value=0.5,
    singles=[3, 4],
    combinations=[4, 5],
    least=0.125,
    largest=0.5,
    turns=[TURN],
    owned_by={"clip": 0.125, "first_step": 0.5},
)
MADE = Row(
    id="made2026.a",
    kind="claim",
    paper="made2026",
    place="Fig. 1",
    says="It is.",
    verdict="reproduced",
    alone="reproduced",
    data="simulated: 9 rows",
    standing="rerunnable",
    profile="paper",
)


@pytest.mark.parametrize(
    "main, said",
    [
        ("reproduced", "same in 7 of 9 settings"),
        ("not reproduced", "at the settings' size: not reproduced, same in 7 of 9 settings"),
    ],
)
def test_robustness_says_size_count_turns_and_which_choice_owns_what(main, said):
    row = replace(MADE, robustness=replace(TRIED, main=main), other_data={"real": [3, 4]})
    assert wording.robust(row) == (
        f"{said}; ours between 0.125 and 0.5; turns at first step 2.0 (reproduced); turns in 1 of "
        "5 combinations; variation: first step 50%, clip 12%; on other data (real): same in 3 of 4"
    )
    hard = replace(TRIED, main=main, singles=[4, 4], combinations=[5, 5], turns=[], owned_by={})
    robust = wording.robust(replace(MADE, robustness=hard))
    assert robust == f"{said.replace('7', '9')}; ours between 0.125 and 0.5"
    small = "1" if main == "reproduced" else "2"
    larger = [replace(TURN, at=f"first step {small}")]
    said_larger = wording.robust(replace(MADE, robustness=replace(hard, larger=larger)))
    assert said_larger == f"{robust}; at the paper's size: reproduced at first step {small}"


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


@pytest.mark.parametrize(
    "verdict, data, standing, mark",
    [
        ("reproduced", "formula", "rerunnable", "●"),
        ("reproduced", "real, unverified: 3,672 rows (paper)", "complete", "●"),
        ("reproduced", "stand-in: 284,807 rows", "rerunnable", "◐"),
        ("reproduced", "simulated: 699,998 rows", "rerunnable", "◐"),
        ("reproduced", "real subset: 44,212 of 284,807 rows", "partial", "◐"),
        ("not reproduced", "stand-in: 9 rows", "rerunnable", "○"),
        ("refuted", "stand-in: 9 rows", "rerunnable", "✕"),
        ("depends on clip", "formula", "rerunnable", "◇"),
        ("undecided", "formula", "rerunnable", "≈"),
        ("out of reach: all cards", "formula", "rerunnable", "□"),
        ("not tried", None, None, "·"),
        ("answered", "formula", "rerunnable", "?"),
        ("passed", "formula", "rerunnable", "✓"),
        ("failed", "formula", "rerunnable", "!"),
    ],
)
def test_the_mark_says_whether_the_data_is_the_paper_s_own(verdict, data, standing, mark):
    row = replace(MADE, verdict=verdict, data=data, standing=standing)
    assert wording.symbol(row) == mark and wording.marked(row) == f"{mark} {verdict}"


def test_what_stands_beside_a_verdict_stands_beside_that_of_its_own_data_only():
    row = replace(MADE, verdict="not reproduced", alone="not reproduced", detail="better")
    assert wording.verdict(row) == "not reproduced (better)"
    turned = replace(row, verdict="depends on clip")
    assert wording.verdict(turned) == "depends on clip"
    assert wording.verdict_alone(turned) == "not reproduced (better)"
    assert wording.verdict_alone(turned.results[0]) == "not reproduced (better)"


def test_the_reason_of_a_row_that_depends_shows_both_runs():
    seen = {"value": 0.5, "verdict": "reproduced", "data": "formula"}
    other = {"setting": "clip 10", "value": None, "verdict": "not reproduced"}
    witness = [Sighting(setting="clip 1", **seen), Sighting(**seen | other)]
    row = replace(MADE, verdict="depends on clip", depends_on=["clip"], witness=witness)
    assert wording.reason(row) == (
        "on this data: reproduced; clip 1: 0.5 (reproduced) against clip 10: no number "
        "(not reproduced)"
    )


def test_what_we_computed_from_printed_numbers_says_how():
    row = replace(MADE, computed=".0135", how=".8772 - .8637")
    assert wording.printed(row) == ".0135 (.8772 - .8637)"
    assert wording.printed(replace(MADE, printed=".8637")) == ".8637"
    assert wording.printed(MADE) == ""


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
