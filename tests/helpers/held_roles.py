"""What is put into roles under test: hold at a step, stay silent, beat by another clock."""

import os

from network_runs import nursery
from waiting import FAR

EVERY = 4  # steps from checkpoint to checkpoint

AT_STEP = """
import os, signal, threading, time
from pathlib import Path
from spnn_system.roles.party import Party

send, came = Party.send, []

def at_step(self, *what, **how):
    if self.progress.step == {step} and not came:
        came.append(1)
        folder = self.control.config.folder_of(self.control.role)
        held, go_on = (folder / name for name in ("held", "go on"))
        {do}
    return send(self, *what, **how)

Party.send = at_step
"""


# When all have said that they saved what lies before, and the coordinator has heard of this step (a
# sign of life of the step before may be all that it knows), and until the test or the end of the
# run lets it go on.
HOLD = """
        while self.control._saved != {saved}:
            time.sleep(0.005)
        self.control.report("alive", step={step})
        held.touch()
        while not go_on.exists() and not self.control.over.is_set():
            time.sleep(0.005)
"""


# The coordinator's time goes on by a quarter of the timeout when every role has spoken that is not
# in the file "gone".
BEATS = """
import threading
from pathlib import Path
from spnn_system.roles import coordinator, roster

coordinator.LAST_WORD = 0.1                              # the dead do not answer

class Beats:
    now_ = 1.0
    def now(self):
        return self.now_
    def wait(self, change, until):
        change.wait(0.05)

class Heard(roster.Roster):
    def __init__(self, *given, **how):
        self.spoke, self.counting = set(), threading.Lock()
        super().__init__(*given, **how)

    def hear(self, role, said):
        answer, gone = super().hear(role, said), Path(run_folder, "gone")
        with self.counting:
            self.spoke.add(role)
            if gone.exists() and self.spoke >= set(self.roles) - {gone.read_text()}:
                self._clock.now_ += self._timeout / 4
                self.spoke.clear()
        return answer

coordinator.WallClock, coordinator.Roster = lambda stopped: Beats(), Heard
"""


# A role that asks in vain does not ask for long: its silence is counted all the same.
SHORT_SIGNS = """
from spnn_system.roles.control_channel import ControlChannel
report = ControlChannel.report
def short(self, kind, *, timeout=None, **what):
    return report(self, kind, timeout=1.0 if kind == "alive" else timeout, **what)
ControlChannel.report = short
"""


def at_step(step: int, do: str) -> str:
    """Code that a role runs once before the first thing that it sends at a step."""
    return AT_STEP.replace("        {do}\n", do).replace("{step}", str(step))


def last_saved(step: int) -> int:
    """Of all roles, when one is at this step."""
    return (step - 1) // EVERY * EVERY


def hold(step: int) -> str:
    return at_step(step, HOLD.replace("{saved}", str(last_saved(step))))


def held(conf, role: str) -> None:
    nursery().until((conf.folder_of(role) / "held").exists, f"{role} at its step")


def gone(conf, role: str) -> None:
    """The coordinator waits for this role's words no longer, before it counts time."""
    part = conf.folder / "gone.part"
    part.write_text(role)
    os.replace(part, conf.folder / "gone")


def silent(role: str) -> str:
    who = f"the {role}" if role in ("coordinator", "server", "dealer") else f"holder {role}"
    return f"{who} gave no sign of life for {FAR:.1f} s"
