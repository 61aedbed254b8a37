"""What the coordinator asks of the roles: each one's part of the network and of the schedule,
computed once, and checked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from spnn_system.config import Config
from spnn_system.run.reports import named
from spnn_system.settings import Model, Training


class OddPlan(ValueError):
    """The coordinator's plan is not what this role's own config says."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A run as all roles go through it.

    model, training: as every role's own config has them.  columns: of all holders, in the config's
    order.
    start: the step to go on from; None: a new run.
    """

    model: Model
    training: Training
    columns: tuple[int, ...]
    start: int | None

    @classmethod
    def of(cls, config: Config, *, columns: Sequence[int], start: int | None) -> Self:
        """The plan of a config, for so many columns a holder."""
        return cls(config.model, config.training, tuple(columns), start)

    @property
    def width(self) -> int:
        """Of h1."""
        return self.model.hidden[0]

    @property
    def last_step(self) -> int:
        """Of the training."""
        return self.training.epochs * self.training.steps_per_epoch

    def sizes(self, n_rows: int) -> list[int]:
        """The records of each batch when n_rows are taken in order."""
        batch = self.training.batch
        return [min(batch, n_rows - start) for start in range(0, n_rows, batch)]

    def saves_after(self, step: int) -> bool:
        """Whether every role writes a checkpoint after this step: every so many, and at the end of
        each epoch.
        """
        return (
            step % self.training.checkpoint_every == 0 or step % self.training.steps_per_epoch == 0
        )

    def words(self, config: Config, role: str) -> dict:
        """What the coordinator says of it to a role: its part of the network and of the schedule,
        and no more.

        Everyone: the step to go on from, steps, batches, the widths of the first layer, of all
        holders' features too. All but the dealer: optimiser and learning rate. The server: the
        hidden layers. The label holder: the width that comes to it. A role's own file says the
        rest.
        """
        model, training = self.model, self.training
        said = {
            "kind": "plan",
            "start": self.start,
            "train_rows": training.train_rows,
            "batch": training.batch,
            "epochs": training.epochs,
            "every": training.checkpoint_every,
            "width": self.width,
            "columns": list(self.columns),
        }
        if role != "dealer":
            said |= {"lr": training.lr, "optimiser": training.optimiser}
        if role == "server":
            said |= {"hidden": list(model.hidden), "activation": list(model.activation)}
        if role == config.label_holder:
            said |= {"last_width": model.hidden[-1], "stop_below": training.stop_below}
        return said


def checked(
    said: dict,
    config: Config,
    role: str,
    *,
    columns: int | None,
    resume: bool,
    saved: Sequence[int],
) -> Plan:
    """The plan that the coordinator's words tell, if they say what the role's own config says too.

    columns: the role's own features, None where it has none.  saved: the steps that it has a
    checkpoint of and said so.
    OddPlan otherwise. Only the coordinator can say how many features the other holders have, and
    which of the saved steps a resumed run goes on from; it cannot make a role start again under
    masks that were used.
    """
    theirs, start = said.get("columns"), said.get("start")
    if not (
        isinstance(theirs, list)
        and len(theirs) == len(config.names)
        and all(type(n) is int and n >= 1 for n in theirs)
    ):
        raise OddPlan(f"the plan has no number of features for each of {len(config.names)} holders")
    if columns is not None and (mine := theirs[config.names.index(role)]) != columns:
        raise OddPlan(f"the plan has {mine} features for holder {role}, which has {columns}")
    if resume and (type(start) is not int or start not in saved):
        raise OddPlan(
            f"the plan goes on from step {start}, of which {named(role)} has no checkpoint"
        )
    if not resume and start is not None:
        raise OddPlan(
            f"the plan goes on from step {start}, and {named(role)} was started without --resume"
        )
    plan = Plan.of(config, columns=theirs, start=start)
    for key, value in plan.words(config, role).items():
        if type(said.get(key)) is not type(value) or said[key] != value:
            raise OddPlan(
                f"the plan has {key} = {said.get(key)}, the config of {named(role)} {value}"
            )
    return plan


@dataclass(slots=True)
class Progress:
    """Where a role is: its training step, 0 while it sets up, beyond the last one while it tests.

    last: the last step of the training, 0 until the plan is known.
    """

    step: int = 0
    last: int = 0

    @property
    def trained(self) -> int:
        """The step, as far as the coordinator counts."""
        return min(self.step, self.last)
