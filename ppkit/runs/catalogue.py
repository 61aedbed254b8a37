"""Which notebooks there are, what their parameters cells hold, and which values a run gives
them."""

import ast
import json
import math
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypedDict

from ppkit import project
from ppkit.runs import Refused, cut
from ppkit.sources import DATA

PROFILES = ("quick", "paper")
SKIPPED = "skip-execution"  # nbclient's tag of a cell that it leaves out


def notebooks(*, solutions: bool = False) -> dict[str, Path]:
    """The project's notebooks by name, in the order of study, then the records ("kanodia2020",
    which lies in records/); with `solutions` also "solutions/00_start_here"."""
    folder = project.root() / "notebooks"
    lessons = sorted(folder.glob("*.ipynb"), key=lambda file: order_of_study(file.stem))
    files = [*lessons, *sorted(folder.glob("records/*.ipynb"))]
    more = sorted(folder.glob("solutions/*.ipynb")) if solutions else []
    return {file.stem: file for file in files} | {f"solutions/{file.stem}": file for file in more}


def order_of_study(name: str) -> tuple[int, str]:
    """What lessons are sorted by: the start, the narratives of the papers, then their parts.

    >>> sorted(["01a_upload", "1_dpstgd", "00_start_here"], key=order_of_study)
    ['00_start_here', '1_dpstgd', '01a_upload']
    """
    if name.startswith("00_"):
        return 0, name
    return (1, name) if re.match(r"\d_", name) else (2, name)


def select(wanted: list[str], *, solutions: bool = False) -> dict[str, Path]:
    """The notebooks asked for, all of them if none is; "03b_spnn_attacks", "03b_spnn_attacks.ipynb"
    and its path all name one, and so does the path of a notebook outside the project.

    Refused if one does not exist, with the list of those that do.
    """
    there = notebooks(solutions=solutions)
    if not wanted and not there:
        raise Refused(f"{project.root() / 'notebooks'} holds no notebook")
    by_path = {file.resolve(): name for name, file in there.items()}
    chosen = {}
    for asked in wanted or there:
        path = Path(asked)
        name = by_path.get(path.resolve()) or asked.removesuffix(".ipynb")
        name = name.removeprefix("notebooks/")
        if name in there:
            chosen[name] = there[name]
        elif path.suffix == ".ipynb" and path.is_file():
            chosen[path.stem] = path.resolve()
        else:
            raise Refused(f"unknown notebook {asked!r}: there are {', '.join(there)}")
    return chosen


class Cell(TypedDict):
    """A cell of a notebook, its source as one text."""

    cell_type: str
    source: str
    tags: list[str]


def cells(path: Path) -> list[Cell]:
    """The cells of the notebook in file `path`; Refused if it is no notebook, or says that it is in
    another language than Python."""
    try:
        notebook = json.loads(path.read_text("utf-8"))
        language = notebook["metadata"].get("kernelspec", {}).get("language", "python")
        found: list[Cell] = [
            {
                "cell_type": cell["cell_type"],
                "source": "".join(cell["source"]),
                "tags": cell["metadata"].get("tags", []),
            }
            for cell in notebook["cells"]
        ]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise Refused(
            f"{path.name} is not a notebook that can be read: "
            f"{type(error).__name__}: {cut(str(error))}"
        ) from None
    if language != "python":
        raise Refused(f"{path.name} is a notebook in {cut(language)}; ppkit runs those in Python")
    return found


def n_code_cells(path: Path) -> int:
    """How many cells of the notebook a kernel executes."""
    return sum(
        cell["cell_type"] == "code" and bool(cell["source"].strip()) and SKIPPED not in cell["tags"]
        for cell in cells(path)
    )


def quotes_reference(path: Path) -> bool:
    """Whether a notebook shows something of figures/claims.json: rows, by `reference`, `answer` or
    a page's `beside_reference`, or their robustness, by a page's `table`."""
    return any(
        re.search(
            r"\b(beside_reference|answer|(?<!measured\.)reference|ledger\.table)\(", cell["source"]
        )
        for cell in cells(path)
        if cell["cell_type"] == "code"
    )


def parameters(path: Path) -> dict[str, object]:
    """The parameters of a notebook and their defaults: the literals assigned in its cell tagged
    `parameters`.

    An empty dict if there is no such cell.  Refused if a value in it is no literal, which would go
    stale, none of KINDS, or one that a notebook cannot hold, such as 1e999; and if another cell
    would set the values anew, after those of a run.
    """
    found: dict[str, object] = {}
    tags = [tag for cell in cells(path) for tag in cell["tags"]]
    if tags.count("parameters") > 1:
        raise Refused(
            f"{path.name} has {tags.count('parameters')} cells tagged parameters: papermill sets "
            "values behind the first one, and the others would undo them; put all into one cell"
        )
    if "injected-parameters" in tags:
        raise Refused(
            f"{path.name} was written by papermill: its cell tagged injected-parameters sets "
            "values of an earlier run; take that cell out, or run the notebook that it was made of"
        )
    tagged = "\n".join(cell["source"] for cell in cells(path) if "parameters" in cell["tags"])
    try:
        lines = ast.parse(tagged).body
    except (SyntaxError, ValueError) as error:
        raise Refused(
            f"{path.name}: the parameters cell is not Python: {cut(str(error))}"
        ) from None
    for line in lines:
        name, value = _assigned(line)
        if type(value) not in KINDS:
            raise Refused(
                f"{path.name}: the parameters cell may hold numbers, texts, True and False only, "
                f"got {cut(ast.unparse(line))!r}"
            )
        if not _can_be_written(value):
            raise Refused(
                f"{path.name}: {name} in the parameters cell must be a finite number, or a text in "
                f"UTF-8, got {cut(repr(value))}"
            )
        found[name] = value
    return found


def _assigned(line: ast.stmt) -> tuple[str, object]:
    """The name and the value that a line assigns; None as the value where it assigns no literal."""
    match line:
        case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(ast.Name(name), _, value):
            with suppress(ValueError, SyntaxError):
                return name, ast.literal_eval(value or "")
    return "", None


def _can_be_written(value: object) -> bool:
    """Whether JSON has a number and UTF-8 a text."""
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        return False
    return True


def refuse_twice(names: list[str]) -> None:
    """Refused if a parameter is given twice."""
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise Refused(f"{cut(', '.join(twice))} is given twice: once is enough")


def assign(
    chosen: dict[str, Path], *, profile: str, source: str | None, given: dict[str, str]
) -> dict[str, dict[str, object]]:
    """What each chosen notebook's parameters are set to: its profile, its data source, and the
    given values.

    chosen: notebooks by name.  profile: one of PROFILES.  source: a key of DATA, or None for the
    notebook's own.
    given: texts by parameter; a text is read as the type that the parameter's default has.
    Returns, per notebook, only the parameters that its own cell has.
    Refused on a profile, source or parameter that does not exist, or a value of another type;
    which values of the type are accepted, the notebook says in its settings cell
    (`ppkit.profile`).
    """
    if profile not in PROFILES:
        raise Refused(f"unknown profile {cut(profile)!r}: there are {', '.join(PROFILES)}")
    if source and source not in DATA:
        raise Refused(f"unknown data {cut(source)!r}: there are {', '.join(DATA)}")
    asked = {"PROFILE": profile} | ({"SOURCE": DATA[source]} if source else {}) | given
    defaults = {name: parameters(path) for name, path in chosen.items()}
    known = sorted({parameter for cell in defaults.values() for parameter in cell})
    for parameter in given:
        if parameter not in known:
            have = f"{next(iter(chosen))} has" if len(chosen) == 1 else "the chosen notebooks have"
            raise Refused(
                f"unknown parameter {cut(parameter)!r}: {have} {', '.join(known) or 'none'}"
            )
    return {
        name: {
            parameter: _typed(parameter, text, cell[parameter])
            for parameter, text in asked.items()
            if parameter in cell
        }
        for name, cell in defaults.items()
    }


def _typed(parameter: str, text: str, default: object) -> object:
    """The text as a value of the default's type; Refused if it is none."""
    kind = type(default)
    with suppress(ValueError, LookupError):
        return KINDS[kind](text)
    raise Refused(
        f"{parameter} must be of type {kind.__name__}, as its default {cut(repr(default))}, "
        f"got {cut(text)!r}"
    )


def _whole(text: str) -> int:
    """A whole number that a column of a table can hold; ValueError for any other text."""
    value = int(text)
    if not -(2**63) <= value < 2**63:
        raise ValueError("more than 64 bits")
    return value


def _finite(text: str) -> float:
    """A number that JSON can hold; ValueError for any other text."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("not finite")
    return value


def _text(text: str) -> str:
    """A text that UTF-8 can hold; ValueError for one of bytes that are none."""
    text.encode()
    return text


KINDS: dict[type, Callable[[str], object]] = {  # of parameters, and how a text is read as one
    bool: {"True": True, "False": False}.__getitem__,
    int: _whole,
    float: _finite,
    str: _text,
}
