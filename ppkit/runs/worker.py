"""One notebook in one child process, `python -m ppkit.runs.worker SPEC.json`, which says one JSON
line a cell on stdout; and the parent that starts workers, measures their memory and ends them.

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
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ppkit import process_tree
from ppkit.atomic_writing import write_whole
from ppkit.runs import ANSWER_SECONDS, environment, reason

RUNNING, DONE, FAILED = "running", "done", "failed"
LINES_KEPT = 12
MEASURED_EVERY = 0.25  # seconds between two looks at the memory of all, or more, so that they cost
MEASURED_SHARE = 0.01  # at most this share of one core


def main(spec_file: str) -> None:
    """Run the notebook that `spec_file` describes and say how it went; a failed notebook is an
    answer, not an error."""
    process_tree.adopt_orphans()
    threading.Thread(target=_end_with_parent, args=(spec_file,), daemon=True).start()
    os.environ[process_tree.MARK] = spec_file
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else prints must not mix with the events

    def say(event: dict) -> None:
        print(json.dumps(event, allow_nan=False), file=events, flush=True)

    outcome = run(json.loads(Path(spec_file).read_text("utf-8")), say)
    process_tree.end_marked(spec_file)
    say({"done": outcome})


def _end_with_parent(spec_file: str) -> None:
    os.read(0, 1)  # nothing is ever written there
    process_tree.end_marked(spec_file)
    os._exit(1)


def failed(error: str, cell: int = 0) -> dict[str, Any]:
    """How a notebook went that its worker could say nothing more of."""
    return {"status": FAILED, "error": error, "cell": cell, "seconds": 0.0, "peak_memory_mb": 0}


def run(spec: dict[str, Any], say: Callable[[dict], None]) -> dict[str, Any]:
    """Execute the notebook, keep it and its page, and return its line of run.json.

    spec: as above.  say: called with {"cell": k} at each code cell.
    """
    start = time.monotonic()
    at = {"cell": 0}
    outcome: dict[str, Any] = {"status": DONE}
    try:
        _execute(spec, say, at)
    except Exception as error:
        outcome = {"status": FAILED, **_why(error), **at}
    outcome["seconds"] = round(time.monotonic() - start, 1)
    try:
        _keep(spec)
    except Exception as error:
        if outcome["status"] == DONE:
            outcome |= {"status": FAILED, **_why(error), "cell": at["cell"], "after": True}
    return outcome


def _execute(spec: dict[str, Any], say: Callable[[dict], None], at: dict[str, int]) -> None:
    import nbformat
    import papermill

    from ppkit.runs.execute import BoundKernel

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
        kernel_manager_class=BoundKernel,
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

    spec: the file that says what it runs, which is also the mark of all that it starts.
    limit: seconds that it may take, or None.  peak: bytes that it and all below it have held at
    most.
    """

    process: subprocess.Popen
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
    """

    def __init__(self, at_once: int = 1):
        self.at_once = at_once
        self.running: dict[str, Child] = {}
        self._measure_at = 0.0
        self._events: queue.Queue[tuple[str, dict]] = queue.Queue()

    def __exit__(self, *_) -> None:
        for child in self.running.values():
            process_tree.end_marked(str(child.spec))
            child.process.kill()
            child.process.wait()
        self.running.clear()

    def has_room(self) -> bool:
        """Whether one more may be started now."""
        return len(self.running) < self.at_once

    def start(self, name: str, spec: Path) -> None:
        """Start a worker on the spec file; what it says on stderr is kept beside the spec.

        What a killed worker on the same file has left running ends first.
        """
        process_tree.end_marked(str(spec))
        told = json.loads(spec.read_text("utf-8"))
        variables = environment.for_kernel(
            spec.parent,
            threads=told["threads"],
            source=told["source"],
            run=Path(told["folder"]),
            name=told["name"],
        )
        with open(spec.with_name("stderr.txt"), "w", encoding="utf-8") as errors:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "ppkit.runs.worker", str(spec)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=Path(told["notebook"]).parent,
                env=variables,
                start_new_session=True,
            )
        self.running[name] = Child(process, spec, told["limit"], time.monotonic())
        threading.Thread(target=self._listen, args=(name, process, spec), daemon=True).start()

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

    def _listen(self, name: str, process: subprocess.Popen, spec: Path) -> None:
        last: dict[str, Any] = {}
        with process:  # waits, and closes its pipes
            for line in process.stdout or ():
                last = _event(line)
                if "cell" in last:
                    self._events.put((name, last))
        if "done" not in last:
            process_tree.end_marked(str(spec))
            error = f"its process ended with code {process.returncode} before the notebook did"
            errors = spec.with_name("stderr.txt").read_text("utf-8", errors="replace")
            end = {"traceback": errors.splitlines()[-LINES_KEPT:]}
            last = {"done": failed(error, last.get("cell", 0)) | end}
        self._events.put((name, last))


def _event(line: bytes) -> dict:
    """What a line of a worker says; nothing where it was cut off as the worker ended."""
    try:
        return json.loads(line)
    except ValueError:
        return {}


if __name__ == "__main__":
    main(sys.argv[1])
