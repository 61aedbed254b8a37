"""The runner: plans a run, gives each notebook a child process of its own, and writes the pages a person opens."""

import re

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Refused(Exception):
    """What was asked for cannot be done, in one sentence that says what can; the command line exits with 2."""


def plain(text: str) -> str:
    """`text` without the terminal colours that IPython puts into tracebacks."""
    return _COLOUR.sub("", text)
