"""What a lesson asks, and how it answers: predictions that are judged, exercises that are checked.

A cell prints the same text whether a person answered or not.  What a person chose stays in the
kernel; what is said about it, in a widget.
"""

import string
import tomllib
from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np

from ppkit import project

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
NOT_YET = (None, ...)  # what stands in a stub


def predict(id: str, options: Sequence[str]) -> SimpleNamespace:
    """Print a question's options, show a button for each, and return what `judge` takes.

    id: the question's name in its lesson.  options: 2 to 26 different texts.
    Returns id, options by their letters, and buttons: an ipywidget whose value is the letter that
    was chosen, None until then.
    """
    import ipywidgets

    lettered = dict(zip(string.ascii_lowercase, options))
    print("\n".join(f"{letter}  {option}" for letter, option in lettered.items()))
    buttons = ipywidgets.ToggleButtons(options=[*lettered], value=None)
    _show(buttons)
    return SimpleNamespace(id=id, options=lettered, buttons=buttons)


def judge(guess: SimpleNamespace, *, right: int, why: str) -> None:
    """Print the option that is right and why; say in a widget whether it was chosen.

    guess: of `predict`.  right: index of the option that is right, computed by the lesson.
    why: one sentence.  ValueError if there is no such option.
    """
    import ipywidgets

    if right not in range(len(guess.options)):
        raise ValueError(f"{guess.id} has options 0 to {len(guess.options) - 1}, got {right!r}")
    letter = [*guess.options][right]
    chosen = guess.buttons.value
    if chosen is None:
        said = "You have not chosen yet. Choose above, then run this cell again."
    else:
        said = f"You chose {chosen}: " + ("right." if chosen == letter else "not what came out.")
    _show(ipywidgets.Label(said))
    print(f"{letter}  {guess.options[letter]}: {why}")


def _show(widget) -> None:
    """Display a widget that leaves no text of its own where none is drawn."""
    from IPython.display import display

    display({WIDGET_VIEW: widget._repr_mimebundle_()[WIDGET_VIEW], "text/plain": ""}, raw=True)


def check(exercise: str, value) -> None:
    """Print whether an exercise's answer is right: "not yet", right, near, or not right with a
    hint where the mistake is a known one.

    exercise: lesson and exercise, "02a.E1"; the answer stands in the TOML file of that lesson in
    notebooks/solutions: `answer` (a number, a list of numbers, a text or a truth value),
    `tolerance` (of right, absolute, 0 if left out), `near` (of nearly right) with its `hint`, and
    `mistakes`, each with the `value` that it leads to and a `hint`.
    value: the answer; None or ... for none yet.  KeyError if there is no such exercise.
    """
    lesson, _, name = exercise.partition(".")
    print(f"{name}: {_verdict(exercises(lesson)[name], value)}")


def exercises(lesson: str) -> dict[str, dict]:
    """The exercises of a lesson by name, as their TOML file has them.

    lesson: what its file names begin with, "02a".  FileNotFoundError if it has none.
    """
    folder = project.root() / "notebooks" / "solutions"
    for file in folder.glob(f"{lesson}_*.toml"):
        return tomllib.loads(file.read_text("utf-8"))
    raise FileNotFoundError(f"{folder.name} has no exercises for lesson {lesson!r}")


def _verdict(key: dict, value) -> str:
    if any(value is empty for empty in NOT_YET):
        return "not yet. Put your answer in its place, and run this cell again."
    tolerance = key.get("tolerance", 0.0)
    if _is_within(value, key["answer"], tolerance):
        return "right."
    for mistake in key.get("mistakes", ()):
        if _is_within(value, mistake["value"], mistake.get("tolerance", tolerance)):
            return f"not right. {mistake['hint']}"
    if "near" in key and _is_within(value, key["answer"], key["near"]):
        return f"near. {key['hint']}"
    return "not right."


def _is_within(value, answer, tolerance: float) -> bool:
    """Texts and truth values are the same; numbers, one or many, at most `tolerance` apart."""
    if isinstance(answer, (str, bool)):
        return type(value) in (type(answer), np.bool_) and value == answer
    try:
        found = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        return False
    return found.shape == np.shape(answer) and bool(
        np.all(np.abs(found - np.asarray(answer)) <= tolerance)
    )
