"""What server, dealer and holders have in common: their messages with a journal, their checkpoints, their schedule, one whole run."""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from ppkit.spnn.holders import Malformed, tensor_from
from spnn_system.run.checkpoints import (SECRETS, SET_UP, Checkpoint, Checkpoints, Journal,
                                            root_secret, write)
from spnn_system.config import Config
from spnn_system.run.control import ORDER, TakenFolder, named, notices, plan_checked, record_file
from spnn_system.roles.endings import STOPPED, Ending, ending_of
from spnn_system.transport.endpoint import Endpoint, LinkError, Stopped
from spnn_system.roles.liaison import COORDINATOR, Liaison
from spnn_system.run.lines import MessageLog
from spnn_system.roles.sides import accepts, largest, warm_up
from ppkit.spnn.programs import Program, Send
from ppkit.spnn.randomness import Stream

LEFT = ("messages.jsonl", "metrics.json", "parameters.npz", "received.frames", *SECRETS)
KEPT = 3                                                 # checkpoints of a role that are kept


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
        self._log = MessageLog(self.folder / "messages.jsonl")
        self.liaison = Liaison(config, role, at_step=lambda: self.step, say=self._say,
                               last_words=lambda: self._try(self._log.close))
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

    # messages between the parties

    def send(self, receiver: str, name: str, payload: Any, *, phase: str = "online") -> None:
        """Send at the present step, after the journal has it.  SentBefore, OSError: then nothing was sent."""
        self._journal.sending(self.step, receiver, name, payload)
        self.endpoint.send(receiver, name, payload, step=self.step, phase=phase)
        self.liaison.worked()

    def receive(self, sender: str, name: str) -> Any:
        """The next message of a sender, which must be this one of the present step.

        Waits for as long as the coordinator holds the sender to be alive: a long computation is no fault.
        """
        with self.liaison.waiting():
            return self.endpoint.receive(sender, name, step=self.step, timeout=math.inf)

    def flush(self) -> None:
        """Wait until all that was sent has come to its receivers."""
        with self.liaison.waiting():
            self.endpoint.flush()

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
        self._log.write()
        self.liaison.tell("saved", step=self.step)
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
        self.endpoint.turn(0, self.liaison.last_step + 1 + len(self.sizes(n_test)))

    def agreed(self, step: int) -> bool:
        """Whether every role writes a checkpoint after this step: every so many, and at the end of each epoch."""
        return step % self.plan["every"] == 0 or step % self.n_steps == 0

    def epochs(self, reached: Callable[[], bool] = lambda: False) -> Iterator[int]:
        """Each epoch that the coordinator lets begin (or go on after a resumption), from 0; ends when it says test.

        reached: asked at the end of every epoch: whether the label holder's rule to stop holds.
        """
        while True:
            self.liaison.tell("ready", step=self.step, reached=bool(reached()))
            if self.liaison.order("go", "test")["kind"] == "test":
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
        for notice in notices(self.config):
            self._say(notice)
        self.endpoint = self.liaison.endpoint = self._open()
        code = 0
        try:
            with self.endpoint:
                try:
                    self._play(work, columns)
                except (Exception, KeyboardInterrupt) as error:
                    ending = self._without_coordinator(error) or ending_of(error, self.folder)
                    code = ending.code
                    self._say(ending.sentence)
                    if ending.why is not None:
                        self.liaison.give_up(ending.why, ending.role)
                    self.endpoint.stop("this role has stopped")
        finally:
            self.liaison.end()
            self._journal.close()
            self._try(self._log.close)
            self._taken.close()
        return code

    def _play(self, work: Callable[[Part], None], columns: int | None) -> None:
        warm_up(self.config, self.role)
        addresses = self.config.addresses
        self._say(f"{named(self.role)} listens at {addresses[self.role]} and waits for the coordinator at {addresses[COORDINATOR]}")
        self._hello(columns)
        self.liaison.begin()
        self.plan = plan_checked(self.liaison.order("plan"), self.config, self.role, columns=columns, resume=self.resume,
                                 saved=self._good)
        self.liaison.last_step = self.plan["epochs"] * self.n_steps
        self._recall()
        self._journal.begin(SET_UP)
        self._say("all roles are here: the training begins")
        work(self)
        self.flush()
        self._log.write()
        self.liaison.tell("done")
        self.liaison.order("end")
        for name in SECRETS:                             # all are done: nobody goes on from here
            (self.folder / name).unlink(missing_ok=True)
        self._say(f"done: this role's part is in {self.folder}{self._measured()}")

    def _without_coordinator(self, error: BaseException) -> Ending | None:
        """The ending of a run whose coordinator is gone: nobody is left to tell; None for any other error."""
        if not (isinstance(error, LinkError) and not isinstance(error, Stopped) and error.role == COORDINATOR and self.plan):
            return None
        return Ending(STOPPED, None, None, self.liaison.sentence or self.liaison.without_coordinator())

    def _open(self) -> Endpoint:
        network = self.config.network
        endpoint = Endpoint(self.role, self.config.addresses, run=self.config.run, certificates=network.certificates,
                            bandwidth=network.bandwidth, latency=network.latency, timeout=network.timeout,
                            accepts=accepts(self.config, self.role), largest=largest(self.config, self.role),
                            record=record_file(self.config, self.role), log=self._log.add)
        endpoint.on_call(ORDER, self.liaison.hear)
        return endpoint

    def _hello(self, columns: int | None) -> None:
        good, damaged = self._checkpoints.usable() if self.resume else ([], [])
        for step in damaged:
            self._say(f"the checkpoint of step {step} is damaged and is not used")
        self._good = good
        self.liaison.tell("hello", config=self.config.digest, columns=columns, resume=self.resume, saved=good, damaged=damaged,
                          timeout=self.config.network.start_timeout)

    def _measured(self) -> str:
        """What the label holder measured, in words; nothing at the others."""
        path = self.folder / "metrics.json"
        return f"; test AUC {json.loads(path.read_text('utf-8'))['test_auc']:.3f}" if path.exists() else ""

    def _say(self, sentence: str) -> None:
        if sentence:
            self._try(lambda: print(f"ppkit: {sentence}", file=sys.stderr, flush=True))

    @staticmethod
    def _try(action: Callable[[], None]) -> None:
        try:
            action()
        except OSError:
            pass
