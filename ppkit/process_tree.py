"""Child processes that do not outlive whoever started them, and a parent that ends in good
order."""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Collection, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

MARK = "PPKIT_STARTED_FOR"  # environment variable that says what a process belongs to
ROOM = "PPKIT_ROOM"  # one that only makes the block of variables long (see `take_environment`)
PATIENCE = 2.0  # seconds that a signal is given to work
# environment variables that say how many threads a child computes with
THREAD_COUNTS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def die_with_parent(parent: int | None = None) -> None:
    """Ask Linux to kill this process when the thread that started it ends; a child calls it first,
    or between fork and exec.

    parent: the process that started this one, where a child that calls late is to see that it has
    ended already: SystemExit.
    Elsewhere than on Linux nothing more happens here, and a child's own watch on its parent has to
    do.
    """
    if _LIBC is not None:
        _LIBC.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if parent is not None and os.getppid() != parent:
        raise SystemExit(f"the process {parent} that started this one has ended")


def adopt_orphans() -> None:
    """Ask Linux to make what a descendant leaves behind a child of this process.

    Elsewhere such orphans go to process 1.
    """
    if _LIBC is not None:
        _LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def take_environment(variables: Mapping[str, str]) -> None:
    """Make `variables` the environment of this process, which was forked and not started anew, and
    show its MARK to `end_marked` and to whoever else looks from outside.

    The system shows the block of variables that a process was started with, and a fork's is its
    parent's; so the new ones are written over that block, the mark first, as many as it has room
    for.  ValueError if it has none for the mark.
    Linux only.
    """
    os.environ.clear()
    os.environ.update(variables)  # copies: none lies in the old block
    after_name = Path("/proc/self/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    begin, end = int(after_name[47]), int(after_name[48])  # env_start, env_end
    block = b""
    for name in sorted(variables, key=lambda name: name != MARK):
        shown = os.fsencode(f"{name}={variables[name]}") + b"\0"
        if len(block) + len(shown) <= end - begin:
            block += shown
        elif name == MARK:
            raise ValueError(f"no room for {shown!r} in {end - begin} bytes")
    ctypes.memset(begin, 0, end - begin)
    ctypes.memmove(begin, block, len(block))


def end(processes: Iterable[psutil.Process]) -> None:
    """End processes: first politely; what has not ended after PATIENCE seconds, for good."""
    left = list(processes)
    for number in (signal.SIGTERM, signal.SIGKILL):
        left = _signalled(left, number)


def end_marked(mark: str) -> None:
    """End every process of this user that was started with `mark` as its MARK, and all below it.

    A process hands its environment on to all that it starts, so this finds also what left its
    session or lost its parent.
    First politely; what has not ended after PATIENCE seconds, for good.
    """
    for number in (signal.SIGTERM, *[signal.SIGKILL] * 4):  # again, for what began meanwhile
        found = set()
        for process in psutil.process_iter(["environ"]):
            if (process.info["environ"] or {}).get(MARK) == mark:
                with suppress(psutil.NoSuchProcess):
                    found |= {process, *process.children(recursive=True)}
        if not found:
            break
        _signalled(found, number)


def _signalled(processes: Collection[psutil.Process], number: int) -> list[psutil.Process]:
    """Those that a signal has not ended after PATIENCE seconds, or at once where all of them stand
    still."""
    still = True
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
            still &= process.status() == psutil.STATUS_STOPPED
    polite = number != signal.SIGKILL
    return psutil.wait_procs(processes, timeout=0.0 if still and polite else PATIENCE)[1]


class VanishingFolder(tempfile.TemporaryDirectory):
    """A temporary folder (0700) that goes when this process ends, also where SIGKILL ends it.

    A shell waits until the writing end of a pipe is closed, which only this process has, and then
    removes the folder. The shell is no child of this process: who ends a family of processes does
    not end it, nor does `end_marked`. Only a machine that stops leaves the folder.
    """

    _WATCH = (
        'exec 3<&0; (trap "" HUP INT TERM; cat <&3; for again in 1 2 3 4 5 6 7 8 9; do '
        'rm -rf -- "$1" && break; sleep 1; done) >/dev/null 2>&1 &'
    )

    def __init__(self, prefix: str):
        super().__init__(prefix=prefix)
        reading, writing = os.pipe()  # no program that starts inherits them
        weakref.finalize(self, os.close, writing).atexit = False
        with open(reading, "rb") as stdin:
            subprocess.run(
                ["sh", "-c", self._WATCH, "sh", self.name],
                stdin=stdin,
                check=True,
                start_new_session=True,
                env={name: value for name, value in os.environ.items() if name != MARK},
            )


@contextmanager
def terminated_like_interrupted():
    """Inside, SIGTERM and SIGHUP do what Ctrl-C does: KeyboardInterrupt, so that children end and
    finished work is kept."""
    before = {
        number: signal.signal(number, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
