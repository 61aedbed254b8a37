"""The coordinator waits for all roles, tells all how wide each one's part of the graph is, starts,
watches, ends; it sees no data, weights or values between.

The config is not sent: each role loads its own copy, its hello carries the digest of it, and a
role with another one takes no part.  What a plan says is numbers of columns and where to begin.

What it hears is what `reports.HEARD` lets be said, and nothing else; what it says is a plan, and
go, test, end or stop.
"""

import json
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

from ppkit.atomic_writing import write_whole
from spnn_system.config import Config
from spnn_system.roles.roster import Roster
from spnn_system.run.reports import ORDER, REPORT, VALUES_AT_START, WHY_STOPPED, named, say
from spnn_system.run.role_folder import STATUS, RoleFolder
from spnn_system.transport.endpoint import Endpoint, LinkError
from spnn_system.transport.shaping import WallClock

# seconds for the last word to all; to those still starting, if one stops
LAST_WORD, LATECOMERS = 1.0, 5.0


class Ended(Exception):
    """The run stops, with the sentence that everyone is told.  code: 1, or 2 for bad input."""

    def __init__(self, sentence: str, code: int = 1):
        super().__init__(sentence)
        self.code = code


def main(config: Config, *, resume: bool = False) -> int:
    """Run the coordinator to its end; returns 0 done, 1 stopped, 2 bad input (130 for Ctrl-C), the
    sentence on stderr.
    """
    folder = RoleFolder(config, "coordinator")
    if not resume:
        folder.clear()
    elif not (folder.path / STATUS).exists():
        raise ValueError("there is nothing to go on from: start without --resume")
    say(config.notice)
    code, sentence, seconds = 0, "", LAST_WORD
    endpoint = folder.endpoint({})
    coordinator = Coordinator(config, endpoint, resume=resume)
    endpoint.on_call(REPORT, coordinator.roster.hear)
    with closing(folder), closing(folder.log), endpoint:
        try:
            coordinator.run()
        except Ended as ended:
            code, sentence = ended.code, str(ended)
            seconds = LAST_WORD if coordinator.roster.all_here else LATECOMERS
        except KeyboardInterrupt:
            code, sentence = 130, coordinator.sentence_of("the coordinator was interrupted")
        except Exception:
            code, sentence = 1, coordinator.sentence_of("the coordinator failed")
            traceback.print_exc()
        if sentence:
            say(sentence)
            coordinator.stop(sentence, seconds)
    return code


class Coordinator:
    """One run, from the first hello to the last word.

    resume: go on from the last step that all roles have a checkpoint of.  clock: of all silence;
    None for the machine's.
    """

    def __init__(
        self,
        config: Config,
        endpoint: Endpoint,
        *,
        resume: bool = False,
        clock: WallClock | None = None,
    ):
        self.config, self._endpoint, self._resume = config, endpoint, resume
        self._clock = clock or WallClock(threading.Event())
        self._others = [role for role in config.roles if role != "coordinator"]
        self._timeout = config.network.timeout
        self.roster = Roster(
            self._others,
            last_step=config.training.last_step,
            timeout=self._timeout,
            clock=self._clock,
        )
        self._shown: dict = {}
        self._shown_at, self._state = 0.0, "starting"

    def run(self) -> None:
        """Everything.  Ended with the sentence if the run stops before its end."""
        roster, seen = self.roster, self.roster.roles
        self._show(now=True)
        say(
            f"the coordinator listens at {self.config.addresses['coordinator']} and waits for "
            f"{_and(self._others)}"
        )
        self._wait(lambda: roster.all_here, at_start=True)
        columns = [seen[name].hello["columns"] for name in self.config.names]
        plan = {"kind": "plan", "columns": columns, "start": self._first_step()}
        say(f"all roles are here: the {self.config.kind} begins")
        self._tell(self._others, plan)
        self._state = "setting up"
        self._wait_for(self._others)
        dealer = [role for role in self._others if role == "dealer"]
        trains = [role for role in self._others if role != "dealer"]
        while roster.step < roster.last_step:
            if dealer:
                self._state = "dealing ahead"
                self._tell(dealer, {"kind": "go"})
                self._wait_for(dealer)
            self._state = "training"
            self._tell(trains, {"kind": "go"})
            self._wait_for(trains)
        self._state = "testing"
        self._tell(self._others, {"kind": "test"})
        self._wait(lambda: all(one.done for one in seen.values()))
        self._tell_the_last({"kind": "end"}, LAST_WORD)
        self._state = "done"
        self._show(now=True)
        what = "the scores" if self.config.trained else "what it measured"
        say(
            f"done: every role has its part in its own folder, holder {self.config.label_holder} "
            f"{what}"
        )

    def _wait_for(self, roles: list[str]) -> None:
        """Until each of these roles is ready for an epoch, or for the test."""
        seen = [self.roster.roles[role] for role in roles]
        self._wait(lambda: all(one.ready for one in seen))
        for one in seen:
            one.ready = False

    def stop(self, sentence: str, seconds: float) -> None:
        """Tell everyone who listens, or begins to within these seconds, and write the sentence
        down.
        """
        self._state = "stopped"
        with suppress(Ended):  # its own disk is full: the sentence still goes out
            self._show(now=True, sentence=sentence)
        self._tell_the_last({"kind": "stop", "sentence": sentence}, seconds)

    def _tell_the_last(self, said: dict, seconds: float) -> None:
        """Tell everyone, all at the same time: within these seconds; longer who spoke just now and
        may be slow.
        """
        with ThreadPoolExecutor(len(self._others)) as at_once:
            for role in self._others:
                given = max(seconds, self.roster.patience(role))
                # nobody asks what came of it: who cannot be reached is gone, or will see that the
                # coordinator is
                at_once.submit(self._endpoint.call, role, ORDER, said, timeout=given)

    def _wait(self, over: Callable[[], bool], *, at_start: bool = False) -> None:
        """Take in what the roles say until something holds.  Ended if a role stops, or gives no
        sign of life.
        """
        began = self._clock.now()
        while not over():
            if report := self.roster.report(self._clock.now() + min(0.05, self._timeout / 20)):
                self._take(*report)
                continue
            if silent := self.roster.silent():
                raise self._ended(f"{_and(silent)} gave no sign of life for {self._timeout:.1f} s")
            start_timeout = self.config.network.start_timeout
            if at_start and self._clock.now() - began > start_timeout:
                missing = [role for role, seen in self.roster.roles.items() if not seen.hello]
                raise Ended(
                    f"{_and(missing)} did not say hello within {start_timeout:g} s: nothing was "
                    "started"
                )
            self._show()

    def _take(self, role: str, said: dict) -> None:
        seen = self.roster.roles[role]
        seen.step = max(seen.step, said.get("step", 0))
        match said["kind"]:
            case "hello":
                self._take_hello(role, said)
            case "saved":
                seen.saved = said["step"]
            case "ready":
                seen.ready = True
            case "done":
                seen.done = True
            case "stopped":
                self._stopped_by(role, said)

    def _take_hello(self, role: str, said: dict) -> None:
        if said["config"] != self.config.digest:
            raise Ended(
                f"{named(role)} has another config than the coordinator: nothing was started", 2
            )
        if said["resume"] != self._resume:
            raise Ended(
                f"{named(role)} and the coordinator must both be started with --resume, or both "
                "without: nothing was started",
                2,
            )
        self.roster.roles[role].hello = said

    def _stopped_by(self, role: str, said: dict) -> None:
        """A role has stopped: find out whose fault it is, from who else is silent, and end."""
        seen = self.roster.roles
        seen[role].stopped = True
        if said["why"] == "unreachable" and said["role"] in seen:
            quiet = self._clock.now() - seen[said["role"]].at
            if quiet > max(0.5, 0.6 * self._timeout):
                raise self._ended(
                    f"{named(said['role'])} gave no sign of life for {self._timeout:.1f} s"
                )
        about = named(said["role"]) if said["role"] else "another role"
        words = WHY_STOPPED[said["why"]].format(role=about, timeout=f"{self._timeout:.1f}")
        if said["why"] == "values" and self.roster.step <= 1:
            words = VALUES_AT_START
        what = f"{named(role)} {words} (more in {self.config.folder.name}/{role}/log.txt)"
        if said["why"] == "features":  # the file will change, so nothing goes on from here
            raise Ended(f"{what}: the run stops at step {self.roster.step}", 2)
        raise self._ended(what, 2 if said["why"] in ("rows", "changed", "damaged") else 1)

    def _ended(self, what: str, code: int = 1) -> Ended:
        return Ended(self.sentence_of(what), code)

    def sentence_of(self, what: str) -> str:
        """What everyone is told: what happened, where the run stops, and how it goes on."""
        if self.config.trained:
            return f"{what}: the prediction stops; the same command starts it again"
        stops, saved = f"the run stops at step {self.roster.step}", self.roster.resumable
        if self._state in ("starting", "setting up"):
            stops = "nothing was trained"
        if saved is None:
            return f"{what}: {stops}"
        return (
            f"{what}: {stops}; `ppkit spnn run {self.config.typed} --resume` goes on from step "
            f"{saved}"
        )

    def _first_step(self) -> int | None:
        """None for a new run; else the last step that all have a valid checkpoint of."""
        if not self._resume:
            return None
        roles = self.roster.roles.values()
        common = set.intersection(*(set(seen.hello["saved"]) for seen in roles))
        if not common:
            raise Ended(
                "there is no step that all roles have a valid checkpoint of: start without "
                "--resume",
                2,
            )
        start = max(common)
        for seen in roles:
            seen.saved = seen.step = start
        say(f"the run goes on from step {start}")
        return start

    def _tell(self, roles: list[str], said: dict) -> None:
        """Say something to each of these roles.  Ended if one cannot be reached within the
        timeout.
        """
        for role in roles:
            try:
                self._endpoint.call(role, ORDER, said)
            except LinkError as error:
                while report := self.roster.report(-float("inf")):  # it may have said why
                    self._take(*report)
                raise self._ended(
                    f"{named(role)} could not be reached for {self._timeout:.1f} s"
                ) from error

    def _show(self, *, now: bool = False, sentence: str = "") -> None:
        """Renew status.json, at most ten times a second."""
        shown = {
            "state": self._state,
            "step": self.roster.step,
            "steps": self.roster.last_step,
            "saved": self.roster.resumable,
            "sentence": sentence,
        }
        if now or (shown != self._shown and time.monotonic() - self._shown_at > 0.1):
            self._shown, self._shown_at = shown, time.monotonic()
            try:
                write_whole(self.config.folder_of("coordinator") / STATUS, json.dumps(shown))
            except OSError as error:
                raise self._ended(
                    f"the coordinator could not write to its disk ({error.strerror})"
                ) from None


def _and(roles: list[str]) -> str:
    return " and ".join(named(role) for role in roles)
