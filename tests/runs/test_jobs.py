"""The memory of a notebook's whole tree of processes is measured, told, and planned with."""

import subprocess
import sys
import tomllib
from types import SimpleNamespace

import pytest
from house import ROOT
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
    folder = run_folder.create(project.folder / "runs", record)

    def go_when_measured():
        if running.peak["01_a"] > 400 * MB:
            path.with_name("go").touch()

    with Children() as running:
        running.start("01_a", jobs.Job(folder, "01_a", path, {}, None).begin())
        done = None
        while done is None:
            done = running.next_event(meanwhile=go_when_measured)[1].get("done")
    folder.release()
    assert done["status"] == "done" and 400 < done["peak_memory_mb"] < 1000
    assert done["peak_memory_mb"] == round(running.peak["01_a"] / MB)


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
        measured.running["a"], measured.peak["a"] = SimpleNamespace(pid=1), 0
        while now.wall < 100:
            measured._measure()
            now.wall += 0.01
        assert measured.peak == {"a": 7}
        assert 2 <= len(looks) <= at_most and now.spent <= 0.01 * 100 + cost


@pytest.mark.parametrize(
    "free, at_most, several",
    [
        (0.0, 9, 1),  # one always runs, whatever it needs
        (2.4, 9, 1),
        (2.5, 9, 1),
        (3.9, 9, 1),
        (4.0, 9, 2),  # the two largest have room together, whichever run
        (4.9, 9, 2),
        (5.0, 9, 3),
        (64.0, 9, 3),
        (64.0, 2, 2),
    ],
)
def test_as_many_run_at_once_as_fit_should_the_largest_run_together(
    project, monkeypatch, free, at_most, several
):
    (project.folder / "pyproject.toml").write_text(
        "[tool.ppkit.memory]\nsmall = 1024\nlarge = 2560\nmiddle = 1536\n"
    )
    monkeypatch.setattr(environment, "memory_available", lambda: int(free * GB))
    asked = [("small", False), ("large", False), ("middle", False)]
    assert jobs.at_once(asked, at_most) == several


class FakeChildren(Children):
    """Workers that grow in four cells to what they need; what they held together, at most."""

    needs, at_most, together, order = {}, 0, 0, []

    def start(self, name, spec):
        self.running[name] = SimpleNamespace(cells=0, memory=0)
        type(self).together = max(self.together, len(self.running))
        self.order.append(name)

    def next_event(self, meanwhile=None):
        name = min(self.running, key=lambda name: self.running[name].cells)
        self.running[name].cells += 1
        if self.running[name].cells == 5:
            del self.running[name]
            return name, {"done": {"status": "done", "seconds": 0.0, "peak_memory_mb": 1}}
        self.running[name].memory += self.needs[name] // 4
        type(self).at_most = max(self.at_most, self.used())
        return name, {"cell": self.running[name].cells}

    def used(self):
        return sum(child.memory for child in self.running.values())

    def __exit__(self, *_):
        pass


@pytest.mark.parametrize("gigabytes, together", [(1, 1), (3, 1), (4, 1), (5, 2), (64, 2)])
def test_a_small_machine_never_holds_two_too_large_together(
    project, monkeypatch, gigabytes, together
):
    megabytes = {"01_a": 600, "02_b": 2300, "03_c": 1500, "04_d": 900, "05_e": 2300, "06_f": 700}
    for name in megabytes:
        project.add(name, "print(1)", parameters=None)
    (project.folder / "pyproject.toml").write_text(
        "[tool.ppkit.memory]\n" + "".join(f"{name} = {size}\n" for name, size in megabytes.items())
    )

    class Fake(FakeChildren):
        order = []
        needs = {name: size * MB for name, size in megabytes.items()}

    monkeypatch.setattr(run, "Children", Fake)
    monkeypatch.setattr(environment, "cores", lambda: 8)
    monkeypatch.setattr(environment, "memory_available", lambda: gigabytes * GB)
    run.reproduce([])
    assert Fake.order == list(megabytes) and Fake.together == together
    assert Fake.at_most <= max(gigabytes * GB, 2300 * MB)


def test_as_many_at_once_as_the_profile_and_the_cores_allow(project, monkeypatch):
    for name in ("01_a", "02_b", "03_c"):
        project.add(name, "print(1)", parameters=None)
    seen = {}
    cases = (
        ("quick", 8, None),
        ("quick", 1, None),
        ("paper", 8, None),
        ("paper", 8, 3),
        ("quick", 1, 3),
    )
    for profile, cores, at_once in cases:

        class Fake(FakeChildren):
            needs, order = {"01_a": 4, "02_b": 4, "03_c": 4}, []

        monkeypatch.setattr(run, "Children", Fake)
        monkeypatch.setattr(environment, "cores", lambda: cores)
        monkeypatch.setattr(environment, "memory_available", lambda: 64 * GB)
        run.reproduce([], profile=profile, at_once=at_once, fresh=True)
        seen[profile, cores, at_once] = Fake.together
    assert list(seen.values()) == [2, 1, 1, 3, 3]


def test_a_notebook_without_a_measured_peak_or_with_other_parameters_is_planned_as_unknown(
    project, monkeypatch
):
    def fit(megabytes, *notebooks):
        monkeypatch.setattr(environment, "memory_available", lambda: megabytes * MB)
        return jobs.at_once(list(notebooks), 9) == len(notebooks)

    unknown = jobs.MEMORY_UNKNOWN
    for changed in (False, True):
        assert fit(2 * unknown, *[("a", changed)] * 2)
        assert not fit(2 * unknown - 1, *[("a", changed)] * 2)
    (project.folder / "pyproject.toml").write_text("[tool.ppkit.memory]\na = 700\nc = 9000\n")
    assert fit(1400, *[("a", False)] * 2) and not fit(1399, *[("a", False)] * 2)
    assert not fit(2 * unknown - 1, *[("a", True)] * 2)
    assert not fit(17_999, *[("c", True)] * 2) and fit(18_000, *[("c", True)] * 2)
    assert not fit(2 * unknown - 1, *[("d", False)] * 2)


def test_every_notebook_has_a_measured_peak_and_no_other_has():
    table = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["ppkit"]["memory"]
    assert list(table) == sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
    assert all(300 <= megabytes < 8000 for megabytes in table.values())
