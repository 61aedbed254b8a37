"""Workers and kernels without their start: forked from a parent process that has imported what the
notebooks of a run import.

A job on a new interpreter imports some seconds long before its first own line. The parent pays
that once a run. Where a job cannot be forked it starts on a new interpreter, as ever, and the run
says why. Linux only.

`jobs` decides whether a run has a parent, and hands its jobs to `children`, which starts a `worker`
for each. This module starts the parent and asks it for workers; `warm_parent` is what the parent
runs; `spare_kernel` is the kernel that a forked worker forks. `ppkit.process_tree` ends them all.
Tests: tests/runs/test_warm.py of all that is forked, and a file of its own for each other module.
"""

import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import psutil

from ppkit.process_tree import MARK, ROOM
from ppkit.runs import ANSWER_SECONDS

MESSAGE = 1 << 20  # bytes of a request at most
# Variables that are read when they are needed. What others say may have been read at import.
OF_A_JOB = {"PPKIT_RUN", "PPKIT_NOTEBOOK", MARK}  # say what a process belongs to
PER_JOB = {
    *("IPYTHONDIR", "XDG_CACHE_HOME", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "PPKIT_SOURCE"),
    *OF_A_JOB,
}


class NotWarm(Exception):
    """A job cannot be forked; the message says why."""


class WarmParent(AbstractContextManager):
    """The parent process, as the one that asks it sees it. It ends with the block, or with the
    process that made it.

    notebooks: whose imports it makes.
    It starts with the first `fork`, under that job's variables but those of `OF_A_JOB`, and that
    waits until it has imported all.
    """

    def __init__(self, notebooks: Iterable[Path]):
        self._notebooks = list(notebooks)
        self._variables: dict[str, str] = {}
        self._refused = ""
        self._open = ExitStack()
        self._socket: socket.socket | None = None

    def __exit__(self, *_) -> None:
        self._open.close()

    def fork(
        self, spec: Path, folder: Path, variables: Mapping[str, str], streams: Sequence[int]
    ) -> psutil.Process:
        """A worker on the file `spec`, in `folder`, with these variables.

        variables: as `environment.for_kernel`.  streams: file descriptors of its stdin, stdout and
        stderr.
        NotWarm if a variable that may have been read at import differs from the first job's, if a
        source has changed since the parent imported it, or if the parent cannot fork.
        """
        self._variables = self._variables or dict(variables)
        names = {*variables, *self._variables} - PER_JOB
        others = sorted(n for n in names if variables.get(n) != self._variables.get(n))
        if others:
            raise NotWarm(f"{', '.join(others)} differs from the first job's")
        request = {"spec": str(spec), "folder": str(folder), "variables": dict(variables)}
        answer = self._ask(request, streams)
        try:
            return psutil.Process(answer["pid"])
        except psutil.NoSuchProcess:
            raise NotWarm("a forked worker ended at once") from None

    def _ask(self, request: dict, streams: Sequence[int]) -> dict:
        if not self._refused:
            try:
                if self._socket is None:
                    self._socket = self._started()
                    _answer(self._socket)
                socket.send_fds(self._socket, [json.dumps(request).encode()], list(streams))
                return _answer(self._socket)
            except NotWarm as why:
                self._refused = str(why)
            except (OSError, ValueError) as error:
                ended = f"the parent of forked kernels has ended ({type(error).__name__})"
                self._refused = self._last_words() or ended
        raise NotWarm(self._refused)

    def _started(self) -> socket.socket:
        own, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._open.enter_context(own)
        own.settimeout(ANSWER_SECONDS)
        self._errors = self._open.enter_context(tempfile.TemporaryFile())
        command = [sys.executable, "-P", "-X", "frozen_modules=off"]  # as ipykernel's own kernels
        command += ["-m", "ppkit.runs.warm_parent", str(its.fileno())]
        kept = {name: value for name, value in self._variables.items() if name not in OF_A_JOB}
        with its:
            process = subprocess.Popen(
                [*command, *map(str, self._notebooks)],
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
                env={**kept, ROOM: "." * 4096},
                pass_fds=[its.fileno()],
                start_new_session=True,
            )
        self._open.callback(process.wait)
        self._open.callback(process.kill)
        return own

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "")


def _answer(parent: socket.socket) -> dict:
    """What the parent says next; NotWarm if it refuses, ValueError if it has ended."""
    answer = json.loads(parent.recv(MESSAGE))
    if "refused" in answer:
        raise NotWarm(answer["refused"])
    return answer
