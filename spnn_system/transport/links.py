"""One directed link between two roles: what the sender keeps until it is acknowledged, what the
receiver keeps until it is read.
"""

import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import grpc

from spnn_system.transport.frames import Frame
from spnn_system.transport.shaping import TokenBucket, WallClock, paced

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0  # seconds between two tries to reach a role
_FINAL = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.ABORTED,
}


class LinkError(RuntimeError):
    """Something that ends a run.  role: whom it is about."""

    def __init__(self, role: str, sentence: str):
        super().__init__(sentence)
        self.role = role


class Silent(LinkError):
    """A role gave no sign of life, or could not be reached, for as long as one waits."""


class OutOfTurn(LinkError):
    """The next message of a link is another one than the receiver waits for."""


class Rejected(LinkError):
    """A role refused a message or a call: no retry would help."""


class Stopped(LinkError):
    """This endpoint was told to stop; the sentence is the reason it was given."""


class Interrupted(LinkError):
    """Somebody pressed Ctrl-C where this endpoint is."""


class Refused(Exception):
    """What is not taken: the status and the sentence for who sent it.  logged: whether the log says
    so too.
    """

    def __init__(self, code: grpc.StatusCode, why: str, *, logged: bool = True):
        super().__init__(why)
        self.code, self.why, self.logged = code, why, logged


@dataclass(slots=True)
class _Item:
    """A message on its way: its number, its pieces, when it was there to be sent, its line for the
    log.
    """

    number: int
    parts: Sequence[bytes]
    since: float
    about: dict


class Outgoing:
    """The sender's end: one stream of pieces that stays open, and every message kept until it is
    acknowledged.

    deliver: opens the stream: takes an iterator of pieces, gives an iterator of acknowledgements
    (numbers, 8 bytes each).
    timeout: seconds without a sign of life after which the receiver is Silent: an acknowledgement,
    or a piece that goes through; a piece that went through before counts only on the first stream
    after a cut, so that nothing is repeated for ever.
    stopped: set, it ends all waiting.  clock: of all seconds here.  sent(about): after each
    acknowledgement.
    failed(error): once, with Silent or Rejected; nothing is sent after that.
    Guarantee: messages go in the order of `put`. When the connection is lost all that is not
    acknowledged is sent again, and its number lets the receiver drop what it has.
    """

    def __init__(
        self,
        receiver: str,
        deliver: Callable[[Iterator[bytes]], Any],
        *,
        bandwidth: float,
        timeout: float,
        stopped: threading.Event,
        clock: WallClock,
        sent: Callable[[dict], None],
        failed: Callable[[LinkError], None],
    ):
        self.receiver, self._deliver, self._timeout = receiver, deliver, timeout
        self._stopped, self._sent, self._failed = stopped, sent, failed
        self._bucket, self._clock = TokenBucket(bandwidth), clock
        self._change = threading.Condition()
        # not acknowledged; the first `_next` of them are on this stream already
        self._kept: deque[_Item] = deque()
        self._next = self._stream = 0
        self.number = 0  # of the message that `put` takes next
        self._alive, self._is_silent, self._call = 0.0, False, None
        # the last new piece; the stream that repeated some since the last sign
        self._furthest, self._repeats = (-1, 0), None
        self._thread = threading.Thread(target=self._run, name=f"to {receiver}", daemon=True)
        self._thread.start()

    def put(self, parts: Sequence[bytes], about: dict) -> None:
        """Send these pieces after all that was put before; about: the line for the log, given back
        when they arrived.
        """
        with self._change:
            now = self._clock.now()
            if not self._kept:
                self._alive = now
            self._kept.append(_Item(self.number, parts, now, about))
            self.number += 1
            self._change.notify_all()

    def wake(self) -> None:
        """To be called after `stopped` was set: the threads see it, and end; what still waits is
        not sent.
        """
        with self._change:
            self._change.notify_all()
            if self._call is not None:
                self._call.cancel()

    def end(self) -> None:
        """`wake`, and wait until the thread has ended."""
        self.wake()
        self._thread.join(5.0)

    def end_if_silent(self) -> None:
        """To be called now and then: gives up a receiver that took nothing for `timeout`
        seconds.
        """
        with self._change:
            if self._kept and self._clock.now() > self._alive + self._timeout:
                self._is_silent = True
                if self._call is not None:
                    self._call.cancel()

    def _run(self) -> None:
        """Open the stream while there is something to send, read acknowledgements, open it again if
        it breaks.
        """
        pauses = growing_pauses()
        while True:
            with self._change:
                self._change.wait_for(lambda: self._kept or self._stopped.is_set())
                if self._stopped.is_set():
                    return
                self._stream, self._next = self._stream + 1, 0
                for item in self._kept if self._stream > 1 else ():
                    # the time without a connection is not made good by a burst
                    item.since = self._clock.now()
                self._call = self._deliver(self._pieces(self._stream))
            problem = None
            try:
                for word in self._call:
                    self._acknowledged(int.from_bytes(word, "big"))
                    pauses = growing_pauses()
            except grpc.RpcError as error:
                problem = error
            with self._change:
                # ends the iterator of pieces that the broken stream still reads from
                self._stream += 1
                self._change.notify_all()
                remaining = (
                    self._alive + self._timeout - self._clock.now()
                    if self._kept and not self._is_silent
                    else 0.0
                )
                kept = bool(self._kept)
            if self._stopped.is_set():
                return
            try:
                if problem is not None:
                    raise_if_final(self.receiver, problem)
                if kept and remaining <= 0:
                    raise Silent(
                        self.receiver,
                        f"{self.receiver} could not be reached, or took nothing, for "
                        f"{self._timeout:g} s{detail(problem)}",
                    )
            except LinkError as error:
                self._failed(error)
                return
            if kept:
                self._stopped.wait(min(next(pauses), remaining))

    def _pieces(self, stream: int) -> Iterator[bytes]:
        """The pieces of all that is kept and still to come, each when the link lets it through, for
        as long as the stream lasts.
        """
        while True:
            with self._change:
                self._change.wait_for(
                    lambda: (
                        self._stream != stream
                        or self._stopped.is_set()
                        or self._next < len(self._kept)
                    )
                )
                if self._stream != stream or self._stopped.is_set():
                    return
                item = self._kept[self._next]
                self._next += 1
            for at, part in enumerate(paced(item.parts, self._bucket, item.since, self._clock)):
                yield part
                if self._stream != stream:
                    return
                # gRPC asks for the next piece when this one has gone
                self._through((item.number, at), stream)

    def _through(self, piece: tuple[int, int], stream: int) -> None:
        """Take note of a piece (of a message's number, and its place in it) that went through."""
        with self._change:
            if piece > self._furthest:
                self._furthest, self._repeats = piece, None
            elif self._repeats is None:
                self._repeats = stream
            if self._repeats in (None, stream):
                self._alive = self._clock.now()

    def _acknowledged(self, number: int) -> None:
        with self._change:
            if not self._kept or self._kept[0].number != number:
                return
            self._alive, self._repeats = self._clock.now(), None
            about = self._kept.popleft().about
            self._next -= 1
        self._sent(about)


class Inbox:
    """What came to a role and was not read yet, of every sender.

    senders: {role: the receiver's end of its link}.  steps: the least and the largest that a
    message may be of.
    change: the lock that guards both; told of every arrival.  closed: set once this role has
    stopped taking messages.
    """

    def __init__(self, roles: Iterable[str]):
        self.senders = {role: Incoming() for role in roles}
        self.steps: tuple[int, float] = (0, math.inf)
        self.change, self.closed = threading.Condition(), threading.Event()

    def heard(self, role: str, now: float) -> None:
        """A role gave a sign of life."""
        with self.change:
            self.senders[role].heard_at = now


class Incoming:
    """The receiver's end: the number that comes next, and what has come and was not read yet.

    Not safe by itself: whoever uses it holds the inbox's lock.
    """

    def __init__(self):
        # of the sender's process: one that was started anew begins at 0 again
        self.session: str | None = None
        self.next_number = 0
        self.heard_at = -math.inf
        # when it may be read, the message, what it counts
        self.waiting: deque[tuple[float, Frame, int]] = deque()
        self.unread_bytes = 0
        # the stream that is in the middle of a message
        self.arriving: grpc.ServicerContext | None = None

    def check(self, number: int, session: str) -> None:
        """Refused if a message of this number cannot be taken; one that was taken before can: it
        came again.
        """
        if session != (self.session or session):
            raise Refused(
                grpc.StatusCode.FAILED_PRECONDITION,
                "another process sent the messages before this one: it was started anew",
            )
        if number > self.next_number:
            raise Refused(
                grpc.StatusCode.OUT_OF_RANGE,
                f"message {number} came before message {self.next_number} of this link",
            )

    def take(self, frame: Frame, session: str, readable_at: float, n_bytes: int) -> bool:
        """Keep a message for its reader; False, and nothing kept, if it was taken before.  n_bytes:
        what it counts as unread.
        """
        if frame.number < self.next_number:
            return False
        self.session, self.next_number = session, frame.number + 1
        self.waiting.append((readable_at, frame, n_bytes))
        self.unread_bytes += n_bytes
        return True

    def read(self) -> Frame:
        """The first message that waits, and no longer keep it."""
        _, frame, n_bytes = self.waiting.popleft()
        self.unread_bytes -= n_bytes
        return frame


def growing_pauses() -> Iterator[float]:
    """0.05, 0.1, 0.2, ... up to 1 second.

    >>> [next(pauses) for pauses in [growing_pauses()] for _ in range(6)]
    [0.05, 0.1, 0.2, 0.4, 0.8, 1.0]
    """
    pause = _FIRST_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, _LONGEST_PAUSE)


def raise_if_final(role: str, problem: grpc.RpcError) -> None:
    """Rejected if the role itself said no, nothing if the connection failed and another try may
    do.
    """
    if problem.code() in _FINAL:
        raise Rejected(role, f"{role} refused: {problem.details()}")


def detail(problem: grpc.RpcError | None) -> str:
    """What gRPC says about a failed connection, in brackets, without the list of addresses it
    begins with.
    """
    if problem is None or problem.code() is grpc.StatusCode.CANCELLED:
        return ""
    text = (problem.details() or problem.code().name).rsplit("last error: ", 1)[-1].rstrip(".")
    return f" ({text})"
