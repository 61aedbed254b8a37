"""What an endpoint takes and refuses over real TLS, what it does when a connection or a role is
lost, and what it leaves behind.
"""

import math
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch
from network_pair import Pair, Wire, loopback, opened
from waiting import FAR, Hand, until

from spnn_system.transport import frames
from spnn_system.transport.endpoint import OutOfTurn, Silent, Stopped
from spnn_system.transport.frames import Frame, pack
from spnn_system.transport.links import Rejected

pytestmark = pytest.mark.usefixtures("patient")


def good(**changes):
    return pack(
        Frame(
            **{
                "run": "r",
                "sender": "A",
                "receiver": "server",
                "number": 0,
                "step": 1,
                "phase": "online",
                "name": "good",
                "payload": b"payload",
            }
            | changes
        )
    )


def test_who_dials_checks_that_it_reached_the_role_it_meant(folder):
    """B listens where A thinks the server is: A sends it nothing."""
    addresses, seen, clock = loopback("A", "server"), [], Hand()
    there = {"A": addresses["A"], "B": addresses["server"]}
    with opened("B", there, run="r", certificates=folder, log=seen.append):
        with pytest.raises(Silent, match="server could not be reached") as silent:
            with opened(
                "A", addresses, run="r", certificates=folder, timeout=1.0, clock=clock
            ) as a:
                a.send("server", "secret", b"x", step=0)
                # it has tried, and tried again
                until(lambda: a._outgoing["server"]._kept[0].tries > 1)
                clock.move(1.1)
        assert silent.value.role == "server" and not [
            line for line in seen if line.get("from") == "A"
        ]


def test_tensors_arrive_as_they_were_sent_in_order_and_both_sides_can_tell(folder, tmp_path):
    lines, tensors = (
        [],
        [torch.randn(8, 5_000).T, torch.arange(6, dtype=torch.int64).view(2, 3), torch.empty(0, 8)],
    )
    with Pair(tmp_path, log=lines.append, record=tmp_path / "record") as pair:
        for step, tensor in enumerate(tensors):
            pair.A.send(
                "server", f"m{step}", tensor, step=step, phase="offline" if step else "online"
            )
        for step, tensor in enumerate(tensors):
            got = pair.server.receive("A", f"m{step}", step=step)
            assert (
                torch.equal(got, tensor)
                and got.stride() == tensor.stride()
                and got.dtype == tensor.dtype
            )
    sent = [line for line in lines if line["name"].startswith("m")]
    assert [(line["step"], line["phase"], line["n_bytes"]) for line in sent] == [
        (0, "online", 160_000),
        (1, "offline", 48),
        (2, "offline", 0),
    ]
    assert list(sent[0]) == [
        "at",
        "sent_at",
        "step",
        "phase",
        "sender",
        "receiver",
        "name",
        "n_bytes",
        "wire_bytes",
    ]
    assert all(
        line["at"] <= line["sent_at"] <= time.time()
        and 0 < line["wire_bytes"] - line["n_bytes"] < 250
        for line in sent
    )
    kept = [frame for frame in frames.recorded(tmp_path / "record") if frame.receiver == "server"]
    assert [frame.name for frame in kept] == ["hello", "m0", "m1", "m2"] and torch.equal(
        kept[1].payload, tensors[0]
    )
    assert [len(pack(frame)) for frame in kept[1:]] == [line["wire_bytes"] for line in sent]


def test_a_long_message_goes_in_pieces_and_arrives_whole(tmp_path):
    tensor = torch.randint(0, 1 << 40, (700_001,), generator=torch.Generator().manual_seed(0))
    with Pair(tmp_path) as pair:
        pair.A.send("server", "long", tensor, step=0)
        pair.A.send("server", "short", b"x", step=0)
        tensor_sent = tensor.clone()
        tensor.zero_()  # what is sent is what was there
        assert torch.equal(pair.server.receive("A", "long", step=0), tensor_sent)
        assert pair.server.receive("A", "short", step=0) == b"x"


def test_another_message_than_waited_for_is_out_of_turn_and_stays(tmp_path):
    with Pair(tmp_path) as pair:
        pair.A.send("server", "x", b"1", step=3)
        for name, step in (("y", 3), ("x", 4)):
            with pytest.raises(
                OutOfTurn,
                match=f"A sent 'x' of step 3 where server waits for '{name}' of step {step}",
            ) as wrong:
                pair.server.receive("A", name, step=step)
            assert wrong.value.role == "A"
        assert pair.server.receive("A", "x", step=3) == b"1"


def waits(receive):
    """Call `receive` in a thread; returns the list of what it gives or raises, and the thread."""
    ended = []

    def act():
        try:
            ended.append(receive())
        except Exception as error:
            ended.append(error)

    thread = threading.Thread(target=act)
    thread.start()
    return ended, thread


def test_stop_ends_every_wait_with_its_reason_and_calls_go_on(tmp_path):
    clock = Hand()
    pair = Pair(tmp_path, clock=clock)
    pair.A.on_call("who", lambda caller, body: {"caller": caller})
    with pair:
        waiting = [waits(lambda: pair.server.receive("A", "x", step=0)) for _ in range(3)]
        until(lambda: clock.waits == [math.inf] * 3)
        pair.server.stop("holder B is gone")
        for ended, thread in waiting:
            thread.join(FAR)
            assert isinstance(ended[0], Stopped) and str(ended[0]) == "holder B is gone"
        pair.server.stop("a later reason")
        for act in (
            lambda: pair.server.send("A", "x", b"", step=0),
            pair.server.flush,
            lambda: pair.server.receive("A", "x", step=0),
        ):
            with pytest.raises(Stopped, match="holder B is gone"):
                act()
        assert pair.server.call("A", "who", {}) == {"caller": "server"}


def test_a_refused_message_ends_the_senders_run_with_the_reason(tmp_path):
    with Pair(tmp_path, accepts={"A": {"hello"}, "server": {"hello"}}) as pair:
        with pytest.raises(
            Rejected, match="server refused: A may not send 'x' to server"
        ) as refused:
            pair.A.send("server", "x", b"", step=0)
            pair.A.receive("server", "y", step=0)
        assert refused.value.role == "server"
        with pytest.raises(Rejected):
            pair.A.send("server", "hello", b"", step=0)


def test_a_handler_can_refuse_and_its_mishaps_are_not_told(tmp_path):
    lines = []

    def no(caller, body):
        raise ValueError(f"{caller} came too late")

    def mishap(caller, body):
        raise KeyError("a value that the caller must not see")

    pair = Pair(tmp_path, log=lines.append)
    pair.server.on_call("no", no), pair.server.on_call("mishap", mishap)
    with pair:
        with pytest.raises(Rejected, match="server refused: A came too late"):
            pair.A.call("server", "no", {})
        with pytest.raises(Rejected, match=r"failed to answer 'mishap' \(KeyError\)") as rejected:
            pair.A.call("server", "mishap", {})
        assert "must not see" not in str(rejected.value)
        told = [line["why"] for line in lines if "event" in line]
        assert told == ["A came too late", "server failed to answer 'mishap' (KeyError)"]
        with pytest.raises(Rejected, match="answers no call 'what'"):
            pair.A.call("server", "what", {})


@pytest.fixture
def cuttable(folder):
    """A, that reaches server only over a wire; both, the wire, and A's log."""
    addresses, lines = loopback("A", "server"), []
    wire = Wire(addresses["server"])
    made = []

    def make(*, answers=(), **settings):
        server = opened("server", addresses, run="r", certificates=folder, **settings)
        for answer in answers:
            server.on_call(answer.__name__, answer)
        a = opened(
            "A",
            addresses | {"server": wire.address},
            run="r",
            certificates=folder,
            log=lines.append,
            **settings,
        )
        made.extend([a, server])
        return a.__enter__(), server.__enter__(), wire, lines

    yield make
    for endpoint in made:
        endpoint.close()
    wire.close()


def cut_for_a_while(wire):
    """Cut, until the sender has tried in vain; then whole again."""
    before = wire.refused
    wire.cut()
    until(lambda: wire.refused > before)
    wire.restore()


@pytest.mark.slow
def test_messages_cross_cuts_once_and_in_order(cuttable):
    a, server, wire, lines = cuttable(timeout=FAR)
    sent = [torch.full((2_500,), float(step)) for step in range(300)]
    for start, cuts in ((0, 1), (40, 1), (90, 2), (200, 1), (290, 0)):
        for step in range(start, {0: 40, 40: 90, 90: 200, 200: 290, 290: 300}[start]):
            a.send("server", "m", sent[step], step=step)
        # in the midst of what was just sent
        for _ in range(cuts):
            cut_for_a_while(wire)
    for step, tensor in enumerate(sent):
        assert torch.equal(server.receive("A", "m", step=step), tensor)
    a.flush()
    assert [line["step"] for line in lines] == list(range(300))
    assert not server._inbox.senders["A"].waiting, "and none twice"


def half_way(wire, clock, n_bytes, bandwidth):
    """Let the pieces of a message come until about half of it is there."""
    clock.move(n_bytes * 4 / bandwidth)
    until(lambda: wire.carried > n_bytes / 4)


@pytest.mark.slow
def test_a_cut_in_the_middle_of_a_long_message_sends_it_again_whole(cuttable):
    clock, bandwidth = Hand(), 80e6
    a, server, wire, _ = cuttable(timeout=FAR, bandwidth=bandwidth, clock=clock)
    words = torch.arange(1_250_000, dtype=torch.int32)
    a.send("server", "long", words, step=0)
    half_way(wire, clock, 5_000_000, bandwidth)
    cut_for_a_while(wire)
    clock.run()
    assert torch.equal(server.receive("A", "long", step=0), words)


@pytest.mark.slow
def test_a_call_is_answered_by_one_run_of_its_handler_however_often_it_is_asked(cuttable):
    counted, go_on = [], threading.Event()

    def count(caller, body):
        counted.append(body["n"])
        assert go_on.wait(FAR)
        return {"count": len(counted)}

    a, server, wire, _ = cuttable(timeout=FAR, answers=[count])
    asked, admitted = [], server._listener._admitted
    server._listener._admitted = lambda *given: (asked.append(1), admitted(*given))[1]
    ended, thread = waits(lambda: a.call("server", "count", {"n": 7}))
    until(lambda: counted)
    cut_for_a_while(wire)
    # it comes again, and waits
    until(lambda: len(asked) == 2)
    go_on.set()
    thread.join(FAR)
    assert ended == [{"count": 1}] and counted == [7]


@pytest.mark.slow
def test_a_connection_that_is_not_restored_ends_in_a_sentence_that_names_the_role(cuttable):
    clock = Hand()
    a, server, wire, _ = cuttable(timeout=1.5, clock=clock)
    a.send("server", "m", b"1", step=0)
    a.flush()
    wire.cut()
    a.send("server", "m", b"2", step=1)
    ended, thread = waits(lambda: a.receive("server", "answer", step=1))
    until(lambda: wire.refused)
    clock.move(1.6)
    thread.join(FAR)
    [silent] = ended
    assert isinstance(silent, Silent) and silent.role == "server" and "\n" not in str(silent)
    assert re.match(r"server could not be reached, or took nothing, for 1\.5 s", str(silent))
    for move, how in (
        (lambda: clock.move(2.2), {"timeout": 0.5}),
        (lambda: enough.set(), {"until": (enough := threading.Event())}),
    ):
        before = wire.refused
        ended, thread = waits(lambda: a.call("server", "hello", {}, **how))
        # it tries again and again
        until(lambda: wire.refused > before + 1)
        move()
        thread.join(FAR)
        assert isinstance(ended[0], Silent) and str(ended[0]).startswith(
            "server did not answer 'hello' for "
        )


HUNG = """
import sys, time
from spnn_system.transport.addresses import Address
from spnn_system.transport.endpoint import Endpoint
from spnn_system.transport.shaping import Links
at = {"A": Address.parse(sys.argv[1]), "server": Address.parse(sys.argv[2])}
how = dict(run="r", certificates=sys.argv[3], links=Links(timeout=600.0))
with Endpoint("server", at, **how) as server:
    print("up", flush=True)
    print(server.receive("A", "m", step=0), flush=True)
    time.sleep(600)
"""


@pytest.mark.processes
def test_a_role_that_hangs_is_named(folder):
    """Stopped by a signal, it keeps its connections, and takes nothing any more."""
    addresses, clock = loopback("A", "server"), Hand()
    child = subprocess.Popen(
        [sys.executable, "-c", HUNG, str(addresses["A"]), str(addresses["server"]), folder],
        stdout=subprocess.PIPE,
    )
    try:
        assert child.stdout.readline() == b"up\n"
        a = opened(
            "A", addresses, run="r", certificates=folder, timeout=FAR, clock=clock
        ).__enter__()
        a.send("server", "m", b"x", step=0)
        a.flush()
        assert child.stdout.readline() == b"b'x'\n"
        os.kill(child.pid, signal.SIGSTOP)
        a.send("server", "m", torch.zeros(4_000), step=1)
        # it leaves, which is a sign of life, towards a role that does not take it
        until(lambda: a._failure or clock.move(clock.time + FAR + 1.0))
        with pytest.raises(
            Silent, match=f"^server could not be reached, or took nothing, for {FAR:g} s"
        ):
            a.flush()
        a.close()
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def test_leaving_waits_for_acknowledgements_and_ends_every_thread(tmp_path):
    before = {thread.name for thread in threading.enumerate()}
    lines = []
    with Pair(tmp_path, bandwidth=10e6, log=lines.append) as pair:
        pair.A.send("server", "m", bytes(250_000), step=0)  # 0.2 s
    assert [line["name"] for line in lines] == ["hello", "hello", "m"]
    until(
        lambda: (
            not {t.name for t in threading.enumerate() if t.name.startswith(("to ", "watch"))}
            - before
        )
    )
    pair.A.close()
    with pytest.raises(Stopped, match="A has closed its endpoint"):
        pair.A.send("server", "m", b"", step=0)
