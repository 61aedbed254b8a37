"""Messages between the parties: who they are, what a party sends and waits for, and what came,
checked and written down with its bytes and its round.

A protocol from one party's own side is a `Program`, a sans-I/O coroutine: a generator that says
what it sends and what it waits for.

    def program():
        yield Send("server", "words", words)                # goes on at once
        other = yield Receive("B", "<theta>")               # waits, and gets the payload
        return result

A program touches nothing but its own party's data, so the same one runs in a process of its own,
with messages that really travel, and here, with all parties in one process, in a `Mailroom`.
"""

from collections import defaultdict, deque
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from ppkit.spnn.randomness import KEY_BYTES, Stream

SERVER, DEALER = "server", "dealer"
Payload = Tensor | bytes
COLUMNS = ["step", "round", "phase", "sender", "receiver", "name", "n_bytes"]


def holder_names(k: int) -> list[str]:
    """A, B, C, ..., Z, then H27, H28, ...

    >>> holder_names(3)
    ['A', 'B', 'C']
    """
    return [chr(ord("A") + i) if i < 26 else f"H{i + 1}" for i in range(k)]


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
    payload: Payload | None = field(repr=False)


class Transcript:
    """The record of one run.

    keep: "payloads" keeps a copy of what was sent (for the tests of each party's view, and for
    attacks); "sizes" only how much, which costs some microseconds a message and no memory that
    grows with the batch.

    >>> transcript = Transcript()
    >>> transcript.send("A", "server", "words", torch.zeros(5, 8, dtype=torch.int32))
    >>> transcript.messages[0].n_bytes
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
        payload: Payload,
        *,
        n_bytes: int | None = None,
        phase: str = "online",
    ) -> None:
        """Write down a payload that is handed over in the current round.

        n_bytes: what it takes on the wire; default its own size (a tensor's elements times their
        width, a text's length).
        """
        if n_bytes is None:
            n_bytes = payload.nbytes if isinstance(payload, Tensor) else len(payload)
        kept: Payload | None = None
        if self._keep == "payloads":
            kept = payload.detach().clone() if isinstance(payload, Tensor) else payload
        self.messages.append(
            Message(sender, receiver, name, n_bytes, self.round, self.step, phase, kept)
        )

    def next_round(self) -> None:
        """What is sent from now on needs what was sent so far."""
        self.round += 1

    def next_step(self) -> None:
        """The next training step begins, in a round of its own."""
        self.step += 1
        self.round += 1

    def table(self):
        """A DataFrame of one row a message: step, round, phase, sender, receiver, name, n_bytes."""
        import pandas as pd  # here: a role that is a process of its own starts sooner without it

        return pd.DataFrame(map(attrgetter(*COLUMNS), self.messages), columns=COLUMNS)


@dataclass(frozen=True, slots=True, eq=False)
class Send:
    """Hand a payload over to another party.

    name: what it is, as in the Transcript.  phase: "online" or "offline" (from the dealer).
    payload: not changed by the sender afterwards; not in repr.
    """

    receiver: str
    name: str
    payload: Payload = field(repr=False)
    phase: str = "online"


@dataclass(frozen=True, slots=True)
class Receive:
    """Wait for the next message of one sender, which must have this name:
    `payload = yield Receive("A", "<theta>")`."""

    sender: str
    name: str


Program = Generator[Send | Receive, Payload | None, Any]


def nothing() -> Program:
    """The program of a party that has nothing to do."""
    yield from ()


class Malformed(ValueError):
    """What another party sent is not what the protocol has there: type, shape, or a number that is
    none.  role: who sent it."""

    def __init__(self, sentence: str, role: str):
        super().__init__(sentence)
        self.role = role


def said_of(sender: str, name: str) -> str:
    """How a sentence names a message and who sent it."""
    return f"{name!r} of {'the ' if sender in (SERVER, DEALER) else 'holder '}{sender}"


def tensor_from(
    sender: str, name: str, payload: object, shape: tuple[int, ...], dtype: torch.dtype
) -> Tensor:
    """A payload that came, if it is a tensor of this shape and type, all finite; Malformed, without
    any value, if not.

    >>> tensor_from("B", "words", torch.zeros(2, 3), (2, 3), torch.int32)
    Traceback (most recent call last):
    ppkit.spnn.messages.Malformed: 'words' of holder B must be torch.int32, got torch.float32
    """
    what = said_of(sender, name)
    if not isinstance(payload, Tensor):
        raise Malformed(f"{what} must be a tensor, got {type(payload).__name__}", sender)
    if payload.shape != shape:
        raise Malformed(
            f"{what} must have shape {tuple(shape)}, got {tuple(payload.shape)}", sender
        )
    if payload.dtype != dtype:
        raise Malformed(f"{what} must be {dtype}, got {payload.dtype}", sender)
    if dtype.is_floating_point and not torch.isfinite(payload).all():
        raise Malformed(f"{what} must be finite", sender)
    return payload


def bytes_from(sender: str, name: str, payload: object, n_bytes: int, why: str = "") -> bytes:
    """A payload that came, if it is that many bytes; Malformed if not.  why: so many, in words.

    >>> bytes_from("A", "seed", b"123", 32)
    Traceback (most recent call last):
    ppkit.spnn.messages.Malformed: 'seed' of holder A must be 32 bytes, got 3 bytes
    """
    if not isinstance(payload, bytes) or len(payload) != n_bytes:
        got = f"{len(payload)} bytes" if isinstance(payload, bytes) else type(payload).__name__
        raise Malformed(f"{said_of(sender, name)} must be {n_bytes} bytes{why}, got {got}", sender)
    return payload


def seed_from(sender: str, payload: object) -> Stream:
    """The Stream of a seed that came.  Malformed if it is none."""
    return Stream(bytes_from(sender, "seed", payload, KEY_BYTES))


class Mailroom:
    """Runs the programs of all parties in one process and writes every message down in a
    Transcript.

    By rounds: every party runs until it waits for something that was not delivered; then what was
    sent is delivered, and what is sent from then on is a round later. What nobody has waited for
    stays, in order, for the next `run`.

    >>> def a():
    ...     yield Send("B", "number", torch.tensor([20]))
    ...     return int((yield Receive("B", "answer")))
    >>> def b():
    ...     yield Send("A", "answer", 2 * (yield Receive("A", "number")) + 2)
    >>> transcript = Transcript()
    >>> Mailroom(transcript).run({"A": a(), "B": b()})
    {'A': 42, 'B': None}
    >>> [(message.round, message.sender, message.n_bytes) for message in transcript.messages]
    [(0, 'A', 8), (1, 'B', 8)]
    """

    def __init__(self, transcript: Transcript):
        self._transcript = transcript
        self._delivered: defaultdict[tuple[str, str], deque[Send]] = defaultdict(deque)
        self._is_broken = False

    def run(self, programs: Mapping[str, Program]) -> dict[str, Any]:
        """Run one program a party to its end; returns {party: what its program returned}.

        A party without a program gets its messages when it has one, in a later run.
        RuntimeError if a message has another name than is waited for, if all who are left wait for
        each other, or if an earlier run was broken off: then some parties have drawn secrets that
        others have not.
        """
        if self._is_broken:
            raise RuntimeError("an earlier run was broken off: make the parties anew")
        self._is_broken = True
        results: dict[str, Any] = dict.fromkeys(programs)
        waits: dict[str, Receive | None] = dict.fromkeys(programs)
        is_first_round = True
        while waits:
            outbox: list[tuple[str, Send]] = []  # of this round, each with its sender
            for party in list(waits):
                try:
                    waits[party] = self._advance(
                        party, programs[party], waits[party], outbox, is_first_round
                    )
                except StopIteration as end:
                    results[party] = end.value
                    del waits[party]
            if waits and not outbox:
                raise RuntimeError(f"nobody can go on, all wait: {waits}")
            for sender, message in outbox:
                self._delivered[sender, message.receiver].append(message)
            is_first_round = False
        self._is_broken = False
        return results

    def _advance(
        self,
        party: str,
        program: Program,
        wanted: Receive | None,
        outbox: list[tuple[str, Send]],
        is_first_round: bool,
    ) -> Receive:
        """Run one party until it waits for what was not delivered, which is returned; StopIteration
        with its result where it ends."""
        payload: Payload | None = None
        while True:
            if wanted is not None:
                queue = self._delivered[wanted.sender, party]
                if not queue:
                    return wanted
                message = queue.popleft()
                if message.name != wanted.name:
                    raise RuntimeError(f"{party} waits for {wanted}, and {message} came")
                payload = message.payload
            asked = program.send(payload)
            payload, wanted = None, None
            if isinstance(asked, Receive):
                wanted = asked
                continue
            if not outbox and not is_first_round:
                self._transcript.next_round()
            self._transcript.send(
                party, asked.receiver, asked.name, asked.payload, phase=asked.phase
            )
            outbox.append((party, asked))
