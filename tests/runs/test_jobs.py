"""The memory of a notebook's whole tree of processes is measured, told, and planned with."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
from waiting import FAR

from ppkit.runs import environment, jobs, run, run_folder, worker
from ppkit.runs.worker import Children

pytestmark = pytest.mark.processes

MB, GB = environment.MB, environment.GB
linux_only = pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere shared pages count in each process"
)

HOLDS = """\
import os, subprocess, sys
held = bytearray(os.urandom(1)) * (200 * 2**20)
if sys.argv[1] == "shared":
    child = os.fork()
else:
    hold = "held = b'1' * (200 * 2**20); print(flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", hold],
                             stdin=subprocess.PIPE).pid
if child:
    print(flush=True)
sys.stdin.read()"""


@linux_only
@pytest.mark.parametrize("how, at_least, below", [("shared", 200, 350), ("each its own", 400, 550)])
def test_the_memory_of_a_tree_counts_every_process_and_a_shared_page_once(how, at_least, below):
    parent = subprocess.Popen(
        [sys.executable, "-c", HOLDS, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        for _ in range(1 if how == "shared" else 2):
            parent.stdout.readline()
        assert at_least * MB <= environment.memory_of(parent.pid) < below * MB
    finally:
        parent.communicate(timeout=FAR)
    assert environment.memory_of(parent.pid) == 0


def test_a_notebook_is_told_the_memory_of_its_whole_tree(project):
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
        if running.running["01_a"].peak > 400 * MB:
            path.with_name("go").touch()

    with Children() as running:
        running.start("01_a", jobs.Job(folder, "01_a", task, None, None).begin())
        done = None
        while done is None:
            done = running.next_event(meanwhile=go_when_measured)[1].get("done")
    folder.release()
    assert done["status"] == "done" and 400 < done["peak_memory_mb"] < 1000


def test_looking_at_the_memory_costs_a_hundredth_of_a_core_at_most(monkeypatch):
    looks, now = [], SimpleNamespace(wall=0.0, spent=0.0)

    def look(pid):
        now.spent += cost
        now.wall += cost
        looks.append(now.wall)
        return 7

    monkeypatch.setattr(environment, "memory_of", look)
    clock = SimpleNamespace(monotonic=lambda: now.wall, thread_time=lambda: now.spent)
    monkeypatch.setattr(worker, "time", clock)
    for cost, at_most in ((0.001, 401), (0.5, 3)):
        looks.clear()
        measured = Children()
        now.wall, now.spent = 0.0, 0.0
        process = SimpleNamespace(pid=1)
        measured.running["a"] = worker.Child(process, None, None, 0.0)
        while now.wall < 100:
            measured._measure()
            now.wall += 0.01
        assert measured.running["a"].peak == 7
        assert 2 <= len(looks) <= at_most and now.spent <= 0.01 * 100 + cost


class FakeChildren(Children):
    """Workers that do nothing for four cells; how many there were together, at most."""

    together, order = 0, []

    def start(self, name, spec):
        self.running[name] = 0
        type(self).together = max(self.together, len(self.running))
        self.order.append(name)

    def next_event(self, meanwhile=None):
        name = min(self.running, key=self.running.get)
        self.running[name] += 1
        if self.running[name] == 5:
            del self.running[name]
            return name, {"done": {"status": "done", "seconds": 0.0, "peak_memory_mb": 1}}
        return name, {"cell": self.running[name]}

    def __exit__(self, *_):
        pass


@pytest.mark.parametrize(
    "profile, cores, gigabytes, at_once, together",
    [
        ("quick", 2, 64, None, 2),
        ("quick", 1, 64, None, 1),
        ("quick", 8, 1, None, 1),  # one always runs, whatever it needs
        ("quick", 8, 4, None, 1),
        ("quick", 8, 5, None, 2),
        ("paper", 8, 64, None, 1),
        ("paper", 8, 64, 3, 3),
        ("quick", 1, 1, 3, 3),
    ],
)
def test_as_many_at_once_as_the_profile_the_cores_and_the_memory_allow(
    project, monkeypatch, profile, cores, gigabytes, at_once, together
):
    for name in ("01_a", "02_b", "03_c"):
        project.add(name, "print(1)", parameters=None)

    class Fake(FakeChildren):
        order = []

    monkeypatch.setattr(run, "Children", Fake)
    monkeypatch.setattr(environment, "cores", lambda: cores)
    monkeypatch.setattr(environment, "memory_available", lambda: gigabytes * GB)
    run.reproduce([], profile=profile, at_once=at_once)
    assert Fake.order == ["01_a", "02_b", "03_c"] and Fake.together == together
