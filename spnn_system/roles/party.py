"""Server, dealer or holder: one role's process from its hello to its goodbye, and what its work is
done with.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import torch

from ppkit.spnn.messages import Malformed, Program, Send, tensor_from
from ppkit.spnn.randomness import Stream
from ppkit.spnn.sides import Side
from spnn_system.config import Config
from spnn_system.roles.control_channel import COORDINATOR, ControlChannel
from spnn_system.roles.failures import STOPPED, Failure, failure_of
from spnn_system.roles.protocol_side import admission, side_of, warm_up
from spnn_system.roles.saves import Saves
from spnn_system.run.checkpoints import Checkpoints, root_secret
from spnn_system.run.journal import Journal
from spnn_system.run.plan import Plan, Progress, checked
from spnn_system.run.reports import ORDER, measured, named, notice, say
from spnn_system.run.role_folder import METRICS, RoleFolder
from spnn_system.transport.endpoint import LinkError, Stopped


class Party:
    """One role's process: it takes its folder, says hello, gets its plan, works, says how it ended;
    and what the work is done with: messages, saves, epochs and steps.

    root: the Stream that all its secrets come from; with secrets = "teaching" that of the config's
    seed, NOT SECRET.
    progress: the step it is at, which all it sends carries.
    Once all are here: plan, side (its side of the protocol) and saves.
    """

    plan: Plan
    side: Side
    saves: Saves

    def __init__(self, config: Config, role: str, *, resume: bool, data_digest: str = ""):
        self.config, self.role, self.resume, self.progress = config, role, resume, Progress()
        self.folder = RoleFolder(config, role)  # before anything of an earlier run is removed
        path = self.folder.path
        self.checkpoints = Checkpoints(
            path,
            about={"run": config.run, "role": role, "config": config.digest, "data": data_digest},
        )
        self.journal = Journal(path)
        if not resume:
            self.folder.clear()
        self.root = Stream(root_secret(path, resume=resume))
        if config.protocol.secrets == "teaching":
            root = Stream.seeded_for_teaching(config.training.seed)
            self.root = (root.derive("prediction") if config.trained else root).derive(role)
        self.control = ControlChannel(config, role, self.progress)

    def play(self, work: Callable[[Party], None], *, columns: int | None = None) -> int:
        """Hello, the work, goodbye.  Returns the exit code: 0 done, 1 stopped, 2 bad input; says
        why on stderr.

        columns: the role's own features, None where it has none.
        """
        torch.set_num_threads(self.config.training.threads)
        say(notice(self.config))
        accepts = admission(self.config, self.role)
        endpoint = self.control.endpoint = self.folder.endpoint(accepts)
        endpoint.on_call(ORDER, self.control.hear)
        code = 0
        try:
            with endpoint:
                try:
                    self._begin(columns)
                    work(self)
                    self._finish()
                except (Exception, KeyboardInterrupt) as error:
                    failure = self._without_coordinator(error) or failure_of(
                        error, self.folder.path
                    )
                    code = failure.code
                    say(failure.sentence)
                    if failure.why is not None:
                        self.control.give_up(failure.why, failure.role)
                    endpoint.stop("this role has stopped")
        finally:
            self.control.end()
            self.journal.close()
            with suppress(OSError):  # the disk is full
                self.folder.log.write()
            self.folder.close()
        return code

    def epochs(self, reached: Callable[[], bool] = lambda: False) -> Iterator[int]:
        """Each epoch that the coordinator lets begin (or go on after a resumption), from 0; ends
        when it says test.

        reached: asked at the end of every epoch: whether the label holder's rule to stop holds.
        """
        while True:
            self.control.tell("ready", step=self.progress.step, reached=reached())
            if self.control.order("go", "test")["kind"] == "test":
                return
            yield self.progress.step // self.config.training.steps_per_epoch

    def steps(self) -> Iterator[int]:
        """The batches of an epoch that were not gone through, from 0; the step of each is the
        present one while it runs.
        """
        n_steps = self.config.training.steps_per_epoch
        for batch in range(self.progress.step % n_steps, n_steps):
            self.progress.step += 1
            yield batch

    def send(self, receiver: str, name: str, payload: Any, *, phase: str = "online") -> None:
        """Send at the present step, after the journal has it.  SentBefore, OSError: then nothing
        was sent.
        """
        step = self.progress.step
        self.journal.sending(step, receiver, name, payload)
        self.control.endpoint.send(receiver, name, payload, step=step, phase=phase)

    def receive(self, sender: str, name: str) -> Any:
        """The next message of a sender, which must be this one of the present step.

        Waits for as long as the coordinator holds the sender to be alive: a long computation is no
        fault.
        """
        return self.control.endpoint.receive(
            sender, name, step=self.progress.step, timeout=math.inf
        )

    def receive_tensor(self, sender: str, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        """The same, if it is a float32 tensor of this shape, all finite.  Malformed, which names
        the sender, if not.
        """
        return tensor_from(sender, name, self.receive(sender, name), shape, torch.float32)

    def receive_counts(self, sender: str, name: str, *keys: str) -> dict:
        """The same, if it is a dict with a whole number >= 0 under each of these keys.  Malformed
        if not.
        """
        came = self.receive(sender, name)
        if not (
            isinstance(came, dict)
            and all(type(came.get(key)) is int and came[key] >= 0 for key in keys)
        ):
            raise Malformed(
                f"{name!r} of {sender} must have {' and '.join(keys)}, whole numbers", sender
            )
        return came

    def run(self, program: Program) -> Any:
        """A protocol's program on real messages; returns what it returns."""
        payload = None
        while True:
            try:
                asked = program.send(payload)
            except StopIteration as end:
                return end.value
            payload = None
            if isinstance(asked, Send):
                self.send(asked.receiver, asked.name, asked.payload, phase=asked.phase)
            else:
                payload = self.receive(asked.sender, asked.name)

    def _begin(self, columns: int | None) -> None:
        """Say hello, and wait until all are here and the plan is known."""
        config, role, control = self.config, self.role, self.control
        warm_up(config, role)
        say(
            f"{named(role)} listens at {config.addresses[role]} and waits for the coordinator at "
            f"{config.addresses[COORDINATOR]}"
        )
        usable, damaged = self.checkpoints.usable() if self.resume else ([], [])
        for step in damaged:
            say(f"the checkpoint of step {step} is damaged and is not used")
        control.tell(
            "hello",
            config=config.digest,
            columns=columns,
            resume=self.resume,
            saved=usable,
            damaged=damaged,
            timeout=config.network.start_timeout,
        )
        control.begin()
        self.plan = checked(control.order("plan"), role, saved=usable if self.resume else None)
        self.progress.last = config.training.last_step
        self.saves = Saves(self.checkpoints, self.journal, self.folder.log, control, self.progress)
        self.saves.recall(self.plan.start, usable)
        say(f"all roles are here: the {config.kind} begins")
        self.side = side_of(config, role, self.plan.columns, self.root, resume=self.resume)

    def _finish(self) -> None:
        self.control.endpoint.flush()
        self.folder.log.write()
        self.control.tell("done")
        self.control.order("end")
        self.folder.forget_secrets()
        metrics = self.folder.path / METRICS
        found = f"; {measured(json.loads(metrics.read_bytes()))}" if metrics.exists() else ""
        say(f"done: this role's part is in {self.folder.path}{found}")

    def _without_coordinator(self, error: BaseException) -> Failure | None:
        """The end of a run whose coordinator is gone: nobody is there to be told; None for any
        other error.
        """
        is_its = (
            isinstance(error, LinkError)
            and not isinstance(error, Stopped)
            and error.role == COORDINATOR
        )
        if not (is_its and self.progress.last):
            return None
        return Failure(
            STOPPED, None, None, self.control.sentence or self.control.without_coordinator()
        )
