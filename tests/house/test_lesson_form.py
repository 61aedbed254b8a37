"""What every lesson keeps to: predictions are judged by what was computed,
exercises have stubs and solutions that pass, and rows that turned say why."""

import ast
import json
import re

import lesson_cells
import nbformat
import pytest

from ppkit import project
from ppkit.show import answers, lesson
from ppkit.verdicts import ledger

FOLDER = project.root() / "notebooks"
# A narrative, "1_dpstgd", or a part of a paper, "02a_backtracking_attack"; "00" is neither.
LESSONS = {path.stem: path for path in sorted(FOLDER.glob("*.ipynb")) if path.stem[2] != "_"}
FORM = {"00_start_here": FOLDER / "00_start_here.ipynb", **LESSONS}
RECORDS = {path.stem: path for path in sorted(FOLDER.glob("records/*.ipynb"))}

lessons = pytest.mark.parametrize("name", FORM)


def cells(path, kind: str) -> list:
    notebook = nbformat.read(path, as_version=4)
    return [cell for cell in notebook.cells if cell.cell_type == kind and cell.source.strip()]


def calls(path, *functions: str) -> list[tuple[str, ast.Call]]:
    """The calls of `show.<function>` in a notebook, in order."""
    found = []
    for cell in cells(path, "code"):
        for node in ast.walk(ast.parse(cell.source)):
            name = isinstance(node, ast.Call) and ast.unparse(node.func).removeprefix("show.")
            if name in functions:
                found.append((name, node))
    return found


def printed(path) -> str:
    outputs = [output for cell in cells(path, "code") for output in cell.outputs]
    return "".join(output.get("text", "") for output in outputs)


@lessons
def test_every_prediction_is_judged_by_what_was_computed(name):
    asked = calls(FORM[name], "predict", "judge")
    assert asked and [what for what, _ in asked] == ["predict", "judge"] * (len(asked) // 2)
    ids = [call.args[0].value for what, call in asked if what == "predict"]
    assert len(ids) == len(set(ids))
    for _, call in asked[1::2]:
        right = next(one.value for one in call.keywords if one.arg == "right")
        assert not isinstance(right, ast.Constant), f"{name}: right={ast.unparse(right)} is given"


@lessons
def test_every_exercise_has_a_stub_a_solution_that_passes_and_hints_that_are_met(name):
    short = name.partition("_")[0]
    keys = lesson.exercises(short)
    stubs = [call.args[0].value for _, call in calls(FORM[name], "check")]
    assert stubs == [f"{short}.{key}" for key in keys] and stubs
    said = printed(FORM[name])
    solved = printed(FOLDER / "solutions" / f"{name}_solution.ipynb")
    text = "\n".join(cell.source for cell in cells(FORM[name], "markdown"))
    for key, about in keys.items():
        assert f"{key}: not yet." in said and f"{key}: right." in solved, f"{name}, {key}"
        assert re.search(rf"\*\*{key}\*\* \((easy|medium|hard), \d+ minutes\)", text)
        for mistake in about.get("mistakes", ()):
            assert answers.verdict(about, mistake["value"]).text == f"not right. {mistake['hint']}"


@pytest.mark.parametrize("name", LESSONS)
def test_a_verdict_that_turned_says_why(name):
    shown = json.dumps([cell.outputs for cell in cells(LESSONS[name], "code")])
    assert "the record" in shown and ledger.TURNED not in shown


@pytest.mark.parametrize("path", [*FORM.values(), *RECORDS.values()], ids=lambda path: path.stem)
def test_no_line_of_code_is_longer_than_the_page(path):
    assert [
        line for cell in cells(path, "code") for line in cell.source.split("\n") if line[88:]
    ] == []


def functions(source: str) -> set[str]:
    """Names to which a cell gives a function, by def, lambda or partial."""
    found = set()
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            found.add(statement.name)
        if isinstance(statement, ast.Assign):
            value = statement.value
            of_partial = isinstance(value, ast.Call) and ast.unparse(value.func) == "partial"
            if isinstance(value, ast.Lambda) or of_partial:
                found |= {ast.unparse(target) for target in statement.targets}
    return found


def values(source: str) -> set[str]:
    """Names to which a cell gives anything else."""
    names = lesson_cells.symbols_of(ast.parse(source)).get_symbols()
    assigned = {name.get_name() for name in names if name.is_assigned() and not name.is_imported()}
    return assigned - functions(source)


def test_a_name_is_a_function_by_any_way_to_write_one():
    lines = ("def a(x): pass", "b = lambda y: y", "c = partial(a, 1)", "d, e = 1, [f for f in ()]")
    source = "\n".join((*lines, "print({f for f in ()}, {f: g for f, g in ()})"))
    assert (functions(source), values(source)) == ({"a", "b", "c"}, {"d", "e"})


def read_by(function: ast.FunctionDef) -> set[str]:
    """Names that a function takes from the notebook."""
    tables = [lesson_cells.symbols_of(function).get_children()[0]]
    found = set()
    while tables:
        table = tables.pop()
        found |= {name.get_name() for name in table.get_symbols() if name.is_global()}
        tables += table.get_children()
    return found


def taken_away(sources: list[str]) -> list[str]:
    """Functions that are used after a later cell gave a name that they read to something else."""
    trees = [ast.parse(source) for source in sources]
    given = [values(source) for source in sources]
    for names, tree in zip(given, trees):
        names -= {ast.unparse(one.target) for one in tree.body if isinstance(one, ast.AugAssign)}
    used = [{one.id for one in ast.walk(tree) if isinstance(one, ast.Name)} for tree in trees]
    found = []
    for k, tree in enumerate(trees):
        for function in (one for one in tree.body if isinstance(one, ast.FunctionDef)):
            last = max((j for j in range(k, len(trees)) if function.name in used[j]), default=k)
            known = read_by(function) & set().union(*given[: k + 1])
            again = known & set().union(*given[k + 1 : last + 1])
            found += [f"{function.name} reads {name}" for name in sorted(again)]
    return found


def test_a_name_that_a_function_reads_is_taken_away():
    function, call = "rate = 1\ndef f(x):\n    return [rate * y for y in x]", "f([2])"
    assert taken_away([function, "rate = 2", call]) == ["f reads rate"]
    assert taken_away([function, "for rate in (2, 3): pass", call]) == ["f reads rate"]
    assert taken_away([function, call, "rate = 2"]) == []  # it is used no more
    assert taken_away([function, "rate |= 2", call]) == []  # it grows, as meant
    assert taken_away([function, "rate = 2", "def f(x): pass"]) == []


@pytest.mark.parametrize("path", [*FORM.values(), *RECORDS.values()], ids=lambda path: path.stem)
def test_what_a_function_reads_stays_while_it_is_used(path):
    """The cell that uses it again may run in the paper profile only."""
    assert taken_away([cell.source for cell in cells(path, "code")]) == []


@pytest.mark.parametrize("path", [*FORM.values(), *RECORDS.values()], ids=lambda path: path.stem)
def test_no_name_of_a_function_is_given_to_a_value(path):
    """The cell that still calls the function may run in the paper profile only."""
    sources = [cell.source for cell in cells(path, "code")]
    assert set().union(*map(functions, sources)) & set().union(*map(values, sources)) == set()


def test_every_notebook_but_the_first_is_a_narrative_or_a_part():
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == {*LESSONS, "00_start_here"}


FIRST_LINE = "# The verdict on your prediction.\n"


@lessons
def test_judge_cells_are_folded_and_give_a_reason_for_each_option(name):
    """Nothing that spoils a prediction is on the screen before it was made."""
    for cell in nbformat.read(FORM[name], as_version=4).cells:
        if cell.cell_type == "code" and "show.judge(" in cell.source:
            assert cell.metadata.get("jupyter", {}).get("source_hidden") is True, cell.source
            assert cell.source.startswith(FIRST_LINE)  # JupyterLab shows it of a folded cell
    for _, call in calls(FORM[name], "judge"):
        why = next(one.value for one in call.keywords if one.arg == "why")
        assert isinstance(why, ast.List), f"{name}: why={ast.unparse(why)}"


PARTS = [name for name in LESSONS if name.startswith("0")]  # "01a_dpstgd_upload"


@pytest.mark.parametrize("name", PARTS)
def test_a_judge_cell_computes_nothing_that_a_later_cell_needs(name):
    """What a lesson goes on with is computed where a reader sees it."""
    sources = [cell.source for cell in cells(FORM[name], "code")]
    for k, source in enumerate(sources):
        if lesson_cells.JUDGES not in source:
            continue
        given, _ = lesson_cells.names_of(source)
        for later in sources[k + 1 :]:
            gives, takes = lesson_cells.names_of(later)
            assert not given & takes, f"{name}: {given & takes} in\n{later}"
            given -= gives


BOX = "> **In one sentence.** "


def numbered_sections(path) -> dict[str, list[str]]:
    """The paragraphs of each section with a number, by its heading."""
    text = "\n\n".join(cell.source for cell in cells(path, "markdown"))
    found = {}
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        heading, *paragraphs = re.split(r"\n+(?=\S)", section.strip())
        if re.match(r"\d+\. ", heading):
            found[heading] = paragraphs
    return found


@pytest.mark.parametrize("name", ["00_start_here", *PARTS])
def test_each_section_of_a_part_ends_in_one_boxed_sentence(name):
    sections = numbered_sections(FORM[name])
    assert sections
    for heading, paragraphs in sections.items():
        boxes = [paragraph for paragraph in paragraphs if paragraph.startswith(BOX)]
        assert boxes == paragraphs[-1:], f"{name}: {heading} does not end in one box"
        sentence = boxes[0].removeprefix(BOX)
        n_words = sum(bool(re.search(r"\w", word)) for word in sentence.split())
        assert n_words <= 25, f"{name}: the box of {heading} has {n_words} words"
        assert sentence.endswith(".") and ". " not in sentence, f"{name}: {sentence}"


@pytest.mark.parametrize("name", ["00_start_here", *PARTS])
def test_a_link_of_a_part_looks_like_a_link(name):
    """A link whose words are code has the colour of code on most pages."""
    text = "\n".join(cell.source for cell in cells(FORM[name], "markdown"))
    assert re.findall(r"\[`[^\]]*`\]\(", text) == []
