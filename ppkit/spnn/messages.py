"""Every message between the parties, written down: sender, receiver, name, bytes and round."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ["step", "round", "phase", "sender", "receiver", "name", "n_bytes"]


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """One message.  payload: what was sent, not shown in repr, or None where only sizes are kept.

    n_bytes: on the wire, without framing.
    round: messages of one round travel at the same time; the next round waits for them.
    step: the training step, 0 for what is sent once before training.  phase: "online" or "offline"
    (from the dealer).
    """

    sender: str
    receiver: str
    name: str
    n_bytes: int
    round: int
    step: int
    phase: str
    payload: torch.Tensor | bytes | None = field(repr=False)


class Transcript:
    """The record of one run.

    keep: "payloads" keeps a copy of what was sent (for the tests of each party's view, and for
    attacks); "sizes" only how much, which costs some microseconds a message and no memory that
    grows with the batch.

    >>> transcript = Transcript()
    >>> _ = transcript.send("A", "server", "words", torch.zeros(5, 8, dtype=torch.int32))
    >>> transcript.seen_by("server")[0].n_bytes
    160
    """

    def __init__(self, keep: str = "payloads"):
        if keep not in ("payloads", "sizes"):
            raise ValueError(f"keep must be 'payloads' or 'sizes', got {keep!r}")
        self.messages: list[Message] = []
        self.round, self.step, self._keep = 0, 0, keep

    def send(
        self,
        sender: str,
        receiver: str,
        name: str,
        payload: torch.Tensor | bytes,
        *,
        n_bytes: int | None = None,
        phase: str = "online",
    ) -> torch.Tensor | bytes:
        """Hand over a payload in the current round and write it down; returns it, as the receiver
        has it.

        n_bytes: what it takes on the wire; default its own size (a tensor's elements times their
        width, a text's length).
        """
        is_tensor = isinstance(payload, torch.Tensor)
        if n_bytes is None:
            n_bytes = payload.numel() * payload.element_size() if is_tensor else len(payload)
        kept = None if self._keep == "sizes" else payload.detach().clone() if is_tensor else payload
        self.messages.append(
            Message(sender, receiver, name, n_bytes, self.round, self.step, phase, kept)
        )
        return payload

    def next_round(self) -> None:
        """What is sent from now on needs what was sent so far."""
        self.round += 1

    def next_step(self) -> None:
        """The next training step begins, in a round of its own."""
        self.step += 1
        self.round += 1

    def seen_by(self, party: str) -> list[Message]:
        """All that reached one party, in order."""
        return [message for message in self.messages if message.receiver == party]

    def table(self) -> pd.DataFrame:
        """One row a message: step, round, phase, sender, receiver, name, n_bytes."""
        import pandas as pd  # here: a role that is a process of its own starts sooner without it

        return pd.DataFrame(
            [[getattr(message, column) for column in COLUMNS] for message in self.messages],
            columns=COLUMNS,
        )
