"""`pytest --nbval -n 2 notebooks` keeps each notebook on one worker.

The cells of a notebook share a kernel.
"""

import pytest

CELLS = ("load", "worksteal", "loadgroup")  # ways of xdist to deal out single cells


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Where xdist would deal out single cells, it deals out files."""
    asked = config.option
    if not hasattr(asked, "dist"):  # there is no xdist
        return
    by_default = asked.numprocesses and asked.dist == "no"
    if by_default or asked.distload or asked.dist in CELLS:
        asked.dist, asked.distload = "loadscope", False
