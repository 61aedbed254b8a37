"""Who dialled and showed no valid certificate: gRPC says of those only that a connection began."""

import threading
import time
from collections import deque
from collections.abc import Callable

from spnn_system.transport.shaping import WallClock

ENOUGH_SECONDS = 2.0  # a connection that has not shown a certificate by then was refused by TLS


REFUSED_BY_TLS = "connections that showed no valid certificate of this run's authority"


class Handshakes:
    """Counts the connections that began long enough ago and led to nothing.

    log: takes a line for them.  begun: when those began that have shown nothing yet.
    """

    def __init__(self, clock: WallClock, log: Callable[[dict], None]):
        self.begun: deque[float] = deque()
        self._clock, self._log = clock, log
        # the other ends of the connections that have shown a certificate
        self._shown: set[str] = set()
        self._lock = threading.Lock()

    def begin(self) -> None:
        """A connection begins to shake hands."""
        with self._lock:
            self.begun.append(self._clock.now())

    def succeed(self, peer: str) -> None:
        """The other end of a connection has shown a valid certificate.  peer: gRPC's name of that
        end.
        """
        with self._lock:
            if peer not in self._shown:
                self._shown.add(peer)
                self.begun and self.begun.popleft()

    def count_failed(self) -> None:
        """Log how many have had their time; to be called now and then."""
        with self._lock:
            failed = 0
            while self.begun and self.begun[0] + ENOUGH_SECONDS <= self._clock.now():
                self.begun.popleft()
                failed += 1
        if failed:
            self._log(
                {
                    "event": "refused",
                    "at": time.time(),
                    "from": "unknown",
                    "times": failed,
                    "why": f"{REFUSED_BY_TLS}: {failed}",
                }
            )
