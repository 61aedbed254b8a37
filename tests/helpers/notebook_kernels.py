"""A pytest plugin for the nbval pass: its kernels take no ports and end with their starter.

`pytest -p notebook_kernels --nbval notebooks`; without it nbval's own kernels serve, which may
lose a port to another.
"""

import nbval.kernel
from jupyter_client.manager import KernelManager

from ppkit.runs.execute import Bound


class BoundKernel(Bound, KernelManager):
    """The kernel manager of nbval, made as safe as that of a run."""


def pytest_configure():
    nbval.kernel.KernelManager = BoundKernel
