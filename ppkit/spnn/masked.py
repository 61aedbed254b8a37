"""The first layer without any multiplication on shares: every holder hides its own X_i theta_i under masks that cancel.

Each holder knows its own X_i and its own theta_i in the clear, so only the sum over holders needs hiding.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numba
import numpy as np
import torch

from ppkit.spnn.fixed_point import FRACTIONAL_BITS
from ppkit.spnn.holders import SERVER, Protocol, check_room
from ppkit.spnn.randomness import Stream

WORD_BITS = (32, 64)
_DTYPES = {32: torch.int32, 64: torch.int64}
Ticket = tuple[int, int]


class MaskReused(ValueError):
    """A mask was asked for twice: the difference of two messages under one mask is X_i (theta_t - theta_s) in the clear."""


class HolderMissing(ValueError):
    """A message did not arrive, so the masks of the others do not cancel."""


class PairMasks:
    """The masks of one holder, each shared with one other holder.

    m_i = sum_(j > i) r_ij - sum_(j < i) r_ji mod 2^w,  so that m_1 + ... + m_k = 0

    r_ij: AES-CTR words from the seed that i and j share, for one ticket (step, batch).
    seeds: {number of the other holder: the Stream that only the two have}.  me: this holder's number.  word_bits: w.
    Guarantee: the masks of any k - 1 holders are jointly uniform to everyone without their seeds, and those of the
    holders outside a coalition are uniform up to their sum; computational (AES-256), for each ticket anew.
    """

    def __init__(self, me: int, seeds: Mapping[int, Stream], *, word_bits: int = 32):
        self._me, self._seeds, self._bits = me, dict(seeds), word_bits
        self._last: Ticket | None = None

    def mask(self, shape: tuple[int, ...], ticket: Ticket) -> torch.Tensor:
        """The mask for one ticket, int32 or int64 of this shape (n, width).

        ticket: (step, batch), both >= 0, larger than the one before (step first).  MaskReused if it is not.
        """
        if self._last is not None and ticket <= self._last:
            raise MaskReused(f"the mask of (step, batch) = {ticket} is spent: tickets only go up, the last was {self._last}; "
                             "two messages under one mask would show X (theta_t - theta_s)")
        self._last = ticket
        mask = None
        for other, seed in self._seeds.items():
            words = _words(seed.derive("mask", *ticket, remember=False), shape, self._bits)
            words = words if other > self._me else words.neg_()
            mask = words if mask is None else mask.add_(words)
        return mask


def unmask(messages: Mapping[str, torch.Tensor], holders: Sequence[str]) -> torch.Tensor:
    """What the server does: add the words of all holders, and read the sum as fixed point.

    2^16 h1 = sum_i words_i mod 2^w, as a signed number

    messages: {holder: words (n, width)}.  holders: all names that take part.
    Returns 2^16 h1 (n, width), int32 or int64.  HolderMissing if a message is not there.
    Drop-out rule: the server then drops the step; all holders go on with the next ticket, and one that is gone for good is
    taken out only by preparing anew without it. The server must not ask for the seed or the mask of a missing holder: its
    message may only be late, and with the mask it would read X_i theta_i in the clear. The words that did arrive are uniform
    and useless to it.
    """
    missing = [name for name in holders if name not in messages]
    if missing:
        raise HolderMissing(f"nothing came from {' and '.join(missing)}: the step is dropped, nobody's mask is given out; "
                            "the next step uses new masks")
    return sum((messages[name] for name in holders[1:]), messages[holders[0]])


class Masked(Protocol):
    """Holder i sends round(2^16 X_i theta_i) + m_i, the server adds; with two holders m_A = r, m_B = -r.

    Rounding comes before masking: a mask can only hide a whole number mod 2^w, the fraction left of an unrounded value
    would travel beside it in the clear.
    word_bits: 32 (|h1| < 2^15 in fixed point) or 64.
    Guarantee: under the paper's model the server's view is k words, uniform but for their sum, which is h1, and holders see
    nothing; the same if the server colludes with up to k - 2 holders: it then also gets the sum over the others.
    Departs from the paper: not in it. It needs what Algorithm 3 and the backward pass need too, that each holder knows its
    own X_i and theta_i; with Algorithm 2 theta_i could be secret from its own holder.
    """

    name = "masked"
    sees = "server: the sum h1 (each holder's words alone are uniform); holders: nothing of each other"
    compute = "k float products; every holder expands k - 1 masks (AES)"

    def __init__(self, holders, *, word_bits: int = 32, **common):
        super().__init__(holders, **common)
        if word_bits not in WORD_BITS:
            raise ValueError(f"word_bits must be one of {WORD_BITS}, got {word_bits!r}")
        self.word_bits = word_bits
        self._batches = 0, 0                     # the step, and the batches it had so far
        self.masks = self._agree_on_seeds()

    def _agree_on_seeds(self) -> list[PairMasks]:
        """Each pair agrees on a seed once: the first draws it and sends it to the second, over a link of their own."""
        seeds: list[dict[int, Stream]] = [{} for _ in self.holders]
        for i, holder in enumerate(self.holders):
            own = self.secrets_of(holder.name)
            for j in range(i + 1, len(self.holders)):
                seed = own.derive("seed for", self.holders[j].name)
                sent = self.transcript.send(holder.name, self.holders[j].name, "seed", seed.key)
                seeds[i][j], seeds[j][i] = seed, Stream(sent)
        return [PairMasks(i, seeds[i], word_bits=self.word_bits) for i in range(len(self.holders))]

    def next_ticket(self) -> Ticket:
        """(step, batch): the step of the transcript and how many batches it had before this one."""
        step, batch = self._batches
        self._batches = (step, batch + 1) if step == self.transcript.step else (self.transcript.step, 1)
        return self.transcript.step, self._batches[1] - 1

    def _forward(self, rows, thetas):
        ticket, received = self.next_ticket(), {}
        for holder, theta, masks in zip(self.holders, thetas, self.masks):
            part = holder.product(theta * 2.0**FRACTIONAL_BITS)
            words = masks.mask(part.shape, ticket)
            room = 2.0 ** (self.word_bits - 1) / len(self.holders) - 1
            if not _add_rounded(part.T.view(-1).numpy(), words.T.view(-1).numpy(), room):
                check_room(holder.name, part.round(), self.word_bits, n_terms=len(self.holders))
            received[holder.name] = self.transcript.send(holder.name, SERVER, "masked X theta", words)
        total = unmask(received, [holder.name for holder in self.holders])
        return self.decoded(total)


def _words(stream: Stream, shape: tuple[int, int], bits: int) -> torch.Tensor:
    """Uniform words of 32 or 64 bits, column by column as products come; two 32-bit words come out of one of 64."""
    n, width = shape
    if bits == 64:
        return stream.words((width, n)).T
    return stream.words((n * width + 1) // 2).view(torch.int32)[: n * width].view(width, n).T


@numba.njit(nogil=True, cache="NUMBA_CACHE_DIR" in os.environ)
def _add_rounded(part, words, room):
    """words += round(part) mod 2^w in one pass, halves to even; False, for a caller that must not send, outside +-room."""
    fits = True
    for i in range(part.size):
        whole = np.rint(part[i])
        fits &= abs(whole) <= room                         # a NaN fits nowhere
        words[i] += words.dtype.type(whole)
    return fits
