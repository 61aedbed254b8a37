"""What a worker says of the notebook that it executes."""

import errno
import os

import nbformat
import pytest

from ppkit.runs import catalogue, json_files, worker


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
def test_a_cell_that_is_to_be_skipped_is_none_that_did_not_run(project):
    file = project.add("01_skips", "print(1)", "print(2)", "print(3)", parameters=None)
    content = json_files.read_json(file)
    code = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    code[1]["metadata"]["tags"] = [catalogue.SKIPPED]
    json_files.write_json(file, content)
    assert catalogue.n_code_cells(file) == len(code) - 1
    assert project.run("reproduce", "01_skips").returncode == 0


@pytest.mark.processes
def test_a_notebook_may_end_itself_in_its_last_cell(project):
    project.add("01_ends", "print(1)", "import sys\nsys.exit()", "# The end", "", parameters=None)
    assert project.run("reproduce", "01_ends").returncode == 0


@pytest.mark.processes
def test_what_a_short_notebook_holds_is_known_before_its_kernel_ends(tmp_path):
    """Whoever looks a few times a second sees nothing of it on a busy machine."""
    new = nbformat.v4.new_code_cell
    cells = [new(one) for one in ("print(1)", "held = b'x' * 200_000_000", "print(3)", "")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "01_short.ipynb")
    for folder in (".cache/01_short", "notebooks", "html"):
        (tmp_path / folder).mkdir(parents=True)
    spec = {"notebook": str(tmp_path / "01_short.ipynb"), "folder": str(tmp_path)}
    said = []
    done = worker.run(spec | {"name": "01_short", "parameters": {}}, said.append)
    assert done["status"] == worker.DONE, done
    assert [event["cell"] for event in said if "held" in event] == [1, 3]
    assert said[2]["held"] - said[0]["held"] > 150_000_000
