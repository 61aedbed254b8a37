"""Two roles on loopback for the tests of the transport.  As a script, `network_pair.py N SIZE`, it prints what `seconds` returns."""

import contextlib
import random
import socket
import sys
import tempfile
import time

from ppkit.spnn.network import certificates
from ppkit.spnn.network.endpoint import Endpoint, Stopped


def free_ports(count):
    """Ports that nobody has, below those that the kernel gives to whoever dials."""
    found = []
    while len(found) < count:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            found += [port] * (port not in found)
    return found


def loopback(*roles):
    return {role: f"127.0.0.1:{port}" for role, port in zip(roles, free_ports(len(roles)), strict=True)}


class Pair:
    """A and server, in one process, over TLS; the first message has gone each way.  settings: of both endpoints."""

    def __init__(self, folder, **settings):
        addresses = loopback("A", "server")
        certificates.make(folder, list(addresses))
        self.A, self.server = (Endpoint(role, addresses, **{"run": "r", "certificates": folder, "timeout": 20.0} | settings)
                               for role in addresses)

    def __enter__(self):
        self.A.__enter__(), self.server.__enter__()
        for one, other in ((self.A, self.server), (self.server, self.A)):
            one.send(other.me, "hello", b"", step=0)
            other.receive(one.me, "hello", step=0)
        return self

    def __exit__(self, *error):
        try:
            if error[0] is None:
                with contextlib.suppress(Stopped):
                    self.server.flush()                          # its last message is read, perhaps not yet acknowledged: A stays
            self.A.__exit__(*error)
        finally:
            self.server.__exit__(*error)


def seconds(count, size, **settings):
    """From the first of so many messages, each sent when the one before has come, to the answer to the last."""
    with tempfile.TemporaryDirectory() as folder, Pair(folder, **settings) as pair:
        time.sleep(0.2)                                          # a kernel's bucket fills again
        began = time.monotonic()
        for step in range(count):
            pair.A.send("server", "m", bytes(size), step=step)
            pair.server.receive("A", "m", step=step)
        pair.server.send("A", "done", b"", step=0)
        pair.A.receive("server", "done", step=0)
        return time.monotonic() - began


if __name__ == "__main__":
    print(seconds(*map(int, sys.argv[1:])))
