"""What a lesson suggests to change is accepted, and changes what the lesson says it changes."""

import ast
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import lesson_cells
import numpy as np
import pytest
from scipy.stats import norm

from ppkit import profile, project
from ppkit.verdicts import ledger

FOLDER = project.root() / "notebooks"
LESSONS = {path.stem.partition("_")[0]: path for path in sorted(FOLDER.glob("*.ipynb"))}
SUGGESTION = re.compile(r"`([A-Z][A-Z_]+) = ([^`]+)`")
GRID = re.compile(r'--grid "([A-Z][A-Z_]+)=([^"]+)"')  # values with commas between them


def sources(name: str, kind: str) -> list[str]:
    notebook = json.loads(LESSONS[name].read_text("utf-8"))
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == kind]


def cell(name: str, words: str) -> str:
    [source] = [source for source in sources(name, "code") if words in source]
    return source


def suggestions() -> list[tuple[str, str, object]]:
    return [
        (name, parameter, ast.literal_eval(value))
        for name in LESSONS
        for source in sources(name, "markdown")
        for parameter, value in assignments(source)
    ]


def assignments(text: str) -> list[tuple[str, str]]:
    """Every parameter that a text says to set, and each value for it."""
    grids = [(name, one) for name, values in GRID.findall(text) for one in values.split(",")]
    return SUGGESTION.findall(text) + grids


def test_lessons_suggest_changes():
    assert {parameter for _, parameter, _ in suggestions()} >= {
        "SAMPLE_RATE",
        "RIVAL_CLIP",
        "NOISE_MULTIPLIER",
        "FRESH_TRIPLES",
    }


@pytest.mark.parametrize("name, parameter, value", suggestions())
def test_a_suggested_value_is_accepted(name, parameter, value):
    """By the rule that the lesson's own `profile.of` has for this parameter."""
    calls = [
        node
        for node in ast.walk(ast.parse(cell(name, "profile.of(")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "profile.of"
    ]
    rules = {keyword.arg: keyword.value for keyword in calls[0].keywords}
    rule = eval(ast.unparse(rules[parameter]), {"profile": profile})
    assert rule.fits(value), f"{parameter} must be {rule.words}, got {value!r}"


@dataclass(frozen=True)
class Change:
    """What a part suggests to try, and what its cells must bring then.

    sizes: of the quick profile, where the part's own take long; a judge must be right at any size.
    measured: what a judged question is about, an expression, by question.
    verdicts: how the cell of a row begins in the part's last table.
    """

    lesson: str
    parameters: dict[str, object]
    sizes: dict[str, int] = field(default_factory=dict)
    measured: dict[str, str] = field(default_factory=dict)
    verdicts: dict[str, str] = field(default_factory=dict)


ROW_8 = {"SAMPLE_RATE": 1.0, "N_UPLOADS": 14_312}  # of Table I
CHANGES = [
    Change("01a", ROW_8, verdicts={"table1.row5.advanced_holds": "● reproduced"}),
    Change("01a", {"EPSILON": 0.1}),
    Change("01a", {"EPSILON": 0.5}, verdicts={"table1.row5.advanced_holds": "✕ refuted"}),
    Change("01a", {"EPSILON": 1}),
    Change(
        "01b",
        {"RIVAL_CLIP": 200.0},
        sizes={"n_rows": 8_000, "n_seeds": 2, "n_rounds": 3},
        measured={"smaller": "fall"},
    ),
    Change(
        "02b",
        {"NOISE_MULTIPLIER": 0.3},
        sizes={"n_rows": 6_000, "n_steps": 3},
        measured={"price": "worth", "samplers": "prices"},
    ),
    Change("03a", {"FRESH_TRIPLES": False}, verdicts={"protocol.views": "✕ refuted"}),
    Change("04b", {"OWNERS": "30,000 at 3, 1,000 at 0.3"}, sizes={"n_cards": 2_000, "n_runs": 2}),
]
OF_YOUR_OWN = "04b", "OWNERS"  # the part asks for a value, and suggests none


def letter_of_smaller(fall: float) -> str:
    """Of "less than .03", ".03 to .1", "more than .1"."""
    if fall < 0.03:
        return "a"
    return "b" if fall <= 0.1 else "c"


def letter_of_price(worth: dict[str, list[float]]) -> str:
    """Of "the clip", "the noise", "neither takes more than .02"."""
    mean = {arm: np.mean(values) for arm, values in worth.items()}
    clip_takes = mean["plain"] - mean["clip only"]
    noise_takes = mean["clip only"] - mean["clip and noise"]
    if clip_takes <= 0.02 and noise_takes <= 0.02:
        return "c"
    return "b" if noise_takes > clip_takes else "a"


def letter_of_samplers(prices: dict[str, dict[str, float]]) -> str:
    """Of "less than is printed", "up to twice as much", "more than twice as much"."""
    attained, printed = prices["shuffled"]["attained"], prices["coins"]["holds"]
    if attained < printed:
        return "a"
    return "b" if attained <= 2 * printed else "c"


# What the options say of the value that was measured, written down without the judge cell.
LETTERS: dict[str, Callable[..., str]] = {
    "smaller": letter_of_smaller,
    "price": letter_of_price,
    "samplers": letter_of_samplers,
}


def test_every_change_that_a_part_suggests_is_in_the_table():
    suggested = {one for one in suggestions() if re.fullmatch(r"0\d[a-z]", one[0])}
    tried = {(one.lesson, *parameter) for one in CHANGES for parameter in one.parameters.items()}
    assert suggested == {one for one in tried if one[:2] != OF_YOUR_OWN}
    lesson, parameter = OF_YOUR_OWN
    assert any(f"of your own into `{parameter}`" in text for text in sources(lesson, "markdown"))


def test_the_cells_that_a_change_reaches_and_those_that_they_need():
    sources = [
        "rate, n = 1, 2",
        "import math",
        "def f(x):\n    return rate * x",
        "table = [n]\nlength = len(table)",
        "y = f(table)",
        "total = 0\ntotal += math.sqrt(n)",
        "rate = 3",
        "print(rate, total)",
    ]
    assert lesson_cells.reached(sources, {"n"}) == {3, 4, 5, 7}
    assert lesson_cells.reached(sources, {"table"}) == {4}
    assert lesson_cells.needed(sources, {4}) == [0, 2, 3, 4]
    assert lesson_cells.needed(sources, {7}) == [0, 1, 5, 6, 7]


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("change", CHANGES, ids=lambda one: f"{one.lesson} {one.parameters}")
def test_a_suggested_change_runs_and_is_judged_by_what_came_out(change, tmp_path):
    ran = lesson_cells.run(
        LESSONS[change.lesson],
        change.parameters,
        change.sizes,
        [*change.measured.values()],
        tmp_path,
    )
    assert set(ran.lines) == set(change.measured)
    for question, expression in change.measured.items():
        letter = LETTERS[question](ran.values[expression])
        assert ran.lines[question].startswith(f"{letter}  ")
    for row, verdict in change.verdicts.items():
        [shown] = [text for column, text in ran.rows[row].items() if column.startswith("you, here")]
        assert shown.startswith(verdict)


ASKED = "2", "NOISE_MULTIPLIER"  # in the exercises of narrative 2


def noise_prevents(noise_multiplier: float) -> str:
    """The verdict on a claim of narrative 2, by the bound that no attacker exceeds."""
    bound = norm.cdf(norm.ppf(1 / 1_000) + 1 / noise_multiplier)
    page = ledger.Ledger("kanodia2020", notebook=None, profile="quick")
    page.record("noise.prevents", 0.0, data=ledger.FORMULA, against=0.5, proven=bound)
    [row] = page.beside_reference().to_dict("records")
    [verdict] = [text for column, text in row.items() if column.startswith("you, here")]
    return verdict


def test_less_noise_turns_a_verdict_of_narrative_2(tmp_path, monkeypatch):
    monkeypatch.setenv("PPKIT_RUN", str(tmp_path))
    [suggested] = [value for name, what, value in suggestions() if (name, what) == ASKED]
    here = cell("2", 'PROFILE = "quick"')
    default = float(re.search(r"^NOISE_MULTIPLIER = ([\d.]+)", here, re.M)[1])
    assert noise_prevents(default).startswith("● reproduced")
    assert noise_prevents(suggested).startswith("○ not reproduced")


@pytest.fixture
def owners():
    """What 04b defines before it judges the parameters."""
    names = {"re": re, "profile": profile}
    for words in ("WORDS = (", "def owners_of("):
        exec(cell("04b", words), names)
    return names


def test_owners_may_be_written_with_commas(owners):
    read = owners["owners_of"]
    assert read("30,000 at 3, 1,000 at 0.3") == read("30000 at 3, 1000 at 0.3")
    assert read("30,000 at 3, 1,000 at 0.3") == [(30_000, 3.0), (1_000, 0.3)]
    for text in ("30,00 at 3, 1000 at 1", "30000 at 3 1000 at 1", "99 at 1, 100 at 1", 7, ""):
        assert read(text) == []


@pytest.mark.parametrize("text", ["30,000 at 3", "many", "30000 at 0, 1000 at 1"])
def test_owners_that_cannot_be_read_are_refused_in_a_sentence(text, owners):
    """In section 5 itself, which says to run it again after a change."""
    section = cell("04b", "OWNERS must be")
    with pytest.raises(ValueError) as refused:
        exec(section, {**owners, "OWNERS": text})
    assert str(refused.value) == f"OWNERS must be {owners['WORDS']}, got {text!r}"
