"""In which order the rows are gone through: as they lie, or reshuffled every epoch by a secret that
holders share.
"""

import torch

from ppkit.spnn.messages import seed_from
from ppkit.spnn.randomness import Stream
from spnn_system.roles.party import Party


class RowOrder:
    """The batches of every epoch.

    key: 32 bytes, or None for rows in the order of the files. Epoch e is then the order in which
    its 64-bit words of Stream(key) sort: every holder finds the same, and who has not the key
    nothing (computational, as the Stream).
    """

    def __init__(self, n_rows: int, batch: int, key: bytes | None = None):
        self._n, self._batch, self._key = n_rows, batch, key

    def epoch(self, number: int) -> list[torch.Tensor]:
        """The batches of one epoch, from 0: int64 row numbers each."""
        if self._key is None:
            return self.in_turn(self._n)
        words = Stream(self._key).derive("epoch", number).words(self._n)
        return list(words.argsort(stable=True).split(self._batch))

    def in_turn(self, n_rows: int) -> list[torch.Tensor]:
        """Batches of consecutive rows."""
        return list(torch.arange(n_rows).split(self._batch))


def agreed_order(party: Party) -> RowOrder:
    """The order in which all go through the rows who are to know it; a secret one hangs on a key
    that the first holder draws and sends.

    Without the key, as the files have the rows: where the config says so, and at a dealer whose
    triples are for no rows of a data set.
    """
    config, role, key = party.config, party.role, None
    first, *others = config.names
    is_told = [*others, *(["dealer"] if config.protocol.form == "lean" else [])]
    if config.training.order == "reshuffled":
        if role == first:
            key = party.root.derive("order of the rows").key
            for receiver in is_told:
                party.send(receiver, "order", key)
        elif role in is_told:
            key = seed_from(first, party.receive(first, "order")).key
    return RowOrder(config.training.train_rows, config.training.batch, key)
