"""What a role keeps so that a stopped run goes on: checkpoints of its part of the model, and its
root secret.
"""

import hashlib
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ppkit.atomic_writing import read_secret, write_whole
from spnn_system.run.reports import say

_MAGIC = b"ppkit checkpoint 1\n"


class Damaged(ValueError):
    """A checkpoint file, or the journal, is not what was written."""


class Changed(ValueError):
    """A checkpoint is of another run, config or data."""


def write_secret(path: Path, content: bytes) -> None:
    """Put a file where it is, whole or not at all, flushed to the disk, for its owner alone (0600).
    OSError: disk full.
    """
    write_whole(path, content, mode=0o600, durable=True)


def packed(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Arrays by name as an .npz archive."""
    archive = io.BytesIO()
    np.savez(archive, allow_pickle=False, **arrays)
    return archive.getvalue()


class Checkpoints:
    """The checkpoints of one role, in its own folder: step-000010.checkpoint and so on.

    A file is a line of text, the SHA-256 of all that follows, and an .npz archive (no pickle) of
    the arrays with the notes.
    about: what must be the same when the run goes on, such as {"run": ..., "config": digest,
    "data": digest}; text only.
    """

    def __init__(self, folder: Path, *, about: dict[str, str]):
        self.folder, self._about = folder, dict(about)

    def path(self, step: int) -> Path:
        return self.folder / f"step-{step:09d}.checkpoint"

    def steps(self) -> list[int]:
        """Steps that there is a file of, valid or not, in order."""
        return sorted(int(path.stem[5:]) for path in self.folder.glob("step-*.checkpoint"))

    def save(self, step: int, arrays: dict[str, np.ndarray], notes: dict[str, Any]) -> None:
        """Write the checkpoint after a step.  OSError where the disk is full; those before stay.

        arrays: parameters and the like.  notes: positions of streams, losses; what JSON can say.
        """
        said = json.dumps({"step": step, "about": self._about, "notes": notes}).encode()
        content = packed({"notes": np.frombuffer(said, np.uint8), **arrays})
        write_secret(
            self.path(step), _MAGIC + hashlib.sha256(content).hexdigest().encode() + b"\n" + content
        )

    def load(self, step: int) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Read one: (arrays, notes), as they were saved.

        Damaged if its bytes are not those written; Changed if it is of another run, config or data.
        """
        content = self.path(step).read_bytes()
        start = len(_MAGIC) + 65
        if content[:start] != _MAGIC + hashlib.sha256(content[start:]).hexdigest().encode() + b"\n":
            raise Damaged(f"the checkpoint of step {step} is damaged")
        with np.load(io.BytesIO(content[start:]), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        said = json.loads(arrays.pop("notes").tobytes())
        for what, value in self._about.items():
            if said["about"].get(what) != value:
                raise Changed(
                    f"the {what} changed since the checkpoint of step {step} was written: start "
                    "without --resume"
                )
        return arrays, said["notes"]

    def usable(self) -> list[int]:
        """The steps that can be gone on from; a damaged file is said on stderr.  Changed as in
        `load`.
        """
        usable = []
        for step in self.steps():
            try:
                self.load(step)
                usable.append(step)
            except Damaged as error:
                say(f"{error}, and is not used")
        return usable

    def keep(self, steps: set[int]) -> None:
        """Remove all others."""
        for step in set(self.steps()) - steps:
            self.path(step).unlink(missing_ok=True)


def root_secret(folder: Path, *, resume: bool) -> bytes:
    """The 32 bytes that all secrets of one role come from, in its own folder (0600).

    They are kept for as long as the run can go on: a role removes them once the coordinator says
    that all are done. A run that stopped keeps them until it is resumed to its end.
    resume: read it again; else a new one from the operating system takes the place of an older one.
    ValueError where there is none to go on with, or where other users may read it.
    """
    path = folder / "secret.key"
    if not resume:
        write_secret(path, os.urandom(32).hex().encode())
    try:
        kept = read_secret(path)
    except FileNotFoundError:
        raise ValueError(
            "there is nothing to go on from: the run has not begun here, or has ended; --fresh "
            "starts anew"
        ) from None
    return bytes.fromhex(kept.decode())
