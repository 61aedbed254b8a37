"""No function takes more than nine parameters beside self, cls and rng; settings are
dataclasses."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MOST = 9
NOT_COUNTED = {"self", "cls", "rng"}
EXCEPTIONS = {
    ("tests/collaboration_loop.py", "run")
}  # an oracle: the paper's loop in plain arguments


def too_many(code: str) -> list[str]:
    """The functions of a file that take more, also private ones and those inside others; commands
    of the command line apart."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            command = any(".command" in ast.unparse(one) for one in node.decorator_list)
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            counted = {each.arg for each in given} - NOT_COUNTED
            if len(counted) > MOST and not command:
                found.append(node.name)
    return found


def test_no_function_takes_more_than_nine_parameters_but_these():
    assert {
        (file.relative_to(ROOT).as_posix(), name)
        for room in ("ppkit", "spnn_system", "tools", "tests", "benchmarks")
        for file in (ROOT / room).rglob("*.py")
        for name in too_many(file.read_text("utf-8"))
    } == EXCEPTIONS


def test_private_functions_and_inits_and_keywords_count_and_commands_do_not():
    nine = "a, b, c, d, e, f, g, h, i"
    for takes in (f"def _f({nine}, j)", f"def f(rng, /, {nine}, *, j)", f"async def f({nine}, j)"):
        assert len(too_many(f"{takes}: pass")) == 1, takes
        assert len(too_many(f"def outer():\n  {takes}: pass")) == 1, takes
    assert too_many(f"class A:\n  def __init__(self, {nine}, j): pass") == ["__init__"]
    assert too_many(f"class A:\n  def f(self, {nine}, *rest, rng=None, **settings): pass") == []
    assert too_many(f"@app.command()\ndef f({nine}, j): pass") == []
