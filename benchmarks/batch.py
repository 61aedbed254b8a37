"""Bars of batches: workers of a scheduler on this machine, each a process with one thread."""

from __future__ import annotations

import contextlib
import csv
import itertools
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import nbformat
from bars import Bar, bar, on_one_core

from ppkit.runs import run_folder
from ppkit.runs.children import Children

EQUAL, MANY, REPEATS = 8, 200, 3
SECONDS_OF_MANY, KILLED_EVERY = 2.0, 20.0
STEPS = 60_000_000  # of Python's own loop: some seconds of one core
WORK = f"total = 0\nfor number in range({STEPS}):\n    total += number & 7"


def run() -> list[Bar]:
    """Two workers beside one; what a point costs beyond its child process; workers killed on the
    way."""
    with tempfile.TemporaryDirectory(prefix="ppkit-bench-") as folder:
        home = Path(folder)
        for part in ("notebooks", "ppkit"):
            (home / part).mkdir()
        _notebook(home, "equal", WORK)
        _notebook(home, "short", f"import time\ntime.sleep({SECONDS_OF_MANY})")
        one, two, own = [], [], []
        for k in range(REPEATS + 1):  # one worker on either core in turn: they are not equal
            with _Machines(home, 1, on_one_core(k)) as machines:
                one.append(_batch(home, "equal", EQUAL, machines.address)[0])
            with on_one_core(k):
                own.append(one[-1] / EQUAL - _child_seconds(home, "equal"))
            if k < REPEATS:
                with _Machines(home, 2) as machines:
                    two.append(_batch(home, "equal", EQUAL, machines.address)[0])
        with _Machines(home, 2) as machines, machines.killed_every(KILLED_EVERY):
            _, points = _batch(home, "short", MANY, machines.address)
    done = sum(point["status"] == "done" for point in points)
    return [
        bar(
            "batch_two_workers",
            f"{EQUAL} equal notebooks on one worker with one thread, on either core in turn, "
            "over the same on two",
            [sum(around) / 2 / seconds for around, seconds in zip(itertools.pairwise(one), two)],
            threads=2,
            at_least=1.7,
        ),
        bar(
            "batch_own_seconds",
            "seconds a point of a batch on one worker, the start of the command included, beyond "
            "those of the child process that runs the notebook",
            own,
            threads=1,
            at_most=1.0,
        ),
        bar(
            "batch_complete",
            f"share of {MANY} points of {SECONDS_OF_MANY:g} s that are done, one of two workers "
            f"killed every {KILLED_EVERY:g} s",
            [done / MANY],
            threads=2,
            at_least=1.0,
        ),
    ]


def _notebook(home: Path, name: str, code: str) -> None:
    first = nbformat.v4.new_code_cell("SEED = 0", metadata={"tags": ["parameters"]})
    made = nbformat.v4.new_notebook(cells=[first, nbformat.v4.new_code_cell(code)])
    nbformat.write(made, home / "notebooks" / f"{name}.ipynb")


def _batch(home: Path, name: str, n: int, address: str) -> tuple[float, list[dict[str, str]]]:
    """Seconds of the command, and its table."""
    command = [sys.executable, "-c", "from ppkit.cli import main; main()", "reproduce", name]
    options = ["--grid", f"SEED=0..{n - 1}", "--scheduler", address, "--fresh", "--data", "standin"]
    start = time.perf_counter()
    subprocess.run([*command, *options], env=_environment(home), stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - start
    with open(home / "runs" / "latest" / "table.csv", newline="") as table:
        return seconds, list(csv.DictReader(table))


def _child_seconds(home: Path, name: str) -> float:
    """From the start of the child process of every job to its last line, by itself."""
    with tempfile.TemporaryDirectory(dir=home) as folder:
        for part in (*run_folder.PARTS, f".cache/{name}"):
            Path(folder, part).mkdir(parents=True)
        told = {"notebook": str(home / "notebooks" / f"{name}.ipynb"), "folder": folder}
        told |= {"name": name, "parameters": {}, "source": "standin", "threads": 1, "limit": None}
        spec = Path(folder, ".cache", name, "spec.json")
        run_folder.write_json(spec, told)
        start = time.perf_counter()
        with Children() as child:
            child.start(name, spec)
            while "done" not in child.next_event()[1]:
                pass
        return time.perf_counter() - start


def _environment(home: Path) -> dict[str, str]:
    return {**os.environ, "PPKIT_HOME": str(home), "OMP_NUM_THREADS": "1"}


class _Machines(contextlib.AbstractContextManager):
    """A scheduler and workers, as many processes; the first workers start within `kept`."""

    def __init__(self, home: Path, workers: int, kept=contextlib.nullcontext()):
        self.home, self.number = home, itertools.count()
        self.scheduler = self._started("scheduler", "--host=127.0.0.1", "--port=0")
        while not (found := re.search(r"Scheduler at: +(tcp://\S+)", self.log.read_text())):
            time.sleep(0.1)
        self.address = found[1]
        with kept:
            self.workers = [self._worker() for _ in range(workers)]

    def _started(self, what: str, *options: str) -> subprocess.Popen:
        self.log = self.home / f"{what}.log"
        with open(self.log, "w") as said:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "dask", what, "--no-dashboard", *options],
                env=_environment(self.home),
                stdout=said,
                stderr=said,
                cwd=self.home,
            )

    def _worker(self) -> subprocess.Popen:
        own = f"--local-directory={self.home / f'worker-{next(self.number)}'}"
        return self._started("worker", self.address, "--nthreads=1", "--no-nanny", own)

    @contextlib.contextmanager
    def killed_every(self, seconds: float):
        """Inside, one worker after the other is killed and another started in its place."""
        over = threading.Event()

        def kill() -> None:
            for k in itertools.cycle(range(len(self.workers))):
                if over.wait(seconds):
                    return
                self.workers[k].kill()
                self.workers[k].wait()
                self.workers[k] = self._worker()

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            yield
        finally:
            over.set()
            killer.join()

    def __exit__(self, *_) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()
