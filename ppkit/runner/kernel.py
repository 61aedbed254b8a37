"""A notebook kernel that never outlives whoever started it."""

import ctypes
import signal
import sys

import zmq
from jupyter_client.manager import AsyncKernelManager

PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def die_with_parent() -> None:
    """Between fork and exec: ask Linux to kill this process when the thread that started it ends.

    Elsewhere nothing happens here, and the kernel's own watch on its parent (once a second) has to do.
    """
    if _LIBC is not None:
        _LIBC.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


class BoundKernel(AsyncKernelManager):
    """A kernel manager whose kernel dies with the process that manages it, however that one ends.

    Where jupyter_client can, it talks to the kernel encrypted; without, a new ipykernel warns on stderr.
    """

    def __init__(self, **settings):
        super().__init__(**settings)
        if self.has_trait("transport_encryption") and zmq.has("curve"):
            self.transport_encryption = "auto"

    async def _async_pre_start_kernel(self, **settings):
        return await super()._async_pre_start_kernel(**settings, preexec_fn=die_with_parent)
