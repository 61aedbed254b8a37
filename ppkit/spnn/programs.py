"""A protocol from one party's own side: a generator that says what it sends and what it waits for.

    def program():
        yield Send("server", "words", words)                # goes on at once
        other = yield Receive("B", "<theta>")               # waits, and gets the payload
        return result

A program touches nothing but its own party's data, so the same one runs in a process of its own, with messages that really
travel, and here, with all parties in one process, in a `Mailroom`.
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
    n_bytes: what it takes on the wire; None: its own size.  payload: not changed by the sender afterwards; not in repr.
    """

    receiver: str
    name: str
    payload: torch.Tensor | bytes = field(repr=False)
    phase: str = "online"
    n_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Receive:
    """Wait for the next message of one sender, which must have this name: `payload = yield Receive("A", "<theta>")`."""

    sender: str
    name: str


Program = Generator[Send | Receive, torch.Tensor | bytes | None, Any]


def nothing() -> Program:
    """The program of a party that has nothing to do."""
    return
    yield


class Mailroom:
    """Runs the programs of all parties in one process and writes every message down in a Transcript.

    By rounds: every party runs until it waits for something that was not delivered; then what was sent is delivered, and what
    is sent from then on is a round later. What nobody has waited for stays, in order, for the next `run`.

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
        RuntimeError if a message has another name than is waited for, or if all who are left wait for each other. If a program
        raises, the others are closed, all messages are dropped, and what it raised goes on.
        """
        running = {party: (program, None) for party, program in programs.items()}     # party: (program, what it waits for)
        results: dict[str, Any] = dict.fromkeys(programs)
        try:
            fresh = False                                                             # whether a round begins
            while True:
                sent: list[tuple[tuple[str, str], tuple[str, Any]]] = []
                for party in list(running):
                    fresh = self._advance(party, running, results, sent, fresh)
                for link, message in sent:
                    self._delivered[link].append(message)
                if not running:
                    return results
                if not sent:
                    waits = "; ".join(f"{party} for {wanted.name!r} from {wanted.sender}" for party, (_, wanted) in running.items())
                    raise RuntimeError(f"nobody can go on, all wait: {waits}")
                fresh = True
        except BaseException:
            self._delivered.clear()
            for program in programs.values():
                program.close()
            raise

    def _advance(self, party, running, results, sent, fresh):
        """Run one party until it waits or ends; returns whether the round is still without a message."""
        program, wanted = running[party]
        payload = None
        try:
            while True:
                if wanted is not None:
                    queue = self._delivered[wanted.sender, party]
                    if not queue:
                        running[party] = program, wanted
                        return fresh
                    name, payload = queue.popleft()
                    if name != wanted.name:
                        raise RuntimeError(f"{party} waits for {wanted.name!r} from {wanted.sender}, and {name!r} came")
                    wanted = None
                asked = program.send(payload)
                payload = None
                if isinstance(asked, Receive):
                    wanted = asked
                else:
                    if fresh:
                        self._transcript.next_round()
                        fresh = False
                    sent.append(((party, asked.receiver), (asked.name, self._transcript.send(
                        party, asked.receiver, asked.name, asked.payload, n_bytes=asked.n_bytes, phase=asked.phase))))
        except StopIteration as end:
            results[party] = end.value
            del running[party]
            return fresh
