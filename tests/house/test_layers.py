"""Imports point down, in circles nowhere; ppkit never imports what is built on it.

No paper's module imports another paper's.  Rooms inside rooms are in no circle either.

Seen are imports at the top, inside functions and for types only, of a module or of a name in it.
"""

import ast
import importlib
from pathlib import Path

import pytest

import ppkit

ROOT = Path(ppkit.__file__).parents[1]
FLOORS = {
    "ppkit": {
        "cli": 4,
        "first": 4,
        "fidelity": 4,
        "documents": 4,
        "show": 4,
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
        "runs": 1,
        "verdicts": 1,
        "project": 0,
        "reading": 0,
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
        "columns": 1,
        "config": 1,
        "settings": 0,
        "transport": 0,
    },
    "tools": {"environment": 0, "lock": 0, "site": 0, "standins": 0},
}
PAPERS = ("dpstgd", "backtracking", "spnn", "collaboration")
# What the rooms with a border may import of ppkit: they know no paper, no data set and no method.
BORDER = {"verdicts": (), "runs": ("verdicts",)}
GROUND = ("project", "writing", "refusals", "lifeline")
STRANGERS = ("torch", "sklearn")
BELOW = {"ppkit": (), "spnn_system": ("ppkit",), "tools": ("ppkit",)}  # what a package may import


def modules_in(root: Path, packages) -> dict[str, Path]:
    """The modules of packages that lie in `root`, by name."""
    return {
        ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): file
        for package in packages
        for file in sorted((root / package).rglob("*.py"))
    }


def imports_between(modules: dict[str, Path]) -> dict[str, set[str]]:
    """Which of the modules each imports; of `from package import module` the module only."""
    graph = {}
    for module, file in modules.items():
        found, here = set(), module.split(".") + ["__init__"] * (file.name == "__init__.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found |= {name.name for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                above = here[: -node.level] if node.level else []
                base = ".".join([*above, *filter(None, [node.module])])
                names = (f"{base}.{name.name}" for name in node.names)
                found |= {name if name in modules else base for name in names}
        graph[module] = (found & set(modules)) - {module}
    return graph


def upward(module: str, graph: dict[str, set[str]], floors: dict[str, dict]) -> list[str]:
    """The imports of a module that do not point down, in words."""
    package, _, inner = module.partition(".")
    room, faults = inner.partition(".")[0], []
    for other in sorted(graph[module]):
        its_package, _, its_inner = other.partition(".")
        its_room = its_inner.partition(".")[0]
        if its_package != package:
            if its_package not in BELOW.get(package, ()):
                faults.append(f"{module} imports {other}: another package's")
        elif its_room not in ("", room):
            if floors[package][its_room] > floors[package][room]:
                faults.append(f"{module} imports {other}: above it")
            if {room, its_room} <= set(PAPERS):
                faults.append(f"{module} imports {other}: another paper's")
    return faults


def circle(arrows: dict[str, set[str]]) -> list[str]:
    """What is in a circle, or points to one; [] without a circle."""
    left = dict(arrows)
    while ends := [one for one, to in left.items() if not to & set(left)]:
        for one in ends:
            del left[one]
    return sorted(left)


def rooms_in(folder: str, graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """What is in a folder, file or folder or its own __init__, and to which of its neighbours each
    points."""
    depth, arrows = folder.count(".") + 2, {}
    inside = [module for module in graph if f"{module}.".startswith(f"{folder}.")]
    for module in inside:
        mine = ".".join(module.split(".")[:depth])
        others = {".".join(other.split(".")[:depth]) for other in graph[module] if other in inside}
        arrows.setdefault(mine, set()).update(others - {mine})
    return arrows


def folders(graph: dict[str, set[str]]) -> list[str]:
    return sorted({module.rpartition(".")[0] for module in graph if "." in module})


GRAPH = imports_between(modules_in(ROOT, FLOORS))
ROOMS = [module for module in GRAPH if "." in module]


def test_verdicts_and_runs_have_a_border():
    for module, others in GRAPH.items():
        package, _, inner = module.partition(".")
        room = inner.partition(".")[0]
        if package == "ppkit" and room in BORDER:
            rooms = {other.split(".")[1] for other in others if other != "ppkit"}
            assert rooms <= {room, *BORDER[room], *GROUND}, module


def test_verdicts_and_runs_import_no_library_of_a_method():
    for room in BORDER:
        for file in sorted((ROOT / "ppkit" / room).rglob("*.py")):
            tree = ast.parse(file.read_text("utf-8"))
            named = {
                name
                for node in ast.walk(tree)
                if isinstance(node, (ast.Import, ast.ImportFrom))
                for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [])
                + [one.name for one in node.names]
            }
            assert not {name.partition(".")[0] for name in named} & set(STRANGERS), file.name


@pytest.mark.parametrize("room", sorted(BORDER))
def test_a_room_with_a_border_has_seven_public_names_at_most(room):
    module = importlib.import_module(f"ppkit.{room}")
    assert 1 <= len(module.__all__) <= 7
    for name in module.__all__:
        thing = getattr(module, name)
        assert name.isupper() or (thing.__doc__ or "").strip(), name


@pytest.mark.parametrize("module", ROOMS)
def test_imports_point_down(module):
    package, room = module.split(".")[:2]
    assert room in FLOORS[package], f"say in FLOORS on which floor {room} is"
    assert upward(module, GRAPH, FLOORS) == []


@pytest.mark.parametrize("folder", folders(GRAPH))
def test_no_room_and_no_room_inside_a_room_is_in_a_circle(folder):
    assert circle(rooms_in(folder, GRAPH)) == []


MADE = {
    "ppkit/__init__.py": "",
    "ppkit/ground.py": "NAME = 1",
    "ppkit/top.py": "from ppkit import ground",
    "ppkit/spnn/__init__.py": "",
    "ppkit/dpstgd/__init__.py": "",
    "ppkit/spnn/a/__init__.py": "",
    "ppkit/spnn/a/x.py": "NAME = 1",
    "ppkit/spnn/a/w.py": "from .x import NAME",
    "ppkit/spnn/b/y.py": "from ppkit.spnn.a import x\nfrom ..a.w import NAME",
    "spnn_system/role.py": "def run():\n    from ppkit import top, spnn",
}
MADE_FLOORS = {"ppkit": {"ground": 0, "spnn": 1, "dpstgd": 1, "top": 2}, "spnn_system": {"role": 0}}
FOR_TYPES = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    "
UP = ["ppkit.ground imports ppkit.top: above it"]
ROUND = ["circle: ppkit.spnn.a, ppkit.spnn.b"]


def faults_with(tmp_path: Path, changed: dict[str, str]) -> list[str]:
    """What is wrong with the made-up packages, a few files of them changed."""
    for name, text in (MADE | changed).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    graph = imports_between(modules_in(tmp_path, MADE_FLOORS))
    faults = [fault for module in graph for fault in upward(module, graph, MADE_FLOORS)]
    found = (circle(rooms_in(folder, graph)) for folder in folders(graph))
    return faults + [f"circle: {', '.join(names)}" for names in found if names]


def test_a_house_without_a_fault_passes(tmp_path):
    assert faults_with(tmp_path, {}) == []


@pytest.mark.parametrize(
    "file, text, faults",
    [
        ("ppkit/ground.py", "import ppkit.top", UP),
        ("ppkit/ground.py", "from ppkit import top", UP),
        ("ppkit/ground.py", "from ppkit.top import NAME", UP),
        ("ppkit/ground.py", "from . import top", UP),
        ("ppkit/ground.py", "from .top import NAME", UP),
        ("ppkit/ground.py", "def run():\n    from ppkit.top import NAME", UP),
        ("ppkit/ground.py", f"{FOR_TYPES}from ppkit.top import NAME", UP),
        (
            "ppkit/top.py",
            "from spnn_system.role import run",
            ["ppkit.top imports spnn_system.role: another package's"],
        ),
        (
            "ppkit/dpstgd/one.py",
            f"{FOR_TYPES}from ppkit.spnn.a import x",
            ["ppkit.dpstgd.one imports ppkit.spnn.a.x: another paper's"],
        ),
        ("ppkit/spnn/a/x.py", "from ppkit.spnn.b.y import NAME", ROUND),
        ("ppkit/spnn/a/x.py", "def run():\n    from ..b import y", ROUND),
        ("ppkit/spnn/a/x.py", f"{FOR_TYPES}from ppkit.spnn.b.y import NAME", ROUND),
        ("ppkit/spnn/a/x.py", "from .w import NAME", ["circle: ppkit.spnn.a.w, ppkit.spnn.a.x"]),
        ("ppkit/spnn/a/__init__.py", "from ppkit.spnn.b.y import NAME", ROUND),
    ],
)
def test_every_fault_is_seen(tmp_path, file, text, faults):
    found = faults_with(tmp_path, {file: text})
    # above a circle another one may be seen, of what points down to it
    assert [fault for fault in found if fault in faults] == faults
    if faults == UP:
        assert found == [*UP, "circle: ppkit.ground, ppkit.top"]


def test_a_room_whose_files_import_what_its_own_init_takes_from_them_is_in_a_circle(tmp_path):
    changed = {
        "ppkit/spnn/a/__init__.py": "from .x import NAME",
        "ppkit/spnn/a/x.py": "from . import NAME",
    }
    assert "circle: ppkit.spnn.a, ppkit.spnn.a.x" in [
        fault.replace(", ppkit.spnn.a.w", "") for fault in faults_with(tmp_path, changed)
    ]


def test_the_house_that_is_read_is_the_whole_one():
    assert {"ppkit.project", "ppkit.verdicts.statements"} <= GRAPH["ppkit.runs.key"]
    assert "ppkit.evaluation" in GRAPH["spnn_system.roles.holder"]  # inside a function
    assert "ppkit.spnn.messages" in GRAPH["ppkit.spnn.dealer"]  # from .messages import
    assert all(f"{package}.{room}" in GRAPH for package in FLOORS for room in FLOORS[package])
