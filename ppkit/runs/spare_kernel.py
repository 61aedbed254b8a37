"""A kernel forked from the worker whose notebook it executes.

It is forked as the worker begins, on one thread and before anything runs, and waits until
jupyter_client wants a kernel. From then on it is one like any other: a child of the worker, in a
session of its own.
"""

import atexit
import gc
import json
import os
import signal
import socket
import sys
import threading

from jupyter_client.provisioning import LocalProvisioner

from ppkit import process_tree

KERNEL = ["-m", "ipykernel_launcher"]  # the command that it can take the place of


class SpareKernel:
    """The kernel's process, as the worker sees it.

    closed: file descriptors of the worker that the kernel must not hold open.
    """

    def __init__(self, closed: list[int]):
        worker = os.getpid()
        self._socket, its = socket.socketpair()
        self.pid = os.fork()
        if not self.pid:
            try:
                for descriptor in (self._socket.fileno(), *closed):
                    os.close(descriptor)
                _become_kernel(its, worker)
            finally:  # it must never go on as a second worker
                os._exit(1)
        its.close()
        self.returncode: int | None = None
        self.stdin = self.stdout = self.stderr = None

    @property
    def is_free(self) -> bool:
        """Whether it still waits to be wanted."""
        return self._socket.fileno() >= 0

    def begin(self, arguments: list[str], folder: str, variables: dict[str, str]) -> None:
        """Become the kernel of these command line arguments."""
        wanted = {"arguments": arguments, "folder": folder, "variables": variables}
        with self._socket as sent:
            sent.sendall(json.dumps(wanted).encode())

    # What jupyter_client asks of a process, which is elsewhere a `subprocess.Popen`.

    def poll(self) -> int | None:
        return self._waited(os.WNOHANG)

    def wait(self, timeout: float | None = None) -> int | None:
        return self._waited(0)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _waited(self, options: int) -> int | None:
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, options)
            except ChildProcessError:  # somebody else has waited for it, as for all marked ones
                pid, status = self.pid, signal.SIGKILL
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


class SpareProvisioner(LocalProvisioner):
    """Starts a kernel by the spare one, where there is one and the command is ipykernel's; each
    further kernel afresh."""

    spare: SpareKernel | None = None

    async def launch_kernel(self, cmd, **settings):
        redirected = settings.get("stdout") or settings.get("stderr")
        if self.spare is None or not self.spare.is_free or cmd[1:3] != KERNEL or redirected:
            return await super().launch_kernel(cmd, **settings)
        folder = str(settings.get("cwd") or os.getcwd())
        variables = {**(settings.get("env") or os.environ), "JPY_PARENT_PID": str(os.getpid())}
        self.spare.begin(cmd[3:], folder, variables)
        self.process, self.pid, self.pgid = self.spare, self.spare.pid, self.spare.pid
        self.cwd = folder
        return self.connection_info


def _become_kernel(asked: socket.socket, worker: int) -> None:
    """Wait until a kernel is wanted, be it, and end the process."""
    process_tree.die_with_parent(worker)
    with asked:
        said = b"".join(iter(lambda: asked.recv(1 << 16), b""))
    if not said:
        os._exit(0)
    wanted = json.loads(said)
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(wanted["folder"])
    process_tree.take_environment(wanted["variables"])
    sys.argv = [f"{os.path.dirname(__file__)}/ipykernel_launcher.py", *wanted["arguments"]]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _draw_own_numbers()
    gc.enable()
    code = 1
    try:
        code = _run_kernel(wanted["arguments"])
    finally:  # an interpreter's end, but for taking thousands of modules apart
        threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as at any end
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _run_kernel(arguments: list[str]) -> int:
    from ipykernel.kernelapp import IPKernelApp

    parent = f"--IPKernelApp.parent_handle={os.getppid()}"  # from a variable, read at import
    try:
        IPKernelApp.launch_instance([*arguments, parent])
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _draw_own_numbers() -> None:
    """Seed the generators that nobody has seeded: two kernels must not draw the same numbers."""
    if numpy_random := sys.modules.get("numpy.random"):
        numpy_random.seed()
    if torch := sys.modules.get("torch"):
        torch.default_generator.seed()
