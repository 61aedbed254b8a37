"""As many jobs at once as this machine has room for."""

import pytest

from ppkit.runs import environment, run
from ppkit.runs.children import Children

pytestmark = pytest.mark.processes

MB, GB = environment.MB, environment.GB


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
