"""A notebook kernel that never outlives whoever started it, and that none can take a port from."""

import os
import sys
import uuid

import zmq
from jupyter_client.manager import AsyncKernelManager

from ppkit.lifeline import die_with_parent


class Bound:
    """What makes a kernel manager of jupyter_client a safe one; it stands first among the bases.

    The kernel dies with the process that manages it, however that one ends.
    On Linux the two talk over sockets in the abstract namespace, which need no port and leave no
    file behind. Elsewhere they need ports, which another process may take between choice and use:
    a kernel that ends before it has answered is started once more, on other ports.
    Where jupyter_client can, they talk encrypted; else a new ipykernel warns on stderr.
    The connection file lies in $JUPYTER_RUNTIME_DIR where there is one: what a killed manager
    leaves goes with it.
    """

    def __init__(self, **settings):
        super().__init__(**settings)
        if self.has_trait("transport_encryption") and zmq.has("curve"):
            self.transport_encryption = "auto"
        name = f"ppkit-{uuid.uuid4().hex}"
        if sys.platform == "linux" and zmq.has("ipc"):
            self.transport, self.ip = "ipc", f"@{name}"
        if os.path.isdir(folder := os.environ.get("JUPYTER_RUNTIME_DIR", "")):
            self.connection_file = os.path.join(folder, f"{name}.json")

    async def _async_pre_start_kernel(self, **settings):
        return await super()._async_pre_start_kernel(**{**settings, "preexec_fn": die_with_parent})

    async def _async_launch_kernel(self, kernel_cmd, **settings):
        await super()._async_launch_kernel(kernel_cmd, **settings)
        if self.transport != "tcp":
            return
        client = self.client()
        client.start_channels()
        try:
            await client._async_wait_for_ready()
        except RuntimeError:  # the kernel has ended
            self.cleanup_connection_file()
            self.provisioner = None  # a new one takes new ports
            kernel_cmd, settings = await self._async_pre_start_kernel(**self._launch_args)
            await super()._async_launch_kernel(kernel_cmd, **settings)
        finally:
            client.stop_channels()


class BoundKernel(Bound, AsyncKernelManager):
    """The kernel manager of `ppkit reproduce` and `ppkit execute`."""
