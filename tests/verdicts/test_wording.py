"""A row in words: its mark, its verdict, why, and how robust it is."""

from dataclasses import replace

import pytest
from made_rows import MADE, TRIED, TURN

from ppkit.verdicts import statements, wording
from ppkit.verdicts.rows import Sighting


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
        f"{said}; ours between 0.125 and 0.5; turns at first step 2.0 (reproduced), tried at the "
        "small size only; turns in 1 of 5 combinations; variation: first step 50%, clip 12%; on "
        "other data (real): same in 3 of 4"
    )
    hard = replace(TRIED, main=main, singles=[4, 4], combinations=[5, 5], turns=[], owned_by={})
    robust = wording.robust(replace(MADE, robustness=hard))
    assert robust == f"{said.replace('7', '9')}; ours between 0.125 and 0.5"
    small = "1" if main == "reproduced" else "2"
    larger = [replace(TURN, at=f"first step {small}")]
    said_larger = wording.robust(replace(MADE, robustness=replace(hard, larger=larger)))
    assert said_larger == f"{robust}; at the paper's size: reproduced at first step {small}"


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


def test_a_finding_loses_its_mark_with_a_claim_that_depends_on_the_data():
    finding = statements.findings()[0]
    row = replace(MADE, cause=finding.id, verdict="refuted")
    turned = replace(row, verdict="depends on the data")
    assert wording.mark(finding, [row]) == wording.MARKS[finding.the_paper_is]
    assert wording.mark(finding, [row, turned]) == "◇"
    assert wording.mark(finding, [row, replace(turned, cause="another")]) != "◇"
    assert wording.mark(finding, [row, replace(turned, kind="question")]) != "◇"
