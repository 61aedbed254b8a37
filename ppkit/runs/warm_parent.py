"""The process that workers are forked from: `python -P -m ppkit.runs.warm_parent SOCKET
NOTEBOOK...`.

It imports what the notebooks import and what a worker needs, and then only waits, on one thread:
a child that is forked beside other threads may wait for ever for what one of them held. It ends
when whoever started it does.
"""

import ast
import gc
import importlib
import json
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from jupyter_client.kernelspec import KernelSpecManager

from ppkit import process_tree
from ppkit.runs import catalogue, pages, spare_kernel, worker
from ppkit.runs.warm import MESSAGE

# What a worker and a kernel need, whatever the notebook is.
OF_EVERY_JOB = (
    *("papermill", "papermill.iorw", "nbclient", "nbformat", "nbconvert", "bleach"),
    *("ppkit.runs.execute", "ipykernel.kernelapp", "ipykernel.zmqshell", "ipykernel.ipkernel"),
    *("IPython.core.completerlib", "IPython.extensions.storemagic", "tornado.platform.asyncio"),
    *("ipykernel.debugger", "IPython.core.debugger"),  # each kernel has one, used or not
)
# They look for a running shell while they are imported.
LOOK_FOR_SHELL = {"ipywidgets", "IPython", "tqdm"}
HARMLESS_THREADS = {"jemalloc_bg_thd"}  # its library prepares for forks


def main(descriptor: str, *notebooks: str) -> None:
    """Import, say so, and fork a worker for each request; SystemExit in one that is through."""
    began = time.time_ns()
    asked = socket.socket(fileno=int(descriptor))
    own_path = list(sys.path)
    gc.disable()  # what is imported stays
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    import_all(Path(notebook) for notebook in notebooks)
    _write_a_page()
    KernelSpecManager().get_kernel_spec("python3")  # its registry of provisioners stays
    asked.send(json.dumps({"refused": why} if (why := unfit()) else {"ready": True}).encode())
    read = _sources()
    gc.collect()
    gc.freeze()  # else a child's first collection would copy every page
    request, streams = _next_child(asked, read, began)
    gc.enable()
    sys.path[:] = own_path
    _become_worker(request, streams)


def import_all(notebooks: Iterable[Path]) -> None:
    """Import what the notebooks import at their top, and what those of our modules that came along
    import within functions. What cannot be imported is left to the notebook, which will say so."""
    for name in OF_EVERY_JOB:
        importlib.import_module(name)
    for notebook in notebooks:
        code = [c["source"] for c in catalogue.cells(notebook) if c["cell_type"] == "code"]
        for cell in code:
            with suppress(SyntaxError):  # a magic command
                _import(imports(ast.parse("".join(cell)).body))
    read: set[str] = set()
    while new := _sources().keys() - read:
        read |= new
        for file in sorted(new):
            _import(imports(ast.walk(ast.parse(Path(file).read_text("utf-8")))))


def imports(statements: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """What statements import: a module by its full name, and the name taken from it or "".

    >>> list(imports(ast.parse("import torch.nn; from ppkit import audit").body))
    [('torch.nn', ''), ('ppkit', 'audit')]
    """
    for statement in statements:
        if isinstance(statement, ast.Import):
            yield from ((alias.name, "") for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            yield from ((statement.module, alias.name) for alias in statement.names)


def _import(wanted: Iterable[tuple[str, str]]) -> None:
    """Import as the statements would. A name that the module has is no module, although a folder
    may be called so: importing the folder would put it in the name's place."""
    for module, name in wanted:
        if module.partition(".")[0] not in LOOK_FOR_SHELL:
            with suppress(Exception):  # the notebook that needs it will say so
                found = importlib.import_module(module)
                if name and not hasattr(found, name):
                    importlib.import_module(f"{module}.{name}")


def unfit() -> str:
    """Why no child may be forked from this process; "" if nothing stands against it."""
    with os.scandir("/proc/self/task") as tasks:
        others = [Path(task.path, "comm").read_text().strip() for task in tasks]
    others.remove(Path("/proc/self/comm").read_text().strip())
    foreign = sorted({*others} - HARMLESS_THREADS)
    return f"what it imported runs threads: {', '.join(foreign)}" if foreign else ""


def _sources() -> dict[str, int]:
    """The loaded modules' files that lie outside the installation, with the times of their last
    change: they are what a person edits."""
    installed = Path(os.__file__).parent
    times = {}
    for module in list(sys.modules.values()):
        file = Path(getattr(module, "__file__", None) or "")
        is_installed = installed in file.parents or "site-packages" in file.parts
        if file.suffix == ".py" and file.is_file() and not is_installed:
            times[str(file)] = file.stat().st_mtime_ns
    return times


def _changed(read: dict[str, int], began: int) -> str:
    for file, changed in read.items():
        now = os.stat(file).st_mtime_ns if os.path.exists(file) else None
        if now != changed or changed > began:
            return f"{os.path.basename(file)} has changed since the run began"
    return ""


def _write_a_page() -> None:
    """Write a page of nothing, for what its libraries load at the first one."""
    import nbformat

    cells = [nbformat.v4.new_markdown_cell("$x$ `y`"), nbformat.v4.new_code_cell("1")]
    with tempfile.TemporaryDirectory() as folder:
        notebook = Path(folder, "a.ipynb")
        nbformat.write(nbformat.v4.new_notebook(cells=cells), notebook)
        pages.write(notebook, Path(folder, "a.html"))


def _next_child(asked: socket.socket, read: dict[str, int], began: int) -> tuple[dict, list[int]]:
    """Fork a child for each request; returns in the child only, what it was asked.

    read: times of the sources, as `_sources`.  began: nanoseconds when the first of them was read;
    what was changed since may be half old, half new here.
    """
    signal.signal(signal.SIGCHLD, _wait_for_the_ended)
    while True:
        data, streams, *_ = socket.recv_fds(asked, MESSAGE, 3)
        if not data:
            os._exit(0)
        if why := _changed(read, began) or unfit():
            asked.send(json.dumps({"refused": why}).encode())
        else:
            pid = os.fork()
            if not pid:
                asked.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                return json.loads(data), streams
            asked.send(json.dumps({"pid": pid}).encode())
        for stream in streams:
            os.close(stream)


def _wait_for_the_ended(*_) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


def _become_worker(request: dict, streams: list[int]) -> None:
    """Go on as the worker that `children.Children` would have started."""
    os.setsid()
    for standard, stream in enumerate(streams):
        os.dup2(stream, standard)
        os.close(stream)
    os.chdir(request["folder"])
    process_tree.take_environment(request["variables"])
    sys.argv = [worker.__file__, request["spec"]]
    worker.main(request["spec"], spare_kernel.SpareKernel)
    sys.exit()


if __name__ == "__main__":
    main(*sys.argv[1:])
