"""Points of a batch on other machines, by Dask `distributed`: an extra, `pip install -e
'.[cluster]'`.

Dask carries bytes, keeps count of workers and does TLS. What is sent, and sent again where a worker
was lost, is decided here: a worker gets one job at a time, no job waits at a worker that another
could do, and none is done twice. A job is the child process that this machine would start, too, in
a folder of the worker's; the files that it leaves come back. Dask itself deserialises what its
peers send: scheduler, workers and asker trust each other, and TLS keeps out the rest.
"""

import logging
import os
import re
import sys
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from distributed import Client, Future, Security, get_worker

from ppkit.runs import Refused, cut, json_files, key, reason, run_folder, tls
from ppkit.runs.children import Children
from ppkit.runs.warm import WarmParent
from ppkit.runs.worker import DONE, failed

LOOKS_EVERY = 1.0  # seconds between two looks at who is there
ASKS_EVERY = 0.1  # seconds between two looks at the jobs that are away
FETCHED_IN = 60.0  # seconds that what a job left may take to come
LOST_AT_MOST = 3  # workers that may be lost over a job before it is the job that ends them
BESIDE_AT_MOST = 5_000_000  # bytes of the files that go to a worker with a notebook
LEFT_AT_MOST = 100  # names of files that are told
STAYS = "no worker brings that back, but what `show.keep` keeps"
PLAIN = re.compile(r"[^./\0][^/\0]*")  # a file's own name
_PARENTS: dict[str, WarmParent] = {}  # of this worker: one at most, by its notebook
# where a job leaves files
PLACES = ("notebooks", "html", "figures", "claims", "measured", "tables")


def connect(address: str, files: dict[str, Path | None]) -> Client:
    """A client of the scheduler at `address`; Refused if nobody is there, or if it would not be
    safe.

    Whoever reaches a scheduler can have code run by its workers.  So tcp:// is taken on this
    machine alone; elsewhere tls://, with the files of `tls.FILES` by path, which are tried first.
    """
    scheme, host, port = _parts(address)
    security = None
    if scheme == "tls":
        given = tls.given(files)
        tls.knock(host, port, given)
        paths = {name: str(file) for name, file in given.items()}
        security = Security(require_encryption=True, **paths)
    elif host not in ("127.0.0.1", "localhost", "::1"):
        raise Refused(
            "tcp:// is taken on this machine only, since whoever reaches a scheduler can run code "
            f"there: tls://{address.removeprefix('tcp://')}"
        )
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters is said here
    try:
        return Client(address, security=security, timeout=10, set_as_default=False)
    except OSError:
        raise Refused(f"no scheduler answers at {address}") from None


def _parts(address: str) -> tuple[str, str, int]:
    """Scheme, host and port of a scheduler's address; Refused if it is none."""
    found = re.fullmatch(r"(tcp|tls)://(\[[^][/@]+\]|[^][:/@\s]+):(\d{1,5})", address)
    if not found or not 0 < int(found[3]) < 2**16:
        raise Refused(f"a scheduler is tls://HOST:PORT or tcp://127.0.0.1:PORT, got {address!r}")
    return found[1], found[2].strip("[]"), int(found[3])


def beside(notebook: Path) -> dict[str, bytes]:
    """The files of a notebook's folder that a worker gets with it, by name: all below it but
    notebooks, links and what is hidden or made by Python.

    Refused if they are more than BESIDE_AT_MOST bytes.
    """
    files: dict[str, bytes] = {}
    size = 0
    for folder, below, names in os.walk(notebook.parent):
        below[:] = [one for one in below if not one.startswith((".", "__pycache__"))]
        for file in (Path(folder, name) for name in names):
            if file.suffix == ".ipynb" or file.name.startswith(".") or file.is_symlink():
                continue
            size += file.stat().st_size
            if size > BESIDE_AT_MOST:
                raise Refused(
                    f"a worker gets the files beside {notebook.name}, and {notebook.parent} "
                    f"holds more than {BESIDE_AT_MOST / 1e6:g} MB: put the notebook into a folder "
                    "that holds what it reads and nothing else"
                )
            files[file.relative_to(notebook.parent).as_posix()] = file.read_bytes()
    return files


@dataclass
class Sent:
    """A job that is away: what it was told, the worker that has it, and Dask's word for it.

    future: None where its worker was lost.  lost: how many were, over this job.
    """

    told: dict
    address: str = ""
    future: Future | None = None
    lost: int = 0


class BadAnswer(ValueError):
    """What a worker sent is no answer of a job."""


class Workers(AbstractContextManager):
    """The workers of a scheduler, as `children.Children` are those of this machine.

    client: as `connect` gives it.  source: as `jobs.Job`.  files: that a notebook reads, as
    `beside` gives them.
    running: the jobs that are away.  fit, refused: workers by address, and what there is to say.
    Each worker is asked what it has before it gets its first job; one with another Python, lock,
    data, or other sources of ours, gets none.
    """

    def __init__(self, client: Client, source: str | None, files: dict[str, bytes]):
        self.client, self.source, self.files = client, source, files
        self.running: dict[str, Sent] = {}
        self.fit: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self._here = key.surroundings(source)
        self._look_at = 0.0
        self._said_alone = False

    def __exit__(self, *_) -> None:
        with suppress(Exception):  # the scheduler may have gone
            away = [sent.future for sent in self.running.values() if sent.future]
            self.client.cancel(away, force=True)
            self.client.close()

    def look(self) -> None:
        """See who is there, ask those who came since, and send again what was lost.

        Refused if the scheduler has gone.
        """
        try:
            there = self.client.scheduler_info(n_workers=-1)["workers"]
            new = [one for one in there if one not in self.fit and one not in self.refused]
            answers = self._asked(new) if new else {}
        except (OSError, TimeoutError, KeyError):  # it knows of no workers when it is cut off
            raise Refused(
                "the scheduler has gone: what was finished stays; its workers end with it, so "
                "start both again, as `ppkit cluster` says, and the same command goes on"
            ) from None
        for address, has in answers.items():
            name = f"worker {there[address]['name']} on {urlsplit(address).hostname}"
            if other := difference(self._here, has):
                self.refused[address] = f"{name} is refused: {other}"
                print(self.refused[address])
            else:
                self.fit[address] = name
        self.fit = {address: name for address, name in self.fit.items() if address in there}
        for sent in self.running.values():
            if sent.future and sent.address not in self.fit:
                self._lose(sent)
        for sent in self.running.values():
            if not sent.future and self._free():
                self._send(sent)
        self._look_at = time.monotonic() + LOOKS_EVERY

    def _asked(self, workers: list[str]) -> dict:
        return self.client.run(key.surroundings, self.source, workers=workers, on_error="return")

    def nobody(self) -> str:
        """That no worker is there who could do anything, in words."""
        others = f" but {len(self.refused)} that cannot be taken" if self.refused else ""
        return f"the scheduler has no worker{others}: `ppkit cluster` says how to start one"

    def has_room(self) -> bool:
        """Whether a worker is free."""
        if not self._look_at:
            self.look()
        return bool(self._free())

    def start(self, name: str, spec: Path) -> None:
        """Send the job of a spec file to a free worker."""
        self.running[name] = Sent(json_files.read_json(spec))
        self._send(self.running[name])

    def next_event(self, meanwhile: Callable[[], object]) -> tuple[str, dict]:
        """Wait for the next job that ends: (name, {"done": {...}}), as `children.Children` has it;
        its files are then in the folder that its spec names.  ("", {}) where a worker is free."""
        while True:
            if time.monotonic() > self._look_at:
                self.look()
                self._say_if_alone()
                if self._free():
                    return "", {}
            for name, sent in self.running.items():
                if outcome := self._outcome(sent):
                    del self.running[name]
                    if written := outcome.get("beside"):
                        print(f"{name} wrote {cut(str(written))} beside its notebook: {STAYS}")
                    return name, {"done": outcome}
            meanwhile()
            time.sleep(ASKS_EVERY)

    def _say_if_alone(self) -> None:
        """Say once that nobody is there, each time that it lasts."""
        if not self.fit and not self._said_alone:
            print(f"{self.nobody()}; this waits for one, Ctrl-C stops", flush=True)
        self._said_alone = not self.fit

    def _free(self) -> list[str]:
        taken = {sent.address for sent in self.running.values()}
        return [address for address in self.fit if address not in taken]

    def _send(self, sent: Sent) -> None:
        sent.address = self._free()[0]
        text = Path(sent.told["notebook"]).read_text("utf-8")
        sent.future = self.client.submit(
            work,
            sent.told,
            text,
            self.files,
            workers=[sent.address],
            pure=False,
            key=f"ppkit-{uuid4().hex}",
        )

    def _lose(self, sent: Sent) -> None:
        """Give up a job's try, so that it is sent again."""
        if sent.future:
            sent.future.cancel(force=True)
        sent.address, sent.future, sent.lost = "", None, sent.lost + 1

    def _outcome(self, sent: Sent) -> dict | None:
        """How a job went, its files put where they belong; None as long as nobody can know."""
        if sent.lost > LOST_AT_MOST:
            return failed(f"{LOST_AT_MOST + 1} workers ended over it")
        if not sent.future or not sent.future.done():
            return None
        worker = self.fit.get(sent.address, "")
        try:
            outcome, files = taken(sent.future.result(timeout=FETCHED_IN), sent.told["name"])
        except (OSError, TimeoutError, CancelledError):  # its worker ended
            self._lose(sent)
            return None
        except BadAnswer as error:
            return failed(f"{worker} sent what cannot be taken: {error}")
        except Exception as error:
            return failed(f"{worker} could not do it: {type(error).__name__}: {error}")
        for name, content in files.items():
            Path(sent.told["folder"], name).parent.mkdir(exist_ok=True)
            Path(sent.told["folder"], name).write_bytes(content)
        return {**outcome, "worker": worker}


def taken(answer: Any, notebook: str) -> tuple[dict, dict[str, bytes]]:
    """A worker's answer: how the job went, and the files that it left, by "place/name".

    BadAnswer, and nothing has been written, if it does not say how the job went, holds a file that
    no job leaves, or lacks the notebook of a job that is done.
    """
    match answer:
        case ({"status": str(status), **said}, {**files}):
            outcome = {"status": status, **said}
        case _:
            raise BadAnswer("it does not say how the job went")
    kept: dict[str, bytes] = {}
    for name, content in files.items():
        place, _, file = str(name).partition("/")
        if place not in PLACES or not PLAIN.fullmatch(file) or not isinstance(content, bytes):
            raise BadAnswer(f"it holds {cut(repr(name))}, which no job leaves")
        kept[str(name)] = content
    if status == DONE and not kept.get(f"notebooks/{notebook}.ipynb"):
        raise BadAnswer(f"it lacks notebooks/{notebook}.ipynb")
    return outcome, kept


def work(told: dict, text: str, beside: dict[str, bytes]) -> tuple[dict, dict[str, bytes]]:
    """Run on a worker: execute a notebook there as `worker` does, and return how it went and the
    files that it left by name; of files, nothing where it failed.

    told: a spec.  text: of the notebook.  beside: as `beside`.  What was cancelled meanwhile is
    ended.
    An error of the worker's own is an outcome in words, too: Dask would send it as an object, and
    what cannot be read at the other end is waited for without end.
    """
    try:
        return _worked(told, text, beside)
    except Exception as error:
        why = reason(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        return failed(f"its worker could not do it: {why}"), {}


def _worked(told: dict, text: str, beside: dict[str, bytes]) -> tuple[dict, dict[str, bytes]]:
    worker, name = get_worker(), told["name"]
    mine = worker.get_current_task()

    def is_wanted() -> None:
        task = worker.state.tasks.get(mine)
        if task is None or task.state != "executing":
            raise InterruptedError(f"{name} was cancelled")

    with TemporaryDirectory(dir=worker.local_directory, prefix="ppkit-") as place:
        run, home = Path(place, "run"), Path(place, "beside")
        for file, content in {f"{name}.ipynb": text.encode(), **beside}.items():
            (home / file).parent.mkdir(parents=True, exist_ok=True)
            (home / file).write_bytes(content)
        scratch = run / ".cache" / name
        for folder in (*(run / place for place in run_folder.PARTS), scratch):
            folder.mkdir(parents=True, exist_ok=True)
        here = {"notebook": str(home / f"{name}.ipynb"), "folder": str(run)}
        json_files.write_json(scratch / "spec.json", told | here)
        sent = _times(home)
        with Children(parent=_parent_here(told, home / f"{name}.ipynb")) as child:
            child.start(name, scratch / "spec.json")
            event: dict = {}
            while "done" not in event:
                _, event = child.next_event(meanwhile=is_wanted)
        outcome = event["done"]
        if written := sorted(file for file, at in _times(home).items() if at != sent.get(file)):
            outcome["beside"] = written[:LEFT_AT_MOST]
        if outcome["status"] != DONE:
            return outcome, {}
        left = [file for place in PLACES for file in (run / place).glob("*") if file.is_file()]
        return outcome, {file.relative_to(run).as_posix(): file.read_bytes() for file in left}


def _times(home: Path) -> dict[str, int]:
    """The files in a notebook's folder, all below it too, and when each was last written."""
    return {
        file.relative_to(home).as_posix(): file.stat().st_mtime_ns
        for file in home.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }


def _parent_here(told: dict, notebook: Path) -> WarmParent | None:
    """What this worker forks its jobs from: one parent for all points of a notebook.

    It goes with the worker's process, or when a job of another notebook comes.
    """
    if told["threads"] != 1 or sys.platform != "linux":
        return None
    if told["notebook"] not in _PARENTS:
        for other in _PARENTS.values():
            other.__exit__()
        _PARENTS.clear()
        _PARENTS[told["notebook"]] = WarmParent([notebook])
    return _PARENTS[told["notebook"]]


def difference(here: dict, there: object) -> str:
    """In what a worker differs, in words; "" if in nothing.

    here: as `key.surroundings`.  there: the same of the worker, or the error that it gave.
    """
    if not isinstance(there, dict):
        return f"it cannot say what it has: {cut(str(there))}"
    others = [name for name in here if here[name] != there.get(name)]
    if not others:
        return ""
    verb = "differs" if len(others) == 1 else "differ"
    return f"its {', its '.join(others)} {verb}"
