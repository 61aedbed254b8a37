"""What a role sent, written down before it leaves, so that a run that goes on cannot send another
under the same mask.
"""

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spnn_system.run.checkpoints import Damaged
from spnn_system.run.role_folder import cut_to_lines
from spnn_system.transport.frames import body

_LINE = re.compile(rb"\d+\t[^\t]+\t\d+\t[^\t]+\t[0-9a-f]{64}\n")
SET_UP = -1  # the journal's part before the first checkpoint


class SentBefore(RuntimeError):
    """Another payload than before is about to leave in the place of one that was sent."""


class Journal:
    """SHA-256 of every payload that a role sent, written down before it leaves, so that a resumed
    run cannot send another.

    Two different messages under one mask give away their difference. A run that goes on sends again
    what it sent after the checkpoint; it must be the same, to the bit: same root secret, same
    positions of streams, same parameters.
    One file for each checkpoint, journal-000010.txt, of what was sent after it (and one of what
    comes before the first):
    a line is step, receiver, how many of this name before in this step, name, SHA-256. A line that
    a kill cut off was not followed by its message. A checkpoint notes how long every part was
    (`sizes`), so that a part which is gone or was cut is missed. Lines are written, not flushed to
    the disk one by one: a killed process leaves all of them; a machine that loses its power may
    lose the last ones, and the guarantee is not given there: start without --resume then.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._known: dict[tuple[int, str, int, str], str] = {}
        self._times: Counter = Counter()
        self._step, self._file = SET_UP, None

    def path(self, start: int) -> Path:
        return self.folder / (
            "journal-setup.txt" if start == SET_UP else f"journal-{start:09d}.txt"
        )

    def starts(self) -> list[int]:
        """The checkpoints whose part of the journal is there, SET_UP among them."""
        found = [path.stem[8:] for path in self.folder.glob("journal-*.txt")]
        return sorted(
            SET_UP if name == "setup" else int(name)
            for name in found
            if name == "setup" or name.isdigit()
        )

    def sizes(self) -> dict[str, int]:
        """Bytes of whole lines of every part by its start, to be noted in a checkpoint: a part only
        grows.
        """
        return {
            str(start): self.path(start).read_bytes().rfind(b"\n") + 1 for start in self.starts()
        }

    def recall(self, step: int, *, at_least: Mapping[str, int] | None = None) -> None:
        """Read what was sent before the first checkpoint and after that of a step, to hold what is
        sent now against it.

        at_least: the `sizes` that a checkpoint noted. Damaged where a part of them, that before the
        first checkpoint or that after this one is gone, or shorter than it was, or where a line is
        none.
        """
        needed = {SET_UP: 0, step: 0} | {
            int(start): size for start, size in (at_least or {}).items()
        }
        for start in sorted({*needed, *self.starts()}):
            if start != SET_UP and start < step:
                continue
            after = "before the first checkpoint" if start == SET_UP else f"after step {start}"
            try:
                content = self.path(start).read_bytes()
            except FileNotFoundError:
                raise Damaged(
                    f"the journal of what was sent {after} is gone: start without --resume"
                ) from None
            if len(content) < needed.get(start, 0):
                raise Damaged(
                    f"the journal of what was sent {after} was cut: start without --resume"
                )
            for line in content.splitlines(keepends=True):
                if line.endswith(b"\n"):
                    if not (read := _LINE.fullmatch(line)):
                        raise Damaged(
                            f"the journal of what was sent {after} has a line that is none: start "
                            "without --resume"
                        )
                    at, receiver, times, name, digest = read[0].decode()[:-1].split("\t")
                    self._known[int(at), receiver, int(times), name] = digest

    def begin(self, start: int) -> None:
        """From now on write into the part after this checkpoint.  OSError where the disk is
        full.
        """
        self.close()
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
        self._file = open(os.open(self.path(start), flags, 0o600), "a+b", buffering=0)
        cut_to_lines(self._file)

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
        before = self._known.get(key)
        if before is None:
            line = f"{step}\t{receiver}\t{times}\t{name}\t{now}\n".encode()
            if self._file.write(line) != len(line):
                raise OSError("the journal of what was sent could not be written in full")
            return
        if before != now:
            raise SentBefore(
                f"at step {step} another {name!r} was sent to {receiver} than the one about to be "
                "sent: two "
                "messages under one mask would give away their difference, so nothing is sent; "
                "start without --resume"
            )

    def forget(self, before: int) -> None:
        """Remove the parts after checkpoints older than this step; what was sent before the first
        one stays.
        """
        for start in self.starts():
            if SET_UP < start < before:
                self.path(start).unlink(missing_ok=True)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def digest(payload: Any) -> str:
    """SHA-256 of a payload as it is sent: its kind, type, shape and layout, and its bytes.

    >>> digest(b"")[:16]
    '6bd3f8c5a198cf08'
    """
    about, content = body(payload)
    found = hashlib.sha256(json.dumps(about).encode())
    found.update(content)
    return found.hexdigest()
