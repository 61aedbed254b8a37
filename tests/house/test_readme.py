"""The blocks of README.md and of docs/ say what the files say."""

import doctest
import json
import re
import shlex
from collections import Counter
from dataclasses import replace

import pytest
import typer
from house import ROOT

from ppkit import cli, documents
from ppkit.verdicts import ledger, pages, statements, wording
from ppkit.verdicts.rows import Result, Robustness, Row, write


def changed(rows: list[Row], changes: dict[int, dict]) -> list[Row]:
    """The rows, some of them with other fields, by their place."""
    return [replace(row, **changes.get(k, {})) for k, row in enumerate(rows)]


def untried() -> list[Row]:
    """Every row, with nothing found and nothing that it waits for."""
    return [replace(row, verdict="not tried") for row in ledger.merge([])]


def test_scoreboard_counts_and_names_the_data():
    rows = [row for row in untried() if row.paper == "wang2018" and row.kind == "claim"]
    rows = changed(
        rows,
        {
            0: {"verdict": "refuted", "profile": "paper", "data": "formula", "value": 6.5192},
            1: {"verdict": "reproduced", "profile": "paper", "data": "simulated", "value": 1.0},
            2: {"verdict": "reproduced", "profile": "quick", "data": "formula", "value": 1.0},
            3: {"verdict": "out of reach: all cards"},
            4: {"verdict": "undecided"},
        },
    )
    head, _, last, _, twice = pages.scoreboard(rows).splitlines()
    assert (
        head == "| paper | ● reproduced | ◐ reproduced on other data | ✕ refuted | ≈ undecided | "
        "□ out of reach | · not tried | causes of refuted | decided on |"
    )
    on = "formula; simulated, paper profile"
    assert last == f"| wang2018 | 1 | 1 | 1 | 1 | 1 | {len(rows) - 5} | 1 | {on} |"
    assert "on other data: 0;" in twice and "**depend on the data: 0**" in twice
    assert "leaves open: 0; the same in every setting: 0; **depend on a choice" in twice


def test_the_scoreboard_says_how_many_rows_depend_on_the_data():
    rows = [row for row in untried() if row.kind == "claim"][:6]
    other = Result(alone="not reproduced", possible=["not reproduced"], standing="partial")
    on = {"data": "stand-in", "also": [other], "alone": "reproduced"}
    of_data = {"verdict": "depends on the data", "depends_on": ["the data"]}
    robust = Robustness(
        main="reproduced",
        main_value=1.0,
        singles=[2, 3],
        combinations=[1, 1],
        least=0.0,
        largest=1.0,
    )
    of_clip = {"verdict": "depends on clip", "depends_on": ["clip"], "robustness": robust}
    rows = changed(
        rows,
        {
            0: on | of_data,
            1: on | {"verdict": "reproduced"},
            2: on | {"verdict": "not reproduced", "alone": "not reproduced"},
            3: on | {"also": [replace(other, alone="not tried: needs 9 rows")]},
            4: of_clip,
            5: {"verdict": "reproduced", "robustness": replace(robust, singles=[3, 3])},
        },
    )
    said = pages.scoreboard(rows).splitlines()[-1]
    assert "on other data: 3; alike: 1; **depend on the data: 1**; not alike" in said
    assert f": 1 (`{rows[1].id}`). 1 more need" in said
    assert "leaves open: 2; the same in every setting: 1; " in said
    assert said.endswith("**depend on a choice, and have no credit: 1**.")


def test_findings_say_what_they_rest_on():
    finding = statements.findings()[0]
    found = {"verdict": "refuted", "value": 6.5192, "data": "formula", "kind": "claim"}
    rows = [replace(row, **found) if row.cause == finding.id else row for row in untried()]
    of_it = [k for k, row in enumerate(rows) if row.cause == finding.id]
    mark = wording.MARKS[finding.the_paper_is]
    said = pages.findings(rows)
    assert f"### {finding.title}\n\n{mark} {finding.text}\n\n" in said
    assert f"\n\n{len(of_it)} refuted; data: formula. Lesson: [{finding.lesson}](../" in said
    turned = changed(rows, {of_it[0]: {"verdict": "depends on the data"}})
    assert f"### {finding.title}\n\n◇ {finding.text}" in pages.findings(turned)


def test_a_finding_in_short_leads_to_the_whole_one(monkeypatch):
    first, second, *_ = statements.findings()
    said = [replace(first, short="It is so."), replace(second, short="")]
    monkeypatch.setattr(statements, "findings", lambda: said)
    [line] = pages.findings_in_short([]).splitlines()
    place = "docs/findings.md#one-sample-cannot-be-counted-as-thousands"
    assert line == f"- ✕ It is so. ([wang2018]({place}))"


def test_no_two_findings_share_a_heading():
    anchors = [pages.anchor(finding.title) for finding in statements.findings()]
    assert len(set(anchors)) == len(anchors) and all(anchors)


def test_the_outcome_of_a_paper_is_one_line_and_that_of_all_another():
    claims = [row for row in untried() if row.paper == "wu2020" and row.kind == "claim"]
    verdicts = ("refuted", "refuted", "depends on step", "reproduced", "reproduced", "reproduced")
    verdicts += ("not reproduced", "undecided", "out of reach: all cards")
    on = {"data": "stand-in: 9 rows", "standing": "rerunnable", "cause": "one"}
    rows = changed(claims, {k: {"verdict": said} | on for k, said in enumerate(verdicts)})
    rows[3] = replace(rows[3], data="formula")
    first, *_, line = pages.outcome(rows).splitlines()
    counted = f"of {len(claims)} claims 3 reproduced (1 on formulas or the paper's own data, "
    counted += "2 on stand-ins or simulated data), 1 not reproduced, 2 refuted (1 mistake), "
    counted += "1 that depend on a choice or the data, 1 undecided, 1 out of reach, "
    counted += f"{len(claims) - 9} not tried"
    title, said = statements.short_titles()["wu2020"], statements.outcomes()["wu2020"]
    section = pages.anchor(f"{statements.titles()['wu2020']} (wu2020)")
    assert f"## {statements.titles()['wu2020']} (wu2020)" in pages.findings(rows)
    link = f"[wu2020](docs/findings.md#{section})"
    assert line == f"- **{title}** ({link}). {said} *O{counted[1:]}.*"
    assert first == f"**In all,** {counted}."


def test_what_was_changed_after_a_run_is_counted_and_listed():
    about = {"paper": "wu2020", "place": "Fig. 1", "says": "It is."}
    rows = [
        Row(id="wu2020.a.b", kind="claim", amended="2026-11-22: .5 | .6", **about),
        Row(id="wu2020.c", kind="claim", **about),
        Row(id="wu2020.d", kind="question", amended="2026-11-23: new", **about),
    ]
    assert pages.changed_in_short(rows).startswith(
        "1 of 2 claims had their rule, measure or words changed"
    )
    said = pages.changed(rows)
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
    lines = documents.which_one(kept).splitlines()
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


def test_bars_of_both_sides_on_the_machines_they_were_timed_on():
    bar = {"what": "a over b", "ratio": 1.464, "spread": [1.05, 1.61], "threads": 1}
    about = {"processor": "slow", "instructions": "SSE", "cores": 2}
    about |= {"python": "3.11", "torch": "2.13", "numpy": "2.4"}
    table = documents.bars(
        {
            "bars": [
                bar | {"at_least": None, "at_most": 2.5, "machine": about},
                bar | {"at_least": 1.0, "at_most": None, "machine": about | {"processor": "new"}},
                bar | {"at_least": None, "at_most": 3, "machine": about},
            ]
        }
    )
    assert table.splitlines()[2:] == [
        "| a over b | at most 2.5 | 1.46 | 1.05 to 1.61 | 1 | 1 |",
        "| a over b | at least 1 | 1.46 | 1.05 to 1.61 | 1 | 2 |",
        "| a over b | at most 3 | 1.46 | 1.05 to 1.61 | 1 | 1 |",
        "",
        "Machines:",
        "",
        "1. slow, instructions up to SSE, 2 cores, python 3.11, torch 2.13, numpy 2.4",
        "2. new, instructions up to SSE, 2 cores, python 3.11, torch 2.13, numpy 2.4",
    ]


def test_only_what_stands_between_the_marks_changes(tmp_path):
    for folder in ("figures", "docs"):
        (tmp_path / folder).mkdir()
    write(tmp_path / "figures/claims.json", [], run={}, pictures={})
    files = (("README.md", "findings"), ("docs/changed_rules.md", "changed"))
    for file, name in files:
        (tmp_path / file).write_text(
            f"above\n<!-- begin {name} -->\nold\n<!-- end {name} -->\nbelow\n"
        )
    documents.renew(tmp_path)
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
    pages.append(ROOT / "notebooks" / "TEACHING.md")
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


def test_readme_counts_the_rows_and_their_settings_as_the_reference_does():
    text = (ROOT / "README.md").read_text("utf-8")
    kinds = Counter(one.kind for one in statements.every_claim().values())
    said = re.search(r"(\d+) claims of four papers, (\d+) questions of ours, (\d+) checks", text)
    assert [*map(int, said.groups())] == [kinds[kind] for kind in ("claim", "question", "check")]

    told = (
        r"(\d+) claims were run again at other settings.*?: (\d+) kept .*?; (\d+) claims depend"
        r" on a choice .*?, (\d+) on the data"
    )
    verdicts = (ROOT / "docs/verdicts.md").read_text("utf-8")
    counted = re.search(
        r"tried at other settings[^:]*: (\d+); the same in every setting: (\d+);"
        r" \*\*depend on a choice, and have no credit: (\d+)",
        verdicts,
    )
    by_data = re.search(r"\*\*depend on the data: (\d+)\*\*", verdicts)
    assert re.search(told, text).groups() == counted.groups() + by_data.groups()
    short_of_rows = re.search(r"(\d+) more need more real rows", verdicts)
    assert re.search(r"(\d+) claims need more real rows", text)[1] == short_of_rows[1]
