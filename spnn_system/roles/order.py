"""In which order the rows are gone through: as they lie, or reshuffled every epoch by a secret that holders share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from ppkit.spnn.holders import seed_from
from ppkit.spnn.randomness import Stream

if TYPE_CHECKING:
    from spnn_system.roles.part import Part


class Order:
    """The batches of every epoch.

    key: 32 bytes, or None for rows in the order of the files. Epoch e is then the order in which its 64-bit words of
    Stream(key) sort: every holder finds the same, and who has not the key nothing (computational, as the Stream).
    """

    def __init__(self, n_rows: int, batch: int, key: bytes | None = None):
        self._n, self._batch, self._key = n_rows, batch, key

    @classmethod
    def agreed(cls, part: Part, n_rows: int, batch: int) -> Order:
        """At a holder: the first draws the key where one is needed, and sends it to the others (and `for_dealer`)."""
        config, key = part.config, None
        if config.training.order == "reshuffled":
            first, *others = config.names
            if part.role == first:
                key = part.root.derive("order of the rows").key
                for receiver in [*others, *(["dealer"] if _dealer_needs(config) else [])]:
                    part.send(receiver, "order", key)
            else:
                key = seed_from(first, part.receive(first, "order")).key
        return cls(n_rows, batch, key)

    @classmethod
    def for_dealer(cls, part: Part, n_rows: int, batch: int) -> Order:
        """At the dealer, which gets the key only where triples are for rows of a data set."""
        key = seed_from(part.config.names[0], part.receive(part.config.names[0], "order")).key if _dealer_needs(part.config) else None
        return cls(n_rows, batch, key)

    def epoch(self, number: int) -> list[torch.Tensor]:
        """The batches of one epoch, from 0: int64 row numbers each."""
        if self._key is None:
            return self.in_turn(self._n)
        words = Stream(self._key).derive("epoch", number).words(self._n)
        return list(words.argsort(stable=True).split(self._batch))

    def in_turn(self, n_rows: int) -> list[torch.Tensor]:
        """Batches of consecutive rows."""
        return list(torch.arange(n_rows).split(self._batch))

    def left(self, part: Part, epoch: int) -> Iterator[torch.Tensor]:
        """The batches of an epoch that a part has not been through; its step counts them."""
        batches = self.epoch(epoch)
        for number in part.steps():
            yield batches[number]


def _dealer_needs(config) -> bool:
    return config.training.order == "reshuffled" and config.protocol.form == "lean"
