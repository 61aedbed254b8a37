"""`pytest --nbval -n 2 notebooks` keeps each notebook on one worker.

The cells of a notebook share a kernel.
"""

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Where xdist would deal out single cells, it deals out files."""
    if getattr(config.option, "numprocesses", None) and config.option.dist in (
        "no",
        "load",
    ):
        config.option.dist = "loadscope"
