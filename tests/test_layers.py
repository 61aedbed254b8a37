"""Imports point down only, and no paper's module imports another paper's."""

import ast
from pathlib import Path

import pytest

import ppkit

FLOORS = {"cli": 4, "first": 4, "runner": 4, "show": 4, "ledger": 4, "rules": 4, "measured": 4,
          "dpstgd": 3, "backtracking": 3, "spnn": 3, "collaboration": 3,
          "gradients": 2, "dpsgd": 2, "dpsgd_optimizer": 2, "federated": 2, "models": 2, "evaluation": 2, "compare": 2, "slopes": 2, "attacks": 2, "profile": 2,
          "mechanisms": 1, "accounting": 1, "renyi": 1, "audit": 1, "datasets": 1,
          "project": 0, "lifeline": 0, "writing": 0}
PACKAGE = Path(ppkit.__file__).parent
FILES = sorted(file.relative_to(PACKAGE) for file in PACKAGE.rglob("*.py") if file != PACKAGE / "__init__.py")


def imported(file: Path) -> set[str]:
    """The rooms of ppkit that a file imports from, its own left out."""
    found = set()
    for node in ast.walk(ast.parse((PACKAGE / file).read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name.split(".")[1] for name in node.names if name.name.startswith("ppkit.")}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module == "ppkit":
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module.startswith("ppkit."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.ImportFrom) and node.level == len(file.parts):  # from . at the top, or from .. out of a room
            found |= {node.module.split(".")[0]} if node.module else {name.name for name in node.names}
    return found - {room(file)}


def room(file: Path) -> str:
    return file.parts[0].removesuffix(".py")


@pytest.mark.parametrize("file", FILES, ids=str)
def test_imports_point_down(file):
    assert room(file) in FLOORS, f"say in FLOORS on which floor {room(file)} is"
    mine = FLOORS[room(file)]
    for other in imported(file) & set(FLOORS):
        assert FLOORS[other] <= mine and not (mine == FLOORS[other] == 3), f"{file} imports {other}"


def test_the_test_sees_imports_of_every_kind():
    assert {"datasets", "project", "runner"} <= imported(Path("runner/batch.py")) | {"runner"}
    assert "ledger" in imported(Path("runner/index.py"))
