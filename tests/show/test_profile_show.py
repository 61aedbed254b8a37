"""Settings resolve as the parameters cell asks, and shown digits are the same everywhere."""

import json
import re

import ipywidgets
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

from ppkit import profile, project, show
from ppkit.runs import catalogue
from ppkit.verdicts import rules, wording
from ppkit.verdicts.ledger import FORMULA

SIZES = {"quick": {"n_rounds": 10, "seeds": 3}, "paper": {"n_rounds": 300, "seeds": 10}}


def resolved(name="quick", **given):
    """The settings of these parameters, of which SEEDS and N_ROUNDS may be set."""
    parameters = dict(PROFILE=name, SOURCE="auto", SEED=0, N_ROUNDS=0, SEEDS=0) | given
    return profile.of(
        parameters, SIZES, N_ROUNDS=profile.whole(5, 1_000), SEEDS=profile.whole(1, 10)
    )


def test_zero_leaves_the_profile_alone():
    assert vars(resolved("paper")) == {"profile": "paper", "n_rounds": 300, "seeds": 10}
    assert vars(resolved(N_ROUNDS=7)) == {"profile": "quick", "n_rounds": 7, "seeds": 3}
    assert SIZES["quick"]["n_rounds"] == 10


@pytest.mark.parametrize(
    "given, sentence",
    [
        (dict(PROFILE="fast"), "PROFILE must be 'quick' or 'paper', got 'fast'"),
        (dict(PROFILE=["quick"]), "PROFILE must be 'quick' or 'paper', got ['quick']"),
        (dict(SOURCE="web"), "SOURCE must be 'auto' or 'real' or 'standin', got 'web'"),
        (dict(SEED=2**32), "SEED must be a whole number from 0 to 4,294,967,295, got 4294967296"),
        (dict(N_ROUNDS=4), "N_ROUNDS must be 0 or a whole number from 5 to 1,000, got 4"),
        (dict(N_ROUNDS=False), "N_ROUNDS must be 0 or a whole number from 5 to 1,000, got False"),
        (
            dict(N_ROUNDS=float("nan")),
            "N_ROUNDS must be 0 or a whole number from 5 to 1,000, got nan",
        ),
        (
            dict(N_ROUNDS="9" * 99),
            "N_ROUNDS must be 0 or a whole number from 5 to 1,000, got '" + "9" * 59,
        ),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_accepted(given, sentence):
    with pytest.raises(ValueError) as error:
        resolved(**given)
    assert str(error.value) == sentence


def test_digits_are_fixed_and_minus_zero_is_zero():
    assert [show.number(x, 2) for x in (1.005, -0.001, np.float32(2.5), None, "text", True)] == [
        "1.00",
        "0.00",
        "2.50",
        "",
        "text",
        "yes",
    ]


def test_tables_from_dicts_and_lists():
    frame = show.table({"a": {"x": 1.0, "y": 2}}, digits=1, data=FORMULA)
    assert frame.loc["a"].tolist() == ["1.0", "2"]
    frame = show.table([{"x": 0.5}, {"x": 0.25}], digits=2, data=FORMULA)
    assert frame["x"].tolist() == ["0.50", "0.25"]


def test_a_table_says_its_source_beneath_and_one_of_words_says_none():
    from ppkit.datasets import load

    loans, cards = (load(name, "standin", rows=40) for name in ("lending", "creditcard"))
    shown = show.table({"a": 1.0}, data=cards)
    assert shown._repr_html_().endswith("<p>Data: stand-in: 40 rows.</p>")
    both = show.table({"a": 1.0}, data=(loans, cards))
    said = f"Data: lending {loans.source}, creditcard {cards.source}."
    assert both._repr_html_().endswith(f"<p>{said}</p>")
    words = show.table({"a": "x"}, data=None)
    assert "Data" not in words._repr_html_()
    with pytest.raises(TypeError, match="data"):
        show.table({"a": 1.0})


@pytest.mark.slow
def test_a_figure_names_its_data_and_is_kept_in_the_run(tmp_path, monkeypatch):
    monkeypatch.setenv("PPKIT_RUN", str(tmp_path))

    def draw():
        fig, ax = show.new()
        show.band(ax, [1, 2], [[1, 2], [2, 3]], label="a", colour=show.COLOURS["plain"])
        show.finish(fig, "drawn", "Rises.", data=FORMULA)
        plt.close(fig)
        return fig

    fig = draw()
    assert fig._supxlabel.get_text() == "Rises. Data: formula."
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        "drawn.png",
        "drawn.svg",
        "drawn.json",
    }
    assert json.loads((tmp_path / "figures/drawn.json").read_text())["data"] == "formula"
    svg = (tmp_path / "figures/drawn.svg").read_bytes()
    draw()
    assert (tmp_path / "figures/drawn.svg").read_bytes() == svg


def test_a_figure_of_two_data_sets_names_both():
    from ppkit.datasets import load

    two = load("lending", source="standin", rows=30), load("creditcard", source="standin", rows=40)
    fig, _ = show.new()
    show.finish(fig, "drawn", "Rises.", data=two)
    plt.close(fig)
    assert (
        fig._supxlabel.get_text().replace("\n", " ")
        == f"Rises. Data: lending {two[0].source}, creditcard {two[1].source}."
    )


def test_a_control_draws_nothing_until_a_slider_moves():
    drawn = []
    slider = ipywidgets.FloatSlider(value=1.0, min=0, max=5)
    box = show.control(lambda eps: drawn.append(eps), eps=slider)
    assert drawn == [] and box.children[-1].outputs == ()
    slider.value = 2.0
    assert drawn == [2.0]


def test_no_name_shares_another_s_colour_but_two_verdicts_that_say_the_same():
    assert all(matplotlib.colors.is_color_like(colour) for colour in show.COLOURS.values())
    same = {"reproduced": "holds", "refuted": "attained"}
    assert all(show.COLOURS[verdict] == show.COLOURS[name] for verdict, name in same.items())
    others = [colour for name, colour in show.COLOURS.items() if name not in same]
    assert len(set(others)) == len(others)


def test_every_verdict_has_its_colour_in_the_order_of_the_rules():
    others = [rules.NOT_TRIED, rules.ANSWERED, rules.PASSED, rules.FAILED]
    verdicts = [*rules.VERDICTS, *others]
    outcomes = [*wording.SYMBOLS]
    assert [*show.COLOURS][-len(outcomes) :] == outcomes
    assert [name for name in outcomes if name != wording.ON_OTHER_DATA] == verdicts


def test_lessons_take_their_colours_from_the_one_palette():
    lessons = sorted((project.root() / "notebooks").glob("0*.ipynb"))
    cells = "\n".join(cell["source"] for path in lessons for cell in catalogue.cells(path))
    assert lessons and "show.COLOURS[" in cells
    assert not re.findall(r"#(?!(..)\1\1)[0-9A-Fa-f]{6}\b", cells)  # but shades of grey
