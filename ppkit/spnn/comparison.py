"""Which of two shared numbers is larger, and activations made of that, without seeing either: a
masked opening, then a public number against shared bits.

To learn shares of [x < t], the parties open c = x + r, r uniform and known to nobody.
With u = c - t, x - t = u - r, and the sign of a difference is the two top bits and a borrow:

    [x < t] = u_63 xor r_63 xor [u mod 2^63 < r mod 2^63]

u is public and the dealer has shared the bits of r, so the borrow is a circuit over
(g, p) = (borrow arises, borrow passes) that folds four neighbours into one:
    g = g3 + p3 g2 + p3 p2 g1 + p3 p2 p1 g0 and p = p3 p2 p1 p0 over GF(2).
64 positions become 16, 4, 1. In the first fold p_i = r_i + not u_i and g_i = (not u_i) r_i, so
products of r's bits from the dealer make it local; in the other two g_i and p_i are opened under
masks a_i, b_i, whose products the dealer has shared. Words are packed: one operation serves all
positions of a fold, both thresholds and all records.

From comparisons come activations of straight pieces and their slopes, by products of a shared bit
with shared numbers:

    piecewise sigmoid   f(z) = 0 for z < -1/2, z + 1/2 between, 1 for z >= 1/2;  slope 1 between
    ReLU                f(z) = 0 for z < 0, z from there on;                     slope 1 from there

Both are s z + constants times shared bits, where the slope s is itself a shared bit. A shared bit s
becomes a number thus: the dealer has shared a random bit q both as a bit and as a number; open
e = s xor q, then s = e + (1 - 2e) q. For s z take z = c - r from the comparison, whose c both know:
s z = e z + (1 - 2e)(c q - r q), with r q shared by the dealer.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ppkit.spnn.dealer import Once, Shares, TwoPartyDealer
from ppkit.spnn.fixed_point import FRACTIONAL_BITS
from ppkit.spnn.sharing import TwoParties

ONE = 1 << FRACTIONAL_BITS
THRESHOLDS = {"piecewise": (-ONE // 2, ONE // 2), "relu": (0,)}

# Sets of four neighbouring positions, as bits.
_SETS = range(1, 16)
_ABOVE = (0b1110, 0b1100, 0b1000, 0)  # of position i: the positions above it
_SEVERAL = [s for s in _SETS if s.bit_count() > 1]
# a_i times the product of b over a set above i
_WITH_A = [(i, s) for i, above in enumerate(_ABOVE) for s in _SETS if s & ~above == 0]
_LANES = 0b0001_0001  # the last fold: one bit for each threshold
_TOP = torch.iinfo(torch.int64).min  # the highest bit alone


@dataclass
class FoldMasks:
    """For one fold of two parties: shares of the masks a of g and b of p, and of the products of
    their four members."""

    a: Shares
    b: Shares
    products: Shares

    def known(self, party: int, members) -> dict:
        """One party's shares: of the product of b over a set, and of a_i times it, by (i, set)."""
        of_a, of_b = members(self.a[party]), members(self.b[party])
        known = dict(zip([*_SEVERAL, *_WITH_A], self.products[party]))
        for i in range(4):
            known[1 << i] = of_b[i]
            known[i, 0] = of_a[i]
        return known


@dataclass
class Masks(Once):
    """What two parties are dealt for one comparison of n numbers with one or two thresholds.

    r: shares mod 2^64 of the mask.  top: of its highest bit.  bits: of all products of its other
    bits in fours, (15, n).
    folds: for the second and the third fold.
    """

    r: Shares
    top: Shares
    bits: Shares
    folds: list[FoldMasks]


def deal_masks(dealer: TwoPartyDealer, n: int, n_thresholds: int) -> tuple[Tensor, Masks]:
    """Masks to compare n numbers with 1 or 2 thresholds each.  Returns r, which only the dealer
    has, and the masks."""
    shares = dealer.mask(n)
    r = torch.add(*shares)
    products = _products(_planes(r & ~_TOP))
    bits = dealer.share_bits("bits of r", torch.stack([products[s] for s in _SETS]))
    top = dealer.share_bits("top bit of r", (r >> 63).to(torch.uint8) & _LANES)
    second = _deal_fold(dealer, (n_thresholds, n), torch.int16, _second)
    third = _deal_fold(dealer, (n,), torch.uint8, _third)
    return r, Masks(shares, top, bits, [second, third])


def below(
    pair: TwoParties, shares: Shares, thresholds: tuple[int, ...], masks: Masks
) -> tuple[Tensor, Shares]:
    """Shares of the bits [x < t], exact for every x with x - t in [-2^63, 2^63).

    shares: of x, (n,) int64.  thresholds: as many ring elements as the masks were dealt for.
    masks: fresh.
    Returns c = x + r, which both parties now know, and shares (exclusive or) of uint8 words: bit 0
    is [x < t_0], bit 4 [x < t_1]; the other bits mean nothing.
    Three rounds; 8 + 4 len(thresholds) + 2 bytes a number from each party.
    ValueError if the masks were used before.
    Guarantee: every opened word is the sum of something and a mask that is uniform, used here only,
    and of which each party has one share: what a party receives is uniform whatever x is.
    Semi-honest parties, a dealer in league with none.
    Source: Beaver 1991 (circuit randomisation); the masked opening as in Catrina and de Hoogh 2010.
    """
    masks.use()
    c = pair.open("x + r", [x + r for x, r in zip(shares, masks.r)])
    pair.next_round()
    u = torch.stack([c - t for t in thresholds])
    # Position 63 is left out: no borrow arises there, any passes.
    public = _products(_planes(~u | _TOP))
    of_g = {}
    for s in _SETS:
        lowest = s & -s
        of_g[s] = public[_ABOVE[lowest.bit_length() - 1] & ~s | lowest]
    known = [dict(zip(_SETS, rows)) for rows in masks.bits]
    g, p = _sums(of_g, known), _passes(public, known)
    for fold, members in zip(masks.folds, (_second, _third)):
        seen_g = pair.open_bits("g + a", [x ^ m for x, m in zip(g, fold.a)])
        seen_p = pair.open_bits("p + b", [x ^ m for x, m in zip(p, fold.b)])
        pair.next_round()
        known = [fold.known(party, members) for party in (0, 1)]
        public = _products(members(seen_p))
        g, p = _borrows(members(seen_g), public, known), _passes(public, known)
    signs = torch.zeros_like(g[0])
    for lane, word in enumerate(u):
        signs |= ((word >> 63) & 1).to(torch.uint8) << 4 * lane
    return c, [g[0] ^ masks.top[0] ^ signs, g[1] ^ masks.top[1]]


@dataclass
class ActivationMasks:
    """What two parties are dealt for one activation of n numbers.

    kind: "piecewise" or "relu".  flips: packed random bits q, one row a threshold.
    numbers: shares mod 2^64 of the same bits, (T, n).  with_r: of q_0 r.
    u, with_u: a second mask for the backward pass and shares of q_0 u; empty where there is none.
    """

    kind: str
    comparison: Masks
    flips: Shares
    numbers: Shares
    with_r: Shares
    u: Shares
    with_u: Shares


@dataclass
class Slope(Once):
    """The shared slope s of each number, in {0, 1}, ready to multiply one more vector: e is public,
    q_0 is shared in the masks."""

    e: Tensor
    masks: ActivationMasks

    def times(self, pair: TwoParties, shares: Shares) -> Shares:
        """Shares of s d for shares of d: (n,) each.  Opens d - u, 8 bytes a number and party, one
        round.

        ValueError the second time.
        """
        self.use()
        seen = pair.open("delta + u", [d + u for d, u in zip(shares, self.masks.u)])
        pair.next_round()
        return [
            _times(self.e, d, seen, q[0], product)
            for d, q, product in zip(shares, self.masks.numbers, self.masks.with_u)
        ]


def deal_activation(
    dealer: TwoPartyDealer, n: int, kind: str, *, backward: bool
) -> ActivationMasks:
    """What is dealt for one activation of n numbers: masks of the comparison, and of the bits that
    become numbers.

    kind: "piecewise" or "relu".  backward: whether its slope will be used.
    """
    n_thresholds = len(THRESHOLDS[kind])
    r, comparison = deal_masks(dealer, n, n_thresholds)
    flips = dealer.bits((n_thresholds, -(-n // 8)), torch.uint8)
    q = _unpacked(flips[0] ^ flips[1], n).long()
    numbers, with_r = dealer.share("q", q), dealer.share("q r", q[0] * r)
    u: Shares = []
    with_u: Shares = []
    if backward:
        u = dealer.mask(n)
        with_u = dealer.share("q u", q[0] * (u[0] + u[1]))
    return ActivationMasks(kind, comparison, flips, numbers, with_r, u, with_u)


def activate(pair: TwoParties, shares: Shares, masks: ActivationMasks) -> tuple[Shares, Slope]:
    """Shares of f(z), and of its slope, from shares of z with FRACTIONAL_BITS; exact, no rounding.

    shares: (n,) int64 each.  masks: of `deal_activation`, fresh.  Returns shares (n,) and the
    slope.
    Four rounds, 18 1/4 bytes a number and party for the piecewise sigmoid, 14 1/8 for ReLU.
    Guarantee: as `comparison.below`; the opened bits are masked by random bits that serve once.
    Source: SecureML (Mohassel and Zhang 2017), which evaluates the same functions by garbled
    circuits.
    """
    c, (first, second) = below(pair, shares, THRESHOLDS[masks.kind], masks.comparison)
    if masks.kind == "relu":  # s = 1 - [z < 0]
        rows = [~first[None] & 1, second[None] & 1]
    else:  # s = [z < 1/2] - [z < -1/2], and [z < 1/2]
        rows = [torch.stack([word ^ (word >> 4), word >> 4]) & 1 for word in (first, second)]
    packed = [torch.from_numpy(np.packbits(row.numpy(), axis=1)) for row in rows]
    flipped = pair.open_bits("s ^ q", [row ^ mask for row, mask in zip(packed, masks.flips)])
    pair.next_round()
    e = _unpacked(flipped, len(c)).bool()
    results = []
    for party, (z, q, with_r) in enumerate(zip(shares, masks.numbers, masks.with_r)):
        out = _times(e[0], z, c, q[0], with_r)
        if masks.kind == "piecewise":  # + s/2 + 1 - [z < 1/2]
            one = 1 - party  # the first party's share of 1
            slope, under = torch.where(e, one - q, q)
            out += slope * (ONE // 2) - under * ONE + one * ONE
        results.append(out)
    return results, Slope(e[0], masks)


def _planes(words: Tensor) -> list[Tensor]:
    """Bit 16 G + 4 M + b of a word becomes bit 4 M + G of plane b: the four b are the first fold,
    the M the second, ..."""
    for distance, mask in ((15, 0x0000AAAA0000AAAA), (30, 0x00000000CCCCCCCC)):
        swapped = (words ^ (words >> distance)) & mask
        words = words ^ swapped ^ (swapped << distance)
    return [(words >> 16 * b).to(torch.int16) for b in range(4)]


def _second(words: Tensor) -> list[Tensor]:
    """(T, n) int16 words to the four members of each group of the second fold: bit G + 4 T of uint8
    words (n,)."""
    members = []
    for m in range(4):
        lanes = [(word.to(torch.int32) >> 4 * m).to(torch.uint8) & 15 for word in words]
        members.append(lanes[0] | lanes[1] << 4 if len(lanes) == 2 else lanes[0])
    return members


def _third(words: Tensor) -> list[Tensor]:
    return [(words >> m) & _LANES for m in range(4)]


def _products(words: list[Tensor]) -> dict[int, Tensor]:
    """The bitwise product of every set of four words; of none, all ones."""
    products = {0: ~torch.zeros_like(words[0])}
    for s in _SETS:
        products[s] = words[(s & -s).bit_length() - 1] & products[s & (s - 1)]
    return products


def _deal_fold(
    dealer: TwoPartyDealer, shape: tuple[int, ...], dtype: torch.dtype, members
) -> FoldMasks:
    a, b = dealer.bits(shape, dtype), dealer.bits(shape, dtype)
    of_b, of_a = _products(members(b[0] ^ b[1])), members(a[0] ^ a[1])
    rows = [of_b[s] for s in _SEVERAL] + [of_a[i] & of_b[s] for i, s in _WITH_A]
    return FoldMasks(a, b, dealer.share_bits("products of masks", torch.stack(rows)))


def _borrows(g: list[Tensor], public: dict[int, Tensor], known: list[dict]) -> Shares:
    """Shares of g of each group of four: the sum of g_i times the p above it.

    g: of its members, opened under a.  public: products of p, opened under b.
    """
    factors: dict = {}
    for i, above in enumerate(_ABOVE):
        for s in range(16):
            if s & ~above == 0:
                factor = public[above & ~s]
                factors[i, s] = factor
                factors[s] = factors[s] ^ g[i] & factor if s in factors else g[i] & factor
    constant = factors.pop(0)
    first, second = _sums(factors, known)
    return [first ^ constant, second]


def _passes(public: dict[int, Tensor], known: list[dict]) -> Shares:
    """Shares of p of each group of four: the product of its members."""
    first, second = _sums({s: public[15 ^ s] for s in _SETS}, known)
    return [first ^ public[15], second]


def _sums(factors: dict, known: list[dict]) -> Shares:
    """Shares of the sum of factor x known over GF(2)."""
    totals = []
    for words in known:
        total = torch.zeros_like(next(iter(factors.values())))
        for key, factor in factors.items():
            total ^= factor & words[key]
        totals.append(total)
    return totals


def _times(e: Tensor, x: Tensor, seen: Tensor, q: Tensor, with_mask: Tensor) -> Tensor:
    """One party's share of s x = e x + (1 - 2e) q x, where q x = seen q - (mask q)."""
    product = seen * q - with_mask
    return torch.where(e, x - product, product)


def _unpacked(words: Tensor, n: int) -> Tensor:
    return torch.from_numpy(np.unpackbits(words.numpy(), axis=1, count=n))
