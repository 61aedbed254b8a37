"""The ledger refuses what it cannot decide, writes what it decided, and keeps the better of two
runs."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from ppkit import datasets, in_words, ledger, rules
from ppkit.dpstgd import TABLE_1
from ppkit.ledger import FORMULA, Ledger

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def book():
    return Ledger("wang2018", notebook="wang2018", profile="quick")


def test_every_cell_of_table_1_and_every_part_of_the_paper_has_a_claim():
    ids = set(ledger.claims("wang2018"))
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
    found = ledger.claims("kanodia2020")
    parts = {id.split(".")[1] for id in found}
    assert (
        parts == {"data", "attack", "clip", "noise", "price", "federation", "rule", "library"}
        and len(found) >= 56
    )


def test_every_part_of_wu2020_has_a_claim():
    found = ledger.claims("wu2020")
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
    found = ledger.claims("wang2018")
    for i, row in enumerate(TABLE_1, start=1):
        assert found[f"wang2018.table1.row{i}.basic"].printed == row.printed_basic
        assert found[f"wang2018.table1.row{i}.advanced"].printed == row.printed_advanced
        assert (
            f"eps {row.epsilon}, q {row.sample_rate:g}, n {row.n_uploads} "
            in found[f"wang2018.table1.row{i}.basic"].says
        )


def test_every_row_says_what_it_measures_and_why_and_empirical_claims_cannot_be_refuted():
    found = [claim for paper in ledger.papers() for claim in ledger.claims(paper).values()]
    for claim in found:
        assert claim.where and claim.says.endswith("?" if claim.kind == "question" else "."), (
            claim.id
        )
        assert claim.amended is None or re.match(r"2026-\d\d-\d\d: \w", claim.amended), claim.id
        assert claim.kind in ("claim", "question", "check"), claim.id
        no_rule = claim.kind == "question" or claim.to_come is not None
        assert (claim.rule is None) == no_rule, claim.id
        assert claim.to_come or claim.measure and claim.decided_by in ("quick", "paper"), claim.id
        if claim.rule:
            assert len(claim.because) > 5, claim.id
            name, options = rules.parse(claim.rule)
            assert claim.printed is not None or name != "digits", claim.id
            if re.search(r"AUC|baseline|Fig\. [3-6]", claim.says + claim.where):
                assert name not in ("bound", "claim_fails_if_attained"), claim.id


def test_a_cause_is_a_finding_of_the_same_paper_and_every_finding_has_rows():
    found = {finding.id: finding for finding in ledger.findings()}
    rows = [
        claim for paper in ledger.papers() for claim in ledger.claims(paper).values() if claim.cause
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
    assert set(ledger.titles()) == set(ledger.papers())


def test_a_row_that_lacks_a_field_is_refused_with_its_id(claims_of):
    with pytest.raises(ValueError, match=r"made2026\.toml, claim 'a\.b': .*'kind'"):
        claims_of()


@pytest.fixture
def claims_of(tmp_path, monkeypatch):
    """The claims of a paper that has the one row a.b with the given fields, beside files that are
    no papers."""

    def claims_of(**table):
        lines = [
            f"{key} = {json.dumps(value)}"
            for key, value in {"where": "Fig. 1", "says": "It is.", **table}.items()
        ]
        (tmp_path / "made2026.toml").write_text("\n".join(["[a.b]", *lines]))
        for other in ("findings.toml", "made2026.choices.toml"):
            (tmp_path / other).write_text("")
        monkeypatch.setattr(ledger, "CLAIMS", tmp_path)
        assert ledger.papers() == ["made2026"]
        return ledger.claims("made2026")

    return claims_of


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
    assert recorded(claims_of, value, kind="check", **AT_LEAST).verdict == verdict


@pytest.mark.parametrize("value, here", [(0.6, "reproduced"), (0.4, "direction only")])
def test_an_open_row_stays_open_and_says_what_the_rule_says_here(claims_of, value, here):
    row = recorded(claims_of, value, kind="claim", open="depends on the data", **AT_LEAST)
    assert (row.verdict, row.alone) == ("open: depends on the data", here)
    assert in_words.reason(vars(row)).startswith(f"on this data: {here}")


def test_what_is_to_come_cannot_be_recorded_and_says_why_it_is_not_tried(claims_of):
    with pytest.raises(ValueError, match=r"a\.b is to come, says made2026\.toml"):
        recorded(claims_of, 1.0, kind="claim", to_come="a canary")
    [row] = ledger.merge([])
    assert (row["verdict"], row["note"]) == ("not tried", "to come: a canary")


def test_an_amendment_stands_in_the_reason_of_its_row(claims_of):
    row = recorded(
        claims_of, 0.6, kind="claim", amended="2026-11-22: asked for .5 before", **AT_LEAST
    )
    assert in_words.reason(vars(row)).endswith("amended 2026-11-22: asked for .5 before")


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
    written = json.loads((tmp_path / "claims/wang2018.json").read_text())
    assert [entry["id"] for entry in written] == [
        "wang2018.table1.row5.basic",
        "wang2018.model.parameters",
    ]
    keys = (
        "id kind paper where says cause measure printed computed how cell headline figure amended "
        "reply value spread rule verdict alone possible data standing profile notebook note also "
        "firmness"
    ).split()
    assert list(written[0]) == keys


def test_the_data_of_a_row_is_the_data_set_s_own_word(book):
    data = datasets.load("transactions", rows=2_000)
    row = book.record("data.features", data.X.shape[1], data=data)
    assert row.data == data.source == f"simulated: {data.n_rows:,} rows"
    with pytest.raises(
        ValueError, match="data must be a Dataset from ppkit.datasets.load, or FORMULA, got str"
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
            ValueError, match="data must be a Dataset from ppkit.datasets.load, or FORMULA"
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
    assert (sure.verdict, unsure.verdict, worse.verdict) == (
        "reproduced",
        "undecided: 66 positives",
        "not reproduced",
    )
    assert "66 positives: decided by the interval" in unsure.note
    scattered = [0.05, -0.04, -0.01]  # no result, and no verdict either: the interval holds both
    row = book.record("intro.standalone", scattered, data=FORMULA, positives=66, halfwidth=0.06)
    assert row.verdict == "undecided: 66 positives"


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
    rows = ledger.merge([vars(book._rows["wang2018.model.parameters"])])
    assert [row["id"] for row in rows] == [
        id for paper in ledger.papers() for id in ledger.claims(paper)
    ]
    assert {row["verdict"] for row in rows if row["id"] != "wang2018.model.parameters"} == {
        "not tried"
    }
    with pytest.raises(ValueError, match="no claim has the id 'nobody.said'"):
        ledger.merge([{"id": "nobody.said"}])


def test_the_reference_prefers_decided_then_paper_then_new(claims_of):
    claims_of(kind="claim", **AT_LEAST)
    [untried] = ledger.merge([])

    def row(alone, profile, value, data="simulated"):
        found = dict(data=data, standing="rerunnable", note="")
        return untried | found | dict(verdict=alone, alone=alone, profile=profile, value=value)

    quick, paper = row("reproduced", "quick", 1), row("not reproduced", "paper", 2)
    for old, new in ((quick, paper), (paper, quick), (paper, untried)):
        assert ledger.best([old], [new]) == [paper]
    assert ledger.best([quick], [row("refuted", "quick", 3)])[0]["value"] == 3
    quick, paper = (row("reproduced", profile, 1, "formula") for profile in ("quick", "paper"))
    assert ledger.best([paper], [quick]) == [quick]  # a formula is the same in every profile
    assert ledger.best([quick], [paper]) == [paper]
    assert ledger.best([], [untried]) == ledger.best([untried], [untried]) == [untried]


def test_what_was_a_claim_in_its_run_and_is_a_question_now_is_answered(claims_of):
    claims_of(kind="question", says="Is it?", **MEASURED)
    [untried] = ledger.merge([])
    old = {"kind": "claim", "says": "It is.", "rule": "at_least", "choices": [], "run": "a"}
    old |= {"verdict": "reproduced", "alone": "reproduced", "possible": ["reproduced"]}
    old |= {"data": "stand-in: 9 rows", "standing": "rerunnable", "profile": "paper", "value": 1.0}
    other = ledger.results(untried | old)[0] | {"standing": "partial", "alone": "not tried: needs"}
    [row] = ledger.best([untried | old], [untried | old | {"also": [other]}])
    found = ("kind", "says", "rule", "verdict", "alone", "possible", "value", "run")
    answered = ["question", "Is it?", None, "answered", "answered", [], 1.0, "a"]
    assert [row[name] for name in found] == answered
    assert row["also"][0]["alone"] == "not tried: needs" and "choices" not in row


@pytest.mark.parametrize(
    "main, said",
    [
        ("reproduced", "same in 7 of 9 settings tried; turns at first step 2.0 (reproduced)"),
        (
            "not reproduced",
            "at the settings' size: not reproduced, same in 7 of 9 settings tried; "
            "elsewhere first step 2.0 (reproduced)",
        ),
    ],
)
def test_a_verdict_is_not_said_to_turn_into_itself(main, said):
    turn = {"choice": "first_step", "at": "2.0", "verdict": "reproduced"}
    one = {"tried": 9, "same": 7, "turns": [turn], "together": 0, "main": main}
    row = {"firmness": one | {"other_data": {"real": [3, 4]}}, "alone": "reproduced"}
    assert in_words.firm(row) == f"{said}; on other data (real): same in 3 of 4"


def test_the_scoreboard_counts_claims_and_causes_and_sets_questions_apart():
    def row(verdict, kind="claim", cause=None, id="a"):
        said = {"id": id, "paper": "p", "kind": kind, "cause": cause, "verdict": verdict}
        return said | {"data": "simulated: 9 rows", "standing": "rerunnable", "profile": "paper"}

    rows = [
        row("refuted", cause="c"),
        row("refuted", cause="c"),
        row("refuted", id="b"),
        row("not reproduced (better)"),
        row("reproduced"),
        row("reproduced") | {"data": "formula"},
        row("not reproduced: the proof has a gap"),
        row("undecided: 28 positives"),
        row("open: depends on the data"),
        row("depends on the data"),
        row("not tried"),
        row("answered", "question"),
        row("not tried", "question"),
        row("passed", "check"),
    ]
    assert ledger.scoreboard(rows).loc["p"].to_dict() == {
        "reproduced": 1,
        "reproduced on other data": 1,
        "not reproduced": 2,
        "refuted": 3,
        "undecided": 1,
        "depends on": 1,
        "open": 1,
        "not tried": 1,
        "causes of refuted": 2,
        "questions": 2,
        "checks": 1,
        "decided on": "formula; simulated: 9 rows, paper profile",
    }
    assert in_words.counted(rows[:5]) == (
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
        ("direction only", "formula", "rerunnable", "◔"),
        ("not reproduced (better)", "stand-in: 9 rows", "rerunnable", "○"),
        ("refuted", "stand-in: 9 rows", "rerunnable", "✕"),
        ("open: x", "formula", "rerunnable", "□"),
        ("not tried", None, None, "·"),
    ],
)
def test_the_mark_says_whether_the_data_is_the_paper_s_own(verdict, data, standing, mark):
    row = {"verdict": verdict, "data": data, "standing": standing}
    assert in_words.symbol(row) == mark and in_words.marked(row) == f"{mark} {verdict}"


def test_what_we_computed_from_printed_numbers_says_how():
    row = {"printed": None, "computed": ".0135", "how": ".8772 - .8637"}
    assert in_words.printed(row) == ".0135 (.8772 - .8637)"
    assert in_words.printed({"printed": ".8637", "computed": None}) == ".8637"
    assert in_words.printed({"printed": None, "computed": None}) == ""


def test_values_keep_their_seeds(book):
    row = book.record("headline.improves", np.array([0.01, 0.03]), data=FORMULA)
    assert row.value == pytest.approx(0.02) and row.spread == pytest.approx(
        np.std([0.01, 0.03], ddof=1)
    )


def test_the_picture_of_a_row_is_the_claim_s_own_as_it_is_now():
    rows = ledger.merge([])
    stale = [{**row, "figure": "gone"} for row in rows]
    assert {row["id"]: row["figure"] for row in ledger.best(stale, stale)} == {
        claim.id: claim.figure
        for paper in ledger.papers()
        for claim in ledger.claims(paper).values()
    }


def test_a_row_beside_the_reference_says_how_firm_the_reference_is(book, monkeypatch):
    firmness = {"tried": 4, "same": 3, "turns": [], "together": 1, "main": "reproduced"}
    kept = {row["id"]: row for row in ledger.reference()}
    rows = [
        kept["wang2018.table1.row5.basic"] | {"alone": "reproduced", "firmness": firmness},
        kept["wang2018.table1.row5.advanced"] | {"firmness": None, "unweighed": "", "also": []},
    ]
    monkeypatch.setattr(ledger, "reference", lambda: rows)
    book.record("table1.row5.basic", 18.5, data=FORMULA)
    book.record("table1.row5.advanced", 2.35, data=FORMULA)
    firm, other = book.beside_reference()["firmness"]
    assert (firm, other) == (in_words.firm(rows[0]), in_words.firm(rows[1])) and firm


def test_a_table_of_verdicts_is_short_and_names_the_verdict_that_counts(book, monkeypatch):
    untried = {row["id"]: row for row in ledger.merge([])}

    def kept(verdict, profile, id):
        return untried[f"wang2018.{id}"] | {"verdict": verdict, "profile": profile}

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


@pytest.fixture
def kept(monkeypatch):
    """A reference of five rows, two of which head their paper."""

    def row(id, notebook, verdict, headline, **about):
        own = {"id": f"{notebook[:8]}.{id}", "paper": notebook[:8], "notebook": notebook}
        row = {"says": "It is.", "printed": "1.5", "computed": None, "value": 1.0, "spread": None}
        row |= {"data": "formula", "standing": "rerunnable", "profile": "quick"}
        return row | own | {"verdict": verdict, "headline": headline} | about

    on_stand_in = {"data": "stand-in: 9 rows", "profile": "paper", "printed": None}
    rows = [
        row("a.b", "zhou2021_dial", "refuted", True),
        row("a.c", "zhou2021_dial", "open: x", True, **on_stand_in),
        row("a.d", "zhou2021_method", "reproduced", False),
        row("a.e", "zhou2021_method", "reproduced", False, **on_stand_in),
        row("a.b", "wang2018", "reproduced", False),
    ]
    monkeypatch.setattr(ledger, "reference", lambda: rows)


def test_the_answer_is_the_claims_that_head_a_paper(kept):
    answer = ledger.answer("zhou2021")
    assert [*answer.index] == ["a.b", "a.c"]
    assert [*answer.loc["a.b"]] == ["It is.", "1.5", "1", "✕ refuted", "formula"]
    open_on = ["It is.", "", "1", "□ open: x", "stand-in: 9 rows, paper profile"]
    assert [*answer.loc["a.c"]] == open_on
    none = ledger.answer("wang2018")
    assert none.empty and [*none.columns] == [*answer.columns]
    with pytest.raises(ValueError, match="no claims for paper 'wang2019'"):
        ledger.answer("wang2019")


def test_the_summary_counts_the_rows_of_a_paper_or_of_one_record(kept):
    assert ledger.summary("zhou2021", "zhou2021_dial") == (
        "2 rows: 1 refuted, 1 open\ndecided on: formula (1); stand-in, paper profile (1)"
    )
    whole = ledger.summary("zhou2021")
    assert whole.startswith("4 rows: 1 reproduced, 1 reproduced on other data, 1 refuted, 1 open\n")
    with pytest.raises(
        ValueError, match="no row of the reference is of 'zhou2021' and notebook 'x'"
    ):
        ledger.summary("zhou2021", "x")
