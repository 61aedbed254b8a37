"""Jobs whose workers and kernels are forked from a parent that has imported what they import."""

import ast
import json
import os
import sys

import nbformat
import psutil
import pytest
from forked import in_a_fork

from ppkit import process_tree
from ppkit.runs import warm_parent
from ppkit.runs.warm import NotWarm, WarmParent
from tools.same_outputs import differences

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="a new interpreter elsewhere")
PARAMETERS = "SEED = 0"
DRAWS = """\
import sys
import matplotlib.pyplot as plt
import numpy
import pandas
import torch
from beside import word
rng = numpy.random.default_rng(SEED)
print(word, torch.randn(3, generator=torch.Generator().manual_seed(SEED)))
pandas.DataFrame({"x": rng.normal(size=3)})"""
PICTURE = "plt.plot(rng.normal(size=20));"


def kernels(record: dict) -> list[str]:
    return [about["kernel"] for about in record["notebooks"].values()]


def read(project) -> dict:
    return json.loads((project.latest / "run.json").read_text("utf-8"))


def batch(project, *more: str, points: int = 2, **environment: str):
    """Run the notebook 01_a at some seeds; the finished command."""
    grid = f"SEED=0..{points - 1}"
    asked = ["01_a", "--grid", grid, "--fresh", "--jobs", "1", *more]
    done = project.run("reproduce", *asked, **environment)
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.fixture
def own_modules(project):
    """A folder on the path of modules, as a person has one whose code is not installed."""
    folder = project.folder / "own"
    folder.mkdir()
    (folder / "beside.py").write_text("word = 'first'")
    return folder


@linux_only
@pytest.mark.slow
@pytest.mark.processes
def test_forked_and_fresh_give_the_same_notebooks(project, own_modules):
    project.add("01_a", DRAWS, PICTURE, "1 / SEED", parameters=PARAMETERS)
    made = []
    for how in ("--warm", "--no-warm"):
        batch(project, how, PYTHONPATH=str(own_modules))
        assert kernels(read(project)) == [{"--warm": "forked", "--no-warm": "fresh"}[how]] * 2
        made.append(project.latest.resolve() / "points/0001/notebooks/01_a.ipynb")
        failed = read(project)["notebooks"]["0000"]
        assert failed["error"] == "ZeroDivisionError: division by zero" and failed["cell"] == 5
    assert made[0] != made[1] and differences(*made) == []
    [picture] = nbformat.read(made[0], 4).cells[3].outputs
    assert "image/png" in picture.data


@linux_only
@pytest.mark.slow
@pytest.mark.processes
def test_each_forked_kernel_draws_numbers_of_its_own(project):
    drawn = "import numpy.random, sys\nprint(numpy.random.random(), 'pandas' in sys.modules)"
    project.add("01_a", drawn, parameters=PARAMETERS)
    assert batch(project).returncode == 0
    points = read(project)["notebooks"]
    assert kernels(read(project)) == ["forked"] * 2
    texts = [
        nbformat.read(project.latest / f"points/{point}/notebooks/01_a.ipynb", 4).cells[2].outputs
        for point in points
    ]
    assert texts[0] != texts[1]


@linux_only
@pytest.mark.slow
@pytest.mark.processes
def test_a_limit_ends_a_forked_kernel_and_what_it_started(project):
    sleeper = "import subprocess, sys\nsubprocess.run(['sleep', '98765'], start_new_session=True)"
    project.add("01_a", sleeper, parameters=PARAMETERS)
    assert batch(project, "--limit", "4").returncode == 1
    for about in read(project)["notebooks"].values():
        assert about["kernel"] == "forked" and about["error"] == "ended at its limit of 4 s"
    sleepers = [one for one in psutil.process_iter(["cmdline"]) if one.info["cmdline"]]
    assert ["sleep", "98765"] not in [one.info["cmdline"] for one in sleepers]


@linux_only
@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize(
    "module, cell, why",
    [
        (
            "import pathlib, threading\nthreading.Thread(target=input, daemon=True).start()\n"
            "import time; threading.Thread(target=time.sleep, args=(99,), daemon=True).start()",
            "import beside",
            "2 of 2 started on a new interpreter: what it imported runs threads: python",
        ),
        (
            "word = 1",
            "import beside, os, pathlib\n"
            "pathlib.Path(beside.__file__).write_text(f'word = {SEED + 2}  # more')",
            "1 of 2 started on a new interpreter: beside.py has changed since the run began",
        ),
    ],
)
def test_what_cannot_be_forked_starts_afresh_and_the_run_says_why(
    project, own_modules, module, cell, why
):
    (own_modules / "beside.py").write_text(module)
    project.add("01_a", cell, parameters=PARAMETERS)
    done = batch(project, PYTHONPATH=str(own_modules))
    assert done.returncode == 0 and why in done.stdout
    reason = why.partition(": ")[2]
    assert kernels(read(project)).count(f"fresh: {reason}") == int(why[0])


@linux_only
@pytest.mark.processes
def test_a_variable_that_may_have_been_read_at_import_has_to_be_the_parents(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    first = {"A": "1", "OMP_NUM_THREADS": "1", "PPKIT_SOURCE": "real"}
    asked = {"A": "1", "OMP_NUM_THREADS": "2", "PPKIT_SOURCE": "standin", "B": ""}
    with WarmParent([]) as parent:
        with pytest.raises(NotWarm):
            parent.fork(tmp_path / "spec.json", tmp_path, first, [])
        with pytest.raises(NotWarm) as refused:
            parent.fork(tmp_path / "spec.json", tmp_path, asked, [])
    assert str(refused.value) == "B, OMP_NUM_THREADS differs from the first job's"


@linux_only
@pytest.mark.processes
def test_a_parent_that_ends_at_once_is_a_reason_with_its_last_words(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with WarmParent([]) as parent:
        for _ in range(2):
            with pytest.raises(NotWarm, match="the parent of forked kernels has ended"):
                parent.fork(tmp_path / "spec.json", tmp_path, dict(os.environ), [0, 1, 2])


@linux_only
@pytest.mark.processes
def test_a_fork_shows_its_own_mark_and_not_the_one_it_inherited():
    def look() -> bytes:
        process_tree.take_environment({"OTHER": "1", process_tree.MARK: "mine", "LONG": long})
        shown = psutil.Process().environ()
        return json.dumps([shown, dict(os.environ)]).encode()

    long = "x" * 100_000  # longer than the block
    shown, has = json.loads(in_a_fork(look))
    assert shown == {process_tree.MARK: "mine", "OTHER": "1"}
    assert has == {**shown, "LONG": long}


def test_imports_are_found_in_every_form():
    code = (
        "import a.b as c, d\nfrom e.f import g, h\nfrom . import i\ntry:\n    import j\nfinally: k"
    )
    tree = ast.parse(code)
    assert list(warm_parent.imports(tree.body)) == [
        ("a.b", ""),
        ("d", ""),
        ("e.f", "g"),
        ("e.f", "h"),
    ]
    assert ("j", "") in list(warm_parent.imports(ast.walk(tree)))


@pytest.mark.processes  # what a kernel needs asks `uname` for its processor
def test_a_folder_of_data_does_not_take_the_place_of_a_name(tmp_path, monkeypatch):
    """As ppkit.verdicts has a function `claims` and a folder of that name."""
    package = tmp_path / "shadowed"
    (package / "claims").mkdir(parents=True)
    (package / "claims" / "paper.toml").write_text("")
    (package / "__init__.py").write_text("def claims():\n    return 7\n")
    (package / "apart.py").write_text("word = 1")
    notebook = nbformat.v4.new_notebook()
    source = "from shadowed import claims, apart, missing"
    notebook.cells.append(nbformat.v4.new_code_cell(source))
    nbformat.write(notebook, tmp_path / "one.ipynb")
    monkeypatch.syspath_prepend(tmp_path)
    warm_parent.import_all([tmp_path / "one.ipynb"])
    assert sys.modules["shadowed"].claims() == 7
    assert sys.modules["shadowed.apart"].word == 1
