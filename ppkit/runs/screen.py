"""Where tables are printed, and how they look."""

import os
import sys

from rich import box
from rich.console import Console

BOX = box.SIMPLE_HEAD


def console(width_in_a_file: int) -> Console:
    """As wide as the terminal; else as $COLUMNS says, else this wide."""
    is_known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(markup=False, highlight=False, width=None if is_known else width_in_a_file)
