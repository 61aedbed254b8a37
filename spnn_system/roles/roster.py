"""What the coordinator knows of the other roles: who is here, how far each is, what it saved, and
who is silent (`Roster.silent`).

Who else notices that a role is gone: another role that sends to it (`transport.links`), a role that
no longer hears the coordinator (`control_channel`), and the launcher, whose child has ended
(`launch`).
"""

import math
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from spnn_system.run.reports import checked, named
from spnn_system.transport.shaping import WallClock


@dataclass
class Seen:
    """What is known of one role.  at: when it last spoke.  hello: its words, none before.  saved:
    its last checkpoint's step, -1 before the first.
    """

    at: float = -math.inf
    session: str = ""
    hello: dict = field(default_factory=dict)
    step: int = 0
    saved: int = -1
    ready: bool = False
    done: bool = False
    stopped: bool = False


class Roster:
    """All other roles of a run; they report in threads of the transport, and one thread takes their
    reports in turn.

    last_step: of the training.  timeout: seconds without a word after which a role is silent.
    clock: of these.
    """

    def __init__(self, roles: Sequence[str], *, last_step: int, timeout: float, clock: WallClock):
        self.roles = {role: Seen() for role in roles}
        self.last_step, self._timeout, self._clock = last_step, timeout, clock
        self._reports: deque[tuple[str, dict]] = deque()
        self._change = threading.Condition()

    def hear(self, role: str, said: dict) -> dict:
        """The control calls of all roles end here, each in a thread of the transport.  ValueError
        refuses one.

        A hello is taken once: its process is the one that counts.
        """
        checked(said, ["coordinator", *self.roles], steps=self.last_step)
        seen = self.roles[role]
        if said["kind"] == "hello":
            with self._change:
                if seen.session:
                    raise ValueError(
                        f"{named(role)} has said hello already: another process of it takes no part"
                    )
                seen.session = said["session"]
        # which it may before it says hello: its data changed
        elif not seen.session and said["kind"] != "stopped":
            raise ValueError(f"{named(role)} must say hello first")
        # a process that hung, and woke up after a resumption
        if seen.session and said["session"] != seen.session:
            return {"stop": "this run was started anew without this process"}
        seen.at = self._clock.now()
        if said["kind"] == "alive":
            seen.step = max(seen.step, said["step"])
            return {"saved": self.resumable}
        with self._change:
            self._reports.append((role, said))
            self._change.notify_all()
        return {}

    def report(self, until: float) -> tuple[str, dict] | None:
        """The next report that somebody has to act on; None if none has come until then, or a
        moment earlier.
        """
        with self._change:
            if not self._reports:
                self._clock.wait(self._change, until)
            return self._reports.popleft() if self._reports else None

    @property
    def all_here(self) -> bool:
        """Whether every role has said hello."""
        return all(seen.hello for seen in self.roles.values())

    @property
    def resumable(self) -> int | None:
        """The last step that every role said it saved."""
        saved = min(seen.saved for seen in self.roles.values())
        return None if saved < 0 else saved

    @property
    def step(self) -> int:
        """The furthest step that a role said it is at; the dealer is ahead and does not count."""
        steps = [seen.step for role, seen in self.roles.items() if role != "dealer"]
        return min(self.last_step, max(steps))

    def silent(self) -> list[str]:
        """Who has given no sign of life for longer than the timeout."""
        latest = self._clock.now() - self._timeout
        return [
            role
            for role, seen in self.roles.items()
            if seen.hello and not seen.done and seen.at < latest
        ]

    def patience(self, role: str) -> float:
        """Seconds until a role has said nothing for half the timeout; 0 if it said no hello, or
        that it stops.
        """
        seen = self.roles[role]
        if not seen.hello or seen.stopped:
            return 0.0
        return seen.at + self._timeout / 2 - self._clock.now()
