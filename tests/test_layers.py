"""Imports point down, in circles nowhere; ppkit never imports what is built on it.

No paper's module imports another paper's.

Seen are imports at the top, inside functions and for types only, of a module or of a name in it.
"""

import ast
from pathlib import Path

import pytest

import ppkit

ROOT = Path(ppkit.__file__).parents[1]
PACKAGES = ("ppkit", "spnn_system")
FLOORS = {
    "ppkit": {
        "cli": 4,
        "first": 4,
        "runner": 4,
        "show": 4,
        "ledger": 4,
        "rules": 4,
        "measured": 4,
        "dpstgd": 3,
        "backtracking": 3,
        "spnn": 3,
        "collaboration": 3,
        "gradients": 2,
        "dpsgd": 2,
        "federated": 2,
        "models": 2,
        "evaluation": 2,
        "attacks": 2,
        "profile": 2,
        "mechanisms": 1,
        "accounting": 1,
        "audit": 1,
        "datasets": 1,
        "project": 0,
        "refusals": 0,
        "lifeline": 0,
        "writing": 0,
    },
    "spnn_system": {
        "cli": 4,
        "__main__": 4,
        "launch": 3,
        "preflight": 3,
        "example": 3,
        "replay": 3,
        "roles": 3,
        "run": 2,
        "cost_model": 2,
        "data": 2,
        "config": 1,
        "settings": 0,
        "transport": 0,
    },
}
PAPERS = ("dpstgd", "backtracking", "spnn", "collaboration")
MODULES = {
    ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
    for package in PACKAGES
    for file in sorted((ROOT / package).rglob("*.py"))
}


def imported(module: str) -> set[str]:
    """The modules that one imports; of `from package import module` the module only."""
    found, here = set(), module.split(".") + ["__init__"] * (MODULES[module].name == "__init__.py")
    for node in ast.walk(ast.parse(MODULES[module].read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(
                [*(here[: -node.level] if node.level else []), *filter(None, [node.module])]
            )
            found |= {
                inner if (inner := f"{base}.{name.name}") in MODULES else base
                for name in node.names
            }
    return (found & set(MODULES)) - {module}


GRAPH = {module: imported(module) for module in MODULES}
ROOMS = [module for module in MODULES if "." in module]


@pytest.mark.parametrize("module", ROOMS)
def test_imports_point_down(module):
    package, room = module.split(".")[:2]
    floors = FLOORS[package]
    assert room in floors, f"say in FLOORS on which floor {room} is"
    for other in GRAPH[module]:
        above, *rest = other.split(".")
        if above != package:
            assert (package, above) == ("spnn_system", "ppkit"), f"{module} imports {other}"
        elif rest and rest[0] != room:
            assert floors[rest[0]] <= floors[room], f"{module} imports {other}"
            assert not {room, rest[0]} <= set(PAPERS), f"{module} imports {other}: another paper's"


def circle(arrows: dict[str, set[str]]) -> list[str]:
    """What is in a circle, or points to one; [] without a circle."""
    left = dict(arrows)
    while ends := [one for one, to in left.items() if not to & set(left)]:
        for one in ends:
            del left[one]
    return sorted(left)


def rooms_in(folder: str) -> dict[str, set[str]]:
    """What is in a folder, file or folder, and to which of its neighbours each points."""
    depth, arrows = folder.count(".") + 2, {}
    inside = [module for module in MODULES if module.startswith(f"{folder}.")]
    for module in inside:
        mine = ".".join(module.split(".")[:depth])
        others = {".".join(other.split(".")[:depth]) for other in GRAPH[module] if other in inside}
        arrows.setdefault(mine, set()).update(others - {mine})
    return arrows


@pytest.mark.parametrize("folder", sorted({module.rpartition(".")[0] for module in ROOMS}))
def test_no_room_and_no_room_inside_a_room_is_in_a_circle(folder):
    assert circle(rooms_in(folder)) == []


def test_the_test_sees_imports_of_every_kind_and_circles():
    assert {"ppkit.project", "ppkit.datasets"} <= GRAPH["ppkit.runner.batch"]
    assert "ppkit.ledger" in GRAPH["ppkit.runner.index"]
    assert "ppkit.evaluation" in GRAPH["spnn_system.roles.holder"]  # inside a function
    assert "ppkit.spnn.holders" in GRAPH["ppkit.spnn.correlations"]  # from .holders import
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == ["a", "b", "c", "d"]
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
