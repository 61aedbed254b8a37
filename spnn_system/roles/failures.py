"""How a role's run can end: for each kind of error the exit code, what the coordinator is told, and
what the person reads.
"""

import errno
import traceback
from dataclasses import dataclass
from pathlib import Path

from ppkit.spnn.messages import Malformed
from spnn_system.run.checkpoints import Changed, Damaged
from spnn_system.run.journal import SentBefore
from spnn_system.run.plan import OddPlan
from spnn_system.transport.endpoint import Interrupted, OutOfTurn, Silent, Stopped
from spnn_system.transport.links import Rejected

STOPPED, BAD_INPUT, INTERRUPTED = 1, 2, 130  # exit codes
DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT)


class RowsDiffer(Malformed):
    """Two holders do not have the same rows.  role: the other one."""


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
_KINDS = (
    (Stopped, STOPPED, None),
    (RowsDiffer, BAD_INPUT, "rows"),
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


def failure_of(error: BaseException, folder: Path) -> Failure:
    """What an error means for the run.  folder: the role's own, named where its disk is what
    failed.
    """
    if isinstance(error, OSError) and error.errno in DISK:
        return Failure(STOPPED, "disk", None, f"{folder}: {error.strerror or error}")
    for kind, code, why in _KINDS:
        if isinstance(error, kind):
            return Failure(
                code, why, error.role if isinstance(error, _ABOUT_ANOTHER) else None, str(error)
            )
    return Failure(STOPPED, "error", None, "".join(traceback.format_exception(error)))
