"""The blocks of README.md and of docs/ say what the files say."""

import doctest
import json
import re
import shlex
from pathlib import Path

import pytest
import typer

from ppkit import cli, in_words, ledger
from ppkit.runner import tables

ROOT = Path(__file__).resolve().parents[1]


def test_scoreboard_counts_and_names_the_data():
    rows = [
        row for row in ledger.merge([]) if row["paper"] == "wang2018" and row["kind"] == "claim"
    ]
    rows[0] |= {"verdict": "refuted", "profile": "paper", "data": "formula", "value": 6.5192}
    rows[1] |= {"verdict": "reproduced", "profile": "paper", "data": "simulated", "value": 1.0}
    rows[2] |= {"verdict": "reproduced", "profile": "quick", "data": "formula", "value": 1.0}
    head, _, last, _, twice = tables.scoreboard(rows).splitlines()
    assert (
        head == "| paper | ● reproduced | ◐ reproduced on other data | ✕ refuted | · not tried | "
        "causes of refuted | decided on |"
    )
    on = "formula; simulated, paper profile"
    assert last == f"| wang2018 | 1 | 1 | 1 | {len(rows) - 3} | 1 | {on} |"
    assert "on other data: 0;" in twice and "**depend on the data: 0**" in twice
    assert "leaves open: 0; the same in every setting: 0; **depend on a choice" in twice


def test_the_scoreboard_says_how_many_rows_depend_on_the_data():
    rows = [row for row in ledger.merge([]) if row["kind"] == "claim"][:4]
    other = {"alone": "not reproduced", "possible": ["not reproduced"], "standing": "partial"}
    for row, verdict in zip(rows, ("depends on the data", "reproduced", "not reproduced")):
        alone = verdict.replace("depends on the data", "reproduced")
        row |= {"verdict": verdict, "alone": alone, "data": "stand-in", "also": [other]}
    rows[3] |= {"alone": "reproduced", "also": [other | {"alone": "not tried: needs 9 rows"}]}
    said = tables.scoreboard(rows).splitlines()[-1]
    assert "on other data: 3; alike: 1; **depend on the data: 1**; not alike" in said
    assert f": 1 (`{rows[0]['id']}`, `{rows[1]['id']}`). 1 more need" in said


def test_findings_say_what_they_rest_on():
    rows = ledger.merge([])
    finding = ledger.findings()[0]
    of_it = [row for row in rows if row["cause"] == finding.id]
    for row in of_it:
        row |= {"verdict": "refuted", "value": 6.5192, "data": "formula"}
    mark = in_words.MARKS[finding.the_paper_is]
    said = tables.findings(rows)
    assert f"### {finding.title}\n\n{mark} {finding.text}\n\n" in said
    assert f"\n\n{len(of_it)} refuted; data: formula. Lesson: [{finding.lesson}](../" in said
    of_it[0] |= {"verdict": "depends on the data", "kind": "claim"}
    assert f"### {finding.title}\n\n◇ {finding.text}" in tables.findings(rows)


def test_a_finding_in_short_leads_to_the_whole_one(monkeypatch):
    first, second, *_ = ledger.findings()
    first.short, second.short = "It is so.", ""
    monkeypatch.setattr(ledger, "findings", lambda: [first, second])
    [line] = tables.findings_in_short([]).splitlines()
    place = "docs/findings.md#one-sample-cannot-be-counted-as-thousands"
    assert line == f"- ✕ It is so. ([wang2018]({place}))"


def test_no_two_findings_share_a_heading():
    anchors = [tables.anchor(finding.title) for finding in ledger.findings()]
    assert len(set(anchors)) == len(anchors) and all(anchors)


def test_the_outcome_of_a_paper_is_one_line_and_that_of_all_another():
    rows = [row for row in ledger.merge([]) if row["paper"] == "wu2020"]
    claims = [row for row in rows if row["kind"] == "claim"]
    verdicts = ("refuted", "refuted", "depends on step", "reproduced", "reproduced", "reproduced")
    for row, verdict in zip(claims, verdicts):
        row |= {"verdict": verdict, "data": "stand-in: 9 rows", "standing": "rerunnable"}
        row["cause"] = "one"
    claims[3]["data"] = "formula"
    first, *_, line = tables.outcome(rows).splitlines()
    counted = f"of {len(claims)} claims 3 reproduced, 2 refuted for 1 reason, "
    counted += f"{len(claims) - 5} without a verdict"
    title, said = ledger.short_titles()["wu2020"], ledger.outcomes()["wu2020"]
    section = tables.anchor(f"{ledger.titles()['wu2020']} (wu2020)")
    assert f"## {ledger.titles()['wu2020']} (wu2020)" in tables.findings(rows)
    link = f"[wu2020](docs/findings.md#{section})"
    assert line == f"- **{title}** ({link}). {said} *O{counted[1:]}.*"
    assert first == (
        f"**In all,** {counted}. 1 of the reproduced rest on formulas or the paper's own data, "
        "2 on stand-ins or simulated data."
    )


def test_what_was_changed_after_a_run_is_counted_and_listed():
    rows = [
        {"id": "wu2020.a.b", "paper": "wu2020", "kind": "claim", "amended": "2026-11-22: .5 | .6"},
        {"id": "wu2020.c", "paper": "wu2020", "kind": "claim", "amended": None},
        {"id": "wu2020.d", "paper": "wu2020", "kind": "question", "amended": "2026-11-23: new"},
    ]
    assert tables.changed_in_short(rows).startswith("1 of 2 claims had their rule or words changed")
    said = tables.changed(rows)
    assert "2 of 3 rows." in said and "| `a.b` | claim | 2026-11-22: .5 \\| .6 |" in said
    assert "`c`" not in said


def test_the_attacks_on_modules_of_ones_own_run_as_printed():
    failed, tried = doctest.testfile(str(ROOT / "CONTRIBUTING.md"), module_relative=False)
    assert tried > 20 and failed == 0


def test_which_one_is_a_row_a_way_to_run():
    kept = {"epsilon": 2.0, "profile": "paper", "source": "stand-in: 9 rows", "rows": []}
    names = ("I hold", "I fear", "run", "a party sends", "AUC", "it finds")
    for hold, run in (("rows", "a"), ("rows", "b"), ("columns", "c")):
        kept["rows"].append(dict(zip(names, (hold, "somebody", run, "0", ".9", "nothing"))))
    lines = tables.which_one(kept).splitlines()
    assert lines[0] == (
        "| I hold | I fear | I run | one bank or holder sends, in all | test AUC | an attacker |"
    )
    assert lines[2:5] == [
        "| rows | somebody | a | 0 | .9 | nothing |",
        "|  |  | b | 0 | .9 | nothing |",
        "| columns | somebody | c | 0 | .9 | nothing |",
    ]
    assert (
        lines[-1] == "(epsilon 2 for a training, SGLD has none; paper profile; stand-in: 9 rows.)"
    )


def test_bars_of_both_sides():
    bar = {"what": "a over b", "ratio": 1.464, "spread": [1.05, 1.61], "threads": 1}
    table = tables.bars(
        {
            "bars": [
                bar | {"at_least": None, "at_most": 2.5},
                bar | {"at_least": 1.0, "at_most": None},
            ]
        }
    )
    assert table.splitlines()[-2:] == [
        "| a over b | at most 2.5 | 1.46 | 1.05 to 1.61 | 1 |",
        "| a over b | at least 1 | 1.46 | 1.05 to 1.61 | 1 |",
    ]


def test_only_what_stands_between_the_marks_changes(tmp_path):
    for folder in ("figures", "docs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "figures/claims.json").write_text('{"claims": []}')
    files = (("README.md", "findings"), ("docs/changed_rules.md", "changed"))
    for file, name in files:
        (tmp_path / file).write_text(
            f"above\n<!-- begin {name} -->\nold\n<!-- end {name} -->\nbelow\n"
        )
    tables.renew(tmp_path)
    for file, name in files:
        text = (tmp_path / file).read_text("utf-8")
        assert text.startswith(f"above\n<!-- begin {name} -->\n") and text.endswith(
            f"<!-- end {name} -->\nbelow\n"
        )
        assert "\nold\n" not in text


def commands() -> dict[str, str]:
    """Every `ppkit ...` that the READMEs, the pages in docs/ and the notebooks' text tell a reader
    to type, with the file where it stands first."""
    found: dict[str, str] = {}
    pages = [
        ROOT / name
        for name in ("README.md", "CONTRIBUTING.md", "data/README.md", "spnn_system/README.md")
    ]
    pages += sorted((ROOT / "docs").glob("*.md"))
    for path in (*pages, *sorted((ROOT / "notebooks").rglob("*.ipynb"))):
        if path.suffix == ".md":
            texts = [path.read_text("utf-8")]
        else:
            texts = [
                "".join(cell["source"])
                for cell in json.loads(path.read_text("utf-8"))["cells"]
                if cell["cell_type"] == "markdown"
            ]
        for text in texts:
            for line in (
                *re.findall(r"^ *(ppkit [^#\n]*)", text, re.M),
                *re.findall(r"`(ppkit [^`\n]*)`", text),
            ):
                found.setdefault(line.strip(), path.name)
    return found


def test_every_command_that_a_reader_is_told_is_one():
    """They parse, without being run."""
    told = commands()
    assert len(told) >= 15 and "ppkit spnn holder first/config.toml --name B" in told
    for line, where in told.items():
        command, words = typer.main.get_command(cli.app), cli.paired(shlex.split(line)[1:])
        while words and hasattr(command, "commands"):
            assert words[0] in command.commands, f"{where}: `{line}`: there is no {words[0]}"
            command = command.commands[words.pop(0)]
        try:
            if words:  # none: only the command's name, in a sentence
                command.make_context(line, words)
        except Exception as error:
            pytest.fail(f"{where}: `{line}`: {error}")


def test_readme_changes_one_parameter_of_each_narrative():
    """`make test-papermill` runs these commands, and each must show another table."""
    text = (ROOT / "README.md").read_text("utf-8")
    told = re.findall(r"^papermill (notebooks/\S+) out.ipynb -p (\w+) \S+", text, re.M)
    narratives = sorted(ROOT.glob("notebooks/[1-4]_*.ipynb"))
    assert [ROOT / path for path, _ in told] == narratives and len(narratives) == 4
    for path, parameter in told:
        cells = json.loads((ROOT / path).read_text("utf-8"))["cells"]
        [given] = [cell for cell in cells if "parameters" in cell["metadata"].get("tags", [])]
        assert re.search(rf"^{parameter} = ", "".join(given["source"]), re.M), path
