"""One directed link between two roles: what the sender keeps until it is acknowledged, what the
receiver keeps until it is read.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc

from spnn_system.transport.frames import Frame
from spnn_system.transport.shaping import TokenBucket, WallClock, paced

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
    """What is not taken: the status and the sentence for who sent it."""

    def __init__(self, code: grpc.StatusCode, why: str):
        super().__init__(why)
        self.code, self.why = code, why


@dataclass(slots=True)
class _Item:
    """A message on its way: its pieces, when it was there to be sent, its line for the log, and how
    often it was tried in vain.
    """

    parts: Sequence[bytes]
    since: float
    about: dict
    tries: int = 0


class Outgoing:
    """The sender's end: one call a message, in pieces, and every message kept until its call is
    answered.

    deliver: begins a call: takes a list of the only piece, which leaves at once, or an iterator of
    several, and gives a grpc.Future of the answer.
    timeout: seconds without a sign of life after which the receiver is Silent: an answer, or a
    piece that goes through; after two tries in vain (one, if it is the only piece) pieces of a
    message no longer count, so that nothing is repeated for ever.
    stopped: set, it ends all waiting.  clock: of all seconds here.  sent(about): after each
    answer.  failed(error): once, with Silent or Rejected; nothing is sent after that.
    Guarantee: messages go in the order of `put`. When the connection is lost the one on its way is
    sent again, and its number lets the receiver drop what it has.
    """

    def __init__(
        self,
        receiver: str,
        deliver: Callable[[Iterable[bytes]], Any],
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
        self._kept: deque[_Item] = deque()  # not answered; the first one is on its way
        self.number = 0  # of the message that `put` takes next
        self._alive = 0.0
        self._call: Any = None  # a grpc.Future
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
            self._kept.append(_Item(parts, now, about))
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
        if self._is_silent():
            self.wake()

    def _is_silent(self) -> bool:
        return bool(self._kept) and self._clock.now() > self._alive + self._timeout

    def _run(self) -> None:
        """Send one message after the other, each again if the connection breaks."""
        while True:
            with self._change:
                self._change.wait_for(lambda: self._kept or self._stopped.is_set())
                if self._stopped.is_set():
                    return
                item = self._kept[0]
            pieces: Iterable[bytes] = self._pieces(item)
            if len(item.parts) == 1:
                pieces = list(pieces)  # which waits until it may leave
            with self._change:
                if self._stopped.is_set():
                    return
                self._call = self._deliver(pieces)
            if self._call.code() is grpc.StatusCode.OK:
                self._alive = self._clock.now()
                self._kept.popleft()
                self._sent(item.about)
                continue
            if self._stopped.is_set():
                return
            try:
                raise_if_final(self.receiver, self._call)
                if self._is_silent():
                    raise Silent(
                        self.receiver,
                        f"{self.receiver} could not be reached, or took nothing, for "
                        f"{self._timeout:g} s{detail(self._call)}",
                    )
            except LinkError as error:
                self._failed(error)
                return
            self._stopped.wait(pause(item.tries))
            item.tries += 1
            # the time without a connection is not made good by a burst
            item.since = self._clock.now()

    def _pieces(self, item: _Item) -> Iterator[bytes]:
        """The pieces of a message, each when the link lets it through."""
        for part in paced(item.parts, self._bucket, item.since, self._clock):
            yield part
            # gRPC asks for the next piece when this one has gone; of an only one nobody knows, and
            # it takes so little time that it counts once
            if item.tries < min(2, len(item.parts)):
                self._alive = self._clock.now()


class Inbox:
    """What came to a role and was not read yet, of every sender.

    latency: seconds from a message's arrival until it may be read.  clock: of these; None for the
    machine's own.
    senders: {role: the receiver's end of its link}.
    change: the lock that guards them; told of every arrival.  closed: set once this role has
    stopped taking messages.
    """

    def __init__(self, roles: Iterable[str], *, latency: float, clock: WallClock | None):
        self.senders, self.latency = {role: Incoming() for role in roles}, latency
        self.change, self.closed = threading.Condition(), threading.Event()
        self.clock = clock or WallClock(self.closed)


@dataclass(slots=True)
class Incoming:
    """The receiver's end: the number that comes next, and what has come and was not read yet.

    session: of the sender's process; one that was started anew begins at 0 again.  waiting: when it
    may be read, and the message.  Not safe by itself: whoever uses it holds the inbox's lock.
    """

    session: str | None = None
    next_number: int = 0
    waiting: deque[tuple[float, Frame]] = field(default_factory=deque)

    def is_new(self, number: int, session: str) -> bool:
        """Whether a message of this number comes for the first time.  Refused if it cannot come
        now.
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
        return number == self.next_number


def pause(tries: int) -> float:
    """Seconds before a role is tried again, after so many tries in vain before the last one.

    >>> [pause(tries) for tries in (0, 1, 2, 3, 4, 5, 6)]
    [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    """
    return min(0.05 * 2 ** min(tries, 5), 1.0)


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
