"""The table of bugs holds for today's source, and each check tells right mends from wrong ones."""

import json
import os
import runpy
import sys
from pathlib import Path

import pytest
from forked import in_a_fork
from house import ROOT

from ppkit import project
from ppkit.breaking import bugs, caught, checks, copies
from ppkit.runs import catalogue
from ppkit.verdicts import statements
from tools import breaking

BUGS = bugs.all_bugs()
every_bug = pytest.mark.parametrize("name", BUGS)


def test_there_are_bugs_of_every_paper_each_with_a_check():
    assert len(BUGS) >= 12 and list(checks.CHECKS) == list(BUGS)
    assert {bug.paper for bug in BUGS.values()} == set(statements.papers())


@every_bug
def test_a_bug_is_a_text_of_today_s_source_and_says_no_answer_before(name):
    bug = BUGS[name]
    source = (ROOT / bug.module).read_text("utf-8")
    for new in (bug.new, bug.also_wrong):
        compile(bug.put_into(source, new=new), bug.module, "exec")
    assert len({bug.old, bug.new, bug.also_wrong}) == 3
    assert f"def {bug.look_at.rpartition('.')[2]}(" in source or f"class {bug.look_at}" in source
    assert bug.fault not in bug.symptom + bug.question


def test_a_table_that_is_out_of_date_is_refused():
    with pytest.raises(ValueError, match="text that bug 'masks' replaces 0 times"):
        BUGS["masks"].put_into("")
    with pytest.raises(ValueError, match="2 times, not once"):
        BUGS["masks"].put_into(2 * BUGS["masks"].old)
    with pytest.raises(ValueError, match="bug must be one of rows, signs, .*, got 'mask'"):
        bugs.bug_of("mask")


@pytest.mark.slow
@every_bug
def test_the_kit_as_it_is_passes(name):
    assert checks.verdict(name) == []


def said_of(name: str, folder: Path) -> list[str]:
    """The verdict on a copy, in a fork: as `copies.judged`, without loading torch once more."""

    def judge() -> bytes:
        for module in [one for one in sys.modules if one.partition(".")[0] == "ppkit"]:
            del sys.modules[module]
        sys.path.insert(0, str(folder))
        said = runpy.run_path(str(copies.CHECKS))["verdict"](name)
        assert sys.modules["ppkit"].__file__.startswith(str(folder))
        return json.dumps(said).encode()

    return json.loads(in_a_fork(judge))


@pytest.mark.processes
@pytest.mark.slow
@every_bug
@pytest.mark.parametrize("kind", ["new", "also_wrong"])
def test_the_bug_and_another_wrong_mend_are_told_what_does_not_hold(name, kind, tmp_path):
    bug = BUGS[name]
    copies.make(bug, tmp_path / "copy", notebooks=[], new=getattr(bug, kind))
    said = said_of(name, tmp_path / "copy")
    assert said and not any("does not run" in sentence for sentence in said)


@pytest.mark.processes
@pytest.mark.slow
def test_a_right_mend_that_is_written_otherwise_passes(tmp_path):
    other = {
        "masks": 'step = seed.derive(f"step {self.position}", remember=False)',
        "horizon": "return horizon / epsilon * kappa * sensitivity",
        "triples": "self._used = not self._used",
    }
    for name, line in other.items():
        indent = BUGS[name].old[: -len(BUGS[name].old.lstrip())]
        copies.make(BUGS[name], tmp_path / name, notebooks=[], new=f"{indent}{line}\n")
        assert said_of(name, tmp_path / name) == []


def test_code_that_does_not_run_is_said_to(monkeypatch):
    monkeypatch.setitem(checks.CHECKS, "masks", lambda: iter([1 / 0]))
    assert checks.verdict("masks") == ["the code does not run: ZeroDivisionError: division by zero"]


@every_bug
def test_each_bug_was_noticed_by_a_notebook_that_there_is(name):
    noticed = caught.notebooks_that_notice(name)
    assert noticed and set(caught.measured()[name]) <= set(catalogue.notebooks())


def test_a_cell_that_turns_without_a_bug_does_not_count(tmp_path, monkeypatch):
    monkeypatch.setattr(caught, "FILE", tmp_path / "caught.json")
    caught.keep(caught.NOTHING, "01_a", {"cells": [2], "of": 4})
    caught.keep("masks", "01_a", {"cells": [2], "of": 4})
    assert caught.because_of("masks", "01_a") == [] and caught.notebooks_that_notice("masks") == []
    caught.keep("masks", "02_b", {"cells": [3], "of": 4})
    caught.keep("masks", "01_a", {"cells": [1, 2, 3], "of": 4})
    assert caught.because_of("masks", "01_a") == [1, 3]
    assert caught.notebooks_that_notice("masks") == ["01_a", "02_b"]
    assert caught.because_of("masks", "03_c") is None


def test_the_page_shows_what_was_measured():
    page = breaking.PAGE.read_text("utf-8")
    assert project.with_block(page, caught.BLOCK, breaking.table()) == page
    assert project.with_block(page, "faults", breaking.key()) == page
    assert "\n| `masks` | zhou2021 |" in page and BUGS["masks"].fault in page


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize(
    "name, notebook", [("sample", "01a_dpstgd_upload"), ("masks", "03a_spnn_sharing")]
)
def test_plain_nbval_turns_beside_a_bug(name, notebook, monkeypatch):
    for variable in [one for one in os.environ if one.startswith("PPKIT_")]:
        monkeypatch.delenv(variable)
    pair = breaking.turned(BUGS[name], notebook)
    assert 0 < len(pair["cells"]) < pair["of"]
