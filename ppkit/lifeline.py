"""Child processes that do not outlive whoever started them, and a parent that ends in good order."""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import weakref
from contextlib import contextmanager

PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def die_with_parent(parent: int | None = None) -> None:
    """Ask Linux to kill this process when the thread that started it ends; a child calls it first, or between fork and exec.

    parent: the process that started this one, where a child that calls late is to see that it has ended already: SystemExit.
    Elsewhere than on Linux nothing more happens here, and a child's own watch on its parent has to do.
    """
    if _LIBC is not None:
        _LIBC.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if parent is not None and os.getppid() != parent:
        raise SystemExit(f"the process {parent} that started this one has ended")


class VanishingFolder(tempfile.TemporaryDirectory):
    """A temporary folder (0700) that goes when this process ends, also where SIGKILL ends it.

    A shell waits until the writing end of a pipe is closed, which only this process has, and then
    removes the folder. The shell is no child of this process: who ends a family of processes does
    not end it. Only a machine that stops leaves the folder.
    """

    _WATCH = ('exec 3<&0; (trap "" HUP INT TERM; cat <&3; for again in 1 2 3 4 5 6 7 8 9; do '
              'rm -rf -- "$1" && break; sleep 1; done) >/dev/null 2>&1 &')

    def __init__(self, prefix: str):
        super().__init__(prefix=prefix)
        reading, writing = os.pipe()                     # no program that starts inherits them
        weakref.finalize(self, os.close, writing).atexit = False
        with open(reading, "rb") as stdin:
            subprocess.run(["sh", "-c", self._WATCH, "sh", self.name], stdin=stdin, check=True,
                           start_new_session=True)


@contextmanager
def terminated_like_interrupted():
    """Inside, SIGTERM and SIGHUP do what Ctrl-C does: KeyboardInterrupt, so that children end and finished work is kept."""
    def interrupt(*_):
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
