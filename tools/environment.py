"""Make a virtual environment from the lock: python tools/environment.py [FOLDER [LOCK ...]]

FOLDER: .venv if none is given.  LOCK: further files of pins, installed last.  $PIP_FLAGS goes to
every call of pip. Runs on the standard library alone. What pip says is kept in FOLDER/pip.log.
FOLDER/made-from holds what the environment was made from (place, interpreter, locks,
dependencies); while that stays the same, nothing is done.
"""

import os
import platform
import re
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
TORCH = re.compile(r"^# (torch==\S+)$", re.MULTILINE)


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
    return (sys.platform, platform.machine(), platform.python_implementation()) == (
        "linux",
        "x86_64",
        "CPython",
    ) and sys.version_info[:2] in LOCKED


def steps(lock: Path, further: list[Path]) -> list[tuple[str, list[str]]]:
    """What pip is called with, in order: PyTorch after the lock, which holds all it needs."""
    if not is_locked():
        print(
            "No exact versions for this system: taking the newest that pyproject.toml allows",
            flush=True,
        )
        return [("everything", ["-e", str(ROOT)])] + [
            (file.name, ["-r", str(file)]) for file in further
        ]
    return [
        ("the locked packages", ["--no-deps", "-r", str(lock)]),
        ("PyTorch", [TORCH.search(lock.read_text("utf-8"))[1]]),
        *((str(file.relative_to(ROOT)), ["-r", str(file)]) for file in further),
        ("ppkit", ["--no-deps", "-e", str(ROOT)]),
    ]


def install(python: Path, what: str, arguments: list[str], log) -> None:
    """One call of pip under one line of progress; SystemExit with its last words if it fails."""
    start, flags = time.monotonic(), shlex.split(os.environ.get("PIP_FLAGS", ""))
    print(f"  {what}: ", end="", flush=True)
    command = [str(python), "-m", "pip", "install", *flags, *arguments]
    log.flush()
    pip = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT)
    print(f"{time.monotonic() - start:.0f} s", flush=True)
    if pip.returncode:
        said = [
            line
            for line in Path(log.name).read_text("utf-8", errors="replace").splitlines()
            if not line.startswith(("WARNING", "DEPRECATION"))
        ]
        sys.exit(
            f"pip could not install {what}; the end of what it said:\n"
            + "\n".join([*said[-LINES_SHOWN:], f"All of it is in {log.name}."])
        )


def create(folder: Path) -> None:
    """An empty environment with pip; what was in the folder goes."""
    venv.create(folder, clear=True, with_pip=True, symlinks=True)


def works(python: Path) -> bool:
    """True if the interpreter is there and starts (the one it links to may have gone)."""
    return python.exists() and subprocess.run([python, "-c", ""]).returncode == 0


def main(folder: str = ".venv", *further: str) -> None:
    """Make the environment in `folder` unless it is there."""
    target, lock, more = (
        ROOT / folder,
        ROOT / "requirements.lock",
        [ROOT / file for file in further],
    )
    stamp, python = target / "made-from", target / "bin" / "python"
    wanted = made_from(target, [lock, *more])
    if stamp.exists() and stamp.read_text("utf-8") == wanted and works(python):
        return
    print(f"Making {folder} (once; a few minutes, most of it PyTorch)", flush=True)
    create(target)
    with open(target / "pip.log", "w", encoding="utf-8") as log:
        for what, arguments in steps(lock, more):
            install(python, what, arguments, log)
    stamp.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
