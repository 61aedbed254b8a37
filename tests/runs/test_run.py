"""A whole run with real kernels: what it leaves, what a failed notebook costs, resuming, Ctrl-C."""

import json
import os
import re
import signal
import subprocess

import nbformat
import psutil
import pytest
from waiting import FAR, until

from ppkit.runs import run, run_folder
from ppkit.verdicts import statements

pytestmark = pytest.mark.processes

GOOD = """\
import os
from ppkit import show
from ppkit.verdicts import ledger
import matplotlib.pyplot as plt
print("seed", SEED)
fig, ax = show.new()
ax.plot([1, 2], [3, 4])
show.finish(fig, "two_points", "A line through two points.", data=ledger.FORMULA)
plt.show()"""
RECORD = """\
page = ledger.Ledger("wang2018", notebook="01_good", profile=PROFILE)
page.record("table1.row5.basic", 18.506, data=ledger.FORMULA)"""
WIDGET = "import ipywidgets\nshow.control(print, eps=ipywidgets.FloatSlider(1.0))"
THREADS = (
    'print("threads", os.environ["OMP_NUM_THREADS"], "source", os.environ.get("PPKIT_SOURCE"))'
)
UNWRITABLE_HOME = "/proc/ppkit-has-no-home"


@pytest.fixture(scope="module")
def ran(shared_project):
    """One run of three notebooks, of which two fail, with a HOME that cannot be written."""
    shared_project.add("01_good", "# Good\n$$\\frac{\\epsilon}{2}$$", GOOD, RECORD, WIDGET, THREADS)
    shared_project.add("02_raises", "## Where it breaks", "1 / 0", "print('never')")
    shared_project.add(
        "03_dies", "import os, signal", "os.kill(os.getpid(), signal.SIGKILL)", parameters=None
    )
    done = shared_project.run(
        "reproduce", "-p", "SEED", "7", "--data", "standin", HOME=UNWRITABLE_HOME
    )
    return shared_project, done


def read(path):
    return json.loads(path.read_text("utf-8"))


def test_one_failed_notebook_does_not_lose_the_others(ran):
    project, done = ran
    assert done.returncode == 1
    assert "02_raises failed in code cell [3]: ZeroDivisionError: division by zero" in done.stderr
    assert "03_dies failed in code cell [2]: the kernel died" in done.stderr
    about = read(project.latest / "run.json")["notebooks"]
    assert {name: notebook["status"] for name, notebook in about.items()} == {
        "01_good": "done",
        "02_raises": "failed",
        "03_dies": "failed",
    }
    assert about["02_raises"]["cell"] == 3
    assert any("1 / 0" in line for line in about["02_raises"]["traceback"])
    assert "\x1b" not in (project.latest / "run.json").read_text()


def test_run_json_says_what_ran_and_no_path_or_host(ran):
    project, _ = ran
    text = (project.latest / "run.json").read_text("utf-8")
    about = json.loads(text)
    assert str(project.folder) not in text and os.uname().nodename not in text
    assert (about["profile"], about["data"], about["state"]) == (
        "quick",
        "standin",
        "with failures",
    )
    assert {"python", "torch", "numpy"} <= set(about["versions"]) and about["machine"]["cores"] >= 1
    good = about["notebooks"]["01_good"]
    assert good["parameters"] == {"PROFILE": "quick", "SEED": 7, "RATE": 0.5, "NAME": ""}
    assert 50 < good["peak_memory_mb"] < 2000 and good["seconds"] > 0


def test_parameters_threads_and_source_reach_the_kernel(ran):
    project, _ = ran
    cells = nbformat.read(project.latest / "notebooks" / "01_good.ipynb", as_version=4).cells
    printed = "".join(
        output.get("text", "") for cell in cells for output in cell.get("outputs", [])
    )
    assert "seed 7\n" in printed
    assert printed.endswith("threads 1 source standin\n")


def test_claims_are_merged_and_pictures_kept(ran):
    project, _ = ran
    merged = read(project.latest / "claims.json")
    decided = [row for row in merged["claims"] if row["data"]]
    assert [(row["id"], row["verdict"], row["notebook"]) for row in decided] == [
        ("wang2018.table1.row5.basic", "reproduced", "01_good")
    ]
    claim = statements.claims("wang2018")["wang2018.table1.row5.basic"]
    assert decided[0]["rule_digest"] == claim.rule_digest
    assert merged["schema"] == read(project.latest / "claims" / "01_good.json")["schema"] == 1
    assert (
        len(merged["claims"]) >= 32
        and merged["run"]["id"] == read(project.latest / "run.json")["id"]
    )
    assert {file.name for file in (project.latest / "figures").iterdir()} == {
        "two_points.png",
        "two_points.svg",
        "two_points.json",
    }


def test_the_index_shows_failures_verdicts_and_pictures_and_fetches_nothing(ran):
    project, _ = ran
    page = (project.latest / "index.html").read_text("utf-8")
    assert "<b>02_raises failed</b>" in page and "ZeroDivisionError: division by zero" in page
    assert "the kernel died" in page
    assert "● reproduced <b>1</b>" in page and 'src="figures/two_points.png"' in page
    assert 'href="html/01_good.html"' in page
    assert "http" not in page and "<script src" not in page and "<link" not in page
    assert not re.search(
        r"<(tr|section|figure)[^>]* hidden", page
    )  # a browser without scripts shows every row


def test_latest_is_a_relative_link_to_the_newest_run(ran):
    project, _ = ran
    assert (
        project.latest.is_symlink()
        and os.readlink(project.latest) == read(project.latest / "run.json")["id"]
    )


def test_the_same_command_reruns_only_what_failed_then_a_finished_run_is_not_touched(ran):
    project, _ = ran
    first = project.latest.resolve()
    kept = (first / "notebooks" / "01_good.ipynb").stat().st_mtime_ns
    again = project.run("reproduce", "-p", "SEED", "7", "--data", "standin")
    assert again.returncode == 1 and "1 of 3 notebooks are there" in again.stdout
    assert project.latest.resolve() == first
    assert (first / "notebooks" / "01_good.ipynb").stat().st_mtime_ns == kept
    assert len(read(first / "claims.json")["claims"]) >= 32


def test_a_run_with_failures_is_no_reference(ran):
    project, _ = ran
    refused = project.run("reference", "latest")
    assert refused.returncode == 2 and "is not finished but with failures" in refused.stderr
    assert not (project.folder / "figures" / "claims.json").exists()


WAITS = """\
import pathlib, subprocess, time
child = subprocess.Popen(['sleep', '3000'])
print('waiting')"""
UNTIL = "while not pathlib.Path('go').exists():\n    time.sleep(0.05)\nchild.kill()"


def start_and_wait(project):
    """Start `ppkit reproduce` and return it, and all its processes, once a notebook has started its
    `sleep`."""
    command, environment = project.command("reproduce", "--jobs", "1")
    parent = subprocess.Popen(
        command,
        env=environment,
        cwd=project.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    def family():
        assert parent.poll() is None, parent.communicate()
        found = psutil.Process(parent.pid).children(recursive=True)
        return found if any(_is_sleep(process) for process in found) else None

    return parent, until(family, "a notebook that waits")


def _is_sleep(process):
    try:
        return process.name() == "sleep"
    except psutil.NoSuchProcess:
        return False


def gone(family):
    """Wait until all of them have ended; a process that nobody has asked for its end counts as
    ended."""
    until(lambda: all(_has_ended(process) for process in family))


def _has_ended(process):
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_ctrl_c_ends_all_leaves_no_kernel_and_the_same_command_goes_on(project):
    project.add("01_quick", "print('done')", parameters=None)
    project.add("02_waits", WAITS, UNTIL, parameters=None)
    parent, family = start_and_wait(project)
    assert len(family) >= 3  # worker, kernel, the kernel's own child
    parent.send_signal(signal.SIGINT)
    _, said = parent.communicate(timeout=FAR)
    gone(family)  # though the notebook's loop and its `sleep` would go on
    assert parent.returncode == 130
    assert [line for line in said.splitlines() if line] == [
        f"stopped: runs/{os.readlink(project.latest)} keeps what is finished; "
        "the same command goes on with the rest"
    ]
    about = read(project.latest / "run.json")
    assert (about["state"], about["notebooks"]["02_waits"]["status"]) == (
        "interrupted",
        "interrupted",
    )
    assert "Not run to the end:" in (project.latest / "index.html").read_text("utf-8")
    kept = (project.latest / "notebooks" / "01_quick.ipynb").stat().st_mtime_ns

    (project.folder / "notebooks" / "go").touch()
    first = project.latest.resolve()
    resumed = project.run("reproduce")
    assert resumed.returncode == 0, resumed.stderr
    assert "1 of 2 notebooks are there" in resumed.stdout and project.latest.resolve() == first
    assert (first / "notebooks" / "01_quick.ipynb").stat().st_mtime_ns == kept
    assert read(first / "run.json")["state"] == "finished"

    key = read(first / "run.json")["key"]
    assert run_folder.find_unfinished(project.folder / "runs", key, run.Run) is None
