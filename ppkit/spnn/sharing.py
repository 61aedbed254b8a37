"""Secrets in additive shares mod 2^64: share, reveal, multiply with a triple, truncate; and two
parties that open masked secrets to each other, for products that share their masks.

No share of a weight is kept: a holder moves its theta in the clear (`training.train`) and shares
it anew in every step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from ppkit.refusals import must_be, one_of

from . import ring
from .dealer import NAMES, Shares, Triple, TruncationPair
from .messages import Transcript
from .randomness import Stream

TRUNCATIONS = ("secureml", "floor", "dealer")
Open = Callable[[str, list[torch.Tensor]], torch.Tensor]


def share(
    secret: torch.Tensor, *, n_parties: int = 2, stream: Stream | Sequence[Stream] | None = None
) -> list[torch.Tensor]:
    """Split integers into random shares whose sum mod 2^64 they are.

    s_1 .. s_(k-1) uniform on Z_2^64,  s_0 = secret - s_1 - ... - s_(k-1) mod 2^64

    secret: int64 of any shape (from `fixed_point.encode`).  n_parties: k >= 2.
    stream: draws the random shares; None takes the operating system's CSPRNG; or one Stream for
    each of s_1 .. s_(k-1): whoever is to have s_i and has that Stream's key draws it without its
    being sent (32 bytes once instead of the share).
    Returns k int64 tensors of the secret's shape.  ValueError for another type, k < 2 or a wrong
    number of Streams.
    Guarantee: any k - 1 shares together are uniform, whatever the secret (one-time pad;
    computational, as the Stream).
    Source: zhou2021, section 3.3, Shr; k > 2 as usual.

    >>> shares = share(torch.tensor([7, -1]), n_parties=3)
    >>> reveal(shares).tolist()
    [7, -1]
    """
    if not isinstance(secret, torch.Tensor) or secret.dtype != torch.int64:
        got = getattr(secret, "dtype", type(secret).__name__)
        raise ValueError(f"secret must be an int64 tensor, got {got}")
    must_be("a whole number >= 2", n_parties=n_parties)
    if stream is None or isinstance(stream, Stream):
        streams = [stream if stream is not None else Stream()] * (n_parties - 1)
    else:
        streams = list(stream)
        if len(streams) != n_parties - 1:
            raise ValueError(
                f"stream must be one Stream or {n_parties - 1} of them, one for each random share, "
                f"got {len(streams)}"
            )
    drawn = [each.words(tuple(secret.shape)) for each in streams]
    return [ring.minus(secret, drawn), *drawn]


def reveal(shares: Sequence[torch.Tensor]) -> torch.Tensor:
    """The secret: the sum of all shares mod 2^64.  ValueError for shapes that differ or no shares.

    >>> reveal([torch.tensor([2**63 - 1]), torch.tensor([2])]).item() == -(2**63) + 1
    True
    """
    _same_shapes(shares)
    return ring.total(shares)


def add(x_shares: Sequence[torch.Tensor], y_shares: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Shares of x + y: each party adds its own two; nothing is sent."""
    return [x + y for x, y in zip(x_shares, y_shares, strict=True)]


def plain_open(name: str, shares: list[torch.Tensor]) -> torch.Tensor:
    """How parties exchange shares where no messages are recorded: `reveal`.  name: what is opened,
    for a Transcript."""
    return reveal(shares)


def beaver_matmul(
    x_shares: Sequence[torch.Tensor],
    y_shares: Sequence[torch.Tensor],
    triple: Triple,
    *,
    open: Open = plain_open,
) -> list[torch.Tensor]:
    """Shares of the matrix product X Y mod 2^64, by one triple and one round.

    E = open(X - U), F = open(Y - V);   z_i = W_i + U_i F + E V_i,  party 0 adds E F:
    sum z_i = (U + E)(V + F) = X Y

    x_shares: k shares (n, k).  y_shares: k shares (k, m).  triple: of `Dealer.matmul_triple`.
    open: open(name, shares) -> their sum; called with "X - U" and "Y - V",
    which travel in one round.
    Returns k shares (n, m).  ValueError for shapes that do not fit or a triple that was used.
    Guarantee: E and F are uniform and independent of X and Y;
    each output share is uniform (W's are).
    Source: zhou2021, section 3.3.1, and Beaver 1991. Our copy of the paper has party 1 add + E F to
    products of shares of a and b, which gives 3ab - 2av - 2ub + 2uv; with -E F, or with shares of u
    and v as here, it is ab.
    """
    masked, other = _minus(x_shares, triple.U), _minus(y_shares, triple.V)
    triple.use()
    E, F = open("X - U", masked), open("Y - V", other)
    return [
        beaver_part(i, U, V, W, E, F)
        for i, (U, V, W) in enumerate(zip(triple.U, triple.V, triple.W, strict=True))
    ]


def beaver_part(
    party: int, U: torch.Tensor, V: torch.Tensor, W: torch.Tensor, E: torch.Tensor, F: torch.Tensor
) -> torch.Tensor:
    """One party's share of X Y, (n, m), when E = X - U (n, k) and F = Y - V (k, m) are open:
    W_i + U_i F + E V_i.

    party: 0 adds E F.  U, V, W: this party's part of the triple.
    """
    masked = U + E if party == 0 else U
    return ring.matmul(masked, F).add_(ring.matmul(E, V)).add_(W)


def truncate(
    shares: Sequence[torch.Tensor],
    bits: int,
    *,
    how: str = "secureml",
    pair: TruncationPair | None = None,
    open: Open = plain_open,
) -> list[torch.Tensor]:
    """Shares of z / 2^bits up to less than one unit (two for "floor"): what brings a fixed-point
    product back to scale.

    f = bits, z signed, shares read as numbers in [0, 2^64); error = result - z / 2^f
    "secureml"  z_0' = floor(z_0 / 2^f),  z_1' = 2^64 - floor((2^64 - z_1) / 2^f)
    "floor"     z_i' = floor(z_i / 2^f) with z_i in [-2^63, 2^63):
                the arithmetic shift on both sides
    "dealer"    c = open(z + 2^62 + r);
                floor(c / 2^f) - floor(r / 2^f) + 2^(64-f) [r + z + 2^62 >= 2^64] - 2^(62-f)

    name      error, in units  its mean     fails with chance  messages, for each number  parties
    secureml  in (-1, 1)       0            |z| / 2^64         none                       2
    floor     in (-2, 0]       -(1 - 2^-f)  |z + 1| / 2^64     none                       2
    dealer    in (-1, 1)       0            0 for |z| < 2^62   8 bytes each to each,
                                                               16 from dealer             any

    Derivation: write z = b 2^f + c, z_0 = a 2^f + r with 0 <= c, r < 2^f; r is uniform, as z_0 is.
    "secureml": party 1's 2^64 - z_1 is z_0 - z (unless that is negative), its floor is
    a - b - [r < c], so the result is b + [r < c]: it is one of the two neighbours of z / 2^f and
    P(r < c) = c / 2^f, exactly unbiased. It floors one side and ceils the other.
    "floor": z_1 = z - z_0 has floor b - a - [r > c], the result is b - [r > c],
    of mean b - (2^f - 1 - c) / 2^f.
    "dealer": the low bits of z + r carry with chance c / 2^f; the bracket is
    (r's top bit)(1 - c's top bit), as z + 2^62 < 2^63.
    A failure of the local forms is z_0 - z leaving [0, 2^64) (or z - z_0 leaving the signed range):
    |z| (or |z + 1|) of the 2^64 shares do that, and the result is then off by 2^(64-f). More than
    two parties have no local form: the sum of k shares wraps an unknown number of times.
    bits: f, 1 to 62.  pair: for "dealer", of `Dealer.truncation_pair` with the same bits.  open: as
    in `beaver_matmul`, called with "z + r".  Returns as many shares.  ValueError for another `how`,
    three parties without a dealer, no pair.
    Guarantee: z + r is uniform. Under the local forms a new share alone is uniform on 2^(64-f)
    values, whatever z is; both together show which neighbour of z / 2^f was taken.
    Source: Mohassel and Zhang 2017 (SecureML), section 4.1 and Theorem 1, cited by zhou2021,
    section 3.3.2; the dealer's: Escudero et al. 2020, section 5 (probabilistic truncation in
    Z_2^k).

    >>> reveal(truncate(share(torch.tensor([3 << 16, -5 << 16])), 16)).tolist()
    [3, -5]
    """
    must_be("a whole number >= 2", n_parties=len(shares))
    _same_shapes(shares)
    one_of(TRUNCATIONS, how=how)
    if not 1 <= bits <= 62:
        raise ValueError(f"bits must be 1 to 62, got {bits}")
    if how == "dealer":
        return _truncate_by_pair(shares, bits, pair, open)
    if len(shares) != 2:
        raise ValueError(f"how={how!r} is for 2 parties, got {len(shares)}: use how='dealer'")
    return [truncate_part(party, share, bits, how=how) for party, share in enumerate(shares)]


def truncate_part(party: int, share: torch.Tensor, bits: int, *, how: str) -> torch.Tensor:
    """One of two parties' share of z / 2^bits by a local form, "secureml" or "floor", as in
    `truncate`."""
    if how == "floor":
        return share >> bits
    return _shift(share, bits) if party == 0 else -_shift(-share, bits)


def with_mask(party: int, share: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """One party's share of z + 2^62 + r, for "dealer": what it opens.
    mask: its share of r; party 0 adds the 2^62."""
    return share + mask + 2**62 if party == 0 else share + mask


def truncated_part(
    party: int, c: torch.Tensor, high: torch.Tensor, top: torch.Tensor, bits: int
) -> torch.Tensor:
    """One party's share of z / 2^bits by "dealer", when c = z + 2^62 + r is open.
    high, top: its shares, of a TruncationPair."""
    result = ((c >= 0).long() << (64 - bits)) * top - high  # 2^(64-f) where c's highest bit is 0
    return result + _shift(c, bits) - 2 ** (62 - bits) if party == 0 else result


@dataclass(frozen=True)
class Opened:
    """A secret x that both parties know under a mask: seen = x - u is public, and each has its
    share of u."""

    seen: torch.Tensor
    u: Shares

    def t(self) -> "Opened":
        """The transpose."""
        return Opened(self.seen.t(), [u.t() for u in self.u])

    def times(self, other: "Opened", product: Shares) -> Shares:
        """Shares of the matrix product, without a message;
        product: the dealer's shares of that of the masks.

        (x - u)(y - v) + (x - u) v + u (y - v) + u v = x y:
        `beaver_matmul` with masks that other products share.
        """
        masked = [self.u[0] + self.seen, self.u[1]]
        return [
            w + ring.matmul(u, other.seen) + ring.matmul(self.seen, v)
            for w, u, v in zip(product, masked, other.u)
        ]


class TwoParties:
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


def flat(shares: Sequence[Shares]) -> Shares:
    """One vector a party, of several shared tensors."""
    return [torch.cat([each.flatten() for each in of_party]) for of_party in zip(*shares)]


def shaped(shares: Shares, shape: torch.Size) -> Shares:
    """The same numbers in another shape."""
    return [share.view(shape) for share in shares]


def _truncate_by_pair(shares, bits, pair, open):
    if pair is None or pair.bits != bits or len(pair.mask) != len(shares):
        had = "none" if pair is None else f"one of {pair.bits} bits for {len(pair.mask)} parties"
        raise ValueError(
            f"how='dealer' needs a pair of {bits} bits for {len(shares)} parties, got {had}"
        )
    _same_shapes([shares[0], pair.mask[0]])
    masked = [with_mask(party, z, r) for party, (z, r) in enumerate(zip(shares, pair.mask))]
    pair.use()
    c = open("z + r", masked)
    return [
        truncated_part(party, c, high, top, bits)
        for party, (high, top) in enumerate(zip(pair.high, pair.top))
    ]


def _shift(words: torch.Tensor, bits: int) -> torch.Tensor:
    """floor(w / 2^bits) of words in [0, 2^64)."""
    return (words >> bits) & (2 ** (64 - bits) - 1)


def _minus(x_shares, u_shares):
    if len(x_shares) != len(u_shares) or x_shares[0].shape != u_shares[0].shape:
        raise ValueError(
            f"the triple is for {len(u_shares)} parties and shape {tuple(u_shares[0].shape)}, "
            f"got {len(x_shares)} shares of shape {tuple(x_shares[0].shape)}"
        )
    return [x - u for x, u in zip(x_shares, u_shares)]


def _same_shapes(shares):
    if not len(shares) or any(share.shape != shares[0].shape for share in shares):
        raise ValueError(
            f"shares must all have one shape, got {[tuple(share.shape) for share in shares]}"
        )
