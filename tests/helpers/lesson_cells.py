"""The cells of a lesson that a change of its parameters reaches, run in a kernel as a reader runs
them, with the cells that they need and no others."""

import ast
import json
import re
import symtable
from dataclasses import dataclass
from pathlib import Path

import nbformat

from ppkit.runs import environment, execute

ASKS, JUDGES, DECIDES = "show.predict(", "show.judge(", "page.beside_reference("
ROWS = "print(json.dumps(page.beside_reference().astype(str).to_dict('index')))"


@dataclass(frozen=True)
class Ran:
    """What came out of some cells of a lesson.

    lines: of each question that was judged, the line that the judge cell printed.
    values: of each expression that was asked for, its value.
    rows: of each row of the lesson's verdicts, what its table shows by column; empty if none.
    """

    lines: dict[str, str]
    values: dict[str, object]
    rows: dict[str, dict[str, str]]


class _NoneInlined(ast.NodeTransformer):
    """Lists, sets and dictionaries in comprehension as generators, which have a scope of their own
    by every Python. Since 3.12 the others' names stand among those of the cell."""

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp) -> ast.AST:
        self.generic_visit(node)
        return ast.GeneratorExp(node.elt, node.generators)

    visit_SetComp = visit_ListComp

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        self.generic_visit(node)
        return ast.GeneratorExp(ast.Tuple([node.key, node.value], ast.Load()), node.generators)


def symbols_of(tree: ast.AST) -> symtable.SymbolTable:
    """The names of a statement, a cell or a function, the same by every Python."""
    return symtable.symtable(ast.unparse(_NoneInlined().visit(tree)), "cell", "exec")


def names_of(source: str) -> tuple[set[str], set[str]]:
    """The names that a cell gives to something, and those that it takes from the notebook."""
    given, taken = set(), set()
    for statement in ast.parse(source).body:
        gives, takes = names_of_statement(statement)
        taken |= takes - given
        given |= gives
    return given, taken


def names_of_statement(statement: ast.stmt) -> tuple[set[str], set[str]]:
    """The same of one statement: what it takes may be its own."""
    given, taken = set(), set()
    grows = isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name)
    outer = symbols_of(statement)
    for symbol in outer.get_symbols():
        if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace():
            given.add(symbol.get_name())
        if symbol.is_referenced():
            taken.add(symbol.get_name())
    tables = outer.get_children()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        taken |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
    if grows:
        taken.add(statement.target.id)
    return given, taken


def reached(sources: list[str], changed: set[str]) -> set[int]:
    """Places of the cells whose outcome may differ once these names have other values."""
    found, touched = set(), set(changed)
    for k, source in enumerate(sources):
        given, taken = names_of(source)
        if taken & touched:
            found.add(k)
            touched |= given
        else:
            touched -= given - changed
    return found


def needed(sources: list[str], wanted: set[int]) -> list[int]:
    """Places of these cells and of the cells that they need, in the lesson's order."""
    found, missing = set(), set()
    for k in reversed(range(len(sources))):
        given, taken = names_of(sources[k])
        if k in wanted or given & missing:
            found.add(k)
            missing = missing - given | taken
    return sorted(found)


def with_values(source: str, parameters: dict[str, object]) -> str:
    """The cell of parameters after a reader wrote other values into it."""
    for name, value in parameters.items():
        source, n = re.subn(rf"^{name} = .*?(?=  #|$)", f"{name} = {value!r}", source, flags=re.M)
        assert n == 1, f"{name} is no parameter"
    return source


def smaller(source: str, sizes: dict[str, int]) -> str:
    """The cell of sizes with other numbers in the quick profile, which stands first."""
    for name, value in sizes.items():
        source, n = re.subn(rf"\b{name}=[\d_]+", f"{name}={value}", source, count=1)
        assert n == 1, f"the quick profile has no {name}"
    return source


def run(
    lesson: Path, parameters: dict, sizes: dict[str, int], expressions: list[str], scratch: Path
) -> Ran:
    """Run the judge cells and the verdicts that a change of the parameters reaches; without any of
    these, every cell that it reaches.

    sizes: of the quick profile, where the lesson's own take longer than a test should.
    expressions: of names in the lesson; their values come back as JSON has them.
    """
    notebook = nbformat.read(lesson, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    [settable] = [k for k, cell in enumerate(code) if "parameters" in cell.metadata.get("tags", ())]
    code[settable].source = with_values(code[settable].source, parameters)
    sources = [
        smaller(cell.source, sizes) if '"quick": dict(' in cell.source else cell.source
        for cell in code
    ]
    changes = reached(sources, set(parameters))
    ends = {k for k in changes if JUDGES in sources[k] or DECIDES in sources[k]}
    kept = [sources[k] for k in needed(sources, (ends or changes) | {settable})]
    judged = [k for k, source in enumerate(kept) if JUDGES in source]
    decides = any(DECIDES in source for source in kept)
    asked = f"print(json.dumps({{{', '.join(f'{one!r}: {one}' for one in expressions)}}}))"
    cells = [*kept, "import json", asked, ROWS if decides else "print('{}')"]
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in cells]
    _execute(notebook, lesson.parent, scratch)
    questions = [_question(kept, k) for k in judged]
    lines = {name: printed(notebook.cells[k]).strip() for name, k in zip(questions, judged)}
    values, rows = (json.loads(printed(cell)) for cell in notebook.cells[-2:])
    return Ran(lines, values, rows)


def _question(sources: list[str], judge: int) -> str:
    """The name of the question that a judge cell answers: the last one asked before it."""
    [asked] = [source for source in sources[:judge] if ASKS in source][-1:]
    return re.search(r'show\.predict\(\s*"(\w+)"', asked)[1]


def _execute(notebook: nbformat.NotebookNode, folder: Path, scratch: Path) -> None:
    client = execute.client_of(notebook, folder)
    env = environment.for_kernel(scratch, threads=1, source="standin")
    with client.setup_kernel(env=env):
        for index, cell in enumerate(notebook.cells):
            client.execute_cell(cell, index)


def printed(cell: nbformat.NotebookNode) -> str:
    """What a cell printed on its standard output."""
    return "".join(one.text for one in cell.outputs if one.get("name") == "stdout")
