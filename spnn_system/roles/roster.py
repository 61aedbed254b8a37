"""What the coordinator knows of the other roles: who is here, how far each is, what it saved, and
who is silent (`Roster.silent`).

Who else notices that a role is gone: another role that sends to it or waits for it
(`transport.links`, `transport.endpoint`), a role that no longer hears the coordinator
(`control_channel`), and the launcher, whose child has ended (`launch`).
"""

import threading
from collections import deque
from dataclasses import dataclass, field

from spnn_system.config import Config
from spnn_system.run.reports import checked, named
from spnn_system.transport.shaping import WallClock


@dataclass
class Seen:
    """What is known of one role.  at: when it last spoke; None before its hello."""

    at: float | None = None
    session: str = ""
    hello: dict = field(default_factory=dict)
    step: int = 0
    saved: int | None = None
    ready: dict | None = None
    done: bool = False
    stopped: bool = False


class Roster:
    """All other roles of a run; they report in threads of the transport, and one thread takes their
    reports in turn.

    clock: by which the others are silent or not.
    """

    def __init__(self, config: Config, clock: WallClock):
        self.config, self._clock = config, clock
        self.roles = {role: Seen() for role in config.roles if role != "coordinator"}
        self.last_step = config.training.last_step
        self._reports: deque[tuple[str, dict]] = deque()
        self._change = threading.Condition()

    def hear(self, role: str, said: dict) -> dict:
        """The control calls of all roles end here, each in a thread of the transport.  ValueError
        refuses one.

        A hello is taken once: its process is the one that counts.
        """
        if role not in self.roles:
            raise ValueError(f"there is no role {role!r} in this run")
        checked(said, self.config.roles, steps=self.last_step)
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
        saved = [seen.saved for seen in self.roles.values()]
        return None if None in saved else min(saved)

    @property
    def step(self) -> int:
        """The furthest step that a role said it is at; the dealer is ahead and does not count."""
        steps = (seen.step for role, seen in self.roles.items() if role != "dealer")
        return min(self.last_step, max(steps, default=0))

    def silent(self) -> list[str]:
        """Who has given no sign of life for longer than the timeout."""
        latest = self._clock.now() - self.config.network.timeout
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
        if seen.at is None or not seen.hello or seen.stopped:
            return 0.0
        return seen.at + self.config.network.timeout / 2 - self._clock.now()
