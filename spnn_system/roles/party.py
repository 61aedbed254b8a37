"""Server, dealer or holder: one role's process from its hello to its goodbye, and what its work is
done with.
"""

import json
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

from ppkit.spnn.messages import Malformed, Program, Send, seed_from, tensor_from
from ppkit.spnn.party import Party as ProtocolParty
from ppkit.spnn.randomness import Stream
from spnn_system.config import Config
from spnn_system.roles.control_channel import COORDINATOR, ControlChannel, Progress
from spnn_system.roles.protocol_side import admission, side_of, warm_up
from spnn_system.roles.saves import Saves
from spnn_system.run.checkpoints import Changed, Checkpoints, Damaged, root_secret
from spnn_system.run.journal import Journal, SentBefore
from spnn_system.run.plan import OddPlan, plan_of
from spnn_system.run.reports import ORDER, measured, named, say
from spnn_system.run.role_folder import METRICS, RoleFolder
from spnn_system.transport.links import Interrupted, OutOfTurn, Rejected, Silent, Stopped

STOPPED, BAD_INPUT, INTERRUPTED = 1, 2, 130  # exit codes
SideT = TypeVar("SideT", bound=ProtocolParty)


class RowsDiffer(Malformed):
    """Two holders do not have the same rows.  role: the other one."""


class FeaturesTooLarge(ValueError):
    """A holder's own features make numbers that the protocol cannot send."""


@dataclass(frozen=True, slots=True)
class Failure:
    """code: the exit code.  why: a word of `reports.WHY_STOPPED`, None where the coordinator is
    told nothing.  role: whom it is about.

    sentence: what this role says on its own stderr, which may hold values; the coordinator never
    gets it.
    """

    code: int
    why: str | None
    role: str | None
    sentence: str


# The first kind that fits: RowsDiffer is a Malformed too, and Damaged and others are ValueErrors.
_KINDS: tuple[tuple[type[BaseException], int, str | None], ...] = (
    (Stopped, STOPPED, None),
    (RowsDiffer, BAD_INPUT, "rows"),
    (FeaturesTooLarge, BAD_INPUT, "features"),
    (Malformed, STOPPED, "malformed"),
    (Silent, STOPPED, "unreachable"),
    (Rejected, STOPPED, "refused"),
    (OutOfTurn, STOPPED, "out of turn"),
    (SentBefore, STOPPED, "repeated"),
    (Changed, BAD_INPUT, "changed"),
    (Damaged, BAD_INPUT, "damaged"),
    (OddPlan, STOPPED, "plan"),
    (ValueError, STOPPED, "values"),
    (Interrupted, INTERRUPTED, "interrupted"),
    (KeyboardInterrupt, INTERRUPTED, "interrupted"),
)
_ABOUT_ANOTHER = (Malformed, Silent, Rejected, OutOfTurn)


class RowOrder:
    """The batches of every epoch.

    key: 32 bytes, or None for rows in the order of the files. Epoch e is then the order in which
    its 64-bit words of Stream(key) sort: every holder finds the same, and who has not the key
    nothing (computational, as the Stream).
    """

    def __init__(self, n_rows: int, batch: int, key: bytes | None = None):
        self._n, self._batch, self._key = n_rows, batch, key

    def epoch(self, number: int) -> list[torch.Tensor]:
        """The batches of one epoch, from 0: int64 row numbers each."""
        if self._key is None:
            return self.in_turn(self._n)
        words = Stream(self._key).derive("epoch", number).words(self._n)
        return list(words.argsort(stable=True).split(self._batch))

    def in_turn(self, n_rows: int) -> list[torch.Tensor]:
        """Batches of consecutive rows."""
        return list(torch.arange(n_rows).split(self._batch))


class Party:
    """One role's process: it takes its folder, says hello, gets its plan, works, says how it ended;
    and what the work is done with: messages, saves, epochs, steps and the order of the rows.

    root: the Stream that all its secrets come from; with secrets = "teaching" that of the config's
    seed, NOT SECRET.
    progress: the step it is at, which all it sends carries.
    Once all are here: plan, side (of the protocol) and saves.
    """

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

    def play(self, work: Callable[["Party"], None], *, columns: int | None = None) -> int:
        """Hello, the work, goodbye.  Returns the exit code: 0 done, 1 stopped, 2 bad input; says
        why on stderr.

        columns: the role's own features, None where it has none.
        """
        torch.set_num_threads(self.config.training.threads)
        say(self.config.notice)
        accepts = admission(self.config, self.role)
        endpoint = self.control.endpoint = self.folder.endpoint(accepts)
        endpoint.on_call(ORDER, self.control.hear)
        folder, log = closing(self.folder), closing(self.folder.log)
        with folder, log, closing(self.journal), closing(self.control), endpoint:
            try:
                self._begin(columns)
                work(self)
                self._finish()
            except (Exception, KeyboardInterrupt) as error:
                failure = self._without_coordinator(error) or failure_of(error, self.folder.path)
                say(failure.sentence)
                if failure.why is not None:
                    self.control.give_up(failure.why, failure.role)
                endpoint.stop("this role has stopped")
                return failure.code
        return 0

    def side_as(self, kind: type[SideT]) -> SideT:
        """This role's side of the protocol, as what it is: a Holder, a Server or a DealerParty."""
        if not isinstance(self.side, kind):
            raise TypeError(f"{self.role}'s side is a {type(self.side).__name__}")
        return self.side

    def epochs(self) -> Iterator[int]:
        """Each epoch that the coordinator lets begin (or go on after a resumption), from 0; ends
        when it says test.
        """
        while True:
            self.control.tell("ready", step=self.progress.step)
            if self.control.order()["kind"] == "test":
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
        return self.control.endpoint.receive(sender, name, step=self.progress.step)

    def receive_tensor(self, sender: str, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        """The same, if it is a float32 tensor of this shape, all finite.  Malformed, which names
        the sender, if not.
        """
        return tensor_from(sender, name, self.receive(sender, name), shape, torch.float32)

    def receive_count(self, sender: str, name: str, key: str) -> dict:
        """The same, if it is a dict with a whole number >= 0 under this key.  Malformed if not."""
        came = self.receive(sender, name)
        count = came.get(key) if isinstance(came, dict) else None
        if type(count) is not int or count < 0:
            raise Malformed(f"{name!r} of {sender} must have {key}, a whole number", sender)
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

    def row_order(self) -> RowOrder:
        """The order in which all go through the rows who are to know it; a secret one hangs on a
        key that the first holder draws and sends.

        Without the key, as the files have the rows: where the config says so, and at a dealer whose
        triples are for no rows of a data set.
        """
        training, key = self.config.training, None
        first, *told = self.config.names
        if self.config.protocol.form == "lean":
            told.append("dealer")
        if training.order == "reshuffled" and self.role == first:
            key = self.root.derive("order of the rows").key
            for receiver in told:
                self.send(receiver, "order", key)
        elif training.order == "reshuffled" and self.role in told:
            key = seed_from(first, self.receive(first, "order")).key
        return RowOrder(training.train_rows, training.batch, key)

    def _begin(self, columns: int | None) -> None:
        """Say hello, and wait until all are here and the plan is known."""
        config, role, control = self.config, self.role, self.control
        warm_up(config, role)
        say(
            f"{named(role)} listens at {config.addresses[role]} and waits for the coordinator at "
            f"{config.addresses[COORDINATOR]}"
        )
        usable = self.checkpoints.usable() if self.resume else []
        control.tell(
            "hello",
            config=config.digest,
            columns=columns,
            resume=self.resume,
            saved=usable,
            timeout=config.network.start_timeout,
        )
        control.begin()
        self.plan = plan_of(control.order(), role, saved=usable if self.resume else None)
        self.progress.last = config.training.last_step
        self.saves = Saves(self.checkpoints, self.journal, self.folder.log, control, self.progress)
        self.saves.recall(usable)
        say(f"all roles are here: the {config.kind} begins")
        self.side = side_of(config, role, self.plan.columns, self.root, resume=self.resume)

    def _finish(self) -> None:
        self.control.endpoint.flush()
        self.folder.log.write()
        self.control.tell("done")
        self.control.order()
        self.folder.forget_secrets()
        metrics = self.folder.path / METRICS
        found = f"; {measured(json.loads(metrics.read_bytes()))}" if metrics.exists() else ""
        say(f"done: this role's part is in {self.folder.path}{found}")

    def _without_coordinator(self, error: BaseException) -> Failure | None:
        """The end of a run whose coordinator is gone: nobody is there to be told; None for any
        other error.
        """
        if not isinstance(error, Silent) or error.role != COORDINATOR or not self.progress.last:
            return None
        sentence = self.control.sentence or self.control.without_coordinator()
        return Failure(STOPPED, None, None, sentence)


def failure_of(error: BaseException, folder: Path) -> Failure:
    """What an error means for the run.  folder: the role's own, named where its disk is what
    failed.
    """
    if isinstance(error, OSError):
        return Failure(STOPPED, "disk", None, f"{folder}: {error.strerror or error}")
    about = error.role if isinstance(error, _ABOUT_ANOTHER) else None
    for kind, code, why in _KINDS:
        if isinstance(error, kind):
            return Failure(code, why, about, str(error))
    return Failure(STOPPED, "error", None, "".join(traceback.format_exception(error)))
