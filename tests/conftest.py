"""Tiny projects for the tests of runs: a folder of notebooks made here, and the command line
run on it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch  # noqa: F401  built for CUDA, its import starts a process, which no test may
from hypothesis import settings
from waiting import FAR

from ppkit import cli

# A shell that starts CI in the background ignores Ctrl-C for all its children; the tests of Ctrl-C
# need it heard.
signal.signal(signal.SIGINT, signal.default_int_handler)

# joblib counts cores with a process of its own, unless it is told.
os.environ.setdefault("LOKY_MAX_CPU_COUNT", "1")

# Properties: the same examples on every run and machine, few, and never judged by the clock.
settings.register_profile("ppkit", derandomize=True, deadline=None, max_examples=50, database=None)
settings.load_profile("ppkit")

STARTS_A_PROCESS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}
unmarked = None  # the test that runs now, if it may not start a process


def _watch(event, _arguments):
    if unmarked and event in STARTS_A_PROCESS:
        raise RuntimeError(
            f"{unmarked} starts a process: "
            "mark it @pytest.mark.processes, so that `make check` leaves it out"
        )


sys.addaudithook(_watch)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """A test without the mark `processes` may start none, nor may its fixtures: `make check` runs
    what is left."""
    global unmarked
    unmarked = None if item.get_closest_marker("processes") else item.nodeid
    try:
        return (yield)
    finally:
        unmarked = None


PARAMETERS = 'PROFILE = "quick"\nSEED = 0\nRATE = 0.5\nNAME = ""'


class Project:
    """A project folder of a test: notebooks are added from lists of cells, commands run on it."""

    def __init__(self, folder: Path):
        self.folder = folder
        for part in ("notebooks/solutions", "notebooks/records", "ppkit", "figures"):
            (folder / part).mkdir(parents=True)

    def add(self, name: str, *cells: str, parameters: str | None = PARAMETERS) -> Path:
        """Add a notebook; a cell that begins with # is markdown, all others are code."""
        import nbformat  # slow to import, and most tests need no notebook

        made = (
            [nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]})]
            if parameters
            else []
        )
        for cell in cells:
            new = (
                nbformat.v4.new_markdown_cell if cell.startswith("#") else nbformat.v4.new_code_cell
            )
            made.append(new(cell))
        path = self.folder / "notebooks" / f"{name}.ipynb"
        nbformat.write(nbformat.v4.new_notebook(cells=made), path)
        return path

    def command(self, *arguments: str, **environment: str) -> tuple[list[str], dict[str, str]]:
        """The command `ppkit ...` on this project, and the environment it runs in."""
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith("PPKIT_")
        }
        return (
            [str(Path(sys.executable).with_name("ppkit")), *arguments],
            {**inherited, "PPKIT_HOME": str(self.folder), **environment},
        )

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
        """Run `ppkit ...` on this project to its end."""
        command, environment = self.command(*arguments, **environment)
        return subprocess.run(
            command, env=environment, cwd=self.folder, capture_output=True, text=True, timeout=FAR
        )

    @property
    def latest(self) -> Path:
        return self.folder / "runs" / "latest"


@pytest.fixture
def project(tmp_path, monkeypatch) -> Project:
    """An empty project, also for code that runs inside the test's own process."""
    for name in [name for name in os.environ if name.startswith("PPKIT_")]:
        monkeypatch.delenv(name)
    made = Project(tmp_path / "project")
    monkeypatch.setenv("PPKIT_HOME", str(made.folder))
    monkeypatch.chdir(made.folder)
    return made


@pytest.fixture
def ppkit(project, monkeypatch, capsys):
    """`ppkit ...` on the test's project, inside this process: (exit code, stdout, stderr)."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["ppkit", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        return ended.value.code or 0, said.out, said.err

    return run


@pytest.fixture(scope="module")
def shared_project(tmp_path_factory) -> Project:
    """A project that the tests of a module share, for runs that take seconds."""
    return Project(tmp_path_factory.mktemp("shared") / "project")


@pytest.fixture
def full(monkeypatch):
    """Makes the disk full for files of one name that are written whole: they open, and take no
    byte."""
    honest = os.open

    def fill(name: str) -> None:
        def opened(path, *more, **settings):
            beside = Path(os.fsdecode(path)).name.startswith(f"{name}.")
            return honest("/dev/full" if beside else path, *more, **settings)

        monkeypatch.setattr(os, "open", opened)

    return fill
