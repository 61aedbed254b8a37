"""A lesson for nbgrader: its cells judged as nbgrader's autograder does, by whether a cell raises,
without nbgrader itself."""

import json
import re

import nbclient
import nbformat
import numpy as np
import pytest
from house import ROOT

from ppkit import assignment, instructors_key, show
from ppkit.show import lesson

KEYS = sorted((ROOT / "notebooks" / "solutions").glob("*.toml"))
keys = pytest.mark.parametrize("key", KEYS, ids=lambda file: file.stem)


def graded(notebook: dict) -> list[dict]:
    return [cell for cell in notebook["cells"] if cell["metadata"].get("nbgrader")]


def stubs(notebook: dict) -> str:
    """The cells in which a student answers."""
    code = [cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return "\n".join(text for text in code if "answer_E" in text and "BEGIN" not in text)


def released(source: str) -> str:
    """A graded cell as a student gets it: nbgrader takes the hidden tests out."""
    before, _, rest = source.partition("### BEGIN HIDDEN TESTS\n")
    return before + rest.partition("### END HIDDEN TESTS")[2]


def marks(notebook: dict, given: dict) -> list[float]:
    """The points of each exercise for the answers given, as the autograder gives them."""
    names = {"show": show, "np": np} | given
    found = []
    for cell in graded(notebook):
        try:
            exec(cell["source"], names)
            found.append(cell["metadata"]["nbgrader"]["points"])
        except AssertionError:
            found.append(0)
    return found


@keys
def test_a_right_answer_gets_its_marks_and_a_mistake_loses_them(key):
    made = assignment.source(instructors_key.lesson(key.stem))
    exercises = lesson.exercises(key.stem.partition("_")[0])
    names: dict = {"show": show, "np": np}
    exec(stubs(made), names)
    assert all(names[f"answer_{name}"] is None for name in exercises)
    nothing = {f"answer_{name}": None for name in exercises}
    right = {f"answer_{name}": about["answer"] for name, about in exercises.items()}
    full = [cell["metadata"]["nbgrader"]["points"] for cell in graded(made)]
    assert all(points in (1, 2, 3) for points in full)
    assert marks(made, nothing) == [0] * len(exercises)
    assert marks(made, right) == full
    for k, (name, about) in enumerate(exercises.items()):
        for mistake in about.get("mistakes", ()):
            given = right | {f"answer_{name}": mistake["value"]}
            assert marks(made, given) == [*full[:k], 0, *full[k + 1 :]]


@keys
def test_a_student_gets_neither_answers_nor_checks_nor_links_to_solutions(key):
    made = assignment.source(instructors_key.lesson(key.stem))
    nbformat.validate(nbformat.from_dict(made))
    text = "\n".join(released(cell["source"]) for cell in made["cells"])
    assert "show.check(" not in text and "solutions/" not in text and "Solutions:" not in text
    words = [cell["source"] for cell in made["cells"] if cell["cell_type"] == "markdown"]
    assert not re.search(r"\]\((?!\w+:|#)", "\n".join(words))  # a link to a file
    assert all(not cell.get("outputs") for cell in made["cells"])
    ids = [cell["metadata"]["nbgrader"]["grade_id"] for cell in graded(made)]
    assert ids == list(lesson.exercises(key.stem.partition("_")[0]))


@keys
def test_only_the_checks_are_taken_out_of_the_code(key):
    notebook = instructors_key.lesson(key.stem)
    lines = [
        line
        for cell in json.loads(notebook.read_text("utf-8"))["cells"]
        if cell["cell_type"] == "code"
        for line in "".join(cell["source"]).split("\n")
        if not line.startswith("show.check(")
    ]
    made = assignment.source(notebook)["cells"]
    kept = [
        cell for cell in made if cell["cell_type"] == "code" and "nbgrader" not in cell["metadata"]
    ]
    assert "\n".join(cell["source"] for cell in kept).split("\n") == lines


@pytest.mark.processes
@pytest.mark.slow
def test_the_whole_lesson_runs_and_is_graded(ppkit, tmp_path, monkeypatch):
    """All cells in a kernel, as nbgrader's `autograde` runs them: an error stops no other cell."""
    monkeypatch.setenv("PPKIT_HOME", str(ROOT))
    code, out, _ = ppkit("assignment", "00", "--into", str(tmp_path / "source"))
    path = tmp_path / "source/00_start_here/00_start_here.ipynb"
    assert (code, out) == (0, f"{path}\n")
    notebook = nbformat.read(path, as_version=4)
    answers = {"E1": "[-2, 5, -1]", "E2": "7"}
    for cell in notebook.cells:
        for name, value in answers.items():
            cell.source = cell.source.replace(f"answer_{name} = None", f"answer_{name} = {value}")
    nbclient.NotebookClient(notebook, timeout=600, startup_timeout=600, allow_errors=True).execute()
    errors = {
        cell.metadata.get("nbgrader", {}).get("grade_id", cell.source): cell.outputs[-1].evalue
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.output_type == "error"
    }
    assert list(errors) == ["E2"]
    again = f"ppkit: {path} is there already: move it away to have it written anew\n"
    assert ppkit("assignment", "00", "--into", str(tmp_path / "source")) == (2, "", again)
