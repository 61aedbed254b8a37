"""With which code of a notebook the reference's rows and pictures were found:
figures/code_versions.json, by run and notebook."""

import ast
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from ppkit import project
from ppkit.runs import catalogue, json_files
from ppkit.verdicts.rows import Result, Row

if TYPE_CHECKING:
    from ppkit.runs.run_folder import RunFolder

INJECTED = "injected-parameters"  # papermill's own cell


def digest(path: Path) -> str:
    """The SHA-256 of what a notebook computes: its code cells in their order, as Python reads them,
    so that comments and the breaking of lines do not count. Of an executed notebook without the
    cell that papermill adds.  SyntaxError if a cell is no Python."""
    trees = [
        ast.dump(ast.parse(cell["source"]))
        for cell in catalogue.cells(path)
        if cell["cell_type"] == "code" and INJECTED not in cell["tags"]
    ]
    return hashlib.sha256("\n".join(trees).encode()).hexdigest()


def keep(runs: "list[RunFolder]", claims: list[Row], pictures: dict) -> None:
    """Add the code of these runs' notebooks; what no row and no picture rests on any more goes."""
    found = _kept() | {
        run.record["id"]: {
            name: digest(run.path / "notebooks" / f"{name}.ipynb")
            for name in run.notebooks
            if (run.path / "notebooks" / f"{name}.ipynb").exists()
        }
        for run in runs
    }
    needed = {(one.run, one.notebook) for row in claims for one in row.results}
    needed |= {(about["run"], about["notebook"]) for about in pictures.values()}
    left = {
        run: {name: one for name, one in of.items() if (run, name) in needed}
        for run, of in found.items()
    }
    json_files.write_json(_file(), {run: of for run, of in sorted(left.items()) if of})


def is_older(run: str, notebook: str) -> bool:
    """Whether a run found something with another code of this notebook than the project's, or with
    one that nobody kept."""
    now = catalogue.notebooks().get(notebook)
    return now is None or _kept().get(run, {}).get(notebook) != digest(now)


def in_words(result: Result) -> str:
    """What to say beside the run of a result: "" where the notebook's code is still the same."""
    if not result.run or not result.notebook or not is_older(result.run, result.notebook):
        return ""
    return f"the code of {result.notebook} has changed since"


def _file() -> Path:
    return project.root() / "figures" / "code_versions.json"


def _kept() -> dict[str, dict[str, str]]:
    return json_files.read_json(_file()) if _file().exists() else {}
