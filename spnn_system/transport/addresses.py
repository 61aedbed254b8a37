"""Addresses, host:port: how one is read, whether a role can listen at it, and ports of this machine
that are free.
"""

import getpass
import random
import socket
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

PORTS = range(20_000, 32_000)  # below those that systems give to outgoing connections
_DRAWN: list[FileLock] = []  # held until this process ends


@dataclass(frozen=True, slots=True)
class Address:
    """Where a role listens and the others reach it."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: Any) -> "Address":
        """The address that host:port or [IPv6]:port says.  ValueError for anything else, and for
        0.0.0.0 and [::]: one can listen there, and not dial.

        >>> Address.parse("[::1]:50051")
        Address(host='::1', port=50051)
        """
        host, _, port = str(text).rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            host = ""
        if host in ("", "0.0.0.0", "::") or not port.isdecimal() or not 1 <= int(port) <= 65535:
            raise ValueError(f"address must be host:port, got {text!r}")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def listen(self) -> socket.socket:
        """A socket that listens here, for who asks whether one can; nobody else can until it is
        closed.

        OSError where nobody can listen here and now. Connections that the last process there has
        closed do not count.
        """
        family, *_, where = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(where, family=family)


def free_addresses(n: int) -> list[Address]:
    """n addresses of 127.0.0.1 at whose ports nothing listens now.  OSError if there are not as
    many.

    They are this process's for as long as it lives: another one of this user that draws meanwhile
    gets others, also where nothing listens at them yet.
    """
    found: list[Address] = []
    folder = Path(tempfile.gettempdir(), f"ppkit-ports-{getpass.getuser()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        address = Address("127.0.0.1", port)
        lock = FileLock(folder / str(port), blocking=False, thread_local=False)
        with suppress(OSError):  # a Timeout of the lock is one too
            lock.acquire()
            address.listen().close()
            _DRAWN.append(lock)
            found.append(address)
        if len(found) == n:
            return found
    raise OSError(f"there are no {n} free ports of {PORTS.start} to {PORTS.stop - 1}")
