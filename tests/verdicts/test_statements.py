"""The claims' files: every part of a paper has its claim, and a claim says all that it must."""

import re

import pytest
from house import ROOT

from ppkit.dpstgd import TABLE_1
from ppkit.verdicts import rules, statements


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
