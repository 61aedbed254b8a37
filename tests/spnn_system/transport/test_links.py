"""The sender's end of a link: in order, at its rate, and until its receiver is silent."""

import threading
from threading import Event

import grpc
import numpy as np
import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from waiting import FAR, Hand, until

from spnn_system.transport import listener
from spnn_system.transport.links import Outgoing, Silent
from spnn_system.transport.shaping import piece_bytes

Code, PEM = grpc.StatusCode, Encoding.PEM


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """However slow the machine is, a cut is not taken for a message that is too short."""
    monkeypatch.setattr(listener, "CLOSING_SECONDS", FAR)


def test_pieces_that_come_to_nothing_again_and_again_are_no_sign_of_life():
    """Every call takes both pieces and breaks, for ever: they count in the first two tries."""
    failed, calls, over, clock = [], [], threading.Event(), Hand()

    class Call:
        """A call that the test breaks."""

        def __init__(self, parts):
            self.parts, self.broken, self.gone = parts, threading.Event(), False

        def code(self):
            if not self.gone:
                calls.append(self)
                self.gone = len([*self.parts]) == 2
            assert self.broken.wait(FAR)
            return Code.UNKNOWN

        details = lambda self: "broken"
        cancel = lambda self: self.broken.set()

    link = Outgoing(
        "B",
        Call,
        bandwidth=0,
        timeout=1.0,
        stopped=over,
        clock=clock,
        sent=lambda about: None,
        failed=failed.append,
    )
    link.put([b"one", b"two"], {})
    alive = []
    for n in range(1, 5):
        until(lambda: len(calls) == n and calls[-1].gone)
        alive.append(link._alive)
        clock.move(0.4 * n)
        link.end_if_silent()
        calls[-1].broken.set()
    until(lambda: failed)
    over.set()
    link.end()
    assert alive == [0.0, 0.4, 0.4, 0.4] and len(calls) == 4
    assert [type(error) for error in failed] == [Silent]


KBPS, MBPS, GBPS = 1e3, 1e6, 1e9


class Imagined:
    """A clock that jumps to where it is told to wait; the machine's own work takes `slow` seconds
    between two waits.
    """

    def __init__(self, slow=0.0, ends_at=float("inf")):
        self.time, self.slow, self.ends_at = 0.0, slow, ends_at

    def now(self):
        return self.time

    def wait_until(self, when):
        self.time = max(self.time + self.slow, when)
        return self.time >= self.ends_at


def leave(sizes, rate):
    """When each piece of messages of these sizes leaves an Outgoing, all put at 0, by a clock that
    jumps; and their bytes.
    """
    clock, stopped, left, done = Imagined(), Event(), [], []

    class Call:
        def __init__(self, parts):
            self.parts = parts

        def code(self):
            """Every piece is taken when it comes, then the message is answered."""
            left.extend((clock.now(), len(piece)) for piece in self.parts)
            return grpc.StatusCode.OK

        def cancel(self):
            pass

    link = Outgoing(
        "B",
        Call,
        bandwidth=rate,
        timeout=FAR,
        stopped=stopped,
        clock=clock,
        sent=done.append,
        failed=done.append,
    )
    step = piece_bytes(rate)
    for number, size in enumerate(sizes):
        link.put([bytes(min(step, size - at)) for at in range(0, size, step)], number)
    until(lambda: len(done) == len(sizes))
    stopped.set()
    link.end()
    assert done == list(range(len(sizes)))
    return left


@pytest.mark.parametrize(
    "rate, size",
    [(100 * KBPS, 1_000), (10 * MBPS, 80_000), (100 * MBPS, 800_000), (GBPS, 8_000_000)],
)
def test_a_link_sends_its_messages_at_its_rate_and_one_after_the_other(rate, size):
    left = leave([size, size // 2, size], rate)
    assert [when for when, _ in left] == pytest.approx(
        np.cumsum([n for _, n in left]) * 8 / rate, rel=1e-12
    )
    assert sum(n for _, n in left) == 2.5 * size and max(n for _, n in left) <= piece_bytes(rate)


def test_what_a_break_makes_come_again_takes_its_time_again_which_may_be_longer_than_the_timeout():
    """The connection is lost at 3 s, after a message of 4 s was sent by three quarters: all of it
    goes once more.
    """
    clock, stopped, left, done, first = Imagined(), Event(), [], [], []

    class Call:
        def __init__(self, parts):
            self.parts = parts

        def code(self):
            if self in first:
                return grpc.StatusCode.UNAVAILABLE
            for at, _ in enumerate(self.parts):
                left.append(clock.now())
                link.end_if_silent()
                if not first and at == 2:
                    first.append(self)
                    return grpc.StatusCode.UNAVAILABLE
            return grpc.StatusCode.OK

        details = lambda self: "broken"

        def cancel(self):
            done.append("the receiver is given up")

    link = Outgoing(
        "B",
        Call,
        bandwidth=8_000,
        timeout=2.5,
        stopped=stopped,
        clock=clock,
        sent=done.append,
        failed=done.append,
    )
    link.put([bytes(1_000)] * 4, "it came")
    until(lambda: "it came" in done)
    assert done == ["it came"] and left == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], (
        "no burst makes good what was lost"
    )
    stopped.set()
    link.end()


@pytest.mark.parametrize("pieces", [1, 2])
def test_a_piece_that_left_is_a_sign_of_life_also_where_it_is_the_only_one(pieces):
    """The message takes 2 s of the link and the answer 1 s more; the timeout is 2.5 s."""
    clock, stopped, done = Imagined(), Event(), []

    class Call:
        def __init__(self, parts):
            self.parts = parts

        def code(self):
            assert sum(map(len, self.parts)) == 2_000
            clock.wait_until(clock.now() + 1.0)
            link.end_if_silent()
            return grpc.StatusCode.OK

        def cancel(self):
            done.append("the receiver is given up")

    settings = dict(stopped=stopped, clock=clock, sent=done.append, failed=done.append)
    link = Outgoing("B", Call, bandwidth=8_000, timeout=2.5, **settings)
    link.put([bytes(2_000 // pieces)] * pieces, "it came")
    until(lambda: "it came" in done)
    assert done == ["it came"] and clock.now() == 3.0
    stopped.set()
    link.end()


def test_an_only_piece_that_is_tried_again_is_no_new_sign_of_life():
    """The receiver is gone; 2 s pass between two tries, the timeout is 1.5 s."""
    clock, calls, failed = Imagined(), [], []

    class Pauses(Event):
        def wait(self, timeout=None):
            clock.wait_until(clock.now() + 2.0)
            return self.is_set()

    class Lost:
        def __init__(self, parts):
            calls.append(list(parts))

        def code(self):
            return grpc.StatusCode.UNAVAILABLE

        def details(self):
            return "connection refused"

        def cancel(self):
            pass

    stopped = Pauses()
    settings = dict(stopped=stopped, clock=clock, sent=failed.append, failed=failed.append)
    link = Outgoing("B", Lost, bandwidth=8_000, timeout=1.5, **settings)
    link.put([bytes(10)], "m")
    until(lambda: failed)
    assert len(calls) == 2 and isinstance(failed[0], Silent)
    stopped.set()
    link.end()
