"""A role's checkpoints together with its journal: written, told to the coordinator, and gone on
from.
"""

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from spnn_system.roles.control_channel import ControlChannel
from spnn_system.run.checkpoints import Checkpoint, Checkpoints, write_secret
from spnn_system.run.journal import SET_UP, Journal
from spnn_system.run.message_log import MessageLog
from spnn_system.run.plan import Progress
from spnn_system.run.role_folder import PARAMETERS

KEPT = 3  # checkpoints of a role that are kept


class Saves:
    """What one role keeps to go on, each checkpoint with the journal of what was sent after it."""

    def __init__(
        self,
        checkpoints: Checkpoints,
        journal: Journal,
        log: MessageLog,
        control: ControlChannel,
        progress: Progress,
    ):
        self._checkpoints, self._journal, self._log = checkpoints, journal, log
        self._control, self._progress = control, progress

    def save(
        self, arrays: dict[str, np.ndarray], notes: dict[str, Any], *, keep_from: int | None = None
    ) -> None:
        """Write the checkpoint of the present step, tell the coordinator, and drop those that
        nobody will ask for.

        keep_from: keep all from this step on (the dealer is ahead of the others), besides the last
        ones before.
        """
        step = self._progress.step
        # first: a checkpoint without its part of the journal is of no use
        self._journal.begin(step)
        self._checkpoints.save(step, arrays, {**notes, "journal": self._journal.sizes()})
        self._log.write()
        self._control.tell("saved", step=step)
        there = self._checkpoints.steps()
        old = [at for at in there if at < (step + 1 if keep_from is None else keep_from)]
        kept = set(old[-KEPT:]) | (set(there) - set(old))
        self._checkpoints.keep(kept)
        self._journal.forget(min(kept))

    def recall(self, start: int | None, usable: list[int]) -> None:
        """Before anything is sent: what a resumed run sent before, none of it may be sent again in
        another form.

        start: the step to go on from, None in a new run.  usable: the steps with a checkpoint.
        Damaged if a part of the journal is lost.
        """
        if start is not None:
            for step in usable:
                if step >= start:
                    self._journal.recall(
                        start, at_least=self._checkpoints.load(step).notes["journal"]
                    )
        self._journal.begin(SET_UP)

    def restore(self, start: int | None) -> Checkpoint | None:
        """The checkpoint of a step, from now on the present one; None in a new run."""
        if start is None:
            return None
        kept = self._checkpoints.load(start)
        self._checkpoints.keep({step for step in self._checkpoints.steps() if step <= start})
        self._progress.step = start
        return kept

    def leave(self, parameters: Mapping[str, torch.Tensor]) -> None:
        """This role's own part of the model: parameters.npz in its own folder."""
        packed = io.BytesIO()
        np.savez(packed, **{name: value.detach().numpy() for name, value in parameters.items()})
        write_secret(self._checkpoints.folder / PARAMETERS, packed.getvalue())
