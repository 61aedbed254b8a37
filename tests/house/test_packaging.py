"""pyproject.toml, requirements.lock and environment.yml say the same; the lock needs no URL and no
compiler's luck."""

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest
import yaml
from house import ROOT
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ASKED_FOR = (
    "jupyterlab",
    "numpy",
    "torch",
    "pandas",
    "scikit-learn",
    "matplotlib",
    "seaborn",
    "phe",
    "papermill",
    "pytest",
    "nbval",
)
CUDA = ("nvidia", "cuda", "triton")  # of PyTorch's other build
PYTHONS = ("3.11", "3.12", "3.13")


def requirements(lines):
    found = [Requirement(line) for line in lines]
    return {canonicalize_name(requirement.name): requirement.specifier for requirement in found}


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.fixture(scope="module")
def ranges(project):
    """What the kit asks for, at run time or in an extra."""
    extras = project["optional-dependencies"].values()
    return requirements([*project["dependencies"], *(one for extra in extras for one in extra)])


@pytest.fixture(scope="module")
def environment():
    """tools/environment.py, which runs outside the package."""
    spec = importlib.util.spec_from_file_location("environment", ROOT / "tools" / "environment.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def lock():
    """The lock's entries, each one line, without PyTorch."""
    text = (ROOT / "requirements.lock").read_text("utf-8").replace("\\\n", " ")
    return [line for line in text.splitlines() if not line.startswith("#")]


@pytest.fixture(scope="module")
def pins(lock, environment):
    torch = environment.torch_of(ROOT / "requirements.lock")
    return requirements([*(line.split(" --hash")[0] for line in lock), torch])


def test_what_was_asked_for_is_there(ranges):
    assert [name for name in ASKED_FOR if name not in ranges] == []


def test_what_tests_and_checks_the_kit_is_an_extra(project):
    extras = {name: requirements(lines) for name, lines in project["optional-dependencies"].items()}
    assert set(extras["test"]) == {"pytest", "pytest-xdist", "nbval", "hypothesis"}
    assert set(extras["dev"]) == {"ruff", "mypy", "import-linter"}
    assert not {*extras["test"], *extras["dev"]} & set(requirements(project["dependencies"]))


@pytest.mark.processes
@pytest.mark.slow
def test_no_command_imports_what_only_an_extra_brings():
    """A Python in which the extras' packages cannot be imported gets as far as any other."""
    code = (
        "import sys\n"
        "extras = ('pytest', 'xdist', 'nbval', 'hypothesis', 'ruff', 'mypy', 'distributed')\n"
        "sys.modules.update(dict.fromkeys(extras))\n"
        "import ppkit.first, ppkit.documents, ppkit.cli\n"
        "from ppkit.runs import claims, compare, execute, lab, reference, run, worker\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def pip_part() -> list[str]:
    """What environment.yml has pip install, line by line."""
    recipe = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))
    return recipe["dependencies"][-1]["pip"]


def test_conda_brings_python_and_pip_and_pip_the_packages_of_the_card_and_the_kit(project, ranges):
    recipe = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))
    assert recipe["dependencies"][:-1] == [f"python{project['requires-python']},<3.14", "pip"]
    *packages, kit = pip_part()
    assert kit == "-e ."
    assert requirements(packages) == {name: ranges[name] for name in ASKED_FOR}


@pytest.mark.processes
@pytest.mark.slow
def test_the_pip_part_of_environment_yml_ends_in_a_working_command(pins, tmp_path):
    """In a bare environment, in the lock's versions: a new release elsewhere must not fail this."""
    (tmp_path / "requirements.txt").write_text("\n".join(pip_part()), "utf-8")
    constraints = "\n".join(f"{name}{version}" for name, version in pins.items())
    (tmp_path / "constraints.txt").write_text(constraints, "utf-8")
    venv.create(tmp_path / "venv", with_pip=True, symlinks=True)
    pip = [tmp_path / "venv/bin/python", "-m", "pip", "install", "-q"]
    pip += ["-r", tmp_path / "requirements.txt", "-c", tmp_path / "constraints.txt"]
    bare = {name: value for name, value in os.environ.items() if "PYTHON" not in name}
    installed = subprocess.run(pip, cwd=ROOT, env=bare, capture_output=True, text=True)
    assert installed.returncode == 0, installed.stderr[-2_000:]
    ppkit = [tmp_path / "venv/bin/ppkit", "first"]
    first = subprocess.run(ppkit, cwd=ROOT, env=bare, capture_output=True, text=True)
    assert first.returncode == 0, first.stderr[-2_000:]
    assert "29 of 29 numbers come back" in first.stdout


def test_every_locked_wheel_has_a_hash_and_serves_every_python_that_needs_it(lock):
    """One hash where a wheel is for any Python; where each has its own, one each; fewer only with a
    marker that says so."""
    for line in lock:
        hashes = re.findall(r"--hash=sha256:[0-9a-f]{64}(?:\s|$)", line)
        assert 1 <= len(set(hashes)) == len(hashes) <= len(PYTHONS), line
        marker = Requirement(line.split(" --hash")[0]).marker
        if marker:
            needed = [python for python in PYTHONS if marker.evaluate({"python_version": python})]
            assert needed and len(hashes) <= len(needed) < len(PYTHONS), line


def test_the_environment_is_made_from_the_lock_on_the_pythons_that_a_reader_is_told(
    environment, monkeypatch, capsys
):
    assert [".".join(map(str, version)) for version in environment.LOCKED] == list(PYTHONS)
    assert all(python in (ROOT / "docs/install.md").read_text("utf-8") for python in PYTHONS)
    monkeypatch.setattr(environment.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(environment.sys, "platform", "linux")
    for minor, first in (
        (11, "the locked packages"),
        (13, "the locked packages"),
        (14, "everything"),
    ):
        monkeypatch.setattr(environment.sys, "version_info", (3, minor, 0))
        assert environment.steps(ROOT / "requirements.lock", [])[0][0] == first
    assert "No exact versions" in capsys.readouterr().out


def test_torch_comes_after_the_lock_that_holds_all_it_needs_and_nothing_pulls_another(
    environment, monkeypatch
):
    monkeypatch.setattr(environment, "is_locked", lambda: True)
    (_, first), (_, second), (_, last) = environment.steps(ROOT / "requirements.lock", [])
    assert "--no-deps" in first and second == ["torch==2.13.0"] and "--no-deps" in last


def needed(names):
    """By name, what the installed packages ask for on this Python, beginning with `names` and going
    to the last one."""
    asked, to_read = {}, [Requirement(name) for name in names]
    while to_read:
        requirement = to_read.pop()
        name = canonicalize_name(requirement.name)
        if str(requirement) not in asked.setdefault(name, set()):
            asked[name].add(str(requirement))
            extras = requirement.extras or {""}
            for line in importlib.metadata.requires(name) or ():
                one = Requirement(line)
                if not one.name.startswith(CUDA) and (
                    not one.marker or any(one.marker.evaluate({"extra": extra}) for extra in extras)
                ):
                    to_read.append(one)
    return asked


def test_the_lock_has_every_package_that_an_installed_one_asks_for(project, lock, pins):
    """pip is told --no-deps, so that a package missing here would come in its newest version, or
    not at all."""
    extras = project["optional-dependencies"].values()
    asked = needed([*project["dependencies"], *(one for extra in extras for one in extra)])
    assert [name for name in asked if name not in pins] == []
    for name, requirements_ in asked.items():
        [only] = pins[name]
        assert all(
            Requirement(one).specifier.contains(only.version, prereleases=True)
            for one in requirements_
        ), name
    left_out = [
        one.name
        for one in map(Requirement, (line.split(" --hash")[0] for line in lock))
        if (not one.marker or one.marker.evaluate()) and canonicalize_name(one.name) not in asked
    ]
    assert left_out == []


PIP = """
import sys
print("WARNING: an index that is configured oddly\\n" * 300, file=sys.stderr)
print("Collecting a\\nCollecting b")
sys.exit("ERROR: no wheel of b" if "no-such-package==2" in sys.argv else 0)
"""


@pytest.mark.processes
def test_one_line_of_progress_for_a_call_of_pip_and_the_end_of_what_it_said_if_it_fails(
    environment, tmp_path, monkeypatch, capsys
):
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "__init__.py").touch()
    (tmp_path / "pip" / "__main__.py").write_text(PIP)  # not pip: nothing is installed
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    log = tmp_path / "pip.log"
    environment.install(Path(sys.executable), "the lock", ["no-such-package==1"], log)
    assert re.fullmatch(r"  the lock: \d+ s\n", capsys.readouterr().out)
    with pytest.raises(SystemExit) as ended:
        environment.install(Path(sys.executable), "the lock", ["no-such-package==2"], log)
    assert "ERROR: no wheel of b" in str(ended.value) and "WARNING" not in str(ended.value)
    assert (tmp_path / "pip.log").read_text().count("WARNING") == 2 * 300


@pytest.mark.processes
def test_an_environment_is_made_anew_only_when_what_it_is_made_from_has_changed(
    environment, tmp_path, monkeypatch
):
    made = []
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    monkeypatch.setattr(
        environment, "create", lambda folder: venv.create(folder, clear=True)
    )  # without pip: quick
    monkeypatch.setattr(
        environment, "install", lambda python, what, arguments, log: made.append(what)
    )
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "a"\n[tool.x]\n')
    lock = tmp_path / "requirements.lock"
    lock.write_text("# torch==1\na==1\n")
    environment.main()
    calls = len(made)
    environment.main()
    assert calls > 0 and len(made) == calls
    with open(tmp_path / "pyproject.toml", "a") as file:
        file.write("y = 1\n")  # the settings of a tool
    environment.main()
    assert len(made) == calls
    lock.write_text("# torch==1\na==2\n")
    environment.main()
    assert len(made) == 2 * calls
    (tmp_path / ".venv" / "bin" / "python").unlink()
    environment.main()
    assert len(made) == 3 * calls


def test_the_lock_pins_every_dependency_to_one_version_inside_its_range(ranges, pins):
    for name, pin in pins.items():
        [only] = pin
        assert only.operator == "==" and "+" not in only.version and "*" not in only.version, name
    for name, allowed in ranges.items():
        [only] = pins[name]
        assert only.version in allowed, (
            f"{name}: the lock says {only.version}, pyproject.toml {allowed}"
        )
    assert str(pins["torch"]) == "==2.13.0"


def test_the_wheel_holds_both_packages_and_ppkit_finds_the_other_ones_commands():
    recipe = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert recipe["tool"]["setuptools"]["packages"]["find"]["include"] == ["ppkit*", "spnn_system*"]
    assert recipe["project"]["entry-points"]["ppkit.commands"] == {"spnn": "spnn_system.cli:app"}


def test_no_url_and_no_index_anywhere_in_the_recipes():
    for name in (
        "requirements.lock",
        "environment.yml",
        "pyproject.toml",
        ".pre-commit-config.yaml",
        "Makefile",
        "tools/environment.py",
        "tools/lock.py",
        ".ci/run",
    ):
        text = (ROOT / name).read_text("utf-8")
        assert "://" not in text and "index-url" not in text and " @ " not in text, name


def test_a_commit_is_checked_by_the_linter_of_the_lock():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    entries = [hook["entry"] for one in hooks for hook in one["hooks"]]
    assert [one["repo"] for one in hooks] == ["local"]
    assert all(entry.startswith(".venv/bin/ruff ") for entry in entries) and len(entries) == 2
    assert "\nruff==" in (ROOT / "requirements.lock").read_text("utf-8")
