"""What can be checked before a role starts: hosts, certificates, free ports, a folder to write to."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from contextlib import ExitStack

from ppkit.spnn.network import certificates
from ppkit.spnn.network.config import Config, resolve, split_address

WHY = {errno.EADDRINUSE: "is in use by another process or role", errno.EACCES: "is closed to this user",
       errno.EADDRNOTAVAIL: "is not this machine's: start the role on its own machine"}


def check(config: Config, roles: Sequence[str]) -> None:
    """Refuse what these roles could not start with on this machine.

    roles: of config.roles.  ValueError in one sentence that names the role: a host that nobody knows, an address that is not
    this machine's or in use, a certificate that is missing, expired, another role's or another CA's, a folder that cannot be
    written.
    """
    resolve(config)
    folder = config.network.certificates
    if not folder.is_dir():
        raise ValueError(f"there are no certificates in {folder} yet: `ppkit spnn certs {config.typed}` makes them")
    for role in roles:
        certificates.check(folder, role)
    authorities = {role: (folder / role / "ca.pem").read_bytes() for role in roles}
    if others := [role for role in roles if authorities[role] != authorities[roles[0]]]:
        raise ValueError(f"the certificates of {others[0]} are of another authority than {roles[0]}'s: "
                         "make all of them at once")
    check_ports({role: config.addresses[role] for role in roles})
    for role in roles:
        try:
            config.folder_of(role).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"{role} cannot write into {config.folder_of(role)}: {error.strerror}") from None


def check_ports(addresses: dict[str, str]) -> None:
    """Refuse an address that a role cannot listen at now: ValueError that says which and why.

    All are held until the last one is tried, so that two names of one port are found too.
    """
    with ExitStack() as held:
        for role, address in addresses.items():
            family, kind, _, _, where = socket.getaddrinfo(*split_address(address), type=socket.SOCK_STREAM)[0]
            probe = held.enter_context(socket.socket(family, kind))
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)     # the last run's closed connections do not count
            try:
                probe.bind(where)
                probe.listen()
            except OSError as error:
                raise ValueError(f"the address {address} of {role} {WHY.get(error.errno, error.strerror)}") from None
