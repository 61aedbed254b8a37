"""The blocks of README.md say what the files say."""

import json
import re
import shlex
from pathlib import Path

import pytest
import typer

from ppkit import cli, ledger
from ppkit.runner import readme

ROOT = Path(__file__).resolve().parents[1]


def test_scoreboard_counts_and_names_the_data():
    rows = [row for row in ledger.merge([]) if row["paper"] == "wang2018"]
    rows[0] |= {"verdict": "refuted", "profile": "paper", "data": "formula", "value": 6.5192}
    rows[1] |= {"verdict": "reproduced", "profile": "paper", "data": "simulated", "value": 1.0}
    last = readme.scoreboard(rows).splitlines()[-1]
    assert last == f"| wang2018 | 1 | 0 | 0 | 1 | {len(rows) - 2} | formulas, simulated (paper profile) |"
    assert readme.refuted(rows).splitlines()[-1] == f"| wang2018, {rows[0]['where']} | {rows[0]['says']} | 6.519 |"


def test_bars_of_both_sides():
    bar = {"what": "a over b", "ratio": 1.464, "spread": [1.05, 1.61], "threads": 1}
    table = readme.bars({"bars": [bar | {"at_least": None, "at_most": 2.5}, bar | {"at_least": 1.0, "at_most": None}]})
    assert table.splitlines()[-2:] == ["| a over b | at most 2.5 | 1.46 | 1.05 to 1.61 | 1 |",
                                       "| a over b | at least 1 | 1.46 | 1.05 to 1.61 | 1 |"]


def test_only_what_stands_between_the_marks_changes(tmp_path):
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures/claims.json").write_text('{"claims": []}')
    (tmp_path / "README.md").write_text("above\n<!-- begin refuted -->\nold\n<!-- end refuted -->\nbelow\n")
    text = readme.renewed(tmp_path)
    assert text.startswith("above\n<!-- begin refuted -->\n| refuted |") and text.endswith("<!-- end refuted -->\nbelow\n")
    assert "old" not in text


def commands() -> dict[str, str]:
    """Every `ppkit ...` that README.md and the notebooks' text tell a reader to type, with the file where it stands first."""
    found: dict[str, str] = {}
    for path in (ROOT / "README.md", *sorted((ROOT / "notebooks").rglob("*.ipynb"))):
        if path.suffix == ".md":
            texts = [path.read_text("utf-8")]
        else:
            texts = ["".join(cell["source"]) for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "markdown"]
        for text in texts:
            for line in (*re.findall(r"^(ppkit [^#\n]*)", text, re.M), *re.findall(r"`(ppkit [^`\n]*)`", text)):
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
            if words:                                           # none: only the command's name, in a sentence
                command.make_context(line, words)
        except Exception as error:
            pytest.fail(f"{where}: `{line}`: {error}")
