"""Settings resolve as the parameters cell asks, and shown digits are the same everywhere."""

import json

import ipywidgets
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

from ppkit import profile, show
from ppkit.ledger import FORMULA

SIZES = {"quick": {"n_rounds": 10, "seeds": 3}, "paper": {"n_rounds": 300, "seeds": 10}}


def test_zero_and_empty_leave_the_profile_alone():
    assert vars(profile.of("paper", SIZES, n_rounds=0, seeds=0)) == {"profile": "paper", "n_rounds": 300, "seeds": 10}
    assert profile.of("quick", SIZES, n_rounds=7).n_rounds == 7


@pytest.mark.parametrize("call, words", [
    (lambda: profile.of("fast", SIZES), "unknown profile 'fast': this notebook has quick, paper"),
    (lambda: profile.of("quick", SIZES, n_round=3), "unknown setting 'n_round': profile 'quick' has n_rounds, seeds"),
    (lambda: profile.of("quick", SIZES, n_rounds=-1), "n_rounds must be > 0, got -1"),
    (lambda: profile.of("quick", SIZES, n_rounds=float("nan")), "n_rounds must be > 0, got nan"),
])
def test_what_does_not_exist_is_refused_with_what_does(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_digits_are_fixed_and_minus_zero_is_zero():
    assert [show.number(x, 2) for x in (1.005, -0.001, np.float32(2.5), None, "text", True)] == [
        "1.00", "0.00", "2.50", "", "text", "yes"]


def test_tables_from_dicts_and_lists():
    assert show.table({"a": {"x": 1.0, "y": 2}}, digits=1).loc["a"].tolist() == ["1.0", "2"]
    assert show.table([{"x": 0.5}, {"x": 0.25}], digits=2)["x"].tolist() == ["0.50", "0.25"]


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
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {"drawn.png", "drawn.svg", "drawn.json"}
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
    assert fig._supxlabel.get_text().replace("\n", " ") == f"Rises. Data: lending {two[0].source}, creditcard {two[1].source}."


def test_a_control_draws_nothing_until_a_slider_moves():
    drawn = []
    slider = ipywidgets.FloatSlider(value=1.0, min=0, max=5)
    box = show.control(lambda eps: drawn.append(eps), eps=slider)
    assert drawn == [] and box.children[-1].outputs == ()
    slider.value = 2.0
    assert drawn == [2.0]


def test_no_method_shares_another_s_colour_by_accident():
    assert all(matplotlib.colors.is_color_like(colour) for colour in show.COLOURS.values())
    methods = [show.COLOURS[name] for name in ("plain", "DPSTGD", "DP-SGD", "holds")]
    assert len(set(methods)) == len(methods)
