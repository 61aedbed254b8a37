"""What only the coordinator can tell the roles of a run before it begins; and where a role is."""

from collections.abc import Sequence
from dataclasses import dataclass

from spnn_system.config import Config
from spnn_system.run.reports import named


class OddPlan(ValueError):
    """The coordinator's plan does not fit what this role knows itself."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a role's own config does not say.

    columns: of all holders, in the config's order: the widths of the parts of the first layer.
    start: the step to go on from; None: a new run.
    """

    columns: tuple[int, ...]
    start: int | None


def checked(
    said: dict,
    config: Config,
    role: str,
    *,
    columns: int | None,
    resume: bool,
    saved: Sequence[int],
) -> Plan:
    """The plan that the coordinator's words tell, if they fit what the role knows itself.

    columns: the role's own features, None where it has none.  saved: the steps that it has a
    checkpoint of and said so.
    OddPlan otherwise. Everything else a role takes from its own config, so the coordinator can
    change nothing of it; and it cannot make a role start again under masks that were used.
    """
    if set(said) != {"kind", "columns", "start"}:
        raise OddPlan(f"a plan has kind, columns and start, this one {', '.join(sorted(said))}")
    theirs, start = said["columns"], said["start"]
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
    return Plan(tuple(theirs), start)


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
