"""Which notebooks there are, what their parameters cells hold, and which values a run gives
them."""

import ast
import json
import re
from pathlib import Path

from ppkit import project
from ppkit.runs import Refused, cut
from ppkit.sources import DATA

PROFILES = ("quick", "paper")


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
    known = {file.resolve() for file in there.values()}
    others = (Path(name).resolve() for name in wanted if name.endswith(".ipynb"))
    there |= {file.stem: file for file in others if file.is_file() and file not in known}
    if not there:
        raise Refused(f"{project.root() / 'notebooks'} holds no notebook")
    by_path = {file.resolve(): name for name, file in there.items()}
    chosen = [
        by_path.get(Path(name).resolve())
        or name.removesuffix(".ipynb").removeprefix("./").removeprefix("notebooks/")
        for name in wanted
    ]
    for asked, name in zip(wanted, chosen):
        if name not in there:
            raise Refused(f"unknown notebook {asked!r}: there are {', '.join(there)}")
    return {name: path for name, path in there.items() if not chosen or name in chosen}


def cells(path: Path) -> list[dict]:
    """The cells of the notebook in file `path`: {"cell_type", "source" (one string), "tags"};
    Refused if it is no notebook, or says that it is in another language than Python."""
    try:
        notebook = json.loads(path.read_text("utf-8"))
        language = _language(notebook.get("metadata", {}))
        found = [
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
    if language and "python" not in language.lower():
        raise Refused(f"{path.name} is a notebook in {cut(language)}; ppkit runs those in Python")
    return found


def _language(metadata: dict) -> str:
    """What a notebook says that it is written in; "" if it does not say."""
    kernel, info = metadata.get("kernelspec", {}), metadata.get("language_info", {})
    return kernel.get("language") or info.get("name") or ""


def n_code_cells(path: Path) -> int:
    """How many cells of the notebook a kernel executes."""
    return sum(cell["cell_type"] == "code" and bool(cell["source"].strip()) for cell in cells(path))


def quotes_reference(path: Path) -> bool:
    """Whether a notebook shows something of figures/claims.json: rows, by `reference`, `answer` or
    a page's `beside_reference`, or how firm they are, by a page's `table`."""
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

    An empty dict if there is no such cell.  Refused if a value in it is not a literal: it would go
    stale; or if JSON cannot hold it.
    """
    tagged = [cell["source"] for cell in cells(path) if "parameters" in cell["tags"]]
    found = {}
    try:
        lines = [line for source in tagged for line in ast.parse(source).body]
    except (SyntaxError, ValueError) as error:
        raise Refused(
            f"{path.name}: the parameters cell is not Python: {cut(str(error))}"
        ) from None
    for line in lines:
        target = line.targets[0] if isinstance(line, ast.Assign) else getattr(line, "target", None)
        try:
            found[target.id] = ast.literal_eval(line.value)
        except (AttributeError, ValueError):
            raise Refused(
                f"{path.name}: the parameters cell may hold literals only, "
                f"got {cut(ast.unparse(line))!r}"
            ) from None
        _can_be_kept(f"{path.name}: {target.id}", found[target.id], ast.unparse(line.value))
    return found


def refuse_twice(names: list[str]) -> None:
    """Refused if a parameter is given twice."""
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise Refused(f"{', '.join(twice)} is given twice: once is enough")


def assign(
    chosen: dict[str, Path], *, profile: str, source: str | None, given: list[tuple[str, str]]
) -> dict[str, dict[str, object]]:
    """What each chosen notebook's parameters are set to: its profile, its data source, and the
    given values.

    chosen: notebooks by name.  profile: one of PROFILES.  source: a key of DATA, or None for the
    notebook's own.
    given: (parameter, text) pairs; the text is read as the type that the parameter's default has.
    Returns, per notebook, only the parameters that its own cell has.
    Refused on a profile, source or parameter that does not exist, or a value of another type or
    that JSON cannot hold, such as 1e999; which values of the type are accepted, the notebook says
    in its settings cell (`ppkit.profile`).
    """
    defaults = {name: parameters(path) for name, path in chosen.items()}
    known = sorted({parameter for cell in defaults.values() for parameter in cell})
    choices = {"PROFILE": ("profile", PROFILES), "SOURCE": ("data", DATA)}
    asked = [("PROFILE", profile), *([] if source is None else [("SOURCE", source)]), *given]
    for parameter, text in asked:
        if (parameter, text) in given and parameter not in known:
            have = f"{next(iter(chosen))} has" if len(chosen) == 1 else "the chosen notebooks have"
            raise Refused(
                f"unknown parameter {cut(parameter)!r}: {have} {', '.join(known) or 'none'}"
            )
        what, allowed = choices.get(parameter, ("", (text,)))
        if text not in allowed:
            raise Refused(f"unknown {what} {cut(text)!r}: there are {', '.join(allowed)}")
    return {
        name: {
            parameter: DATA[text]
            if parameter == "SOURCE"
            else _typed(parameter, text, cell[parameter])
            for parameter, text in asked
            if parameter in cell
        }
        for name, cell in defaults.items()
    }


def _typed(parameter: str, text: str, default):
    try:
        value = text if isinstance(default, str) else ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = text
    if (type(default), type(value)) == (float, int):
        try:
            value = float(value)
        except OverflowError:
            raise Refused(
                f"{parameter} must be a number that a float holds, below 1.8e308, got {cut(text)!r}"
            ) from None
    if type(value) is not type(default):
        raise Refused(
            f"{parameter} must be of type {type(default).__name__}, "
            f"as its default {cut(repr(default))}, got {cut(text)!r}"
        )
    _can_be_kept(parameter, value, text)
    return value


def _can_be_kept(parameter: str, value, text: str) -> None:
    """Refuse what JSON has no word for: run.json and the executed notebook are JSON."""
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError):
        raise Refused(
            f"{parameter} must hold finite numbers, texts, True, False or None, and lists of "
            f"them, got {cut(ascii(text))}"
        ) from None
