"""Activations of straight pieces on shares, and their slopes: comparisons, then products of a
shared bit with shared numbers.

    piecewise sigmoid   f(z) = 0 for z < -1/2, z + 1/2 between, 1 for z >= 1/2;    slope 1 between,
    else 0
    ReLU                f(z) = 0 for z < 0, z from there on;                       slope 1 from
    there on, else 0

Both are s z + constants times shared bits, where the slope s is itself a shared bit. A shared bit s
that is to be a number:
the dealer has shared a random bit q both as a bit and as a number; open e = s xor q, then s = e +
(1 - 2e) q. For s z take z = c - r from the comparison, whose c both know: s z = e z + (1 - 2e)(c q
- r q), with r q shared by the dealer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from .comparison import Masks, below, deal_masks
from .correlations import Pair, PairDealer, Shares
from .dealer import Once
from .fixed_point import FRACTIONAL_BITS

ONE = 1 << FRACTIONAL_BITS
THRESHOLDS = {"piecewise": (-ONE // 2, ONE // 2), "relu": (0,)}


@dataclass(frozen=True)
class GateMasks:
    """What is dealt for one activation of n numbers: masks of the comparison, and of the bits that
    become numbers.

    flips: packed random bits q, one row a threshold.  numbers: shares mod 2^64 of the same bits,
    (T, n).
    with_r: of q_0 r.  u, with_u: a second mask for the backward pass and shares of q_0 u, None
    where there is none.
    """

    kind: str
    comparison: Masks
    flips: Shares
    numbers: Shares
    with_r: Shares
    u: Shares | None
    with_u: Shares | None


@dataclass
class Slope(Once):
    """The shared slope s of each number, in {0, 1}, ready to multiply one more vector: e is public,
    q is shared."""

    e: torch.Tensor
    u: Shares | None
    with_u: Shares | None
    q: Shares

    def times(self, pair: Pair, shares: Shares) -> Shares:
        """Shares of s d for shares of d: (n,) each.  Opens d - u, 8 bytes a number and party, one
        round.

        ValueError the second time, or without the masks for it.
        """
        if self.u is None:
            raise ValueError(
                "this gate was dealt no mask for a backward product: deal_gate(..., backward=True)"
            )
        self.use()
        seen = pair.open("delta + u", [d + u for d, u in zip(shares, self.u)])
        pair.next_round()
        return [
            _times(self.e, d, seen, q, product)
            for d, q, product in zip(shares, self.q, self.with_u)
        ]


def deal_gate(dealer: PairDealer, n: int, kind: str, *, backward: bool) -> GateMasks:
    """Masks for one activation of n numbers.  kind: "piecewise" or "relu".  backward: whether its
    slope will be used."""
    if kind not in THRESHOLDS:
        raise ValueError(f"kind must be one of {', '.join(THRESHOLDS)}, got {kind!r}")
    n_thresholds = len(THRESHOLDS[kind])
    r, comparison = deal_masks(dealer, n, n_thresholds)
    flips = dealer.bits((n_thresholds, -(-n // 8)), torch.uint8)
    q = _unpacked(flips[0] ^ flips[1], n).long()
    numbers, with_r = dealer.share("q", q), dealer.share("q r", q[0] * r)
    u = dealer.mask(n) if backward else None
    with_u = dealer.share("q u", q[0] * (u[0] + u[1])) if backward else None
    return GateMasks(kind, comparison, flips, numbers, with_r, u, with_u)


def activate(pair: Pair, shares: Shares, masks: GateMasks) -> tuple[Shares, Slope]:
    """Shares of f(z), and of its slope, from shares of z with FRACTIONAL_BITS; exact, no rounding.

    shares: (n,) int64 each.  masks: of `deal_gate`, fresh.  Returns shares (n,) and the slope.
    Four rounds, 18 1/4 bytes a number and party for the piecewise sigmoid, 14 1/8 for ReLU.
    Guarantee: as `comparison.below`; the opened bits are masked by random bits that serve once.
    Source: SecureML (Mohassel and Zhang 2017), which evaluates the same functions by garbled
    circuits.
    """
    c, bits = below(pair, shares, THRESHOLDS[masks.kind], masks.comparison)
    if masks.kind == "relu":
        rows = [(~word if party == 0 else word)[None] & 1 for party, word in enumerate(bits)]
    else:
        rows = [torch.stack([(word ^ (word >> 4)) & 1, (word >> 4) & 1]) for word in bits]
    flipped = pair.open_bits("s ^ q", [_packed(row) ^ mask for row, mask in zip(rows, masks.flips)])
    pair.next_round()
    e = _unpacked(flipped, len(c)).bool()
    made = []
    for party, (z, q, with_r) in enumerate(zip(shares, masks.numbers, masks.with_r)):
        out = _times(e[0], z, c, q[0], with_r)
        if masks.kind == "piecewise":  # + s/2 + 1 - [z < 1/2]
            slope, under = (
                torch.where(flip, int(party == 0) - bit, bit) for flip, bit in zip(e, q)
            )
            out += slope * (ONE // 2) - under * ONE
            out += ONE if party == 0 else 0
        made.append(out)
    return made, Slope(e[0], masks.u, masks.with_u, [q[0] for q in masks.numbers])


def _times(
    e: torch.Tensor, x: torch.Tensor, seen: torch.Tensor, q: torch.Tensor, with_mask: torch.Tensor
) -> torch.Tensor:
    """One party's share of s x = e x + (1 - 2e) q x, where q x = seen q - (mask q)."""
    product = seen * q - with_mask
    return torch.where(e, x - product, product)


def _packed(bits: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.packbits(bits.numpy(), axis=1))


def _unpacked(words: torch.Tensor, n: int) -> torch.Tensor:
    return torch.from_numpy(np.unpackbits(words.numpy(), axis=1, count=n))
