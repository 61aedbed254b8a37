"""Points of a batch on other machines, by Dask `distributed`: an extra, `pip install -e
'.[cluster]'`.

Dask carries bytes, keeps count of workers and does TLS; what is to be done, and again where a
worker was lost, is decided here, so that nothing is done twice.  Each worker has one job at a time
and only it: no job waits at a worker that another could do, none is stolen.  A job is the child
process that this machine would start, too, in a folder of the worker's; what that leaves comes back
as one archive.
"""

import io
import logging
import queue
import shutil
import tarfile
import time
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit
from uuid import uuid4

from distributed import Client, Future, Security, get_worker

from ppkit.runner import Refused, key, reason, run_folder
from ppkit.runner.worker import DONE, FAILED, Children

LOOKS_EVERY = 1.0  # seconds between two looks at who is there
FETCHED_IN = 60.0  # seconds that what a job left may take to come
LOST_AT_MOST = 3  # workers that may be lost over a job before it is the job that ends them
TLS_FILES = ("tls_ca_file", "tls_client_cert", "tls_client_key")


def connect(address: str, files: dict[str, Path | None]) -> Client:
    """A client of the scheduler at `address`; Refused if nobody is there, or if it would not be
    safe.

    Whoever reaches a scheduler can have code run by its workers.  So tcp:// is taken on this
    machine alone; elsewhere tls://, with the files of TLS_FILES by path.
    """
    parts = urlsplit(address)
    if parts.scheme not in ("tcp", "tls") or not parts.hostname or not parts.port:
        raise Refused(f"a scheduler is tls://HOST:PORT or tcp://127.0.0.1:PORT, got {address!r}")
    if parts.scheme == "tcp" and parts.hostname not in ("127.0.0.1", "localhost", "::1"):
        raise Refused(
            "tcp:// is taken on this machine only, since whoever reaches a scheduler can run code "
            f"there: tls://{parts.netloc}"
        )
    missing = [name for name in TLS_FILES if not (files.get(name) and files[name].is_file())]
    if parts.scheme == "tls" and missing:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in missing)
        raise Refused(f"tls:// needs a file that is there for {options}")
    paths = {name: str(file) for name, file in files.items() if file}
    security = Security(require_encryption=True, **paths) if parts.scheme == "tls" else None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters is said here
    try:
        return Client(address, security=security, timeout=10, set_as_default=False)
    except OSError:
        raise Refused(f"no scheduler answers at {address}") from None


@dataclass
class _Sent:
    """A job that is away: its spec file here, the worker that has it, and Dask's word for it."""

    spec: Path
    address: str | None = None
    future: Future | None = None
    lost: int = 0


class Workers(AbstractContextManager):
    """The workers of a scheduler, as `worker.Children` are those of this machine.

    client: as `connect` gives it.  source: as `jobs.Job`.
    running: the jobs that are away.  fit, refused: workers by address, and what there is to say.
    Each worker is asked what it has before it gets its first job; one with another Python, lock,
    data, or other sources of ours, gets none.
    """

    def __init__(self, client: Client, source: str | None):
        self.client, self._source, self._here = client, source, key.surroundings(source)
        self.running: dict[str, _Sent] = {}
        self.fit: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self._events, self._look_at = queue.Queue(), 0.0

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
            asked = dict(workers=new, on_error="return")
            answers = self.client.run(key.surroundings, self._source, **asked) if new else {}
        except (OSError, TimeoutError, KeyError):  # it knows of no workers when it is cut off
            raise Refused(
                "the scheduler has gone: what was finished stays, the same command goes on"
            ) from None
        for address, has in answers.items():
            name = f"worker {there[address]['name']} on {urlsplit(address).hostname}"
            if other := _differs(self._here, has):
                self.refused[address] = f"{name} is refused: {other}"
                print(self.refused[address])
            else:
                self.fit[address] = name
        self.fit = {address: name for address, name in self.fit.items() if address in there}
        for name, sent in self.running.items():
            if sent.address not in self.fit:
                self._lose(name)
        for name, sent in self.running.items():
            if sent.future is None and sent.lost <= LOST_AT_MOST and self._free():
                self._send(name, sent)
        self._look_at = time.monotonic() + LOOKS_EVERY

    def has_room(self) -> bool:
        """Whether a worker is free."""
        if not self._look_at:
            self.look()
        return bool(self._free())

    def start(self, name: str, spec: Path) -> None:
        """Send the job of a spec file to a free worker."""
        self.running[name] = _Sent(spec)
        self._send(name, self.running[name])

    def next_event(self, meanwhile=lambda: None) -> tuple[str, dict]:
        """Wait for the next job that ends: (name, {"done": {...}}), as `worker.Children` has it;
        its files are then in the folder that its spec names.  ("", {}) where a worker is free."""
        while True:
            if time.monotonic() > self._look_at:
                self.look()
                if self._free():
                    return "", {}
            if ends := [name for name, sent in self.running.items() if sent.lost > LOST_AT_MOST]:
                del self.running[ends[0]]
                return ends[0], {"done": _failed(f"{LOST_AT_MOST + 1} workers ended over it")}
            try:
                name, future = self._events.get(timeout=0.2)
            except queue.Empty:
                meanwhile()
                continue
            sent = self.running.get(name)
            if sent is None or sent.future is not future:
                continue  # a try that was given up
            if (outcome := self._outcome(sent)) is None:
                self._lose(name)
                continue
            del self.running[name]
            return name, {"done": outcome}

    def _free(self) -> list[str]:
        taken = {sent.address for sent in self.running.values()}
        return [address for address in self.fit if address not in taken]

    def _send(self, name: str, sent: _Sent) -> None:
        [sent.address, *_] = self._free()
        told = run_folder.read_json(sent.spec)
        sent.future = self.client.submit(
            work,
            {**told, "text": Path(told["notebook"]).read_text("utf-8")},
            workers=[sent.address],
            pure=False,
            key=f"ppkit-{uuid4().hex}",  # an argument that looked like a key would be replaced
        )
        sent.future.add_done_callback(lambda future: self._events.put((name, future)))

    def _lose(self, name: str) -> None:
        """Give up a job's try, so that it is sent again."""
        sent = self.running[name]
        if sent.future:
            sent.future.cancel(force=True)
            sent.address, sent.future, sent.lost = None, None, sent.lost + 1

    def _outcome(self, sent: _Sent) -> dict | None:
        """How a job went, its files fetched, checked and put where they belong; None if its worker
        was lost."""
        if sent.future.status == "error":
            error = sent.future.exception()
            why = (
                reason(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
            )
            return _failed(f"{self.fit.get(sent.address)} could not do it: {why}")
        if sent.future.status != "finished":
            return None
        try:
            outcome, left = sent.future.result(timeout=FETCHED_IN)
        except (OSError, TimeoutError, CancelledError):  # it ended meanwhile
            return None
        if left:
            with tarfile.open(fileobj=io.BytesIO(left)) as files:
                files.extractall(run_folder.read_json(sent.spec)["folder"], filter="data")
        return {**outcome, "worker": self.fit.get(sent.address, "")}


def work(told: dict) -> tuple[dict, bytes]:
    """Run on a worker: execute a notebook there as `worker` does, and say how it went and, as an
    archive, what it left; that is empty where it failed.

    told: a spec, and the notebook's text.  What was cancelled meanwhile is ended.
    """
    worker, name, left = get_worker(), told["name"], io.BytesIO()
    mine = worker.get_current_task()

    def is_wanted() -> None:
        task = worker.state.tasks.get(mine)
        if task is None or task.state != "executing":
            raise InterruptedError(f"{name} was cancelled")

    with TemporaryDirectory(dir=worker.local_directory, prefix="ppkit-") as place:
        run, notebook = Path(place, "run"), Path(place, f"{name}.ipynb")
        for part in (*run_folder.PARTS, f".cache/{name}"):
            (run / part).mkdir(parents=True)
        notebook.write_text(told["text"], encoding="utf-8")
        here = {**told, "notebook": str(notebook), "folder": str(run), "text": None}
        run_folder.write_json(run / ".cache" / name / "spec.json", here)
        with Children() as child:
            child.start(name, run / ".cache" / name / "spec.json")
            while "done" not in (event := child.next_event(meanwhile=is_wanted)[1]):
                pass
        if event["done"]["status"] == DONE:
            shutil.rmtree(run / ".cache")
            with tarfile.open(fileobj=left, mode="w") as files:
                files.add(run, ".")
    return event["done"], left.getvalue()


def _differs(here: dict, there: dict | BaseException) -> str:
    """In what a worker differs, in words; "" if in nothing."""
    if isinstance(there, BaseException):
        return f"it cannot say what it has: {there}"
    others = [name for name in here if here[name] != there[name]]
    files = here["sources"].items() ^ there["sources"].items()
    which = f" ({', '.join(sorted({file for file, _ in files})[:3])})" if files else ""
    return f"its {', its '.join(others)} differ{which}" if others else ""


def _failed(error: str) -> dict:
    return {"status": FAILED, "error": error, "seconds": 0.0, "peak_memory_mb": 0}
