"""What a lesson suggests to change is accepted, and changes what the lesson says it changes."""

import ast
import json
import re

import pytest
from scipy.stats import norm

from ppkit import profile, project
from ppkit.verdicts import ledger

FOLDER = project.root() / "notebooks"
LESSONS = {path.stem.partition("_")[0]: path for path in sorted(FOLDER.glob("*.ipynb"))}
SUGGESTION = re.compile(r"`([A-Z][A-Z_]+) = ([^`]+)`")


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
        for parameter, value in SUGGESTION.findall(source)
    ]


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
