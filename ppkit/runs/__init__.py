"""Runs of notebooks: one, all, or one at many points; each in a process of its own, here or on the
workers of a scheduler; and the pages that a person opens.

The way in is `ppkit reproduce`. This room knows no paper: of ppkit it imports the verdicts, and
what finds, reads and writes files.
"""

import re
import sys

# jsonschema then does without it: it takes two seconds, and nothing here checks IRIs
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]  # None: it cannot be imported
__all__ = ["Refused"]
ANSWER_SECONDS = 600  # that a kernel may take to answer, on however busy a machine


class Refused(Exception):
    """What was asked for cannot be done, in one sentence that says what can; the command line exits
    with 2."""


def cut(text: str, at: int = 100) -> str:
    """A text as a person is shown it: of a long one the beginning, and how long it is.

    >>> cut("a" * 20_000, at=5)
    'aaaaa... (20,000 characters)'
    """
    return text if len(text) <= at else f"{text[:at]}... ({len(text):,} characters)"


def reason(error: OSError) -> str:
    """Why the system refused, in its own words.

    `shutil.Error`, which gathers one error a file, names the first one's.
    """
    found = re.search(r"\[Errno \d+\] ([^:']+)", str(error))
    return error.strerror or (found[1] if found else str(error))
