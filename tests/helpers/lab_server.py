"""`ppkit lab` as a process on a copy of the tree, for tests over HTTP and in a browser."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path

from house import ROOT

LIMIT = 600  # seconds, far beyond any machine; what is waited for is an event
TOKEN = "for-this-test"


def copy_of_the_tree(target: Path) -> Path:
    """The tree as it is on disk, also what is not committed yet, without what git ignores."""
    tree = ROOT
    ignored = (tree / ".gitignore").read_text("utf-8").split()
    names = [pattern.rstrip("/").split("/")[-1] for pattern in ignored]
    return shutil.copytree(tree, target, ignore=shutil.ignore_patterns(".git", *names))


def own_settings(folder: Path) -> dict[str, str]:
    """The environment with nothing of this user's Jupyter and IPython in it, on stand-ins."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PPKIT_")}
    parts = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    own = {name: str(folder / name.lower()) for name in parts}
    return {**kept, **own, "PPKIT_SOURCE": "standin"}


@contextlib.contextmanager
def opened(ppkit: Path, project: Path, environment: dict[str, str], *options: str):
    """JupyterLab, started by the command `ppkit lab` in `project`: the address of its server."""
    log = Path(environment["JUPYTER_RUNTIME_DIR"]).with_name("lab.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "wb") as said:
        server = subprocess.Popen(
            [
                ppkit,
                "lab",
                "--",
                "--no-browser",
                "--allow-root",
                "--ServerApp.port=0",
                f"--IdentityProvider.token={TOKEN}",
                *options,
            ],
            cwd=project,
            env=environment,
            stdout=said,
            stderr=said,
        )
    try:
        deadline = time.monotonic() + LIMIT
        while not (address := re.search(r"http://127\.0\.0\.1:(\d+)", log.read_text("utf-8"))) or (
            not _listens(int(address[1]))
        ):
            assert server.poll() is None and time.monotonic() < deadline, log.read_text("utf-8")
            time.sleep(0.1)
        yield address[0]
    finally:
        server.terminate()
        server.wait(LIMIT)


def _listens(port: int) -> bool:
    with socket.socket() as attempt:  # Jupyter says its address before it listens there
        return attempt.connect_ex(("127.0.0.1", port)) == 0
