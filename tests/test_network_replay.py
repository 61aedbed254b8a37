"""A replay sends what a table says, in its order, over real links; the cost model says how long that takes."""

import time
from collections import Counter

import pandas as pd
import pytest
import torch

from ppkit.spnn.layer import SPNN
from ppkit.spnn.messages import COLUMNS, Transcript
from ppkit.spnn.network import replay as module
from ppkit.spnn.network.cost_model import epoch_table, online_seconds, part, secureml_table, splitnn_table
from ppkit.spnn.network.replay import replay

SIZES = {"n_rows": 400, "batch": 200}
TABLES = {
    "masked": epoch_table((3, 2), (8, 8), protocol="masked", **SIZES),
    "published": epoch_table((3, 2), (8, 8), protocol="ss", form="published", **SIZES),
    "three holders": epoch_table((2, 2, 1), (8, 8), protocol="ss", form="published", **SIZES),
    "splitnn": splitnn_table((3, 2), (8, 8), **SIZES),
}


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
    assert len(wanted) < len(table) and 0 < seconds < 10
    opened = {(line["sender"], line["receiver"]) for line in lines if not line["step"]}
    assert opened == set(map(tuple, wanted[["sender", "receiver"]].values.tolist()))


def test_nobody_sends_before_it_has_what_its_round_waits_for():
    """One acknowledged message after the other: what an earlier round brought to a party lies before what it sends."""
    lines = []
    replay(TABLES["three holders"], latency=0.005, log=lines.append)
    at = {(line["step"], line["sender"], line["receiver"], line["name"]): line for line in lines}
    online = part(TABLES["three holders"], "online")
    checked = 0
    for message in online.itertuples():
        queued = at[message.step, message.sender, message.receiver, message.name]["at"]
        for earlier in online[(online["receiver"] == message.sender) & (online["round"] < message.round)].itertuples():
            assert at[earlier.step, earlier.sender, earlier.receiver, earlier.name]["at"] + 0.005 <= queued
            checked += 1
    assert checked > 100


@pytest.mark.parametrize(("name", "bandwidth", "latency"), [
    ("masked", 400_000, 0.0), ("masked", 2_000_000, 0.12), ("three holders", 1_000_000, 0.03),
])
def test_the_cost_model_is_within_15_percent_of_a_replay(name, bandwidth, latency):
    """Computing is what an unshaped replay takes. The quickest of three, as other work on the machine only adds.

    No replay is faster than the model without computing: these rounds cannot overlap.
    """
    table, off = TABLES[name], []
    network = online_seconds(table, bandwidth=bandwidth, latency=latency)
    assert network > 1
    while len(off) < 3 and min(off, default=1) > 0.15:
        took, computing = replay(table, bandwidth=bandwidth, latency=latency), replay(table)
        assert network <= took * 1.001
        off.append(abs(network + computing - took) / took)
    assert min(off) <= 0.15


def test_the_two_directions_of_a_link_do_not_share_its_bandwidth_and_two_links_of_a_sender_neither():
    size = 40_000
    table = pd.DataFrame([[1, 1, "online", a, b, "x", size] for a in "ABC" for b in "ABC" if a != b], columns=COLUMNS)
    took = replay(table, bandwidth=8 * size)                                  # six links of a second each
    assert 1.0 <= took < 1.4


def test_nothing_to_send_takes_no_time_and_no_port(monkeypatch):
    monkeypatch.setattr(module, "free_ports", lambda n: pytest.fail("no port is needed"))
    assert replay(Transcript().table(), bandwidth=1e6) == 0.0
    offline = TABLES["published"][TABLES["published"]["phase"] == "offline"]
    assert len(offline) and replay(offline, bandwidth=1e6) == 0.0


@pytest.mark.parametrize(("name", "value"), [("bandwidth", -1.0), ("latency", float("nan")), ("bandwidth", float("inf"))])
def test_numbers_that_cannot_be_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} must be a finite number >= 0, got {value}"):
        replay(TABLES["masked"], **{name: value})


def test_a_party_that_fails_stops_the_others_at_once_and_its_own_error_is_raised(monkeypatch):
    send = module.Endpoint.send

    def failing(end, receiver, name, payload, **settings):
        if name == "dL/dh_L":
            raise OSError("the disk of A is full")
        return send(end, receiver, name, payload, **settings)

    monkeypatch.setattr(module.Endpoint, "send", failing)
    began = time.monotonic()
    with pytest.raises(OSError, match="the disk of A is full"):
        replay(TABLES["masked"])
    assert time.monotonic() - began < 5                                      # silence alone would end it after 30 s


def test_the_clock_starts_when_all_links_are_open(monkeypatch):
    send = module.Endpoint.send

    def slow(end, receiver, name, payload, **settings):
        if end.me == "B" and not settings["step"]:
            time.sleep(1.5)
        return send(end, receiver, name, payload, **settings)

    monkeypatch.setattr(module.Endpoint, "send", slow)
    assert replay(TABLES["masked"]) < 1.2


def test_secureml_goes_through_the_links_as_its_27_rounds():
    table = secureml_table((3, 2), (4, 3), n_rows=8, batch=8)
    n_rounds = part(table, "online")["round"].nunique()
    assert replay(table, latency=0.01) >= n_rounds * 0.01
    assert n_rounds == 27
