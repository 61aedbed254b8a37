"""What a role refuses to take, over real TLS."""

import json
import shutil
import socket
import time
from datetime import UTC, datetime, timedelta

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from network_pair import Lines, Pair, loopback, opened
from waiting import FAR

from spnn_system.transport import certificates, frames
from spnn_system.transport.addresses import Address
from spnn_system.transport.frames import Frame, pack
from spnn_system.transport.links import Rejected

Code, PEM = grpc.StatusCode, Encoding.PEM


pytestmark = pytest.mark.usefixtures("patient")


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


def test_a_port_in_use_and_a_host_of_nobody_are_refused(folder):
    addresses = loopback("A", "server")
    with socket.create_server(("127.0.0.1", addresses["A"].port)):
        with pytest.raises(ValueError, match=f"A cannot serve at {addresses['A']}: "):
            opened("A", addresses, run="r", certificates=folder)
    with pytest.raises(ValueError, match="A cannot serve at no-such-host.invalid:5000: "):
        opened("A", {"A": Address("no-such-host.invalid", 5000)}, run="r", certificates=folder)
