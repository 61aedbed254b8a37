"""A lesson's key for its teacher: everything that a student may be told, read from what is
committed."""

import json
import re

import nbformat
import pytest
from house import ROOT

from ppkit import instructors_key
from ppkit.runs import Refused
from ppkit.show import lesson

KEYS = sorted((ROOT / "notebooks" / "solutions").glob("*.toml"))
LESSON = (
    "# 9 · What comes out?\nPlan 1 minute.",
    "# 1. A coin\n\n**Question.** Which side\nis up?",
    'guess = show.predict("side", ["heads: the king", "tails"])',
    "side = 1",
    "# The verdict on your prediction.",
    'show.judge(guess, right=side, why=["the king is heavy", f"the king fell {side} times"])',
    "# Exercises\n**E1** (easy, 2 minutes) How many\nsides?\n\n"
    "**E2** (hard, 3 minutes) And now?\n## End\n",
)
KEY = """\
[E1]
answer = [2, 3]
any_order = true
unit = "sides"
[E2]
answer = 0.5
tolerance = 0.01
help = "Count."
mistakes = [{ value = 2, hint = "Turn it round." }]
"""
AS_PRINTED = """\
# Key: 9 · What comes out?

For the teacher. What is right in a prediction is so at the default parameters.

## Prediction 1

Which side
is up?

- a. heads: the king: the king is heavy
- **b, right. tails**: the king fell 1 times

## E1 (easy, 2 minutes)

How many
sides?

- **Answer: 2, 3** sides, in any order

## E2 (hard, 3 minutes)

And now?

- **Answer: 0.5**, within 0.01
- 2: Turn it round.
- any other answer, the second time: Count.
"""


def shown(path, outputs: dict[int, str]):
    """The notebook, with what its cells print."""
    notebook = nbformat.read(path, as_version=4)
    for k, text in outputs.items():
        notebook.cells[k].outputs = [nbformat.v4.new_output("stream", text=text)]
    nbformat.write(notebook, path)
    return path


@pytest.fixture
def coin(project):
    path = project.add("9_coin", *LESSON, parameters=None)
    (project.folder / "notebooks/solutions/9_coin.toml").write_text(KEY)
    options = "a  heads: the king\nb  tails\n"
    return shown(path, {2: options, 5: "tails it is\nb  tails: the king fell 1 times\n"})


@pytest.mark.parametrize("name", ["9", "9_coin", "9_coin.ipynb", "notebooks/9_coin.ipynb"])
def test_the_key_is_printed(ppkit, coin, name):
    assert ppkit("key", name) == (0, AS_PRINTED, "")


def test_an_unknown_lesson_gets_one_sentence(ppkit, project, coin):
    project.add("wang2018", "print(1)")  # it has no key
    for name in ("7", "wang2018", "../9_coin.toml", ""):
        sentence = f"ppkit: unknown lesson {name!r}: there are 9_coin\n"
        assert ppkit("key", name) == (2, "", sentence)


def test_a_notebook_without_outputs_is_refused(ppkit, coin):
    shown(coin, {2: ""})
    said = "ppkit: 9_coin.ipynb shows no outputs: `ppkit execute` makes them\n"
    assert ppkit("key", "9") == (2, "", said)


def test_what_is_judged_is_one_of_the_options(coin):
    shown(coin, {5: "c  on edge: it stands\n"})
    with pytest.raises(Refused, match=r"no option of \['heads: the king', 'tails'\] is judged in"):
        instructors_key.predictions(coin)


@pytest.mark.parametrize("file", KEYS, ids=lambda file: file.stem)
def test_every_key_has_all_that_a_student_may_be_told(file):
    notebook = instructors_key.lesson(file.stem.partition("_")[0])
    assert notebook.stem == file.stem
    printed = instructors_key.key(notebook)
    for about in lesson.exercises(file.stem.partition("_")[0]).values():
        hints = [mistake["hint"] for mistake in about.get("mistakes", ())]
        assert all(hint in printed for hint in [*hints, about.get("help", "")])
    source = json.loads(notebook.read_text("utf-8"))["cells"]
    code = "".join("".join(cell["source"]) for cell in source if cell["cell_type"] == "code")
    asked = re.findall(r"show\.predict\(\s*\"(\w+)\"", code)
    found = instructors_key.predictions(notebook)
    assert [one.id for one in found] == asked
    assert all(one.right in one.options and one.reasons[one.right] for one in found)
    assert printed.count(", right. ") == len(asked)
