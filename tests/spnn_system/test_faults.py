"""Roles killed, hung, cut off, on a full disk, with a damaged checkpoint: the others stop, say who
it was, the run goes on.

Processes are really killed and stopped, while one role is held at a step drawn between 20 and 80%
of an epoch; a resumed run must end with the parameters of one that never stopped, to the bit. Who
is silent is judged by clocks that no machine slows:
the coordinator's goes on when all who live have spoken, the others' where a test says so.
"""

import functools
import io
import json
import os
import random
import re
import shutil
import signal
import tempfile
from pathlib import Path

import numpy as np
import psutil
import pytest
from held_roles import BEATS, EVERY, SHORT_SIGNS, at_step, gone, held, hold, last_saved, silent
from network_pair import Wire
from network_runs import (
    alone,
    finished,
    heard,
    made,
    metrics_of,
    parts_of,
    same,
    small_rows,
    started,
    status,
)
from waiting import FAR, until

from spnn_system import launch
from spnn_system.run.checkpoints import Checkpoints

pytestmark = pytest.mark.processes

# of an epoch: 195 rows in batches of 10, the last one of 5
STEPS = 20
SMALL = dict(batch=10, checkpoint_every=EVERY, epochs=1)

PROTOCOLS = {
    "masked": dict(protocol="masked"),
    "lean": dict(protocol="ss", form="lean"),
    "published": dict(protocol="ss", form="published"),
    "he": dict(protocol="he", key_bits=512),
    "dealerless": dict(protocol="ss", form="dealerless", key_bits=512),
}
KILLED = [
    ("B", "lean"),
    ("server", "he"),
    ("A", "dealerless"),
    ("A", "published"),
    ("coordinator", "masked"),
    ("dealer", "lean"),
    ("B", "masked"),
]

# Each of these takes a few seconds. Every test run has one fault of each kind; PPKIT_ALL_FAULTS=1
# has all of them.
on_request = pytest.mark.skipif(
    not os.environ.get("PPKIT_ALL_FAULTS"), reason="PPKIT_ALL_FAULTS=1 runs all faults"
)

# Connections to a process that stands still do not end, however long one waits.
SHORT_CLOSING = "from spnn_system.transport import listener\nlistener.CLOSING_SECONDS = 1.0\n"


def rows():
    return small_rows(train_rows=195, test_rows=40)


@functools.cache
def expected(name: str):
    """What one process gives for a protocol: computed once for all faults."""
    with tempfile.TemporaryDirectory() as folder:
        return alone(made(Path(folder) / "it", rows(), **SMALL, **PROTOCOLS[name]), rows())


def drawn_step(seed: int) -> int:
    """A step between 20 and 80% of an epoch."""
    return random.Random(seed).randint(STEPS * 2 // 10, STEPS * 8 // 10)


def go_on(conf, role: str) -> None:
    (conf.folder_of(role) / "go on").touch()


def begun(conf, **how):
    """Roles of a run in which nothing is left of what the tests put there before."""
    for role in conf.roles:
        for name in ("held", "go on"):
            (conf.folder_of(role) / name).unlink(missing_ok=True)
    (conf.folder / "gone").unlink(missing_ok=True)
    return started(conf, **how)


def all_stop(roles, gone: tuple[str, ...], who: str) -> str:
    """Every role that is left ends with code 1, and says who it was; returns the coordinator's
    sentence, or A's.
    """
    left = {name: role for name, role in roles.items() if name not in gone}
    codes = {name: role.wait() for name, role in left.items()}
    said = {name: role.said().strip() for name, role in left.items()}
    assert codes == dict.fromkeys(left, 1), (codes, said)
    assert all(who in text for text in said.values()), said
    return said.get("coordinator", said.get("A")).splitlines()[-1].removeprefix("ppkit: ")


def goes_on(conf, name: str):
    """The run is resumed, and ends as if nothing had been."""
    roles = finished(conf, resume=True)
    same(conf, expected(name))
    return roles


def promised(sentence: str) -> tuple[int, int]:
    """(the step it stopped at, the step it goes on from) that a sentence names."""
    found = re.search(
        r"the run stops at step (\d+); "
        r"`ppkit spnn run [^`]*config.toml'? --resume` goes on from step (\d+)",
        sentence,
    )
    assert found, sentence
    return int(found[1]), int(found[2])


@pytest.mark.parametrize(
    ("role", "name"), [*KILLED[:3], *(pytest.param(*each, marks=on_request) for each in KILLED[3:])]
)
def test_a_killed_role_stops_all_and_the_run_goes_on(tmp_path, role, name):
    conf = made(tmp_path / "it", rows(), **SMALL, **PROTOCOLS[name])
    step, waits = drawn_step(KILLED.index((role, name))), "B" if role == "A" else "A"
    first = (
        dict.fromkeys(conf.roles, SHORT_SIGNS) if role == "coordinator" else {"coordinator": BEATS}
    )
    first[waits] = first.get(waits, "") + hold(step)
    roles = begun(conf, first=first)
    held(conf, waits)
    roles[role].signal(signal.SIGKILL)
    assert roles[role].wait() == -signal.SIGKILL
    if role == "coordinator":
        for other in set(roles) - {role}:
            roles[other].later("signs")
    else:
        gone(conf, role)
    last = last_saved(step)
    assert promised(all_stop(roles, (role,), silent(role))) == (step, last)
    if role != "coordinator":
        assert status(conf)["state"] == "stopped" and silent(role) in status(conf)["sentence"]
    resumed = goes_on(conf, name)
    assert f"the run goes on from step {last}\n" in resumed["coordinator"].said()
    assert (
        not (conf.folder_of("B") / "metrics.json").exists()
        and len(metrics_of(conf)["seconds"]["online"]) == 1
    )


def test_a_role_killed_twice_in_the_second_epoch_with_secrets_that_nobody_repeats(tmp_path):
    """With secrets of the operating system, rows in a secret order and SGLD there is no run to
    compare with: but every message that is sent again is held against the journal, and the end
    against that of another third resumption."""
    n = STEPS // 2
    conf = made(
        tmp_path / "it",
        rows(),
        **{
            **SMALL,
            **PROTOCOLS["lean"],
            "batch": 20,
            "epochs": 2,
            "secrets": "os",
            "order": "reshuffled",
            "optimiser": "sgld",
            "lr": 0.001,
        },
    )
    for attempt, step in enumerate((n + drawn_step(7) // 2, n + drawn_step(7) // 2 + 1)):
        roles = begun(conf, resume=attempt > 0, first={"coordinator": BEATS, "B": hold(step)})
        held(conf, "B")
        roles["A"].signal(signal.SIGKILL)
        gone(conf, "A")
        assert promised(all_stop(roles, ("A",), silent("A"))) == (step, last_saved(step))
    shutil.copytree(conf.folder, tmp_path / "stopped")
    finished(conf, resume=True)
    first = (
        parts_of(conf),
        {key: value for key, value in metrics_of(conf).items() if key != "seconds"},
    )
    # a run that has ended has no secrets to go on with
    shutil.rmtree(conf.folder)
    (tmp_path / "stopped").rename(conf.folder)
    finished(conf, resume=True)
    again = (
        parts_of(conf),
        {key: value for key, value in metrics_of(conf).items() if key != "seconds"},
    )
    assert first[1] == again[1] and len(first[1]["losses"]) == 2
    assert all(np.array_equal(first[0][name], again[0][name]) for name in first[0])


def test_a_server_that_hangs(tmp_path):
    conf = made(tmp_path / "it", rows(), **SMALL)
    step = drawn_step(8)
    roles = begun(
        conf,
        first={
            "coordinator": SHORT_CLOSING + BEATS,
            "server": SHORT_SIGNS,
            "A": SHORT_CLOSING + hold(step),
            "B": SHORT_CLOSING,
        },
    )
    held(conf, "A")
    roles["server"].signal(signal.SIGSTOP)
    gone(conf, "server")
    assert promised(all_stop(roles, ("server",), silent("server"))) == (step, last_saved(step))
    # it wakes up, and finds that the run is over
    roles["server"].signal(signal.SIGCONT)
    roles["server"].later("signs")
    assert roles["server"].wait() == 1
    goes_on(conf, "masked")


# the last word

# but for who spoke just now
NO_LAST_WORD = "from spnn_system.roles import coordinator\ncoordinator.LAST_WORD = 0.0"


def test_a_role_that_does_not_run_when_the_last_word_comes_still_hears_it(tmp_path):
    """It stands still for less than half the timeout: the others are told why the run stops, and so
    is it.
    """
    conf = made(tmp_path / "it", rows(), **SMALL)
    roles = begun(
        conf,
        first={
            "A": hold(3),
            "coordinator": NO_LAST_WORD,
            "server": SHORT_CLOSING,
            "B": SHORT_CLOSING
            + "from spnn_system.roles import control_channel\ncontrol_channel.LAST_WORD = 0.0",
        },
    )
    held(conf, "A")
    roles["A"].signal(signal.SIGSTOP)
    until(lambda: psutil.Process(roles["A"].pid).status() == psutil.STATUS_STOPPED)
    roles["B"].signal(signal.SIGINT)
    assert roles["server"].wait() == 1
    roles["A"].signal(signal.SIGCONT)
    assert {name: role.wait() for name, role in roles.items()} == {
        "coordinator": 1,
        "server": 1,
        "A": 1,
        "B": 130,
    }
    # B, which has said so, does not listen any longer
    for name in ("coordinator", "server", "A"):
        assert "holder B was interrupted" in roles[name].said(), roles[name].said()


LAST = """
import os, signal, time
from spnn_system.roles.control_channel import ControlChannel
report = ControlChannel.report
def last(self, kind, **how):
    if kind == "done":
        while not (self.config.folder_of(self.role) / "go on").exists():
            time.sleep(0.005)
    said = report(self, kind, **how)
    if kind == "done":
        os.kill(os.getpid(), signal.SIGSTOP)
    return said
ControlChannel.report = last
"""


def test_a_role_that_does_not_run_when_the_end_comes_has_not_failed(tmp_path):
    conf = made(tmp_path / "it", rows(), **SMALL, record=True)
    roles = begun(
        conf,
        first={"A": LAST, "coordinator": NO_LAST_WORD, "server": SHORT_CLOSING, "B": SHORT_CLOSING},
    )
    until(lambda: {("server", "done"), ("B", "done")} <= heard(conf))
    go_on(conf, "A")
    # they have heard the end
    assert roles["server"].wait() == roles["B"].wait() == 0
    until(lambda: psutil.Process(roles["A"].pid).status() == psutil.STATUS_STOPPED)
    roles["A"].signal(signal.SIGCONT)
    assert roles["A"].wait() == roles["coordinator"].wait() == 0, roles["A"].said()


def test_an_interrupted_coordinator_says_how_the_run_goes_on(tmp_path):
    conf = made(tmp_path / "it", rows(), **SMALL)
    roles = begun(conf, first={"A": hold(EVERY + 1)})
    held(conf, "A")
    roles["coordinator"].signal(signal.SIGINT)
    assert roles["coordinator"].wait() == 130
    sentence = all_stop(
        roles, ("coordinator",), "the coordinator was interrupted: the run stops at step"
    )
    assert promised(sentence) == (EVERY + 1, EVERY)
    assert "the coordinator was interrupted: the run stops at step" in roles["coordinator"].said()


@on_request
def test_a_coordinator_that_hangs(tmp_path):
    conf = made(tmp_path / "it", rows(), **SMALL)
    step = drawn_step(9)
    first = dict.fromkeys(conf.roles, SHORT_CLOSING + SHORT_SIGNS)
    roles = begun(conf, first=first | {"A": first["A"] + hold(step)})
    held(conf, "A")
    roles["coordinator"].signal(signal.SIGSTOP)
    for other in ("server", "A", "B"):
        roles[other].later("signs")
    assert promised(all_stop(roles, ("coordinator",), silent("coordinator"))) == (
        step,
        last_saved(step),
    )
    roles["coordinator"].signal(signal.SIGKILL)
    assert roles["coordinator"].wait() == -signal.SIGKILL
    goes_on(conf, "masked")


def interrupted(conf, step: int):
    """Holder B is interrupted while A is at this step: returns what `promised` does."""
    roles = begun(conf, first={"A": hold(step)})
    held(conf, "A")
    roles["B"].signal(signal.SIGINT)
    assert roles["B"].wait() == 130
    return promised(all_stop(roles, ("B",), "holder B was interrupted"))


# Ctrl-C comes just when B has taken the lock that its end needs, too.
WITH_THE_LOCK = """
        class AtOnce(threading.Condition):
            def __enter__(self):
                taken = super().__enter__()
                if threading.current_thread() is threading.main_thread():
                    self.__class__ = threading.Condition
                    signal.raise_signal(signal.SIGINT)
                return taken
        self.control.endpoint._change.__class__ = AtOnce
"""


def test_an_interruption_that_comes_while_a_lock_is_taken_ends_the_role(tmp_path):
    conf = made(tmp_path / "it", rows(), **SMALL)
    roles = begun(conf, first={"B": at_step(EVERY + 2, WITH_THE_LOCK)})
    assert roles["B"].wait() == 130
    assert promised(all_stop(roles, ("B",), "holder B was interrupted"))[1] in (0, EVERY)


def test_a_damaged_checkpoint_is_said_and_the_one_before_is_taken(tmp_path):
    conf = made(tmp_path / "it", rows(), **SMALL)
    assert interrupted(conf, 2 * EVERY + 2) == (2 * EVERY + 2, 2 * EVERY)
    newest = max(conf.folder_of("A").glob("step-*.checkpoint"))
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    assert int(newest.stem[5:]) == 2 * EVERY
    resumed = goes_on(conf, "masked")
    assert f"the run goes on from step {EVERY}" in resumed["coordinator"].said()
    assert f"the checkpoint of step {2 * EVERY} is damaged" in resumed["A"].said()


# The role's disk is full for the checkpoint of one step: its file opens, and takes no byte.
FULL = """
import os
honest = os.open
def opened(path, *more, **settings):
    beside = os.path.basename(os.fsdecode(path)).startswith("step-{step:09d}.checkpoint.")
    return honest("/dev/full" if beside else path, *more, **settings)
os.open = opened
"""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk(tmp_path):
    conf = made(tmp_path / "it", rows(), **SMALL)
    full = FULL.replace("{step:09d}", f"{2 * EVERY:09d}")
    roles = begun(conf, first={"A": hold(EVERY + 1), "B": full})
    held(conf, "A")
    go_on(conf, "A")
    sentence = all_stop(roles, (), "holder B could not write to its disk")
    assert promised(sentence)[1] == EVERY and "No space left on device" in roles["B"].said()
    goes_on(conf, "masked")


# connections that are cut


@pytest.fixture
def behind_a_wire(tmp_path):
    """(config, the config files by role, wire): all others reach the server over a wire."""
    conf = made(tmp_path / "it", rows(), **SMALL)
    wire = Wire(conf.addresses["server"])
    through = conf.path.with_name("through.toml")
    text = conf.path.read_text()
    through.write_text(text.replace(str(conf.addresses["server"]), str(wire.address)))
    yield conf, {role: through for role in conf.roles if role != "server"}, wire
    wire.close()


def test_a_connection_cut_and_restored_loses_nothing(behind_a_wire):
    conf, paths, wire = behind_a_wire
    roles = begun(
        conf, paths=paths, first={role: hold(drawn_step(10) + 4 * (role == "B")) for role in "AB"}
    )
    for role in "AB":
        held(conf, role)
        wire.cut()
        go_on(conf, role)
        before = wire.refused
        until(lambda: wire.refused > before)  # it has tried in vain
        wire.restore()
    codes = {name: role.wait() for name, role in roles.items()}
    assert codes == dict.fromkeys(conf.roles, 0), {
        name: role.said() for name, role in roles.items()
    }
    same(conf, expected("masked"))
    sent = [
        json.loads(line)
        for line in (conf.folder_of("server") / "messages.jsonl").read_text().splitlines()
    ]
    assert sum(line.get("name") == "h_L" for line in sent) == STEPS + 4


def test_a_connection_that_stays_cut(behind_a_wire):
    conf, paths, wire = behind_a_wire
    step = drawn_step(11)
    roles = begun(conf, paths=paths, first={"A": hold(step), "server": SHORT_SIGNS})
    held(conf, "A")
    wire.cut()
    go_on(conf, "A")
    later = iter(range(int(2 * FAR), 10**9, int(2 * FAR)))

    def given_up():
        if "server could not be reached" not in roles["A"].said():
            # again, where its message left only after the last time
            roles["A"].later("links", next(later))
            return False
        return True

    until(given_up)
    assert {roles[role].wait() for role in "AB"} == {1}
    roles["coordinator"].later("links")  # its last word does not come to the server
    assert roles["coordinator"].wait() == 1
    roles["server"].later("signs")
    assert roles["server"].wait() == 1
    for role in ("coordinator", "A", "B"):
        assert f"holder A could not reach the server for {FAR:.1f} s" in roles[role].said()
    goes_on(conf, "masked")


# a run that goes on sends nothing but what it sent


def test_a_resumed_role_that_would_send_something_else_under_the_same_mask_sends_nothing(tmp_path):
    conf = made(tmp_path / "it", rows(), **SMALL)
    at, last = interrupted(conf, EVERY + 3)
    arrays, notes = Checkpoints(conf.folder_of("A"), about={}).load(last)
    about = _about(conf.folder_of("A") / f"step-{last:09d}.checkpoint")
    arrays["part/theta"][0, 0] += 0.25
    Checkpoints(conf.folder_of("A"), about=about).save(last, arrays, notes)
    roles = started(conf, resume=True)
    codes = {name: role.wait() for name, role in roles.items()}
    assert codes == dict.fromkeys(conf.roles, 1)
    assert f"at step {last + 1} another 'masked X theta' was sent to server" in roles["A"].said()
    assert (
        "holder A was about to send another message than before the resumption"
        in roles["coordinator"].said()
    )
    # and without the journal, it does not even begin
    (conf.folder_of("A") / "journal.txt").unlink()
    roles = started(conf, resume=True)
    codes = {name: role.wait() for name, role in roles.items()}
    assert codes["A"] == codes["coordinator"] == 2 and not {0, None} & set(codes.values())
    assert (
        "the journal of what was sent is gone or damaged: start without --resume"
        in roles["A"].said()
    )
    assert "holder A has lost a part of the journal of what it sent" in roles["coordinator"].said()


def _about(path) -> dict:
    """What a checkpoint says it belongs to."""
    with np.load(io.BytesIO(path.read_bytes().split(b"\n", 2)[2])) as archive:
        return json.loads(archive["notes"].tobytes())["about"]


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


LIMITED = """
import resource
from spnn_system.run import role_folder
write = role_folder.MessageLog.write
def full(self):                                             # its disk is full in mid-line
    if self._path.exists() and self._path.stat().st_size > 1000:
        most = self._path.stat().st_size + 100
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
    return write(self)
role_folder.MessageLog.write = full
"""


def test_a_disk_that_fills_up_in_the_middle_of_a_line_does_not_make_a_run_unfinishable(
    tmp_path, forked
):
    """B's process really cannot write on: its files may not grow. The run goes on then."""
    vertical = small_rows()
    conf = made(tmp_path / "it", vertical)
    roles = started(conf, first={"B": LIMITED})
    assert {role: each.wait() for role, each in roles.items()} == dict.fromkeys(roles, 1)
    assert "File too large" in roles["B"].said()
    path = conf.folder_of("B") / "messages.jsonl"
    # torn or not: that is for the last write to say
    assert path.read_bytes().count(b"\n") > 3
    result = launch.run(conf.path, resume=True)
    assert (result.code, result.sentence) == (0, "")
    same(conf, alone(conf, vertical))
    assert len(read(path)) > 3


def test_a_torn_line_at_every_role_and_the_run_goes_on_to_the_bit(tmp_path, ppkit, forked):
    """The short way to see it: a run that stopped, half a line behind messages.jsonl, --resume."""
    vertical = small_rows()
    conf = made(tmp_path / "it", vertical, latency=0.02)

    def stop(step, _):
        if step >= 3:
            raise KeyboardInterrupt

    with pytest.raises(launch.Interrupted):
        launch.run(conf.path, progress=stop)
    for role in conf.roles:
        with open(conf.folder_of(role) / "messages.jsonl", "ab") as file:
            file.write(b'{"at": 1, "sen')
    code, out, said = ppkit("spnn", "run", str(conf.path), "--resume")
    assert (code, said) == (0, "") and "test AUC" in out
    assert (conf.folder / "messages.csv").read_text().count("\n") > 20
    same(conf, alone(conf, vertical))
    for role in conf.roles:  # whole lines, and nothing else
        steps = [line["step"] for line in read(conf.folder_of(role) / "messages.jsonl")]
        assert 1 in steps or role == "coordinator"
