"""Who an endpoint is, and which messages it takes."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

BACKLOG = 2 << 30  # bytes of one sender's messages that wait unread


@dataclass(frozen=True, slots=True)
class Identity:
    """Who an endpoint is.  run: the run's id.  certificates: the folder that holds <role>/, as
    `certificates.make` leaves it.
    """

    role: str
    run: str
    certificates: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Which messages a role takes.  accepts: {sender: names of messages it may send here}, None for
    all.

    largest: bytes of the payload of one message, None for as much as backlog lets in.  backlog:
    bytes of one sender's messages that may wait here unread, each counted with its head and 4 KiB;
    the default is sixteen times what a dealer sends ahead for an epoch of 230,000 records with 14
    columns (131 MB). Both are checked on a message's head, before memory is taken for it: a link
    takes at most backlog, and once more the message that is coming in.
    """

    accepts: Mapping[str, set[str]] | None = None
    largest: int | None = None
    backlog: int = BACKLOG
