"""What a lesson asks, and how it answers."""

from collections import Counter

import numpy as np
import pytest
from ipywidgets import Label

from ppkit import show
from ppkit.output_kinds import WIDGET_VIEW
from ppkit.show import lesson
from ppkit.verdicts import ledger, wording

OPTIONS = ["three times", "less", "more"]


@pytest.fixture(autouse=True)
def no_misses(monkeypatch):
    monkeypatch.setattr(lesson, "_misses", Counter())


@pytest.fixture
def displayed(monkeypatch):
    """The widgets that a cell shows."""
    kept = []
    monkeypatch.setattr(lesson, "_show", kept.append)
    return kept


@pytest.fixture
def exercises(tmp_path, monkeypatch):
    """A project with the exercises of one lesson."""
    for name in ("notebooks/solutions", "ppkit"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "notebooks/solutions/07a_first.toml").write_text(
        """\
[E1]
answer = 0.223
tolerance = 0.002
help = "Sort the numbers first."
mistakes = [{ value = 0.206, hint = "That is the mean, not the median." }]
"""
    )
    monkeypatch.setenv("PPKIT_HOME", str(tmp_path))


REASONS = ["each has a sample of its own", "few see the row", "they stand or fall together"]


@pytest.mark.parametrize("chosen", [None, "a", "c"])
def test_a_judged_prediction_prints_the_same_whatever_was_chosen(chosen, displayed, capsys):
    guess = show.predict("three_selections", OPTIONS)
    assert capsys.readouterr().out == "a  three times\nb  less\nc  more\n"
    guess.buttons.value = chosen
    show.judge(guess, right=2, why=REASONS)
    assert capsys.readouterr().out == "c  more: they stand or fall together\n"
    said = {
        None: "You have not chosen yet. Choose above: the answer appears at once.",
        "a": "You chose a, which is not what came out: each has a sample of its own.",
        "c": "You chose c, which is right: they stand or fall together.",
    }[chosen]
    assert said in guess.said.value


def test_a_choice_is_judged_at_once_beneath_its_buttons_and_beneath_the_verdict(displayed, capsys):
    guess = show.predict("q", OPTIONS)
    [asked] = displayed
    assert asked.children == (guess.buttons, guess.said) and guess.said.value.count("You") == 0
    guess.buttons.value = "b"
    assert "You chose b. Run the next cells" in guess.said.value
    show.judge(guess, right=2, why=REASONS)
    assert displayed[1] is guess.said  # one widget, in two places
    printed = capsys.readouterr().out
    for letter, verdict in (("a", "not what came out: each"), ("c", "right: they stand")):
        guess.buttons.value = letter  # a click, after all cells were run
        assert f"You chose {letter}, which is {verdict}" in guess.said.value
    assert printed and capsys.readouterr().out == ""


def test_a_cell_that_judges_again_judges_by_what_came_out_then(displayed, capsys):
    guess = show.predict("q", OPTIONS)
    show.judge(guess, right=2, why=REASONS)
    show.judge(guess, right=np.int64(0), why=REASONS)
    guess.buttons.value = "c"
    assert "c, which is not what came out" in guess.said.value
    assert capsys.readouterr().out.endswith("a  three times: each has a sample of its own\n")


def test_an_option_is_shown_as_it_is_written(displayed):
    guess = show.predict("q", ["a < b", "a & b"])
    guess.buttons.value = "a"
    show.judge(guess, right=0, why=["p < 1 & q", "<b>no</b>"])
    assert "p &lt; 1 &amp; q" in guess.said.value


def test_what_is_displayed_leaves_no_text_where_no_widget_is_drawn(monkeypatch):
    seen = []
    monkeypatch.setattr("IPython.display.display", lambda data, raw: seen.append((data, raw)))
    lesson._show(Label("a"))
    [(data, raw)] = seen
    assert raw and data["text/plain"] == "" and "model_id" in data[WIDGET_VIEW]


def test_an_option_that_is_not_there_cannot_be_right(displayed):
    guess = show.predict("q", OPTIONS)
    for right in (3, -1, "c", None):
        with pytest.raises(ValueError, match="q has options 0 to 2, got "):
            show.judge(guess, right=right, why=REASONS)


def test_each_option_needs_a_reason(displayed):
    guess = show.predict("q", OPTIONS)
    for why, n in ((REASONS[:2], 2), ([*REASONS, "one more"], 4), ("abc", 1)):
        sentence = f"q needs a reason for each of its 3 options, got {n}"
        with pytest.raises(ValueError, match=sentence):
            show.judge(guess, right=0, why=why)
    assert guess.outcome is None


@pytest.mark.parametrize(
    "value, said",
    [
        (None, "not yet. Put your answer in its place, and run this cell again."),
        (..., "not yet. Put your answer in its place, and run this cell again."),
        (0.2249, "right."),
        (np.float32(0.223), "right."),
        ([0.223], "right."),
        (0.2065, "not right. That is the mean, not the median."),
        (0.3, "not right."),
        ("0.223 or so", "right."),
        ("about .223", "not right. One number is expected, got 'about .223'."),
        (float("nan"), "not right. One number is expected, got nan."),
    ],
)
def test_an_answer_is_right_or_met_with_a_hint(value, said, exercises, capsys):
    found = show.check("07a.E1", value)
    assert capsys.readouterr().out == f"E1: {said}\n"
    assert (found.right, found.text) == (said == "right.", said)


def test_the_verdict_leaves_no_second_output_in_a_cell(exercises):
    from IPython.core.formatters import DisplayFormatter

    assert DisplayFormatter().format(show.check("07a.E1", 0.3)) == ({}, {})


@pytest.mark.parametrize("value", [None, 0.3, 0.206, "none"])
def test_an_answer_that_is_not_right_is_an_error_where_it_is_graded(
    value, exercises, monkeypatch, capsys
):
    monkeypatch.setenv("PPKIT_GRADING", "1")
    with pytest.raises(AssertionError) as failed:
        show.check("07a.E1", value)
    monkeypatch.delenv("PPKIT_GRADING")
    lesson._misses.clear()
    assert capsys.readouterr().out == ""
    show.check("07a.E1", value)
    assert capsys.readouterr().out == f"{failed.value}\n"


def test_a_right_answer_is_none_where_it_is_graded(exercises, monkeypatch, capsys):
    monkeypatch.setenv("PPKIT_GRADING", "1")
    assert show.check("07a.E1", 0.223).right
    assert capsys.readouterr().out == "E1: right.\n"


def test_the_second_miss_is_helped(exercises, capsys):
    for value in (None, 0.4, None, 0.5, 0.6, 0.223, 0.4):
        show.check("07a.E1", value)
    said = capsys.readouterr().out.splitlines()
    helped = "E1: not right. Sort the numbers first."
    assert said[1::2] == ["E1: not right.", helped, "E1: right."]
    assert said[4] == helped and said[6] == "E1: not right."


def test_an_exercise_that_is_not_there_is_an_error(exercises):
    with pytest.raises(KeyError, match="E9"):
        show.check("07a.E9", 1)
    with pytest.raises(FileNotFoundError, match="solutions has no exercises for lesson '99'"):
        show.check("99.E1", 1)


def test_rows_of_a_lesson_stand_beside_the_reference_and_decide_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("PPKIT_RUN", str(tmp_path))
    kept = {row.id: row for row in ledger.reference()}["wang2018.table1.row5.basic"]
    page = ledger.Ledger("wang2018", notebook=None, profile="quick")
    page.record("table1.row5.basic", kept.value, data=ledger.FORMULA)
    assert not list(tmp_path.iterdir())
    [row] = page.beside_reference().to_dict("records")
    assert row["the paper"] == wording.printed(kept) and row["robustness"] == wording.robust(kept)
    assert row["you, here (quick, formula)"] in row["the record"]
    assert "why it differs" not in row
    page.record("table1.row5.basic", 10 * kept.value, data=ledger.FORMULA)
    assert page.beside_reference()["why it differs"].tolist() == [ledger.TURNED]
    said = page.beside_reference({"table1.row5.basic": "ten times the budget"})
    assert said["why it differs"].tolist() == ["ten times the budget"]


def test_what_quotes_the_reference_is_found():
    from ppkit.runs import catalogue

    there = catalogue.notebooks(solutions=True)
    assert catalogue.quotes_reference(there["00_start_here"])
    assert catalogue.quotes_reference(there["wu2020"])  # its tables say how robust a verdict is
    assert not catalogue.quotes_reference(there["solutions/03c_spnn_system_solution"])
