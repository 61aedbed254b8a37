"""Roles as processes of their own that start in a moment: one process loads everything, and forks
for every role.

What runs in the forked process is what `python -m spnn_system ROLE CONFIG` runs; but nothing in
there is over because a machine is slow, and the clock by which a role judges silence goes ahead
where a test says so.
"""

import contextlib
import faulthandler
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
from waiting import FAR, until

# What each forked process does before it begins.
PATIENT = f"""
from spnn_system.roles import control_channel, coordinator
from spnn_system.transport import listener
# to tell all why a run stops, those too that still start
coordinator.LAST_WORD = coordinator.LATECOMERS = {FAR}
# to tell the coordinator, and to hear it
control_channel.GIVING_UP = control_channel.LAST_WORD = {FAR}
listener.CLOSING_SECONDS = {FAR}
"""
# A process is forked safely while it has one thread: a lock that another one holds stays locked in
# the child. pyarrow, which pandas brings, starts a thread for its allocator.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}


class Role:
    """One role's process.  log: what it said."""

    def __init__(self, nursery, name: str, pid: int, log: Path):
        self._nursery, self.name, self.pid, self.log, self._code = nursery, name, pid, log, None

    def code(self) -> int | None:
        """The exit code (minus the signal that killed it), None while it runs."""
        if self._code is None:
            self._code = self._nursery.ask("poll", self.pid)
        return self._code

    def wait(self) -> int:
        """The exit code, once it has ended."""
        self._nursery.until(lambda: self.code() is not None, f"the end of {self.name}")
        return self._code

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def later(self, which: str, seconds: int = int(2 * FAR)) -> None:
        """Put a clock of the role ahead: "signs", by which it judges the coordinator and its own
        work, or "links".
        """
        os.truncate(ahead(self.log, which), seconds)

    def said(self) -> str:
        return self.log.read_text("utf-8")


class Nursery:
    """Use as a context manager: what still runs at its end is killed."""

    def __enter__(self):
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **ONE_THREAD},
        )
        self._roles = []
        assert self.ask("ready") == "ready"
        return self

    def __exit__(self, *_):
        for role in self._roles:
            if role.code() is None:
                role.signal(signal.SIGKILL)
                role.wait()
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def ask(self, *words):
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def until(self, condition, what: str, *, seconds: float = FAR) -> None:
        """`waiting.until`; in vain, it says what the roles said in every run that goes on, and
        where the threads of those stand that live.
        """
        try:
            until(condition, what, seconds=seconds)
        except AssertionError as error:
            alive = [role for role in self._roles if role.code() is None]
            runs = {role.log.parents[1] for role in alive}
            for role in alive:
                with contextlib.suppress(ProcessLookupError):  # it ends just now
                    role.signal(signal.SIGUSR1)
            time.sleep(5)  # for all to have said it; one that was stopped says nothing
            said = [str(error)]
            for role in (role for role in self._roles if role.log.parents[1] in runs):
                said.append(f"{role.name}, exit code {role.code()}:\n{role.said()}")
            raise AssertionError("\n\n".join(said)) from None

    def start(
        self,
        config,
        name: str,
        *,
        resume: bool = False,
        path: Path | None = None,
        first: str = "",
        more: list[str] | None = None,
    ) -> Role:
        """path: of another config file for this role than config.path.  first: code that its
        process runs before it begins.  more: arguments.
        """
        log = config.folder_of(name) / "log.txt"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.touch()
        for which in ("signs", "links"):
            ahead(log, which).write_bytes(b"")
        pid = self.ask(
            "start",
            [name, str(path or config.path), *(["--resume"] if resume else []), *(more or [])],
            str(log),
            f"run_folder = {str(config.folder)!r}\n{PATIENT}{first}",
        )
        self._roles.append(Role(self, name, pid, log))
        return self._roles[-1]


def main() -> None:
    import torch

    torch.set_num_threads(1)
    from ppkit import evaluation  # noqa: F401
    from ppkit.spnn import protocols
    from ppkit.spnn.messages import Transcript
    from ppkit.spnn.party import Setup
    from spnn_system import __main__ as entry
    from spnn_system.roles import coordinator, dealer, holder, server  # noqa: F401

    for name, form in (("masked", None), ("ss", "lean"), ("ss", "published")):
        setup = Setup(["A", "B"], [1, 1], 4)
        warm = protocols.simulator_of(
            setup, protocol=name, form=form, transcript=Transcript("sizes")
        )
        warm.prepare([torch.zeros(2, 1)] * 2)
        warm.forward([0, 1], [torch.zeros(1, 4)] * 2)
    assert psutil.Process().num_threads() == 1
    ended = {}

    def reap(*_):
        """Whoever waits for a process by its number sees that it has gone."""
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                ended[found[0]] = os.waitstatus_to_exitcode(found[1])

    signal.signal(signal.SIGCHLD, reap)
    for line in sys.stdin:
        match json.loads(line):
            case ["start", arguments, log, first]:
                answer = os.fork()
                if not answer:
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    become(log)
                    code = 1
                    try:
                        clocks(Path(log))
                        exec(first, {})
                        code = entry.main(arguments)
                    except BaseException:
                        import traceback

                        traceback.print_exc()
                    finally:
                        sys.stdout.flush()
                        sys.stderr.flush()
                        os._exit(code)
            case ["poll", pid]:
                answer = ended.get(pid)
            case ["ready"]:
                answer = "ready"
        print(json.dumps(answer), flush=True)


def ahead(log: Path, which: str) -> Path:
    """The file that has as many bytes as a clock of a role is ahead of the machine's, in
    seconds.
    """
    return log.with_name(f"{which}.ahead")


def clocks(log: Path) -> None:
    """In the new process: the clock of the signs of life, and that of the links, go ahead as
    `Role.later` says.
    """
    from spnn_system.roles import control_channel
    from spnn_system.transport import links, shaping

    for module, which in ((links, "links"), (control_channel, "signs")):

        class Ahead(shaping.WallClock):
            file = ahead(log, which)

            def now(self):
                return time.monotonic() + self.file.stat().st_size

        module.WallClock = Ahead


def become(log: str) -> None:
    """In the new process: die with the nursery, own session, output to the log."""
    from ppkit.process_tree import die_with_parent

    die_with_parent()
    os.setsid()
    nothing, file = (
        os.open(os.devnull, os.O_RDONLY),
        os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND),
    )
    os.dup2(nothing, 0)
    os.dup2(file, 1)
    os.dup2(file, 2)
    faulthandler.register(signal.SIGUSR1, file=2)


if __name__ == "__main__":
    main()
