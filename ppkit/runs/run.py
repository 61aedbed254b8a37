"""`ppkit reproduce`: plan a run or a batch, work it off, keep what is finished."""

import os
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from ppkit import project
from ppkit.runs import Refused, batch, catalogue, cut, index, jobs, key, reason, run_folder
from ppkit.runs.children import Children
from ppkit.runs.run_folder import Task
from ppkit.runs.worker import FAILED

if TYPE_CHECKING:
    from distributed import Client


class Run(run_folder.RunFolder):
    """The folder of a run, with the page that a person opens first."""

    def write_results(self) -> None:
        super().write_results()
        index.write(self)

    def jobs(
        self, tasks: dict[str, Task], source: str | None, limit: float | None
    ) -> dict[str, jobs.Job]:
        """What has to be done, by name."""
        return {
            name: jobs.Job(self, name, task, source, limit)
            for name, task in tasks.items()
            if self.is_missing(name)
        }


def reproduce(
    wanted: list[str],
    *,
    points: list[dict[str, str]] | None = None,
    profile: str = "quick",
    given: Mapping[str, str] | None = None,
    source: str | None = None,
    at_once: int | None = None,
    limit: float | None = None,
    fresh: bool = False,
    warm: bool = True,
    runs: Path | None = None,
    client: "Client | None" = None,
) -> int:
    """Run notebooks, each in a process of its own, into a folder under `runs`; go on in an
    unfinished one of the same key.

    wanted: names, none for all; with points one, of the project or any other with a parameters
    cell.
    points: of a batch, each what parameters are set to, as texts; what differs is varied.  Points
    that are equal, such as .5 and .50, run once.
    profile, source, given: as `catalogue.assign`.
    at_once: jobs at a time, >= 1; None for `jobs.at_once`.  limit: seconds that each may take, > 0.
    fresh: begin a new folder even if an unfinished one fits.
    warm: fork kernels from one process that has imported what they import, where that pays (see
    `jobs.parent_of`); else each starts on a new interpreter.
    runs: None for the project's runs/.
    client: of a scheduler, as `cluster.connect` gives it; None for this machine.
    Returns the exit code: 0, 1 if a notebook failed, 130 if interrupted.  Refused on bad input,
    before anything runs.
    """
    chosen = catalogue.select(wanted)
    more: dict[str, object] = {}
    kind: type[Run] | type[batch.Batch] = Run
    if points is None:
        asked = catalogue.assign(chosen, profile=profile, source=source, given=dict(given or {}))
        tasks = {name: Task(path, asked[name]) for name, path in chosen.items()}
    else:
        kind = batch.Batch
        tasks, more = batch.planned(chosen, points, profile=profile, source=source)
    digest = key.of(tasks, source, profile)
    runs = (runs or project.root() / "runs").resolve()
    folder = None if fresh else run_folder.find_unfinished(runs, digest, kind)
    if folder is None:
        record = run_folder.record(digest, profile, source, tasks)
        folder = run_folder.create(runs, record | more, kind)
    missing = folder.jobs(tasks, source, limit)
    if len(missing) < len(tasks):
        what = "notebooks" if points is None else "points"
        there = f"{len(tasks) - len(missing)} of {len(tasks)} {what} are there"
        print(f"going on in {folder.title}: {there}")
    if client:
        from ppkit.runs import cluster

        [path] = chosen.values()
        return carry_out(folder, missing, cluster.Workers(client, source, cluster.beside(path)))
    with jobs.parent_of(missing) if warm else nullcontext() as parent:
        return carry_out(folder, missing, Children(at_once or jobs.at_once(profile), parent))


def carry_out(
    folder: run_folder.RunFolder, missing: Mapping[str, jobs.Job], executor: jobs.Executor
) -> int:
    """Have done what a folder misses, write its results, say how it ended; returns the exit code.

    folder: locked for this process, which leaves it to others at the end.
    Refused if the folder cannot be written, with the first reason, or if the scheduler has gone.
    """
    try:
        folder.prepare()
        try:
            whole = jobs.work_off(missing, executor)
        except Refused:
            folder.close(interrupted=True)
            raise
        folder.close(interrupted=not whole)
        return told(folder, whole)
    except OSError as error:
        raise Refused(
            f"cannot write into {folder.title}: {reason(error)}; "
            f"what was finished stays, the same command goes on with the rest"
        ) from None
    finally:
        folder.release()


def told(folder: run_folder.RunFolder, whole: bool) -> int:
    """Say on the terminal how a run ended, and where its page is; returns the exit code."""
    if not whole:
        print(
            f"stopped: {folder.title} keeps what is finished; "
            "the same command goes on with the rest",
            file=sys.stderr,
        )
        return 130
    failed = {name: about for name, about in folder.notebooks.items() if about["status"] == FAILED}
    for name, about in failed.items():
        where = f"in code cell [{about['cell']}]" if about["cell"] else "before its first cell"
        if about.get("after"):
            where = "after its last cell, when its page was written"
        print(f"{name} failed {where}: {cut(about['error'], at=500)}", file=sys.stderr)
    latest = f"{os.path.dirname(folder.title)}/latest/index.html"
    print(f"open {folder.title}/index.html, which is also {latest}")
    return 1 if failed else 0
