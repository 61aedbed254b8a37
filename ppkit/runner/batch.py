"""`ppkit reproduce`: plan a run, work it off notebook by notebook in child processes, keep what is
finished."""

import json
import os
import shutil
import sys
import tomllib
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from tqdm import tqdm

from ppkit import datasets, project
from ppkit.datasets.files import sha256
from ppkit.datasets.loading import real_file
from ppkit.lifeline import terminated_like_interrupted
from ppkit.runner import Refused, catalogue, environment, index, pages, reason, run_folder
from ppkit.runner.worker import DONE, FAILED, RUNNING, Children

# For a notebook without a measured peak in pyproject.toml, or with other parameters.
MEMORY_UNKNOWN = 2560 * environment.MB
AT_ONCE = {"quick": 2, "paper": 1}
# Quick: one, as the committed values were computed; small networks do not gain from more, and on a
# busy machine a second thread made them four to ten times slower. Paper: all cores, which the
# notebook shares out itself.
THREADS = {"quick": 1, "paper": None}


def reproduce(
    wanted: list[str],
    *,
    profile: str = "quick",
    given: list[tuple[str, str]] = (),
    source: str | None = None,
    jobs: int | None = None,
    fresh: bool = False,
    runs: Path | None = None,
) -> int:
    """Run notebooks, each in a process of its own, into a folder under `runs`; go on in an
    unfinished one of the same key.

    wanted: names, none for all.  profile, source, given: as `catalogue.assign`.
    jobs: notebooks at a time, >= 1; None for as many as cores and memory allow, two at most (paper
    profile: one).
    Memory allows what the notebooks' measured peaks leave room for; one notebook always runs.
    fresh: begin a new folder even if an unfinished one fits.  runs: None for the project's runs/.
    Returns the exit code: 0, 1 if a notebook failed, 130 if interrupted.  Refused on bad input,
    before anything runs.
    """
    if jobs is not None and jobs < 1:
        raise Refused(f"jobs must be >= 1, got {jobs}")
    chosen = catalogue.select(wanted)
    parameters = catalogue.assign(chosen, profile=profile, source=source, given=list(given))
    key = _key(chosen, profile, parameters, source)
    runs = (runs or project.root() / "runs").resolve()
    folder = None if fresh else run_folder.find_unfinished(runs, key)
    if folder is None:
        folder = run_folder.create(runs, _record(key, profile, source, chosen, parameters))
    else:
        there = sum(not folder.is_missing(name) for name in chosen)
        print(f"going on in {folder.title}: {there} of {len(chosen)} notebooks are there")
        run_folder.point_latest(folder.path)
    missing = {name: path for name, path in chosen.items() if folder.is_missing(name)}
    needs = {} if jobs else _needs(folder.notebooks)
    jobs = jobs or min(AT_ONCE[profile], environment.cores())
    try:
        interrupted = _work_off(folder, missing, parameters, source, jobs, needs)
        return _finish(folder, interrupted)
    except OSError as error:
        raise Refused(
            f"cannot write into {folder.title}: {reason(error)}; "
            f"what was finished stays, the same command goes on with the rest"
        ) from None
    finally:
        folder.release()


def _work_off(
    folder,
    missing: dict[str, Path],
    parameters: dict,
    source: str | None,
    jobs: int,
    needs: dict[str, int],
) -> bool:
    pages.copy_mathjax(folder.path / "html")
    cells = {
        name: catalogue.n_code_cells(path) + bool(parameters[name])
        for name, path in missing.items()
    }
    waiting = list(missing)
    with terminated_like_interrupted(), Children() as children, _Bar(cells) as bar:
        try:
            while waiting or children.running:
                while len(children.running) < jobs and (name := _next(waiting, children, needs)):
                    waiting.remove(name)
                    folder.clear(name)
                    folder.notebooks[name].update(status=RUNNING)
                    folder.save()
                    children.start(
                        name, _spec(folder, name, missing[name], parameters[name], source)
                    )
                name, event = children.next_event(meanwhile=bar.draw)
                if "cell" in event:
                    bar.at(name, event["cell"])
                else:
                    about = {"cell": None, "heading": "", "error": None, "traceback": []}
                    folder.notebooks[name].update(about | event["done"])
                    folder.save()
                    if event["done"]["status"] == DONE:
                        shutil.rmtree(folder.path / ".cache" / name)
                    bar.finished(name, folder.notebooks[name])
        except KeyboardInterrupt:
            return True
    return False


def _next(waiting: list[str], children: Children, needs: dict[str, int]) -> str | None:
    """The first waiting notebook that fits beside the running ones, which may still grow."""
    to_come = sum(max(0, needs.get(name, 0) - children.memory[name]) for name in children.running)
    left = environment.memory_available() - to_come
    return next(
        (name for name in waiting if not children.running or needs.get(name, 0) <= left), None
    )


def _needs(notebooks: dict[str, dict]) -> dict[str, int]:
    """Bytes that each notebook's processes take at most, by pyproject.toml, [tool.ppkit.memory]."""
    file = project.root() / "pyproject.toml"
    tool = tomllib.loads(file.read_text("utf-8"))["tool"] if file.exists() else {}
    table = tool.get("ppkit", {}).get("memory", {})
    measured = {name: megabytes * environment.MB for name, megabytes in table.items()}
    return {
        name: measured[name]
        if name in measured and not about.get("changed")
        else max(MEMORY_UNKNOWN, measured.get(name, 0))
        for name, about in notebooks.items()
    }


def _finish(folder, interrupted: bool) -> int:
    folder.close(interrupted=interrupted)
    index.write(folder)
    failed = [name for name, about in folder.notebooks.items() if about["status"] == FAILED]
    if interrupted:
        print(
            f"stopped: {folder.title} keeps what is finished; "
            "the same command goes on with the rest",
            file=sys.stderr,
        )
        return 130
    for name in failed:
        about = folder.notebooks[name]
        where = f"in code cell [{about['cell']}]" if about["cell"] else "before its first cell"
        print(f"{name} failed {where}: {about['error']}", file=sys.stderr)
    print(
        f"open {folder.title}/index.html, "
        f"which is also {os.path.dirname(folder.title)}/latest/index.html"
    )
    return 1 if failed else 0


def _spec(folder, name: str, path: Path, parameters: dict, source: str | None) -> Path:
    scratch = folder.path / ".cache" / name
    scratch.mkdir(parents=True, exist_ok=True)
    spec = {
        "notebook": str(path),
        "output": str(folder.path / "notebooks" / f"{name}.ipynb"),
        "page": str(folder.path / "html" / f"{name}.html"),
        "scratch": str(scratch),
        "parameters": parameters,
        "environment": environment.for_kernel(
            scratch,
            threads=THREADS[folder.record["profile"]],
            source=source,
            run=folder.path,
            notebook=name,
        ),
    }
    run_folder.write_json(scratch / "spec.json", spec)
    return scratch / "spec.json"


def _record(
    key: str, profile: str, source: str | None, chosen: dict[str, Path], parameters: dict
) -> dict:
    notebooks = {
        name: {
            "status": "waiting",
            "parameters": {**catalogue.parameters(path), **parameters[name]},
            "changed": sorted(set(parameters[name]) - {"PROFILE", "SOURCE"}),
        }
        for name, path in chosen.items()
    }
    values = [about["parameters"] for about in notebooks.values()]
    return {
        "state": RUNNING,
        "profile": profile,
        "data": source or os.environ.get("PPKIT_SOURCE", "auto"),
        "key": key,
        "seeds": sorted({one["SEED"] for one in values if "SEED" in one}),
        "versions": environment.versions(),
        "machine": environment.describe(),
        "notebooks": notebooks,
    }


def _key(chosen: dict[str, Path], profile: str, parameters: dict, source: str | None) -> str:
    """What must be the same for a run to go on: notebooks' sources, profile, parameters, data, our
    sources, the lock.

    Our sources: of ppkit, and of every package that adds commands to it, such as spnn_system.
    """
    cells = {
        name: [cell["source"] for cell in catalogue.cells(path)] for name, path in chosen.items()
    }
    adding = (
        entry.module.partition(".")[0] for entry in metadata.entry_points(group="ppkit.commands")
    )
    folders = [Path(find_spec(package).origin).parent for package in sorted({"ppkit", *adding})]
    code = {
        file.relative_to(folder.parent).as_posix(): file.read_bytes()
        for folder in folders
        for file in sorted(folder.rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    }
    lock = project.root() / "requirements.lock"
    found = {name: real_file(name) for name in datasets.NAMES}
    asked = {
        "cells": cells,
        "profile": profile,
        "parameters": parameters,
        "source": source or os.environ.get("PPKIT_SOURCE"),
        "data": {name: file and sha256(file.path) for name, file in found.items()},
        "code": list(code),
    }
    return run_folder.digest(
        json.dumps(asked, sort_keys=True).encode(),
        *code.values(),
        lock.read_bytes() if lock.exists() else b"",
    )


class _Bar(tqdm):
    """One bar over all code cells; where no person watches, one line a finished notebook."""

    def __init__(self, cells: dict[str, int]):
        self._cells, self._at, self._ended = cells, {}, 0
        super().__init__(
            total=sum(cells.values()),
            disable=None,
            dynamic_ncols=True,
            leave=False,
            bar_format="{desc} |{bar}| {n_fmt} of {total_fmt} cells, {elapsed}",
        )

    def at(self, name: str, cell: int) -> None:
        self._at[name] = cell
        self.draw()

    def finished(self, name: str, about: dict) -> None:
        self._at.pop(name, None)
        self._ended += self._cells[name]
        self.draw()
        seconds, memory = about["seconds"], about["peak_memory_mb"]
        self.write(f"{name:<24} {about['status']:<7} {seconds:7.1f} s {memory:6d} MB")

    def draw(self) -> None:
        """Draw the bar as things stand, the clock included."""
        self.n = self._ended + sum(cell - 1 for cell in self._at.values())
        self.desc = ", ".join(
            f"{name} cell {k}/{self._cells[name]}" for name, k in self._at.items()
        )
        self.refresh()
