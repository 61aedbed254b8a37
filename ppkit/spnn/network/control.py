"""What the coordinator and the other roles say to each other, beside the messages of the protocol; and nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ppkit.spnn.network.config import NOT_HOLDERS, Config

REPORT, ORDER = "report", "order"                        # the calls to the coordinator, and from it
START_TIMEOUT = 60.0                                     # seconds that a role may take to start, read its rows and say hello
HEARD = {                                                # what a role may say, and which keys it may use beside kind and session
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
    "disk": "could not write to its disk",
    "changed": "has another config or other data than when the run stopped",
    "values": "met a value that it must not send",
    "repeated": "was about to send another message than before the resumption",
    "interrupted": "was interrupted",
    "error": "failed",
}
_HEX = re.compile("[0-9a-f]{16,64}")


def record_file(config: Config, role: str) -> Path | None:
    """Where a role keeps all that it received, if the config wants that: to be read with `frames.recorded`."""
    return config.folder_of(role) / "received.frames" if config.network.record else None


def named(role: str) -> str:
    """A role in a sentence."""
    return f"the {role}" if role in NOT_HOLDERS else f"holder {role}"


def checked(said: dict, roles: Sequence[str]) -> dict:
    """What a role said, if it is no more than HEARD lets it say: whole numbers, digests, a reason of WHY, the name of a role.

    ValueError otherwise: the coordinator refuses to be told anything else.
    """
    kind = said.get("kind")
    if kind not in HEARD:
        raise ValueError(f"kind must be one of {', '.join(HEARD)}")
    for key, value in said.items():
        if key not in HEARD[kind] | {"kind", "session"}:
            raise ValueError(f"{kind} has no such key: it has {', '.join(sorted(HEARD[kind]))}")
        if key in ("config", "session"):
            right = isinstance(value, str) and _HEX.fullmatch(value) is not None
        elif key in ("saved", "damaged"):
            right = isinstance(value, list) and all(type(step) is int for step in value)
        elif key in ("resume", "reached"):
            right = type(value) is bool
        elif key == "why":
            right = value in WHY
        elif key == "role":
            right = value is None or value in roles
        else:
            right = key == "kind" or type(value) is int or (key == "columns" and value is None)
        if not right:
            raise ValueError(f"{kind} has something for {key} that the coordinator does not want to know")
    return said
