"""What an endpoint takes and refuses over real TLS, what it does when a connection or a role is
lost, and what it leaves behind.
"""

import json
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta

import grpc
import pytest
import torch
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from network_pair import Pair, Wire, loopback, opened
from waiting import FAR, Hand, until

from spnn_system.transport import certificates, frames, listener
from spnn_system.transport.addresses import Address
from spnn_system.transport.endpoint import OutOfTurn, Silent, Stopped
from spnn_system.transport.frames import Frame, pack
from spnn_system.transport.links import Outgoing, Rejected

Code, PEM = grpc.StatusCode, Encoding.PEM


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Certificates of one run for three roles, and of others that must not get in."""
    place = tmp_path_factory.mktemp("certificates")
    certificates.make(place, ["A", "B", "server", "stranger"])
    certificates.make(place / "other", ["A", "server"])
    return place


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """However slow the machine is, a cut is not taken for a message that is too short."""
    monkeypatch.setattr(listener, "CLOSING_SECONDS", FAR)


class Lines(list):
    """A log that can be waited for."""

    def refusal(self):
        return until(lambda: [line for line in self if line.get("event") == "refused"])


@pytest.fixture
def place(folder):
    """server, which A may send "good" and B "other"; its address and its log."""
    addresses, lines = loopback("A", "B", "server"), Lines()
    server = opened(
        "server",
        addresses,
        run="r",
        certificates=folder,
        timeout=FAR,
        log=lines.append,
        accepts={"A": {"good"}, "B": {"other"}},
    )
    server.on_call("double", lambda caller, body: {"caller": caller, "twice": 2 * body["x"]})
    with server:
        yield server, addresses, lines


def knock(address, credentials, messages, session="s", method="Deliver", target="server"):
    """What comes back when these messages, of bytes or of pieces, are sent with these credentials:
    the status, its sentence, and the answers, or the numbers of the messages that were taken.
    """
    options = [
        ("grpc.ssl_target_name_override", certificates.target(target)),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.min_reconnect_backoff_ms", int(1e3 * FAR)),
        ("grpc.initial_reconnect_backoff_ms", int(1e3 * FAR)),
    ]
    channel = (
        grpc.secure_channel(str(address), credentials, options)
        if credentials
        else grpc.insecure_channel(str(address), options)
    )
    how = dict(timeout=FAR, metadata=(("ppkit-session", session),))
    with channel:
        taken = []
        try:
            for message in messages:
                if method == "Call":
                    taken.append(channel.unary_unary("/ppkit.spnn/Call")(message, **how))
                else:
                    parts = message if isinstance(message, list) else [message]
                    assert channel.stream_unary("/ppkit.spnn/Deliver")(iter(parts), **how) == b""
                    taken.append(frames.unpack(b"".join(parts)).number)
        except grpc.RpcError as error:
            return error.code(), error.details(), taken
        return Code.OK, "", taken


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


# in the way of "A", by its own certificate, with something wrong in the message
WRONG = {
    "another sender": (
        {"sender": "B"},
        Code.PERMISSION_DENIED,
        "the certificate is of A, the frame of B",
    ),
    "another run": ({"run": "s"}, Code.FAILED_PRECONDITION, "the run is 'r', the frame is of 's'"),
    "another receiver": (
        {"receiver": "B"},
        Code.FAILED_PRECONDITION,
        "this is server, the frame is for B",
    ),
    "a number ahead": (
        {"number": 1},
        Code.OUT_OF_RANGE,
        "message 1 came before message 0 of this link",
    ),
    "a name that B may send": (
        {"name": "other"},
        Code.PERMISSION_DENIED,
        "A may not send 'other' to server",
    ),
    "a name that nobody sends": (
        {"name": "bad"},
        Code.PERMISSION_DENIED,
        "A may not send 'bad' to server",
    ),
}
GARBAGE = {
    "no frame": [b"\x80\x04\x95 pickled"],
    "half a frame": [good()[:-1]],
    "half a head": [good()[:30]],
    "one byte too many": [good() + b"x"],
    "two in one": [good() + good(number=1)],
    "a head that lies": [good().replace(b",7]", b",6]")],
    "a piece too long": [[good().replace(b",7]", b",9]"), b"123"]],
}


def still_takes_a_good_one(server, address, folder, session="s", number=0):
    code, why, taken = knock(
        address, certificates.dialling(folder, "A"), [good(number=number)], session
    )
    assert (code, why, taken) == (Code.OK, "", [number])
    assert server.receive("A", "good", step=1) == b"payload"


@pytest.mark.parametrize("changes, code, why", WRONG.values(), ids=WRONG)
def test_a_message_that_should_not_come_is_refused_and_the_next_good_one_taken(
    place, folder, changes, code, why
):
    (server, addresses, lines), before = place, time.time()
    assert knock(addresses["server"], certificates.dialling(folder, "A"), [good(**changes)]) == (
        code,
        why,
        [],
    )
    [line] = lines.refusal()
    assert (line["from"], line["why"]) == ("A", why) and before <= line["at"] <= time.time()
    still_takes_a_good_one(server, addresses["server"], folder)
    assert len(lines.refusal()) == 1


@pytest.mark.parametrize("parts", GARBAGE.values(), ids=GARBAGE)
def test_garbage_is_refused_and_the_next_good_one_taken(place, folder, parts):
    server, addresses, lines = place
    code, why, taken = knock(addresses["server"], certificates.dialling(folder, "A"), parts)
    assert code is Code.INVALID_ARGUMENT and taken == []
    [line] = lines.refusal()
    assert (line["from"], line["why"]) == ("A", why)
    still_takes_a_good_one(server, addresses["server"], folder)


def test_a_role_that_has_no_part_in_this_is_refused(place, folder):
    server, addresses, lines = place
    for sender in ("stranger", "A"):
        code, why, _ = knock(
            addresses["server"], certificates.dialling(folder, "stranger"), [good(sender=sender)]
        )
        assert (code, why) == (Code.PERMISSION_DENIED, "stranger is no role that server talks with")
    code, why, _ = knock(
        addresses["server"], certificates.dialling(folder, "server"), [good(sender="server")]
    )
    assert (code, why) == (Code.PERMISSION_DENIED, "server is no role that server talks with")
    assert [line["from"] for line in lines.refusal()] == ["stranger", "stranger", "server"]
    still_takes_a_good_one(server, addresses["server"], folder)


def no_certificate(folder, tmp_path):
    return grpc.ssl_channel_credentials((folder / "A" / "ca.pem").read_bytes())


def of_another_authority(folder, tmp_path):
    shutil.copytree(folder / "other" / "A", tmp_path / "A")
    shutil.copy(folder / "A" / "ca.pem", tmp_path / "A" / "ca.pem")
    return certificates.dialling(tmp_path, "A")


def without_tls(folder, tmp_path):
    return None


def test_without_a_certificate_of_this_authority_nobody_gets_in(place, folder, tmp_path, capfd):
    server, addresses, lines = place
    for credentials in (no_certificate, of_another_authority, without_tls):
        code, _, taken = knock(addresses["server"], credentials(folder, tmp_path), [good()])
        assert code is Code.UNAVAILABLE and taken == [], credentials
    still_takes_a_good_one(server, addresses["server"], folder)
    assert not lines and capfd.readouterr().err.count("Handshake failed") == 3, "gRPC says why"


def test_an_expired_certificate_does_not_get_in(folder, tmp_path, capfd):
    """Of the right authority, for the right role, with the right key: only the time is wrong."""
    now, keys = (
        datetime.now(UTC),
        {role: ec.generate_private_key(ec.SECP256R1()) for role in ("ca", "A", "server")},
    )
    valid, over = (
        (now - timedelta(days=2), now + timedelta(days=1)),
        (now - timedelta(days=2), now - timedelta(days=1)),
    )
    ca = certificates._named("an authority")
    authority = certificates._signed(
        ca, ca, keys["ca"].public_key(), keys["ca"], valid, is_authority=True
    )
    for place, span in (("good", valid), ("old", over)):
        for role in ("A", "server"):
            alternatives = [x509.DNSName(certificates.target(role))]
            mine = certificates._signed(
                certificates._named(role),
                ca,
                keys[role].public_key(),
                keys["ca"],
                span,
                alternatives=alternatives,
            )
            (tmp_path / place / role).mkdir(parents=True)
            private = keys[role].private_bytes(PEM, PrivateFormat.PKCS8, NoEncryption())
            for file, text in zip(
                certificates.FILES, (authority.public_bytes(PEM), mine.public_bytes(PEM), private)
            ):
                (tmp_path / place / role / file).write_bytes(text)
                (tmp_path / place / role / file).chmod(0o600)
    lines, addresses = Lines(), loopback("A", "server")
    settings = {"run": "r", "certificates": tmp_path / "good", "log": lines.append}
    with opened("server", addresses, **settings) as server:
        code, _, taken = knock(
            addresses["server"], certificates.dialling(tmp_path / "old", "A"), [good()]
        )
        assert code is Code.UNAVAILABLE and taken == [] and not lines
        still_takes_a_good_one(server, addresses["server"], tmp_path / "good")
    assert "certificate has expired" in capfd.readouterr().err


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


def test_a_message_that_comes_again_is_acknowledged_and_dropped(place, folder):
    server, addresses, lines = place
    dialling = certificates.dialling(folder, "A")
    parts = [
        good(payload=b"first"),
        good(payload=b"again"),
        good(number=1, payload=b"second"),
        good(payload=b"again"),
    ]
    assert knock(addresses["server"], dialling, parts) == (Code.OK, "", [0, 0, 1, 0])
    assert knock(addresses["server"], dialling, parts[:1]) == (Code.OK, "", [0])
    assert [server.receive("A", "good", step=1) for _ in range(2)] == [b"first", b"second"]
    assert not server._inbox.senders["A"].waiting, "the two that came again"
    assert not [line for line in lines if line.get("event") == "refused"]


def test_a_sender_that_was_started_anew_is_refused_and_not_taken_for_a_retry(place, folder):
    server, addresses, lines = place
    dialling = certificates.dialling(folder, "A")
    assert knock(addresses["server"], dialling, [good()], session="one")[0] is Code.OK
    for number in (0, 1):
        code, why, taken = knock(
            addresses["server"], dialling, [good(number=number)], session="two"
        )
        assert code is Code.FAILED_PRECONDITION and "started anew" in why and taken == []
    assert len(lines.refusal()) == 2
    assert server.receive("A", "good", step=1) == b"payload"
    still_takes_a_good_one(server, addresses["server"], folder, session="one", number=1)


def test_calls_pass_the_same_checks(place, folder):
    server, addresses, lines = place
    dialling = certificates.dialling(folder, "A")
    ask = lambda method="Call", **changes: knock(
        addresses["server"],
        dialling,
        [good(**{"name": "double", "payload": {"x": 4}} | changes)],
        method=method,
    )
    assert json.loads(ask()[2][0]) == {"caller": "A", "twice": 8}
    assert (
        ask(run="s")[0] is Code.FAILED_PRECONDITION and ask(sender="B")[0] is Code.PERMISSION_DENIED
    )
    assert (
        ask(receiver="A")[0] is Code.FAILED_PRECONDITION
        and ask(name="treble")[0] is Code.UNIMPLEMENTED
    )
    assert ask(payload=b"bytes", number=2)[0] is Code.UNIMPLEMENTED and len(lines.refusal()) == 5


# what would be tried for ever


@pytest.mark.parametrize("error", [MemoryError, RecursionError, RuntimeError])
def test_a_message_that_the_receiver_fails_at_is_tried_once_and_ends_the_senders_run(
    tmp_path, monkeypatch, error
):
    lines, tried, real = [], [], frames.unpack

    def fails(content):
        if real(content).name in ("x", "ask"):
            tried.append(1)
            raise error("a value that nobody is to see")
        return real(content)

    with Pair(tmp_path, log=lines.append) as pair:
        monkeypatch.setattr(frames, "unpack", fails)
        with pytest.raises(
            Rejected,
            match=rf"^server refused: server could not take this call \({error.__name__}\)$",
        ):
            pair.A.call("server", "ask", {})
        pair.A.send("server", "x", b"1", step=1)
        with pytest.raises(
            Rejected,
            match=rf"^server refused: server could not take this message \({error.__name__}\)$",
        ):
            pair.A.flush()
        assert len(tried) == 2
    failed = [line for line in lines if line.get("event") == "refused"]
    assert [(line["from"], line["why"]) for line in failed] == [
        ("A", f"server could not take this {what} ({error.__name__})")
        for what in ("call", "message")
    ]


def test_pieces_that_come_to_nothing_again_and_again_are_no_sign_of_life():
    """Every call takes both pieces and breaks, for ever: they count in the first two tries."""
    failed, calls, over, clock = [], [], threading.Event(), Hand()

    class Call:
        """A call that the test breaks."""

        def __init__(self, parts):
            self.parts, self.broken, self.gone = parts, threading.Event(), False

        def code(self):
            if not self.gone:
                calls.append(self)
                self.gone = len([*self.parts]) == 2
            assert self.broken.wait(FAR)
            return Code.UNKNOWN

        details = lambda self: "broken"
        cancel = lambda self: self.broken.set()

    link = Outgoing(
        "B",
        Call,
        bandwidth=0,
        timeout=1.0,
        stopped=over,
        clock=clock,
        sent=lambda about: None,
        failed=failed.append,
    )
    link.put([b"one", b"two"], {})
    alive = []
    for n in range(1, 5):
        until(lambda: len(calls) == n and calls[-1].gone)
        alive.append(link._alive)
        clock.move(0.4 * n)
        link.end_if_silent()
        calls[-1].broken.set()
    until(lambda: failed)
    over.set()
    link.end()
    assert alive == [0.0, 0.4, 0.4, 0.4] and len(calls) == 4
    assert [type(error) for error in failed] == [Silent]


# two endpoints with each other


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


# connections that are lost


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


# what is wrong before anything starts


def test_a_port_in_use_and_a_host_of_nobody_are_refused(folder):
    addresses = loopback("A", "server")
    with socket.create_server(("127.0.0.1", addresses["A"].port)):
        with pytest.raises(ValueError, match=f"A cannot serve at {addresses['A']}: "):
            opened("A", addresses, run="r", certificates=folder)
    with pytest.raises(ValueError, match="A cannot serve at no-such-host.invalid:5000: "):
        opened("A", {"A": Address("no-such-host.invalid", 5000)}, run="r", certificates=folder)


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
