"""The folder of one run: its record (run.json), its claims, and whether a later run may go on in
it."""

import contextlib
import hashlib
import json
import os
import time
from pathlib import Path

from filelock import FileLock

from ppkit import project
from ppkit.runs import Refused, pages, reason
from ppkit.runs.worker import DONE, RUNNING
from ppkit.verdicts import ledger, rows
from ppkit.verdicts.rows import Row
from ppkit.writing import PART, remove, whole, write_whole

FINISHED, WITH_FAILURES, INTERRUPTED = "finished", "with failures", "interrupted"
PARTS = ("notebooks", "html", "figures", "claims", ".cache")


class RunFolder:
    """One folder under runs/: `path`, and `record`, which is what run.json holds.

    The process that works in it holds a lock on it, so that no second one resumes it meanwhile.
    parts: its places, one for each kind of file.  mathjax_in: the place beside whose pages MathJax
    lies.
    """

    parts, mathjax_in = PARTS, "html"

    def __init__(self, path: Path, record: dict):
        self.path, self.record = path, record
        self._lock = FileLock(path / ".cache" / "lock", blocking=False, thread_local=False)

    @property
    def notebooks(self) -> dict[str, dict]:
        """What is known of each notebook of this run: status, seconds, peak memory, failed cell and
        error."""
        return self.record["notebooks"]

    @property
    def title(self) -> str:
        """The folder as a person in the project's folder would type it."""
        return os.path.relpath(self.path, project.root())

    def save(self) -> None:
        """Write run.json whole or not at all."""
        write_json(self.path / "run.json", self.record)

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
            if read_json(about, dict).get("notebook") == name:
                for kind in (".json", ".png", ".svg"):
                    about.with_suffix(kind).unlink(missing_ok=True)

    def settle(self, interrupted: bool) -> None:
        """Set the run's state from its notebooks."""
        statuses = {about["status"] for about in self.notebooks.values()}
        for about in self.notebooks.values():
            if about["status"] == RUNNING:
                about["status"] = INTERRUPTED
        self.record["state"] = (
            INTERRUPTED if interrupted else FINISHED if statuses == {DONE} else WITH_FAILURES
        )

    def close(self, *, interrupted: bool = False) -> None:
        """Write what the run found, then its state: who is stopped in between has no finished run
        without results."""
        self.settle(interrupted)
        self.write_results()
        self.save()

    def write_results(self) -> None:
        """Merge the claims of the notebooks."""
        recorded = []
        for file in sorted((self.path / "claims").glob("*.json")):
            recorded += read_claims(file)
        rules = {row.id: row.rule_digest for row in recorded if row.rule_digest}
        if rules:
            self.record["rules"] = rules
        kept = ("id", "state", "profile", "data", "seeds", "versions")
        about = {name: self.record[name] for name in kept}
        about["commit"] = self.record.get("commit", "")  # a run of before 2026-11-27 has none
        about["machine"] = self.record["machine"]["summary"]
        merged = ledger.merge(recorded)
        rows.write(self.path / "claims.json", merged, run=about, pictures={})

    def lock(self) -> None:
        """Take the folder for this process.  OSError if another one works in it, or as the disk
        says."""
        self._lock.acquire()

    def try_lock(self) -> bool:
        """Take the folder for this process; False if another one works in it."""
        try:
            self.lock()
        except OSError:
            return False
        return True

    def release(self) -> None:
        """Let another process go on in the folder."""
        self._lock.release()


def create(runs: Path, record: dict, kind: type[RunFolder] = RunFolder) -> RunFolder:
    """A new folder <time>-<profile> in the folder `runs`, its record written, `latest` pointing to
    it.

    Refused if it cannot be written.
    """
    try:
        runs.mkdir(parents=True, exist_ok=True)
        path = _fresh(runs, f"{time.strftime('%Y%m%d-%H%M%S')}-{record['profile']}")
        folder = kind(path, {"id": path.name, **record})
        folder.lock()  # before anybody can find it
        folder.make()
        point_latest(path)
    except OSError as error:
        raise Refused(f"cannot write into {runs}: {reason(error)}") from None
    return folder


def find_unfinished(runs: Path, key: str, kind: type[RunFolder] = RunFolder) -> RunFolder | None:
    """The newest unfinished run in `runs` of this key that nobody works in, locked for us.

    None if there is none, or if one that is newer was run to its end.
    """
    made = [path for path in runs.glob("*/run.json") if not path.parent.is_symlink()]
    for path in sorted(made, reverse=True):
        with contextlib.suppress(Refused, OSError, KeyError):
            folder = kind(path.parent, read_record(path))
            if folder.record["key"] == key:
                if folder.record["state"] == FINISHED:
                    return None
                if folder.try_lock():
                    return folder
    return None


def open_run(name: str) -> RunFolder:
    """The run called `name` ("latest" or an id) under runs/, or at that path.  Refused with the ids
    there are."""
    runs = project.root() / "runs"
    for path in (runs / name, Path(name)):
        if (path / "run.json").is_file():
            return RunFolder(path.resolve(), read_record(path / "run.json"))
    there = sorted(
        path.parent.name for path in runs.glob("*/run.json") if not path.parent.is_symlink()
    )
    raise Refused(
        f"unknown run {name!r}: there are {', '.join(['latest', *there]) if there else 'none yet'}"
    )


def point_latest(path: Path) -> None:
    """Make `latest`, beside the run at `path`, a relative link to it."""
    with whole(path.parent / "latest") as link:
        link.symlink_to(path.name)


def digest(*parts: bytes) -> str:
    """sha256 over the parts, each preceded by its length, as hex."""
    total = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hashlib.sha256(total).hexdigest()


def write_json(path: Path, content) -> None:
    """Write `content` as JSON, whole or not at all.  ValueError if it holds NaN or infinity, for
    which JSON has no word."""
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    write_whole(path, text + "\n")


def read_json(path: Path, kind: type = object):
    """What a JSON file of a run holds; Refused if it is cut off, no JSON, or of another kind."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise Refused(f"{path} is damaged: {error}") from None
    if not isinstance(content, kind):
        raise Refused(f"{path} is damaged: it holds no {kind.__name__}")
    return content


def read_record(path: Path) -> dict:
    """What a run.json says of its run; Refused if it is damaged."""
    record = read_json(path, dict)
    notebooks = record.get("notebooks")
    if not isinstance(notebooks, dict):
        raise Refused(f"{path} is damaged: it does not say what was run")
    return record


def read_claims(path: Path) -> list[Row]:
    """The rows of a run or of the reference; Refused if the file is damaged, or of another schema
    than this ppkit's."""
    try:
        return rows.read(path)[1]
    except ValueError as error:
        raise Refused(str(error)) from None


def _fresh(runs: Path, name: str) -> Path:
    for suffix in ("", *(f"-{count}" for count in range(2, 100))):
        path = runs / f"{name}{suffix}"
        with contextlib.suppress(FileExistsError):
            path.mkdir()
            return path
    raise Refused(f"{runs} already holds 99 runs called {name}")
