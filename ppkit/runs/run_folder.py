"""The folder of one run: its record (run.json), its claims, and whether a later run may go on in
it."""

import contextlib
import itertools
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock

from ppkit import project
from ppkit.atomic_writing import PART, remove, whole
from ppkit.runs import Refused, catalogue, environment, json_files, pages, reason
from ppkit.runs.claims_file import read_claims
from ppkit.runs.worker import DONE, RUNNING
from ppkit.verdicts import ledger, rows
from ppkit.verdicts.rows import Row

FINISHED, WITH_FAILURES, INTERRUPTED = "finished", "with failures", "interrupted"
PARTS = ("notebooks", "html", "figures", "claims", ".cache")


class RunFolder:
    """One folder under runs/: `path`, and `record`, which is what run.json holds.

    The process that works in it holds a lock on it, so that no second one resumes it meanwhile.
    parts: its places, one for each kind of file.  mathjax_in: the place beside whose pages MathJax
    lies.
    """

    parts: tuple[str, ...] = PARTS
    mathjax_in = "html"

    def __init__(self, path: Path, record: dict[str, Any]):
        self.path, self.record = path, record
        self._lock = FileLock(path / ".cache" / "lock", blocking=False, thread_local=False)

    @property
    def notebooks(self) -> dict[str, dict[str, Any]]:
        """What is known of each notebook of this run: status, seconds, peak memory, failed cell and
        error."""
        return self.record["notebooks"]

    @property
    def title(self) -> str:
        """The folder as a person in the project's folder would type it."""
        return os.path.relpath(self.path, project.root())

    def save(self) -> None:
        """Write run.json whole or not at all."""
        json_files.write_json(self.path / "run.json", self.record)

    def make(self) -> None:
        """Make what is not there of the folder and its places, and write run.json."""
        for part in self.parts:
            (self.path / part).mkdir(parents=True, exist_ok=True)
        self.save()

    def prepare(self) -> None:
        """Make ready to work in the folder, wherever an earlier process was stopped: its places,
        MathJax, nothing half written, `latest`."""
        for left in (*self.path.glob(f"*{PART}"), *self.path.glob(f"*/*{PART}")):
            remove(left)
        self.make()
        pages.copy_mathjax(self.path / self.mathjax_in)
        point_latest(self.path)

    def is_missing(self, name: str) -> bool:
        """True if the notebook has not been run to its end in this folder."""
        return (
            self.notebooks.get(name, {}).get("status") != DONE
            or not (self.path / "notebooks" / f"{name}.ipynb").exists()
        )

    def clear(self, name: str) -> None:
        """Take away what an unfinished notebook left: its claims and figures."""
        (self.path / "claims" / f"{name}.json").unlink(missing_ok=True)
        for about in (self.path / "figures").glob("*.json"):
            if json_files.read_json(about)["notebook"] == name:
                for kind in (".json", ".png", ".svg"):
                    about.with_suffix(kind).unlink(missing_ok=True)

    def close(self, *, interrupted: bool = False) -> None:
        """Write what the run found, then its state: who is stopped in between has no finished run
        without results."""
        statuses = {about["status"] for about in self.notebooks.values()}
        for about in self.notebooks.values():
            if about["status"] == RUNNING:
                about["status"] = INTERRUPTED
        if interrupted:
            self.record["state"] = INTERRUPTED
        else:
            self.record["state"] = FINISHED if statuses == {DONE} else WITH_FAILURES
        self.write_results()
        self.save()

    def write_results(self) -> None:
        """Merge the claims of the notebooks."""
        recorded: list[Row] = []
        for file in sorted((self.path / "claims").glob("*.json")):
            recorded += read_claims(file)
        kept = ("id", "state", "profile", "data", "versions", "commit")
        about = {name: self.record[name] for name in kept}
        about["machine"] = self.record["machine"]["summary"]
        rows.write(self.path / "claims.json", self.kept(recorded), run=about, pictures={})

    def kept(self, recorded: list[Row]) -> list[Row]:
        """Of what the notebooks recorded, the rows of claims.json: one a claim of every paper."""
        return ledger.merge(recorded)

    def lock(self) -> None:
        """Take the folder for this process.  OSError if another one works in it, or as the disk
        says."""
        self._lock.acquire()

    def release(self) -> None:
        """Let another process go on in the folder."""
        self._lock.release()


AnyFolder = TypeVar("AnyFolder", bound=RunFolder)  # of a run or of a batch


def create(runs: Path, record: dict[str, Any], kind: type[AnyFolder]) -> AnyFolder:
    """A new folder <time>-<profile> in the folder `runs`, its record written, `latest` pointing to
    it, locked for us.

    Refused if it cannot be written.
    """
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{record['profile']}"
    try:
        runs.mkdir(parents=True, exist_ok=True)
        path = runs / name
        for count in itertools.count(2):
            if not path.exists():
                break
            path = runs / f"{name}-{count}"
        path.mkdir()
        folder = kind(path, {"id": path.name, **record})
        folder.lock()  # before anybody can find it
        folder.make()
        point_latest(path)
    except OSError as error:
        raise Refused(f"cannot write into {runs}: {reason(error)}") from None
    return folder


def find_unfinished(runs: Path, key: str, kind: type[AnyFolder]) -> AnyFolder | None:
    """The newest unfinished run in `runs` of this key that nobody works in, locked for us.

    None if there is none, or if one that is newer was run to its end.
    """
    for path in reversed(_records(runs)):
        with contextlib.suppress(Refused, OSError, KeyError):
            folder = kind(path.parent, read_record(path))
            if folder.record["key"] == key:
                if folder.record["state"] == FINISHED:
                    return None
                folder.lock()
                return folder
    return None


def _records(runs: Path) -> list[Path]:
    """The run.json of every run in the folder `runs`, oldest first; `latest` is none of its own."""
    return sorted(path for path in runs.glob("*/run.json") if not path.parent.is_symlink())


@dataclass(frozen=True)
class Task:
    """A notebook, and what its parameters are set to."""

    path: Path
    parameters: dict[str, object]


def record(key: str, profile: str, source: str | None, tasks: dict[str, Task]) -> dict[str, Any]:
    """What run.json says of a run before it begins; tasks: by their names in the run."""
    defaults = {path: catalogue.parameters(path) for path in {one.path for one in tasks.values()}}
    notebooks: dict[str, dict[str, Any]] = {
        name: {
            "status": "waiting",
            "parameters": {**defaults[task.path], **task.parameters},
            "changed": sorted(set(task.parameters) - {"PROFILE", "SOURCE"}),
        }
        for name, task in tasks.items()
    }
    return {
        "state": RUNNING,
        "profile": profile,
        "data": source or os.environ.get("PPKIT_SOURCE", "available"),
        "key": key,
        "commit": environment.commit(),
        "versions": environment.versions(),
        "machine": environment.describe(),
        "notebooks": notebooks,
    }


def open_run(name: str) -> RunFolder:
    """The run called `name` ("latest" or an id) under runs/, or at that path.  Refused with the ids
    there are."""
    runs = project.root() / "runs"
    for path in (runs / name, Path(name)):
        if (path / "run.json").is_file():
            return RunFolder(path.resolve(), read_record(path / "run.json"))
    places = [runs / "latest", *(path.parent for path in _records(runs))]
    there = [place.name for place in places if (place / "run.json").is_file()]
    raise Refused(f"unknown run {name!r}: there are {', '.join(there) or 'none yet'}")


def point_latest(path: Path) -> None:
    """Make `latest`, beside the run at `path`, a relative link to it."""
    with whole(path.parent / "latest") as link:
        link.symlink_to(path.name)


def read_record(path: Path) -> dict[str, Any]:
    """What a run.json says of its run; Refused if it is damaged."""
    record = json_files.read_json(path)
    if not isinstance(record, dict) or not isinstance(record.get("notebooks"), dict):
        raise Refused(f"{path} is damaged: it does not say what was run")
    return record
