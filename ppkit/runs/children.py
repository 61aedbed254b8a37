"""The parent of the workers: it starts them, hears what they say, measures their memory and ends
them."""

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil

from ppkit import process_tree
from ppkit.runs import environment
from ppkit.runs.warm import NotWarm, WarmParent
from ppkit.runs.worker import FAILED, failed

FORKED, FRESH = "forked", "fresh"  # how a worker and its kernel start
LINES_KEPT = 12  # of what a worker said on stderr
MEASURED_EVERY = 0.25  # seconds between two looks at the memory of all, or more, so that they cost
MEASURED_SHARE = 0.01  # at most this share of one core


@dataclass
class Child:
    """A worker that runs.

    life: what ends it when it is closed.  events: its lines.  kernel: FORKED, or FRESH and why.
    spec: the file that says what it runs, which is also the mark of all that it starts.
    limit: seconds that it may take, or None.  peak: bytes that it and all below it have held at
    most.
    """

    process: psutil.Process
    life: IO[bytes]
    events: IO[bytes]
    kernel: str
    spec: Path
    limit: float | None
    began: float
    peak: int = 0

    @property
    def is_late(self) -> bool:
        """Whether its limit has passed."""
        return self.limit is not None and time.monotonic() - self.began > self.limit


class Children(AbstractContextManager):
    """Workers by name. Leaving the block ends those that still run, and their kernels, in seconds.

    at_once: how many there is room for.
    parent: what forks them; None where each starts afresh.
    """

    def __init__(self, at_once: int = 1, parent: WarmParent | None = None):
        self.at_once = at_once
        self.running: dict[str, Child] = {}
        self._parent = parent
        self._measure_at = 0.0
        self._events: queue.Queue[tuple[str, dict]] = queue.Queue()

    def __exit__(self, *_) -> None:
        for child in self.running.values():
            process_tree.end_marked(str(child.spec))
            with suppress(psutil.NoSuchProcess):
                child.process.kill()
            _code(child.process)
            child.life.close()
        self.running.clear()

    def has_room(self) -> bool:
        """Whether one more may be started now."""
        return len(self.running) < self.at_once

    def start(self, name: str, spec: Path) -> None:
        """Start a worker on the spec file; what it says on stderr is kept beside the spec.

        What a killed worker on the same file has left running ends first.
        """
        process_tree.end_marked(str(spec))
        child = self._started(spec, json.loads(spec.read_text("utf-8")))
        self.running[name] = child
        threading.Thread(target=self._listen, args=(name, child), daemon=True).start()

    def _started(self, spec: Path, told: dict[str, Any]) -> Child:
        variables = environment.for_kernel(
            spec.parent,
            threads=told["threads"],
            source=told["source"],
            run=Path(told["folder"]),
            name=told["name"],
        )
        folder = Path(told["notebook"]).parent
        stdin, life = os.pipe()
        events, stdout = os.pipe()
        with (
            open(stdin, "rb") as its_life,
            open(stdout, "wb") as its_events,
            open(spec.with_name("stderr.txt"), "wb") as errors,
        ):
            streams = [its_life.fileno(), its_events.fileno(), errors.fileno()]
            process, kernel = self._process(spec, folder, variables, streams)
        return Child(
            process,
            open(life, "wb"),
            open(events, "rb"),
            kernel,
            spec,
            told["limit"],
            time.monotonic(),
        )

    def _process(
        self, spec: Path, folder: Path, variables: dict[str, str], streams: list[int]
    ) -> tuple[psutil.Process, str]:
        """A forked worker if there can be one, else one on a new interpreter; and which it is, and
        why."""
        kernel = FRESH
        if self._parent:
            try:
                return self._parent.fork(spec, folder, variables, streams), FORKED
            except NotWarm as why:
                kernel = f"{FRESH}: {why}"
        fresh = psutil.Popen(
            [sys.executable, "-P", "-m", "ppkit.runs.worker", str(spec)],
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            cwd=folder,
            env=variables,
            start_new_session=True,
        )
        return fresh, kernel

    def next_event(self, meanwhile: Callable[[], object] = lambda: None) -> tuple[str, dict]:
        """Wait for the next line of any worker: (name, {"cell": k}) or (name, {"done": {...}}),
        which is its last.

        meanwhile: called a few times a second as long as there is none.
        """
        while True:
            self._measure()
            for child in self.running.values():
                if child.is_late:
                    process_tree.end_marked(str(child.spec))  # again and again: more may begin
            try:
                name, event = self._events.get(timeout=0.2)  # a short wait, so that Ctrl-C is heard
            except queue.Empty:
                meanwhile()
                continue
            if "done" in event:
                child, last = self.running.pop(name), event["done"]
                last["peak_memory_mb"] = round(child.peak / environment.MB)
                last["kernel"] = child.kernel
                if last["status"] == FAILED and child.is_late:
                    last["error"] = f"ended at its limit of {child.limit:g} s"
            return name, event

    def _measure(self) -> None:
        if time.monotonic() < self._measure_at:
            return
        began = time.thread_time()
        for child in self.running.values():
            child.peak = max(child.peak, environment.memory_of(child.process.pid))
        spent = time.thread_time() - began
        self._measure_at = time.monotonic() + max(MEASURED_EVERY, spent / MEASURED_SHARE)

    def _listen(self, name: str, child: Child) -> None:
        last: dict[str, Any] = {}
        with child.life, child.events:
            for line in child.events:
                last = _event(line)
                if "cell" in last:
                    child.peak = max(child.peak, last.pop("held", 0))
                    self._events.put((name, last))
            code = _code(child.process)
        if "done" not in last:
            process_tree.end_marked(str(child.spec))
            error = f"its process ended{code} before the notebook did"
            errors = child.spec.with_name("stderr.txt").read_text("utf-8", errors="replace")
            end = {"traceback": errors.splitlines()[-LINES_KEPT:]}
            last = {"done": failed(error, last.get("cell", 0)) | end}
        self._events.put((name, last))


def _code(process: psutil.Process) -> str:
    """Wait for a worker's end; returns its exit code in words, which only its parent can know."""
    code = None
    with suppress(psutil.NoSuchProcess):
        code = process.wait()
    if code is None and isinstance(process, psutil.Popen):
        process.poll()  # `end_marked` has waited for it: else it would be taken to run still
    return "" if code is None else f" with code {code}"


def _event(line: bytes) -> dict:
    """What a line of a worker says; nothing where it was cut off as the worker ended."""
    try:
        return json.loads(line)
    except ValueError:
        return {}
