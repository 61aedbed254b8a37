"""What server, dealer and holders have in common: hello, signs of life, a journal, checkpoints, an orderly end."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import queue
import secrets
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from ppkit.spnn.holders import Malformed, tensor_from
from ppkit.spnn.network.checkpoints import SET_UP, Changed, Checkpoint, Checkpoints, Damaged, Journal, SentBefore, root_secret, write
from ppkit.spnn.network.config import Config
from ppkit.spnn.network.control import (ORDER, REPORT, OddPlan, TakenFolder, named, notices, plan_checked, private,
                                        record_file)
from ppkit.spnn.network.endpoint import Endpoint, LinkError, OutOfTurn, Rejected, Silent, Stopped
from ppkit.spnn.network.sides import accepts, largest, warm_up
from ppkit.spnn.programs import Program, Send
from ppkit.spnn.randomness import Stream

LEFT = ("messages.jsonl", "metrics.json", "parameters.npz", "received.frames")           # what an earlier run left
KEPT = 3                                                 # checkpoints of a role that are kept
DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT)
GIVEN_TO_END = 3.0                                       # seconds that a hung role gets to end by itself
COORDINATOR = "coordinator"
UNSAID = {Silent: "unreachable", Rejected: "refused", OutOfTurn: "out of turn"}


class RowsDiffer(ValueError):
    """Two holders do not have the same rows.  role: the other one."""

    def __init__(self, sentence: str, role: str):
        super().__init__(sentence)
        self.role = role


class Part:
    """One role's place in a run.  step: the training step it is at, 0 while it sets up; what it sends carries it.

    root: the Stream that all its secrets come from; with secrets = "teaching" that of the config's seed, NOT SECRET.
    """

    def __init__(self, config: Config, role: str, *, resume: bool, data_digest: str = ""):
        self.config, self.role, self.resume = config, role, resume
        self.folder = config.folder_of(role)
        self._taken = TakenFolder(config, role)           # before anything of an earlier run is removed
        self.plan: dict[str, Any] = {}
        self.step = 0
        self._checkpoints = Checkpoints(self.folder, about={"run": config.run, "role": role, "config": config.digest,
                                                            "data": data_digest})
        self._journal = Journal(self.folder)
        self._words: queue.Queue[dict] = queue.Queue()
        self._over, self._sentence = threading.Event(), ""
        self._session = secrets.token_hex(8)
        self._lines: list[str] = []
        self._saved: int | None = None
        self._at_work: float | None = None               # since when it has neither sent nor waited; None while it waits
        self._left = threading.Event()                   # the work has ended
        self._good: list[int] = []                       # the steps that this role can go on from
        if not resume:
            self._checkpoints.clear()
            self._journal.clear()
            for stale in LEFT:
                (self.folder / stale).unlink(missing_ok=True)
        secret = root_secret(self.folder, resume=resume)
        self.teaching = config.protocol.secrets == "teaching"
        self.root = Stream.seeded_for_teaching(config.training.seed).derive(role) if self.teaching else Stream(secret)
        self.endpoint: Endpoint

    # what the coordinator and this role say to each other

    def hear(self, sender: str, said: dict) -> dict:
        """The coordinator's words; ValueError refuses anyone else's."""
        if sender != COORDINATOR or said.get("kind") not in ("plan", "go", "test", "end", "stop"):
            raise ValueError(f"only the coordinator gives orders here, got one from {sender}")
        if said["kind"] == "stop":
            self.stop(str(said.get("sentence")))
        else:
            self._words.put(said)
        return {}

    def stop(self, sentence: str) -> None:
        """Wake everything in this role that waits, with the sentence."""
        if not self._over.is_set():
            self._sentence = sentence
            self._over.set()
            self._words.put({"kind": "stop"})
            self.endpoint.stop(sentence)

    def word(self, *kinds: str) -> dict:
        """The coordinator's next word, which must be one of these.  Stopped if it is stop."""
        with self._waiting():
            said = self._words.get()
        if self._over.is_set():
            raise Stopped(self.role, self._sentence)
        if said["kind"] not in kinds:
            raise RuntimeError(f"the coordinator says {said['kind']!r} where {' or '.join(kinds)} is expected")
        return said

    def tell(self, kind: str, **what) -> None:
        """Say something to the coordinator, which must take it within the timeout."""
        try:
            said = self._report(kind, **what)
        except LinkError:
            if self._over.is_set():
                raise Stopped(self.role, self._sentence) from None
            raise
        if said.get("stop"):
            raise Stopped(self.role, said["stop"])

    def _report(self, kind: str, *, timeout: float | None = None, **what) -> dict:
        return self.endpoint.call(COORDINATOR, REPORT, {"kind": kind, "session": self._session, **what}, timeout=timeout)

    @property
    def _shown_step(self) -> int:
        """The step as the coordinator counts: the test is none."""
        return min(self.step, self.plan["epochs"] * self.n_steps) if self.plan else 0

    def _beat(self) -> None:
        timeout = self.config.network.timeout
        pause, heard = min(0.25, timeout / 5), time.monotonic()
        while not self._over.wait(pause):
            try:
                said = self._report("alive", step=self._shown_step, timeout=max(0.2, timeout / 4))
            except LinkError:
                if time.monotonic() - heard > timeout:
                    self.stop(self._without_coordinator())
                continue
            heard = time.monotonic()
            if said.get("stop"):
                self.stop(str(said["stop"]))
            if self._hangs():
                self._give_up_hanging()
            if said.get("saved") is not None:
                self._saved = said["saved"]

    def _hangs(self) -> bool:
        """Whether the work has neither sent nor waited for anything for longer than the config allows."""
        at_work, allowed = self._at_work, self.config.network.stuck
        return at_work is not None and 0 < allowed < time.monotonic() - at_work

    def _give_up_hanging(self) -> None:
        """Say so, from the thread of the signs of life; and end the process if the work does not end by itself."""
        self._say(f"nothing was sent or waited for at step {self.step} for {self.config.network.stuck:g} s: this role stops")
        self._try_to_report("stopped", why="stuck", role=None)
        self.stop("this role hangs")
        if not self._left.wait(GIVEN_TO_END):
            self._try(self._write_lines)
            os._exit(1)

    def _try_to_report(self, kind: str, **what) -> None:
        try:
            self._report(kind, timeout=1.0, **what)
        except LinkError:
            pass

    def _without_coordinator(self) -> str:
        """What this role says when the coordinator is gone, as far as it knows how far the others are."""
        more = ""
        if self._saved is not None:
            more = f"; `ppkit spnn run {self.config.typed} --resume` goes on from step {self._saved} or later"
        return (f"the coordinator gave no sign of life for {self.config.network.timeout:.1f} s: "
                f"the run stops at step {self.step}{more}")

    # messages between the parties

    def send(self, receiver: str, name: str, payload: Any, *, phase: str = "online") -> None:
        """Send at the present step, after the journal has it.  SentBefore, OSError: then nothing was sent."""
        self._journal.sending(self.step, receiver, name, payload)
        self.endpoint.send(receiver, name, payload, step=self.step, phase=phase)
        self._at_work = time.monotonic()

    def receive(self, sender: str, name: str) -> Any:
        """The next message of a sender, which must be this one of the present step.

        Waits for as long as the coordinator holds the sender to be alive: a long computation is no fault.
        """
        with self._waiting():
            return self.endpoint.receive(sender, name, step=self.step, timeout=math.inf)

    def flush(self) -> None:
        """Wait until all that was sent has come to its receivers."""
        with self._waiting():
            self.endpoint.flush()

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """While this role waits for another it does not count as hung, however long that takes."""
        self._at_work = None
        try:
            yield
        finally:
            self._at_work = time.monotonic()

    def receive_tensor(self, sender: str, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        """The same, if it is a float32 tensor of this shape, all finite.  Malformed, which names the sender, if not."""
        return tensor_from(sender, name, self.receive(sender, name), shape, torch.float32)

    def receive_counts(self, sender: str, name: str, *keys: str) -> dict:
        """The same, if it is a dict with a whole number >= 0 under each of these keys.  Malformed if not."""
        came = self.receive(sender, name)
        if not (isinstance(came, dict) and all(type(came.get(key)) is int and came[key] >= 0 for key in keys)):
            raise Malformed(f"{name!r} of {sender} must have {' and '.join(keys)}, whole numbers", sender)
        return came

    def run(self, program: Program) -> Any:
        """A protocol's program on real messages; returns what it returns."""
        payload = None
        while True:
            try:
                asked = program.send(payload)
            except StopIteration as end:
                return end.value
            if isinstance(asked, Send):
                self.send(asked.receiver, asked.name, asked.payload, phase=asked.phase)
                payload = None
            else:
                payload = self.receive(asked.sender, asked.name)

    # checkpoints

    def save(self, arrays: dict[str, np.ndarray], notes: dict[str, Any], *, keep_from: int | None = None) -> None:
        """Write the checkpoint of the present step, tell the coordinator, and drop those that nobody will ask for.

        keep_from: keep all from this step on (the dealer is ahead of the others), besides the last ones before.
        """
        self._journal.begin(self.step)                   # first: a checkpoint without its part of the journal is of no use
        self._checkpoints.save(self.step, arrays, {**notes, "journal": self._journal.sizes()})
        self._write_lines()
        self.tell("saved", step=self.step)
        there = self._checkpoints.steps()
        old = [step for step in there if step < (self.step + 1 if keep_from is None else keep_from)]
        kept = set(old[-KEPT:]) | (set(there) - set(old))
        self._checkpoints.keep(kept)
        self._journal.forget(min(kept))

    def _recall(self) -> None:
        """In a resumed run, what was sent before: none of it may be sent again in another form.  Damaged if a part is lost."""
        if self.resume:
            for step in self._good:
                if step >= self.plan["start"]:
                    self._journal.recall(self.plan["start"], at_least=self._checkpoints.load(step).notes["journal"])

    def restore(self) -> Checkpoint | None:
        """The checkpoint to go on from, as the plan says; None in a new run. From now on the step is its step."""
        if self.plan["start"] is None:
            return None
        kept = self._checkpoints.load(self.plan["start"])
        self._checkpoints.keep({step for step in self._checkpoints.steps() if step <= kept.step})
        self.step = kept.step
        return kept

    def leave(self, parameters: dict[str, torch.Tensor]) -> None:
        """This role's own part of the model: parameters.npz in its own folder."""
        packed = io.BytesIO()
        np.savez(packed, **{name: value.detach().numpy() for name, value in parameters.items()})
        write(self.folder / "parameters.npz", packed.getvalue())

    # the schedule

    @property
    def n_steps(self) -> int:
        """Batches of an epoch."""
        return -(-self.plan["train_rows"] // self.plan["batch"])

    def sizes(self, n_rows: int) -> list[int]:
        """The records of each batch when n_rows are taken in order."""
        batch = self.plan["batch"]
        return [min(batch, n_rows - start) for start in range(0, n_rows, batch)]

    def expect(self, n_test: int) -> None:
        """From now on messages of steps that this run does not have are refused at the door; n_test: rows to test on."""
        self.endpoint.turn(0, self.plan["epochs"] * self.n_steps + 1 + len(self.sizes(n_test)))

    def agreed(self, step: int) -> bool:
        """Whether every role writes a checkpoint after this step: every so many, and at the end of each epoch."""
        return step % self.plan["every"] == 0 or step % self.n_steps == 0

    def epochs(self, reached: Callable[[], bool] = lambda: False) -> Iterator[int]:
        """Each epoch that the coordinator lets begin (or go on after a resumption), from 0; ends when it says test.

        reached: asked at the end of every epoch: whether the label holder's rule to stop holds.
        """
        while True:
            self.tell("ready", step=self.step, reached=bool(reached()))
            if self.word("go", "test")["kind"] == "test":
                return
            yield self.step // self.n_steps

    def steps(self) -> Iterator[int]:
        """The batches of an epoch that are left, from 0; the step of each is the present step while it runs."""
        for batch in range(self.step % self.n_steps, self.n_steps):
            self.step += 1
            yield batch

    # the whole run

    def play(self, work: Callable[[Part], None], *, columns: int | None = None) -> int:
        """Hello, the work, goodbye.  Returns the exit code: 0 done, 1 stopped, 2 bad input; says why on stderr."""
        torch.set_num_threads(self.config.training.threads)
        code, why, about = 1, None, None
        beat = threading.Thread(target=self._beat, name="signs of life", daemon=True)
        for notice in notices(self.config):
            self._say(notice)
        self.endpoint = self._open()
        try:
            with self.endpoint:
                try:
                    warm_up(self.config, self.role)
                    addresses = self.config.addresses
                    self._say(f"{named(self.role)} listens at {addresses[self.role]} and waits for the coordinator at "
                              f"{addresses[COORDINATOR]}")
                    self._hello(columns)
                    beat.start()
                    self.plan = plan_checked(self.word("plan"), self.config, self.role, columns=columns, resume=self.resume,
                                             saved=self._good)
                    self._recall()
                    self._journal.begin(SET_UP)
                    self._say("all roles are here: the training begins")
                    work(self)
                    self.flush()
                    self._write_lines()
                    self.tell("done")
                    self.word("end")
                    code = 0
                    self._say(f"done: this role's part is in {self.folder}{self._measured()}")
                except Stopped as stopped:
                    self._say(str(stopped))
                except RowsDiffer as error:
                    code, why, about = 2, "rows", error.role
                    self._say(str(error))
                except Malformed as error:
                    why, about = "malformed", error.role
                    self._say(str(error))
                except (Silent, Rejected, OutOfTurn) as error:
                    if error.role == COORDINATOR and self.plan:
                        self._say(self._sentence or self._without_coordinator())
                    else:
                        why, about = UNSAID[type(error)], error.role
                        self._say(str(error))
                except SentBefore as error:
                    why = "repeated"
                    self._say(str(error))
                except OSError as error:
                    why = "disk" if error.errno in DISK else "error"
                    self._say(f"{self.folder}: {error.strerror or error}" if why == "disk" else traceback.format_exc())
                except Changed as error:
                    code, why = 2, "changed"
                    self._say(str(error))
                except Damaged as error:
                    code, why = 2, "damaged"
                    self._say(str(error))
                except OddPlan as error:
                    why = "plan"
                    self._say(str(error))
                except ValueError as error:
                    why = "values"
                    self._say(str(error))
                except KeyboardInterrupt:
                    code, why = 130, "interrupted"
                except Exception:
                    why = "error"
                    self._say(traceback.format_exc())
                if why is not None:
                    self._give_up(why, about)
                if code:
                    self.endpoint.stop("this role has stopped")
        finally:
            self._over.set()
            self._left.set()
            if beat.is_alive():
                beat.join()
            self._journal.close()
            self._try(self._write_lines)
            self._taken.close()
        return code

    def _open(self) -> Endpoint:
        network = self.config.network
        endpoint = Endpoint(self.role, self.config.addresses, run=self.config.run, certificates=network.certificates,
                            bandwidth=network.bandwidth, latency=network.latency, timeout=network.timeout,
                            accepts=accepts(self.config, self.role), largest=largest(self.config, self.role),
                            record=record_file(self.config, self.role), log=self._log)
        endpoint.on_call(ORDER, self.hear)
        return endpoint

    def _hello(self, columns: int | None) -> None:
        good, damaged = self._checkpoints.usable() if self.resume else ([], [])
        for step in damaged:
            self._say(f"the checkpoint of step {step} is damaged and is not used")
        self._good = good
        self._report("hello", config=self.config.digest, columns=columns, resume=self.resume, saved=good, damaged=damaged,
                     timeout=self.config.network.start_timeout)

    def _measured(self) -> str:
        """What the label holder measured, in words; nothing at the others."""
        path = self.folder / "metrics.json"
        return f"; test AUC {json.loads(path.read_text('utf-8'))['test_auc']:.3f}" if path.exists() else ""

    def _give_up(self, why: str, about: str | None) -> None:
        """Tell the coordinator that this role stops, and wait a little for its sentence to all."""
        try:
            self._report("stopped", why=why, role=about, timeout=1.0)
            if self._over.wait(1.5):
                self._say(self._sentence)
        except LinkError:
            pass                                                      # the coordinator may be what is gone

    def _log(self, line: dict) -> None:
        self._lines.append(json.dumps(line))

    def _write_lines(self) -> None:
        lines, self._lines = self._lines, []
        if lines:
            with open(private(self.folder / "messages.jsonl"), "a", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")

    def _say(self, sentence: str) -> None:
        self._try(lambda: print(f"ppkit: {sentence}", file=sys.stderr, flush=True))

    @staticmethod
    def _try(action: Callable[[], None]) -> None:
        try:
            action()
        except OSError:
            pass
