"""The first layer without any multiplication on shares: every holder hides its own X_i theta_i
under masks that cancel, a pairwise-masked sum.

Each holder knows its own X_i and its own theta_i in the clear, so only the sum over holders needs
hiding.
"""

from collections.abc import Mapping
from itertools import combinations

import torch
from torch import Tensor

from ppkit.spnn.fixed_point import FRACTIONAL_BITS
from ppkit.spnn.messages import SERVER, Receive, Send, seed_from
from ppkit.spnn.party import WORD_BITS, Holder, Server, check_room
from ppkit.spnn.randomness import Seekable, Stream
from ppkit.spnn.ring import total
from ppkit.spnn.simulator import Simulator

NAME = "masked X theta"


class MaskReused(ValueError):
    """A mask was asked for twice: the difference of two messages under one mask is
    X_i (theta_t - theta_s) in the clear."""


class PairMasks(Seekable):
    """The masks of one holder, each shared with one other holder.

    m_i = sum_(j > i) r_ij - sum_(j < i) r_ji mod 2^32,  so that m_1 + ... + m_k = 0

    r_ij: AES-CTR words from the seed that i and j share, for one step.
    seeds: {number of the other holder: the Stream that only the two have}.  me: this holder's
    number.
    Guarantee: the masks of any k - 1 holders are jointly uniform to everyone without their seeds,
    and those of the holders outside a coalition are uniform up to their sum; computational
    (AES-256), for each step anew.
    """

    def __init__(self, me: int, seeds: Mapping[int, Stream]):
        self._me, self._seeds, self._position = me, dict(seeds), 0

    @property
    def position(self) -> int:
        """The last step of which a mask was given out; 0 before the first."""
        return self._position

    def seek(self, position: int) -> None:
        """Spend all masks up to this step, as if they had been given out.  MaskReused for a step
        before the last one."""
        if position < self.position:
            raise MaskReused(
                f"masks go forward only: step {self.position} is spent, got {position}"
            )
        self._position = position

    def mask(self, shape: tuple[int, int]) -> Tensor:
        """The mask of the next step, from step 1 on, which all holders reach together: int32 of
        this shape (n, width), which lies column by column as products do."""
        self._position += 1
        n, width = shape
        parts = []
        for other, seed in self._seeds.items():
            step = seed.derive("mask", self.position, 0, remember=False)
            words = step.words((n * width + 1) // 2).view(torch.int32)  # two come out of one of 64
            part = words.as_strided(shape, (1, n))
            parts.append(part if other > self._me else part.neg_())
        return total(parts)


class _MaskedHolder(Holder):
    def connect(self):
        """Each pair agrees on a seed once: the first draws it and sends it to the second, over a
        link of their own."""
        seeds = {}
        for i, other in enumerate(self.names):
            if i > self.me:
                seeds[i] = self.stream.derive("seed for", other)
                yield Send(other, "seed", seeds[i].key)
        for i, other in enumerate(self.names[: self.me]):
            seeds[i] = seed_from(other, (yield Receive(other, "seed")))
        self.masks = PairMasks(self.me, seeds)
        self.streams = {"masks": self.masks}

    def begin(self, rows, theta):
        part = self.product(theta * 2.0**FRACTIONAL_BITS).round_()
        check_room(self.name, part, WORD_BITS, n_terms=len(self.names))
        return self._masked(part)

    def _masked(self, part):
        words = self.masks.mask(part.shape).add_(part.to(torch.int32))
        yield Send(SERVER, NAME, words)


class _MaskedServer(Server):
    """Adds the words of all holders, and reads the sum as fixed point:
    2^16 h1 = sum_i words_i mod 2^32, as a signed number.

    Drop-out rule: where a message is missing the step is dropped, and all holders go on with the
    next step; a holder that is gone for good is taken out only by preparing anew without it. The
    server must not ask for the seed or the mask of a missing holder: its message may only be late,
    and with the mask it would read X_i theta_i in the clear. The words that did arrive are uniform
    and useless to it.
    """

    summed = NAME


class Masked(Simulator):
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
    holder_class, server_class = _MaskedHolder, _MaskedServer

    @classmethod
    def messages(cls, names):
        return [(*pair, "seed") for pair in combinations(names, 2)] + [
            (name, SERVER, NAME) for name in names
        ]
