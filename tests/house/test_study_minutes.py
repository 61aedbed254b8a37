"""The minutes that a lesson states are those that a formula gives: words / 180, 1.5 for a
prediction, 1 for a figure, 1 for a cell that must be read; exercises by their own minutes."""

import math
import re

import nbformat
import pytest

from ppkit import project

LESSONS = {path.stem: path for path in sorted((project.root() / "notebooks").glob("*.ipynb"))}
LOOKED_UP = ("Exercises", "References")  # sections that nobody reads through
PLAN = r"Plan (\d+) minutes to read and predict, and (\d+) for the exercises"


def study_minutes(notebook) -> float:
    """Minutes to read and predict: words / 180 + 1.5 predictions + figures + cells to read.

    A cell must be read if it is code, is not folded, and does not hold the parameters. Exercises
    and references do not count; a link counts as its words, without its address.
    """
    section = ""
    words = predictions = figures = to_read = 0
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            for line in cell.source.split("\n"):
                section = line.removeprefix("## ") if line.startswith("## ") else section
                if section not in LOOKED_UP:
                    words += n_words(line)
        elif cell.source.strip() and section not in LOOKED_UP:
            predictions += "show.predict(" in cell.source
            figures += sum("image/png" in output.get("data", {}) for output in cell.outputs)
            folded = cell.metadata.get("jupyter", {}).get("source_hidden", False)
            to_read += not folded and "parameters" not in cell.metadata.get("tags", ())
    return words / 180 + 1.5 * predictions + figures + to_read


def n_words(text: str) -> int:
    """Words between blanks that have a letter or a digit."""
    without_addresses = re.sub(r"\]\([^)]*\)", "]", text)
    return sum(bool(re.search(r"\w", word)) for word in without_addresses.split())


def exercise_minutes(notebook) -> int:
    """The sum of the minutes that stand beside the exercises."""
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    return sum(map(int, re.findall(r"\*\*E\d\*\* \(\w+, (\d+) minutes\)", text)))


def rounded_up(minutes: float) -> int:
    """To the next multiple of 5."""
    return 5 * math.ceil(minutes / 5)


def test_the_formula_on_a_notebook_that_was_counted_by_hand():
    new = nbformat.v4
    picture = new.new_output("display_data", data={"image/png": ""})
    folded = {"jupyter": {"source_hidden": True}}
    words = new.new_markdown_cell("# Title\n" + "word " * 357 + "[a link](https://not.read)")
    cells = [
        words,
        new.new_code_cell("SEED = 0", metadata={"tags": ["parameters"]}),
        new.new_code_cell("import this", metadata=folded),
        new.new_code_cell('guess = show.predict("a", ["b", "c"])'),
        new.new_code_cell("draw()", metadata=folded, outputs=[picture]),
        new.new_markdown_cell("## Exercises\n**E1** (easy, 7 minutes) " + "word " * 500),
        new.new_code_cell("answer_E1 = None"),
        new.new_markdown_cell("## References\n" + "word " * 500),
    ]
    notebook = new.new_notebook(cells=cells)
    assert study_minutes(notebook) == 360 / 180 + 1.5 + 1 + 1
    assert exercise_minutes(notebook) == 7
    assert [rounded_up(minutes) for minutes in (5.0, 5.1, 7, 26.2)] == [5, 10, 10, 30]


@pytest.mark.parametrize("name", LESSONS)
def test_the_minutes_of_a_lesson_are_those_of_the_formula(name):
    notebook = nbformat.read(LESSONS[name], as_version=4)
    texts = (cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    opening = "\n".join(texts).partition("\n## ")[0]
    stated = tuple(map(int, re.search(PLAN, opening).groups()))
    reading, exercises = study_minutes(notebook), exercise_minutes(notebook)
    assert stated == (rounded_up(reading), rounded_up(exercises)), (
        f"{name}: {reading:.1f} minutes to read and predict, {exercises} for the exercises"
    )
