"""A server that two roles may send to, on loopback, for tests of both ends of a call."""

import pytest
from network_pair import Lines, loopback, opened
from waiting import FAR

from spnn_system.transport import certificates, listener


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Certificates of one run for three roles, and of others that must not get in."""
    place = tmp_path_factory.mktemp("certificates")
    certificates.make(place, ["A", "B", "server", "stranger"])
    certificates.make(place / "other", ["A", "server"])
    return place


@pytest.fixture
def patient(monkeypatch):
    """However slow the machine is, a cut is not taken for a message that is too short."""
    monkeypatch.setattr(listener, "CLOSING_SECONDS", FAR)


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
