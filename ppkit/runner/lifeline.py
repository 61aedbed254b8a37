"""Child processes that do not outlive whoever started them."""

import ctypes
import signal
import sys

PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def die_with_parent() -> None:
    """Ask Linux to kill this process when the thread that started it ends; a child calls it first, or between fork and exec.

    Elsewhere nothing happens here, and a kernel's own watch on its parent (once a second) has to do.
    """
    if _LIBC is not None:
        _LIBC.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
