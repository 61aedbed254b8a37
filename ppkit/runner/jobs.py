"""Jobs, each one notebook in one child process, and this machine, which works them off; `cluster`
has others do it."""

import shutil
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from ppkit import project
from ppkit.lifeline import terminated_like_interrupted
from ppkit.runner import catalogue, environment, pages, run_folder
from ppkit.runner.worker import DONE, RUNNING, Children

# For a notebook without a measured peak in pyproject.toml, or with other parameters.
MEMORY_UNKNOWN = 2560 * environment.MB
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
        pages.copy_mathjax(self.folder.path / "html")
        self.folder.clear(self.name)
        self.folder.notebooks[self.name].update(status=RUNNING)
        self.folder.save()
        scratch = self.folder.path / ".cache" / self.name
        scratch.mkdir(parents=True, exist_ok=True)
        told = {name: getattr(self, name) for name in ("name", "parameters", "source", "limit")}
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


def work_off(jobs: dict[str, Job], workers, choose: Callable) -> bool:
    """Have workers execute jobs, each as soon as `choose` allows it; False if interrupted.

    jobs: by what a person is told of each.  workers: `Children`, or what does the same elsewhere.
    choose: (names that wait, workers) -> the name to start now, or None.
    """
    waiting, cells = list(jobs), {name: job.n_cells for name, job in jobs.items()}
    with terminated_like_interrupted(), workers, _Bar(cells) as bar:
        try:
            while waiting or workers.running:
                while (name := choose(waiting, workers)) is not None:
                    waiting.remove(name)
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


def here(at_once: int, needs: dict[str, int]) -> Callable:
    """What `work_off` starts on this machine: the first job that fits beside the running ones,
    which may still grow; one always runs.

    at_once: jobs, at most.  needs: bytes of memory by job; {} where a person said how many.
    """

    def choose(waiting: list[str], children: Children) -> str | None:
        to_come = sum(
            max(0, needs.get(name, 0) - children.memory[name]) for name in children.running
        )
        left = environment.memory_available() - to_come
        fits = (name for name in waiting if not children.running or needs.get(name, 0) <= left)
        return next(fits, None) if len(children.running) < at_once else None

    return choose


def needs(notebooks: dict[str, dict]) -> dict[str, int]:
    """Bytes that each notebook's processes take at most, by pyproject.toml, [tool.ppkit.memory]."""
    file = project.root() / "pyproject.toml"
    tool = tomllib.loads(file.read_text("utf-8"))["tool"] if file.exists() else {}
    measured = tool.get("ppkit", {}).get("memory", {})
    return {
        name: environment.MB * measured[name]
        if name in measured and not about.get("changed")
        else max(MEMORY_UNKNOWN, environment.MB * measured.get(name, 0))
        for name, about in notebooks.items()
    }


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
