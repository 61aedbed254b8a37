"""Write requirements.lock anew: .venv/bin/python tools/lock.py python3.11 python3.12 python3.13

Each interpreter's pip resolves what pyproject.toml asks for and says which wheels it would take.
PyTorch itself is left out; what it asks for is read from the one in .venv. The lock keeps
versions and hashes. Versions that the lock has already stay: take a line out to renew a package.
"""

import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"
CUDA = ("nvidia", "cuda", "triton")
PIN = re.compile(r"^[\w.-]+==[^\s;\\]+", re.MULTILINE)


def asked_for() -> list[str]:
    """The dependencies of pyproject.toml and its extras, with those of PyTorch (CPU build) in its
    place."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    own = list(project["dependencies"])
    for lines in project["optional-dependencies"].values():
        own += lines
    torch = importlib.metadata.requires("torch") or []
    needed = [line for line in torch if "extra ==" not in line and not line.startswith(CUDA)]
    return [line for line in own if not line.startswith("torch")] + needed


def resolved(python: str, pins: list[str]) -> tuple[str, dict[tuple[str, str], str]]:
    """The interpreter's version ("3.12"), and by (name, version) the hash of its wheel."""
    constraints = ROOT / ".cache" / "pins.txt"
    constraints.parent.mkdir(exist_ok=True)
    constraints.write_text("\n".join(pins), encoding="utf-8")
    options = "--dry-run --ignore-installed --quiet --only-binary :all: --report - --constraint"
    command = [python, "-m", "pip", "install", *options.split(), str(constraints), *asked_for()]
    report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    wheels = {}
    for one in report["install"]:
        package = one["metadata"]["name"], one["metadata"]["version"]
        wheels[package] = one["download_info"]["archive_info"]["hashes"]["sha256"]
    return report["environment"]["python_version"], wheels


def main(pythons: list[str]) -> None:
    """Resolve with every interpreter and write the lock; its header of comments stays."""
    text = LOCK.read_text("utf-8")
    found: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)  # the wheel of each Python
    for python in pythons:
        version, wheels = resolved(python, PIN.findall(text))
        for package, sha256 in wheels.items():
            found[package][version] = sha256
    lines = [line for line in text.splitlines() if line.startswith("#")]
    for (name, version), by_python in sorted(found.items(), key=lambda item: item[0][0].lower()):
        only = ""
        if len(by_python) < len(pythons):
            only = " ; " + " or ".join(f'python_version == "{one}"' for one in by_python)
        hashes = [f"--hash=sha256:{one}" for one in sorted({*by_python.values()})]
        lines.append(" \\\n    ".join([f"{name}=={version}{only}", *hashes]))
    LOCK.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
