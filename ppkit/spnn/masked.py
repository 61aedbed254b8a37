"""The first layer without any multiplication on shares: every holder hides its own X_i theta_i
under masks that cancel.

Each holder knows its own X_i and its own theta_i in the clear, so only the sum over holders needs
hiding.
"""

import os
import sys
from collections.abc import Mapping
from itertools import combinations

import numba
import numpy as np
import torch

from .fixed_point import FRACTIONAL_BITS
from .in_process import Protocol
from .messages import SERVER, Receive, Send, seed_from
from .randomness import Stream
from .sides import WORD_BITS, Holder, Server, check_room

Ticket = tuple[int, int]


class MaskReused(ValueError):
    """A mask was asked for twice: the difference of two messages under one mask is
    X_i (theta_t - theta_s) in the clear."""


class PairMasks:
    """The masks of one holder, each shared with one other holder.

    m_i = sum_(j > i) r_ij - sum_(j < i) r_ji mod 2^32,  so that m_1 + ... + m_k = 0

    r_ij: AES-CTR words from the seed that i and j share, for one ticket (step, batch).
    seeds: {number of the other holder: the Stream that only the two have}.  me: this holder's
    number.
    Guarantee: the masks of any k - 1 holders are jointly uniform to everyone without their seeds,
    and those of the holders outside a coalition are uniform up to their sum; computational
    (AES-256), for each ticket anew.
    """

    def __init__(self, me: int, seeds: Mapping[int, Stream]):
        self._me, self._seeds = me, dict(seeds)
        self._last: Ticket = (0, -1)

    @property
    def position(self) -> int:
        """The last step of which a mask was given out; 0 before the first."""
        return self._last[0]

    def seek(self, position: int) -> None:
        """Spend all masks up to this step, as if they had been given out.  MaskReused for a step
        before the last one."""
        if position < self.position:
            raise MaskReused(
                f"masks go forward only: step {self.position} is spent, got {position}"
            )
        self._last = position, sys.maxsize

    def mask(self, shape: tuple[int, ...], ticket: Ticket | None = None) -> torch.Tensor:
        """The mask for one ticket, int32 of this shape (n, width).

        ticket: (step, batch), both >= 0, larger than the one before (step first); MaskReused if it
        is not. None: the first batch of the next step, from step 1 on, which all holders reach
        together.
        """
        if ticket is None:
            ticket = self.position + 1, 0
        if ticket <= self._last:
            raise MaskReused(
                f"the mask of (step, batch) = {ticket} is spent: tickets only go up, the last was "
                f"{self._last}; two messages under one mask would show X (theta_t - theta_s)"
            )
        self._last = ticket
        mask = None
        for other, seed in self._seeds.items():
            words = _words(seed.derive("mask", *ticket, remember=False), shape)
            words = words if other > self._me else words.neg_()
            mask = words if mask is None else mask.add_(words)
        return mask


class _MaskedHolder(Holder):
    def connect(self):
        """Each pair agrees on a seed once: the first draws it and sends it to the second, over a
        link of their own."""
        me, own, seeds = self.names.index(self.name), self._stream or Stream(), {}
        for i, other in enumerate(self.names):
            if i > me:
                seeds[i] = own.derive("seed for", other)
                yield Send(other, "seed", seeds[i].key)
        for i, other in enumerate(self.names[:me]):
            seeds[i] = seed_from(other, (yield Receive(other, "seed")))
        self.masks = PairMasks(me, seeds)
        self.streams = {"masks": self.masks}

    def begin(self, rows, theta, ticket=None):
        self.take(rows)
        part = self.product(theta * 2.0**FRACTIONAL_BITS)
        words, k = self.masks.mask(part.shape, ticket), len(self.names)
        if not _add_rounded(part.T.numpy(), words.T.numpy(), 2.0 ** (WORD_BITS - 1) / k - 1):
            check_room(self.name, part.round(), WORD_BITS, n_terms=k)
        return self.to_server("masked X theta", words)


class _MaskedServer(Server):
    """Adds the words of all holders, and reads the sum as fixed point:
    2^16 h1 = sum_i words_i mod 2^32, as a signed number.

    Drop-out rule: where a message is missing the step is dropped, and all holders go on with the
    next ticket; a holder that is gone for good is taken out only by preparing anew without it. The
    server must not ask for the seed or the mask of a missing holder: its message may only be late,
    and with the mask it would read X_i theta_i in the clear. The words that did arrive are uniform
    and useless to it.
    """

    def step(self, n):
        return self.decoded((yield from self.sum_of("masked X theta", n, torch.int32)))


class Masked(Protocol):
    """Holder i sends round(2^16 X_i theta_i) + m_i mod 2^32, the server adds;
    with two holders m_A = r, m_B = -r.

    Rounding comes before masking: a mask can only hide a whole number mod 2^32, the fraction left
    of an unrounded value would travel beside it in the clear. |h1| < 2^15.
    Guarantee: under the paper's model the server's view is k words, uniform but for their sum,
    which is h1, and holders see nothing; the same if the server colludes with up to k - 2 holders:
    it then also gets the sum over the others.
    Departs from the paper: not in it. It needs what Algorithm 3 and the backward pass need too,
    that each holder knows its own X_i and theta_i; with Algorithm 2 theta_i could be secret from
    its own holder.
    """

    name = "masked"
    sees = (
        "server: the sum h1 (each holder's words alone are uniform); holders: nothing of each other"
    )
    compute = "k float products; every holder expands k - 1 masks (AES)"
    sides = _MaskedHolder, _MaskedServer, None

    @classmethod
    def messages(cls, names, truncation=None):
        return [(*pair, "seed") for pair in combinations(names, 2)] + [
            (name, SERVER, "masked X theta") for name in names
        ]

    _batches = 0, -1  # the step, and the number of its last batch

    def _begin(self, rows, thetas):
        step, before = self.transcript.step, self._batches
        self._batches = ticket = step, before[1] + 1 if before[0] == step else 0
        return {
            holder.name: holder.begin(rows, theta, ticket)
            for holder, theta in zip(self.holders, thetas)
        }


def _words(stream: Stream, shape: tuple[int, int]) -> torch.Tensor:
    """Uniform words of 32 bits, column by column as products come; two come out of one of 64."""
    n, width = shape
    return stream.words((n * width + 1) // 2).view(torch.int32).as_strided(shape, (1, n))


@numba.njit(nogil=True, cache="NUMBA_CACHE_DIR" in os.environ)
def _add_rounded(part, words, room):
    """words += round(part) mod 2^w in one pass, halves to even; False, for a caller that must not
    send, outside +-room."""
    parts, sums, fits = part.reshape(-1), words.reshape(-1), True
    for i in range(parts.size):
        whole = np.rint(parts[i])
        fits &= abs(whole) <= room  # a NaN fits nowhere
        sums[i] += sums.dtype.type(whole)
    return fits
