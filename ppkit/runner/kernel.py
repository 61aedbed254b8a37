"""A notebook kernel that never outlives whoever started it."""

import zmq
from jupyter_client.manager import AsyncKernelManager

from ppkit.lifeline import die_with_parent


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
