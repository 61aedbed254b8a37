"""The runner: plans a run, gives each notebook a child process of its own, and writes the pages a
person opens."""

import re
import sys

# jsonschema then does without it: it takes two seconds, and nothing here checks IRIs
sys.modules["rfc3987_syntax"] = None
ANSWER_SECONDS = 600  # that a kernel may take to answer, on however busy a machine


class Refused(Exception):
    """What was asked for cannot be done, in one sentence that says what can; the command line exits
    with 2."""


def reason(error: OSError) -> str:
    """Why the system refused, in its own words.

    `shutil.Error`, which gathers one error a file, names the first one's.
    """
    found = re.search(r"\[Errno \d+\] ([^:']+)", str(error))
    return error.strerror or (found[1] if found else str(error))
