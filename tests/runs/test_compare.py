"""`ppkit compare`: whether two runs conclude the same, by each row's own rule and spread."""

from dataclasses import replace

import pytest

from ppkit.runs import compare, json_files
from ppkit.verdicts import ledger, rows, rules
from ppkit.verdicts.rows import Row

FOUND = {
    "data": "stand-in: 9 rows",
    "standing": "rerunnable",
    "profile": "quick",
    "verdict": rules.REPRODUCED,
    "alone": rules.REPRODUCED,
    "possible": [rules.REPRODUCED],
    "value": 0.5,
    "spread": 0.01,
}


def row(place: int = 0, **other) -> Row:
    """One of the ledger's rows, reproduced: .5 with a spread of .01 over seeds, or with `other`."""
    claims = [one for one in ledger.merge([]) if one.verdict == rules.NOT_TRIED]
    return replace(claims[place], **(FOUND | other))


def as_rule_says(verdict: str, **other) -> dict:
    decided = [verdict] if verdict in rules.VERDICTS and verdict != rules.UNDECIDED else []
    return {"verdict": verdict, "alone": verdict, "possible": decided} | other


SAME, WITHIN, MOVED = compare.SAME, compare.WITHIN, compare.MOVED
WEAKER, TURNED = compare.WEAKER, compare.TURNED
NOT_REPRODUCED, REFUTED = as_rule_says(rules.NOT_REPRODUCED), as_rule_says(rules.REFUTED)
OPEN = [rules.REPRODUCED, rules.NOT_REPRODUCED]


@pytest.mark.parametrize(
    "first, second, outcome",
    [
        ({}, {}, SAME),
        ({"spread": None}, {"spread": None}, SAME),
        # twice the root of .01^2 + .01^2 is .0283
        ({}, {"value": 0.528}, WITHIN),
        ({}, {"value": 0.472}, WITHIN),
        ({}, {"value": 0.529}, MOVED),
        ({"spread": 0.0}, {"value": 0.519}, WITHIN),
        ({"spread": 0.0}, {"value": 0.521}, MOVED),
        # a formula, or one seed: nobody knows what chance would do
        ({"spread": None}, {"spread": None, "value": 0.5 + 1e-15}, MOVED),
        ({}, {"spread": None, "value": 0.501}, MOVED),
        ({"value": None, "spread": None}, {}, MOVED),
        # another verdict, however near
        ({}, NOT_REPRODUCED, TURNED),
        (NOT_REPRODUCED, {}, TURNED),
        (NOT_REPRODUCED, REFUTED, TURNED),
        ({}, NOT_REPRODUCED | {"possible": []}, TURNED),
        ({"possible": []}, NOT_REPRODUCED | {"possible": []}, TURNED),
        # one that decides, one that does not
        ({}, NOT_REPRODUCED | {"possible": OPEN}, WEAKER),
        ({"possible": OPEN}, NOT_REPRODUCED, WEAKER),
        ({}, as_rule_says(rules.UNDECIDED), WEAKER),
        (as_rule_says(rules.UNDECIDED), REFUTED, WEAKER),
        (as_rule_says(f"{rules.NOT_TRIED}: needs 9 rows", value=None), {}, WEAKER),
        # what is said beside it is no verdict
        (NOT_REPRODUCED, NOT_REPRODUCED | {"detail": rules.DIRECTION}, SAME),
    ],
)
def test_a_row_is_judged_by_its_verdict_then_by_its_spread(first, second, outcome):
    [compared] = compare.compare([row(**first)], [row(**second)])
    assert compared.outcome == outcome


def test_what_settings_or_other_data_make_of_a_verdict_is_not_compared():
    """A single run has no settings: what counts is what the rule says of its data."""
    reference = row(verdict="depends on clip", depends_on=["clip"])
    [compared] = compare.compare([reference], [row()])
    assert compared.outcome == SAME


def test_only_rows_that_both_measured_are_compared_in_the_order_of_the_first():
    untried = {"data": None, "value": None} | as_rule_says(rules.NOT_TRIED)
    first = [row(2), row(0), row(1), row(3, **untried)]
    second = [row(0), row(1, **untried), row(2), row(3), row(4)]
    compared = compare.compare(first, second)
    assert [(one.first.id, one.second.id) for one in compared] == [
        (row(place).id, row(place).id) for place in (2, 0)
    ]


# the command


def run(project, name: str, *own: Row) -> None:
    """A run of these rows; all others of the ledger were not tried."""
    folder = project.folder / "runs" / name
    folder.mkdir(parents=True)
    json_files.write_json(folder / "run.json", {"notebooks": {}})
    rows.write(folder / "claims.json", ledger.merge([*own]), run={}, pictures={})


@pytest.mark.parametrize(
    "second, code, said",
    [
        ({}, 0, "2 rows in both: 2 same digits."),
        ({"value": 0.51}, 0, "2 rows in both: 1 same digits, 1 within its spread."),
        ({"value": 0.6}, 0, "1 same digits, 1 same verdict, beyond its spread."),
        (as_rule_says(rules.UNDECIDED), 0, "1 same digits, 1 decided in one run only."),
        (NOT_REPRODUCED, 1, "2 rows in both: 1 same digits, 1 verdict turned."),
    ],
)
def test_the_exit_code_is_1_where_a_verdict_turned_only(ppkit, project, second, code, said):
    run(project, "a", row(0), row(1))
    run(project, "b", row(0, **second), row(1))
    ended, out, _ = ppkit("compare", "a", "b")
    assert ended == code and out.rstrip().endswith(said)


def test_a_row_that_moved_or_turned_is_shown_with_both_numbers(ppkit, project, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    run(project, "a", row(0), row(1), row(2), row(3))
    turned = as_rule_says(rules.NOT_REPRODUCED, detail=rules.DIRECTION, value=0.7)
    run(project, "b", row(0, value=0.6), row(1, **turned), row(2, value=0.51), row(3))
    _, out, _ = ppkit("compare", "a", "b")
    shown = {line.split()[0]: line for line in out.splitlines() if "stand-in" in line}
    assert [*shown] == [row(0).id, row(1).id]
    assert "reproduced, 0.50 (s.d. 0.01) (stand-in: 9 rows, quick)" in shown[row(0).id]
    assert shown[row(0).id].rstrip().endswith("same verdict, beyond its spread")
    assert "not reproduced (the direction holds), 0.70 (s.d. 0.01)" in shown[row(1).id]
    assert shown[row(1).id].rstrip().endswith("verdict turned")


def test_a_run_is_compared_with_the_reference_in_either_order(ppkit, project):
    run(project, "a", row(0))
    rows.write(
        project.folder / "figures" / "claims.json",
        ledger.merge([row(0, **NOT_REPRODUCED)]),
        run={},
        pictures={},
    )
    for names in (("reference", "a"), ("a", "reference")):
        code, out, _ = ppkit("compare", *names)
        assert code == 1 and out.rstrip().endswith("1 rows in both: 1 verdict turned.")
    assert ppkit("compare", "reference", "reference")[0] == 0


@pytest.mark.parametrize(
    "names, sentence",
    [
        (("a", "b"), "a and b measured no row in common"),
        (("a", "c"), "unknown run 'c': there are a, b, stopped"),
        (("a", "stopped"), "run stopped has no verdicts of its own: it was stopped before its end"),
        (("reference", "a"), "there is no figures/claims.json yet, `ppkit reference RUN` makes"),
    ],
)
def test_what_cannot_be_compared_is_refused(ppkit, project, names, sentence):
    run(project, "a", row(0))
    run(project, "b", row(1))
    run(project, "stopped")
    (project.folder / "runs" / "stopped" / "claims.json").unlink()
    code, out, said = ppkit("compare", *names)
    assert (code, out) == (2, "") and said.startswith(f"ppkit: {sentence}")
