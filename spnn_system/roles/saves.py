"""A role's checkpoints together with its journal: written, told to the coordinator, and gone on
from.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from ppkit.spnn.party import Party
from ppkit.spnn.randomness import Seekable
from spnn_system.roles.control_channel import ControlChannel, Progress
from spnn_system.roles.weights import Optimiser, arrays_of, put
from spnn_system.run.checkpoints import Checkpoints, packed, write_secret
from spnn_system.run.journal import Journal
from spnn_system.run.role_folder import PARAMETERS, MessageLog

KEPT = 3  # checkpoints of a role that are kept


class Saves:
    """What one role keeps to go on: checkpoints, and the journal of what was sent.

    A checkpoint has the role's part of the model, what its optimiser remembers, where torch's
    generator (for dropout), the streams of its side of the protocol and that of SGLD's noise stand,
    and notes.
    """

    _part: nn.Module
    _optimiser: Optimiser
    _streams: Mapping[str, Seekable]

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

    def save(self, *, keep_from: int | None = None, **notes: Any) -> None:
        """Write the checkpoint of the present step, tell the coordinator, and drop those that
        nobody will ask for.

        keep_from: keep all from this step on (the dealer is ahead of the others), besides the last
        ones before.  notes: what JSON can say.
        """
        step = self._progress.step
        notes |= {
            "streams": {name: stream.position for name, stream in self._streams.items()},
            "journal": self._journal.size,
        }
        arrays = {f"part/{name}": value for name, value in arrays_of(self._part).items()}
        arrays |= {f"optimiser/{name}": value for name, value in self._optimiser.state.items()}
        arrays["generator"] = torch.get_rng_state().numpy()
        self._checkpoints.save(step, arrays, notes)
        self._log.write()
        self._control.tell("saved", step=step)
        there = self._checkpoints.steps()
        old = [at for at in there if at < (step + 1 if keep_from is None else keep_from)]
        self._checkpoints.keep(set(old[-KEPT:]) | (set(there) - set(old)))

    def recall(self, usable: list[int]) -> None:
        """Before anything is sent: what a resumed run sent before, none of it may be sent again in
        another form.

        usable: the steps with a checkpoint, none in a new run.  Damaged if a part of the journal is
        lost.
        """
        if usable:
            self._journal.recall(self._checkpoints.load(max(usable))[1]["journal"])
        self._journal.begin()

    def begin(
        self, start: int | None, side: Party, part: nn.Module, optimiser: Optimiser, **notes: Any
    ) -> dict[str, Any]:
        """Once a role is set up: the first checkpoint of a new run, or everything put back to where
        a resumed one goes on; returns the notes, these or those of then.

        start: the step to go on from, which becomes the present one; None: a new run.  side: was
        connected and prepared anew.  part, optimiser: the role's own, from now on in every
        checkpoint.
        """
        self._part, self._optimiser = part, optimiser
        self._streams = {**side.streams, **optimiser.streams}
        if start is None:
            self.save(**notes)
            return notes
        arrays, kept = self._checkpoints.load(start)
        self._checkpoints.keep({step for step in self._checkpoints.steps() if step <= start})
        self._progress.step = start
        of = lambda group: {
            name.removeprefix(group): arrays[name] for name in arrays if name.startswith(group)
        }
        put(self._part, of("part/"))
        torch.set_rng_state(torch.from_numpy(arrays["generator"]))
        optimiser.state = of("optimiser/")
        for name, stream in self._streams.items():
            stream.seek(kept["streams"][name])
        return kept

    def leave(self) -> None:
        """This role's own part of the model: parameters.npz in its own folder."""
        write_secret(self._checkpoints.folder / PARAMETERS, packed(arrays_of(self._part)))
