"""What must be the same for unfinished work to go on, and on every machine that works on it: the
cells, our sources, Python, the lock, the data."""

import hashlib
import importlib
import json
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

from ppkit import project
from ppkit.checksum import sha256
from ppkit.runs import catalogue
from ppkit.runs.run_folder import Task
from ppkit.verdicts import statements


def of(tasks: dict[str, Task], source: str | None, profile: str) -> str:
    """A digest of the notebooks and their parameters, and of what they are run on.

    An edit anywhere in our packages gives another one: a run then starts anew.
    """
    paths = sorted({task.path for task in tasks.values()})
    cells = [[cell["source"] for cell in catalogue.cells(path)] for path in paths]
    parameters = {name: task.parameters for name, task in tasks.items()}
    said = json.dumps([cells, parameters, profile, surroundings(source)], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()


def surroundings(source: str | None) -> dict[str, Any]:
    """What a notebook meets here, by checksum: Python, the lock, our sources, the real data files
    (none where stand-ins are asked for)."""
    source = source or os.environ.get("PPKIT_SOURCE")
    lock = project.root() / "requirements.lock"
    rows_at_hand = project.hook("rows_at_hand")
    return {
        "Python": platform.python_version().rpartition(".")[0],
        "lock": sha256(lock) if lock.exists() else None,
        "sources": sources(),
        "data": [source, rows_at_hand(source) if rows_at_hand else {}],
    }


def sources() -> dict[str, str]:
    """All files of ppkit, of the packages that add commands to it, and the claims of the project,
    with their checksums."""
    adding = metadata.entry_points(group="ppkit.commands")
    packages = {"ppkit", *(entry.module.partition(".")[0] for entry in adding)}
    sums = {file.name: sha256(file) for file in statements.folder().glob("*.toml")}
    for package in packages:
        [top] = importlib.import_module(package).__path__
        for file in Path(top).rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                sums[file.relative_to(Path(top).parent).as_posix()] = sha256(file)
    return sums
