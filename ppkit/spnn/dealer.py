"""Correlated randomness from a dealer who sees no message between the parties: triples and
truncation pairs, sent as seeds and corrections; for two parties packed bits too."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ppkit.spnn import ring
from ppkit.spnn.messages import DEALER, Transcript, holder_names
from ppkit.spnn.randomness import Stream, refuse_forked

Shares = list[Tensor]
NAMES = tuple(holder_names(2))


@dataclass(kw_only=True)
class Once:
    """Something dealt that may mask one secret only.

    ValueError when it is used the second time, RuntimeError in a forked process, which has a copy
    of it.
    """

    _used: bool = field(default=False, init=False, repr=False)
    _process: int = field(default_factory=os.getpid, init=False, repr=False)

    def use(self) -> None:
        """Called by whoever uses it up, before anything is opened."""
        refuse_forked(self, self._process)
        if self._used:
            raise ValueError(
                f"{type(self).__name__} can serve once and was used before: opening two secrets "
                "under one mask gives away their difference"
            )
        self._used = True


@dataclass
class Triple(Once):
    """U, V, W: one share a party; the sums satisfy W = U V (matrix product)."""

    U: list[Tensor]
    V: list[Tensor]
    W: list[Tensor]


@dataclass
class TruncationPair(Once):
    """mask, high, top: one share a party, of a uniform r, of floor(r / 2^bits) and of r's highest
    bit."""

    bits: int
    mask: list[Tensor]
    high: list[Tensor]
    top: list[Tensor]


class Dealer:
    """Hands out shares of random values that satisfy a relation,
    and knows nothing of what they are used for.

    Each party gets one seed (32 bytes, once) and draws its shares from it, in the order of the
    calls; only what the relation fixes (W, say) goes to the last party as a correction. A party's
    seed alone is independent of all secrets; the dealer must not see the messages between the
    parties, nor collude with one of them, or with a server that gets their results: then it could
    unmask them.
    stream: a Stream, or None for one from the operating system's CSPRNG.
    Source: Beaver 1991; seeds instead of shares: Boyle et al. 2019, introduction. zhou2021 (3.3.1)
    lets the two parties make the triples "collaboratively" and does not say how:
    the dealer is this kit's choice.
    """

    def __init__(self, stream: Stream | None = None):
        self._stream = stream if stream is not None else Stream()
        self._parties: list[Stream] = []

    def mask(self, shape: int | tuple[int, ...], n_parties: int = 2) -> list[Tensor]:
        """Shares of a uniform tensor.  No correction."""
        return [stream.words(shape) for stream in self.streams(n_parties)]

    def matmul_triple(self, n: int, k: int, m: int, n_parties: int = 2) -> Triple:
        """U (n, k), V (k, m) uniform and W = U V mod 2^64, in shares.

        The dealer sends 8 n m bytes to the last party, instead of 8 (n k + k m + n m) to each.
        """
        U = self.mask((n, k), n_parties)
        return Triple(U, *self.products(ring.total(U), m, n_parties))

    def matmul_vectors(self, n: int, k: int, m: int, n_parties: int = 2) -> list[Tensor]:
        """`matmul_triple` as it is sent: one vector a party, its U, V and W in a row."""
        sizes = [n * k, k * m, n * m]
        parts = self._in_a_row(sum(sizes[:2]), sizes[2], n_parties)
        U, V, W = ring.total(parts).split(sizes)
        parts[-1][-n * m :] = ring.matmul(U.view(n, k), V.view(k, m)).flatten() - W
        return parts

    def products(self, U: Tensor, m: int, n_parties: int = 2) -> tuple[list[Tensor], list[Tensor]]:
        """Shares of a fresh V (k, m) and of W = U V mod 2^64, for a U (n, k) that the dealer has
        dealt in shares before.

        With V fresh, one U serves for many products of the same secret X, of which X - U is opened
        once.
        """
        V = self.mask((U.shape[1], m), n_parties)
        return V, self._fix(ring.matmul(U, ring.total(V)), n_parties)

    def truncation_pair(
        self, shape: int | tuple[int, ...], bits: int, n_parties: int = 2
    ) -> TruncationPair:
        """r uniform, floor(r / 2^bits) and the highest bit of r (r in [0, 2^64)), in shares; bits 1
        to 62."""
        mask = self.mask(shape, n_parties)
        high, top = _high_and_top(ring.total(mask), bits)
        return TruncationPair(bits, mask, self._fix(high, n_parties), self._fix(top, n_parties))

    def truncation_vectors(self, size: int, bits: int, n_parties: int = 2) -> list[Tensor]:
        """`truncation_pair` of so many numbers as it is sent: one vector a party, its mask, high
        and top in a row."""
        parts = self._in_a_row(size, 2 * size, n_parties)
        mask, drawn = ring.total(parts).split([size, 2 * size])
        parts[-1][size:] = torch.cat(_high_and_top(mask, bits)) - drawn
        return parts

    def streams(self, n_parties: int = 2) -> list[Stream]:
        """Where the parties' shares come from, one Stream a party: for who keeps their positions,
        or hands out their keys, from which each party draws its shares in the order of the
        calls."""
        while len(self._parties) < n_parties:
            self._parties.append(self._stream.derive("party", len(self._parties)))
        return self._parties[:n_parties]

    def _in_a_row(self, n_free: int, n_fixed: int, n_parties: int) -> list[Tensor]:
        """One vector a party: shares of n_free uniform numbers, then of n_fixed that a relation
        fixes, which the last party lacks as yet: zeros."""
        *others, last = self.streams(n_parties)
        parts = [stream.words(n_free + n_fixed) for stream in others]
        zeros = torch.zeros(n_fixed, dtype=torch.int64)
        return [*parts, torch.cat([last.words(n_free), zeros])]

    def _fix(self, value: Tensor, n_parties: int) -> list[Tensor]:
        drawn = [stream.words(tuple(value.shape)) for stream in self.streams(n_parties)[:-1]]
        return [*drawn, ring.minus(value, drawn)]


class TwoPartyDealer(Dealer):
    """`Dealer` for two parties, with packed bits beside ring elements, and every offline
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
        for name, own in zip(NAMES, self.streams()):
            transcript.send(DEALER, name, "seed", own.key, phase="offline")

    def bits(self, shape: Sequence[int], dtype: torch.dtype) -> Shares:
        """Uniform words of packed bits, one tensor a party: shares of their exclusive or.  dtype:
        torch.int16 or uint8."""
        return [_uniform(stream, shape, dtype) for stream in self.streams(2)]

    def share(self, name: str, value: Tensor) -> Shares:
        """Shares mod 2^64 of numbers (int64) that the dealer has computed."""
        shares = self._fix(value, 2)
        self._send(name, shares[1])
        return shares

    def share_bits(self, name: str, value: Tensor) -> Shares:
        """The same for packed bits, with exclusive or."""
        first = _uniform(self.streams(2)[0], value.shape, value.dtype)
        second = value ^ first
        self._send(name, second)
        return [first, second]

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

    def _send(self, name: str, share: Tensor) -> None:
        self._transcript.send(DEALER, NAMES[1], name, share, phase="offline")


def _high_and_top(r: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """floor(r / 2^bits) and the highest bit of r, for r in [0, 2^64)."""
    return (r >> bits) & (2 ** (64 - bits) - 1), (r < 0).long()


def _uniform(stream: Stream, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    size = math.prod(shape)
    return stream.words(-(-size * dtype.itemsize // 8)).view(dtype)[:size].reshape(tuple(shape))
