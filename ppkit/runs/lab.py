"""`ppkit lab`: JupyterLab on copies of the lessons, so that no tracked file is changed."""

import hashlib
import itertools
import json
import os
import shlex
import sys
from pathlib import Path

from ppkit import project
from ppkit.atomic_writing import write_whole
from ppkit.runs import Refused, catalogue

FOLDER = "work"
# What Lab hides as it comes, and the tracked lessons, which nobody should edit by mistake.
HIDDEN = ("__pycache__", "*.pyc", "*.pyo", ".DS_Store", "*~", "notebooks")


def prepare(fresh: list[str]) -> list[str]:
    """Copy the lessons and solutions that work/ does not have, and put back those in `fresh`.

    fresh: names as `catalogue.select` takes them, also of copies ("work/01a_dpstgd_upload.ipynb").
    A copy of a lesson has no outputs and no execution counts; a solution keeps both, since it is
    opened for its answer.  Cells and ids stay, and metadata say what a copy was made from.
    No copy is overwritten: one that is put back is kept beside the new one.
    Returns sentences for the person: what was done, which copies are of an older lesson.
    Refused if a name is unknown, or if work/ cannot be written.
    """
    names = [name.removeprefix("./").removeprefix(f"{FOLDER}/") for name in fresh]
    wanted = catalogue.select(names, solutions=True) if names else {}
    said, older, made = [], [], 0
    for name, path in catalogue.select([], solutions=True).items():
        copy = project.root() / FOLDER / path.relative_to(project.root() / "notebooks")
        try:
            if not copy.exists():
                made += 1
                _put(path, copy, keep_outputs=name.startswith("solutions/"))
            elif name in wanted:
                kept = _put_aside(copy).relative_to(project.root())
                _put(path, copy, keep_outputs=name.startswith("solutions/"))
                shown = copy.relative_to(project.root())
                said.append(f"{shown} is as published again; what was there is {kept} now.")
            elif _made_from(copy) not in (None, _digest(path)):
                older.append(name)
        except OSError as error:
            raise Refused(
                f"cannot write {copy}: {error.strerror}; take a copy of the project "
                "that is yours to write"
            ) from None
    if made:
        said.append(f"{made} notebook{'s' * (made > 1)} copied to {FOLDER}/, which is yours.")
    if older:
        said.append(
            f"{', '.join(older)}: notebooks/ has a newer one than {FOLDER}/; "
            f"`ppkit lab --fresh {older[0]}` takes it and keeps yours beside it."
        )
    return said


def open_lab(options: list[str]) -> None:
    """Become JupyterLab, opened at work/; its root is the project, so that every link works.

    options: of jupyter lab, as typed.  Its terminals find `ppkit`, its kernels draw progress.
    """
    root = str(project.root())
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    shell = os.environ.get("SHELL") or "sh"  # named, or Jupyter may start one that sets PATH anew
    named = [
        f"--ServerApp.root_dir={root}",
        f"--LabApp.default_url=/lab/tree/{FOLDER}",
        f"--ServerApp.terminado_settings=shell_command={shlex.quote(shell)}",
        *(f"--ContentsManager.hide_globs={name}" for name in HIDDEN),
    ]
    sys.stdout.flush()
    os.execve(
        sys.executable,
        [sys.executable, "-P", "-m", "jupyterlab", *named, *options],
        {**os.environ, "PPKIT_WATCH": "1", "PPKIT_HOME": root, "PATH": path},
    )


def _put_aside(copy: Path) -> Path:
    kept = (copy.with_name(f"{copy.stem}.kept-{number}.ipynb") for number in itertools.count(1))
    return copy.rename(next(place for place in kept if not place.exists()))


def _put(lesson: Path, copy: Path, *, keep_outputs: bool) -> None:
    notebook = json.loads(lesson.read_text("utf-8"))
    notebook["metadata"]["ppkit"] = {"made_from": _digest(lesson)}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code" and not keep_outputs:
            cell |= {"outputs": [], "execution_count": None}
    copy.parent.mkdir(parents=True, exist_ok=True)
    write_whole(copy, json.dumps(notebook, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def _digest(path: Path) -> str:
    cells = [(cell["cell_type"], cell["source"]) for cell in catalogue.cells(path)]
    return hashlib.sha256(json.dumps(cells).encode()).hexdigest()


def _made_from(copy: Path) -> str | None:
    """Of which lesson a copy was made; None if it does not say, or is no notebook any more."""
    try:
        return json.loads(copy.read_text("utf-8"))["metadata"]["ppkit"]["made_from"]
    except (ValueError, LookupError, TypeError, RecursionError, IsADirectoryError):
        return None
