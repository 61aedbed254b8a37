"""Correlated randomness from a dealer who sees no message: triples and truncation pairs, sent as seeds and corrections."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from . import ring
from .randomness import Stream, refuse_forked

Open = Callable[[str, list[torch.Tensor]], torch.Tensor]
Rows = slice | torch.Tensor | Sequence[int]


@dataclass(kw_only=True)
class Once:
    """Something dealt that may mask one secret only.

    ValueError when it is used the second time, RuntimeError in a forked process, which has a copy of it.
    """
    _used: bool = field(default=False, init=False, repr=False)
    _process: int = field(default_factory=os.getpid, init=False, repr=False)

    def use(self) -> None:
        """Called by whoever uses it up, before anything is opened."""
        refuse_forked(self, self._process)
        if self._used:
            raise ValueError(f"{type(self).__name__} can serve once and was used before: opening two secrets under one mask "
                             "gives away their difference")
        self._used = True


@dataclass
class _Dealt(Once):
    """n_bytes: what the dealer sends to each party, beside the seed it has."""
    n_bytes: tuple[int, ...]


@dataclass
class DataMask(Once):
    """U for a whole data set X: X - U is opened once, and serves for all products of X's rows from then on.

    shares: one of U a party.  E: X - U, which all parties know, once `open` was called; it belongs to this U alone.
    """
    shares: list[torch.Tensor]
    E: torch.Tensor | None = field(default=None, init=False)

    def open(self, x_shares: Sequence[torch.Tensor], open: Open) -> torch.Tensor:
        """E = open("X - U", shares of X - U).  ValueError the second time, or for shares of another number or shape."""
        if [share.shape for share in x_shares] != [share.shape for share in self.shares]:
            raise ValueError(f"U has shares of shapes {[tuple(share.shape) for share in self.shares]}, "
                             f"got {[tuple(share.shape) for share in x_shares]}")
        self.use()
        self.E = open("X - U", [x - u for x, u in zip(x_shares, self.shares)])
        return self.E


@dataclass
class Triple(_Dealt):
    """U, V, W: one share a party; the sums satisfy W = U V (matrix product, or entry by entry).

    data_mask, rows: where U is rows of a DataMask, which one and which rows; None where U is this triple's own.
    """
    U: list[torch.Tensor]
    V: list[torch.Tensor]
    W: list[torch.Tensor]
    data_mask: DataMask | None = None
    rows: Rows | None = None

    @property
    def E(self) -> torch.Tensor | None:
        """X - U of these rows, where it was opened once for the data set; else None."""
        return None if self.data_mask is None or self.data_mask.E is None else self.data_mask.E[self.rows]


@dataclass
class TruncationPair(_Dealt):
    """mask, high, top: one share a party, of a uniform r, of floor(r / 2^bits) and of r's highest bit."""
    bits: int
    mask: list[torch.Tensor]
    high: list[torch.Tensor]
    top: list[torch.Tensor]


class Dealer:
    """Hands out shares of random values that satisfy a relation, and knows nothing of what they are used for.

    Each party gets one seed (32 bytes, once) and draws its shares from it, in the order of the calls; only what the
    relation fixes (W, say) goes to the last party as a correction. A party's seed alone is independent of all secrets;
    the dealer must not see the messages between the parties, nor collude with one of them, or with a server that gets their
    results: then it could unmask them.
    stream: a Stream, or None for one from the operating system's CSPRNG.
    Source: Beaver 1991; seeds instead of shares: Boyle et al. 2019, introduction. zhou2021 (3.3.1) lets the two parties
    make the triples "collaboratively" and does not say how: the dealer is this kit's choice.
    """

    def __init__(self, stream: Stream | None = None):
        self._stream = stream if stream is not None else Stream()
        self._parties: list[Stream] = []

    def seed(self, party: int, n_parties: int = 2) -> bytes:
        """The 32 bytes from which party 0, 1, ... draws its shares: `Stream(seed)`, in the order of the calls."""
        return self._streams(n_parties)[party].key

    def mask(self, shape: int | tuple[int, ...], n_parties: int = 2) -> list[torch.Tensor]:
        """Shares of a uniform tensor.  No correction."""
        return [stream.words(shape) for stream in self._streams(n_parties)]

    def data_mask(self, n: int, k: int, n_parties: int = 2) -> DataMask:
        """The U (n, k) of a data set, of which only X - U is opened, once.  No correction."""
        return DataMask(self.mask((n, k), n_parties))

    def matmul_triple(self, n: int, k: int, m: int, n_parties: int = 2, *, U: DataMask | None = None,
                      rows: Rows = slice(None)) -> Triple:
        """U (n, k), V (k, m) uniform and W = U V mod 2^64, in shares.

        U: the DataMask of a data set, of which the rows are used again, for the same secret X under the same X - U; V is
        fresh. Such a triple multiplies nothing but those rows of that data set.
        The dealer sends 8 n m bytes to the last party, instead of 8 (n k + k m + n m) to each.
        """
        if U is None:
            shares = self.mask((n, k), n_parties)
        else:
            shares = [share[rows] for share in U.shares]
            if len(shares) != n_parties or any(share.shape != (n, k) for share in shares):
                raise ValueError(f"U must be {n_parties} shares of shape ({n}, {k}), "
                                 f"got {[tuple(share.shape) for share in shares]}")
        V = self.mask((k, m), n_parties)
        W = self._fix(ring.matmul(total(shares), total(V)), n_parties)
        return Triple(self._to_last(8 * n * m, n_parties), shares, V, W, U, rows)

    def product_triple(self, shape: int | tuple[int, ...], n_parties: int = 2) -> Triple:
        """U, V uniform and W = U V entry by entry, in shares."""
        U, V = self.mask(shape, n_parties), self.mask(shape, n_parties)
        return Triple(self._to_last(8 * U[0].numel(), n_parties), U, V, self._fix(total(U) * total(V), n_parties))

    def truncation_pair(self, shape: int | tuple[int, ...], bits: int, n_parties: int = 2) -> TruncationPair:
        """r uniform, floor(r / 2^bits) and the highest bit of r (r in [0, 2^64)), in shares; bits 1 to 62."""
        if not 1 <= bits <= 62:
            raise ValueError(f"bits must be 1 to 62, got {bits}")
        mask = self.mask(shape, n_parties)
        r = total(mask)
        high, top = (r >> bits) & (2 ** (64 - bits) - 1), (r < 0).long()
        return TruncationPair(self._to_last(16 * r.numel(), n_parties), bits, mask, self._fix(high, n_parties),
                              self._fix(top, n_parties))

    def _streams(self, n_parties: int) -> list[Stream]:
        if n_parties < 2:
            raise ValueError(f"n_parties must be >= 2, got {n_parties}")
        while len(self._parties) < n_parties:
            self._parties.append(self._stream.derive("party", len(self._parties)))
        return self._parties[:n_parties]

    def _fix(self, value: torch.Tensor, n_parties: int) -> list[torch.Tensor]:
        drawn = [stream.words(tuple(value.shape)) for stream in self._streams(n_parties)[:-1]]
        return [*drawn, minus(value, drawn)]

    @staticmethod
    def _to_last(n_bytes: int, n_parties: int) -> tuple[int, ...]:
        return (0,) * (n_parties - 1) + (n_bytes,)


def total(shares: Sequence[torch.Tensor]) -> torch.Tensor:
    """The sum of int64 tensors mod 2^64: what shares reveal."""
    result = shares[0].clone()
    for share in shares[1:]:
        result += share
    return result


def minus(value: torch.Tensor, shares: Sequence[torch.Tensor]) -> torch.Tensor:
    """The share that makes the sum with these shares a value: value - total(shares) mod 2^64."""
    result = value - shares[0]
    for share in shares[1:]:
        result -= share
    return result
