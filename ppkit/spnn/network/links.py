"""One directed link between two roles: what the sender keeps until it is acknowledged, what the receiver keeps until it is read."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import grpc

from ppkit.spnn.network.frames import Frame
from ppkit.spnn.network.shaping import TokenBucket, WallClock, paced

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0     # seconds between two tries to reach a role
_FINAL = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.FAILED_PRECONDITION,
          grpc.StatusCode.OUT_OF_RANGE, grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.RESOURCE_EXHAUSTED,
          grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.ABORTED}


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


class Outgoing:
    """The sender's end: a thread that brings one message after the other to the receiver, each until it is acknowledged.

    deliver: sends the pieces, returns a grpc future.  timeout: seconds without an acknowledgement or a piece going through
    after which the receiver is Silent.  stopped: set, it ends all waiting.
    sent(about): after each acknowledgement.  failed(error): once, with Silent or Rejected; nothing is sent after that.
    Guarantee: messages are delivered in the order of `put`; one that may or may not have arrived is sent again, and its
    number lets the receiver drop it.
    """

    def __init__(self, receiver: str, deliver: Callable[[Iterator[bytes]], grpc.Future], *, bandwidth: float, timeout: float,
                 stopped: threading.Event, sent: Callable[[dict], None], failed: Callable[[LinkError], None]):
        self.receiver, self._deliver, self._timeout = receiver, deliver, timeout
        self._stopped, self._sent, self._failed = stopped, sent, failed
        self._bucket, self._clock = TokenBucket(bandwidth), WallClock(stopped)
        self._waiting: queue.SimpleQueue = queue.SimpleQueue()
        self._call: grpc.Future | None = None
        self._thread = threading.Thread(target=self._run, name=f"to {receiver}", daemon=True)
        self._thread.start()

    def put(self, parts: Sequence[bytes], about: dict) -> None:
        """Send these pieces after all that was put before; about: the line for the log, given back when they arrived."""
        self._waiting.put((parts, about, time.monotonic()))

    def end(self) -> None:
        """End the thread; what still waits is not sent.  Call it after `stopped` was set."""
        self._waiting.put(None)
        if self._call is not None:
            self._call.cancel()
        self._thread.join(5.0)

    def _run(self) -> None:
        while (item := self._waiting.get()) is not None and not self._stopped.is_set():
            parts, about, since = item
            try:
                delivered = self._bring(parts, since)
            except LinkError as error:
                self._failed(error)
                return
            if not delivered:
                return
            self._sent(about)

    def _bring(self, parts: Sequence[bytes], since: float) -> bool:
        """True once acknowledged, False if stopped before; Silent or Rejected."""
        self._alive = time.monotonic()
        pauses = growing_pauses()
        while not self._stopped.is_set():
            problem = self._attempt(parts, since)
            if problem is None:
                return True
            if self._stopped.is_set():
                return False
            raise_if_final(self.receiver, problem)
            left = self._alive + self._timeout - time.monotonic()
            if left <= 0:
                raise Silent(self.receiver, f"{self.receiver} could not be reached for {self._timeout:g} s{detail(problem)}")
            self._stopped.wait(min(next(pauses), left))
            since = time.monotonic()
        return False

    def _attempt(self, parts: Sequence[bytes], since: float) -> grpc.RpcError | None:
        """None if acknowledged, else what went wrong."""
        done = threading.Event()
        call = self._call = self._deliver(self._watched(paced(parts, self._bucket, since, self._clock)))
        call.add_done_callback(lambda _: done.set())
        if self._stopped.is_set():
            call.cancel()
        while not done.wait(max(0.0, self._alive + self._timeout - time.monotonic())):
            if time.monotonic() >= self._alive + self._timeout:
                call.cancel()
                raise Silent(self.receiver, f"{self.receiver} took nothing for {self._timeout:g} s")
        return None if call.code() is grpc.StatusCode.OK else call

    def _watched(self, parts: Iterator[bytes]) -> Iterator[bytes]:
        """The same pieces; that another one is asked for says that the one before it went through."""
        for i, part in enumerate(parts):
            if i:
                self._alive = time.monotonic()
            yield part


class Incoming:
    """The receiver's end: the number that comes next, and what has come and was not read yet.

    Not safe by itself: the Endpoint holds its lock around every use.
    """

    def __init__(self):
        self.session: str | None = None      # of the sender's process: one that was started anew begins at 0 again
        self.next_number = 0
        self.heard_at = -math.inf
        self.waiting: deque[tuple[float, Frame]] = deque()

    def problem(self, number: int, session: str) -> tuple[grpc.StatusCode, str] | None:
        """Why a message of this number cannot be taken, or None; a number that was taken is no problem: it came again."""
        if session != (self.session or session):
            return grpc.StatusCode.FAILED_PRECONDITION, "another process sent the messages before this one: it was started anew"
        if number > self.next_number:
            return grpc.StatusCode.OUT_OF_RANGE, f"message {number} came before message {self.next_number} of this link"
        return None

    def take(self, frame: Frame, session: str, readable_at: float) -> bool:
        """Keep a message for its reader; False, and nothing kept, if it was taken before."""
        if frame.number < self.next_number:
            return False
        self.session, self.next_number = session, frame.number + 1
        self.waiting.append((readable_at, frame))
        return True


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
    """Rejected if the role itself said no, nothing if the connection failed and another try may do."""
    if problem.code() in _FINAL:
        raise Rejected(role, f"{role} refused: {problem.details()}")


def detail(problem: grpc.RpcError) -> str:
    """What gRPC says about a failed connection, in brackets, without the list of addresses it begins with."""
    text = (problem.details() or problem.code().name).rsplit("last error: ", 1)[-1].rstrip(".")
    return f" ({text})"
