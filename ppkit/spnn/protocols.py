"""The first layer h1 = X_1 theta_1 + ... + X_k theta_k by protocol: one name, one class, one interface."""

from __future__ import annotations

from collections.abc import Sequence

from ppkit.spnn.holders import Plain, Protocol
from ppkit.spnn.masked import Masked

_BY_NAME: dict[str, type[Protocol]] = {protocol.name: protocol for protocol in (Plain, Masked)}
PROTOCOLS = tuple(_BY_NAME)


def protocol_of(name: str, holders: Sequence[int], **choices) -> Protocol:
    """The protocol object of this name.

    name: one of PROTOCOLS.  holders: columns of each holder.  choices: transcript, stream, dtype, and what the protocol
    itself takes.  ValueError for an unknown name, TypeError for a choice that the protocol does not know.
    """
    if name not in _BY_NAME:
        raise ValueError(f"protocol must be one of {PROTOCOLS}, got {name!r}")
    return _BY_NAME[name](holders, **choices)
