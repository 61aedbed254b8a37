"""Addresses, host:port: how one is read, whether a role can listen at it, and ports of this machine
that are free.
"""

import getpass
import random
import socket
import tempfile
from contextlib import suppress
from pathlib import Path

from filelock import FileLock

PORTS = range(20_000, 32_000)  # below those that systems give to outgoing connections
_DRAWN: list[FileLock] = []  # held until this process ends


def parse(address: str) -> tuple[str, int]:
    """Host and port of host:port or [IPv6]:port.  ValueError for anything else.

    >>> parse("127.0.0.1:50050"), parse("[::1]:50051")
    (('127.0.0.1', 50050), ('::1', 50051))
    """
    host, _, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not host or not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65535:
        raise ValueError(f"address must be host:port with a port of 1 to 65535, got {address!r}")
    return host, int(port)


def listening(address: str) -> socket.socket:
    """A socket that listens at an address, for who asks whether one can; nobody else can until it
    is closed.

    ValueError for what is no address, OSError where nobody can listen here and now. Connections
    that the last process there has closed do not count.
    """
    family, *_, where = socket.getaddrinfo(*parse(address), type=socket.SOCK_STREAM)[0]
    return socket.create_server(where, family=family)


def free_ports(n: int) -> list[int]:
    """n different ports of 127.0.0.1 on which nothing listens now.  OSError if there are not as
    many.

    They are this process's for as long as it lives: another one of this user that draws meanwhile
    gets others, also where nothing listens at them yet.
    """
    found, folder = [], Path(tempfile.gettempdir(), f"ppkit-ports-{getpass.getuser()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        lock = FileLock(folder / str(port), blocking=False, thread_local=False)
        with suppress(OSError):  # a Timeout of the lock is one too
            lock.acquire()
            listening(f"127.0.0.1:{port}").close()
            _DRAWN.append(lock)
            found.append(port)
        if len(found) == n:
            return found
    raise OSError(f"there are no {n} free ports of {PORTS.start} to {PORTS.stop - 1}")
