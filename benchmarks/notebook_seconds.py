"""Bars of the notebooks: seconds of each, quick profile, one thread, over a calibration loop's."""

from __future__ import annotations

import contextlib
import operator
import tempfile
import time
from pathlib import Path

import nbformat
import numpy
from bars import Bar, bar, on_one_core
from threadpoolctl import threadpool_limits

from ppkit.runs import execute
from ppkit.runs.environment import for_kernel

# Turns of the calibration loop that a notebook may take: half as many again as it took at first.
AT_MOST = {
    "3_spnn": 110,
    "00_start_here": 40,
    "01a_dpstgd_upload": 15,
    "01b_dpstgd_training": 60,
    "02a_backtracking_attack": 30,
    "02b_backtracking_defence": 70,
    "03a_spnn_sharing": 30,
    "03b_spnn_attacks": 60,
    "03c_spnn_system": 200,
    "04a_collaboration_forecast": 60,
    "04b_collaboration_scenarios": 60,
    "1_dpstgd": 70,
    "5_one_transaction": 60,
    "2_backtracking": 110,
    "4_collaboration": 90,
    "kanodia2020": 130,
    "wang2018": 150,
    "which_one": 150,
    "wu2020": 120,
    "zhou2021_attacks": 180,
    "zhou2021_dial": 150,
    "zhou2021_distress": 100,
    "zhou2021_method": 150,
    "zhou2021_system": 150,
}
AT_MOST_SOLUTION = 30
ON_ALL_CORES = {"03c_spnn_system", "zhou2021_system"}  # they start processes
STRETCH = 3.0  # seconds of a notebook between two turns, at least: a cell is not interrupted


def run(name: str, path: Path) -> list[Bar]:
    """Execute a notebook once as `ppkit execute` does, a turn of the loop after every STRETCH
    seconds. Each stretch is divided by the turn before it and by the one after it; the two sums
    make the spread, and their mean the ratio.
    """
    with contextlib.nullcontext() if name in ON_ALL_CORES else on_one_core():
        stretches, turns = _execute(nbformat.read(path, as_version=4))
    return [
        bar(
            f"notebook_{name}",
            f"notebook {name}, over one turn of the calibration loop",
            [sum(map(operator.truediv, stretches, side)) for side in (turns[:-1], turns[1:])],
            threads=1,
            at_most=_at_most(name),
        )
    ]


def _execute(notebook: nbformat.NotebookNode) -> tuple[list[float], list[float]]:
    """Seconds of the stretches, and of the turns around and between them: one more.

    On a machine that others use, too, a core's speed changes within seconds, and not as the next
    one's. So the loop runs where and when the notebook does; its kernel waits, between two cells.
    A run in which numba compiled, once on a machine, was the warm-up of another one.
    """
    stretches, turns = [], [turn()]

    def end_stretch() -> float:
        stretches.append(time.perf_counter() - start)
        turns.append(turn())
        return time.perf_counter()

    with tempfile.TemporaryDirectory(prefix="ppkit-bench-") as scratch:
        client = execute.client_of(notebook, Path(scratch))
        environment = for_kernel(Path(scratch), threads=1, source="standin")
        compiled = lambda: {*Path(environment["NUMBA_CACHE_DIR"]).rglob("*.nbc")}
        before, start = compiled(), time.perf_counter()
        with client.setup_kernel(env=environment):
            for index, cell in enumerate(notebook.cells):
                client.execute_cell(cell, index)
                if time.perf_counter() - start > STRETCH:
                    start = end_stretch()
        end_stretch()
        is_warm = compiled() == before
    return (stretches, turns) if is_warm else _execute(notebook)


def turn() -> float:
    """Seconds of the loop: as much of numpy's products as of Python's own steps, on one thread."""
    square = numpy.random.default_rng(0).standard_normal((500, 500))
    start = time.perf_counter()
    with threadpool_limits(1):
        for _ in range(60):
            numpy.tanh(square @ square)
    total = 0
    for number in range(4_000_000):
        total += number & 7
    return time.perf_counter() - start


def _at_most(name: str) -> int:
    return AT_MOST_SOLUTION if name.startswith("solutions/") else AT_MOST[name]
