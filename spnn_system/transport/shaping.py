"""A link of a given bandwidth, made in the sender: a token bucket says when each piece of a message
may leave.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Condition, Event

from spnn_system.transport.frames import PIECE_BYTES

# A piece takes about so long, unless that makes it tiny. While one waits for its last byte those
# before it are decrypted and copied, so that only the last is left when a message ends.
_PIECE_SECONDS = 0.005
_SMALLEST_PIECE = 1 << 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """What every directed link of an endpoint is like.

    bandwidth: bits per second from here, 0 for unshaped; counted are the frame's bytes, not what
    TLS, HTTP/2 and TCP add.  latency: seconds after the last byte at which a message that comes
    here may be read; messages behind one another do not wait for each other's latency.  Calls are
    not shaped.
    timeout: seconds without a sign of life of a role.
    """

    bandwidth: float = 0.0
    latency: float = 0.0
    timeout: float = 10.0


class TokenBucket:
    """The times at which bytes leave one direction of a link.

    A token a byte, rate / 8 of them in a second;  n bytes have left at the first t at which their n
    tokens are there

    bits_per_second: > 0, or 0 for a link that holds nothing up.  No token is saved while nothing
    is sent: every byte takes its time, as on a wire.  Time is what the caller says it is, in
    seconds, so a test can say it too.
    Guarantee: in any span of s seconds at most rate s / 8 bytes leave.

    >>> wire = TokenBucket(8_000)
    >>> wire.take(500, at=10.0), wire.take(500, at=10.0), wire.take(500, at=20.0)
    (10.5, 11.0, 20.5)
    """

    def __init__(self, bits_per_second: float):
        self._byte = 8 / bits_per_second if bits_per_second else 0.0
        # when the bucket has earned back all that was taken out of it
        self._spent_until = -math.inf

    def take(self, n_bytes: int, at: float) -> float:
        """When the last of n bytes has left that are there from `at` on, after all that was taken
        before; never before `at`.
        """
        self._spent_until = max(self._spent_until, at) + n_bytes * self._byte
        return max(at, self._spent_until)


class WallClock:
    """The machine's clock, in seconds that only go up; `stopped` set ends every wait."""

    def __init__(self, stopped: Event):
        self._stopped = stopped

    def now(self) -> float:
        """time.monotonic()."""
        return time.monotonic()

    def wait_until(self, when: float) -> bool:
        """Sleep until then; True, at once, if stopped."""
        return self._stopped.wait(max(0.0, when - self.now()))

    def wait(self, change: Condition, until: float) -> None:
        """Wait for a change, whose lock the caller has, until then at most; may be math.inf."""
        change.wait(None if until == math.inf else max(0.0, until - self.now()))


def piece_bytes(bits_per_second: float) -> int:
    """How long the pieces are that a message is cut into: 5 ms of the link, from 4 KiB up to
    PIECE_BYTES.

    >>> piece_bytes(0), piece_bytes(100e6), piece_bytes(100e3)
    (1048576, 62500, 4096)
    """
    bits = bits_per_second or math.inf
    return int(min(PIECE_BYTES, max(_SMALLEST_PIECE, bits / 8 * _PIECE_SECONDS)))


def paced(
    parts: Sequence[bytes], bucket: TokenBucket, since: float, clock: WallClock
) -> Iterator[bytes]:
    """The pieces of one message, each at the moment its last byte has passed the bucket.

    since: when the message was there to be sent. What the machine itself takes between two pieces
    or two messages does not count: a piece that is late leaves at once, and the bucket's own times
    go on.  Ends early if the clock's wait is ended.
    """
    for part in parts:
        if clock.wait_until(bucket.take(len(part), since)):
            return
        yield part
