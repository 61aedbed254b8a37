"""A lesson's key for its teacher, as Markdown: predictions with the option that is right, exercises
with their answers, and the mistakes that we expect.

Answers, mistakes and hints are those of the TOML file by which `show.check` judges.  Questions,
options and reasons are read from the committed notebook with its outputs, and nothing is executed.
They cannot rot: nbval runs each notebook again and compares every printed line.
"""

import ast
import json
import re
from dataclasses import dataclass
from pathlib import Path

from ppkit import project
from ppkit.runs import Refused, catalogue, cut
from ppkit.show.lesson import exercises

QUESTION = re.compile(r"\*\*Question\.\*\*\s*(.+)", re.DOTALL)
OPTION = re.compile(r"^([a-z])  (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Prediction:
    """A question of a lesson, and what came out at the default parameters.

    options: texts by letter.  right: the letter of what came out.
    reasons: by letter; an option that did not come out has one only if the lesson's code holds it
    as plain text.
    """

    id: str
    question: str
    options: dict[str, str]
    right: str
    reasons: dict[str, str]


def lesson(asked: str) -> Path:
    """The notebook of a lesson or narrative; "01a", its whole name and its path all name one.

    Refused if there is none that has a key, with those that have one.
    """
    keys = (project.root() / "notebooks" / "solutions").glob("*.toml")
    with_key = {file.stem for file in keys}
    there = {name: path for name, path in catalogue.notebooks().items() if name in with_key}
    wanted = Path(asked).name.removesuffix(".ipynb")
    for name, path in there.items():
        if wanted in (name, _short(name)):
            return path
    raise Refused(f"unknown lesson {cut(asked)!r}: there are {', '.join(there)}")


def _short(name: str) -> str:
    return name.partition("_")[0]


def key(notebook: Path) -> str:
    """The key of a lesson, as Markdown.

    notebook: as `lesson` returns it, executed at its default parameters.
    Refused if it shows no output of a prediction.
    """
    text = _texts(notebook)
    title = text[0].partition("\n")[0].removeprefix("# ")
    paragraphs = [
        f"# Key: {title}",
        "For the teacher. What is right in a prediction is so at the default parameters.",
    ]
    for number, prediction in enumerate(predictions(notebook), start=1):
        paragraphs += [f"## Prediction {number}", prediction.question, _options(prediction)]
    for name, about in exercises(_short(notebook.stem)).items():
        level, asked = task(name, text)
        paragraphs += [f"## {name} ({level})", asked, _answer(about)]
    return "\n\n".join(paragraphs)


def predictions(notebook: Path) -> list[Prediction]:
    """The predictions of a lesson in its order, read from the outputs of its cells."""
    found = []
    text, asked, shown = "", "", ""
    for cell in json.loads(notebook.read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            text = source
        elif call := _call("predict", source):
            [question] = QUESTION.findall(text)
            asked, shown = ast.literal_eval(call.args[0]), _printed(cell, notebook)
        elif call := _call("judge", source):
            options = dict(OPTION.findall(shown))
            right, reasons = _judged(call, _printed(cell, notebook), options)
            found.append(Prediction(asked, question.strip(), options, right, reasons))
    return found


def _call(function: str, source: str) -> ast.Call | None:
    """The call of `show.<function>` in a cell, if there is one."""
    if f"show.{function}(" not in source:
        return None
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == f"show.{function}":
            return node
    return None


def _printed(cell: dict, notebook: Path) -> str:
    shown = "".join("".join(output.get("text", "")) for output in cell["outputs"])
    if not shown:
        raise Refused(f"{notebook.name} shows no outputs: `ppkit execute` makes them")
    return shown


def _judged(call: ast.Call, shown: str, options: dict[str, str]) -> tuple[str, dict[str, str]]:
    """The letter that `show.judge` printed as right, and the reasons that are known."""
    [why] = [keyword.value for keyword in call.keywords if keyword.arg == "why"]
    reasons = {
        letter: reason.value
        for letter, reason in zip(options, why.elts if isinstance(why, ast.List) else [])
        if isinstance(reason, ast.Constant) and isinstance(reason.value, str)
    }
    for line in shown.splitlines():
        for letter, option in options.items():
            if line.startswith(f"{letter}  {option}: "):
                return letter, reasons | {letter: line.removeprefix(f"{letter}  {option}: ")}
    raise Refused(f"no option of {list(options.values())} is judged in {cut(shown)!r}")


def _texts(notebook: Path) -> list[str]:
    return [cell["source"] for cell in catalogue.cells(notebook) if cell["cell_type"] == "markdown"]


def task(name: str, texts: list[str]) -> tuple[str, str]:
    """How hard an exercise of a lesson is and how long it takes, "easy, 10 minutes", and what it
    asks.

    name: "E1".  texts: of the lesson's text cells.  Refused if no text asks it.
    """
    for text in texts:
        if found := re.search(
            rf"\*\*{name}\*\* \((.+?)\) (.+?)(?=\n+(?:\*\*E\d|## )|\Z)", text, re.S
        ):
            return found[1], found[2].strip()
    raise Refused(f"no text asks exercise {name}")


def _options(prediction: Prediction) -> str:
    lines = []
    for letter, option in prediction.options.items():
        reason = prediction.reasons.get(letter)
        because = f": {reason}" if reason else ""
        if letter == prediction.right:
            lines.append(f"- **{letter}, right. {option}**{because}")
        else:
            lines.append(f"- {letter}. {option}{because}")
    return "\n".join(lines)


def _answer(about: dict) -> str:
    """An exercise's answer, each mistake with its hint, and the help at the second miss."""
    right = f"- **Answer: {_shown(about['answer'])}**"
    right += f" {about['unit']}" if "unit" in about else ""
    right += ", in any order" if about.get("any_order") else ""
    right += f", within {about['tolerance']:g}" if about.get("tolerance") else ""
    mistakes = [
        f"- {_shown(mistake['value'])}: {mistake['hint']}" for mistake in about.get("mistakes", ())
    ]
    again = [f"- any other answer, the second time: {about['help']}"] if "help" in about else []
    return "\n".join([right, *mistakes, *again])


def _shown(value) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
