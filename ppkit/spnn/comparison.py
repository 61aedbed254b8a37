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
from functools import reduce
from types import SimpleNamespace

import numpy as np
import torch

from .dealer import Once, Shares, TwoPartyDealer
from .fixed_point import FRACTIONAL_BITS
from .sharing import TwoParties

ONE = 1 << FRACTIONAL_BITS
THRESHOLDS = {"piecewise": (-ONE // 2, ONE // 2), "relu": (0,)}


_ABOVE = [0b1110, 0b1100, 0b1000, 0]  # of position i: the positions above it, as a set of bits
_SETS = range(1, 16)  # non-empty sets of four positions
_PRODUCTS = [s for s in _SETS if s & (s - 1)]  # those of two and more
_WITH_G = [
    (i, s) for i in range(4) for s in _SETS if s & ~_ABOVE[i] == 0
]  # a_i times the b of a set above i
_LANES = 0b0001_0001  # the last fold: one bit for each threshold


@dataclass
class Masks(Once):
    """What two parties are dealt for one comparison of n numbers with one or two thresholds.

    r: shares mod 2^64 of the mask.  top: of its highest bit.  bits: of all products of its other
    bits in fours, (15, n).
    folds: for the second and the third fold, shares of the masks a and b and of their products.
    """

    r: Shares
    top: Shares
    bits: Shares
    folds: list[tuple[Shares, Shares, Shares]]


def deal_masks(dealer: TwoPartyDealer, n: int, n_thresholds: int) -> tuple[torch.Tensor, Masks]:
    """Masks to compare n numbers with 1 or 2 thresholds each.  Returns r, which only the dealer
    has, and the masks."""
    shares = dealer.mask(n)
    r = torch.add(*shares)
    products = _products(_planes(r & torch.iinfo(torch.int64).max))
    bits = dealer.share_bits("bits of r", torch.stack([products[s] for s in _SETS]))
    top = dealer.share_bits("top bit of r", (r >> 63).to(torch.uint8) & _LANES)
    folds = [
        _deal_fold(dealer, (n_thresholds, n), torch.int16, _second),
        _deal_fold(dealer, (n,), torch.uint8, _third),
    ]
    return r, Masks(shares, top, bits, folds)


def below(
    pair: TwoParties, shares: Shares, thresholds: tuple[int, ...], masks: Masks
) -> tuple[torch.Tensor, Shares]:
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
    public = _products(
        _planes(~u | torch.iinfo(torch.int64).min)
    )  # position 63: no borrow arises, any passes
    bits = [dict(zip(_SETS, rows)) for rows in masks.bits]
    g = _sum(bits, {s: public[_ABOVE[_low(s)] & ~s | 1 << _low(s)] for s in _SETS})
    p = _sum(bits, {s: public[15 ^ s] if s < 15 else None for s in _SETS}, public[15])
    for (a, b, products), members, last in zip(masks.folds, (_second, _third), (False, True)):
        seen_g = pair.open_bits("g + a", [x ^ m for x, m in zip(g, a)])
        seen_p = pair.open_bits("p + b", [x ^ m for x, m in zip(p, b)])
        pair.next_round()
        g, p = _fold(
            members(seen_g),
            members(seen_p),
            [_known(*each, members) for each in zip(a, b, products)],
            last,
        )
    signs = reduce(
        torch.bitwise_or, [((word >> 63) & 1).to(torch.uint8) << 4 * t for t, word in enumerate(u)]
    )
    g = [word ^ top for word, top in zip(g, masks.top)]
    return c, [g[0] ^ signs, g[1]]


@dataclass
class Slope(Once):
    """The shared slope s of each number, in {0, 1}, ready to multiply one more vector: e is public,
    q_0 is shared in the masks."""

    e: torch.Tensor
    masks: SimpleNamespace

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
) -> SimpleNamespace:
    """What is dealt for one activation of n numbers: masks of the comparison, and of the bits that
    become numbers.

    kind: "piecewise" or "relu".  backward: whether its slope will be used.
    Returns kind; comparison, of `deal_masks`; flips: packed random bits q, one row a threshold;
    numbers: shares mod 2^64 of the same bits, (T, n); with_r: of q_0 r; u, with_u: a second mask
    for the backward pass and shares of q_0 u, None where there is none.
    """
    n_thresholds = len(THRESHOLDS[kind])
    r, comparison = deal_masks(dealer, n, n_thresholds)
    flips = dealer.bits((n_thresholds, -(-n // 8)), torch.uint8)
    q = _unpacked(flips[0] ^ flips[1], n).long()
    numbers, with_r = dealer.share("q", q), dealer.share("q r", q[0] * r)
    u = dealer.mask(n) if backward else None
    with_u = dealer.share("q u", q[0] * (u[0] + u[1])) if backward else None
    return SimpleNamespace(
        kind=kind,
        comparison=comparison,
        flips=flips,
        numbers=numbers,
        with_r=with_r,
        u=u,
        with_u=with_u,
    )


def activate(pair: TwoParties, shares: Shares, masks: SimpleNamespace) -> tuple[Shares, Slope]:
    """Shares of f(z), and of its slope, from shares of z with FRACTIONAL_BITS; exact, no rounding.

    shares: (n,) int64 each.  masks: of `deal_activation`, fresh.  Returns shares (n,) and the
    slope.
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
    flipped = pair.open_bits(
        "s ^ q",
        [
            torch.from_numpy(np.packbits(row.numpy(), axis=1)) ^ mask
            for row, mask in zip(rows, masks.flips)
        ],
    )
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
    return made, Slope(e[0], masks)


def _planes(words: torch.Tensor) -> list[torch.Tensor]:
    """Bit 16 G + 4 M + b of a word becomes bit 4 M + G of plane b: the four b are the first fold,
    the M the second, ..."""
    for distance, mask in ((15, 0x0000AAAA0000AAAA), (30, 0x00000000CCCCCCCC)):
        swapped = (words ^ (words >> distance)) & mask
        words = words ^ swapped ^ (swapped << distance)
    return [(words >> 16 * b).to(torch.int16) for b in range(4)]


def _second(words: torch.Tensor) -> list[torch.Tensor]:
    """(T, n) int16 words to the four members of each group of the second fold: bit G + 4 T of uint8
    words (n,)."""
    words = words.to(torch.int32) & 0xFFFF
    halves = [(word >> 4 * m).to(torch.uint8) & 15 for m in range(4) for word in words]
    step = len(words)
    return [
        halves[m * step] | halves[m * step + 1] << 4 if step == 2 else halves[m] for m in range(4)
    ]


def _third(words: torch.Tensor) -> list[torch.Tensor]:
    return [(words >> m) & _LANES for m in range(4)]


def _products(words: list[torch.Tensor]) -> dict[int, torch.Tensor]:
    """The bitwise product of every non-empty set of four words."""
    found = {1 << i: word for i, word in enumerate(words)}
    for s in _PRODUCTS:
        found[s] = found[s & -s] & found[s & (s - 1)]
    return {s: found[s] for s in _SETS}


def _low(s: int) -> int:
    return (s & -s).bit_length() - 1


def _deal_fold(
    dealer: TwoPartyDealer, shape: tuple[int, ...], dtype: torch.dtype, members
) -> tuple[Shares, Shares, Shares]:
    a, b = dealer.bits(shape, dtype), dealer.bits(shape, dtype)
    of_b = _products(members(b[0] ^ b[1]))
    of_a = members(a[0] ^ a[1])
    rows = [of_b[s] for s in _PRODUCTS] + [of_a[i] & of_b[s] for i, s in _WITH_G]
    return a, b, dealer.share_bits("products of masks", torch.stack(rows))


def _known(a: torch.Tensor, b: torch.Tensor, products: torch.Tensor, members) -> dict:
    """One party's shares of all that the dealer gave it for a fold: by set of b, and by (position
    of a, set of b)."""
    found = {1 << i: word for i, word in enumerate(members(b))} | dict(zip(_PRODUCTS, products))
    found |= {(i, 0): word for i, word in enumerate(members(a))}
    return found | dict(zip(_WITH_G, products[len(_PRODUCTS) :]))


def _fold(
    g: list[torch.Tensor], p: list[torch.Tensor], known: list[dict], last: bool
) -> tuple[Shares, Shares | None]:
    """Shares of g and p of each group of four, from its members opened under masks; the last fold
    needs no p."""
    public = _products(p) | {0: None}
    of_g: dict = {
        (i, s): public[above & ~s]
        for i, above in enumerate(_ABOVE)
        for s in (0, *_SETS)
        if s & ~above == 0
    }
    for i, s in list(of_g):
        term = g[i] if of_g[i, s] is None else g[i] & of_g[i, s]
        of_g[s] = of_g[s] ^ term if s in of_g else term
    constant = of_g.pop(0)
    passed = None if last else _sum(known, {s: public[15 ^ s] for s in _SETS}, public[15])
    return _sum(known, of_g, constant), passed


def _sum(known: list[dict], factors: dict, constant: torch.Tensor | None = None) -> Shares:
    """Shares of constant + sum of factor x known over GF(2); a factor of None is 1. The first party
    adds the constant."""
    totals = []
    for party, words in enumerate(known):
        total = constant.clone() if constant is not None and party == 0 else None
        for key, factor in factors.items():
            term = words[key] if factor is None else factor & words[key]
            total = term.clone() if total is None else total.bitwise_xor_(term.expand_as(total))
        totals.append(total)
    return totals


def _times(
    e: torch.Tensor, x: torch.Tensor, seen: torch.Tensor, q: torch.Tensor, with_mask: torch.Tensor
) -> torch.Tensor:
    """One party's share of s x = e x + (1 - 2e) q x, where q x = seen q - (mask q)."""
    product = seen * q - with_mask
    return torch.where(e, x - product, product)


def _unpacked(words: torch.Tensor, n: int) -> torch.Tensor:
    return torch.from_numpy(np.unpackbits(words.numpy(), axis=1, count=n))
