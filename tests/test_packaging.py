"""pyproject.toml, requirements.lock and environment.yml say the same; the lock needs no URL and no compiler's luck."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
ASKED_FOR = ("jupyterlab", "numpy", "torch", "pandas", "scikit-learn", "matplotlib", "seaborn", "phe", "papermill",
             "pytest", "nbval")
CONDA_NAMES = {"pytorch": "torch", "matplotlib-base": "matplotlib", "seaborn-base": "seaborn"}


def requirements(lines):
    found = [Requirement(line) for line in lines]
    return {canonicalize_name(requirement.name): requirement.specifier for requirement in found}


@pytest.fixture(scope="module")
def ranges():
    return requirements(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"])


@pytest.fixture(scope="module")
def pins():
    lines = (ROOT / "requirements.lock").read_text("utf-8").splitlines()
    return requirements(line for line in lines if not line.startswith("#"))


@pytest.fixture(scope="module")
def conda():
    lines = (ROOT / "environment.yml").read_text("utf-8").split("dependencies:")[1].splitlines()
    items = [line.strip().removeprefix("- ") for line in lines if line.strip()]
    assert items.pop(0) == "python=3.11" and items.pop(0) == "pip"
    items.remove("pip:")
    return requirements(CONDA_NAMES.get(re.split("[<>=]", item)[0], re.split("[<>=]", item)[0])
                        + item[len(re.split("[<>=]", item)[0]):] for item in items)


def test_what_was_asked_for_is_there(ranges):
    assert [name for name in ASKED_FOR if name not in ranges] == []


def test_conda_users_get_the_same_ranges(ranges, conda):
    assert conda == ranges


def test_the_lock_pins_every_dependency_to_one_version_inside_its_range(ranges, pins):
    for name, pin in pins.items():
        [only] = pin
        assert only.operator == "==" and "+" not in only.version and "*" not in only.version, name
    for name, allowed in ranges.items():
        [only] = pins[name]
        assert only.version in allowed, f"{name}: the lock says {only.version}, pyproject.toml {allowed}"
    assert str(pins["torch"]) == "==2.13.0"


def test_no_url_and_no_index_anywhere_in_the_recipes():
    for name in ("requirements.lock", "environment.yml", "pyproject.toml", "Makefile", ".ci/run"):
        text = (ROOT / name).read_text("utf-8")
        assert "://" not in text and "index-url" not in text and " @ " not in text, name
