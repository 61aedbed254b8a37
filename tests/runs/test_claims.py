"""What `ppkit claims` prints."""

import io
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from house import ROOT

from ppkit import cli
from ppkit.runs import claims, json_files
from ppkit.verdicts import anchors, ledger, robustness, rows, rules, statements, wording
from ppkit.verdicts.rows import Result, Row, Sighting


@pytest.fixture
def ppkit(ppkit, project):
    """The command on a project of two notebooks."""
    project.add("00_start", "print(1)", parameters=None)
    project.add("01_paper", "print(SEED)")
    return ppkit


def put(folder: Path, every: list[Row], **about) -> None:
    """Write rows as a run's, or as the reference's."""
    folder.mkdir(parents=True, exist_ok=True)
    rows.write(folder / "claims.json", every, run={}, pictures={})
    if about:
        json_files.write_json(folder / "run.json", about)


def test_a_text_is_searched_for_the_sentences_that_claims_rest_on(ppkit, project, monkeypatch):
    said = "Noise hides which row it was, and nothing else."
    claim = statements.Claim(
        id="made2026.a",
        kind="claim",
        paper="made2026",
        place="2, sentence 1",
        says="It hides the row.",
        fingerprint=anchors.fingerprint(said),
    )
    other = replace(claim, id="made2026.b", fingerprint=anchors.fingerprint("It is not there."))
    monkeypatch.setattr(statements, "every_claim", lambda: {claim.id: claim})
    text = project.folder / "paper.txt"
    text.write_text(f"Before. NOISE hides which row it was, and no-\nthing else. {said[:9]}")
    code, told, _ = ppkit("claims", "--check-text", str(text))
    assert code == 0 and "1 of 1 sentences found." in told and "noise hides which row" in told
    monkeypatch.setattr(statements, "every_claim", lambda: {"a": claim, "b": other})
    code, told, _ = ppkit("claims", "--check-text", str(text))
    assert code == 1 and "1 of 2 sentences found." in told and "NOT FOUND" in told


@pytest.mark.parametrize(
    "content, why",
    [
        (b"\xff\xfe\x00", "is no text in UTF-8; of a PDF take the text out first"),
        (b"hello world", "has no sentence that a claim rests on"),
    ],
)
def test_a_file_that_is_no_text_of_a_paper_is_refused(ppkit, project, content, why):
    file = project.folder / "paper.txt"
    file.write_bytes(content)
    assert ppkit("claims", "--check-text", str(file)) == (2, "", f"ppkit: {file} {why}\n")


def untried_claims(paper: str = "") -> list[Row]:
    """Claims that nothing decided, and that miss nothing."""
    every = [row for row in ledger.merge([]) if row.kind == "claim"]
    return [row for row in every if row.verdict == rules.NOT_TRIED and row.id.startswith(paper)]


def in_place(row: Row) -> list[Row]:
    """All rows of the ledger, with this one in its place."""
    return [row if row.id == one.id else one for one in ledger.merge([])]


def decided(row: Row, verdict: str = rules.REPRODUCED, **found) -> Row:
    """A row with a verdict, on a formula if nothing else is said."""
    on = {"data": "formula", "standing": "rerunnable", "profile": "quick", "value": 14312.0}
    return replace(row, **({"verdict": verdict, "alone": verdict} | on | found))


def test_the_rows_that_begin_so_are_listed_as_wide_as_the_terminal(ppkit, project, monkeypatch):
    row = decided(untried_claims()[0], rules.NOT_REPRODUCED, detail=rules.BETTER)
    put(project.folder / "figures", in_place(row))
    monkeypatch.setenv("COLUMNS", "300")
    code, said, _ = ppkit("claims", "--rows", row.paper)
    assert code == 0 and row.id in said and "14,312" in said
    assert "○ not reproduced (better than printed)" in said
    assert f"One row in full: ppkit claims --rows {row.paper}." in said
    monkeypatch.setenv("COLUMNS", "90")
    code, said, _ = ppkit("claims", "--rows", "wu2020.psi")
    assert max(map(len, said.splitlines())) <= 90
    assert code == 0 and "wu2020.psi.sees_fraud" in said and row.id not in said
    listed = {line.split()[0] for line in said.splitlines() if line.strip().startswith("wu2020.")}
    assert listed == {one.id for one in ledger.merge([]) if one.id.startswith("wu2020.psi")}
    code, _, said = ppkit("claims", "--rows", "wu2021")
    assert code == 2 and "no row begins with 'wu2021': near it are wu2020." in said
    assert "; the papers are kanodia2020, wang2018" in said


def test_a_row_in_full_shows_what_was_found_on_other_data(ppkit, project, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    other = Result(
        alone=rules.REPRODUCED, value=7.0, data="real subset", standing="partial", profile="quick"
    )
    row = decided(untried_claims()[0], also=[other])
    put(project.folder / "figures", in_place(row))
    code, said, _ = ppkit("claims", "--rows", row.id)
    assert code == 0 and "◐ reproduced, ours 7 (real subset, quick)" in said


@pytest.mark.parametrize(
    "changed, told",
    [
        (["SEED"], "parameters were changed: choices are not weighed"),
        ([], "not tried at other settings"),
    ],
)
def test_the_claims_of_a_run_are_weighed_unless_its_parameters_were_changed(
    ppkit, project, monkeypatch, changed, told
):
    monkeypatch.setenv("COLUMNS", "300")
    [moved, *_] = [
        row
        for row in untried_claims()
        if any(one.moves(row.id) and not one.draw for one in robustness.choices())
    ]
    row = decided(moved, notebook="01_paper")
    about = {"notebooks": {"01_paper": {"changed": changed}}}
    put(project.folder / "runs" / "now", in_place(row), **about)
    code, said, _ = ppkit("claims", "now")
    assert (
        code == 0 and "claims were measured in run now." in said and "ppkit claims now --" in said
    )
    code, said, _ = ppkit("claims", "now", "--rows", row.id)
    [line] = [line for line in said.splitlines() if line.startswith("other settings")]
    assert code == 0 and line.split(maxsplit=2)[2].strip() == told


def test_claims_of_two_runs_are_compared_by_a_command_of_its_own(ppkit):
    code, _, said = ppkit("claims", "now", "--diff", "then")
    assert code == 2 and "No such option: --diff" in said


WITNESS = [
    Sighting(setting="seed 0", value=0.25, verdict=rules.REPRODUCED, data="stand-in: 9 rows"),
    Sighting(setting="seed 1", value=0.5, verdict=rules.NOT_REPRODUCED, data="stand-in: 9 rows"),
]


@pytest.fixture
def kept(project):
    """The rows of a reference: one of wu2020 that a choice turns and one that is reproduced, all
    others not tried."""
    found = {"data": "stand-in: 9 rows", "profile": "paper", "notebook": "wu2020", "value": 0.25}
    turned, reproduced, *_ = [decided(row, **found) for row in untried_claims("wu2020")]
    on = {"verdict": "depends on seed", "depends_on": ["seed"], "witness": WITNESS}
    turned = replace(turned, **on, headline=True)
    words = {"amended": "2026-11-22: .5 before", "how": ".8772 - .8637"}
    reproduced = replace(reproduced, **words, printed=None, computed=".0135")
    every = {row.id: row for row in ledger.merge([])}
    every |= {row.id: row for row in (turned, reproduced)}
    put(project.folder / "figures", list(every.values()))
    return turned, reproduced


def test_claims_say_in_short_what_came_out_and_how_to_ask_for_more(ppkit, kept):
    code, said, _ = ppkit("claims")
    claims = sum(row.kind == "claim" for row in ledger.merge([]))
    assert code == 0
    assert said.startswith(f"2 of {claims} claims were measured in figures/claims.json.\n")
    assert "Data: 2 stand-in. Profile: 2 paper.\n" in said
    one_line = " ".join(said.split())
    assert (
        "In all: ◐ 1 reproduced on other data, ◇ 1 that depend on a choice or the data, ≈ "
        in one_line
    )
    assert f"◇ {kept[0].short_id}" in said
    [line] = [line for line in said.splitlines() if line.startswith("wu2020 ")]
    assert "◐ 1 ◇ 1 " in line
    for option in ("--rows", "--turned"):
        assert f"ppkit claims {option}" in said
    assert max(len(line) for line in said.splitlines()) <= 100


def test_one_claim_is_shown_with_all_that_is_known_of_it(ppkit, kept, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    code, said, _ = ppkit("claims", "--rows", kept[1].id)
    lines = [re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in said.splitlines()]
    known = {line[0]: line[1].strip() for line in lines if len(line) == 2}
    claim = statements.claims("wu2020")[kept[1].id]
    assert code == 0 and lines[0] == [claim.id]
    assert (known["place"], known["the paper says"]) == (claim.place, claim.says)
    assert (known["computed"], known["ours"]) == (".0135 (.8772 - .8637)", "0.25")
    assert (known["verdict"], known["data"]) == ("◐ reproduced", "stand-in: 9 rows")
    assert (known["rule"], known["why that rule"]) == (wording.rule(claim.rule), claim.because)
    assert known["command"] == "ppkit reproduce wu2020 --profile paper --data standin"
    assert known["amended"] == "2026-11-22: .5 before" and "reply" not in known


IN_FULL = {
    "missing": ("what is missing", "runs at more seeds"),
    "repaired": ("what would be true", "It holds for a fresh sample."),
}


def test_a_row_in_full_says_what_it_waits_for_what_would_be_true_and_shows_its_witness(
    ppkit, project, monkeypatch, kept
):
    monkeypatch.setenv("COLUMNS", "300")
    _, said, _ = ppkit("claims", "--rows", kept[0].id)
    assert "seed 0: 0.25 (reproduced) against seed 1: 0.5 (not reproduced)" in said
    reach = {"what": "the file", "price": "a login", "command": "ppkit data fetch lending"}
    row = replace(
        untried_claims()[0],
        verdict=f"{rules.OUT_OF_REACH}: the file",
        out_of_reach=reach,
        **{name: words for name, (_, words) in IN_FULL.items()},
    )
    put(project.folder / "figures", in_place(row))
    _, said, _ = ppkit("claims", "--rows", row.id)
    shown = [" ".join(line.split()) for line in said.splitlines()]
    assert "verdict □ out of reach: the file" in shown
    assert "out of reach price: a login; then `ppkit data fetch lending`" in shown
    assert {" ".join(pair) for pair in IN_FULL.values()} <= set(shown)


LONGER = [  # ids that begin another one's
    one
    for paper in statements.papers()
    for one in statements.claims(paper)
    if any(other != one and other.startswith(one) for other in statements.claims(paper))
]


@pytest.mark.slow
@pytest.mark.parametrize("id", LONGER)
def test_a_whole_id_shows_its_row_also_where_another_id_begins_with_it(id, capsys):
    claims.show(None, beginning=id)
    said = capsys.readouterr().out
    assert said.split()[:2] == [id, "place"]


def test_claims_that_a_choice_turns_are_listed(ppkit, kept, monkeypatch):
    monkeypatch.setenv("COLUMNS", "95")
    code, said, _ = ppkit("claims", "--turned")
    assert code == 0 and kept[0].id in said and kept[1].id not in said
    assert max(len(line) for line in said.splitlines()) <= 95
    assert "1 claim is turned by a choice or by other data." in said


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_output_that_has_no_room_for_a_sign_gets_it_as_python_writes_it(
    project, monkeypatch, encoding
):
    two = [decided(row) for row in untried_claims()[:2]]
    put(project.folder / "figures", two)
    written = io.BytesIO()
    monkeypatch.setattr(sys, "argv", ["ppkit", "claims", "--rows", two[0].paper])
    narrow = io.TextIOWrapper(written, encoding)
    with monkeypatch.context() as here, pytest.raises(SystemExit) as ended:
        here.setattr(sys, "stdout", narrow)
        cli.main()
    narrow.flush()
    assert not ended.value.code and two[0].id in written.getvalue().decode(encoding)


def test_without_a_reference_the_newest_run_that_has_verdicts_is_shown(ppkit, project):
    row = decided(untried_claims()[0])
    put(project.folder / "runs" / "20260101-000000-quick", in_place(row), notebooks={})
    (project.folder / "runs" / "20260102-000000-quick").mkdir()
    batch = project.folder / "runs" / "20260102-000000-quick" / "run.json"
    batch.write_text('{"batch": "wu2020", "notebooks": {}}')
    code, said, _ = ppkit("claims")
    assert code == 0 and "claims were measured in run 20260101-000000-quick." in said
    code, _, said = ppkit("claims", "20260102-000000-quick")
    assert code == 2 and "whose rows are in its table.csv; " in said
    assert said.endswith("the last run that has some is 20260101-000000-quick\n")


@pytest.mark.slow
def test_the_rows_of_the_reference_are_weighed_already(monkeypatch):
    """`ppkit claims` takes them as they stand."""
    monkeypatch.setenv("PPKIT_HOME", str(ROOT))
    kept = ledger.reference()
    assert kept and robustness.settled(kept) == kept
