"""A figure names its data and is kept in the run; a colour has one meaning in every notebook."""

import json
import re

import matplotlib
import matplotlib.pyplot as plt
import pytest

from ppkit import project, show
from ppkit.runs import catalogue
from ppkit.verdicts import rules, wording
from ppkit.verdicts.ledger import FORMULA


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
