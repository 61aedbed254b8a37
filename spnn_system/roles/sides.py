"""One role's side of the protocol as a run wants it: made, warmed up, put back; and what a role takes from whom."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import torch

from ppkit.spnn import protocols
from ppkit.spnn.messages import Transcript
from spnn_system.run.checkpoints import write
from spnn_system.config import Config
from ppkit.spnn.paillier_keys import PrivateKey, PublicKey, generate_keys

if TYPE_CHECKING:
    from spnn_system.roles.part import Part

SMALL = 1 << 20


def side_of(part: Part):
    """`protocols.side_of` for the role of a part, whose root secret all of its secrets come from.

    The server of he keeps its key, for as long as the run can go on: a resumed run must encrypt for
    the same one.
    """
    config, choices = part.config, dict(part.config.protocol.choices)
    if config.protocol.name == "he" and part.role == "server":
        path = part.folder / "paillier.key"
        if not part.resume:
            keys = generate_keys(choices["key_bits"], teaching=choices["teaching"])[1]
            write(path, json.dumps([str(keys.p), str(keys.q)]).encode())
        p, q = map(int, json.loads(path.read_text("ascii")))
        choices["keys"] = PrivateKey(PublicKey(p * q), p, q)
    return protocols.side_of(part.role, protocol=config.protocol.name, form=config.protocol.form, names=config.names,
                             columns=part.plan["columns"], width=part.plan["width"], stream=part.root, **choices)


def warm_up(config: Config, role: str) -> None:
    """Let numba compile what this role's side computes with, which takes a second, before anybody waits for it."""
    if role == "server" or config.protocol.name not in ("masked", "ss"):
        return
    k = min(3, len(config.names))
    protocol = protocols.protocol_of(config.protocol.name, [1] * k, form=config.protocol.form, transcript=Transcript("sizes"))
    protocol.prepare([torch.zeros(2, 1)] * k)
    protocol.forward([0, 1], [torch.zeros(1, config.model.hidden[0])] * k)


def positions(side) -> dict[str, int]:
    """Where each stream stands that a side draws from in sequence."""
    return {name: stream.position for name, stream in side.streams.items()}


def seek(side, kept: dict[str, int]) -> None:
    """Put the streams of a side that was connected and prepared anew to where they stood."""
    for name, stream in side.streams.items():
        stream.seek(kept[name])


def largest(config: Config, role: str) -> int | None:
    """Bytes of the largest message that may come to a role; None for a holder, who does not know how wide the others are.

    To the server a batch of the widest layer, 8 bytes a number or a ciphertext each; to the dealer small words only.
    """
    if role in config.names:
        return None
    if role != "server":
        return SMALL
    per_number = config.protocol.choices["key_bits"] // 4 if config.protocol.name == "he" else 8
    return max(SMALL, config.training.batch * max(config.model.hidden) * per_number)


def accepts(config: Config, role: str) -> dict[str, set[str]]:
    """Which messages a role takes from whom: those of the protocol, and those of the steps around it."""
    first, names = config.names[0], {other: set() for other in config.roles}
    received = protocols.names_received(role, protocol=config.protocol.name, form=config.protocol.form, names=config.names,
                                        label_holder=config.label_holder)
    for sender, more in received.items():
        names[sender] |= more
    if role not in config.names:
        names[first] |= {"test rows"} | ({"order"} if role == "dealer" else set())
    else:
        for other in config.names:
            names[other] |= {"rows and ids"} | ({"order"} if other == first else set())
    del names[role]
    return {sender: accepted for sender, accepted in names.items() if accepted}
