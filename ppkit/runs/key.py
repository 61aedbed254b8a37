"""What must be the same for unfinished work to go on, and on every machine that works on it: the
cells, our sources, Python, the lock, the data."""

import hashlib
import importlib.util
import json
import os
import platform
from importlib import metadata
from pathlib import Path

from ppkit import project
from ppkit.runs import catalogue, run_folder
from ppkit.verdicts import statements


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
    names = {"ppkit", *(entry.module.partition(".")[0] for entry in adding)}
    tops = [Path(importlib.util.find_spec(name).origin).parent for name in names]
    own = statements.folder()
    return {file.name: sha256(file) for file in sorted(own.glob("*.toml"))} | {
        file.relative_to(top.parent).as_posix(): sha256(file)
        for top in tops
        for file in sorted(top.rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    }


def sha256(path: Path) -> str:
    """The file's SHA-256 in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
