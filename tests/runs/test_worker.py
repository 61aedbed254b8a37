"""What a worker says of the notebook that it executes."""

import errno
import os

import pytest

from ppkit.runs import worker


def test_a_worker_that_cannot_write_says_so(tmp_path):
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path / "01_a.ipynb"))
    assert worker._why(full) == {
        "error": "could not write the run's files: No space left on device"
    }


ENDS = [
    ("import sys\nsys.exit()", "the notebook ended itself here, and 2 code cells did not run"),
    ("raise SystemExit('no rows')", "SystemExit: no rows"),
    ("%notmagic", "CellExecutionError: UsageError: Line magic function `%notmagic` not found."),
    ("assert False", "AssertionError: "),
]


@pytest.mark.processes
@pytest.mark.parametrize("code, said", ENDS, ids=[code for code, _ in ENDS])
def test_a_notebook_that_stops_before_its_last_cell_has_failed_and_says_why(project, code, said):
    project.add("01_ends", "print(1)", code, "print(3)", "print(4)", parameters=None)
    done = project.run("reproduce", "01_ends")
    assert done.returncode == 1
    assert f"01_ends failed in code cell [2]: {said}" in done.stderr


@pytest.mark.processes
def test_a_notebook_may_end_itself_in_its_last_cell(project):
    project.add("01_ends", "print(1)", "import sys\nsys.exit()", "# The end", "", parameters=None)
    assert project.run("reproduce", "01_ends").returncode == 0
