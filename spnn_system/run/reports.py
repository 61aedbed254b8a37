"""What a role says: to the coordinator what it may report, and nothing else; to the person who
started it sentences on stderr.
"""

import re
import sys
from collections.abc import Sequence
from contextlib import suppress

from spnn_system.config import NOT_HOLDERS

REPORT, ORDER = "report", "order"  # the calls to the coordinator, and from it
# what a role may say, and which keys it has beside kind and session
HEARD = {
    "hello": {"config", "columns", "resume", "saved"},
    "alive": {"step"},
    "ready": {"step"},
    "saved": {"step"},
    "done": set(),
    "stopped": {"why", "role"},
}
# why a role stopped, in the coordinator's words
WHY_STOPPED = {
    "rows": "does not have the same rows in the same order as {role}",
    "unreachable": "could not reach {role} for {timeout} s",
    "refused": "sent something that {role} refused",
    "out of turn": "got a message out of turn from {role}",
    "malformed": "got something malformed from {role}",
    "disk": "could not write to its disk",
    "changed": "has another config or other data than when the run stopped",
    "plan": "got a plan that is not as its config says",
    "damaged": "has lost a part of the journal of what it sent",
    "values": "met numbers that it must not send: the training diverges, so take a smaller lr, and "
    "standardise the features that each holder's own log names",
    "features": "has features that are far too large to send: it must standardise them, and a "
    "smaller lr does not help",
    "repeated": "was about to send another message than before the resumption",
    "interrupted": "was interrupted",
    "error": "failed",
}
# what "values" means before anything was learnt: the weights are as small as they were drawn
VALUES_AT_START = (
    "met numbers that it must not send before anything was learnt: features of a holder are far "
    "too large, and a smaller lr does not help; each holder's own log names its columns"
)
MOST_COLUMNS = 10**6
_HEX = re.compile("[0-9a-f]{16,64}")


def named(role: str) -> str:
    """A role in a sentence."""
    return f"the {role}" if role in NOT_HOLDERS else f"holder {role}"


def checked(said: dict, roles: Sequence[str], *, steps: int) -> dict:
    """What a role said, if it is what HEARD lets it say, no more and no less: steps, digests, a
    reason of WHY_STOPPED, a role's name.

    steps: of the whole training; nobody is beyond.  ValueError otherwise: the coordinator refuses
    to be told anything else.
    """
    kind = str(said.get("kind"))
    if kind not in HEARD:
        raise ValueError(f"kind must be one of {', '.join(HEARD)}")
    if set(said) != HEARD[kind] | {"kind", "session"}:
        raise ValueError(f"{kind} must have {', '.join(sorted(HEARD[kind]))} and session alone")
    is_hex = lambda value: isinstance(value, str) and _HEX.fullmatch(value)
    is_step = lambda value: type(value) is int and 0 <= value <= steps
    right = {
        "kind": lambda value: True,
        "session": is_hex,
        "config": is_hex,
        "saved": lambda value: (
            type(value) is list and len(value) <= steps + 1 and all(map(is_step, value))
        ),
        "resume": lambda value: type(value) is bool,
        "why": lambda value: value in [*WHY_STOPPED],
        "role": lambda value: value in [None, *roles],
        "step": is_step,
        "columns": lambda value: value is None or type(value) is int and 1 <= value <= MOST_COLUMNS,
    }
    for key, value in said.items():
        if not right[key](value):
            raise ValueError(
                f"{kind} has something for {key} that the coordinator does not want to know"
            )
    return said


def say(sentence: str) -> None:
    """One line, "ppkit: ..."; nothing for no sentence, or where nobody listens any more."""
    if sentence:
        with suppress(OSError):
            print(f"ppkit: {sentence}", file=sys.stderr, flush=True)


def measured(metrics: dict) -> str:
    """What the label holder measured on the test rows, in words."""
    if "test_auc" in metrics:
        return f"test AUC {metrics['test_auc']:.3f}"
    return f"test accuracy {metrics['test_accuracy']:.3f}"
