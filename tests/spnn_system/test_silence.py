"""Who is found silent, hung or at fault, and what does not go on: on simulated time."""

import dataclasses

import pytest
from network_runs import made, small_rows
from waiting import FAR, Simulated

from spnn_system import config
from spnn_system.roles import coordinator as coordinators
from spnn_system.roles.coordinator import Coordinator, Ended
from spnn_system.roles.party import BAD_INPUT, Party, failure_of
from spnn_system.run.checkpoints import Changed
from spnn_system.run.journal import SentBefore
from spnn_system.transport.endpoint import Silent


def promised(sentence):
    """(the step it stopped at, the step it goes on from) that a sentence names."""
    words = sentence.replace(";", "").split()
    steps = [int(word) for before, word in zip(words, words[1:]) if before == "step"]
    assert "the run stops at step" in sentence and "--resume` goes on from step" in sentence
    return tuple(steps)


def a_role(tmp_path, clock, **settings):
    """Holder A before its hello, by a simulated clock."""
    one = Party(made(tmp_path / "it", small_rows(), **settings), "A", resume=False)
    one.control._clock = clock
    return one


class Unheard:
    """An endpoint whose calls fail; it keeps how long they were given.  busy: what each call
    takes.
    """

    def __init__(self, busy=lambda: None):
        self.given, self.busy, self.stopped = [], busy, []

    def call(self, role, method, said, *, timeout=None, until=None):
        self.given.append(timeout)
        self.busy()
        raise Silent(role, "no")

    def check(self):
        pass

    def stop(self, reason):
        self.stopped.append(reason)


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
        (1.0, "the server gave no sign of life for 2.0 s"),
        (1.9, "holder A could not reach the server for 2.0 s (more in run/A/log.txt)"),
    ],
)
def test_of_who_cannot_be_reached_it_is_said_whether_it_is_silent(tmp_path, spoke, sentence):
    """A says so at 102 s, the server spoke last at 100, 101 or 101.9 s; 1.2 s of silence, with what
    it is given, are enough.
    """
    coordinator, clock = all_here(tmp_path)
    coordinator.roster.roles["server"].at, clock.time = 100.0 + spoke, 102.0
    with pytest.raises(Ended) as ended:
        coordinator._stopped_by("A", {"kind": "stopped", "why": "unreachable", "role": "server"})
    assert str(ended.value).startswith(f"{sentence}: ")


def test_a_role_that_says_meanwhile_why_it_stopped_is_the_one_that_is_named(tmp_path):
    coordinator, clock = all_here(tmp_path)
    stopped = {"kind": "stopped", "why": "disk", "role": None, "session": SESSION}
    clock.at(100.3, lambda: coordinator.roster.hear("server", stopped))
    with pytest.raises(
        Ended, match=r"^the server could not write to its disk \(more in run/server/log.txt\): "
    ):
        coordinator._stopped_by("A", {"kind": "stopped", "why": "unreachable", "role": "server"})
    assert clock.time == 100.3


def test_a_role_that_hears_nothing_of_the_coordinator_stops_after_the_timeout(tmp_path):
    clock = Simulated()
    one = a_role(tmp_path, clock, timeout=2.0)
    one.control.endpoint = Unheard(lambda: setattr(clock, "time", clock.time + 0.75))
    one.progress.step, one.progress.last, one.control._saved = 7, 20, 4
    one.control.begin()
    one.control._beat.join(FAR)
    sentence = one.control.sentence
    assert sentence.startswith("the coordinator gave no sign of life for 2.0 s: ") and promised(
        sentence
    ) == (7, 4)
    assert one.control.endpoint.given == [0.5] * 3 and one.control.endpoint.stopped == [sentence]


def test_a_role_with_an_error_of_its_own_says_the_coordinators_sentence_too(tmp_path, capsys):
    control = a_role(tmp_path, Simulated()).control
    control.endpoint = Unheard()
    # it came while this role computed
    control.stop("holder B could not reach the server")
    control.give_up("unreachable", "server")
    assert capsys.readouterr().err == "ppkit: holder B could not reach the server\n"


def test_a_role_that_tests_names_no_step_beyond_the_last(tmp_path):
    one = a_role(tmp_path, Simulated())
    one.progress.step, one.progress.last = 8, 6
    assert "the run stops at step 6" in one.control.without_coordinator()
    one.progress.step = 3
    assert "the run stops at step 3" in one.control.without_coordinator()


def test_nothing_leaves_before_the_journal_has_it(tmp_path):
    class Taken:
        def __init__(self):
            self.payloads = []

        def send(self, receiver, name, payload, **_):
            self.payloads.append(payload)

    def opened(resume):
        one = Party(conf, "A", resume=resume)
        one.progress.step = 1
        if resume:
            one.journal.recall(0)
        one.journal.begin()
        one.control.endpoint = Taken()
        return one

    conf = made(tmp_path / "it", small_rows())
    first = opened(False)
    first.send("server", "masked X theta", b"one")
    first.journal.close()
    first.folder.close()
    again = opened(True)
    with pytest.raises(SentBefore):
        again.send("server", "masked X theta", b"two")
    again.journal.close()
    assert [one.control.endpoint.payloads for one in (first, again)] == [[b"one"], []]


# what goes on, and from where

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


@pytest.mark.parametrize("what", ["config", "data"])
def test_a_role_whose_config_or_data_changed_does_not_go_on(tmp_path, what):
    conf = made(tmp_path / "it", small_rows())
    before = Party(conf, "B", resume=False, data_digest="one")
    before.checkpoints.save(0, {}, {})
    before.folder.close()
    if what == "config":
        conf.path.write_text(conf.path.read_text().replace("lr = 1.5", "lr = 1.25"))
    digest = "two" if what == "data" else "one"
    after = Party(config.load(conf.path), "B", resume=True, data_digest=digest)
    with pytest.raises(
        Changed, match=f"the {what} changed since the checkpoint of step 0"
    ) as changed:
        after.checkpoints.usable()
    failure = failure_of(changed.value, after.folder.path)
    assert (failure.code, failure.why, failure.role) == (BAD_INPUT, "changed", None)


def test_where_nothing_is_nothing_goes_on(tmp_path):
    conf = made(tmp_path / "it", small_rows())
    for role in conf.roles:
        with pytest.raises(ValueError, match="there is nothing to go on from"):
            if role == "coordinator":
                coordinators.main(conf, resume=True)
            else:
                Party(conf, role, resume=True)
