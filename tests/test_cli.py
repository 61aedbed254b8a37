"""The command line: what it refuses, in one sentence on stderr, with exit code 2 and no
traceback."""

import shlex
import subprocess
import sys

import pytest
from waiting import FAR

from ppkit.verdicts import ledger, rows


@pytest.fixture
def ppkit(ppkit, project):
    """The command on a project of two notebooks."""
    project.add("00_start", "print(1)", parameters=None)
    project.add("01_paper", "print(SEED)")
    return ppkit


REFUSED = [
    (["reproduce", "nope"], "unknown notebook 'nope': there are 00_start, 01_paper"),
    (
        ["execute", "solutions/01_paper"],
        "unknown notebook 'solutions/01_paper': there are 00_start, 01_paper",
    ),
    (["reproduce", "--profile", "big"], "unknown profile 'big': there are quick, paper"),
    (["reproduce", "--data", "fake"], "unknown data 'fake': there are available, real, standin"),
    (
        ["reproduce", "-p", "SED", "1"],
        "unknown parameter 'SED': the chosen notebooks have NAME, PROFILE, RATE, SEED",
    ),
    (["reproduce", "00_start", "-p", "SEED", "1"], "unknown parameter 'SEED': 00_start has none"),
    (["reproduce", "-p", "SEED", "one"], "SEED must be of type int, as its default 0, got 'one'"),
    (
        ["reproduce", "-p", "RATE", "nan"],
        "RATE must be of type float, as its default 0.5, got 'nan'",
    ),
    (
        ["reproduce", "-p", "RATE", "1e999"],
        "RATE must be of type float, as its default 0.5, got '1e999'",
    ),
    (["reproduce", "-p", "SEED", "1", "-p", "SEED", "2"], "SEED is given twice: once is enough"),
    (
        ["reproduce", "01_paper", "--grid", "SEED=0..1", "-p", "SEED", "3"],
        "SEED is given twice: once is enough",
    ),
    (["reproduce", "-p", "SEED"], "-p takes a name and a value, for example `-p SEED 1`"),
    (
        ["reproduce", "01_paper", "--limit", "1"],
        "--scheduler and --limit are for a batch: give --grid, --points, --settings",
    ),
    (
        ["claims"],
        "there is no figures/claims.json yet, `ppkit reference RUN` makes a run the reference; "
        "no run has any yet, `ppkit reproduce` makes one",
    ),
    (["claims", "latest"], "unknown run 'latest': there are none yet"),
    (
        ["claims", "wu2020.psi.optimum_fraud"],
        "wu2020.psi.optimum_fraud is a row, not a run: "
        "type ppkit claims --rows wu2020.psi.optimum_fraud",
    ),
    (["claims", "wu2020"], "wu2020 is a paper, not a run: type ppkit claims --rows wu2020"),
    (["compare", "latest", "20990101"], "unknown run 'latest': there are none yet"),
    (["reference", "20990101"], "unknown run '20990101': there are none yet"),
]


@pytest.mark.parametrize(
    "arguments, sentence", REFUSED, ids=[" ".join(arguments) for arguments, _ in REFUSED]
)
def test_bad_input_gets_one_sentence_and_exit_code_2(ppkit, project, arguments, sentence):
    assert ppkit(*arguments) == (2, "", f"ppkit: {sentence}\n")
    assert not (project.folder / "runs").exists()


def test_unknown_option_and_command_exit_2_without_a_traceback(ppkit):
    for arguments, named in (
        (["reproduce", "--frobnicate"], "--frobnicate"),
        (["frobnicate"], "frobnicate"),
        (["reproduce", "--jobs", "many"], "--jobs"),
        (["reproduce", "--jobs", "0"], "--jobs"),
        (["reproduce", "01_paper", "--grid", "SEED=0", "--limit", "0"], "--limit"),
        (["reproduce", "01_paper", "--grid", "SEED=0", "--limit", "inf"], "--limit"),
    ):
        code, _, said = ppkit(*arguments)
        assert code == 2 and "Traceback" not in said
        assert said.splitlines()[-1].startswith("Error: ") and named in said.splitlines()[-1]


def test_output_folder_that_cannot_be_made(ppkit, project):
    (project.folder / "runs").write_text("a file where the folder should be")
    code, _, said = ppkit("reproduce")
    assert code == 2
    assert said.startswith("ppkit: cannot write into ") and said.endswith("/runs: File exists\n")


def test_read_only_output_folder(ppkit):
    code, _, said = ppkit("reproduce", "--runs", "/proc/ppkit-runs")
    assert (code, said) == (
        2,
        "ppkit: cannot write into /proc/ppkit-runs: No such file or directory\n",
    )


def test_a_notebook_that_is_no_notebook(ppkit, project):
    (project.folder / "notebooks" / "03_broken.ipynb").write_text('{"cells": [')
    code, _, said = ppkit("reproduce")
    assert code == 2 and said.startswith(
        "ppkit: 03_broken.ipynb is not a notebook that can be read"
    )


def test_a_parameters_cell_with_more_than_literals(ppkit, project):
    project.add("04_stale", "print(1)", parameters="N = 3\nTWICE = 2 * N")
    code, _, said = ppkit("reproduce")
    assert (code, said) == (
        2,
        "ppkit: 04_stale.ipynb: the parameters cell may hold numbers, texts, True and False only, "
        "got 'TWICE = 2 * N'\n",
    )


def test_data_status_names_every_data_set(ppkit):
    from ppkit import datasets

    code, said, _ = ppkit("data", "status")
    assert code == 0 and all(name in said for name in datasets.NAMES)


TABLES = [("claims",), ("claims", "--rows", "wu2020"), ("data", "status")]
SAY_WHAT_IS_LOADED = """
import sys
from ppkit import cli
try:
    cli.main()
finally:
    heavy = {"torch", "scipy", "pandas", "pyarrow", "sklearn", "matplotlib", "numba"}
    heavy |= {"numpy", "psutil"} if sys.argv[1] == "claims" else set()
    print(*sorted(heavy & set(sys.modules)), end="", file=sys.stderr)
"""


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize("arguments", TABLES, ids=" ".join)
def test_a_table_of_what_is_kept_loads_no_library_of_a_method(project, arguments):
    rows.write(project.folder / "figures/claims.json", ledger.merge([]), run={}, pictures={})
    ended = subprocess.run(
        [sys.executable, "-c", SAY_WHAT_IS_LOADED, *arguments], capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert len(ended.stdout.splitlines()) > 10


def test_a_broken_pyproject_is_named(ppkit, project):
    (project.folder / "pyproject.toml").write_text("[tool.ppkit\n")
    code, _, said = ppkit("reference")
    assert code == 2 and said.startswith(f"ppkit: {project.folder / 'pyproject.toml'} is no TOML: ")


def test_without_a_project_the_first_result_is_refused_before_it_is_computed(ppkit, monkeypatch):
    def outside() -> None:
        raise FileNotFoundError("no ppkit project at or above /here: change into the clone")

    monkeypatch.setattr("ppkit.project.root", outside)
    monkeypatch.setattr("ppkit.first.run", None)
    assert ppkit("first") == (
        2,
        "",
        "ppkit: no ppkit project at or above /here: change into the clone\n",
    )


@pytest.mark.processes
@pytest.mark.slow
def test_a_closed_output_is_no_error(project):
    arguments = ["budget", "--epsilon", ".5", "--sample-rate", ".01", "--uploads", "5"]
    command, environment = project.command(*arguments)
    closed = f"{shlex.join(command)} >&- 2>&-"
    assert subprocess.run(["sh", "-c", closed], env=environment, timeout=FAR).returncode == 0


def test_help_is_the_answer_to_nothing(ppkit):
    code, out, err = ppkit()
    assert all(
        name in out + err
        for name in ("reproduce", "execute", "reference", "claims", "compare", "data")
    )
