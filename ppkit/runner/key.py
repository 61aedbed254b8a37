"""What must be the same for unfinished work to go on, and on every machine that works on it: the
cells, the sources that they import, Python, the lock, the data."""

import ast
import importlib.util
import json
import os
import platform
from importlib import metadata
from pathlib import Path

from IPython.core.inputtransformer2 import TransformerManager

from ppkit import datasets, project
from ppkit.datasets.files import sha256
from ppkit.datasets.loading import real_file
from ppkit.runner import catalogue, run_folder


def of(notebooks: dict[str, Path], source: str | None, **asked) -> str:
    """A digest of the notebooks, of what they are run on, and of what is asked of them.

    What no notebook here imports is left out, so that a change elsewhere voids nothing.
    """
    cells = {name: catalogue.cells(path) for name, path in notebooks.items()}
    held = [{name: [cell["source"] for cell in cells[name]] for name in cells}, asked]
    held.append(surroundings([cell for name in cells for cell in cells[name]], source))
    return run_folder.digest(json.dumps(held, sort_keys=True).encode())


def surroundings(cells: list[dict], source: str | None) -> dict:
    """What a notebook of these cells meets here, by checksum: Python, the lock, our sources that it
    imports, the real data files (none where stand-ins are asked for)."""
    source = source or os.environ.get("PPKIT_SOURCE")
    lock = project.root() / "requirements.lock"
    files = {name: None if source == "standin" else real_file(name) for name in datasets.NAMES}
    return {
        "Python": platform.python_version().rpartition(".")[0],
        "lock": sha256(lock) if lock.exists() else None,
        "sources": sources([cell["source"] for cell in cells if cell["cell_type"] == "code"]),
        "data": [source, {name: file and sha256(file.path) for name, file in files.items()}],
    }


def sources(code: list[str]) -> dict[str, str]:
    """The files of ppkit, and of what is built on it, that code imports, however far down, with
    their checksums; and what else lies in their folders.

    Imports in functions and for types only count, too.  A package that can be started
    (`__main__.py`) counts whole, since a process of it may be.
    """
    adding = (
        entry.module.partition(".")[0] for entry in metadata.entry_points(group="ppkit.commands")
    )
    tops = {name: Path(importlib.util.find_spec(name).origin).parent for name in {"ppkit", *adding}}
    plain = (TransformerManager().transform_cell(source) for source in code)
    left = [name for source in plain for name in _imported(source, "")]
    found = set()
    while left:
        name = left.pop()
        top, *below = name.split(".")
        path = tops[top].joinpath(*below) if top in tops else None
        file = path and next(
            filter(Path.is_file, (path / "__init__.py", path.with_suffix(".py"))), None
        )
        if file and file not in found:
            found.add(file)
            package = name if file.parent == path else name.rpartition(".")[0]
            left += _imported(file.read_text("utf-8"), package)
            if (path / "__main__.py").exists():
                rest = (other.relative_to(path).with_suffix("") for other in path.rglob("*.py"))
                left += [".".join([name, *other.parts]) for other in rest]
    for folder in {file.parent for file in found}:
        found |= {
            other
            for other in folder.rglob("*")
            if other.is_file()
            and other.suffix not in (".py", ".pyc")
            and next(up for up in other.parents if (up / "__init__.py").exists()) == folder
        }
    return {
        file.relative_to(tops[top].parent).as_posix(): sha256(file)
        for top in tops
        for file in sorted(found)
        if file.is_relative_to(tops[top])
    }


def _imported(source: str, package: str) -> list[str]:
    """The modules that a source names, and perhaps names in them, with the packages above them."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            below = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            names += [below, *(f"{below}.{alias.name}" for alias in node.names)]
    return [name.rsplit(".", n)[0] for name in names for n in range(name.count(".") + 1)]
