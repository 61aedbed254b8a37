"""Roles killed, hung, cut off, on a full disk, with a damaged checkpoint: the others stop in time, say who, the run goes on.

Processes are really killed, at a step drawn between 20 and 80% of an epoch. A latency makes a step take a twelfth of a second,
so that it can be hit; a resumed run has none, and must end with the parameters of one that never stopped, to the bit.
"""

import functools
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from network_runs import alone, finished, made, metrics_of, nursery, parts_of, same, small_rows, started, status, until_step

from ppkit.spnn.network import config
from ppkit.spnn.network.checkpoints import SET_UP, Checkpoints, SentBefore
from ppkit.spnn.network.coordinator import Coordinator, Ended
from ppkit.spnn.network.endpoint import Silent
from ppkit.spnn.network.part import Part

STEPS = 20                                              # of an epoch: 195 rows in batches of 10, the last one of 5
TIMEOUT = 1.5
SLACK = 2.0                                             # seconds beyond it
EVERY = 4                                               # steps from checkpoint to checkpoint
SLOW = dict(latency=0.02, timeout=TIMEOUT, batch=10, checkpoint_every=EVERY, epochs=1)

PROTOCOLS = {"masked": dict(protocol="masked"), "lean": dict(protocol="ss", form="lean"),
             "published": dict(protocol="ss", form="published"), "he": dict(protocol="he", key_bits=512)}
KILLED = [("B", "lean"), ("server", "he"), ("A", "published"), ("coordinator", "masked"), ("dealer", "lean"), ("B", "masked")]

# Each of these takes three to seven seconds. Every test run has one fault of each kind; PPKIT_ALL_FAULTS=1 has all of them.
on_request = pytest.mark.skipif(not os.environ.get("PPKIT_ALL_FAULTS"), reason="PPKIT_ALL_FAULTS=1 runs all faults")


def rows():
    return small_rows(train_rows=195, test_rows=40)


@functools.cache
def expected(name: str):
    """What one process gives for a protocol: computed once for all faults."""
    with tempfile.TemporaryDirectory() as folder:
        return alone(made(Path(folder) / "it", rows(), **SLOW, **PROTOCOLS[name]), rows())


def drawn_step(seed: int) -> int:
    """A step between 20 and 80% of an epoch."""
    return random.Random(seed).randint(STEPS * 2 // 10, STEPS * 8 // 10)


GONE = "(gave no sign of life|could not be reached)"            # whichever of the others is first: one that waits for it, or one that sends


def all_stop(roles, gone: tuple[str, ...], who: str, *, since: float) -> str:
    """Every role that is left ends with code 1, in time, and says who it was (a pattern); returns the coordinator's sentence, or A's."""
    left = {name: role for name, role in roles.items() if name not in gone}
    codes = {name: role.wait(max(0.1, since + TIMEOUT + SLACK - time.monotonic())) for name, role in left.items()}
    said = {name: role.said().strip() for name, role in left.items()}
    assert codes == dict.fromkeys(left, 1), (codes, said)
    assert all(re.search(who, text) for text in said.values()), said
    return said.get("coordinator", said.get("A")).splitlines()[-1].removeprefix("ppkit: ")


def without_latency(conf):
    conf.path.write_text(conf.path.read_text().replace("latency = 0.02", "latency = 0.0"))
    return config.load(conf.path)


def goes_on(conf, name: str):
    """The run is resumed, and ends as if nothing had been."""
    conf = without_latency(conf)
    roles = finished(conf, resume=True)
    same(conf, expected(name))
    return roles


def promised(sentence: str) -> tuple[int, int]:
    """(the step it stopped at, the step it goes on from) that a sentence names."""
    found = re.search(r"the run stops at step (\d+); `ppkit spnn run \S*config.toml --resume` goes on from step (\d+)", sentence)
    assert found, sentence
    return int(found[1]), int(found[2])


@pytest.mark.parametrize(("role", "name"), [*KILLED[:2], *(pytest.param(*each, marks=on_request) for each in KILLED[2:])])
def test_a_killed_role_stops_all_and_the_run_goes_on(tmp_path, role, name):
    conf = made(tmp_path / "it", rows(), **SLOW, **PROTOCOLS[name])
    roles, step = started(conf), drawn_step(KILLED.index((role, name)))
    until_step(conf, step)
    roles[role].signal(signal.SIGKILL)
    since = time.monotonic()
    who = f"the {role}" if role in ("coordinator", "server", "dealer") else f"holder {role}"
    sentence = all_stop(roles, (role,), f"{who} {GONE} for {TIMEOUT} s", since=since)
    assert roles[role].wait(5) == -signal.SIGKILL
    at, last = promised(sentence)
    assert step <= at and last <= at and last % EVERY == 0
    assert role == "coordinator" or last > at - EVERY - 2
    assert role == "dealer" or at <= step + 3            # the triples of the epoch are there: the others work on until they hear
    if role != "coordinator":
        assert status(conf)["state"] == "stopped" and status(conf)["sentence"] == sentence
    resumed = goes_on(conf, name)
    went_on = int(re.search(r"the run goes on from step (\d+)", resumed["coordinator"].said())[1])
    assert went_on == last if role != "coordinator" else last <= went_on <= at
    assert not (conf.folder_of("B") / "metrics.json").exists() and len(metrics_of(conf)["seconds"]["online"]) == 1


def test_a_role_killed_twice_in_the_second_epoch_with_secrets_that_nobody_repeats(tmp_path):
    """With secrets of the operating system, rows in a secret order and SGLD there is no run to compare with: but every message
    that is sent again is held against the journal, and the end against that of another third resumption."""
    n = STEPS // 2
    conf = made(tmp_path / "it", rows(), **{**SLOW, **PROTOCOLS["lean"], "batch": 20, "epochs": 2, "secrets": "os",
                                            "order": "reshuffled", "optimiser": "sgld", "lr": 0.001})
    for attempt, step in enumerate((n + drawn_step(7) // 2, n + drawn_step(7) // 2 + 1)):
        roles = started(conf, resume=attempt > 0)
        until_step(conf, step)
        roles["A"].signal(signal.SIGKILL)
        all_stop(roles, ("A",), f"holder A {GONE}", since=time.monotonic())
    conf = without_latency(conf)
    shutil.copytree(conf.folder, tmp_path / "stopped")
    finished(conf, resume=True)
    first = parts_of(conf), {key: value for key, value in metrics_of(conf).items() if key != "seconds"}
    shutil.rmtree(conf.folder)                           # a run that has ended has no secrets to go on with
    (tmp_path / "stopped").rename(conf.folder)
    finished(conf, resume=True)
    again = parts_of(conf), {key: value for key, value in metrics_of(conf).items() if key != "seconds"}
    assert first[1] == again[1] and len(first[1]["losses"]) == 2
    assert all(np.array_equal(first[0][name], again[0][name]) for name in first[0])


def test_a_server_that_hangs(tmp_path):
    conf = made(tmp_path / "it", rows(), **SLOW)
    roles, step = started(conf), drawn_step(8)
    until_step(conf, step)
    roles["server"].signal(signal.SIGSTOP)
    sentence = all_stop(roles, ("server",), f"the server {GONE} for {TIMEOUT} s", since=time.monotonic())
    promised(sentence)
    roles["server"].signal(signal.SIGCONT)               # it wakes up, and finds that the run is over
    assert roles["server"].wait(TIMEOUT + SLACK) == 1
    goes_on(conf, "masked")


ASLEEP = """
import sys, time
from ppkit.spnn.network import __main__, part
send = part.Part.send
def slow(self, receiver, name, payload, **how):
    if self.step == 6:
        time.sleep(60)
    return send(self, receiver, name, payload, **how)
part.Part.send = slow
sys.exit(__main__.main(sys.argv[1:]))
"""


def test_a_role_whose_work_hangs_while_it_gives_signs_of_life(tmp_path):
    conf = made(tmp_path / "it", rows(), **SLOW, stuck=5.0)           # a new process may take seconds to set up
    roles = {role: nursery().start(conf, role) for role in conf.roles if role != "B"}
    with subprocess.Popen([sys.executable, "-c", ASLEEP, "holder", "B", str(conf.path)], stderr=subprocess.PIPE, text=True) as asleep:
        try:
            until_step(conf, 6)
            sentence = all_stop(roles, (), "holder B neither sends nor waits for anything", since=time.monotonic() + 5.0)
            assert promised(sentence) == (6, 4)
            assert asleep.wait(20) == 1 and "nothing was sent or waited for at step 6 for 5 s" in asleep.stderr.read()
        finally:
            asleep.kill()


def test_only_work_counts_as_hanging(tmp_path):
    one = Part(made(tmp_path / "it", rows(), stuck=0.01), "A", resume=False)
    assert not one.liaison.hangs()                                            # it has not begun
    with one.liaison.waiting():
        time.sleep(0.02)
        assert not one.liaison.hangs()
    time.sleep(0.02)
    assert one.liaison.hangs()
    for allowed in (0.0, 60.0):
        object.__setattr__(one.config.network, "stuck", allowed)
        assert not one.liaison.hangs()


class Timed:
    """An endpoint whose calls fail; it keeps how long they were given."""

    def __init__(self):
        self.given = []

    def call(self, role, method, said, *, timeout=None):
        self.given.append(timeout)
        raise Silent(role, "no")


def test_a_role_that_is_silent_already_is_not_waited_for_twice(tmp_path):
    conf, endpoint = made(tmp_path / "it", rows(), timeout=8.0), Timed()
    coordinator = Coordinator(conf, endpoint)
    for ago, given in ((0.0, 8.0), (5.0, 3.0), (20.0, 2.0)):
        coordinator._seen["B"].at = time.monotonic() - ago
        with pytest.raises(Ended, match=r"holder B could not be reached for 8.0 s"):
            coordinator._tell(["B"], {"kind": "go"})
        assert abs(endpoint.given[-1] - given) < 0.5


def test_a_role_that_does_not_run_when_the_last_word_comes_still_hears_it(tmp_path):
    """It stands still for a quarter of the timeout: the others are told why the run stops, and so is it."""
    conf = made(tmp_path / "it", rows(), **{**SLOW, "timeout": 8.0})
    roles = started(conf)
    until_step(conf, 3)
    roles["A"].signal(signal.SIGSTOP)
    roles["B"].signal(signal.SIGINT)
    time.sleep(2.0)
    roles["A"].signal(signal.SIGCONT)
    assert {name: role.wait(20) for name, role in roles.items()} == {"coordinator": 1, "server": 1, "A": 1, "B": 130}
    assert all("holder B was interrupted" in role.said() for role in roles.values()), roles["A"].said()


LAST = """
import os, signal, subprocess, sys, time
from ppkit.spnn.network import __main__, liaison
report = liaison.Liaison.report
def slow(self, kind, **how):
    time.sleep(1.0 * (kind == "done"))                   # the others are done
    said = report(self, kind, **how)
    if kind == "done":
        subprocess.Popen(["sh", "-c", f"sleep 1.7; kill -CONT {os.getpid()}"])
        os.kill(os.getpid(), signal.SIGSTOP)
    return said
liaison.Liaison.report = slow
sys.exit(__main__.main(sys.argv[1:]))
"""


def test_a_role_that_does_not_run_when_the_end_comes_has_not_failed(tmp_path):
    conf = made(tmp_path / "it", rows(), **{**SLOW, "latency": 0.0, "timeout": 8.0})
    roles = {role: nursery().start(conf, role) for role in conf.roles if role != "A"}
    with subprocess.Popen([sys.executable, "-c", LAST, "holder", "A", str(conf.path)], stderr=subprocess.PIPE, text=True) as last:
        try:
            said = last.communicate(timeout=40)[1]
            assert (last.returncode, {role.wait(20) for role in roles.values()}) == (0, {0}), said
        finally:
            last.kill()


def test_an_interrupted_coordinator_says_how_the_run_goes_on(tmp_path):
    conf = made(tmp_path / "it", rows(), **SLOW)
    roles = started(conf)
    until_step(conf, EVERY + 1)
    roles["coordinator"].signal(signal.SIGINT)
    assert roles["coordinator"].wait(10) == 130
    promised(all_stop(roles, ("coordinator",), "the coordinator was interrupted: the run stops at step", since=time.monotonic()))
    assert "the coordinator was interrupted: the run stops at step" in roles["coordinator"].said()


def test_a_role_with_an_error_of_its_own_says_the_coordinators_sentence_too(tmp_path):
    one, said = Part(made(tmp_path / "it", rows()), "A", resume=False), []
    one.liaison._say, one.liaison.endpoint = said.append, Unanswered()
    one.liaison.stop("holder B could not reach the server")             # it came while this role computed
    one.liaison.give_up("unreachable", "server")
    assert said == ["holder B could not reach the server"]


def test_a_role_that_tests_names_no_step_beyond_the_last(tmp_path):
    one = Part(made(tmp_path / "it", rows()), "A", resume=False)
    one.step, one.liaison.last_step = 8, 6
    assert "the run stops at step 6" in one.liaison.without_coordinator()
    one.step = 3
    assert "the run stops at step 3" in one.liaison.without_coordinator()


class Unanswered:
    """An endpoint of a role whose coordinator has gone."""

    def stop(self, reason):
        pass

    def call(self, role, *_, **__):
        raise Silent(role, "no")


UNWRITTEN = """
import errno, sys
from ppkit.spnn.network import __main__, endpoint

class Full:                                              # a disk that is full after 40 writes
    closed, n = False, 0
    def write(self, content):
        self.n += 1
        if self.n > 40:
            raise OSError(errno.ENOSPC, "No space left on device")
    def flush(self):
        pass
    def close(self):
        pass

gate = endpoint.Gate
endpoint.Gate = lambda *args, record, **how: gate(*args, record=Full(), **how)
sys.exit(__main__.main(sys.argv[1:]))
"""


@pytest.mark.parametrize("role", ["server", "coordinator"])
def test_a_full_disk_under_the_record_is_the_fault_of_who_has_it(tmp_path, role):
    conf = made(tmp_path / "it", rows(), **SLOW, record=True)
    roles = {other: nursery().start(conf, other) for other in conf.roles if other != role}
    with subprocess.Popen([sys.executable, "-c", UNWRITTEN, role, str(conf.path)], stderr=subprocess.PIPE, text=True) as full:
        try:
            said = full.communicate(timeout=40)[1]
            assert full.returncode == 1 and "No space left on device" in said
            for other in roles.values():
                assert other.wait(10) == 1 and f"the {role} could not write to its disk" in other.said(), other.said()
        finally:
            full.kill()


@on_request
def test_a_coordinator_that_hangs(tmp_path):
    conf = made(tmp_path / "it", rows(), **SLOW)
    roles = started(conf)
    until_step(conf, drawn_step(9))
    roles["coordinator"].signal(signal.SIGSTOP)
    all_stop(roles, ("coordinator",), f"the coordinator gave no sign of life for {TIMEOUT} s", since=time.monotonic())
    roles["coordinator"].signal(signal.SIGKILL)
    assert roles["coordinator"].wait(5) == -signal.SIGKILL
    goes_on(conf, "masked")


@pytest.mark.parametrize("role", ["A", pytest.param("server", marks=on_request)])
def test_a_damaged_checkpoint_is_said_and_the_one_before_is_taken(tmp_path, role):
    conf = made(tmp_path / "it", rows(), **SLOW)
    roles = started(conf)
    until_step(conf, 2 * EVERY + 2)
    roles["B"].signal(signal.SIGKILL)
    at, last = promised(all_stop(roles, ("B",), f"holder B {GONE}", since=time.monotonic()))
    newest = max(conf.folder_of(role).glob("step-*.checkpoint"))
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    step = int(newest.stem[5:])
    resumed = goes_on(conf, "masked")
    named = "the server" if role == "server" else "holder A"
    assert f"{named}'s checkpoint of step {step} is damaged and is not used" in resumed["coordinator"].said()
    assert f"the run goes on from step {min(last, step - EVERY)}" in resumed["coordinator"].said()
    assert f"the checkpoint of step {step} is damaged" in resumed[role].said()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("role", ["B", pytest.param("server", marks=on_request)])
def test_a_full_disk(tmp_path, role):
    conf = made(tmp_path / "it", rows(), **SLOW)
    full = conf.folder_of(role) / f"step-{2 * EVERY:09d}.checkpoint.part"
    roles = started(conf)
    until_step(conf, EVERY)
    full.symlink_to("/dev/full")
    who = "the server" if role == "server" else "holder B"
    sentence = all_stop(roles, (), f"{who} could not write to its disk", since=time.monotonic() + 2)
    assert promised(sentence)[1] == EVERY and "No space left on device" in roles[role].said()
    full.unlink()
    goes_on(conf, "masked")


class Proxy:
    """A way to a role that can be cut: forwards TCP to the port where the role listens."""

    def __init__(self, port: int):
        self._to, self._open = port, []
        self.listen()
        self.address = f"127.0.0.1:{self._port}"

    _port = 0

    def listen(self):
        self._socket = socket.create_server(("127.0.0.1", self._port))
        self._port = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._socket,), daemon=True).start()

    def cut(self):
        """All connections break, and no new one is taken."""
        for one in [self._socket, *self._open]:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            one.close()
        self._open = []

    def _accept(self, listening):
        while True:
            try:
                one, _ = listening.accept()
                other = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                return
            self._open += [one, other]
            for source, sink in ((one, other), (other, one)):
                threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source, sink):
        try:
            while chunk := source.recv(1 << 16):
                sink.sendall(chunk)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


@pytest.fixture
def behind_a_proxy(tmp_path):
    """(config, the config files by role, proxy): all others reach the server through the proxy."""
    conf = made(tmp_path / "it", rows(), **SLOW)
    address = conf.server.address
    proxy = Proxy(int(address.rpartition(":")[2]))
    through = conf.path.with_name("through.toml")
    through.write_text(conf.path.read_text().replace(address, proxy.address))
    yield conf, {role: through for role in conf.roles if role != "server"}, proxy
    proxy.cut()


def test_a_connection_cut_and_restored_loses_nothing(behind_a_proxy):
    conf, paths, proxy = behind_a_proxy
    roles = started(conf, paths=paths)
    for cut in (drawn_step(10), drawn_step(10) + 4):
        until_step(conf, cut)
        proxy.cut()
        time.sleep(0.5)
        proxy.listen()
    codes = {name: role.wait(30) for name, role in roles.items()}
    assert codes == dict.fromkeys(conf.roles, 0), {name: role.said() for name, role in roles.items()}
    same(conf, expected("masked"))
    sent = [json.loads(line) for line in (conf.folder_of("server") / "messages.jsonl").read_text().splitlines()]
    assert sum(line.get("name") == "h_L" for line in sent) == STEPS + 4


def test_a_connection_that_stays_cut(behind_a_proxy):
    conf, paths, proxy = behind_a_proxy
    roles = started(conf, paths=paths)
    until_step(conf, drawn_step(11))
    proxy.cut()
    all_stop(roles, ("server",), "the server", since=time.monotonic())
    assert roles["server"].wait(2 * TIMEOUT + SLACK) == 1
    assert re.search("holder [AB] could not reach the server for 1.5 s|the server could not be reached for 1.5 s",
                     roles["coordinator"].said())
    goes_on(conf, "masked")


# a run that goes on sends nothing but what it sent

def test_a_resumed_role_that_would_send_something_else_under_the_same_mask_sends_nothing(tmp_path):
    conf = made(tmp_path / "it", rows(), **SLOW)
    roles = started(conf)
    until_step(conf, EVERY + 3)
    roles["B"].signal(signal.SIGKILL)
    at, last = promised(all_stop(roles, ("B",), "holder B", since=time.monotonic()))
    kept = Checkpoints(conf.folder_of("A"), about={}).load(last)
    about = _about(conf.folder_of("A") / f"step-{last:09d}.checkpoint")
    kept.arrays["theta"][0, 0] += 0.25
    Checkpoints(conf.folder_of("A"), about=about).save(last, kept.arrays, kept.notes)
    conf = without_latency(conf)
    roles = started(conf, resume=True)
    codes = {name: role.wait(20) for name, role in roles.items()}
    assert codes == dict.fromkeys(conf.roles, 1)
    assert f"at step {last + 1} another 'masked X theta' was sent to server" in roles["A"].said()
    assert "holder A was about to send another message than before the resumption" in roles["coordinator"].said()
    for path in conf.folder_of("A").glob("journal-*.txt"):             # and without the journal, it does not even begin
        path.unlink()
    roles = started(conf, resume=True)
    codes = {name: role.wait(20) for name, role in roles.items()}
    assert codes["A"] == codes["coordinator"] == 2 and not {0, None} & set(codes.values())
    assert "the journal of what was sent before the first checkpoint is gone: start without --resume" in roles["A"].said()
    assert "holder A has lost a part of the journal of what it sent" in roles["coordinator"].said()


def test_nothing_leaves_before_the_journal_has_it(tmp_path):
    class Taken:
        def __init__(self):
            self.payloads = []

        def send(self, receiver, name, payload, **_):
            self.payloads.append(payload)

    def part(resume):
        one = Part(conf, "A", resume=resume)
        one.endpoint, one.step = Taken(), 1
        if resume:
            one._journal.recall(0)
        one._journal.begin(SET_UP)
        one._journal.begin(0)
        return one

    conf = made(tmp_path / "it", rows())
    first = part(False)
    first.send("server", "masked X theta", b"one")
    first._journal.close()
    first._taken.close()
    again = part(True)
    with pytest.raises(SentBefore):
        again.send("server", "masked X theta", b"two")
    again._journal.close()
    assert (first.endpoint.payloads, again.endpoint.payloads) == ([b"one"], [])


def _about(path) -> dict:
    """What a checkpoint says it belongs to."""
    import io

    with np.load(io.BytesIO(path.read_bytes().split(b"\n", 2)[2])) as archive:
        return json.loads(archive["notes"].tobytes())["about"]


@pytest.mark.parametrize("what", ["config", "data", "a role without any", "nothing to go on from"])
def test_what_changed_since_does_not_go_on(tmp_path, what):
    conf = made(tmp_path / "it", rows(), **{**SLOW, "latency": 0.0})
    if what != "nothing to go on from":
        finished(conf)
        for role in conf.roles[1:]:                                         # as if it had stopped
            (conf.folder_of(role) / "secret.key").write_text("0" * 64)
    if what == "config":
        conf.path.write_text(conf.path.read_text().replace("lr = 1.5", "lr = 1.25"))
        (conf.folder_of("coordinator") / "config.toml").unlink()            # as where every role has a machine of its own
    elif what == "data":
        import pandas as pd
        table = pd.read_parquet(conf.holder("B").data)
        table.loc[7, "x3"] += 1
        table.to_parquet(conf.holder("B").data, index=False)
    elif what == "a role without any":
        for path in conf.folder_of("B").glob("step-*.checkpoint"):
            path.unlink()
    conf = config.load(conf.path)
    roles = started(conf, resume=True)
    codes = {name: role.wait(20) for name, role in roles.items()}
    said = {name: role.said() for name, role in roles.items()}
    assert 2 in codes.values() and not {0, None} & set(codes.values()), (codes, said)
    sentences = {"config": ["the config changed since the checkpoint of step",             # whoever is first to see it
                            "config.toml is not as when the run began: [training] lr was 1.5 and is 1.25"],
                 "data": ["the data changed since the checkpoint of step"],
                 "a role without any": ["there is no step that all roles have a valid checkpoint of (holder B has none): start"],
                 "nothing to go on from": ["nothing to go on from: start without --resume"]}[what]
    assert any(each in text for text in said.values() for each in sentences), said
    assert not any("Traceback" in text for text in said.values()), said
