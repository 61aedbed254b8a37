"""What the coordinator and the other roles say to each other, beside the messages of the protocol; and nothing else."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock

from spnn_system.config import NOT_HOLDERS, Config

REPORT, ORDER = "report", "order"                        # the calls to the coordinator, and from it
HEARD = {                                                # what a role may say, and which keys it has beside kind and session
    "hello": {"config", "columns", "resume", "saved", "damaged"},
    "alive": {"step"},
    "ready": {"step", "reached"},
    "saved": {"step"},
    "done": set(),
    "stopped": {"why", "role"},
}
WHY = {                                                  # why a role stopped, in the coordinator's words
    "rows": "does not have the same rows in the same order as {role}",
    "unreachable": "could not reach {role} for {timeout} s",
    "refused": "sent something that {role} refused",
    "out of turn": "got a message out of turn from {role}",
    "malformed": "got something malformed from {role}",
    "stuck": "neither sends nor waits for anything: it computes for longer than [network] stuck allows, or hangs",
    "disk": "could not write to its disk",
    "changed": "has another config or other data than when the run stopped",
    "plan": "got a plan that is not as its config says",
    "damaged": "has lost a part of the journal of what it sent",
    "values": "met numbers that it must not send (a smaller lr helps where the training diverges)",
    "repeated": "was about to send another message than before the resumption",
    "interrupted": "was interrupted",
    "error": "failed",
}
MOST_COLUMNS = 10**6
_HEX = re.compile("[0-9a-f]{16,64}")


class OddPlan(ValueError):
    """The coordinator's plan is not what this role's own config says."""


def plan_for(config: Config, role: str, *, start: int | None, columns: Sequence[int]) -> dict:
    """A role's part of the graph and of the schedule, and no more.

    Everyone: the step to go on from (None: a new run), steps, batches, the widths of the first layer, of all holders'
    features too. All but the dealer: optimiser and learning rate. The server: the hidden layers. The label holder: the width
    that comes to it. A role's own file says the rest.
    """
    model, training = config.model, config.training
    plan = {"kind": "plan", "start": start, "train_rows": training.train_rows, "batch": training.batch,
            "epochs": training.epochs, "every": training.checkpoint_every, "width": model.hidden[0], "columns": list(columns)}
    if role != "dealer":
        plan |= {"lr": training.lr, "optimiser": training.optimiser}
    if role == "server":
        plan |= {"hidden": list(model.hidden), "activation": list(model.activation)}
    if role == config.label_holder:
        plan |= {"last_width": model.hidden[-1], "stop_below": training.stop_below}
    return plan


def plan_checked(plan: dict, config: Config, role: str, *, columns: int | None, resume: bool, saved: Sequence[int]) -> dict:
    """The coordinator's plan, if it says what the role's own config says too.

    columns: the role's own features, None where it has none.  saved: the steps that it has a checkpoint of and said so.
    OddPlan otherwise. What is left for the coordinator to say is how many features the other holders have, and which of the
    saved steps a resumed run goes on from; it cannot make a role start again under masks that were used.
    """
    theirs = plan.get("columns")
    if not (isinstance(theirs, list) and len(theirs) == len(config.names) and all(type(n) is int and n >= 1 for n in theirs)):
        raise OddPlan(f"the plan has no number of features for each of {len(config.names)} holders")
    if columns is not None and theirs[config.names.index(role)] != columns:
        raise OddPlan(f"the plan has {theirs[config.names.index(role)]} features for holder {role}, which has {columns}")
    start = plan.get("start")
    if resume and (type(start) is not int or start not in saved):
        raise OddPlan(f"the plan goes on from step {start}, of which {named(role)} has no checkpoint")
    if not resume and start is not None:
        raise OddPlan(f"the plan goes on from step {start}, and {named(role)} was started without --resume")
    for key, value in (own := plan_for(config, role, start=start, columns=theirs)).items():
        if type(plan.get(key)) is not type(value) or plan[key] != value:
            raise OddPlan(f"the plan has {key} = {plan.get(key)}, the config of {named(role)} {value}")
    return own


class TakenFolder:
    """A role's folder made its own: nobody else may read it (0700), and no second process of the role may use it.

    Until `close`, or until the process ends, however that is.  ValueError if another process of the role has it: then nothing
    in there was touched.
    """

    def __init__(self, config: Config, role: str):
        folder = config.folder_of(role)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
        self._lock = FileLock(private(folder / "lock"), blocking=False, thread_local=False)
        try:
            self._lock.acquire()
        except OSError:
            raise ValueError(f"{named(role)} of this run is running already: another process has {folder.name}/ in "
                             f"{folder.parent}") from None

    def close(self) -> None:
        self._lock.release()


def private(path: Path) -> Path:
    """The same path, where a file now is that only its owner may read (0600); its content stays."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    path.chmod(0o600)
    return path


def record_file(config: Config, role: str) -> Path | None:
    """Where a role keeps all that it received, if the config wants that: to be read with `frames.recorded`."""
    return private(config.folder_of(role) / "received.frames") if config.network.record else None


def notices(config: Config) -> list[str]:
    """What every role says of its secrets when it starts, where there is something to say."""
    said = []
    if config.protocol.secrets == "teaching":
        said.append(f"secrets: {config.protocol.origin}")
    elif config.network.record:
        said.append("record = true: received.frames keeps all that came here, seeds of masks too: remove it after the lesson")
    return said


def named(role: str) -> str:
    """A role in a sentence."""
    return f"the {role}" if role in NOT_HOLDERS else f"holder {role}"


def checked(said: dict, roles: Sequence[str], *, steps: int) -> dict:
    """What a role said, if it is what HEARD lets it say, no more and no less: steps, digests, a reason of WHY, a role's name.

    steps: of the whole training; nobody is beyond.  ValueError otherwise: the coordinator refuses to be told anything else.
    """
    kind = said.get("kind")
    if type(kind) is not str or kind not in HEARD:
        raise ValueError(f"kind must be one of {', '.join(HEARD)}")
    for key, value in said.items():
        if key not in HEARD[kind] | {"kind", "session"}:
            raise ValueError(f"{kind} has no such key: it has {', '.join(sorted(HEARD[kind]))}")
        if key in ("config", "session"):
            right = isinstance(value, str) and _HEX.fullmatch(value) is not None
        elif key in ("saved", "damaged"):
            right = isinstance(value, list) and len(value) <= steps + 1 and all(_is_step(step, steps) for step in value)
        elif key in ("resume", "reached"):
            right = type(value) is bool
        elif key == "why":
            right = type(value) is str and value in WHY
        elif key == "role":
            right = value is None or value in roles
        else:
            right = (key == "kind" or key == "step" and _is_step(value, steps)
                     or key == "columns" and (value is None or type(value) is int and 1 <= value <= MOST_COLUMNS))
        if not right:
            raise ValueError(f"{kind} has something for {key} that the coordinator does not want to know")
    if missing := sorted((HEARD[kind] | {"session"}) - set(said)):
        raise ValueError(f"{kind} must have {', '.join(missing)} too")
    return said


def _is_step(value: object, steps: int) -> bool:
    return type(value) is int and 0 <= value <= steps
