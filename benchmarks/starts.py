"""Bars of what is done before a first own line: processor seconds (user and system, children
included) of whole commands, ours and a peer's in turn."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
from bars import Bar, bar

from ppkit import project

POINTS, REPEATS = 20, 3
FIRST = "00_start_here"  # runs before those that are timed
SHORT = ["01a_dpstgd_upload"]
# What 01a imports; its cells do nothing more, so that all that is measured is the start.
IMPORTS = """\
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from ppkit import accounting, audit, dpstgd, gradients, mechanisms, models, show
from ppkit.datasets import load"""
PAPERMILL = """\
import sys, papermill
for seed in range({points}):
    papermill.execute_notebook(sys.argv[1], sys.argv[2], dict(SEED=seed), progress_bar=False)"""
STEP = """\
import resource, torch
from {module} import SGD
model = torch.nn.Linear(4, 2)
def step():
    optimiser = SGD(model.parameters(), lr=.1)
    model(torch.ones(3, 4)).sum().backward()
    optimiser.step()
model(torch.ones(3, 4)).sum().backward()
def seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
start = seconds(); step(); first = seconds() - start
start = seconds()
for _ in range(100): step()
print(first - (seconds() - start) / 100)"""
TABLE = """\
import json, typer
from rich.console import Console
from rich.table import Table
app = typer.Typer(pretty_exceptions_enable=False)
@app.command()
def show(file: str):
    with open(file) as text:
        rows = json.load(text)
    table = Table()
    for name in rows[0]:
        table.add_column(name)
    for row in rows:
        table.add_row(*map(str, row.values()))
    Console().print(table)
app()"""


def run() -> list[Bar]:
    """A point of a batch, solutions and a lesson without their start; the first step of a training;
    two commands that print a table."""
    with tempfile.TemporaryDirectory(prefix="ppkit-bench-") as folder:
        return [
            _point(Path(folder)),
            _forked_over_fresh(Path(folder), "start_solutions", "the solutions", _solutions(), 0.2),
            _forked_over_fresh(Path(folder), "start_lesson", "the short lesson 01a", SHORT, 0.5),
            _first_step(),
            _command(Path(folder), "start_claims", ["claims"]),
            _command(Path(folder), "start_data_status", ["data", "status"]),
        ]


def _point(home: Path) -> Bar:
    """20 points whose cells only import, by `ppkit reproduce` and by papermill in a loop."""
    path = home / "imports.ipynb"
    first = nbformat.v4.new_code_cell("SEED = 0", metadata={"tags": ["parameters"]})
    made = nbformat.v4.new_notebook(cells=[first, nbformat.v4.new_code_cell(IMPORTS)])
    python = {"name": "python3", "display_name": "Python 3", "language": "python"}
    made.metadata["kernelspec"] = python
    nbformat.write(made, path)
    loop = [sys.executable, "-c", PAPERMILL.format(points=POINTS), path, home / "out.ipynb"]
    measured = []
    for _ in range(REPEATS):
        ours = _seconds(_ppkit(*_reproduce(home, [path], _seeds(POINTS))))
        measured.append(ours / _seconds(loop))
    what = (
        f"a batch of {POINTS} points whose cells only import, pages and parent process included, "
        "over papermill in a loop"
    )
    return bar("start_point", what, measured, threads=1, at_most=0.15)


def _forked_over_fresh(home: Path, name: str, said: str, notebooks: list, at_most: float) -> Bar:
    """What notebooks add to a run that another one has begun: on forked kernels, over fresh ones.

    The parent process and the page are there already, as in `make reproduce`.
    """

    def added(how: str) -> float:
        alone, together = (
            _seconds(_ppkit(*_reproduce(home, asked, [how])))
            for asked in ([FIRST], [FIRST, *notebooks])
        )
        return together - alone

    measured = [added("--warm") / added("--no-warm") for _ in range(REPEATS)]
    what = f"{said} within a run of `ppkit reproduce`, on forked kernels, over fresh ones"
    return bar(name, what, measured, threads=1, at_most=at_most)


def _first_step() -> Bar:
    """The first step of SGD in a process beyond a later one's, by the kit's optimisers."""
    measured = []
    for _ in range(REPEATS):
        ours, plain = (
            float(subprocess.check_output([sys.executable, "-c", STEP.format(module=module)]))
            for module in ("ppkit.optimisers", "torch.optim")
        )
        measured.append(ours / plain)
    what = "the first training step beyond a later one, by ppkit.optimisers over torch.optim"
    return bar("start_first_step", what, measured, threads=1, at_most=1 / 50)


def _command(home: Path, name: str, command: list[str]) -> Bar:
    """A command, over a script that prints the same number of rows by typer, rich and json."""
    text = subprocess.check_output(_ppkit(*command), text=True, env=_variables())
    rows = [{"one": line[:20], "more": line[20:]} for line in text.splitlines()]
    import json

    (home / "rows.json").write_text(json.dumps(rows))
    peer = [sys.executable, "-c", TABLE, home / "rows.json"]
    pairs = [(_seconds(_ppkit(*command)), _seconds(peer)) for _ in range(3 * REPEATS)]
    ratios = [ours / its for ours, its in pairs]
    what = f"`ppkit {' '.join(command)}`, over a script that prints as many rows by typer and rich"
    middle = statistics.median(ratios)
    nearest = sorted(ratios, key=lambda ratio: abs(ratio - middle))[:REPEATS]
    return bar(name, what, nearest, threads=1, at_most=1.5)


def _solutions() -> list[Path]:
    return sorted((project.root() / "notebooks" / "solutions").glob("*.ipynb"))


def _seeds(count: int) -> list[str]:
    return ["--grid", f"SEED=0..{count - 1}"]


def _reproduce(home: Path, notebooks: list, more: list[str]) -> list[str]:
    asked = ["reproduce", *map(str, notebooks), *more, "--fresh", "--jobs", "1"]
    return [*asked, "--data", "standin", "--runs", str(home / "runs")]


def _ppkit(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from ppkit.cli import main; main()", *arguments]


def _variables() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def _seconds(command: list) -> float:
    """Processor seconds of a command and of all that it starts and waits for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, env=_variables(), text=True)
    if done.returncode:
        sys.exit(f"{command[:4]} ended with {done.returncode}: {done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
