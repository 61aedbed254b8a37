"""The command line: what it refuses, in one sentence on stderr, with exit code 2 and no
traceback."""

import io
import re
import sys

import pytest

from ppkit import cli, in_words, ledger
from ppkit.runner import claims, run_folder


@pytest.fixture
def ppkit(ppkit, project):
    """The command on a project of two notebooks."""
    project.add("00_start", "print(1)", parameters=None)
    project.add("01_paper", "print(SEED)")
    return ppkit


REFUSED = [
    (["reproduce", "nope"], "unknown notebook 'nope': there are 00_start, 01_paper"),
    (
        ["execute", "solutions/01_paper"],
        "unknown notebook 'solutions/01_paper': there are 00_start, 01_paper",
    ),
    (["reproduce", "--profile", "big"], "unknown profile 'big': there are quick, paper"),
    (["reproduce", "--data", "fake"], "unknown data 'fake': there are available, real, standin"),
    (
        ["reproduce", "-p", "SED", "1"],
        "unknown parameter 'SED': the chosen notebooks have NAME, PROFILE, RATE, SEED",
    ),
    (["reproduce", "00_start", "-p", "SEED", "1"], "unknown parameter 'SEED': 00_start has none"),
    (["reproduce", "-p", "SEED", "one"], "SEED must be of type int, as its default 0, got 'one'"),
    (
        ["reproduce", "-p", "RATE", "nan"],
        "RATE must be of type float, as its default 0.5, got 'nan'",
    ),
    (
        ["reproduce", "-p", "RATE", "1e999"],
        "RATE must hold finite numbers, texts, True, False or None, and lists of them, got '1e999'",
    ),
    (["reproduce", "-p", "SEED", "1", "-p", "SEED", "2"], "SEED is given twice: once is enough"),
    (
        ["reproduce", "01_a", "-p", "X", "1", "-p", "X", "2", "--grid", "SEED=0..1"],
        "X is given twice: once is enough",
    ),
    (
        ["reproduce", "01_paper", "--grid", "SEED=0..1", "-p", "SEED", "3"],
        "-p sets SEED for all points, and the points vary it: not both",
    ),
    (
        ["reproduce", "01_paper", "--grid", "SEED=0..1", "--limit", "inf"],
        "limit must be a finite number > 0, got inf",
    ),
    (["reproduce", "-p", "PROFILE", "huge"], "unknown profile 'huge': there are quick, paper"),
    (["reproduce", "-p", "SEED"], "-p takes a name and a value, for example `-p SEED 1`"),
    (["reproduce", "--jobs", "0"], "jobs must be >= 1, got 0"),
    (
        ["reproduce", "01_paper", "--grid", "SEED=0..1", "--jobs", "0"],
        "jobs must be a finite number > 0, got 0",
    ),
    (
        ["reproduce", "01_paper", "--grid", "SEED=0..1", "--jobs", "-1"],
        "jobs must be a finite number > 0, got -1",
    ),
    (
        ["reproduce", "01_paper", "--grid", "SEED=0", "--limit", "0"],
        "limit must be a finite number > 0, got 0.0",
    ),
    (
        ["reproduce", "01_paper", "--limit", "0"],
        "--scheduler and --limit are for a batch: give --grid, --points, --settings",
    ),
    (
        ["claims"],
        "there is no figures/claims.json yet: name a run, for example `ppkit claims latest`",
    ),
    (["claims", "latest"], "unknown run 'latest': there are none yet"),
    (["reference", "20990101"], "unknown run '20990101': there are none yet"),
]


@pytest.mark.parametrize(
    "arguments, sentence", REFUSED, ids=[" ".join(arguments) for arguments, _ in REFUSED]
)
def test_bad_input_gets_one_sentence_and_exit_code_2(ppkit, project, arguments, sentence):
    assert ppkit(*arguments) == (2, "", f"ppkit: {sentence}\n")
    assert not (project.folder / "runs").exists()


def test_unknown_option_and_command_exit_2_without_a_traceback(ppkit):
    for arguments, named in (
        (["reproduce", "--frobnicate"], "--frobnicate"),
        (["frobnicate"], "frobnicate"),
        (["reproduce", "--jobs", "many"], "--jobs"),
    ):
        code, _, said = ppkit(*arguments)
        assert code == 2 and "Traceback" not in said
        assert said.splitlines()[-1].startswith("Error: ") and named in said.splitlines()[-1]


def test_output_folder_that_cannot_be_made(ppkit, project):
    (project.folder / "runs").write_text("a file where the folder should be")
    code, _, said = ppkit("reproduce")
    assert code == 2
    assert said.startswith("ppkit: cannot write into ") and said.endswith("/runs: File exists\n")


def test_read_only_output_folder(ppkit):
    code, _, said = ppkit("reproduce", "--runs", "/proc/ppkit-runs")
    assert (code, said) == (
        2,
        "ppkit: cannot write into /proc/ppkit-runs: No such file or directory\n",
    )


def test_a_notebook_that_is_no_notebook(ppkit, project):
    (project.folder / "notebooks" / "03_broken.ipynb").write_text('{"cells": [')
    code, _, said = ppkit("reproduce")
    assert code == 2 and said.startswith(
        "ppkit: 03_broken.ipynb is not a notebook that can be read"
    )


def test_a_parameters_cell_with_more_than_literals(ppkit, project):
    project.add("04_stale", "print(1)", parameters="N = 3\nTWICE = 2 * N")
    code, _, said = ppkit("reproduce")
    assert (code, said) == (
        2,
        "ppkit: 04_stale.ipynb: the parameters cell may hold literals only, got 'TWICE = 2 * N'\n",
    )


def test_data_status_names_every_data_set(ppkit):
    from ppkit import datasets

    code, said, _ = ppkit("data", "status")
    assert code == 0 and all(name in said for name in datasets.NAMES)


def test_claims_of_a_run_are_listed_and_counted(ppkit, project, monkeypatch):
    rows = sorted(ledger.merge([]), key=lambda row: row["kind"] != "claim")
    found = {"data": "formula", "standing": "rerunnable", "profile": "quick"}
    rows[0] |= {"verdict": "not reproduced (better)", "alone": "not reproduced (better)"} | found
    rows[0]["value"] = 14312.0
    (project.folder / "figures").mkdir(exist_ok=True)
    run_folder.write_json(project.folder / "figures" / "claims.json", {"run": {}, "claims": rows})
    code, said, _ = ppkit("claims", "--rows", rows[0]["paper"])
    assert code == 0 and rows[0]["id"] in said and "14,312" in said
    monkeypatch.setenv("COLUMNS", "90")
    code, said, _ = ppkit("claims", "--rows", "wu2020.psi")
    assert max(map(len, said.splitlines())) <= 90
    assert code == 0 and "wu2020.psi.sees_fraud" in said and rows[0]["id"] not in said
    listed = {line.split()[0] for line in said.splitlines() if line.strip().startswith("wu2020.")}
    assert listed == {row["id"] for row in rows if row["id"].startswith("wu2020.psi")}
    other = {"alone": "reproduced", "possible": [], "standing": "partial", "spread": None}
    rows[0]["also"] = [other | {"value": 7.0, "data": "real subset", "profile": "quick"}]
    run_folder.write_json(project.folder / "figures" / "claims.json", {"run": {}, "claims": rows})
    monkeypatch.setenv("COLUMNS", "300")
    code, said, _ = ppkit("claims", "--rows", rows[0]["id"])
    assert "◐ reproduced, ours 7 (real subset, quick)" in said
    for name, verdict in (("then", "reproduced"), ("now", "refuted")):
        (project.folder / "runs" / name).mkdir(parents=True)
        about = {"notebooks": {"01_paper": {"changed": ["SEED"] if name == "now" else []}}}
        run_folder.write_json(project.folder / "runs" / name / "run.json", about)
        turned = [
            rows[0] | {"verdict": verdict, "alone": verdict, "notebook": "01_paper"},
            rows[1] | ({"alone": "reproduced"} | found if name == "now" else {}),  # not run then
            *rows[2:],
        ]
        run_folder.write_json(
            project.folder / "runs" / name / "claims.json", {"run": {}, "claims": turned}
        )
    code, said, _ = ppkit("claims", "now")
    assert code == 0 and "claims are decided in run now." in said and "ppkit claims now --" in said
    code, said, _ = ppkit("claims", "now", "--diff", "then")
    assert code == 0 and said.startswith("1 rows have another verdict than in then")
    assert "✕ refuted" in said and "● reproduced, ours 14,312 (formula, quick)" in said
    assert rows[1]["id"] not in said and "choices are not weighed" in said
    code, said, _ = ppkit("claims", "then", "--diff", "now")
    assert code == 0 and "not tried at other settings" in said and "0 rows" not in said
    code, _, said = ppkit("claims", "--rows", "wu2021")
    assert code == 2 and "no row begins with 'wu2021': there are kanodia2020" in said


@pytest.fixture
def kept(project):
    """The rows of a reference: one of wu2020 that a choice turns and one that is reproduced, all
    others not tried."""
    rows = ledger.merge([])
    turned, reproduced, *_ = [
        row for row in rows if row["kind"] == "claim" and row["paper"] == "wu2020"
    ]
    found = {"data": "stand-in: 9 rows", "standing": "rerunnable", "profile": "paper"}
    found |= {"notebook": "wu2020", "alone": "reproduced", "value": 0.25}
    turned |= found | {"verdict": "depends on seed", "headline": True}
    reproduced |= found | {"verdict": "reproduced", "amended": "2026-11-22: .5 before"}
    reproduced |= {"printed": None, "computed": ".0135", "how": ".8772 - .8637"}
    place = project.folder / "figures" / "claims.json"
    run_folder.write_json(place, {"run": {}, "claims": rows})
    return turned, reproduced


def test_claims_say_in_short_what_came_out_and_how_to_ask_for_more(ppkit, kept):
    code, said, _ = ppkit("claims")
    claims = sum(row["kind"] == "claim" for row in ledger.merge([]))
    assert code == 0
    assert said.startswith(f"2 of {claims} claims are decided in figures/claims.json.\n")
    assert "Data: 2 stand-in. Profile: 2 paper.\n" in said
    one_line = " ".join(said.split())
    assert (
        "In all: ◐ 1 reproduced on other data, ◇ 1 turned by a choice or the data, · " in one_line
    )
    assert f"◇ {kept[0]['id'].partition('.')[2]}" in said
    [line] = [line for line in said.splitlines() if line.startswith("wu2020 ")]
    assert "◐ 1 ◇ 1 · " in line
    for option in ("--rows", "--turned"):
        assert f"ppkit claims {option}" in said
    assert max(len(line) for line in said.splitlines()) <= 100


def test_one_claim_is_shown_with_all_that_is_known_of_it(ppkit, kept, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    code, said, _ = ppkit("claims", "--rows", kept[1]["id"])
    lines = [re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in said.splitlines()]
    known = {line[0]: line[1].strip() for line in lines if len(line) == 2}
    claim = ledger.claims("wu2020")[kept[1]["id"]]
    assert code == 0 and lines[0] == [claim.id]
    assert (known["place"], known["the paper says"]) == (claim.where, claim.says)
    assert (known["computed"], known["ours"]) == (".0135 (.8772 - .8637)", "0.25")
    assert (known["verdict"], known["data"]) == ("◐ reproduced", "stand-in: 9 rows")
    assert (known["rule"], known["why that rule"]) == (in_words.rule(claim.rule), claim.because)
    assert known["command"] == "ppkit reproduce wu2020 --profile paper --data standin"
    assert known["amended"] == "2026-11-22: .5 before" and "reply" not in known


LONGER = [  # ids that begin another one's
    one
    for paper in ledger.papers()
    for one in ledger.claims(paper)
    if any(other != one and other.startswith(one) for other in ledger.claims(paper))
]


@pytest.mark.parametrize("id", LONGER)
def test_a_whole_id_shows_its_row_also_where_another_id_begins_with_it(id, capsys):
    claims.show(None, beginning=id)
    said = capsys.readouterr().out
    assert said.split()[:2] == [id, "place"]


def test_claims_that_a_choice_turns_are_listed(ppkit, kept, monkeypatch):
    monkeypatch.setenv("COLUMNS", "95")
    code, said, _ = ppkit("claims", "--turned")
    assert code == 0 and kept[0]["id"] in said and kept[1]["id"] not in said
    assert max(len(line) for line in said.splitlines()) <= 95
    assert "1 claims are turned by a choice or by other data." in said
    code, _, said = ppkit("claims", "--turned", "--diff", "latest")
    assert code == 2 and "--turned and --diff list different rows" in said


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_output_that_has_no_room_for_a_sign_gets_it_as_python_writes_it(
    project, monkeypatch, encoding
):
    rows = [row | {"verdict": "reproduced", "alone": "reproduced"} for row in ledger.merge([])[:2]]
    run_folder.write_json(project.folder / "figures" / "claims.json", {"run": {}, "claims": rows})
    written = io.BytesIO()
    monkeypatch.setattr(sys, "argv", ["ppkit", "claims", "--rows", rows[0]["paper"]])
    narrow = io.TextIOWrapper(written, encoding)
    with monkeypatch.context() as here, pytest.raises(SystemExit) as ended:
        here.setattr(sys, "stdout", narrow)
        cli.main()
    narrow.flush()
    assert not ended.value.code and rows[0]["id"] in written.getvalue().decode(encoding)


def test_without_a_project_the_first_result_is_refused_before_it_is_computed(ppkit, monkeypatch):
    def outside() -> None:
        raise FileNotFoundError("no ppkit project at or above /here: change into the clone")

    monkeypatch.setattr("ppkit.project.root", outside)
    monkeypatch.setattr("ppkit.first.run", None)
    assert ppkit("first") == (
        2,
        "",
        "ppkit: no ppkit project at or above /here: change into the clone\n",
    )


def test_help_is_the_answer_to_nothing(ppkit):
    code, out, err = ppkit()
    assert all(
        name in out + err for name in ("reproduce", "execute", "reference", "claims", "data")
    )
