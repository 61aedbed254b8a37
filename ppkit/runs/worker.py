"""One notebook in one child process, `python -m ppkit.runs.worker SPEC.json`, which says one JSON
line a cell on stdout; and the parent that starts workers, measures their memory and ends them.

A worker starts on a fresh interpreter, or is forked from a `warm.WarmParent`.
Whoever starts a worker holds its stdin open: when that ends, so does the worker, and all that it
started.

The spec says everything: {"notebook": its path, "folder": of the run, "name": in it, "parameters":
by name, "source": as `environment.for_kernel`, "threads": of its kernel, "limit": seconds, or
null}.
Lines: {"cell": k} when code cell k (from 1) begins; last {"done": {"status", "seconds", ...}}, to
which the parent adds "peak_memory_mb".
"""

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
from typing import IO, TYPE_CHECKING, Any

import psutil

from ppkit import process_tree
from ppkit.atomic_writing import write_whole
from ppkit.runs import ANSWER_SECONDS, environment, reason
from ppkit.runs.warm import NotWarm, WarmParent

if TYPE_CHECKING:
    from ppkit.runs.spare_kernel import SpareKernel

RUNNING, DONE, FAILED = "running", "done", "failed"
FORKED, FRESH = "forked", "fresh"  # how its worker and kernel start
LINES_KEPT = 12
MEASURED_EVERY = 0.25  # seconds between two looks at the memory of all, or more, so that they cost
MEASURED_SHARE = 0.01  # at most this share of one core


def main(spec_file: str, spare_kernel: "type[SpareKernel] | None" = None) -> None:
    """Run the notebook that `spec_file` describes and say how it went; a failed notebook is an
    answer, not an error.

    spare_kernel: what forks its kernel from this process, before anything else runs here; None for
    a kernel of its own interpreter.
    """
    process_tree.adopt_orphans()
    os.environ[process_tree.MARK] = spec_file
    descriptor = os.dup(1)
    os.dup2(2, 1)  # whatever else prints must not mix with the events
    spare = spare_kernel([descriptor]) if spare_kernel else None
    threading.Thread(target=_end_with_parent, args=(spec_file,), daemon=True).start()
    events = os.fdopen(descriptor, "w", encoding="utf-8")

    def say(event: dict) -> None:
        print(json.dumps(event, allow_nan=False), file=events, flush=True)

    outcome = run(json.loads(Path(spec_file).read_text("utf-8")), say, spare)
    process_tree.end_marked(spec_file)
    say({"done": outcome})


def _end_with_parent(spec_file: str) -> None:
    os.read(0, 1)  # nothing is ever written there
    process_tree.end_marked(spec_file)
    os._exit(1)


def failed(error: str, cell: int = 0) -> dict[str, Any]:
    """How a notebook went that its worker could say nothing more of."""
    return {"status": FAILED, "error": error, "cell": cell, "seconds": 0.0, "peak_memory_mb": 0}


def run(
    spec: dict[str, Any], say: Callable[[dict], None], spare: "SpareKernel | None" = None
) -> dict[str, Any]:
    """Execute the notebook, keep it and its page, and return its line of run.json.

    spec: as above.  say: called with {"cell": k} at each code cell.  spare: its kernel, or None for
    one that starts afresh.
    """
    start = time.monotonic()
    at = {"cell": 0}
    outcome: dict[str, Any] = {"status": DONE}
    try:
        _execute(spec, say, spare, at)
    except Exception as error:
        outcome = {"status": FAILED, **_why(error), **at}
    outcome["seconds"] = round(time.monotonic() - start, 1)
    try:
        _keep(spec)
    except Exception as error:
        if outcome["status"] == DONE:
            outcome |= {"status": FAILED, **_why(error), "cell": at["cell"], "after": True}
    return outcome


def _execute(
    spec: dict[str, Any],
    say: Callable[[dict], None],
    spare: "SpareKernel | None",
    at: dict[str, int],
) -> None:
    import nbformat
    import papermill

    from ppkit.runs.execute import kernel_from

    notebook = nbformat.read(spec["notebook"], as_version=4)

    def begins(cell, cell_index):
        at["cell"] += 1
        say({"cell": at["cell"]})

    papermill.execute_notebook(
        notebook,
        # papermill formats paths with the parameters
        _unfinished(spec).replace("{", "{{").replace("}", "}}"),
        parameters=spec["parameters"],
        kernel_name="python3",
        language="python",
        progress_bar=False,
        on_cell_execute=begins,
        kernel_manager_class=kernel_from(spare),
        shutdown_kernel="immediate",
        store_widget_state=False,
        start_timeout=ANSWER_SECONDS,
        iopub_timeout=ANSWER_SECONDS,
    )


def _keep(spec: dict[str, Any]) -> None:
    import nbformat

    from ppkit.runs import pages

    notebook = nbformat.read(_unfinished(spec), as_version=4)
    output = Path(spec["folder"], "notebooks", f"{spec['name']}.ipynb")
    for name in ("input_path", "output_path"):
        notebook.metadata.get("papermill", {}).pop(name, None)
    write_whole(output, nbformat.writes(notebook) + "\n")
    pages.write(output, Path(spec["folder"], "html", f"{spec['name']}.html"))


def _unfinished(spec: dict[str, Any]) -> str:
    return str(Path(spec["folder"], ".cache", spec["name"], f"{spec['name']}.ipynb"))


def _why(error: Exception) -> dict[str, Any]:
    from nbclient.exceptions import DeadKernelError
    from nbconvert.filters import strip_ansi
    from papermill.exceptions import PapermillExecutionError

    if isinstance(error, PapermillExecutionError):
        return {
            "error": f"{error.ename}: {error.evalue}",
            "traceback": strip_ansi("\n".join(error.traceback)).splitlines(),
        }
    if isinstance(error, DeadKernelError):
        return {"error": "the kernel died (killed, out of memory, or crashed)"}
    if isinstance(error, OSError):
        return {"error": f"could not write the run's files: {reason(error)}"}
    return {"error": f"{type(error).__name__}: {error}"}


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
        """A forked worker if there can be one, else a fresh one; and which it is, and why."""
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
                    if not child.peak:  # a short notebook may end between two looks
                        child.peak = environment.memory_of(child.process.pid)
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


if __name__ == "__main__":
    main(sys.argv[1])
