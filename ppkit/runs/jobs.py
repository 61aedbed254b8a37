"""Jobs, each one notebook in one child process, and this machine, which works them off; `cluster`
has others do it."""

import itertools
import shutil
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from ppkit import project
from ppkit.lifeline import terminated_like_interrupted
from ppkit.runs import catalogue, environment, run_folder
from ppkit.runs.worker import DONE, RUNNING

# For a notebook without a measured peak in pyproject.toml, or with other parameters.
MEMORY_UNKNOWN = 2560  # MB
# Quick: one, as the committed values were computed; small networks do not gain from more, and on a
# busy machine a second thread made them four to ten times slower. Paper: all cores, which the
# notebook shares out itself.
THREADS = {"quick": 1, "paper": None}


@dataclass(frozen=True)
class Job:
    """One notebook of a run, to be executed.

    folder: of the run, in whose record its `name` stands.  path: the notebook.  parameters: that
    are set.  source: "real", "standin", "available" or None, as `environment.for_kernel`.
    limit: seconds that it may take, > 0; None for any.
    """

    folder: run_folder.RunFolder
    name: str
    path: Path
    parameters: dict[str, object]
    source: str | None
    limit: float | None = None

    @property
    def n_cells(self) -> int:
        return catalogue.n_code_cells(self.path) + bool(self.parameters)

    def begin(self) -> Path:
        """Note that it runs; returns the file of what its child process is told."""
        self.folder.clear(self.name)
        self.folder.notebooks[self.name].update(status=RUNNING)
        self.folder.save()
        scratch = self.folder.path / ".cache" / self.name
        scratch.mkdir(parents=True, exist_ok=True)
        told = {name: getattr(self, name) for name in ("name", "source", "limit")}
        told |= {"parameters": {name: repr(value) for name, value in self.parameters.items()}}
        told |= {"notebook": str(self.path), "folder": str(self.folder.path)}
        told["threads"] = THREADS[self.folder.record["profile"]]
        run_folder.write_json(scratch / "spec.json", told)
        return scratch / "spec.json"

    def end(self, outcome: dict) -> None:
        """Note how it went."""
        nothing = {"cell": None, "heading": "", "error": None, "traceback": []}
        self.folder.notebooks[self.name].update(nothing | outcome)
        self.folder.save()
        if outcome["status"] == DONE:
            shutil.rmtree(self.folder.path / ".cache" / self.name)


def work_off(jobs: dict[str, Job], workers) -> bool:
    """Have workers execute jobs, each as soon as there is room for it; False if interrupted.

    jobs: by what a person is told of each.  workers: `Children`, or what does the same elsewhere.
    """
    waiting, cells = list(jobs), {name: job.n_cells for name, job in jobs.items()}
    with terminated_like_interrupted(), workers, _Bar(cells) as bar:
        try:
            while waiting or workers.running:
                while waiting and workers.has_room():
                    name = waiting.pop(0)
                    workers.start(name, jobs[name].begin())
                name, event = workers.next_event(meanwhile=bar.draw)
                if "cell" in event:
                    bar.at(name, event["cell"])
                elif event:
                    jobs[name].end(event["done"])
                    bar.finished(name, event["done"])
        except KeyboardInterrupt:
            return False
    return True


def at_once(notebooks: list[tuple[str, bool]], at_most: int) -> int:
    """How many notebooks this machine runs at once, 1 to at_most: as many as fit into the memory
    that is free now, should the largest of them run together.

    notebooks: by name, and whether its parameters are others than its own.  What it takes at most
    stands in pyproject.toml, [tool.ppkit.memory].
    """
    measured = project.setting("memory") or {}
    peaks = [
        max(measured.get(name, 0), MEMORY_UNKNOWN if changed or name not in measured else 0)
        for name, changed in notebooks
    ]
    together = itertools.accumulate(sorted(peaks, reverse=True)[:at_most])
    free = environment.memory_available() / environment.MB
    return max(1, sum(megabytes <= free for megabytes in together))


class _Bar(tqdm):
    """One bar over all code cells; where no person watches, one line a finished job."""

    def __init__(self, cells: dict[str, int]):
        self._cells, self._at, self._ended = cells, {}, 0
        super().__init__(
            total=sum(cells.values()),
            disable=None,
            dynamic_ncols=True,
            leave=False,
            bar_format="{desc} |{bar}| {n_fmt} of {total_fmt} cells, {elapsed}, {remaining} left",
        )

    def at(self, name: str, cell: int) -> None:
        self._at[name] = cell
        self.draw()

    def finished(self, name: str, outcome: dict) -> None:
        self._at.pop(name, None)
        self._ended += self._cells[name]
        self.draw()
        seconds, memory = outcome["seconds"], outcome["peak_memory_mb"]
        self.write(f"{name:<24} {outcome['status']:<7} {seconds:7.1f} s {memory:6d} MB")

    def draw(self) -> None:
        """Draw the bar as things stand, the clock included."""
        self.n = self._ended + sum(cell - 1 for cell in self._at.values())
        self.desc = ", ".join(
            f"{name} cell {k}/{self._cells[name]}" for name, k in self._at.items()
        )
        self.refresh()
