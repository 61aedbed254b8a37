"""A role's messages to the other parties: each written into the journal before it leaves, and
checked when it comes.
"""

import math
from typing import Any

import torch

from ppkit.spnn.messages import Malformed, Program, Send, tensor_from
from spnn_system.roles.control_channel import ControlChannel
from spnn_system.run.journal import Journal
from spnn_system.run.plan import Progress
from spnn_system.transport.endpoint import Endpoint


class Messages:
    """What one party sends and receives; every message carries the step that the party is at."""

    def __init__(
        self, endpoint: Endpoint, journal: Journal, control: ControlChannel, progress: Progress
    ):
        self.endpoint, self.journal, self.control, self.progress = (
            endpoint,
            journal,
            control,
            progress,
        )

    def send(self, receiver: str, name: str, payload: Any, *, phase: str = "online") -> None:
        """Send at the present step, after the journal has it.  SentBefore, OSError: then nothing
        was sent.
        """
        self.journal.sending(self.progress.step, receiver, name, payload)
        self.endpoint.send(receiver, name, payload, step=self.progress.step, phase=phase)

    def receive(self, sender: str, name: str) -> Any:
        """The next message of a sender, which must be this one of the present step.

        Waits for as long as the coordinator holds the sender to be alive: a long computation is no
        fault.
        """
        return self.endpoint.receive(sender, name, step=self.progress.step, timeout=math.inf)

    def receive_tensor(self, sender: str, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        """The same, if it is a float32 tensor of this shape, all finite.  Malformed, which names
        the sender, if not.
        """
        return tensor_from(sender, name, self.receive(sender, name), shape, torch.float32)

    def receive_counts(self, sender: str, name: str, *keys: str) -> dict:
        """The same, if it is a dict with a whole number >= 0 under each of these keys.  Malformed
        if not.
        """
        came = self.receive(sender, name)
        if not (
            isinstance(came, dict)
            and all(type(came.get(key)) is int and came[key] >= 0 for key in keys)
        ):
            raise Malformed(
                f"{name!r} of {sender} must have {' and '.join(keys)}, whole numbers", sender
            )
        return came

    def run(self, program: Program) -> Any:
        """A protocol's program on real messages; returns what it returns."""
        payload = None
        while True:
            try:
                asked = program.send(payload)
            except StopIteration as end:
                return end.value
            payload = None
            if isinstance(asked, Send):
                self.send(asked.receiver, asked.name, asked.payload, phase=asked.phase)
            else:
                payload = self.receive(asked.sender, asked.name)
