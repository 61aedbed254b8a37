"""Who is listened to, of all who report."""

import pytest
from network_runs import made, small_rows

from spnn_system.roles.coordinator import Coordinator


class Written:
    """An endpoint that only writes down what the coordinator says."""

    def __init__(self):
        self.said = []

    def call(self, role, method, said, *, timeout=None):
        self.said.append((role, said))
        return {}


def test_a_process_of_before_a_resumption_is_told_to_stop_and_not_listened_to(tmp_path):
    conf = made(tmp_path / "it", small_rows())
    coordinator = Coordinator(conf, Written())
    hello = {
        "kind": "hello",
        "config": conf.digest,
        "columns": 3,
        "resume": False,
        "saved": [],
        "session": "a" * 16,
    }
    assert coordinator.roster.hear("A", hello) == {}
    assert coordinator.roster.hear("A", {"kind": "alive", "step": 2, "session": "a" * 16}) == {
        "saved": None
    }
    for said in (
        {"kind": "alive", "step": 6},
        {"kind": "saved", "step": 6},
        {"kind": "stopped", "why": "error", "role": None},
    ):
        assert (
            "started anew without this process"
            in coordinator.roster.hear("A", {**said, "session": "b" * 16})["stop"]
        )
    assert coordinator.roster.step == 2 and len(coordinator.roster._reports) == 1


def test_a_hello_is_taken_once(tmp_path):
    conf = made(tmp_path / "it", small_rows())
    coordinator = Coordinator(conf, Written())
    hello = {
        "kind": "hello",
        "config": conf.digest,
        "columns": 3,
        "resume": False,
        "saved": [],
        "session": "a" * 16,
    }
    refused = [
        ("A", {"kind": "alive", "step": 0, "session": "a" * 16}, "holder A must say hello first"),
        None,
        ("A", {**hello, "session": "b" * 16}, "holder A has said hello already"),
        ("A", hello, "holder A has said hello already"),
    ]
    for each in refused:
        if each is None:
            assert coordinator.roster.hear("A", hello) == {}
            continue
        with pytest.raises(ValueError, match=each[2]):
            coordinator.roster.hear(*each[:2])
    assert len(coordinator.roster._reports) == 1
    stopped = {"kind": "stopped", "why": "changed", "role": None, "session": "c" * 16}
    # a role may give up before its hello
    assert coordinator.roster.hear("B", stopped) == {} and len(coordinator.roster._reports) == 2
    assert "stop" in coordinator.roster.hear("A", stopped) and len(coordinator.roster._reports) == 2
    assert (
        coordinator.roster.hear("A", {"kind": "alive", "step": 2, "session": "a" * 16})
        == {"saved": None}
        and coordinator.roster.step == 2
    )
