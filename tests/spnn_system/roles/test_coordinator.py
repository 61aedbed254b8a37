"""Who is found silent, hung or at fault, and what does not go on: on simulated time."""

import dataclasses
import subprocess
import sys

import pytest
from network_runs import made, small_rows
from unheard import Unheard
from waiting import Simulated

from spnn_system.roles.coordinator import Coordinator, Ended
from spnn_system.roles.party import BAD_INPUT


def all_here(tmp_path, *, resume=False, saved=None):
    """A coordinator to which all have said hello at 100 s, and its clock.

    saved: steps by role of checkpoints that are good.
    """
    conf, clock = made(tmp_path / "it", small_rows(), timeout=2.0), Simulated(100.0)
    conf.folder_of("coordinator").mkdir(parents=True)
    coordinator = Coordinator(conf, Unheard(), resume=resume, clock=clock)
    for role in ("server", "A", "B"):
        coordinator.roster.hear(
            role,
            {
                "kind": "hello",
                "config": conf.digest,
                "columns": None if role == "server" else 3,
                "resume": resume,
                "saved": (saved or {}).get(role, []),
                "session": SESSION,
            },
        )
    coordinator._wait(lambda: coordinator.roster.all_here)
    return coordinator, clock


SESSION = "a" * 16


def test_who_says_nothing_for_longer_than_the_timeout_is_named_and_nobody_else(tmp_path):
    coordinator, clock = all_here(tmp_path)
    for role in ("server", "A"):
        alive = {"kind": "alive", "step": 0, "session": SESSION}
        clock.at(100.5, lambda role=role: coordinator.roster.hear(role, alive), every=0.5)
    with pytest.raises(Ended, match=r"^holder B gave no sign of life for 2\.0 s: "):
        coordinator._wait(lambda: False)
    # at 102.0 it has had its time, and no more
    assert 102.0 < clock.time < 102.1


def test_a_prediction_that_stops_is_started_again_by_the_same_command(tmp_path):
    coordinator, clock = all_here(tmp_path)
    coordinator.config = dataclasses.replace(coordinator.config, trained=tmp_path)
    for role in ("server", "A"):
        alive = {"kind": "alive", "step": 0, "session": SESSION}
        clock.at(100.5, lambda role=role: coordinator.roster.hear(role, alive), every=0.5)
    with pytest.raises(Ended) as ended:
        coordinator._wait(lambda: False)
    assert str(ended.value) == (
        "holder B gave no sign of life for 2.0 s: the prediction stops; the same command starts it "
        "again"
    )


def test_who_does_not_come_is_named_after_the_time_to_start(tmp_path):
    conf, clock = made(tmp_path / "it", small_rows(), start_timeout=30.0), Simulated(100.0)
    conf.folder_of("coordinator").mkdir(parents=True)
    coordinator = Coordinator(conf, Unheard(), clock=clock)
    with pytest.raises(
        Ended,
        match="^the server and holder A and holder B did not say hello within 30 s: nothing was",
    ):
        coordinator.run()
    assert 130.0 < clock.time < 130.1


@pytest.mark.parametrize(
    ("spoke", "sentence"),
    [
        (0.0, "the server gave no sign of life for 2.0 s"),
        (0.7, "the server gave no sign of life for 2.0 s"),
        (1.9, "holder A could not reach the server for 2.0 s (more in run/A/log.txt)"),
    ],
)
def test_of_who_cannot_be_reached_it_is_said_whether_it_is_silent(tmp_path, spoke, sentence):
    """A says so at 102 s, the server spoke last at 100, 100.7 or 101.9 s; 1.2 s of silence are
    enough.
    """
    coordinator, clock = all_here(tmp_path)
    coordinator.roster.roles["server"].at, clock.time = 100.0 + spoke, 102.0
    with pytest.raises(Ended) as ended:
        coordinator._stopped_by("A", {"kind": "stopped", "why": "unreachable", "role": "server"})
    assert str(ended.value).startswith(f"{sentence}: ")


GOOD = {"server": [0, 2, 4], "A": [0, 2, 4], "B": [0, 2, 4]}


def test_a_run_goes_on_from_the_last_step_that_all_have(tmp_path, capsys):
    coordinator, _ = all_here(tmp_path, resume=True, saved=GOOD | {"A": [0, 2]})
    assert coordinator._first_step() == 2
    assert "the run goes on from step 2\n" in capsys.readouterr().err


def test_a_run_does_not_go_on_where_a_role_has_no_checkpoint(tmp_path):
    coordinator, _ = all_here(tmp_path, resume=True, saved=GOOD | {"B": []})
    with pytest.raises(Ended) as ended:
        coordinator._first_step()
    assert ended.value.code == BAD_INPUT
    assert str(ended.value) == (
        "there is no step that all roles have a valid checkpoint of: start without --resume"
    )


@pytest.mark.processes
def test_the_coordinator_starts_without_torch():
    code = (
        "import sys, spnn_system.roles.coordinator; sys.exit(bool({'torch', 'numpy', 'pandas'} & "
        "set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


class Written:
    """An endpoint that only writes down what the coordinator says."""

    def __init__(self):
        self.said = []

    def call(self, role, method, said, *, timeout=None):
        self.said.append((role, said))
        return {}


def test_the_step_that_a_run_stops_at_is_not_before_the_one_it_goes_on_from(tmp_path):
    coordinator = Coordinator(made(tmp_path / "it", small_rows()), Written())
    for role in ("server", "A", "B"):
        coordinator._take(role, {"kind": "saved", "step": 2})
    assert (coordinator.roster.step, coordinator.roster.resumable) == (2, 2)
