"""What must be the same for unfinished work to go on, and on every machine that works on it: the
cells, our sources, Python, the lock, the data."""

import importlib.util
import json
import os
import platform
from importlib import metadata
from pathlib import Path

from ppkit import datasets, project
from ppkit.datasets.files import sha256
from ppkit.datasets.loading import real_file
from ppkit.runner import catalogue, run_folder


def of(notebooks: dict[str, Path], source: str | None, **asked) -> str:
    """A digest of the notebooks, of what they are run on, and of what is asked of them.

    An edit anywhere in our packages gives another one: a run then starts anew.
    """
    cells = {
        name: [cell["source"] for cell in catalogue.cells(path)] for name, path in notebooks.items()
    }
    return run_folder.digest(
        json.dumps([cells, asked, surroundings(source)], sort_keys=True).encode()
    )


def surroundings(source: str | None) -> dict:
    """What a notebook meets here, by checksum: Python, the lock, our sources, the real data files
    (none where stand-ins are asked for)."""
    source = source or os.environ.get("PPKIT_SOURCE")
    lock = project.root() / "requirements.lock"
    files = {name: None if source == "standin" else real_file(name) for name in datasets.NAMES}
    return {
        "Python": platform.python_version().rpartition(".")[0],
        "lock": sha256(lock) if lock.exists() else None,
        "sources": sources(),
        "data": [source, {name: file and sha256(file.path) for name, file in files.items()}],
    }


def sources() -> dict[str, str]:
    """All files of ppkit, and of the packages that add commands to it, with their checksums."""
    adding = metadata.entry_points(group="ppkit.commands")
    names = {"ppkit", *(entry.module.partition(".")[0] for entry in adding)}
    tops = [Path(importlib.util.find_spec(name).origin).parent for name in names]
    return {
        file.relative_to(top.parent).as_posix(): sha256(file)
        for top in tops
        for file in sorted(top.rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    }
