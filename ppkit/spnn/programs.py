"""A protocol from one party's own side: a generator that says what it sends and what it waits for.

    def program():
        yield Send("server", "words", words)                # goes on at once
        other = yield Receive("B", "<theta>")               # waits, and gets the payload
        return result

A program touches nothing but its own party's data, so the same one runs in a process of its own,
with messages that really travel, and here, with all parties in one process, in a `Mailroom`.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from ppkit.spnn.messages import Transcript


@dataclass(frozen=True, slots=True, eq=False)
class Send:
    """Hand a payload over to another party.

    name: what it is, as in the Transcript.  phase: "online" or "offline" (from the dealer).
    n_bytes: what it takes on the wire; None: its own size.  payload: not changed by the sender
    afterwards; not in repr.
    """

    receiver: str
    name: str
    payload: torch.Tensor | bytes = field(repr=False)
    phase: str = "online"
    n_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Receive:
    """Wait for the next message of one sender, which must have this name: `payload = yield
    Receive("A", "<theta>")`."""

    sender: str
    name: str


Program = Generator[Send | Receive, torch.Tensor | bytes | None, Any]


def nothing() -> Program:
    """The program of a party that has nothing to do."""
    return
    yield


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
        self._sent: list[tuple[Send, str]] = []  # of this round, each with its sender
        self._later = False  # whether what is sent now needs what was sent in this run

    def run(self, programs: Mapping[str, Program]) -> dict[str, Any]:
        """Run one program a party to its end; returns {party: what its program returned}.

        A party without a program gets its messages when it has one, in a later run.
        RuntimeError if a message has another name than is waited for, or if all who are left wait
        for each other. If a program raises, the others are closed, all messages are dropped, and
        what it raised goes on.
        """
        results: dict[str, Any] = dict.fromkeys(programs)
        waits: dict[str, Receive | None] = dict.fromkeys(programs)
        self._later = False
        try:
            while waits:
                for party in list(waits):
                    waits[party] = self._advance(party, programs[party], waits[party], results)
                    if waits[party] is None:
                        del waits[party]
                if waits and not self._sent:
                    who = "; ".join(
                        f"{party} for {wanted.name!r} from {wanted.sender}"
                        for party, wanted in waits.items()
                    )
                    raise RuntimeError(f"nobody can go on, all wait: {who}")
                for message, sender in self._sent:
                    self._delivered[sender, message.receiver].append(message)
                self._sent, self._later = [], True
        except BaseException:
            self._sent = []
            self._delivered.clear()
            for program in programs.values():
                program.close()
            raise
        return results

    def _advance(
        self, party: str, program: Program, wanted: Receive | None, results: dict
    ) -> Receive | None:
        """Run one party until it waits for what was not delivered, which is returned, or ends:
        None."""
        payload = None
        try:
            while True:
                if wanted is not None:
                    queue = self._delivered[wanted.sender, party]
                    if not queue:
                        return wanted
                    message = queue.popleft()
                    if message.name != wanted.name:
                        raise RuntimeError(
                            f"{party} waits for {wanted.name!r} from {wanted.sender}, and {message.name!r} came"
                        )
                    payload = message.payload
                asked = program.send(payload)
                payload, wanted = None, asked if isinstance(asked, Receive) else None
                if wanted is None:
                    self._post(party, asked)
        except StopIteration as end:
            results[party] = end.value
            return None

    def _post(self, sender: str, message: Send) -> None:
        if self._later and not self._sent:
            self._transcript.next_round()
        self._transcript.send(
            sender,
            message.receiver,
            message.name,
            message.payload,
            n_bytes=message.n_bytes,
            phase=message.phase,
        )
        self._sent.append((message, sender))
