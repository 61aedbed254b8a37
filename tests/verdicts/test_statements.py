"""The claims' files: every part of a paper has its claim, and a claim says all that it must."""

import json
import re

import pytest
from house import ROOT

from ppkit.dpstgd import TABLE_1
from ppkit.verdicts import pages, rules, statements


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
            "map",
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


WHOLE = {
    "kind": "claim",
    "printed": "1.26",
    "measure": "epsilon",
    "rule": "digits",
    "because": "it is printed",
    "decided_by": "quick",
}


@pytest.mark.parametrize(
    "given, why",
    [
        ({"kind": "Claim"}, "kind must be one of claim, question, check, got 'Claim'"),
        ({"kind": "question"}, "a question has no rule"),
        ({"kind": "check", "headline": True}, "only a claim has headline"),
        ({"kind": "check", "existence": True}, "only a claim has existence"),
        ({"rule": None}, "'rule' is missing: a claim has one of digits, "),
        ({"kind": "check", "rule": None}, "'rule' is missing: a check has one of digits, "),
        ({"rule": ["digits"]}, "rule must be a text in quotes or a table"),
        ({"because": None}, "'because' is missing"),
        ({"measure": None}, "'measure' is missing"),
        ({"decided_by": None}, "'decided_by' is missing"),
        ({"decided_by": "fast"}, "decided_by must be one of quick, paper, got 'fast'"),
        ({"printed": 1.26}, "printed must be a text in quotes, got 1.26"),
        ({"printed": "1.26%"}, "a printed number, .* got '1.26%'"),
        ({"printed": None}, "neither printed nor computed"),
        ({"computed": "1.2", "how": "1 + .2"}, "give one"),
        ({"printed": None, "computed": "1.2"}, "how, the expression that gives it"),
        ({"headline": "yes"}, "headline must be true or false"),
        ({"id": "x"}, "'id' is no field"),
        ({"cell": ["Table 1", "a", "b"]}, "cell names 'Table 1', and made2026.tables.toml has no"),
        ({"witness": {"a": "a.b"}}, "witness has a choice and its settings"),
        (
            {"witness": {"choice": "x", "settings": {"1": "a.c"}}},
            "a row of the witness must be one of a.b, got 'a.c'",
        ),
    ],
)
def test_a_row_that_does_not_say_what_its_verdict_rests_on_is_refused(claims_of, given, why):
    assert claims_of(**WHOLE)
    told = {name: value for name, value in (WHOLE | given).items() if value is not None}
    with pytest.raises(ValueError, match=rf"made2026\.toml, claim 'a\.b': .*{why}"):
        claims_of(**told)


@pytest.fixture
def paper_of(tmp_path, monkeypatch):
    """The claims of a paper with these texts as its two files."""

    def paper_of(text: str, tables: str = ""):
        (tmp_path / "made2026.toml").write_text(text)
        (tmp_path / "made2026.tables.toml").write_text(tables)
        monkeypatch.setattr(statements, "folder", lambda: tmp_path)
        return statements.claims("made2026")

    return paper_of


@pytest.mark.parametrize("text", ['[a.b]\nkind = "claim"\n', "[a.b]\n"])
def test_a_table_that_says_nothing_is_refused_and_no_claim_is_lost(paper_of, text):
    with pytest.raises(ValueError, match="made2026.toml, claim 'a.b': 'says' is missing"):
        paper_of(text)


def test_what_stands_outside_of_a_claim_is_refused(paper_of):
    with pytest.raises(ValueError, match="made2026.toml: 'title' stands outside of a claim"):
        paper_of('title = "A paper"\n')


@pytest.mark.parametrize(
    "cell, why",
    [
        (["Table 1", "a", "NN"], ""),
        (["Table 1"], ""),
        (["Table 1", "a"], "cell must be .*the rows a and the columns NN"),
        (["Table 1", "b", "NN"], "cell must be .*the rows a and the columns NN"),
        (["Table 2", "a", "NN"], "cell names 'Table 2', and made2026.tables.toml has Table 1"),
        (["Table 1", "a", "SPNN"], "cell must be .*the rows a and the columns NN"),
    ],
)
def test_the_cell_of_a_claim_is_one_of_its_paper_s_tables(paper_of, cell, why):
    tables = '["Table 1"]\ntitle = "x"\nnotebook = "made2026"\ncolumns = ["NN"]\n'
    rows = '[["Table 1".rows]]\nname = "a"\ncells = ["{}"]\n'
    lines = [f"{name} = {json.dumps(value)}" for name, value in (WHOLE | {"cell": cell}).items()]
    text = "\n".join(["[a.b]", 'place = "1"', 'says = "It is."', *lines])
    if why:
        with pytest.raises(ValueError, match=why):
            paper_of(text, tables + rows.format("1.26"))
    else:
        assert paper_of(text, tables + rows.format("1.26"))
        if len(cell) > 1:
            with pytest.raises(
                ValueError, match=r"printed is '1\.26', and its cell .* has '1\.27'"
            ):
                paper_of(text, tables + rows.format("1.27"))


def test_a_folder_of_claims_that_is_not_there_is_named(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text('[tool.ppkit]\nclaims = "claims"\n')
    monkeypatch.setenv("PPKIT_HOME", str(tmp_path))
    with pytest.raises(ValueError, match=r"\[tool.ppkit\], claims = 'claims': no folder "):
        statements.papers()


def test_a_paper_of_which_findings_say_nothing_has_its_key_and_no_sentence(claims_of):
    assert claims_of(**WHOLE)
    assert statements.titles() == statements.short_titles() == {"made2026": "made2026"}
    assert statements.outcomes() == {"made2026": ""} and statements.findings() == []
    line = pages.outcome([]).splitlines()[-1]
    assert line.startswith("- **made2026** ([made2026](docs/findings.md#made2026-made2026)). *Of 0")


def test_a_finding_that_lacks_a_field_is_refused_by_its_name(claims_of, tmp_path):
    assert claims_of(**WHOLE)
    (tmp_path / "findings.toml").write_text('[one]\ntitle = "It is so"\n')
    with pytest.raises(ValueError, match=r"findings\.toml, 'one': 'paper' is missing"):
        statements.findings()
