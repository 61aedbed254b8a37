"""One role's side of the protocol as a run wants it: made, warmed up, put back; and which messages
it takes.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import torch

from ppkit.atomic_writing import read_secret
from ppkit.spnn import protocols
from ppkit.spnn.messages import Transcript
from ppkit.spnn.paillier_keys import PrivateKey, PublicKey, generate_keys
from ppkit.spnn.party import DealerParty, Holder, Server, Setup
from ppkit.spnn.randomness import Stream
from spnn_system.config import Config
from spnn_system.run.checkpoints import write_secret


def side_of(
    config: Config, role: str, columns: Sequence[int], root: Stream, *, resume: bool
) -> Holder | Server | DealerParty:
    """`protocols.party_of` for a role.  root: where all of its secrets come from.

    Who has a Paillier key (the server of he, each holder without a dealer) keeps it for as long as
    the run can go on: a resumed run must encrypt for the same one.
    """
    choices = dict(config.protocol.choices)
    if choices and role in (["server"] if config.protocol.name == "he" else config.names):
        choices["keys"] = kept_key(
            config.folder_of(role) / "paillier.key", resume=resume, **choices
        )
    setup = Setup(config.names, columns, config.model.hidden[0], root, **choices)
    return protocols.party_of(role, setup, protocol=config.protocol.name, form=config.protocol.form)


def kept_key(path: Path, *, resume: bool, key_bits: int, teaching: bool) -> PrivateKey:
    """A role's own key, made anew and written (0600), or read again.  ValueError if others may
    read it.
    """
    if not resume:
        keys = generate_keys(key_bits, teaching=teaching)[1]
        write_secret(path, json.dumps([str(keys.p), str(keys.q)]).encode())
    p, q = map(int, json.loads(read_secret(path)))
    return PrivateKey(PublicKey(p * q), p, q)


def warm_up(config: Config, role: str) -> None:
    """Let numba compile what this role's side computes with, which takes a second, before anybody
    waits for it.
    """
    if role == "server" or config.protocol.name not in ("masked", "ss"):
        return
    k, form = min(3, len(config.names)), config.protocol.form
    if form == "dealerless":
        form = "published"  # the same products in the ring, and no keys
    setup = Setup(config.names[:k], [1] * k, config.model.hidden[0])
    protocol = protocols.simulator_of(
        setup, protocol=config.protocol.name, form=form, transcript=Transcript("sizes")
    )
    protocol.prepare([torch.zeros(2, 1)] * k)
    protocol.forward([0, 1], [torch.zeros(1, setup.width)] * k)


def admission(config: Config, role: str) -> dict[str, set[str]]:
    """Which messages a role takes from whom, by sender: those of the protocol, and those of the
    steps around it.
    """
    first = config.names[0]
    received = protocols.names_received(
        role,
        protocol=config.protocol.name,
        form=config.protocol.form,
        names=config.names,
        label_holder=config.label_holder,
    )
    around = "rows and ids" if role in config.names else "test rows"
    for sender in config.names if role in config.names else [first]:
        if sender != role:
            received.setdefault(sender, set()).add(around)
    if role not in (first, "server"):
        received[first].add("order")
    return received
