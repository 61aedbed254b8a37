"""What a role sent, written down before it leaves, so that a run that goes on cannot send another
under the same mask.
"""

import hashlib
import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

from spnn_system.run.checkpoints import Damaged
from spnn_system.run.role_folder import cut_to_lines, private
from spnn_system.transport.frames import body

_LINE = re.compile(rb"\d+\t[^\t]+\t\d+\t[^\t]+\t[0-9a-f]{64}\n")


class SentBefore(RuntimeError):
    """Another payload than before is about to leave in the place of one that was sent."""


class Journal:
    """SHA-256 of every payload that a role sent, written down before it leaves, so that a resumed
    run cannot send another.

    Two different messages under one mask give away their difference. A run that goes on sends again
    what it sent after the checkpoint; it must be the same, to the bit: same root secret, same
    positions of streams, same parameters.
    A line of journal.txt is step, receiver, how many of this name before in this step, name,
    SHA-256. A line that a kill cut off was not followed by its message. A checkpoint notes how long
    the file was (`size`), so that a part which is gone is missed. Lines are written, not flushed to
    the disk one by one: a killed process leaves all of them; a machine that loses its power may
    lose the last ones, and the guarantee is not given there: start without --resume then.
    """

    def __init__(self, folder: Path):
        self.path = folder / "journal.txt"
        self._known: dict[tuple[int, str, int, str], str] = {}
        self._times: Counter = Counter()
        self._step = -1
        self._file = -1  # its descriptor, while it is open

    @property
    def size(self) -> int:
        """Bytes of the file, to be noted in a checkpoint: it only grows."""
        return self.path.stat().st_size

    def recall(self, at_least: int) -> None:
        """Read what was sent before, so that what is sent from now on can be compared with it.

        at_least: bytes that the file had when a checkpoint was written (`size`).
        Damaged if the file is gone, is shorter than that, or has a line of another form.
        """
        damaged = "the journal of what was sent is gone or damaged: start without --resume"
        if not self.path.exists():
            raise Damaged(damaged)
        content = self.path.read_bytes()
        whole_lines = content[: content.rfind(b"\n") + 1]  # a line that a kill cut off was not sent
        lines = whole_lines.splitlines(keepends=True)
        if len(whole_lines) < at_least or not all(map(_LINE.fullmatch, lines)):
            raise Damaged(damaged)
        for line in lines:
            step, receiver, before, name, digest = line.decode()[:-1].split("\t")
            self._known[int(step), receiver, int(before), name] = digest

    def begin(self) -> None:
        """From now on write into the file.  OSError where the disk is full."""
        cut_to_lines(private(self.path))
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND)

    def sending(self, step: int, receiver: str, name: str, payload: Any) -> None:
        """Write down that this payload is about to be sent.

        SentBefore if another was sent in its place (same step, receiver, name, and number of that
        name in the step); OSError where it cannot be written down: then it must not be sent.
        """
        if step != self._step:
            self._step = step
            self._times.clear()
        times = self._times[receiver, name]
        self._times[receiver, name] += 1
        key, now = (step, receiver, times, name), digest(payload)
        if key not in self._known:
            line = f"{step}\t{receiver}\t{times}\t{name}\t{now}\n".encode()
            if os.write(self._file, line) != len(line):
                raise OSError("the journal of what was sent could not be written in full")
        elif self._known[key] != now:
            raise SentBefore(
                f"at step {step} another {name!r} was sent to {receiver} than the one about to be "
                "sent: two messages under one mask would give away their difference, so nothing is "
                "sent; start without --resume"
            )

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def digest(payload: Any) -> str:
    """SHA-256 of a payload as it is sent: its kind, type, shape and layout, and its bytes.

    >>> digest(b"")[:16]
    '6bd3f8c5a198cf08'
    """
    about, content = body(payload)
    found = hashlib.sha256(json.dumps(about).encode())
    found.update(content)
    return found.hexdigest()
