"""Make a virtual environment from the lock: python tools/environment.py [FOLDER [LOCK ...]]

FOLDER: .venv if none is given.  LOCK: further files of pins, installed last.  $PIP_FLAGS goes to
every call of pip. Runs on the standard library alone. What pip says is kept in FOLDER/pip.log.
FOLDER/made-from holds what the environment was made from (place, interpreter, locks,
dependencies); while that stays the same, nothing is done.
"""

import os
import platform
import shlex
import subprocess
import sys
import time
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKED = ((3, 11), (3, 12), (3, 13))
LINES_SHOWN = 15
EXTRAS = "test,dev"  # of pyproject.toml, where there is no lock, which has all of them


def made_from(folder: Path, locks: list[Path]) -> str:
    """Whatever must be the same for an environment to be taken as it is."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return "\n".join(
        [
            sys.version,
            platform.platform(),
            str(folder),
            repr(project),
            *(lock.read_text("utf-8") for lock in locks),
        ]
    )


def is_locked() -> bool:
    """True where the lock holds: its CPythons on Linux, x86_64."""
    here = sys.platform, platform.machine(), platform.python_implementation()
    return here == ("linux", "x86_64", "CPython") and sys.version_info[:2] in LOCKED


def torch_of(lock: Path) -> str:
    """The version of PyTorch that a lock names in a comment: "torch==2.13.0"."""
    lines = lock.read_text("utf-8").splitlines()
    return next(line.removeprefix("# ") for line in lines if line.startswith("# torch=="))


def steps(lock: Path, further: list[Path]) -> list[tuple[str, list[str]]]:
    """What pip is called with, in order: PyTorch after the lock, which holds all it needs."""
    last = [(file.name, ["-r", str(file)]) for file in further]
    if not is_locked():
        print(
            "No exact versions for this system: taking the newest that pyproject.toml allows",
            flush=True,
        )
        return [("everything", ["-e", f"{ROOT}[{EXTRAS}]"]), *last]
    return [
        ("the locked packages", ["--no-deps", "-r", str(lock)]),
        ("PyTorch", [torch_of(lock)]),
        *last,
        ("ppkit", ["--no-deps", "-e", str(ROOT)]),
    ]


def install(python: Path, what: str, arguments: list[str], log: Path) -> None:
    """One call of pip under one line of progress; SystemExit with its last words if it fails."""
    start, flags = time.monotonic(), shlex.split(os.environ.get("PIP_FLAGS", ""))
    print(f"  {what}: ", end="", flush=True)
    command = [str(python), "-m", "pip", "install", *flags, *arguments]
    with open(log, "a", encoding="utf-8") as kept:
        pip = subprocess.run(command, stdout=kept, stderr=subprocess.STDOUT)
    print(f"{time.monotonic() - start:.0f} s", flush=True)
    if pip.returncode:
        lines = log.read_text("utf-8", errors="replace").splitlines()
        said = [line for line in lines if not line.startswith(("WARNING", "DEPRECATION"))]
        end = "\n".join(said[-LINES_SHOWN:])
        sys.exit(
            f"pip could not install {what}; the end of what it said:\n{end}\nAll of it is in {log}."
        )


def create(folder: Path) -> None:
    """An empty environment with pip; what was in the folder goes."""
    venv.create(folder, clear=True, with_pip=True, symlinks=True)


def works(python: Path) -> bool:
    """True if the interpreter is there and starts (the one it links to may have gone)."""
    return python.exists() and subprocess.run([python, "-c", ""]).returncode == 0


def main(folder: str = ".venv", *further: str) -> None:
    """Make the environment in `folder` unless it is there."""
    target, lock = ROOT / folder, ROOT / "requirements.lock"
    more = [ROOT / file for file in further]
    stamp, python = target / "made-from", target / "bin" / "python"
    wanted = made_from(target, [lock, *more])
    if stamp.exists() and stamp.read_text("utf-8") == wanted and works(python):
        return
    print(f"Making {folder} (once; a few minutes, most of it PyTorch)", flush=True)
    create(target)
    for what, arguments in steps(lock, more):
        install(python, what, arguments, target / "pip.log")
    stamp.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
