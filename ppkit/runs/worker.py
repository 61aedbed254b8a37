"""One notebook in one child process, `python -m ppkit.runs.worker SPEC.json`, which says one JSON
line a cell on stdout; and the parent that starts workers, measures their memory and ends them.

Whoever starts a worker holds its stdin open: when that ends, so does the worker, and all that it
started.

The spec says everything: {"notebook": its path, "folder": of the run, "name": in it, "parameters":
{}, each value as Python writes it, since JSON has no tuple, "source": as `environment.for_kernel`,
"threads": of its kernel, "limit": seconds, or null}.
Lines: {"cell": k} when code cell k (from 1) begins; last {"done": {"status", "seconds",
"peak_memory_mb", ...}}.
"""

import ast
import json
import os
import queue
import resource
import subprocess
import sys
import threading
import time
from contextlib import AbstractContextManager
from pathlib import Path

from ppkit import lifeline
from ppkit.runs import ANSWER_SECONDS, environment, reason
from ppkit.writing import write_whole

RUNNING, DONE, FAILED = "running", "done", "failed"
LINES_KEPT = 12
MEASURED_EVERY = 0.25  # seconds between two looks at the memory of all, or more, so that they cost
LOOKS_EVERY = 0.1  # seconds between two looks for what began after its limit
MEASURED_SHARE = 0.01  # at most this share of one core


def main(spec_file: str) -> None:
    """Run the notebook that `spec_file` describes and say how it went; a failed notebook is an
    answer, not an error."""
    lifeline.adopt_orphans()
    threading.Thread(target=_end_with_parent, args=(spec_file,), daemon=True).start()
    spec = json.loads(Path(spec_file).read_text("utf-8"))
    kept = {name: spec[name] for name in ("threads", "source", "name")}
    variables = environment.for_kernel(_scratch(spec), run=Path(spec["folder"]), **kept)
    os.environ.clear()
    os.environ.update(variables)
    os.environ[lifeline.MARK] = spec_file
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else prints must not mix with the events

    def say(event: dict) -> None:
        print(json.dumps(event, allow_nan=False), file=events, flush=True)

    limit = Limit(spec["limit"] or threading.TIMEOUT_MAX, spec_file)
    limit.start()
    outcome = run(spec, say)
    limit.over.set()
    if outcome["status"] == FAILED and limit.passed.is_set():
        outcome["error"] = f"ended at its limit of {limit.seconds:g} s"
    lifeline.end_marked(spec_file)
    say({"done": outcome})


class Limit(threading.Thread):
    """After so many seconds ends all that was started with a mark, also what starts only then,
    until `over` is set.

    passed: set once the limit has passed.
    """

    def __init__(self, seconds: float, mark: str):
        super().__init__(daemon=True)
        self.seconds, self.mark = min(seconds, threading.TIMEOUT_MAX), mark
        self.passed, self.over = threading.Event(), threading.Event()

    def run(self) -> None:
        if self.over.wait(self.seconds):
            return
        self.passed.set()
        while not self.over.is_set():
            lifeline.end_marked(self.mark)
            self.over.wait(LOOKS_EVERY)


def _end_with_parent(spec_file: str) -> None:
    os.read(0, 1)  # nothing is ever written there
    lifeline.end_marked(spec_file)
    os._exit(1)


def run(spec: dict, say) -> dict:
    """Execute the notebook, keep it and its page, and return its line of run.json.

    spec: as above.  say: called with {"cell": k} at each code cell.
    """
    start = time.monotonic()
    at = {"cell": 0, "heading": ""}
    try:
        _execute(spec, say, at)
        outcome = {"status": DONE}
    except Exception as error:
        outcome = {"status": FAILED, **_why(error), "cell": at["cell"], "heading": at["heading"]}
    outcome["seconds"] = round(time.monotonic() - start, 1)
    kilobytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    outcome["peak_memory_mb"] = round(kilobytes / (1024 if sys.platform == "linux" else 1024**2))
    try:
        _keep(spec)
    except Exception as error:
        if outcome["status"] == DONE:
            outcome |= {"status": FAILED, **_why(error), "cell": at["cell"], "after": True}
    return outcome


def _execute(spec: dict, say, at: dict) -> None:
    import nbformat
    import papermill
    from papermill import translators

    from ppkit.runs.execute import BoundKernel, Literals

    translators.papermill_translators.register("python", Literals)
    notebook = nbformat.read(spec["notebook"], as_version=4)

    def begins(cell, cell_index):
        at["cell"] += 1
        say({"cell": at["cell"]})

    def passes(cell, cell_index):
        if cell.cell_type == "markdown" and cell.source.startswith("#"):
            at["heading"] = cell.source.splitlines()[0].lstrip("# ")

    papermill.execute_notebook(
        notebook,
        # papermill formats paths with the parameters
        _unfinished(spec).replace("{", "{{").replace("}", "}}"),
        parameters={name: ast.literal_eval(text) for name, text in spec["parameters"].items()},
        kernel_name="python3",
        language="python",
        progress_bar=False,
        on_cell_start=passes,
        on_cell_execute=begins,
        kernel_manager_class=BoundKernel,
        shutdown_kernel="immediate",
        store_widget_state=False,
        start_timeout=ANSWER_SECONDS,
        iopub_timeout=ANSWER_SECONDS,
    )


def _keep(spec: dict) -> None:
    import nbformat

    from ppkit.runs import pages

    notebook = nbformat.read(_unfinished(spec), as_version=4)
    output = Path(spec["folder"], "notebooks", f"{spec['name']}.ipynb")
    for name in ("input_path", "output_path"):
        notebook.metadata.get("papermill", {}).pop(name, None)
    write_whole(output, nbformat.writes(notebook) + "\n")
    pages.write(output, Path(spec["folder"], "html", f"{spec['name']}.html"))


def _scratch(spec: dict) -> Path:
    return Path(spec["folder"], ".cache", spec["name"])


def _unfinished(spec: dict) -> str:
    return str(_scratch(spec) / f"{spec['name']}.ipynb")


def _why(error: Exception) -> dict:
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
        where = Path(error.filename or "").name
        return {"error": f"could not write the run's files: {reason(error)}: {where}"}
    return {"error": f"{type(error).__name__}: {error}"}


class Children(AbstractContextManager):
    """Workers by name. Leaving the block ends those that still run, and their kernels, in seconds.

    at_once: how many there is room for.
    peak: bytes that each worker and all below it have held at most.
    """

    def __init__(self, at_once: int = 1):
        self.at_once = at_once
        self.running: dict[str, subprocess.Popen] = {}
        self.peak: dict[str, int] = {}
        self._measure_at = 0.0
        self._events = queue.Queue()

    def __exit__(self, *_) -> None:
        for child in self.running.values():
            lifeline.end_marked(child.args[-1])
            child.kill()
            child.wait()
        self.running.clear()

    def has_room(self) -> bool:
        """Whether one more may be started now."""
        return len(self.running) < self.at_once

    def start(self, name: str, spec: Path) -> None:
        """Start a worker on the spec file; what it says on stderr is kept beside the spec.

        What a killed worker on the same file has left running ends first.
        """
        lifeline.end_marked(str(spec))
        with open(spec.with_name("stderr.txt"), "w", encoding="utf-8") as errors:
            child = subprocess.Popen(
                [sys.executable, "-P", "-m", "ppkit.runs.worker", str(spec)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=Path(json.loads(spec.read_text("utf-8"))["notebook"]).parent,
                start_new_session=True,
            )
        self.running[name], self.peak[name] = child, 0
        threading.Thread(target=self._listen, args=(name, child, spec), daemon=True).start()

    def next_event(self, meanwhile=lambda: None) -> tuple[str, dict]:
        """Wait for the next line of any worker: (name, {"cell": k}) or (name, {"done": {...}}),
        which is its last.

        The peak memory in it is that of the whole tree of processes.
        meanwhile: called a few times a second as long as there is none.
        """
        while True:
            self._measure()
            try:
                name, event = self._events.get(timeout=0.2)  # a short wait, so that Ctrl-C is heard
            except queue.Empty:
                meanwhile()
                continue
            if "done" in event:
                self.running.pop(name)
                last = event["done"]
                last["peak_memory_mb"] = max(
                    last["peak_memory_mb"], round(self.peak[name] / environment.MB)
                )
            return name, event

    def _measure(self) -> None:
        if time.monotonic() < self._measure_at:
            return
        began = time.thread_time()
        for name, child in self.running.items():
            self.peak[name] = max(self.peak[name], environment.memory_of(child.pid))
        spent = time.thread_time() - began
        self._measure_at = time.monotonic() + max(MEASURED_EVERY, spent / MEASURED_SHARE)

    def _listen(self, name: str, child: subprocess.Popen, spec: Path) -> None:
        last = {}
        for line in child.stdout:
            last = _event(line)
            if "cell" in last:
                self._events.put((name, last))
        child.stdout.close()
        code = child.wait()
        child.stdin.close()
        if "done" not in last:
            lifeline.end_marked(str(spec))
            last = {
                "done": {
                    "status": FAILED,
                    "error": f"its process ended with code {code} before the notebook did",
                    "cell": last.get("cell", 0),
                    "seconds": 0.0,
                    "peak_memory_mb": 0,
                    "traceback": _last_lines(spec.with_name("stderr.txt")),
                }
            }
        self._events.put((name, last))


def _event(line: str | bytes) -> dict:
    """What a line of a worker says; nothing where it was cut off as the worker ended."""
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}


def _last_lines(file: Path) -> list[str]:
    """The end of a text, in whatever encoding; nothing where there is no such file."""
    try:
        return file.read_text("utf-8", errors="replace").splitlines()[-LINES_KEPT:]
    except OSError:
        return []


if __name__ == "__main__":
    main(sys.argv[1])
