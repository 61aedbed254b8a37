"""With which code of a notebook the reference's rows, pictures and measured numbers were found, by
run and notebook, and each file of figures/settings: figures/code_versions.json."""

import ast
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ppkit import project
from ppkit.runs import catalogue, json_files
from ppkit.verdicts.rows import Result, Row

if TYPE_CHECKING:
    from ppkit.runs.run_folder import RunFolder

INJECTED = "injected-parameters"  # papermill's own cell


def digest(path: Path) -> str:
    """The SHA-256 of what a notebook computes: the statements of its code cells in their order, as
    Python reads them, so that comments, the breaking of lines and where a cell ends do not count.
    It is the same by every Python.  A cell with a magic, which is no Python, counts as it is
    written.  Of an executed notebook without the cell that papermill adds."""
    statements = [
        statement
        for cell in catalogue.cells(path)
        if cell["cell_type"] == "code" and INJECTED not in cell["tags"]
        for statement in _statements(cell["source"])
    ]
    return hashlib.sha256("\n".join(statements).encode()).hexdigest()


def _statements(source: str) -> list[str]:
    try:
        return [repr(_tree(statement)) for statement in ast.parse(source).body]
    except SyntaxError:
        return [source]


def _tree(node: object) -> object:
    """A node as nested tuples without what is empty, which differs by version: since 3.12 a
    function has a list of type parameters, and 3.12.1 ends some f-strings with an empty text."""
    if isinstance(node, list):
        return tuple(map(_tree, node))
    if not isinstance(node, ast.AST):
        return node
    if isinstance(node, ast.JoinedStr):
        node.values = [one for one in node.values if getattr(one, "value", one) != ""]
    fields = ((name, value) for name, value in ast.iter_fields(node) if value not in (None, []))
    return type(node).__name__, *((name, _tree(value)) for name, value in fields)


class Found(NamedTuple):
    """The digests of runs, by run and notebook, and of each file of settings its run and code."""

    runs: dict[str, dict[str, str]]
    settings: dict[str, dict[str, str]]


def found_with(runs: "list[RunFolder]", batches: "list[RunFolder]") -> Found:
    """With which code these runs and these batches at settings found what they found."""
    by_run: dict[str, dict[str, str]] = {}
    for run in runs:  # two that began in the same second, in two folders, have one id
        id = run.record["id"]
        by_run[id] = by_run.get(id, {}) | _digests(run, run.notebooks)
    settings = {
        settings_file(batch): {
            "run": batch.record["id"],
            "commit": batch.record.get("commit", ""),
            "code": _of_all_points(batch),
        }
        for batch in batches
    }
    return Found(by_run, settings)


def keep(new: Found, claims: list[Row], pictures: dict) -> None:
    """Add what `found_with` says; what nothing in figures/ rests on any more goes."""
    kept = _kept()
    found = dict(kept["runs"])
    for id, of in new.runs.items():
        found[id] = found.get(id, {}) | of
    needed = behind(claims, pictures)
    left = {
        run: {name: one for name, one in of.items() if (run, name) in needed}
        for run, of in found.items()
    }
    settings = kept["settings"] | new.settings
    content = {
        "runs": {run: of for run, of in sorted(left.items()) if of},
        "settings": {
            name: settings[name]
            for name in sorted(settings)
            if (_file().parent / "settings" / name).exists()
        },
    }
    json_files.write_json(_file(), content)


def behind(claims: list[Row], pictures: dict) -> set[tuple[str, str]]:
    """The run and the notebook of each row, picture and file of measured numbers in figures/."""
    files = (_file().parent / "measured").glob("*.json")
    others = [*pictures.values(), *map(json_files.read_json, files)]
    found = [(one.run, one.notebook) for row in claims for one in row.results if one.notebook]
    return {*found, *((about["run"], about.get("notebook", "")) for about in others)}


def settings_file(batch: "RunFolder") -> str:
    """The file of figures/settings in which a batch at the settings of a record is kept."""
    record = batch.record
    size = "paper." if record["profile"] == "paper" else ""
    return f"{record['batch']}.{size}{record['data']}.json"


def is_older(run: str, notebook: str) -> bool:
    """Whether a run found something with another code of this notebook than the project's, or with
    one that nobody kept."""
    return _kept()["runs"].get(run, {}).get(notebook) != _of_today(notebook)


def settings_are_older(name: str) -> bool:
    """Whether a file of figures/settings was found with another code of its record than the
    project's, or with one that nobody kept."""
    return _kept()["settings"].get(name, {}).get("code") != _of_today(name.partition(".")[0])


def in_words(result: Result) -> str:
    """What to say beside the run of a result: "" where the notebook's code is still the same."""
    if not result.run or not result.notebook or not is_older(result.run, result.notebook):
        return ""
    if result.notebook not in _kept()["runs"].get(result.run, {}):
        return f"with which code of {result.notebook} was not kept"
    return f"the code of {result.notebook} has changed since"


def _digests(run: "RunFolder", names: Iterable[str]) -> dict[str, str]:
    files = {name: run.path / "notebooks" / f"{name}.ipynb" for name in names}
    return {name: digest(path) for name, path in files.items() if path.exists()}


def _of_all_points(batch: "RunFolder") -> str:
    """The digest that all points of a batch have; "" if they have several, or no notebook."""
    files = batch.path.glob(f"points/*/notebooks/{batch.record['batch']}.ipynb")
    found = {digest(file) for file in files}
    return found.pop() if len(found) == 1 else ""


def _of_today(notebook: str) -> str:
    """Its digest; "none", which is no digest, if there is no such notebook any more."""
    path = catalogue.notebooks().get(notebook)
    return digest(path) if path else "none"


def _file() -> Path:
    return project.root() / "figures" / "code_versions.json"


def _kept() -> dict[str, dict]:
    return json_files.read_json(_file()) if _file().exists() else {"runs": {}, "settings": {}}
