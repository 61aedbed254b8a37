"""Two roles on loopback for the tests of the transport, and a way to a role that can be cut."""

import contextlib
import socket
import threading

from waiting import FAR, until

from spnn_system.transport import certificates
from spnn_system.transport.addresses import Address, free_addresses
from spnn_system.transport.endpoint import Endpoint, Stopped
from spnn_system.transport.shaping import Links


def loopback(*roles):
    return dict(zip(roles, free_addresses(len(roles)), strict=True))


def opened(me, addresses, **settings):
    """An Endpoint from settings without their group, and with the certificates in a folder."""
    names = [name for name in settings if name in Links.__dataclass_fields__]
    links = Links(**{name: settings.pop(name) for name in names})
    return Endpoint(me, addresses, links=links, **settings)


class Pair:
    """A and server, in one process, over TLS; the first message has gone each way.  settings: of
    both endpoints.

    With a clock of its own nothing is sent before the test does.
    """

    def __init__(self, folder, **settings):
        at, self._opens = loopback("A", "server"), "clock" not in settings
        certificates.make(folder, list(at))
        settings = {"run": "r", "certificates": folder, "timeout": FAR} | settings
        self.A, self.server = (opened(role, at, **settings) for role in at)

    def __enter__(self):
        self.A.__enter__(), self.server.__enter__()
        for one, other in ((self.A, self.server), (self.server, self.A)) if self._opens else ():
            one.send(other.me, "hello", b"", step=0)
            other.receive(one.me, "hello", step=0)
        return self

    def __exit__(self, *error):
        try:
            if error[0] is None:
                with contextlib.suppress(Stopped):
                    # its last message is read, perhaps not yet acknowledged: A stays
                    self.server.flush()
            self.A.__exit__(*error)
        finally:
            self.server.__exit__(*error)


class Wire:
    """The middle of TCP connections to an address: what it lets through, it lets through unseen,
    until it is cut.

    refused: connections that came while it was cut.  carried: bytes that went towards the address.
    """

    def __init__(self, to):
        self._to, self._open, self._whole, self.refused, self.carried = to, [], True, 0, 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        """All connections break, and new ones at once."""
        self._whole = False
        for end in self._open:
            _end(end)
        self._open.clear()

    def restore(self):
        self._whole = True

    def close(self):
        self.cut()
        _end(self._listening)

    def _accept(self):
        while True:
            try:
                near = self._listening.accept()[0]
            except OSError:
                return
            try:
                to = self._to.host, self._to.port
                far = socket.create_connection(to) if self._whole else None
            except OSError:
                far = None
            self._open += [near, *([far] if far else [])]
            if not (far and self._whole):  # it may have been cut meanwhile
                self.refused += 1
                _end(near), far and _end(far)
                continue
            for ends in ((near, far, True), (far, near, False)):
                threading.Thread(target=self._pump, args=ends, daemon=True).start()

    def _pump(self, one, other, counts):
        try:
            while data := one.recv(65_536):
                self.carried += len(data) * counts
                other.sendall(data)
        except OSError:
            pass
        for end in (one, other):
            _end(end)


def _end(connection):
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


class Lines(list):
    """A log that can be waited for."""

    def refusal(self):
        return until(lambda: [line for line in self if line.get("event") == "refused"])
