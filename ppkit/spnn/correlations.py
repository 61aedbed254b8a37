"""Two parties, the channel between them, and a dealer whose messages to them are written down
too."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from . import ring
from .dealer import Dealer, TruncationPair
from .holders import DEALER, holder_names
from .messages import Transcript
from .randomness import Stream

Shares = list[torch.Tensor]
NAMES = tuple(holder_names(2))


@dataclass(frozen=True)
class Opened:
    """A secret x that both parties know under a mask: seen = x - u is public, and each has its
    share of u."""

    seen: torch.Tensor
    u: Shares

    def t(self) -> Opened:
        """The transpose."""
        return Opened(self.seen.t(), [u.t() for u in self.u])

    def times(self, other: Opened, product: Shares) -> Shares:
        """Shares of the matrix product, without a message; product: the dealer's shares of that of
        the masks.

        (x - u)(y - v) + (x - u) v + u (y - v) + u v = x y: `sharing.beaver_matmul` with masks that
        other products share.
        """
        left = [self.u[0] + self.seen, self.u[1]]
        return [
            w + ring.matmul(u, other.seen) + ring.matmul(self.seen, v)
            for w, u, v in zip(product, left, other.u)
        ]


class Pair:
    """Two parties that open masked values to each other, each message written down.

    transcript: where.  All that is sent between two calls of `next_round` travels at the same time.
    """

    def __init__(self, transcript: Transcript):
        self.transcript, self.next_round = transcript, transcript.next_round

    def open(self, name: str, shares: Shares) -> torch.Tensor:
        """Each party sends its share; both know the sum mod 2^64."""
        return torch.add(*self._exchange(name, shares))

    def open_bits(self, name: str, shares: Shares) -> torch.Tensor:
        """Each party sends its share of packed bits; both know the exclusive or."""
        return torch.bitwise_xor(*self._exchange(name, shares))

    def _exchange(self, name: str, shares: Shares) -> Shares:
        for sender, receiver, share in zip(NAMES, reversed(NAMES), shares):
            self.transcript.send(sender, receiver, name, share)
        return shares


class PairDealer(Dealer):
    """`dealer.Dealer` for two parties, with packed bits beside ring elements, and every offline
    message written down.

    Each party expands its own 32-byte seed, so shares of plainly random values are not sent; what
    depends on them goes to the second party, as what the first one's share leaves over.
    transcript: where the messages are written down, in the phase "offline".  stream: as for
    `Dealer`.
    Guarantee: what the dealer sends to a party is uniform to it (computationally, AES-256). The
    dealer sees no message between the parties and must not collude with one of them.
    Departs from: SecureML (Mohassel and Zhang 2017), whose two servers make their triples together,
    by oblivious transfer or LHE.
    """

    def __init__(self, transcript: Transcript, *, stream: Stream | None = None):
        super().__init__(stream)
        self._transcript = transcript
        for party, name in enumerate(NAMES):
            transcript.send(DEALER, name, "seed", self.seed(party), phase="offline")

    def own_mask(self, party: int, shape: tuple[int, ...]) -> torch.Tensor:
        """A uniform tensor mod 2^64 that one party alone draws from its seed, for a secret that is
        its own."""
        return self._streams(2)[party].words(shape)

    def bits(self, shape: Sequence[int], dtype: torch.dtype) -> Shares:
        """Uniform words of packed bits, one tensor a party: shares of their exclusive or.  dtype:
        torch.int16 or uint8."""
        return [_uniform(stream, shape, dtype) for stream in self._streams(2)]

    def share(self, name: str, value: torch.Tensor) -> Shares:
        """Shares mod 2^64 of numbers (int64) that the dealer has computed."""
        shares = self._fix(value, 2)
        self._send(name, shares[1])
        return shares

    def share_bits(self, name: str, value: torch.Tensor) -> Shares:
        """The same for packed bits, with exclusive or."""
        first = _uniform(self._streams(2)[0], value.shape, value.dtype)
        return [first, self._send(name, value ^ first)]

    def product(self, U: Shares, V: Shares) -> Shares:
        """Shares of the matrix product of two masks, (n, k) and (k, m), each dealt before and
        perhaps in use elsewhere."""
        return self.share("U V", ring.matmul(U[0] + U[1], V[0] + V[1]))

    def truncation_pair(
        self, shape: int | tuple[int, ...], bits: int, n_parties: int = 2
    ) -> TruncationPair:
        """As `Dealer.truncation_pair`."""
        pair = super().truncation_pair(shape, bits, n_parties)
        for name, shares in (("r / 2^f", pair.high), ("top bit of r", pair.top)):
            self._send(name, shares[1])
        return pair

    def _send(self, name: str, share: torch.Tensor) -> torch.Tensor:
        return self._transcript.send(DEALER, NAMES[1], name, share, phase="offline")


def flat(shares: Sequence[Shares]) -> Shares:
    """One vector a party, of several shared tensors."""
    return [torch.cat([each.flatten() for each in of_party]) for of_party in zip(*shares)]


def shaped(shares: Shares, shape: torch.Size) -> Shares:
    """The same numbers in another shape."""
    return [share.view(shape) for share in shares]


def _uniform(stream: Stream, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    size = math.prod(shape)
    words = stream.words(-(-size * dtype.itemsize // 8))
    return words.view(dtype)[:size].reshape(tuple(shape))
