"""A control is still until somebody moves it. The bar that a person watches is drawn and leaves
nothing; no lesson loses output to it."""

import ast
from pathlib import Path

import ipywidgets
import nbclient
import nbformat
import pytest

from ppkit import project, show


def test_a_control_draws_nothing_until_a_slider_moves():
    drawn = []
    slider = ipywidgets.FloatSlider(value=1.0, min=0, max=5)
    box = show.control(lambda eps: drawn.append(eps), eps=slider)
    assert drawn == [] and box.children[-1].outputs == ()
    slider.value = 2.0
    assert drawn == [2.0]


# Cells as lessons have them, each with what must be left of its output.
LEFT = {
    "n = sum(1 for _ in show.progress(range(5), label='plain'))\nprint('seen', n)": "seen 5\n",
    "squares = [i * i for i in show.progress([1, 2, 3])]": "",
    "for i in show.progress(range(9), label='break'):\n    if i == 4:\n        break": "",
    "it = iter(show.progress(range(9)))\nnext(it)\ndel it\nprint('left')": "left\n",
    "for a in show.progress('ab', label='outer'):\n"
    "    for b in show.progress('cd', label='inner'):\n        pass\n'value'": "'value'",
    "jobs = [joblib.delayed(abs)(-i) for i in range(20)]\n"
    "side_by_side = joblib.Parallel(n_jobs=3, prefer='threads')": "",
    "sum(side_by_side(show.progress(jobs, label='threads')))": "190",
    "[1 / i for i in show.progress([1, 0], label='comprehension')]": "ZeroDivisionError",
    "it = iter(show.progress([1, 0], label='held'))\nnext(it)\n1 / 0": "ZeroDivisionError",
    "print('kept')\ndel it": "kept\n",  # a bar of a cell before this one ends
    "for i in show.progress([1, 0], label='failing'):\n    1 / i": "ZeroDivisionError",
    "print('two', len([*show.progress('ab', label='first')]), end='; ')\n"
    "print('bars', len([*show.progress('ab', label='second')]))": "bars 2\n",
}


@pytest.mark.processes
def test_a_bar_is_drawn_where_a_person_watches_and_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.setenv("PPKIT_WATCH", "1")
    sources = ("import joblib\nfrom ppkit import show", *LEFT)
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    client = nbclient.NotebookClient(
        nbformat.v4.new_notebook(cells=cells),
        timeout=600,
        allow_errors=True,
        resources={"metadata": {"path": str(tmp_path)}},
    )
    printed, take = [], client.process_message

    def listen(message, *rest):
        printed.append(message["content"].get("text", ""))
        return take(message, *rest)

    client.process_message = listen
    client.execute()
    for expected, cell in zip(LEFT.values(), cells[1:], strict=True):
        left = [
            output.get("ename") or output.get("text") or output.data["text/plain"]
            for output in cell.outputs
        ]
        # a kernel sends what it prints in pieces, and where they end is a matter of time
        assert "".join(left) == expected, cell.source
    drawn = "".join(printed)
    for label in ("plain", "break", "outer", "threads", "comprehension", "failing", "second"):
        assert f"{label}:   0%|" in drawn, f"no bar was drawn for {label}"
    assert "inner" not in drawn and "\x1b" not in drawn


def test_progress_is_silent_unless_somebody_watches(monkeypatch):
    items = [1, 2]
    monkeypatch.delenv("PPKIT_WATCH", raising=False)
    assert show.progress(items) is items
    monkeypatch.setenv("PPKIT_WATCH", "1")
    assert show.progress(items) is items  # no notebook, so nobody to see it


SHOWS = {"print", "display", "show", "warn"}  # plt.show, warnings.warn


def called(node) -> set[str]:
    """The names of all that is called inside `node`."""
    functions = [inner.func for inner in ast.walk(node) if isinstance(inner, ast.Call)]
    return {
        getattr(function, "attr", None) or getattr(function, "id", None) for function in functions
    }


def lost(sources: list[str]) -> list[str]:
    """The statements of a notebook's code cells that show something which a bar then clears.

    A bar clears what its cell showed before the loop ended.  Functions of the notebook count with
    what they call.
    """
    draws, prints, found = {"progress"}, set(SHOWS), []
    for source in sources:
        draw, printed = False, None
        for line in ast.parse(source).body:
            names = called(line)
            if isinstance(line, ast.Assign) and isinstance(line.value, ast.Lambda):
                line.name = line.targets[0].id
            if hasattr(line, "name"):  # a function, a class
                draws |= {line.name} if names & draws else set()
                prints |= {line.name} if names & prints else set()
                if names & draws and names & prints:
                    found.append(ast.unparse(line))
                continue
            draw = bool(names & draws)
            printed = line if names & prints else printed
            if draw and printed is not None:
                found.append(ast.unparse(printed))
    return found


def test_the_check_sees_what_a_bar_would_clear():
    loop = "for x in show.progress(xs): "
    assert lost([f"print('lost')\n{loop}pass"]) and lost([f"{loop}print('lost')"])
    assert lost([f"def work():\n    {loop}pass", "print('lost')\nmade = {1: work()}"])
    assert lost(["def say():\n    print('lost')", f"{loop}say()"])
    assert lost(["work = lambda xs: [*show.progress(xs)]", "print('lost')\nwork()"])
    assert lost([f"def work():\n    print('lost')\n    {loop}pass"])
    assert not lost(["print('other cell')", f"{loop}pass\nprint('after')"])


@pytest.mark.parametrize(
    "path",
    sorted((project.root() / "notebooks").rglob("*.ipynb")),
    ids=lambda path: Path(path).stem,
)
def test_no_committed_cell_shows_what_a_bar_then_clears(path):
    cells = nbformat.read(path, as_version=4).cells
    assert lost([cell.source for cell in cells if cell.cell_type == "code"]) == []
