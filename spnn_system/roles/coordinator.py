"""The coordinator waits for all roles, splits the graph, starts, watches, ends; it sees no data, weights or values between.

What it hears is what `control.HEARD` lets be said, and nothing else; what it says is a plan, and go, test, end or stop.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from spnn_system.config import Config
from spnn_system.run.control import (ORDER, REPORT, WHY, TakenFolder, checked, named, notices,
                                        plan_for, record_file)
from spnn_system.transport.endpoint import Endpoint, LinkError, Unrecorded
from spnn_system.run.lines import MessageLog

GRACE = 0.6                                              # seconds in which the report of who is really gone may still come
LAST_WORD, LATECOMERS = 1.0, 5.0                         # seconds for the last word to all; to those still starting, if one stops


class Ended(Exception):
    """The run stops, with the sentence that everyone is told.  code: 1, or 2 for bad input."""

    def __init__(self, sentence: str, code: int = 1):
        super().__init__(sentence)
        self.code = code


class Missing(Ended):
    """Not all roles said hello in time."""


@dataclass
class _Seen:
    """What the coordinator knows of one role.  at: when it last spoke; None before its hello."""
    at: float | None = None
    session: str = ""
    hello: dict = field(default_factory=dict)
    step: int = 0
    saved: int | None = None
    ready: dict | None = None
    done: bool = False
    stopped: bool = False


def main(config: Config, *, resume: bool = False) -> int:
    """Run the coordinator to its end; returns 0 done, 1 stopped, 2 bad input (130 for Ctrl-C), the sentence on stderr."""
    folder, network = config.folder_of("coordinator"), config.network
    taken, log = TakenFolder(config, "coordinator"), MessageLog(folder / "messages.jsonl")
    if not resume:
        for stale in ("received.frames", "messages.jsonl"):
            (folder / stale).unlink(missing_ok=True)
    elif not (folder / "status.json").exists():
        raise ValueError("there is nothing to go on from: start without --resume")
    for notice in notices(config):
        print(f"ppkit: {notice}", file=sys.stderr, flush=True)
    code, sentence, late = 0, "", False
    with closing(taken), Endpoint("coordinator", config.addresses, run=config.run, certificates=network.certificates,
                  bandwidth=network.bandwidth, latency=network.latency, timeout=network.timeout, accepts={},
                  record=record_file(config, "coordinator"), log=log.add) as endpoint:
        coordinator = Coordinator(config, endpoint, resume=resume, log=log.add)
        endpoint.on_call(REPORT, coordinator.hear)
        try:
            coordinator.run()
        except Ended as ended:
            late = not isinstance(ended, Missing)                    # or who is not here has had its time
            code, sentence = ended.code, str(ended) + ("" if late else _strangers(log))
        except KeyboardInterrupt:
            code, sentence = 130, coordinator.sentence_of("the coordinator was interrupted")
        except Exception:
            code, sentence = 1, coordinator.sentence_of("the coordinator failed")
            traceback.print_exc()
        if sentence:
            _say(sentence)
            coordinator.stop(sentence, LATECOMERS if late and not coordinator.all_here else LAST_WORD)
    with suppress(OSError):
        log.close()
    return code


class Coordinator:
    """One run, from the first hello to the last word.

    resume: go on from the last step that all roles have a checkpoint of.  log: takes a line for every refusal.
    now: the seconds of a clock that only goes up, by which the others are silent or not.
    """

    def __init__(self, config: Config, endpoint: Endpoint, *, resume: bool = False, log: Callable[[dict], None] | None = None,
                 now: Callable[[], float] = time.monotonic):
        self.config, self._endpoint, self._resume = config, endpoint, resume
        self._log, self._now = log, now
        self._others = [role for role in config.roles if role != "coordinator"]
        self._seen = {role: _Seen() for role in self._others}
        self._heard: queue.Queue[tuple[str, dict]] = queue.Queue()
        self._hearing = threading.Lock()
        self._n_steps = config.training.steps_per_epoch
        self._total = self._n_steps * config.training.epochs
        self._shown, self._shown_at, self._state = None, 0.0, "starting"
        self._began = time.time()

    def hear(self, role: str, said: dict) -> dict:
        """The control calls of all roles end here, each in a thread of the transport.  ValueError refuses one."""
        try:
            seen, kind = self._admitted(role, said), said["kind"]
        except ValueError as error:
            if self._log is not None:
                self._log({"event": "refused", "at": time.time(), "from": role, "why": str(error)})
            raise
        if seen.session and said["session"] != seen.session:             # a process that hung, and woke up after a resumption
            return {"stop": "this run was started anew without this process"}
        seen.at = self._now()
        if kind == "alive":
            seen.step = max(seen.step, said["step"])
            return {"saved": self.resumable}
        self._heard.put((role, said))
        return {}

    def _admitted(self, role: str, said: dict) -> _Seen:
        """What is known of this role, if it may say this.  A hello is taken once a run: its process is the one that counts."""
        if role not in self._seen:
            raise ValueError(f"there is no role {role!r} in this run")
        checked(said, self.config.roles, steps=self._total)
        seen = self._seen[role]
        if said["kind"] != "hello":
            if not seen.session and said["kind"] != "stopped":         # which it may before it says hello: its data changed
                raise ValueError(f"{named(role)} must say hello first")
            return seen
        if (said["columns"] is None) == (role in self.config.names):
            raise ValueError(f"{named(role)} must say how many features it has if it is a holder, and only then")
        with self._hearing:
            if seen.session:
                raise ValueError(f"{named(role)} has said hello already: another process of it takes no part")
            seen.session = said["session"]
        return seen

    def run(self) -> None:
        """Everything.  Ended with the sentence if the run stops before its end."""
        self._show(now=True)
        _say(f"the coordinator listens at {self.config.addresses['coordinator']} and waits for {_and(self._others)}")
        self._wait(lambda: self.all_here, at_start=True)
        start = self._first_step()
        _say("all roles are here: the training begins")
        self._tell_all("plan", lambda role: self._plan(role, start))
        self._state = "setting up"
        dealer = [role for role in self._others if role == "dealer"]
        while True:
            self._wait(lambda: all(seen.ready for seen in self._seen.values()))
            step = max(seen.ready["step"] for seen in self._seen.values())
            reached = any(seen.ready.get("reached") for seen in self._seen.values())
            over = step >= self._total or (reached and step % self._n_steps == 0 and step > 0)
            for seen in self._seen.values():
                seen.ready = None
            if over:
                break
            self._state = "dealing ahead" if dealer else "training"
            self._tell(dealer, {"kind": "go"})
            self._wait(lambda: all(self._seen[role].ready for role in dealer))
            self._state = "training"
            self._tell([role for role in self._others if role not in dealer], {"kind": "go"})
        self._state = "testing"
        self._tell(self._others, {"kind": "test"})
        self._wait(lambda: all(seen.done for seen in self._seen.values()))
        self._tell_the_last({"kind": "end"}, LAST_WORD)
        self._state = "done"
        self._show(now=True)
        _say(f"done: every role has its part in its own folder, holder {self.config.label_holder} the test AUC too")

    def stop(self, sentence: str, seconds: float) -> None:
        """Tell everyone who listens, or begins to within these seconds, and write the sentence down."""
        self._state = "stopped"
        try:
            self._show(now=True, sentence=sentence)
        except Ended:
            pass                                                      # its own disk is full: the sentence still goes out
        self._tell_the_last({"kind": "stop", "sentence": sentence}, seconds)

    def _tell_the_last(self, said: dict, seconds: float) -> None:
        """Tell everyone, all at the same time: within these seconds; longer who spoke just now and may be slow."""
        given = {role: max(seconds, self._left_to(role)) for role in self._others}
        threads = [threading.Thread(target=self._try_to_tell, args=(role, said, given[role]), daemon=True) for role in given]
        for thread in threads:
            thread.start()
        end = self._now() + max(given.values())
        for thread in threads:
            thread.join(max(0.0, end - self._now()))

    def _left_to(self, role: str) -> float:
        """Seconds until a role has said nothing for half the timeout; 0 if it said no hello, or that it stops."""
        seen = self._seen[role]
        if seen.at is None or not seen.hello or seen.stopped:
            return 0.0
        return seen.at + self.config.network.timeout / 2 - self._now()

    @property
    def all_here(self) -> bool:
        """Whether every role has said hello."""
        return all(seen.hello for seen in self._seen.values())

    @property
    def resumable(self) -> int | None:
        """The last step that every role said it saved."""
        saved = [seen.saved for seen in self._seen.values()]
        return None if None in saved else min(saved)

    @property
    def step(self) -> int:
        """The furthest step that a role said it is at."""
        return min(self._total, max((seen.step for role, seen in self._seen.items() if role != "dealer"), default=0))

    def _wait(self, over, *, at_start: bool = False) -> None:
        """Take in what the roles say until something holds.  Ended if a role stops, or gives no sign of life."""
        began, looked = self._now(), self._now()
        timeout = self.config.network.timeout
        while not over():
            try:
                self._take(*self._heard.get(timeout=min(0.05, timeout / 20)))
                continue
            except queue.Empty:
                pass
            try:
                self._endpoint.check()
            except Unrecorded as error:
                raise Ended(self.sentence_of(f"the coordinator could not write to its disk ({error})")) from None
            now = self._now()
            if now - looked > timeout / 2:                            # it is the coordinator itself that slept
                for seen in self._seen.values():
                    seen.at = None if seen.at is None else now
                self._shown = None
            looked = now
            silent = [role for role, seen in self._seen.items() if seen.hello and not seen.done and now - seen.at > timeout]
            if silent:
                raise Ended(self.sentence_of(f"{_and(silent)} gave no sign of life for {timeout:.1f} s"))
            if at_start and now - began > self.config.network.start_timeout:
                missing = [role for role, seen in self._seen.items() if not seen.hello]
                raise Missing(f"{_and(missing)} did not say hello within {self.config.network.start_timeout:g} s: "
                            "nothing was started")
            self._show()

    def _take(self, role: str, said: dict) -> None:
        seen, kind = self._seen[role], said["kind"]
        if kind == "hello":
            if said["config"] != self.config.digest:
                raise Ended(f"{named(role)} has another config than the coordinator: nothing was started", 2)
            if bool(said["resume"]) != self._resume:
                raise Ended(f"{named(role)} was started {'with' if said['resume'] else 'without'} --resume and the coordinator "
                            f"{'with' if self._resume else 'without'}: nothing was started", 2)
            seen.hello = said
            for step in said.get("damaged") or []:
                print(f"{named(role)}'s checkpoint of step {step} is damaged and is not used", file=sys.stderr, flush=True)
        elif kind == "saved":
            seen.saved, seen.step = said["step"], max(seen.step, said["step"])
        elif kind == "ready":
            seen.ready, seen.step = said, max(seen.step, said["step"])
        elif kind == "done":
            seen.done = True
        elif kind == "stopped":
            self._stopped_by(role, said)

    def _stopped_by(self, role: str, said: dict) -> None:
        """A role has stopped: find out whose fault it is, from who else is silent, and end."""
        timeout, about, self._seen[role].stopped = self.config.network.timeout, said.get("role"), True
        if said.get("why") == "unreachable" and about in self._seen:
            until = self._now() + GRACE
            while self._now() < until:
                try:
                    other, also = self._heard.get(timeout=0.05)
                except queue.Empty:
                    continue
                if also["kind"] != "stopped":
                    self._take(other, also)
                elif also["why"] != "unreachable":
                    role, said, about = other, also, also.get("role")
                    break
            quiet = self._now() - (self._seen[about].at or 0.0) if about in self._seen else 0.0
            if said.get("why") == "unreachable" and quiet > max(0.5, 0.6 * timeout):
                raise Ended(self.sentence_of(f"{named(about)} gave no sign of life for {timeout:.1f} s"))
        words = WHY.get(str(said.get("why")), WHY["error"]).format(role=named(about) if about else "another role",
                                                                     timeout=f"{timeout:.1f}")
        where = self.config.folder.name
        code = 2 if said.get("why") in ("rows", "changed", "damaged") else 1
        raise Ended(self.sentence_of(f"{named(role)} {words} (more in {where}/{role}/log.txt)"), code)

    def sentence_of(self, what: str) -> str:
        """What everyone is told: what happened, where the run stops, and how it goes on."""
        stops = f"the run stops at step {self.step}" if self._state not in ("starting", "setting up") else "nothing was trained"
        if self.resumable is None:
            return f"{what}: {stops}"
        return f"{what}: {stops}; `ppkit spnn run {self.config.typed} --resume` goes on from step {self.resumable}"

    def _first_step(self) -> int | None:
        """None for a new run; else the last step that all have a valid checkpoint of."""
        if not self._resume:
            return None
        saved = {role: set(seen.hello.get("saved") or []) for role, seen in self._seen.items()}
        common = set.intersection(*saved.values())
        if not common:
            without = [role for role, steps in saved.items() if not steps]
            raise Ended("there is no step that all roles have a valid checkpoint of"
                        + (f" ({_and(without)} {'has' if len(without) == 1 else 'have'} none)" if without else "")
                        + ": start without --resume", 2)
        for seen in self._seen.values():
            seen.saved = seen.step = max(common)
        print(f"the run goes on from step {max(common)}", file=sys.stderr, flush=True)
        return max(common)

    def _plan(self, role: str, start: int | None) -> dict:
        columns = [self._seen[name].hello["columns"] for name in self.config.names]
        return plan_for(self.config, role, start=start, columns=columns)

    def _tell_all(self, kind: str, words) -> None:
        for role in self._others:
            self._tell([role], words(role))

    def _tell(self, roles: list[str], said: dict) -> None:
        """Say something to each of these roles.  Ended if one cannot be reached within the timeout since it last spoke."""
        for role in roles:
            timeout = self.config.network.timeout
            since = self._now() - (self._seen[role].at or self._now())
            try:
                self._endpoint.call(role, ORDER, said, timeout=max(timeout - since, timeout / 4))
            except LinkError as error:
                while not self._heard.empty():                                    # it may have said why
                    self._take(*self._heard.get())
                raise Ended(self.sentence_of(f"{named(role)} could not be reached for {timeout:.1f} s")) from error

    def _try_to_tell(self, role: str, said: dict, seconds: float) -> None:
        try:
            self._endpoint.call(role, ORDER, said, timeout=seconds)
        except LinkError:
            pass                                                      # it is gone, or will see that the coordinator is

    def _show(self, *, now: bool = False, sentence: str = "") -> None:
        """Renew status.json, at most ten times a second: state, step, steps, epoch, seconds, the sentence at the end."""
        shown = {"state": self._state, "step": self.step, "steps": self._total, "steps_per_epoch": self._n_steps,
                 "saved": self.resumable, "sentence": sentence}
        if now or (shown != self._shown and time.monotonic() - self._shown_at > 0.1):
            self._shown, self._shown_at = shown, time.monotonic()
            try:
                _replace(self.config.folder_of("coordinator") / "status.json",
                         shown | {"seconds": round(time.time() - self._began, 3)})
            except OSError as error:
                raise Ended(self.sentence_of(f"the coordinator could not write to its disk ({error.strerror})")) from None


def _strangers(log: MessageLog) -> str:
    """How many connections were none of this run's roles: their certificates may be of another making."""
    n = log.seen["refused", "unknown"]
    return f"; {n} connections showed no valid certificate of this run's authority" if n else ""


def _say(sentence: str) -> None:
    with suppress(OSError):
        print(f"ppkit: {sentence}", file=sys.stderr, flush=True)


def _replace(path: Path, content: dict) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(content), "utf-8")
    os.replace(part, path)


def _and(roles: list[str]) -> str:
    return " and ".join(named(role) for role in roles)
