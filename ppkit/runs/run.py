"""`ppkit reproduce`: plan a run, work it off notebook by notebook, keep what is finished."""

import os
import sys
from pathlib import Path

from ppkit import project
from ppkit.runs import Refused, catalogue, cut, environment, index, jobs, key, reason, run_folder
from ppkit.runs.worker import FAILED, RUNNING, Children

AT_ONCE = {"quick": 2, "paper": 1}


class Run(run_folder.RunFolder):
    """The folder of a run, with the page that a person opens first."""

    def write_results(self) -> None:
        super().write_results()
        index.write(self)


def reproduce(
    wanted: list[str],
    *,
    profile: str = "quick",
    given: list[tuple[str, str]] = (),
    source: str | None = None,
    at_once: int | None = None,
    fresh: bool = False,
    runs: Path | None = None,
) -> int:
    """Run notebooks, each in a process of its own, into a folder under `runs`; go on in an
    unfinished one of the same key.

    wanted: names, none for all.  profile, source, given: as `catalogue.assign`.
    at_once: notebooks at a time, >= 1; None for as many as cores and memory allow, two at most
    (paper profile: one).
    Memory allows as many as `jobs.at_once` says; one notebook always runs.
    fresh: begin a new folder even if an unfinished one fits.  runs: None for the project's runs/.
    Returns the exit code: 0, 1 if a notebook failed, 130 if interrupted.  Refused on bad input,
    before anything runs.
    """
    if at_once is not None and at_once < 1:
        raise Refused(f"jobs must be >= 1, got {at_once}")
    chosen = catalogue.select(wanted)
    parameters = catalogue.assign(chosen, profile=profile, source=source, given=list(given))
    digest = key.of(chosen, source, profile=profile, parameters=parameters)
    runs = (runs or project.root() / "runs").resolve()
    folder = None if fresh else run_folder.find_unfinished(runs, digest, Run)
    if folder is None:
        folder = run_folder.create(runs, record(digest, profile, source, chosen, parameters), Run)
    else:
        there = sum(not folder.is_missing(name) for name in chosen)
        print(f"going on in {folder.title}: {there} of {len(chosen)} notebooks are there")
    missing = {
        name: jobs.Job(folder, name, path, parameters[name], source)
        for name, path in chosen.items()
        if folder.is_missing(name)
    }
    if at_once is None:
        asked = [(name, bool(folder.notebooks[name].get("changed"))) for name in missing]
        at_once = jobs.at_once(asked, min(AT_ONCE[profile], environment.cores()))
    return carry_out(folder, missing, Children(at_once))


def carry_out(folder: run_folder.RunFolder, missing: dict[str, jobs.Job], workers) -> int:
    """Work off the jobs that a folder misses, write its results, say how it ended; returns the exit
    code.

    folder: locked for this process, which leaves it to others at the end.  missing, workers: as
    `jobs.work_off`.
    Refused if the folder cannot be written, with the first reason, or if the scheduler has gone.
    """
    try:
        folder.prepare()
        whole = _worked_off(folder, missing, workers)
        folder.close(interrupted=not whole)
        return told(folder, whole)
    except OSError as error:
        raise Refused(
            f"cannot write into {folder.title}: {reason(error)}; "
            f"what was finished stays, the same command goes on with the rest"
        ) from None
    finally:
        folder.release()


def _worked_off(folder: run_folder.RunFolder, missing: dict[str, jobs.Job], workers) -> bool:
    try:
        return jobs.work_off(missing, workers)
    except Refused:
        folder.close(interrupted=True)
        raise


def told(folder, whole: bool) -> int:
    """Say on the terminal how a run ended, and where its page is; returns the exit code."""
    if not whole:
        print(
            f"stopped: {folder.title} keeps what is finished; "
            "the same command goes on with the rest",
            file=sys.stderr,
        )
        return 130
    failed = [name for name, about in folder.notebooks.items() if about["status"] == FAILED]
    for name in failed:
        about = folder.notebooks[name]
        where = f"in code cell [{about['cell']}]" if about["cell"] else "before its first cell"
        if about.get("after"):
            where = "after its last cell, when its page was written"
        print(f"{name} failed {where}: {cut(about['error'], at=500)}", file=sys.stderr)
    latest = f"{os.path.dirname(folder.title)}/latest/index.html"
    print(f"open {folder.title}/index.html, which is also {latest}")
    return 1 if failed else 0


def record(
    key: str, profile: str, source: str | None, chosen: dict[str, Path], parameters: dict
) -> dict:
    """What run.json says of a run before it begins.

    chosen: notebooks by name.  parameters: by name, what is set in each.
    """
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
        "data": source or os.environ.get("PPKIT_SOURCE", "available"),
        "key": key,
        "seeds": sorted({one["SEED"] for one in values if "SEED" in one}),
        "commit": environment.commit(),
        "versions": environment.versions(),
        "machine": environment.describe(),
        "notebooks": notebooks,
    }
