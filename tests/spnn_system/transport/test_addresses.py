"""Ports that are free."""

import socket

import pytest
from played_roles import change

from spnn_system import config, preflight
from spnn_system.transport import addresses


def test_ports_are_free_and_all_different(monkeypatch):
    free = addresses.free_addresses(40)
    assert len(set(free)) == 40
    with socket.create_server(("127.0.0.1", 0)) as taken:
        # one at which somebody listens, one that was drawn before: two test suites at once have
        # different ones
        for port in (taken.getsockname()[1], free[0].port):
            monkeypatch.setattr(addresses, "PORTS", range(port, port + 1))
            with pytest.raises(OSError, match=f"there are no 1 free ports of {port} to {port}"):
                addresses.free_addresses(1)
            free[0].listen().close()


def address(role: str, new: str):
    return lambda path: change(path, str(config.load(path).addresses[role]), new)


def test_a_port_is_free_again_right_after_a_connection_was_closed(path):
    address = config.load(path).addresses["server"]
    where = address.host, address.port
    with socket.create_server(where) as serving, socket.create_connection(where) as calling:
        accepted, _ = serving.accept()
        # the server's side waits out its time
        accepted.close()
        assert calling.recv(1) == b""
    preflight.check_ports({"server": address})
