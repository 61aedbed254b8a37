"""`ppkit execute`: the only way a committed notebook is executed, so that two runs give identical
bytes."""

import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError

from ppkit.runner import ANSWER_SECONDS, Refused, catalogue, plain
from ppkit.runner.environment import for_kernel
from ppkit.runner.kernel import BoundKernel
from ppkit.runner.pages import WIDGET_VIEW
from ppkit.writing import write_whole

KERNEL = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def in_place(path: Path) -> float:
    """Execute the notebook in file `path` as committed (quick profile, stand-ins, one thread) and
    write it back.

    No timings, no widget state, execution counts 1..n; cells and their ids stay as they are.
    Returns the seconds it took.
    Refused, and the file left alone, if a cell fails or writes on stderr, or the kernel dies.
    """
    catalogue.cells(path)  # refuses what is no notebook
    notebook = nbformat.read(path, as_version=4)
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ppkit-") as scratch:
        environment = for_kernel(Path(scratch), threads=1, source="standin")
        client = NotebookClient(
            notebook,
            timeout=None,
            startup_timeout=ANSWER_SECONDS,
            iopub_timeout=ANSWER_SECONDS,
            kernel_name="python3",
            kernel_manager_class=BoundKernel,
            record_timing=False,
            store_widget_state=False,
            shutdown_kernel="immediate",
            resources={"metadata": {"path": str(path.parent)}},
        )
        try:
            client.reset_execution_trackers()
            with client.setup_kernel(
                env=environment
            ):  # not client.execute: that one turns Ctrl-C into an AssertionError
                for index, cell in enumerate(notebook.cells):
                    client.execute_cell(cell, index)
        except CellExecutionError as error:
            raise Refused(
                f"{path.name} is left as it was: {error.ename}: {error.evalue}\n"
                f"{plain(error.traceback)}"
            ) from None
        except DeadKernelError:
            raise Refused(f"{path.name} is left as it was: its kernel died") from None
    _refuse_stderr(path, notebook)
    write_whole(path, normalised(notebook))
    return time.monotonic() - start


def normalised(notebook) -> str:
    """The text of a notebook with all that differs from run to run taken out, keys sorted, one
    newline at the end."""
    kept = {
        key: value
        for key, value in notebook.metadata.items()
        if key not in ("papermill", "widgets", *KERNEL)
    }
    notebook.metadata = nbformat.from_dict({**kept, **KERNEL})
    for cell in notebook.cells:
        for key in ("execution", "papermill", "ExecuteTime"):
            cell.metadata.pop(key, None)
        if cell.cell_type == "code":
            cell.outputs = _merged(cell.outputs)
            for output in cell.outputs:
                output.get("data", {}).pop(WIDGET_VIEW, None)
    nbformat.validate(notebook)
    return nbformat.writes(notebook, version=4).rstrip("\n") + "\n"


def _merged(outputs: list) -> list:
    merged = []
    for output in outputs:
        last = merged[-1] if merged else None
        if last and output.output_type == last.output_type == "stream" and output.name == last.name:
            last.text += output.text
        else:
            merged.append(output)
    return merged


def _refuse_stderr(path: Path, notebook) -> None:
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.get("name") == "stderr":
                raise Refused(
                    f"{path.name} is left as it was: cell [{cell.execution_count}] wrote on stderr: "
                    f"{output.text.strip()}"
                )
