"""What can be checked before a role starts: hosts, certificates, free ports, a folder to write
to.
"""

import errno
import json
import socket
from collections.abc import Sequence
from contextlib import ExitStack

from spnn_system.config import Config, parse
from spnn_system.transport import addresses, certificates

NOT_HERE = {
    errno.EADDRINUSE: "is in use by another process or role",
    errno.EACCES: "is closed to this user",
    errno.EADDRNOTAVAIL: "is not this machine's: start that role on its own machine, and the "
    "others here, each named by --only",
}


def check(
    config: Config, roles: Sequence[str], *, resume: bool = False, fresh: bool = False
) -> None:
    """Refuse what these roles could not start with on this machine.

    roles: of config.roles.  resume: go on.  fresh: a new run may delete what these roles left, a
    checkpoint or a part of a model.
    ValueError in one sentence, that names the role where it is about one: for resume and fresh
    together; a run that would be deleted; one that began with another config; a host that nobody
    knows, an address that is not this machine's or in use, a certificate that is missing, expired,
    another role's or another CA's, a folder that cannot be written.
    """
    if resume and fresh:
        raise ValueError("--resume goes on and --fresh starts anew: choose one")
    if resume:
        _check_unchanged(config)
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
    resolve(config)
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


def keep_config(config: Config) -> None:
    """Write the config down at the coordinator, where a run begins anew, for a resumption."""
    _kept(config).parent.mkdir(parents=True, exist_ok=True)
    _kept(config).write_bytes(config.path.read_bytes())


def _check_unchanged(config: Config) -> None:
    """Refuse a resumption with another config than the run began with: ValueError that names the
    keys that decide a result.

    Nothing is known of that where another machine has the coordinator, which tells then.
    """
    if not _kept(config).is_file():
        return
    before, now = parse(_kept(config).read_text("utf-8"), _kept(config)).decides, config.decides
    changed = [
        f"{key} was {json.dumps(before.get(key))} and is {json.dumps(now.get(key))}"
        for key in {**before, **now}
        if before.get(key) != now.get(key)
    ]
    if changed:
        raise ValueError(
            f"{config.typed} is not as when the run began: {', '.join(changed)}; put it back, or "
            "start anew "
            "with --fresh"
        )


def _kept(config: Config):
    return config.folder_of("coordinator") / "config.toml"


def check_ports(of_roles: dict[str, str]) -> None:
    """Refuse an address that a role cannot listen at now: ValueError that says which and why.

    All are held until the last one is tried, so that two names of one port are found too.
    """
    with ExitStack() as held:
        for role, address in of_roles.items():
            try:
                held.enter_context(addresses.listening(address))
            except OSError as error:
                why = NOT_HERE.get(error.errno, error.strerror)
                raise ValueError(f"the address {address} of {role} {why}") from None


def resolve(config: Config) -> None:
    """Look every host up, as whoever dials will do.  ValueError in one sentence for the first that
    nobody knows.
    """
    for role, address in config.addresses.items():
        try:
            socket.getaddrinfo(*addresses.parse(address), type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise ValueError(
                f"{config.typed}: the host of {role}'s address {address} cannot be found: "
                f"{getattr(error, 'strerror', None) or error}"
            ) from None
