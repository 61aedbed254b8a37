"""Jobs, each one notebook in one child process, and this machine, which works them off; `cluster`
has others do it."""

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tqdm import tqdm

from ppkit.process_tree import terminated_like_interrupted
from ppkit.runs import catalogue, environment, json_files, run_folder, warm
from ppkit.runs.children import FRESH
from ppkit.runs.worker import DONE, RUNNING

MEMORY = 2560  # MB that a notebook is planned with
# Quick: one, as the committed values were computed; small networks do not gain from more, and on a
# busy machine a second thread made them four to ten times slower. Paper: all cores, which the
# notebook shares out itself.
THREADS = {"quick": 1, "paper": None}


class Executor(Protocol):
    """What executes jobs: `children.Children` on this machine, `cluster.Workers` on others.

    Leaving its block ends what still runs.
    """

    def __enter__(self) -> object: ...

    def __exit__(self, *_: object) -> bool | None: ...

    @property
    def running(self) -> Mapping[str, object]:
        """The jobs that are under way, by name."""

    def has_room(self) -> bool:
        """Whether one more may be started now."""

    def start(self, name: str, spec: Path) -> None:
        """Start the job of a spec file (see `worker`)."""

    def next_event(self, meanwhile: Callable[[], object]) -> tuple[str, dict[str, Any]]:
        """Wait for what happens next: (name, {"cell": k}) where code cell k begins, (name, {"done":
        {...}}) where a job has ended, ("", {}) where there is room again.

        meanwhile: called a few times a second as long as there is nothing.
        """


@dataclass(frozen=True)
class Job:
    """One notebook of a run, to be executed.

    folder: of the run, in whose record its `name` stands.  task: the notebook and its parameters.
    source: "real", "standin", "available" or None, as `environment.for_kernel`.
    limit: seconds that it may take, > 0; None for any.
    """

    folder: run_folder.RunFolder
    name: str
    task: run_folder.Task
    source: str | None
    limit: float | None

    @property
    def n_cells(self) -> int:
        return catalogue.n_code_cells(self.task.path) + bool(self.task.parameters)

    @property
    def threads(self) -> int | None:
        """Of its kernel; None for all cores."""
        return THREADS[self.folder.record["profile"]]

    def begin(self) -> Path:
        """Note that it runs; returns the file of what its child process is told."""
        self.folder.clear(self.name)
        self.folder.notebooks[self.name].update(status=RUNNING)
        self.folder.save()
        scratch = self.folder.path / ".cache" / self.name
        scratch.mkdir(parents=True, exist_ok=True)
        told = {
            "notebook": str(self.task.path),
            "folder": str(self.folder.path),
            "name": self.name,
            "parameters": self.task.parameters,
            "source": self.source,
            "threads": self.threads,
            "limit": self.limit,
        }
        json_files.write_json(scratch / "spec.json", told)
        return scratch / "spec.json"

    def end(self, outcome: dict[str, Any]) -> None:
        """Note how it went."""
        for left in ("cell", "error", "traceback", "after"):  # by an earlier try
            self.folder.notebooks[self.name].pop(left, None)
        self.folder.notebooks[self.name].update(outcome)
        self.folder.save()
        if outcome["status"] == DONE:
            shutil.rmtree(self.folder.path / ".cache" / self.name)


def parent_of(jobs: Mapping[str, Job]) -> AbstractContextManager[warm.WarmParent | None]:
    """What the workers of these jobs are forked from, within a block.

    None where a new interpreter does as well: for a single job, for jobs on several threads, and
    elsewhere than on Linux.
    """
    if len(jobs) < 2 or sys.platform != "linux":
        return nullcontext()
    if any(job.threads != 1 for job in jobs.values()):
        return nullcontext()
    return warm.WarmParent(dict.fromkeys(job.task.path for job in jobs.values()))


def work_off(jobs: Mapping[str, Job], executor: Executor) -> bool:
    """Have jobs executed, each as soon as there is room for it; False if interrupted.

    jobs: by what a person is told of each.  A bar over all code cells shows where they are; where
    no person watches, there is one line a finished job.
    """
    waiting = list(jobs)
    cells = {name: job.n_cells for name, job in jobs.items()}
    fresh: Counter[str] = Counter()  # jobs that could not be forked, by the reason
    begun: dict[str, int] = {}  # code cells of a job that are over or under way
    bar = tqdm(total=sum(cells.values()), disable=None, dynamic_ncols=True, leave=False)
    with terminated_like_interrupted(), executor, bar:
        try:
            while waiting or executor.running:
                while waiting and executor.has_room():
                    name = waiting.pop(0)
                    executor.start(name, jobs[name].begin())
                name, event = executor.next_event(meanwhile=bar.refresh)
                if "cell" in event:
                    begun[name] = event["cell"]
                elif event:
                    jobs[name].end(event["done"])
                    begun[name] = cells[name]
                    bar.write(_line(name, event["done"]))
                    fresh.update(_why_fresh(event["done"]))
                bar.n = sum(begun.values())
                bar.set_description_str(
                    ", ".join(f"{one} cell {begun.get(one, 0)}" for one in executor.running)
                )
        except KeyboardInterrupt:
            return False
    for why, count in fresh.items():
        print(f"{count} of {len(jobs)} started on a new interpreter: {why}")
    return True


def _why_fresh(outcome: dict[str, Any]) -> list[str]:
    """Why a job was not forked where it should have been, if so."""
    how, _, why = outcome.get("kernel", "").partition(": ")
    return [why] if how == FRESH and why else []


def _line(name: str, outcome: dict[str, Any]) -> str:
    """How a job went, in a line."""
    seconds, memory = outcome["seconds"], outcome["peak_memory_mb"]
    return f"{name:<24} {outcome['status']:<7} {seconds:7.1f} s {memory:6d} MB"


def at_once(profile: str) -> int:
    """How many notebooks this machine runs at once: in the quick profile as many as it has cores
    and free memory for, in the paper profile one, which shares out the cores itself."""
    fit = environment.memory_available() // (MEMORY * environment.MB)
    return max(1, min(environment.cores(), fit)) if profile == "quick" else 1
