"""How a notebook is executed: in a kernel that never outlives its starter, on Linux without a port.

`ppkit execute` does so to a committed one, so that two runs give identical bytes.
"""

import os
import sys
import tempfile
import time
import uuid
from pathlib import Path

import nbformat
import zmq
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from nbconvert.filters import strip_ansi
from nbconvert.preprocessors.coalescestreams import CoalesceStreamsPreprocessor

from ppkit.atomic_writing import write_whole
from ppkit.output_kinds import WIDGET_VIEW
from ppkit.process_tree import die_with_parent
from ppkit.runs import ANSWER_SECONDS, Refused, catalogue
from ppkit.runs.environment import INSTRUCTIONS, for_kernel
from ppkit.runs.spare_kernel import SpareKernel, SpareProvisioner

KERNEL = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {  # without the version, which differs from Python to Python
        "codemirror_mode": {"name": "ipython", "version": 3},
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "nbconvert_exporter": "python",
        "pygments_lexer": "ipython3",
    },
}
CELL = ("tags", "jupyter", "slideshow")  # of a cell's metadata, what says something of the cell


class Bound:
    """What makes a kernel manager of jupyter_client a safe one; it stands first among the bases.

    The kernel dies with the process that manages it, however that one ends.
    On Linux the two talk over sockets in the abstract namespace, which need no port and leave no
    file behind. Elsewhere they need ports.
    Where jupyter_client can, they talk encrypted; else a new ipykernel warns on stderr.
    The connection file lies in $JUPYTER_RUNTIME_DIR where there is one: what a killed manager
    leaves goes with it.
    spare: a process that waits to be the first kernel; None where each starts afresh.
    """

    spare: SpareKernel | None = None

    def __init__(self, **settings):
        super().__init__(**settings)
        if self.has_trait("transport_encryption") and zmq.has("curve"):
            self.transport_encryption = "auto"
        name = f"ppkit-{uuid.uuid4().hex}"
        if sys.platform == "linux" and zmq.has("ipc"):
            self.transport, self.ip = "ipc", f"@{name}"
        if os.path.isdir(folder := os.environ.get("JUPYTER_RUNTIME_DIR", "")):
            self.connection_file = os.path.join(folder, f"{name}.json")

    async def _async_pre_start_kernel(self, **settings):
        if self.spare and self.provisioner is None:
            self.kernel_id = self.kernel_id or str(uuid.uuid4())
            about = {"kernel_id": self.kernel_id, "kernel_spec": self.kernel_spec}
            self.provisioner = SpareProvisioner(**about, parent=self)
            self.provisioner.spare = self.spare
        return await super()._async_pre_start_kernel(**{**settings, "preexec_fn": die_with_parent})


class BoundKernel(Bound, AsyncKernelManager):
    """The kernel manager of `ppkit reproduce` and `ppkit execute`."""


def kernel_from(spare: SpareKernel | None) -> type[BoundKernel]:
    """A kernel manager whose first kernel is `spare`."""
    return type("SpareBoundKernel", (BoundKernel,), {"spare": spare})


def client_of(notebook: nbformat.NotebookNode, folder: Path) -> NotebookClient:
    """What executes the cells of a notebook, for as long as they take, in a safe kernel that works
    in `folder`."""
    return NotebookClient(
        notebook,
        timeout=None,
        startup_timeout=ANSWER_SECONDS,
        iopub_timeout=ANSWER_SECONDS,
        kernel_name="python3",
        kernel_manager_class=BoundKernel,
        record_timing=False,
        store_widget_state=False,
        shutdown_kernel="immediate",
        resources={"metadata": {"path": str(folder)}},
    )


def in_place(path: Path) -> float:
    """Execute the notebook in file `path` as committed (quick profile, stand-ins, one thread, the
    instructions of `environment.INSTRUCTIONS`) and write it back.

    No timings, no widget state, execution counts 1..n; cells and their ids stay as they are.
    Returns the seconds it took.
    Refused, and the file left alone, if a cell fails or writes on stderr, or the kernel dies.
    """
    catalogue.cells(path)  # refuses what is no notebook
    notebook = nbformat.read(path, as_version=4)
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ppkit-") as scratch:
        client = client_of(notebook, path.parent)
        try:
            client.reset_execution_trackers()
            # not client.execute: that one turns Ctrl-C into an AssertionError
            variables = for_kernel(Path(scratch), threads=1, source="standin") | INSTRUCTIONS
            with client.setup_kernel(env=variables):
                for index, cell in enumerate(notebook.cells):
                    client.execute_cell(cell, index)
        except CellExecutionError as error:
            raise Refused(
                f"{path.name} is left as it was: {error.ename}: {error.evalue}\n"
                f"{strip_ansi(error.traceback)}"
            ) from None
        except DeadKernelError:
            raise Refused(f"{path.name} is left as it was: its kernel died") from None
    for cell in notebook.cells:
        for text in (out.text for out in cell.get("outputs", []) if out.get("name") == "stderr"):
            raise Refused(
                f"{path.name} is left as it was: cell [{cell.execution_count}] "
                f"wrote on stderr: {text.strip()}"
            )
    write_whole(path, normalised(notebook))
    return time.monotonic() - start


def normalised(notebook) -> str:
    """The text of a notebook with all that differs from run to run taken out, keys sorted, one
    newline at the end."""
    notebook.metadata = nbformat.from_dict(KERNEL)
    CoalesceStreamsPreprocessor().preprocess(notebook, {})
    for cell in notebook.cells:
        cell.metadata = {key: cell.metadata[key] for key in CELL if key in cell.metadata}
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(WIDGET_VIEW, None)
    nbformat.validate(notebook)
    return nbformat.writes(notebook, version=4).rstrip("\n") + "\n"
