"""Messages between the parties: who they are, what a party sends and waits for, and what came,
checked and written down with its bytes and its round.

A protocol from one party's own side is a `Program`, a generator that says what it sends and what it
waits for:

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
from typing import Any

import torch

from .randomness import KEY_BYTES, Stream

SERVER, DEALER = "server", "dealer"
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
    payload: torch.Tensor | bytes | None = field(repr=False)


class Transcript:
    """The record of one run.

    keep: "payloads" keeps a copy of what was sent (for the tests of each party's view, and for
    attacks); "sizes" only how much, which costs some microseconds a message and no memory that
    grows with the batch.

    >>> transcript = Transcript()
    >>> _ = transcript.send("A", "server", "words", torch.zeros(5, 8, dtype=torch.int32))
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

    def table(self):
        """A DataFrame of one row a message: step, round, phase, sender, receiver, name, n_bytes."""
        import pandas as pd  # here: a role that is a process of its own starts sooner without it

        return pd.DataFrame(
            [[getattr(message, column) for column in COLUMNS] for message in self.messages],
            columns=COLUMNS,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Send:
    """Hand a payload over to another party.

    name: what it is, as in the Transcript.  phase: "online" or "offline" (from the dealer).
    payload: not changed by the sender afterwards; not in repr.
    """

    receiver: str
    name: str
    payload: torch.Tensor | bytes = field(repr=False)
    phase: str = "online"


@dataclass(frozen=True, slots=True)
class Receive:
    """Wait for the next message of one sender, which must have this name:
    `payload = yield Receive("A", "<theta>")`."""

    sender: str
    name: str


Program = Generator[Send | Receive, torch.Tensor | bytes | None, Any]


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
) -> torch.Tensor:
    """A payload that came, if it is a tensor of this shape and type, all finite; Malformed, without
    any value, if not.

    >>> tensor_from("B", "words", torch.zeros(2, 3), (2, 3), torch.int32)
    Traceback (most recent call last):
    ppkit.spnn.messages.Malformed: 'words' of holder B must be torch.int32, got torch.float32
    """
    what = said_of(sender, name)
    if not isinstance(payload, torch.Tensor):
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
        self._delivered: defaultdict[tuple[str, str], deque] = defaultdict(deque)

    def run(self, programs: Mapping[str, Program]) -> dict[str, Any]:
        """Run one program a party to its end; returns {party: what its program returned}.

        A party without a program gets its messages when it has one, in a later run.
        RuntimeError if a message has another name than is waited for, or if all who are left wait
        for each other. If a program raises, the others are closed, all messages are dropped, and
        what it raised goes on.
        """
        results: dict[str, Any] = dict.fromkeys(programs)
        waits: dict[str, Receive | None] = dict.fromkeys(programs)
        later = False  # whether what is sent now needs what was sent in this run
        try:
            while waits:
                sent: list[tuple[Send, str]] = []  # in this round, each with its sender
                for party in list(waits):
                    try:
                        waits[party] = self._advance(
                            party, programs[party], waits[party], sent, later
                        )
                    except StopIteration as end:
                        results[party] = end.value
                        del waits[party]
                if waits and not sent:
                    who = "; ".join(
                        f"{party} for {wanted.name!r} from {wanted.sender}"
                        for party, wanted in waits.items()
                    )
                    raise RuntimeError(f"nobody can go on, all wait: {who}")
                for message, sender in sent:
                    self._delivered[sender, message.receiver].append(message)
                later = True
        except BaseException:
            self._delivered.clear()
            for program in programs.values():
                program.close()
            raise
        return results

    def _advance(
        self, party: str, program: Program, wanted: Receive | None, sent: list, later: bool
    ) -> Receive:
        """Run one party until it waits for what was not delivered, which is returned; StopIteration
        with its result where it ends."""
        payload = None
        while True:
            if wanted is not None:
                queue = self._delivered[wanted.sender, party]
                if not queue:
                    return wanted
                message = queue.popleft()
                if message.name != wanted.name:
                    raise RuntimeError(
                        f"{party} waits for {wanted.name!r} from {wanted.sender}, and "
                        f"{message.name!r} came"
                    )
                payload = message.payload
            asked = program.send(payload)
            payload, wanted = None, asked if isinstance(asked, Receive) else None
            if wanted is None:
                if later and not sent:
                    self._transcript.next_round()
                what = asked.receiver, asked.name, asked.payload
                self._transcript.send(party, *what, phase=asked.phase)
                sent.append((asked, party))
