"""What can be checked before a role starts: hosts, certificates, free ports, a folder to write
to.
"""

import errno
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from spnn_system.config import Config
from spnn_system.transport import certificates
from spnn_system.transport.addresses import Address

NOT_HERE = {
    errno.EADDRINUSE: "is in use by another process or role",
    errno.EACCES: "is closed to this user",
    errno.EADDRNOTAVAIL: "is not this machine's: start each role on its own machine, by its own "
    "command",
}


def check(
    config: Config, roles: Sequence[str], *, resume: bool = False, fresh: bool = False
) -> None:
    """Refuse what these roles could not start with on this machine.

    roles: of config.roles.  resume: go on.  fresh: a new run may delete what these roles left, a
    checkpoint or a part of a model.
    ValueError in one sentence, that names the role where it is about one: for resume and fresh
    together; a run that would be deleted; a host that nobody knows, an address that is not this
    machine's or in use, a certificate that is missing, expired, another role's or another CA's, a
    folder that cannot be written.
    """
    if resume and fresh:
        raise ValueError("--resume goes on and --fresh starts anew: choose one")
    folders = [config.folder_of(role) for role in roles]
    left = any(
        (folder / "parameters.npz").exists() or any(folder.glob("step-*.checkpoint"))
        for folder in folders
    )
    if left and not (resume or fresh):
        raise ValueError(
            f"there is a run in {config.folder}: --resume goes on, --fresh starts anew and "
            "deletes it"
        )
    resolve(config.addresses)
    folder = config.network.certificates
    if not folder.is_dir():
        raise ValueError(
            f"there are no certificates in {folder} yet: `ppkit spnn request {config.typed} ROLE` "
            "begins them on each role's machine; for a trial on one machine `ppkit spnn certs "
            f"{config.typed}` makes all"
        )
    for role in roles:
        certificates.check(folder, role, config=config.typed)
    authorities = {role: (folder / role / "ca.pem").read_bytes() for role in roles}
    if others := [role for role in roles if authorities[role] != authorities[roles[0]]]:
        raise ValueError(
            f"the certificates of {others[0]} are of another authority than {roles[0]}'s: "
            "sign all of them at once"
        )
    check_ports({role: config.addresses[role] for role in roles})
    for role in roles:
        try:
            config.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            config.folder_of(role).mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise ValueError(
                f"{role} cannot write into {config.folder_of(role)}: {error.strerror}"
            ) from None


def check_ports(addresses: Mapping[str, Address]) -> None:
    """Refuse an address, by role, at which nobody can listen now: ValueError that says which and
    why.

    All are held until the last one is tried, so that two names of one port are found too.
    """
    with ExitStack() as held:
        for role, address in addresses.items():
            try:
                held.enter_context(address.listen())
            except OSError as error:
                why = NOT_HERE.get(error.errno or 0, str(error.strerror))
                raise ValueError(f"the address {address} of {role} {why}") from None


def resolve(addresses: Mapping[str, Address]) -> None:
    """Look every host up, as whoever dials will do.  ValueError in one sentence for the first that
    nobody knows.
    """
    for role, address in addresses.items():
        try:
            socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise ValueError(
                f"the host of {role}'s address {address} cannot be found: {error}"
            ) from None
