"""Where the project lies on disk: the folder that holds notebooks/, data/, figures/ and runs/; and
what its pyproject.toml says of it in [tool.ppkit].

A project that is not ours, a kit of other papers, is such a folder, too: its `claims` name the
folder of its claims, and what the verdicts and runs need of it beyond that are functions, named as
"module:function".
"""

import importlib
import os
import re
import tomllib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

# of this kit, for a project whose pyproject.toml names no claims of its own
OURS = {
    "claims": None,  # beside ppkit/verdicts
    "subject": "private learning",  # of the papers, for the title of a page
    "data": "ppkit.datasets:Dataset",
    "rows_at_hand": "ppkit.datasets.loading:rows_at_hand",
    "after_reference": "ppkit.documents:renew",
}


def root() -> Path:
    """The project's folder: $PPKIT_HOME, else the nearest folder above the working directory, else
    the package's own.

    A folder counts when it holds both `notebooks/` and `ppkit/`, or a pyproject.toml with
    [tool.ppkit].
    FileNotFoundError if none does; the message says what to set.
    """
    if os.environ.get("PPKIT_HOME"):
        return Path(os.environ["PPKIT_HOME"]).resolve()
    here = Path.cwd().resolve()
    for folder in (here, *here.parents, Path(__file__).resolve().parents[1]):
        ours = (folder / "notebooks").is_dir() and (folder / "ppkit").is_dir()
        if ours or _kit(folder):
            return folder
    raise FileNotFoundError(
        f"no ppkit project at or above {here}: change into the clone, or set PPKIT_HOME to it"
    )


def setting(name: str):
    """What the project's pyproject.toml says in [tool.ppkit]; None if it says nothing.

    A project that names no claims of its own has this kit's.
    """
    kit = _kit(root())
    return kit.get(name) if "claims" in kit else (OURS | kit).get(name)


def hook(name: str) -> type | Callable | None:
    """A class or function of the project that the verdicts or runs use, None if it names none.

    data: the class whose objects say what rows a verdict was decided on; `ledger.Data` says what
    they must have.
    rows_at_hand(source) -> dict: the files of real rows that a notebook would take, with their
    checksums: what is part of the key of a run.
    after_reference(root): called when figures/claims.json is new.
    ValueError if [tool.ppkit] names one that cannot be imported.
    """
    named = setting(name)
    if named is None:
        return None
    module, _, name_in_it = named.partition(":")
    try:
        return getattr(importlib.import_module(module), name_in_it)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"pyproject.toml, [tool.ppkit], {name} = {named!r}: {error}") from None


def _kit(folder: Path) -> dict:
    """[tool.ppkit] of the pyproject.toml in a folder; empty if there is none."""
    file = folder / "pyproject.toml"
    if not file.is_file():
        return {}
    return read_toml(file).get("tool", {}).get("ppkit", {})


def read_toml(file: Path) -> dict:
    """What a file in TOML holds, not to be changed: it is parsed once, and asked for a row at a
    time.

    ValueError, with the file, if it is no TOML.
    """
    try:
        return _parsed(file.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is no TOML: {error}") from None


@lru_cache(maxsize=32)
def _parsed(text: str) -> dict:
    return tomllib.loads(text)


def with_block(text: str, name: str, block: str) -> str:
    """Markdown with what stands between `<!-- begin NAME -->` and `<!-- end NAME -->` replaced;
    unchanged where it has none.

    >>> with_block("<!-- begin n -->\\nold\\n<!-- end n -->", "n", "new")
    '<!-- begin n -->\\nnew\\n<!-- end n -->'
    """
    return re.sub(
        rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)",
        lambda found: f"{found[1]}{block}\n{found[2]}",
        text,
        flags=re.DOTALL,
    )
