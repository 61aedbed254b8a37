"""The bars of every notebook, run on a forked kernel and on a fresh one: do they show the same, and
what does the run of all of them cost?"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from bars import Bar, bar

from ppkit.runs import catalogue

sys.path.append(str(Path(__file__).parents[1]))

from tools.same_outputs import differences


def run() -> list[Bar]:
    """How many notebooks, solutions among them, show another output on a forked kernel, and the
    processor seconds of the whole run over those on fresh ones."""
    notebooks = catalogue.notebooks(solutions=True)
    with tempfile.TemporaryDirectory(prefix="ppkit-bench-") as home:
        (forked, its_seconds), (fresh, seconds) = (
            _reproduce(notebooks, Path(home, how), f"--{how}") for how in ("warm", "no-warm")
        )
        differ = [
            name
            for name in notebooks
            if differences(*(folder / notebooks[name].name for folder in (forked, fresh)))
        ]
    what = f"notebooks that show another output on a forked kernel, of {len(notebooks)}"
    if differ:
        what += f": {', '.join(differ)}"
    whole = f"`ppkit reproduce` of {len(notebooks)} notebooks on forked kernels, over fresh ones"
    return [
        bar("forked_differ", what, [len(differ)], threads=1, at_most=0),
        bar("forked_reproduce", whole, [its_seconds / seconds], threads=1, at_most=0.85),
    ]


def _reproduce(notebooks: dict[str, Path], runs: Path, how: str) -> tuple[Path, float]:
    """The folder of the finished notebooks of one run, and its processor seconds with all of its
    processes."""
    asked = ["reproduce", *map(str, notebooks.values()), "--fresh", "--data", "standin", how]
    command = [sys.executable, "-c", "from ppkit.cli import main; main()", *asked]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    before = _children()
    done = subprocess.run(
        [*command, "--runs", str(runs)], capture_output=True, env=variables, text=True
    )
    if done.returncode:
        sys.exit(f"{command[3:6]} ended with {done.returncode}: {done.stdout[-2000:]}")
    return runs / "latest" / "notebooks", _children() - before


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
