"""A lesson as nbgrader's source notebook: the same lesson, with a graded cell for each exercise.

Its grade is `show.check`'s verdict, in nbgrader's hidden tests. So a student's notebook holds
neither keys nor checks, and a wrong answer loses its mark when the teacher autogrades.
"""

import ast
import hashlib
import json
import re
from pathlib import Path

from ppkit import instructors_key
from ppkit.atomic_writing import write_whole
from ppkit.runs import Refused

POINTS = {"easy": 1, "medium": 2, "hard": 3}
SOLUTIONS = re.compile(r"\*{0,2}Solutions:\*{0,2}\s+\[[^]]*\]\([^)]*\)\.?\s*")
LINK_TO_A_FILE = re.compile(r"!?\[([^]]+)\]\((?!\w+:|#)[^)]+\)")
GRADED = """\
# {exercise} is graded here. Your answer stands above.
### BEGIN HIDDEN TESTS
assert {check}.right
### END HIDDEN TESTS"""


def write(notebook: Path, folder: Path) -> Path:
    """Write the source notebook of a lesson where nbgrader looks for it: in `folder`, which is a
    course's source/, in a folder of the lesson's name.

    notebook: as `instructors_key.lesson` returns it.
    Returns its path.  Refused if it is there already: a teacher may have changed it.
    """
    path = folder / notebook.stem / notebook.name
    if path.exists():
        raise Refused(f"{path} is there already: move it away to have it written anew")
    made = source(notebook)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(made, indent=1, ensure_ascii=False) + "\n")
    return path


def source(notebook: Path) -> dict:
    """The lesson without outputs, without links to solutions, pictures and other files, and with
    each check in a graded cell of its own; points by how hard the exercise is, as in POINTS."""
    made = json.loads(notebook.read_text("utf-8"))
    texts = ["".join(one["source"]) for one in made["cells"] if one["cell_type"] == "markdown"]
    cells: list[dict] = []
    for cell in made["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            text = LINK_TO_A_FILE.sub(r"\1", SOLUTIONS.sub("", text))
            cells.append(cell | {"source": text})
            continue
        left, checks = _apart(text)
        cells.append(cell | {"source": left, "outputs": [], "execution_count": None})
        for exercise, check in checks.items():
            level, _ = instructors_key.task(exercise, texts)
            cells.append(_graded(exercise, check, POINTS[level.partition(",")[0]]))
    return made | {"cells": cells}


def _apart(code: str) -> tuple[str, dict[str, str]]:
    """The code of a cell without its checks, and the checks by exercise: "E1"."""
    if "show.check(" not in code:
        return code, {}
    lines, checks = code.split("\n"), {}
    for statement in reversed(ast.parse(code).body):
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "show.check":
            exercise = ast.literal_eval(call.args[0]).partition(".")[2]
            checks[exercise] = ast.unparse(call)
            del lines[statement.lineno - 1 : statement.end_lineno]
    return "\n".join(lines).rstrip("\n"), dict(reversed(checks.items()))


def _graded(exercise: str, check: str, points: int) -> dict:
    """A cell that nbgrader grades automatically, by whether it raises."""
    about = {"grade": True, "grade_id": exercise, "locked": True, "points": points}
    about |= {"solution": False, "task": False, "schema_version": 3, "cell_type": "code"}
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": hashlib.sha256(check.encode()).hexdigest()[:8],
        "metadata": {"nbgrader": about},
        "outputs": [],
        "source": GRADED.format(exercise=exercise, check=check),
    }
