"""A student's copy: the package with one bug in it, beside the notebooks that notice it.

Python looks into the folder of a notebook first, so a notebook there imports the copy beside it.
The package of the project is never changed.
"""

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from ppkit import project
from ppkit.atomic_writing import write_whole
from ppkit.breaking import caught
from ppkit.breaking.bugs import Bug
from ppkit.runs import Refused, catalogue, reason

FOLDER = Path("work", "break")
PACKAGE = Path(__file__).parents[1]
CHECKS = Path(__file__).with_name("checks.py")
LEFT_OUT = shutil.ignore_patterns("__pycache__", PACKAGE.joinpath("breaking").name)


def folder_of(bug: Bug) -> Path:
    """Where the student works on a bug."""
    return project.root() / FOLDER / bug.name


def prepare(bug: Bug, *, fresh: bool = False) -> str:
    """Make the student's folder if it is not there, and say what was done.

    fresh: make it anew, and keep the old one beside it.
    Refused if it cannot be written.
    """
    folder = folder_of(bug)
    shown = folder.relative_to(project.root())
    said = f"{shown} is there already: your work is kept. With --fresh you begin anew."
    try:
        if folder.exists() and not fresh:
            return said
        said = f"{shown} has a copy of ppkit with one bug in it. It is yours to change."
        if folder.exists():
            said += f" What was there is {_put_aside(folder).relative_to(project.root())} now."
        make(bug, folder, notebooks=caught.notebooks_that_notice(bug.name))
    except OSError as error:
        raise Refused(f"cannot write {shown}: {reason(error)}") from None
    return said


def what_to_do(bug: Bug) -> str:
    """The student's next steps, with the commands to type."""
    folder = FOLDER / bug.name
    notebooks = sorted(path.name for path in folder_of(bug).glob("*.ipynb"))
    runs = [f"    pytest --nbval -q {folder / name}" for name in notebooks]
    return "\n".join(
        (
            "1. See which printed values turn (about a minute each):",
            *runs,
            f"2. Read {bug.look_at} in {folder / bug.module}, and answer:",
            f"    {bug.question}",
            "3. Mend it there, and ask whether your mend is right:",
            f"    ppkit break {bug.name} --check",
        )
    )


def make(bug: Bug | None, folder: Path, *, notebooks: list[str], new: str | None = None) -> None:
    """Copy the package with the bug, and the notebooks with their outputs, which nbval compares.

    bug: None for a copy without one.  folder: a new one, inside the project or not.
    notebooks: their names.  new: another text than the bug in the place of the old one.
    """
    shutil.copytree(PACKAGE, folder / PACKAGE.name, ignore=LEFT_OUT)
    if bug is not None:
        module = folder / bug.module
        module.write_text(bug.put_into(module.read_text("utf-8"), new=new), "utf-8")
    for path in catalogue.select(notebooks).values() if notebooks else ():
        _put(path, folder / path.name)


def check(bug: Bug) -> int:
    """Judge the student's mend, and print the verdict.  Returns 0 if it is right, 1 if not.

    Refused if there is no copy to judge.
    """
    if not (folder_of(bug) / bug.module).is_file():
        raise Refused(f"there is nothing to check yet: `ppkit break {bug.name}` makes your copy")
    return judged(bug.name, folder_of(bug)).returncode


def judged(name: str, folder: Path, **pipes) -> subprocess.CompletedProcess:
    """Run the check of a bug on the copy in a folder, in a process of its own.

    pipes: of `subprocess.run`, such as capture_output=True.
    """
    environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-P", str(CHECKS), name]
    return subprocess.run(command, cwd=folder, env=environment, **pipes)


def _put(notebook: Path, copy: Path) -> None:
    """Copy a notebook; the links in its text lead where they led."""
    content = json.loads(notebook.read_text("utf-8"))
    back = os.path.relpath(notebook.parent, copy.parent)
    for cell in content["cells"]:
        if cell["cell_type"] == "markdown":
            text = "".join(cell["source"])
            cell["source"] = re.sub(r"\]\((?!\w+:|#)", f"]({back}/", text)
    write_whole(copy, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def _put_aside(folder: Path) -> Path:
    kept = (folder.with_name(f"{folder.name}.kept-{number}") for number in itertools.count(1))
    return folder.rename(next(place for place in kept if not place.exists()))
