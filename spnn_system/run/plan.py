"""The plan: what only the coordinator can tell a role, and what a role takes of it."""

from collections.abc import Sequence
from dataclasses import dataclass

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


def plan_of(said: dict, role: str, *, saved: Sequence[int] | None) -> Plan:
    """The plan that the coordinator's words tell, if the role can go on from where they say.

    saved: the steps that it has a checkpoint of and said so, None where it was started anew.
    OddPlan otherwise: the coordinator cannot make a role start again under masks that were used.
    Everything else but the others' columns a role takes from its own config.
    """
    start = said["start"]
    if start not in ([None] if saved is None else saved):
        why = "was started without --resume" if saved is None else "has no checkpoint of it"
        raise OddPlan(f"the plan goes on from step {start}, and {named(role)} {why}")
    return Plan(tuple(said["columns"]), start)
