"""A replay sends what a table says, in its order, over real links; the cost model says how long
that takes.
"""

import functools
import queue
import threading
from collections import Counter

# gives each worker ports of its own
import pandas as pd
import pytest
import torch
from waiting import FAR

from ppkit.spnn.layer import SPNN
from ppkit.spnn.messages import COLUMNS, Transcript
from spnn_system import replay as module
from spnn_system.cost_model import epoch_table, online_seconds, part, secureml_table, splitnn_table
from spnn_system.replay import replay
from spnn_system.transport.frames import Frame, pack
from spnn_system.transport.shaping import TokenBucket

pytestmark = pytest.mark.processes

SIZES = {"n_rows": 400, "batch": 200}
# bytes of a frame beside its payload, at most
HEAD = 120
TABLES = {
    "masked": lambda: epoch_table((3, 2), (8, 8), protocol="masked", **SIZES),
    "published": lambda: epoch_table((3, 2), (8, 8), protocol="ss", form="published", **SIZES),
    "three holders": lambda: epoch_table(
        (2, 2, 1), (8, 8), protocol="ss", form="published", **SIZES
    ),
    "splitnn": lambda: splitnn_table((3, 2), (8, 8), **SIZES),
}


@functools.cache
def table_of(name):
    return TABLES[name]()


def test_every_online_message_is_sent_once_and_nothing_else():
    """Names, parties, steps and sizes, of a table that has messages of all three parts."""
    net = SPNN([2, 1], (4, 3), rng=torch.Generator().manual_seed(0), protocol="ss")
    net.prepare([torch.ones(5, 2), torch.ones(5, 1)])
    for _ in range(2):
        net([0, 1, 4]).sum().backward()
    table, lines = net.transcript.table(), []
    seconds = replay(table, log=lines.append)
    about = ["step", "sender", "receiver", "name", "n_bytes"]
    sent = Counter(tuple(line[key] for key in about) for line in lines if line["step"])
    wanted = table[(table["phase"] == "online") & (table["step"] > 0)]
    assert sent == Counter(map(tuple, wanted[about].values.tolist()))
    assert len(wanted) < len(table) and seconds > 0
    opened = {(line["sender"], line["receiver"]) for line in lines if not line["step"]}
    assert opened == set(map(tuple, wanted[["sender", "receiver"]].values.tolist()))


class Own(threading.local):
    """The time of the party whose thread looks at it."""

    now = 0.0


class Imagined:
    """An Endpoint whose links take exactly the time that the shaping gives them, and whose machine
    takes none.

    Every party has its own time: it goes on where the party waits for a message that comes later.
    """

    all: dict = {}
    own = Own()

    def __init__(self, me, addresses, *, run, links, log, **_):
        self.me, self.run, self.latency, self.log = me, run, links.latency, log
        self.links = {role: TokenBucket(links.bandwidth) for role in addresses if role != me}
        self.incoming = {role: queue.Queue() for role in addresses if role != me}
        self.all[me] = self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def send(self, receiver, name, payload, *, step):
        n_bytes = len(pack(Frame(self.run, self.me, receiver, 0, step, "online", name, payload)))
        assert n_bytes - len(payload) <= HEAD
        left = self.links[receiver].take(n_bytes, self.own.now)
        if self.log:
            self.log(
                {
                    "key": (step, self.me, receiver, name),
                    "at": self.own.now,
                    "came": left + self.latency,
                }
            )
        self.all[receiver].incoming[self.me].put((name, step, left + self.latency))

    def receive(self, sender, name, *, step):
        came = self.incoming[sender].get(timeout=FAR)
        assert came[:2] == (name, step)
        self.own.now = max(self.own.now, came[2])

    def flush(self):
        pass


class Together(threading.Barrier):
    """All go on at the time of the last one."""

    def __init__(self, parties):
        super().__init__(parties)
        self.times = []

    def wait(self):
        self.times.append(Imagined.own.now)
        super().wait(FAR)
        Imagined.own.now = max(self.times)


@pytest.fixture
def exact(monkeypatch):
    """`replay` with links of exactly the given bandwidth and latency, on a machine that takes no
    time.
    """
    monkeypatch.setattr(module, "Endpoint", Imagined)
    monkeypatch.setattr(module, "Barrier", Together)
    monkeypatch.setattr(module, "perf_counter", lambda: Imagined.own.now)
    return replay


def test_nobody_sends_before_it_has_what_its_round_waits_for(exact):
    """What an earlier round brought to a party has come before it sends, by the party's own
    time.
    """
    lines = []
    exact(table_of("three holders"), latency=0.005, bandwidth=1e6, log=lines.append)
    of = {line["key"]: line for line in lines}
    online = part(table_of("three holders"), "online")
    checked = 0
    for message in online.itertuples():
        at = of[message.step, message.sender, message.receiver, message.name]["at"]
        mine = online[(online["receiver"] == message.sender) & (online["round"] < message.round)]
        for earlier in mine.itertuples():
            assert of[earlier.step, earlier.sender, earlier.receiver, earlier.name]["came"] <= at
            checked += 1
    assert checked > 100


@pytest.mark.parametrize(
    ("bandwidth", "latency"), [(400_000, 0.0), (2_000_000, 0.12), (1_000_000, 0.03), (1e9, 0.05)]
)
@pytest.mark.parametrize("name", TABLES)
def test_the_cost_model_is_what_a_replay_takes(exact, name, bandwidth, latency):
    """Exactly, but for the heads of the frames, which the model leaves out, and for links that are
    still busy with those that opened them: no replay is faster, as these rounds cannot overlap, and
    every message costs at most one head more."""
    table = table_of(name)
    network, took = (
        online_seconds(table, bandwidth=bandwidth, latency=latency),
        exact(table, bandwidth=bandwidth, latency=latency),
    )
    heads = 8 * HEAD * (len(part(table, "online")) + 1) / bandwidth
    assert network <= took <= network + heads


def test_the_two_directions_of_a_link_do_not_share_its_bandwidth_and_two_links_of_a_sender_neither(
    exact,
):
    size = 40_000
    table = pd.DataFrame(
        [[1, 1, "online", a, b, "x", size] for a in "ABC" for b in "ABC" if a != b], columns=COLUMNS
    )
    # six links of a second each
    assert 1.0 <= exact(table, bandwidth=8 * size) <= 1.0 + 2 * HEAD / size


def test_nothing_to_send_takes_no_time_and_no_port(monkeypatch):
    monkeypatch.setattr(module, "free_addresses", lambda n: pytest.fail("no port is needed"))
    assert replay(Transcript().table(), bandwidth=1e6) == 0.0
    offline = table_of("published")[table_of("published")["phase"] == "offline"]
    assert len(offline) and replay(offline, bandwidth=1e6) == 0.0


@pytest.mark.parametrize(
    ("name", "value"), [("bandwidth", -1.0), ("latency", float("nan")), ("bandwidth", float("inf"))]
)
def test_numbers_that_cannot_be_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} must be a finite number >=? 0, got {value}"):
        replay(table_of("masked"), **{name: value})


def test_a_party_that_fails_stops_the_others_at_once_and_its_own_error_is_raised(monkeypatch):
    send = module.Endpoint.send

    def failing(end, receiver, name, payload, **settings):
        if name == "dL/dh_L":
            raise OSError("the disk of A is full")
        return send(end, receiver, name, payload, **settings)

    monkeypatch.setattr(module.Endpoint, "send", failing)
    with pytest.raises(OSError, match="the disk of A is full"):
        replay(table_of("masked"))


def test_the_clock_starts_when_all_links_are_open(exact, monkeypatch):
    send = Imagined.send

    def slow(end, receiver, name, payload, *, step):
        if end.me == "B" and not step:
            Imagined.own.now += 1_000.0
        return send(end, receiver, name, payload, step=step)

    quick = exact(table_of("masked"), bandwidth=1e6)
    monkeypatch.setattr(Imagined, "send", slow)
    assert exact(table_of("masked"), bandwidth=1e6) == pytest.approx(quick)


def test_secureml_goes_through_the_links_as_its_27_rounds(exact):
    table = secureml_table((3, 2), (4, 3), n_rows=8, batch=8)
    assert part(table, "online")["round"].nunique() == 27
    assert exact(table, latency=0.01) == pytest.approx(27 * 0.01)
