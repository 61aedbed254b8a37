"""One notebook in one child process, `python -m ppkit.runs.worker SPEC.json`, which says one JSON
line a cell on stdout.

A worker is started by `children.Children`: on a new interpreter, or forked from a
`warm.WarmParent`.
Whoever starts a worker holds its stdin open: when that ends, so does the worker, and all that it
started.

The spec says everything: {"notebook": its path, "folder": of the run, "name": in it, "parameters":
by name, "source": as `environment.for_kernel`, "threads": of its kernel, "limit": seconds, or
null}.
Lines: {"cell": k} when code cell k (from 1) begins, with "held" at the first and the last one, the
bytes that the worker and its kernel hold then; last {"done": {"status", "seconds", ...}}, to which
the parent adds "peak_memory_mb".
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppkit import process_tree
from ppkit.atomic_writing import write_whole
from ppkit.runs import ANSWER_SECONDS, reason

if TYPE_CHECKING:
    from nbformat import NotebookNode

    from ppkit.runs.spare_kernel import SpareKernel

RUNNING, DONE, FAILED = "running", "done", "failed"


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


class EndedItself(Exception):
    """A notebook stopped before its last cell by sys.exit(), which papermill takes for its end."""


def _execute(
    spec: dict[str, Any],
    say: Callable[[dict], None],
    spare: "SpareKernel | None",
    at: dict[str, int],
) -> None:
    import nbformat
    import papermill
    from papermill.exceptions import PapermillExecutionError

    from ppkit.runs import environment
    from ppkit.runs.execute import kernel_from

    notebook = nbformat.read(spec["notebook"], as_version=4)
    ids = [cell.get("id") for cell in _to_run(notebook)]  # an old notebook has none
    last = ids[-1] if ids else None

    def begins(cell, cell_index):
        at["cell"] += 1
        event = {"cell": at["cell"]}
        if at["cell"] == 1 or (last and cell.get("id") == last):
            event["held"] = environment.memory_of(os.getpid())  # a short one ends between two looks
        say(event)

    try:
        executed = papermill.execute_notebook(
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
    except PapermillExecutionError as error:
        if not error.traceback:
            error.evalue = _last_words(spec)
        raise
    if left := len(_to_run(executed)) - at["cell"]:
        cells = "1 code cell" if left == 1 else f"{left} code cells"
        raise EndedItself(f"the notebook ended itself here, and {cells} did not run")


def _to_run(notebook: "NotebookNode") -> "list[NotebookNode]":
    """The code cells of a notebook that run: neither empty nor to be skipped."""
    from ppkit.runs import catalogue

    return [
        cell
        for cell in notebook.cells
        if cell.cell_type == "code"
        and cell.source.strip()
        and catalogue.SKIPPED not in cell.metadata.get("tags", [])
    ]


def _last_words(spec: dict[str, Any]) -> str:
    """What the cell that failed wrote: all that is known where a magic command failed."""
    import nbformat

    cells = nbformat.read(_unfinished(spec), as_version=4).cells
    failed = [cell for cell in cells if cell.metadata.get("papermill", {}).get("exception")]
    return "".join(out.get("text", "") for cell in failed for out in cell.outputs).strip()


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
    if isinstance(error, EndedItself):
        return {"error": str(error)}
    if isinstance(error, DeadKernelError):
        return {"error": "the kernel died (killed, out of memory, crashed, or by exit())"}
    if isinstance(error, OSError):
        return {"error": f"could not write the run's files: {reason(error)}"}
    return {"error": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    main(sys.argv[1])
