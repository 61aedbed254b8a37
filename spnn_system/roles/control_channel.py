"""A role's line to the coordinator: orders, reports, the heartbeat; and when the role finds that it
is alone.
"""

import queue
import secrets
import signal
import threading
from contextlib import suppress
from dataclasses import dataclass

from spnn_system.config import Config
from spnn_system.run.reports import REPORT, say
from spnn_system.transport.endpoint import Endpoint, LinkError, Stopped
from spnn_system.transport.shaping import WallClock

COORDINATOR = "coordinator"
GIVING_UP, LAST_WORD = 1.0, 1.5  # seconds to say that a role stops, and to hear what all are told


@dataclass(slots=True)
class Progress:
    """Where a role is: its training step, 0 while it sets up, beyond the last one while it tests.

    last: the last step of the training, 0 until the plan is known.
    """

    step: int = 0
    last: int = 0

    @property
    def trained(self) -> int:
        """The step, as far as the coordinator counts."""
        return min(self.step, self.last)


class ControlChannel:
    """One role's side of it; every method but `hear` and the heartbeat is for the thread of the
    work.

    progress: the step that the role is at.  clock: of all silence; None for the machine's.  over:
    set once the run is over for this role, with the sentence.
    """

    def __init__(
        self, config: Config, role: str, progress: Progress, *, clock: WallClock | None = None
    ):
        self.config, self.role, self.progress = config, role, progress
        self.over, self.sentence = threading.Event(), ""
        self.endpoint: Endpoint
        self._clock = clock or WallClock(self.over)
        self._orders: queue.Queue[dict] = queue.Queue()
        self._session = secrets.token_hex(8)
        self._saved: int | None = None  # the last step that all have saved, as the coordinator said
        self._beat = threading.Thread(target=self._heartbeat, name="heartbeat", daemon=True)
        # the one queue that a signal handler may use
        self._pressed: queue.SimpleQueue[None] = queue.SimpleQueue()

    def hear(self, sender: str, said: dict) -> dict:
        """The coordinator's words, in a thread of the endpoint; ValueError refuses anyone
        else's.
        """
        if sender != COORDINATOR or said.get("kind") not in ("plan", "go", "test", "end", "stop"):
            raise ValueError(f"only the coordinator gives orders here, got one from {sender}")
        if said["kind"] == "stop":
            self.stop(str(said.get("sentence")))
        else:
            self._orders.put(said)
        return {}

    def stop(self, sentence: str) -> None:
        """Wake everything in this role that waits, with the sentence."""
        if not self.over.is_set():
            self.sentence = sentence
            self.over.set()
            self._orders.put({"kind": "stop"})
            self.endpoint.stop(sentence)

    def order(self) -> dict:
        """The coordinator's next order.  Stopped if it is stop."""
        said = self._orders.get()
        if self.over.is_set():
            raise Stopped(self.role, self.sentence)
        self.endpoint.check()
        return said

    def report(self, kind: str, *, timeout: float | None = None, **what) -> dict:
        """Say something to the coordinator; returns its answer.  timeout: seconds, None for the
        endpoint's.  LinkError.

        Once the run is over there is no other try: the coordinator may be gone.
        """
        said = {"kind": kind, "session": self._session, **what}
        return self.endpoint.call(COORDINATOR, REPORT, said, timeout=timeout, until=self.over)

    def tell(self, kind: str, *, timeout: float | None = None, **what) -> None:
        """Say something to the coordinator, which must take it within the timeout.  Stopped if the
        run is over.
        """
        try:
            said = self.report(kind, timeout=timeout, **what)
        except LinkError:
            if self.over.is_set():
                raise Stopped(self.role, self.sentence) from None
            raise
        if said.get("stop"):
            raise Stopped(self.role, said["stop"])

    def give_up(self, why: str, about: str | None) -> None:
        """Tell the coordinator that this role stops, and wait a little for its sentence to all."""
        with suppress(LinkError):  # the coordinator may be what is gone, or has said why before
            self.report("stopped", why=why, role=about, timeout=GIVING_UP)
            self.over.wait(LAST_WORD)
        if self.over.is_set():
            say(self.sentence)

    def begin(self) -> None:
        """Give signs of life from now on, and take Ctrl-C, each in a thread of its own.

        A KeyboardInterrupt here and now could be lost in a callback, or leave a lock taken that the
        role's end needs: so the first Ctrl-C ends the wait or the next thing sent, and a second one
        is a KeyboardInterrupt.
        """
        self._beat.start()
        threading.Thread(target=self._interrupt, name="Ctrl-C", daemon=True).start()
        signal.signal(signal.SIGINT, self._note_ctrl_c)

    def close(self) -> None:
        """The work has ended: no more signs of life."""
        self.over.set()
        if self._beat.is_alive():
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._beat.join()

    def _note_ctrl_c(self, *_) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._pressed.put(None)

    def _interrupt(self) -> None:
        """Wake everything in this role that waits, once Ctrl-C was pressed."""
        self._pressed.get()
        self.endpoint.interrupt()
        self._orders.put({"kind": "stop"})

    def without_coordinator(self) -> str:
        """What this role says when the coordinator is gone, as far as it knows how far the others
        are.
        """
        sentence = (
            f"the coordinator gave no sign of life for {self.config.network.timeout:.1f} s: "
            f"the run stops at step {self.progress.trained}"
        )
        if self._saved is None:
            return sentence
        return (
            f"{sentence}; `ppkit spnn run {self.config.typed} --resume` goes on from step "
            f"{self._saved} or later"
        )

    def _heartbeat(self) -> None:
        timeout = self.config.network.timeout
        pause, heard = min(0.25, timeout / 5), self._clock.now()
        while not self._clock.wait_until(self._clock.now() + pause) and not self.over.is_set():
            try:
                said = self.report(
                    "alive", step=self.progress.trained, timeout=max(0.2, timeout / 4)
                )
            except LinkError:
                if self._clock.now() - heard > timeout:
                    self.stop(self.without_coordinator())
                continue
            heard = self._clock.now()
            if said.get("stop"):
                self.stop(str(said["stop"]))
            if said.get("saved") is not None:
                self._saved = said["saved"]
