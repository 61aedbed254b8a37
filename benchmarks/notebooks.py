"""Bars of the notebooks: seconds of each, quick profile, one thread, over a calibration loop's."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from pathlib import Path

import numpy
from bars import REPEATS, Bar, bar
from threadpoolctl import threadpool_limits

from ppkit.runner import execute

# Turns of the calibration loop that a notebook may take: half as many again as it took at first.
AT_MOST = {
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
    "kanodia2020": 130,
    "wang2018": 150,
    "which_one": 150,
    "wu2020": 120,
    "zhou2021_attacks": 180,
    "zhou2021_dial": 150,
    "zhou2021_method": 150,
    "zhou2021_system": 150,
}
AT_MOST_SOLUTION = 30


def run(name: str, path: Path) -> list[Bar]:
    """Execute a copy of a notebook once, between turns of the loop, which make the spread."""
    before = turns()
    seconds = _execute(path)
    after = turns()
    return [
        bar(
            f"notebook_{name}",
            f"notebook {name}, over one turn of the calibration loop",
            [seconds / before, seconds / after],
            threads=1,
            at_most=_at_most(name),
        )
    ]


def turns() -> float:
    """The mean seconds of REPEATS turns: on a machine that others use, too, single ones lie up to
    1.7 times apart, and a notebook meets them all."""
    return statistics.fmean(turn() for _ in range(REPEATS))


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


def _execute(path: Path) -> float:
    with tempfile.TemporaryDirectory(prefix="ppkit-bench-") as folder:
        return execute.in_place(Path(shutil.copy(path, folder)))


def _at_most(name: str) -> int:
    return AT_MOST_SOLUTION if name.startswith("solutions/") else AT_MOST[name]
