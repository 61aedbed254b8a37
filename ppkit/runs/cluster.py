"""Points of a batch on other machines, by Dask `distributed`: an extra, `pip install -e
'.[cluster]'`.

Dask carries bytes, keeps count of workers and does TLS; what is to be done, and again where a
worker was lost, is decided here, so that nothing is done twice.  Each worker has one job at a time
and only it: no job waits at a worker that another could do, none is stolen.  A job is the child
process that this machine would start, too, in a folder of the worker's; what that leaves comes back
as one archive of bytes, which is looked at before it is unpacked.  Dask itself deserialises what
its peers send: scheduler, workers and asker trust each other, and TLS keeps out the rest.
"""

import json
import logging
import math
import queue
import time
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit
from uuid import uuid4

import nbformat
from distributed import Client, Future, Security, get_worker

from ppkit.runs import Refused, archive, cut, key, reason, run_folder, tls
from ppkit.runs.worker import DONE, FAILED, Children
from ppkit.verdicts import rows

LOOKS_EVERY = 1.0  # seconds between two looks at who is there
FETCHED_IN = 60.0  # seconds that what a job left may take to come
LOST_AT_MOST = 3  # workers that may be lost over a job before it is the job that ends them
ALONE_AFTER = 10.0  # seconds without a worker after which that is said
OUTCOME = "outcome.json"  # how a job went, in the archive that it leaves
KINDS = {  # what that says, and of which kind
    "status": str,
    "seconds": (int, float),
    "peak_memory_mb": int,
    "cell": int,
    "after": bool,
    "heading": str,
    "error": str,
    "traceback": list,
}
PLACES = ("notebooks", "html", "figures", "claims", "measured")  # where a job leaves files


def connect(address: str, files: dict[str, Path | None]) -> Client:
    """A client of the scheduler at `address`; Refused if nobody is there, or if it would not be
    safe.

    Whoever reaches a scheduler can have code run by its workers.  So tcp:// is taken on this
    machine alone; elsewhere tls://, with the files of `tls.FILES` by path, which are looked at
    first.
    """
    parts, port = urlsplit(address), None
    with suppress(ValueError):  # a port that is none
        port = parts.port
    if parts.scheme not in ("tcp", "tls") or not parts.hostname or not port:
        raise Refused(f"a scheduler is tls://HOST:PORT or tcp://127.0.0.1:PORT, got {address!r}")
    if parts.scheme == "tcp" and parts.hostname not in ("127.0.0.1", "localhost", "::1"):
        raise Refused(
            "tcp:// is taken on this machine only, since whoever reaches a scheduler can run code "
            f"there: tls://{parts.netloc}"
        )
    if parts.scheme == "tls":
        tls.check(files)
        tls.knock(parts.hostname, port, files)
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

    client: as `connect` gives it.  source: as `jobs.Job`.  beside: files that a notebook reads, as
    `archive.beside` gives them.
    running: the jobs that are away.  fit, refused: workers by address, and what there is to say.
    Each worker is asked what it has before it gets its first job; one with another Python, lock,
    data, or other sources of ours, gets none.
    """

    def __init__(self, client: Client, source: str | None, beside: bytes = b""):
        self.beside, self._alone_at = beside, time.monotonic() + ALONE_AFTER
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
            answers = self.client.run(surroundings, self._source, **asked) if new else {}
        except (OSError, TimeoutError, KeyError):  # it knows of no workers when it is cut off
            raise Refused(
                "the scheduler has gone: what was finished stays; its workers end with it, so "
                "start both again, as `ppkit cluster` says, and the same command goes on"
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
        self._say_if_alone()
        self._look_at = time.monotonic() + LOOKS_EVERY

    def _say_if_alone(self) -> None:
        """Say once that nobody is there, each time that it lasts."""
        if self.fit:
            self._alone_at = time.monotonic() + ALONE_AFTER
        elif time.monotonic() > self._alone_at:
            print(f"{self.nobody()}; this waits for one, Ctrl-C stops", flush=True)
            self._alone_at = math.inf

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
            {**told, "text": Path(told["notebook"]).read_text("utf-8"), "beside": self.beside},
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
        told, worker = run_folder.read_json(sent.spec), self.fit.get(sent.address, "")
        try:
            left = sent.future.result(timeout=FETCHED_IN)
        except (OSError, TimeoutError, CancelledError):  # it ended meanwhile
            return None
        try:
            outcome, files = taken(left, told["name"])
        except ValueError as error:
            return _failed(f"{worker} sent what cannot be taken: {cut(str(error), at=300)}")
        archive.put(files, Path(told["folder"]))
        return {**outcome, "worker": worker}


def taken(left: bytes, name: str) -> tuple[dict, dict[str, bytes]]:
    """How a job on the notebook `name` went, and the files that it left, from the archive that
    `work` returned; nothing is written.

    ValueError if it is no such archive, says what no job says, is done without a notebook and its
    page, or holds a file that cannot be read.
    """
    files = archive.unpacked(left)
    outcome = _said(files.pop(OUTCOME, b"{}"))
    for file in files:
        place, _, below = file.partition("/")
        if place not in PLACES or not below or "/" in below:
            raise ValueError(f"it holds {cut(file)!r}, which no job leaves")
    needed = {f"notebooks/{name}.ipynb", f"html/{name}.html"}
    if outcome["status"] == DONE and not needed <= {file for file in files if files[file]}:
        raise ValueError(f"it lacks {', '.join(sorted(needed - set(files)) or sorted(needed))}")
    for file, content in files.items():
        if file.endswith((".json", ".ipynb")):
            _must_be_readable(file, _parsed(content))
    return outcome, files


def _said(content: bytes) -> dict:
    """How a job went, as its worker says it; ValueError if no job says so."""
    outcome = _parsed(content)
    if not isinstance(outcome, dict) or not {"status", "seconds", "peak_memory_mb"} <= set(outcome):
        raise ValueError("it does not say how the job went")
    for what, value in outcome.items():
        kind = KINDS.get(what)
        if kind is None or not isinstance(value, kind) or isinstance(value, bool) != (kind is bool):
            raise ValueError(f"it says {cut(what)!r}: {cut(repr(value))}")
        if isinstance(value, (int, float)) and not 0 <= value < math.inf:
            raise ValueError(f"it says {cut(what)!r}: {cut(repr(value))}")
    if outcome["status"] not in (DONE, FAILED):
        raise ValueError(f"it says that the job is {cut(outcome['status'])!r}")
    if outcome["status"] == FAILED and not outcome.get("error"):
        raise ValueError("it says that the job failed, and not why")
    outcome["traceback"] = [str(line) for line in outcome.get("traceback", [])]
    return outcome


def _parsed(content: bytes):
    """What JSON holds; ValueError if it is none."""
    try:
        return json.loads(content, parse_constant=_no_number, parse_float=_finite)
    except RecursionError:
        raise ValueError("it holds JSON that is nested too deep") from None


def _must_be_readable(file: str, content) -> None:
    """ValueError unless a notebook is one, and claims are rows of the ledger."""
    if file.endswith(".ipynb"):
        try:
            nbformat.validate(nbformat.from_dict(content))
        except (nbformat.ValidationError, AttributeError, TypeError, KeyError) as error:
            raise ValueError(f"{file} is no notebook: {cut(str(error))}") from None
    if file.startswith("claims/"):
        try:
            rows.refuse_what_does_not_fit(content)
        except ValueError as error:
            raise ValueError(
                f"{file} holds what is no row of the ledger: {cut(str(error))}"
            ) from None


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text)


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number")


def surroundings(source: str | None) -> str:
    """Run on a worker: `key.surroundings` there, as JSON."""
    return json.dumps(key.surroundings(source))


def work(told: dict) -> bytes:
    """Run on a worker: execute a notebook there as `worker` does, and return one archive of how it
    went and what it left; of files, nothing where it failed.

    told: a spec, the notebook's text, and an archive of the files beside it.  What was cancelled
    meanwhile is ended.
    An error of the worker's own is an outcome in words, too: Dask would send it as an object, and
    what cannot be read at the other end is waited for without end.
    """
    try:
        return _worked(told)
    except Exception as error:
        why = reason(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        return archive.packed(
            {OUTCOME: json.dumps(_failed(f"its worker could not do it: {why}")).encode()}
        )


def _worked(told: dict) -> bytes:
    worker, name = get_worker(), told["name"]
    mine = worker.get_current_task()

    def is_wanted() -> None:
        task = worker.state.tasks.get(mine)
        if task is None or task.state != "executing":
            raise InterruptedError(f"{name} was cancelled")

    with TemporaryDirectory(dir=worker.local_directory, prefix="ppkit-") as place:
        run, notebook = Path(place, "run"), Path(place, "beside", f"{name}.ipynb")
        notebook.parent.mkdir()
        archive.put(archive.unpacked(told["beside"]), notebook.parent)
        for part in (*run_folder.PARTS, f".cache/{name}"):
            (run / part).mkdir(parents=True)
        notebook.write_text(told["text"], encoding="utf-8")
        here = {**told, "notebook": str(notebook), "folder": str(run)}
        here = {what: value for what, value in here.items() if what not in ("text", "beside")}
        run_folder.write_json(run / ".cache" / name / "spec.json", here)
        with Children() as child:
            child.start(name, run / ".cache" / name / "spec.json")
            while "done" not in (event := child.next_event(meanwhile=is_wanted)[1]):
                pass
        files = {OUTCOME: json.dumps(event["done"]).encode()}
        if event["done"]["status"] == DONE:
            files |= archive.of_folders(run, PLACES)
    return archive.packed(files)


def _differs(here: dict, answer: str | BaseException) -> str:
    """In what a worker differs, in words; "" if in nothing."""
    try:
        there = json.loads(answer)
        others = [name for name in here if here[name] != there[name]]
    except (ValueError, TypeError, LookupError):
        return f"it cannot say what it has: {cut(str(answer))}"
    files = here["sources"].items() ^ there["sources"].items()
    which = f" ({', '.join(sorted({file for file, _ in files})[:3])})" if files else ""
    differ = "differs" if len(others) == 1 else "differ"
    return f"its {', its '.join(others)} {differ}{which}" if others else ""


def _failed(error: str) -> dict:
    return {"status": FAILED, "error": error, "seconds": 0.0, "peak_memory_mb": 0}
