"""`ppkit break`: what it prints, what it makes, and what it leaves alone."""

import json

import pytest
from house import ROOT

from ppkit.breaking import bugs, caught, copies

BUG = bugs.bug_of("masks")


@pytest.fixture
def kit(project, monkeypatch, tmp_path):
    """A project of one lesson, which notices the bug."""
    project.add("03_a", "# See [docs](../docs/a.md), [a](03_b.ipynb), [b](#c), [w](https://a.b)")
    file = tmp_path / "caught.json"
    file.write_text(json.dumps({"masks": {"03_a": {"cells": [1], "of": 2}}}))
    monkeypatch.setattr(caught, "FILE", file)
    return project.folder


def test_without_a_name_it_lists_all_and_gives_no_answer(ppkit):
    code, said, _ = ppkit("break")
    assert code == 0 and all(f" {name} " in said for name in bugs.all_bugs())
    assert BUG.fault not in said and "One mask" not in said


def test_a_copy_has_the_bug_and_the_notebooks_and_no_key(kit, ppkit):
    code, said, _ = ppkit("break", "masks")
    folder = kit / "work/break/masks"
    assert code == 0 and "pytest --nbval -q work/break/masks/03_a.ipynb" in said
    assert "ppkit break masks --check" in said and BUG.fault not in said
    module = (folder / BUG.module).read_text()
    assert BUG.new in module and BUG.old not in module
    assert BUG.old in (ROOT / BUG.module).read_text("utf-8")
    assert not (folder / "ppkit/breaking").exists()
    assert not list(folder.rglob("__pycache__"))
    text = "".join(json.loads((folder / "03_a.ipynb").read_text())["cells"][-1]["source"])
    back = "../../../notebooks"
    assert f"[docs]({back}/../docs/a.md), [a]({back}/03_b.ipynb), [b](#c), [w](https" in text


def test_a_copy_is_never_overwritten(kit, ppkit):
    ppkit("break", "masks")
    module = kit / "work/break/masks" / BUG.module
    module.write_text("mine")
    _, said, _ = ppkit("break", "masks")
    assert module.read_text() == "mine" and "your work is kept" in said
    _, said, _ = ppkit("break", "masks", "--fresh")
    assert BUG.new in module.read_text() and "work/break/masks.kept-1 now" in said
    assert (kit / "work/break/masks.kept-1" / BUG.module).read_text() == "mine"


def test_the_answer_is_printed_when_it_is_asked_for(kit, ppkit):
    code, said, _ = ppkit("break", "masks", "--answer")
    assert code == 0 and BUG.fault in said and BUG.answer in said
    assert not (kit / "work").exists()


def test_what_cannot_be_done_is_one_sentence(kit, ppkit):
    assert ppkit("break", "masks", "--check") == (
        2,
        "",
        "ppkit: there is nothing to check yet: `ppkit break masks` makes your copy\n",
    )
    code, _, said = ppkit("break", "mask")
    assert code == 2 and said.startswith("ppkit: bug must be one of rows") and "'mask'" in said
    (kit / "work").write_text("a file where the folder should be")
    code, _, said = ppkit("break", "masks")
    assert (code, said) == (2, "ppkit: cannot write work/break/masks: Not a directory\n")


@pytest.mark.processes
@pytest.mark.slow
def test_the_check_judges_the_mend_and_not_the_kit(kit, project, ppkit):
    ppkit("break", "masks")
    done = project.run("break", "masks", "--check")
    said = "Not right yet: steps 1 and 2 have the same mask.\n"
    assert (done.returncode, done.stdout) == (1, said), done.stderr
    module = copies.folder_of(BUG) / BUG.module
    module.write_text(module.read_text().replace(BUG.new, BUG.old))
    done = project.run("break", "masks", "--check")
    said = "Right: the method keeps what it promises.\n"
    assert (done.returncode, done.stdout) == (0, said), done.stderr
