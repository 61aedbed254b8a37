"""One notebook in one process: `python -m ppkit.runner.worker SPEC.json`, one JSON line a cell on
stdout.

Whoever starts it holds its stdin open: when that ends, so does the worker, and all that it started.

The spec says everything: {"notebook", "output", "page", "scratch": paths, "parameters": {},
"environment": {}}.
Lines: {"cell": k} when code cell k (from 1) begins; last {"done": {"status", "seconds",
"peak_memory_mb", ...}}.
"""

import json
import os
import resource
import sys
import threading
import time
from pathlib import Path

from ppkit import lifeline
from ppkit.runner import ANSWER_SECONDS, plain, reason

RUNNING = "running"
DONE = "done"
FAILED = "failed"


def main(spec_file: str) -> None:
    """Run the notebook that `spec_file` describes and say how it went; a failed notebook is an
    answer, not an error."""
    lifeline.adopt_orphans()
    threading.Thread(target=_end_with_parent, args=(spec_file,), daemon=True).start()
    spec = json.loads(Path(spec_file).read_text("utf-8"))
    os.environ.clear()
    os.environ.update(spec["environment"])
    os.environ[lifeline.MARK] = spec_file
    sys.modules["rfc3987_syntax"] = (
        None  # jsonschema then does without it: it takes a second, and nothing here checks IRIs
    )
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else prints must not mix with the events

    def say(event: dict) -> None:
        print(json.dumps(event), file=events, flush=True)

    outcome = run(spec, say)
    lifeline.end_marked(spec_file)
    say({"done": outcome})


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
    outcome["peak_memory_mb"] = _peak_memory_mb()
    try:
        _keep(spec)
    except Exception as error:
        outcome = (
            {**outcome, "status": FAILED, **_why(error)} if outcome["status"] == DONE else outcome
        )
    return outcome


def _execute(spec: dict, say, at: dict) -> None:
    import nbformat
    import papermill

    from ppkit.runner.kernel import BoundKernel

    notebook = nbformat.read(spec["notebook"], as_version=4)

    def begins(cell, cell_index):
        at["cell"] += 1
        say({"cell": at["cell"]})

    def passes(cell, cell_index):
        if cell.cell_type == "markdown" and cell.source.startswith("#"):
            at["heading"] = cell.source.splitlines()[0].lstrip("# ")

    papermill.execute_notebook(
        notebook,
        _literal(_unfinished(spec)),
        parameters=spec["parameters"],
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

    from ppkit.runner import pages

    notebook = nbformat.read(_unfinished(spec), as_version=4)
    for name in ("input_path", "output_path"):
        notebook.metadata.get("papermill", {}).pop(name, None)
    nbformat.write(notebook, _unfinished(spec))
    os.replace(_unfinished(spec), spec["output"])
    pages.write(Path(spec["output"]), Path(spec["page"]))


def _unfinished(spec: dict) -> str:
    return str(Path(spec["scratch"], Path(spec["output"]).name))


def _literal(path: str) -> str:
    return path.replace("{", "{{").replace("}", "}}")  # papermill formats paths with the parameters


def _why(error: Exception) -> dict:
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    if isinstance(error, PapermillExecutionError):
        return {
            "error": f"{error.ename}: {error.evalue}",
            "traceback": plain("\n".join(error.traceback)).splitlines(),
        }
    if isinstance(error, DeadKernelError):
        return {"error": "the kernel died (killed, out of memory, or crashed)"}
    if isinstance(error, OSError):
        file = Path(error.filename or "").name
        return {"error": f"could not write the run's files: {reason(error)}: {file}"}
    return {"error": f"{type(error).__name__}: {error}"}


def _peak_memory_mb() -> int:
    kilobytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return round(kilobytes / (1024 if sys.platform == "linux" else 1024**2))


if __name__ == "__main__":
    main(sys.argv[1])
