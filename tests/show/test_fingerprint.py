"""A figure's fingerprint follows what is drawn, and nothing else."""

import subprocess
import sys

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

from ppkit.show.fingerprint import MIME, fingerprint


def figure(values=(1.0, 2.0, 3.0), title="AUC", kind="plot", **settings):
    fig, ax = plt.subplots()
    x = np.arange(len(values))
    if kind == "bars":
        ax.bar(x, values, **settings)
    elif kind == "points":
        ax.scatter(x, values, **settings)
    elif kind == "area":
        ax.fill_between(x, values, **settings)
    elif kind == "image":
        ax.imshow(np.outer(values, values), **settings)
    else:
        ax.plot(x, values, label="ours", **settings)
        ax.legend()
    ax.set_title(title)
    plt.close(fig)
    return fig


KINDS = ("plot", "bars", "points", "area", "image")


@pytest.mark.parametrize("kind", KINDS)
def test_it_changes_when_one_number_does(kind):
    before = fingerprint(figure(kind=kind))
    assert before == fingerprint(figure(kind=kind))
    assert before != fingerprint(figure((1.0, 2.0, 3.01), kind=kind))
    assert before != fingerprint(figure(kind=kind, title="recall"))


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_digits_of_another_machine_leave_it(kind):
    other = np.array([1.0, 2.0, 3.0]) * (1 + 1e-11)
    assert fingerprint(figure(kind=kind)) == fingerprint(figure(other, kind=kind))


def test_a_tie_is_rounded_alike_from_both_sides():
    tie = np.array([1.005, 2.125, 0.0125])
    below = np.nextafter(tie, 0)
    assert fingerprint(figure(tie)) == fingerprint(figure(below))


def test_nothing_and_what_is_left_of_it_are_one_number():
    assert fingerprint(figure((0.0, 1.0))) == fingerprint(figure((-3e-17, 1.0)))


def test_its_looks_do_not_count():
    assert fingerprint(figure(color="red")) == fingerprint(figure(color="blue", linewidth=3))


def test_a_gap_and_an_endless_number_are_drawn_too():
    assert fingerprint(figure((1.0, np.nan))) != fingerprint(figure((1.0, 2.0)))


DRAWN = """
from types import SimpleNamespace
from ppkit import show
fig, ax = show.new()
ax.plot([0, 1, 2], {values})
show.finish(fig, "made", "A line.", data=SimpleNamespace(source="formula"))
"""


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize(("values", "code"), [([1, 2, 3], 0), ([1, 2, 4], 1)])
def test_nbval_sees_that_a_figure_draws_other_numbers(tmp_path, values, code):
    """The committed output is that of 1, 2, 3; its picture is compared by nobody."""
    file = tmp_path / "made.ipynb"
    committed = nbformat.v4.new_code_cell(DRAWN.format(values=[1, 2, 3]))
    notebook = nbformat.v4.new_notebook(cells=[committed])
    NotebookClient(notebook, kernel_name="python3", timeout=300).execute()
    assert any(fingerprint_of(output) for output in committed.outputs)
    committed.source = DRAWN.format(values=values)
    nbformat.write(notebook, file)
    command = [sys.executable, "-m", "pytest", "-q", "--nbval", str(file)]
    assert subprocess.run(command, cwd=tmp_path, check=False).returncode == code


def fingerprint_of(output) -> str:
    return output.get("data", {}).get(MIME, "")
