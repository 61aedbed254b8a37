"""What a lesson asks, and how it answers: predictions that are judged, exercises that are checked.

A cell prints the same text whether a person answered or not.  What a person chose stays in the
kernel; what is said about it, in a widget.
"""

import os
import string
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from ppkit import project
from ppkit.output_kinds import WIDGET_VIEW
from ppkit.show.answers import Verdict, verdict

GRADING = "PPKIT_GRADING"  # 1: an answer that is not right is an error

_misses: Counter = Counter()  # by exercise, since its last right answer


@dataclass
class Guess:
    """A question that was asked: its options by letter, and what is on the screen for it.

    buttons: an ipywidget whose value is the letter that was chosen, None until then.
    said: an ipywidget beneath the buttons, and beneath the verdict once there is one.
    outcome: the letter that is right and a reason for each option, None until `judge`.
    """

    id: str
    options: dict[str, str]
    buttons: Any = field(repr=False)
    said: Any = field(repr=False)
    outcome: tuple[str, dict[str, str]] | None = None

    def speak(self, _change=None) -> None:
        """Say of the choice what is known by now."""
        self.said.value = f'<div style="line-height: 1.5">{escape(self._sentence())}</div>'

    def _sentence(self) -> str:
        chosen = self.buttons.value
        if self.outcome is None:
            return (
                f"You chose {chosen}. Run the next cells to see what comes out." if chosen else ""
            )
        if chosen is None:
            return "You have not chosen yet. Choose above: the answer appears at once."
        right, reasons = self.outcome
        judged = "which is right" if chosen == right else "which is not what came out"
        return f"You chose {chosen}, {judged}: {reasons[chosen]}."


def predict(id: str, options: Sequence[str]) -> Guess:
    """Print a question's options, show a button for each, and return what `judge` takes.

    id: the question's name in its lesson.  options: 2 to 26 different texts.
    """
    import ipywidgets

    lettered = dict(zip(string.ascii_lowercase, options))
    print("\n".join(f"{letter}  {option}" for letter, option in lettered.items()))
    buttons = ipywidgets.ToggleButtons(options=[*lettered], value=None)
    guess = Guess(id, lettered, buttons, ipywidgets.HTML())
    buttons.observe(guess.speak, names="value")
    _show(ipywidgets.VBox([buttons, guess.said]))
    return guess


def judge(guess: Guess, *, right: int, why: Sequence[str]) -> None:
    """Print the option that is right and its reason; say in a widget, as soon as a person has
    chosen, whether the choice is right.

    guess: of `predict`.  right: index of the option that is right, computed by the lesson.
    why: for each option when it comes out, or what it overlooks, without a full stop; true
    whichever option is right, since other parameters may change that.
    ValueError if there is no such option, or not one reason for each.
    """
    letters = [*guess.options]
    n_reasons = 1 if isinstance(why, str) else len(why)
    if right not in range(len(letters)):
        raise ValueError(f"{guess.id} has options 0 to {len(letters) - 1}, got {right!r}")
    if n_reasons != len(letters):
        raise ValueError(
            f"{guess.id} needs a reason for each of its {len(letters)} options, got {n_reasons}"
        )
    letter = letters[int(right)]
    guess.outcome = letter, dict(zip(letters, why))
    guess.speak()
    _show(guess.said)
    print(f"{letter}  {guess.options[letter]}: {guess.outcome[1][letter]}")


def _show(widget) -> None:
    """Display a widget that leaves no text of its own where none is drawn."""
    from IPython.display import display

    display({WIDGET_VIEW: widget._repr_mimebundle_()[WIDGET_VIEW], "text/plain": ""}, raw=True)


def check(exercise: str, value) -> Verdict:
    """Print whether an exercise's answer is right: "not yet", right, or not right with a hint where
    the mistake is a known one, where only the unit is wrong, and at the second miss.

    exercise: lesson and exercise, "02a.E1"; the answer stands in the TOML file of that lesson in
    notebooks/solutions: `answer` (a number or a list of numbers), `tolerance` (absolute, 0 if left
    out), `unit` (of the answer), `any_order` (a list whose order does not matter), `help` (a hint
    at the second miss), and `mistakes`, each with the `value` that it leads to, a `hint`, and a
    `tolerance` if it has one of its own.
    value: the answer in any form, for example an array of any shape, a tensor or a text like
    "9,000"; None or ... for none yet.
    Returns the verdict: `.right`, and `.text`, which was printed.
    AssertionError with that sentence, in place of a line, where the environment variable
    PPKIT_GRADING is 1 and the answer is not right or is not there yet: a cell of nbgrader then
    loses its mark.  Without the switch `assert show.check(...).right` does the same.
    KeyError if there is no such exercise.
    """
    lesson, _, name = exercise.partition(".")
    given = verdict(exercises(lesson)[name], value, misses=_misses[exercise])
    if given.right:
        del _misses[exercise]
    elif not given.text.startswith("not yet"):
        _misses[exercise] += 1
    sentence = f"{name}: {given.text}"
    if os.environ.get(GRADING) == "1" and not given.right:
        raise AssertionError(sentence)
    print(sentence)
    return given


def exercises(lesson: str) -> dict[str, dict]:
    """The exercises of a lesson by name, as their TOML file has them.

    lesson: what its file names begin with, "02a".  FileNotFoundError if it has none.
    """
    folder = project.root() / "notebooks" / "solutions"
    for file in folder.glob(f"{lesson}_*.toml"):
        return tomllib.loads(file.read_text("utf-8"))
    raise FileNotFoundError(f"{folder.name} has no exercises for lesson {lesson!r}")
