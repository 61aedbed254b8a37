"""However a run ends, nothing that a notebook has started goes on.

Not what left its session, and not what lost its parent.
"""

import io
import json
import os
import signal
import subprocess
import sys
import uuid
from types import SimpleNamespace

import psutil
import pytest
from waiting import FAR, until

from ppkit import process_tree
from ppkit.runs import children, environment, jobs, run, run_folder
from ppkit.runs.children import Child, Children
from ppkit.runs.warm import WarmParent
from ppkit.runs.worker import FAILED

pytestmark = pytest.mark.processes

STARTS = """\
import pathlib, subprocess, sys, time
again = '''import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if not os.fork():
    os.execvp("sleep", ["sleep", sys.argv[1]])'''
subprocess.Popen(["sleep", "{seconds}.5"], env={{}})
subprocess.Popen(["sleep", "{seconds}"])
subprocess.run([sys.executable, "-c", again, "{seconds}"], start_new_session=True)"""
WAITS = "while not pathlib.Path('go').exists():\n    time.sleep(0.05)"
linux_only = pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere a killed kernel lasts a second longer"
)


@pytest.fixture
def seconds():
    """How long the sleepers of this test would sleep: a number of its own, to know them by."""
    number = f"9{uuid.uuid4().int % 10**12:012d}"
    yield number
    for process in sleepers(number) + sleepers(f"{number}.5"):
        process.kill()


def sleepers(seconds: str) -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if process.info["cmdline"] == ["sleep", seconds]
    ]


def ended(processes) -> bool:
    return not any(
        process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes
    )


@pytest.fixture
def waiting(project, seconds, request):
    """`ppkit reproduce` on two notebooks, of which the first waits; (runner, all its processes).

    Of three sleepers one left the session, lost its parent and does not hear SIGTERM; and one, of
    half a second more, lost its environment.
    """
    project.add("01_waits", f"{STARTS.format(seconds=seconds)}\n{WAITS}", parameters=None)
    project.add("02_quick", "print(2)", parameters=None)
    how = getattr(request, "param", "--warm")
    command, environment = project.command("reproduce", "--jobs", "1", how)
    parent = subprocess.Popen(
        command,
        env=environment,
        cwd=project.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        # Worker, kernel, three sleepers. The one that lost its parent belongs to the worker only
        # when that parent has ended.
        until(lambda: len(sleepers(seconds) + sleepers(f"{seconds}.5")) == 3)
        started = set(sleepers(seconds) + sleepers(f"{seconds}.5"))
        until(lambda: started <= set(psutil.Process(parent.pid).children(recursive=True)))
        family = psutil.Process(parent.pid).children(recursive=True)
        yield parent, family
    finally:
        parent.kill()
        parent.communicate(timeout=FAR)


@linux_only
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_nothing_outlives_the_runner(waiting, seconds, number):
    parent, family = waiting
    parent.send_signal(number)
    parent.communicate(timeout=FAR)
    assert parent.returncode == (-signal.SIGKILL if number == signal.SIGKILL else 130)
    until(lambda: ended(family) and not sleepers(seconds) and not sleepers(f"{seconds}.5"))


@linux_only
@pytest.mark.parametrize(
    "waiting, code, least",
    [
        ("--warm", "", 20),  # a forked worker is no child of the runner, and shares most pages
        ("--no-warm", " with code -9", 50),
    ],
    indirect=["waiting"],
)
def test_nothing_outlives_a_killed_worker_and_the_next_notebook_runs(
    project, waiting, seconds, code, least
):
    parent, family = waiting
    [worker] = psutil.Process(parent.pid).children()
    if not code:
        [worker] = worker.children()
    worker.kill()
    _, said = parent.communicate(timeout=FAR)
    assert parent.returncode == 1
    assert (
        f"01_waits failed in code cell [1]: its process ended{code} before the notebook did"
    ) in said
    about = json.loads((project.latest / "run.json").read_text("utf-8"))["notebooks"]
    assert about["02_quick"]["status"] == "done"
    assert about["01_waits"]["peak_memory_mb"] > least  # what was measured until then is kept
    # without a kernel above it and without a mark nobody knows whose it is
    unknown = sleepers(f"{seconds}.5")
    assert ended(process for process in family if process not in unknown)
    assert not sleepers(seconds)


@linux_only
def test_a_notebook_that_ends_leaves_nothing_running(project, seconds):
    project.add("01_a", STARTS.format(seconds=seconds), parameters=None)
    done = project.run("reproduce")
    assert done.returncode == 0, done.stderr
    assert not sleepers(seconds)


def test_what_a_killed_worker_left_ends_before_another_begins_on_the_same_spec(tmp_path):
    spec = tmp_path / "spec.json"
    told = {"notebook": str(tmp_path / "a.ipynb"), "folder": str(tmp_path), "name": "a"}
    spec.write_text(json.dumps(told | {"source": None, "threads": 1, "limit": None}))
    mine, other = (
        subprocess.Popen(["sleep", "99999"], env={**os.environ, process_tree.MARK: mark})
        for mark in (str(spec), "another")
    )
    try:
        with Children() as running:
            running.start("a", spec)
            assert not psutil.pid_exists(mine.pid)
        assert other.poll() is None
    finally:
        other.kill()
        mine.wait(timeout=FAR), other.wait(timeout=FAR)


@pytest.mark.parametrize("left", [b"\xff\xfe bad\n", b"killed\n"])
def test_a_worker_that_ends_within_a_line_has_failed_and_nobody_waits_for_it(tmp_path, left):
    spec = tmp_path / "spec.json"
    (tmp_path / "stderr.txt").write_bytes(left)
    process = SimpleNamespace(pid=os.getpid(), wait=lambda: -9)
    says = io.BytesIO(b'{"cell": 1}\n{"do')
    child = Child(process, io.BytesIO(), says, children.FRESH, spec, None, 0.0)
    running = Children()
    running._listen("01_a", child)
    assert running._events.get_nowait() == ("01_a", {"cell": 1})
    _, last = running._events.get_nowait()
    assert last["done"]["status"] == FAILED and "with code -9" in last["done"]["error"]
    assert len(last["done"]["traceback"]) == 1


def test_a_worker_that_somebody_else_has_waited_for_is_known_to_have_ended():
    """Else Python takes it to run still, and warns when it is forgotten."""
    process = psutil.Popen([sys.executable, "-c", ""])
    os.waitpid(process.pid, 0)
    assert children._code(process) == "" and process.returncode is not None


@pytest.mark.parametrize("kernel", [children.FORKED, children.FRESH])
def test_a_notebook_is_told_the_memory_of_its_whole_tree(project, kernel):
    code = (
        "import pathlib, subprocess, sys, time\n"
        "hold = \"held = b'1' * (200 * 2**20); input()\"\n"
        "held = [subprocess.Popen([sys.executable, '-c', hold], stdin=subprocess.PIPE)\n"
        "        for _ in range(2)]\n"
        "while not pathlib.Path('go').exists():\n    time.sleep(0.05)"
    )
    path = project.add("01_a", code, parameters=None)
    record = {"profile": "quick", "notebooks": {"01_a": {"status": "waiting"}}}
    folder = run_folder.create(project.folder / "runs", record, run.Run)
    task = run_folder.Task(path, {})

    def go_when_measured():
        if running.running["01_a"].peak > 400 * environment.MB:
            path.with_name("go").touch()

    is_forked = kernel == children.FORKED
    with WarmParent([path]) as parent, Children(parent=parent if is_forked else None) as running:
        running.start("01_a", jobs.Job(folder, "01_a", task, None, None).begin())
        done = None
        while done is None:
            done = running.next_event(meanwhile=go_when_measured)[1].get("done")
    folder.release()
    assert done["status"] == "done" and 400 < done["peak_memory_mb"] < 1000
    assert done["kernel"] == kernel


def test_looking_at_the_memory_costs_a_hundredth_of_a_core_at_most(monkeypatch):
    looks, now = [], SimpleNamespace(wall=0.0, spent=0.0)

    def look(pid):
        now.spent += cost
        now.wall += cost
        looks.append(now.wall)
        return 7

    monkeypatch.setattr(environment, "memory_of", look)
    clock = SimpleNamespace(monotonic=lambda: now.wall, thread_time=lambda: now.spent)
    monkeypatch.setattr(children, "time", clock)
    for cost, at_most in ((0.001, 401), (0.5, 3)):
        looks.clear()
        measured = Children()
        now.wall, now.spent = 0.0, 0.0
        process = SimpleNamespace(pid=1)
        measured.running["a"] = Child(process, None, None, children.FRESH, None, None, 0.0)
        while now.wall < 100:
            measured._measure()
            now.wall += 0.01
        assert measured.running["a"].peak == 7
        assert 2 <= len(looks) <= at_most and now.spent <= 0.01 * 100 + cost
