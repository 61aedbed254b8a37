"""What tests wait for: events, with a limit far beyond any machine, and a clock that only a test
moves."""

import time
from threading import Condition

FAR = 600.0  # seconds: guards against hanging for ever, and judges nothing


def until(condition, what: str = "", *, seconds: float = FAR):
    """Wait until a condition holds; returns what it gave.  AssertionError after so many seconds."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"it did not come: {what or condition}"
        time.sleep(0.005)
    return found


class Hand:
    """A `shaping.WallClock` that stands still until a test moves it, and wakes all that wait by it
    then.

    waits: until when each `wait` was to last, in order: so a test sees that somebody waits, and for
    how long.
    """

    def __init__(self):
        self.time, self.waits, self._moved, self._changes = 0.0, [], Condition(), []
        self._runs = False

    def now(self) -> float:
        return self.time

    def wait_until(self, when: float) -> bool:
        with self._moved:
            assert self._moved.wait_for(lambda: self._runs or self.time >= when, FAR), (
                f"nobody moved the clock to {when}"
            )
            self.time = max(self.time, when)
        return False

    def wait(self, change: Condition, until: float) -> None:
        self._changes.append(
            change
        )  # before the look at the time: `move` comes before or after both
        self.waits.append(until)
        if self.time < until:
            change.wait(FAR)

    def run(self) -> None:
        """From now on the clock goes by itself to where something wants to leave."""
        with self._moved:
            self._runs = True
            self._moved.notify_all()

    def move(self, to: float) -> None:
        with self._moved:
            self.time = to
            self._moved.notify_all()
        for change in dict.fromkeys(self._changes):
            with change:
                change.notify_all()


class Simulated:
    """A `shaping.WallClock` by which waiting takes no time: it goes on to where a wait ends.

    What is to happen before then happens on the way, in the thread that waits.
    """

    def __init__(self, time: float = 0.0):
        self.time, self._to_come = time, []

    def at(self, when: float, act, *, every: float = 0.0) -> None:
        """Let something happen at a time, and from then on again and again."""
        self._to_come.append((when, act, every))

    def now(self) -> float:
        return self.time

    def wait_until(self, when: float) -> bool:
        while self._happens(when):
            pass
        return False

    def wait(self, change: Condition, until: float) -> None:
        self._happens(until)  # who waits looks at what it changed

    def _happens(self, until: float) -> bool:
        """The next thing, if there is one before then."""
        nearest = min(self._to_come, key=lambda coming: coming[0], default=None)
        if nearest is None or nearest[0] > until:
            self.time = max(self.time, until)
            return False
        when, act, every = nearest
        self._to_come.remove(nearest)
        self.time = max(self.time, when)
        if every:
            self.at(when + every, act, every=every)
        act()
        return True
