"""Secrets in additive shares mod 2^64: share, reveal, multiply with a triple, truncate; and two
parties that open masked secrets to each other, for products that share their masks.

No share of a weight is kept: a holder moves its theta in the clear (`training.train`) and shares
it anew in every step."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ppkit.spnn import ring
from ppkit.spnn.dealer import NAMES, Shares, Triple
from ppkit.spnn.messages import Transcript
from ppkit.spnn.randomness import Stream
from ppkit.validation import must_be


def share(
    secret: Tensor, *, n_parties: int = 2, stream: Stream | Sequence[Stream] | None = None
) -> Shares:
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
    if secret.dtype != torch.int64:
        raise ValueError(f"secret must be an int64 tensor, got {secret.dtype}")
    must_be("a whole number >= 2", n_parties=n_parties)
    shape = tuple(secret.shape)
    if stream is None or isinstance(stream, Stream):
        drawn = [*(stream or Stream()).words((n_parties - 1, *shape))]
    elif len(stream) == n_parties - 1:
        drawn = [each.words(shape) for each in stream]
    else:
        raise ValueError(f"stream must be one Stream or {n_parties - 1} of them, got {len(stream)}")
    return [ring.minus(secret, drawn), *drawn]


def reveal(shares: Shares) -> Tensor:
    """The secret: the sum of all shares mod 2^64.

    >>> reveal([torch.tensor([2**63 - 1]), torch.tensor([2])]).item() == -(2**63) + 1
    True
    """
    return ring.total(shares)


def add(x_shares: Shares, y_shares: Shares) -> Shares:
    """Shares of x + y: each party adds its own two; nothing is sent."""
    return [x + y for x, y in zip(x_shares, y_shares, strict=True)]


def beaver_matmul(x_shares: Shares, y_shares: Shares, triple: Triple) -> Shares:
    """Shares of the matrix product X Y mod 2^64, by one triple and one round.

    E = open(X - U), F = open(Y - V);   z_i = W_i + U_i F + E V_i,  party 0 adds E F:
    sum z_i = (U + E)(V + F) = X Y

    x_shares: k shares (n, k).  y_shares: k shares (k, m).  triple: of `Dealer.matmul_triple`.
    Returns k shares (n, m).  ValueError for a triple that was used.
    Guarantee: E and F are uniform and independent of X and Y;
    each output share is uniform (W's are).
    Source: zhou2021, section 3.3.1, and Beaver 1991. Our copy of the paper has party 1 add + E F to
    products of shares of a and b, which gives 3ab - 2av - 2ub + 2uv; with -E F, or with shares of u
    and v as here, it is ab.
    """
    triple.use()
    E = reveal([x - u for x, u in zip(x_shares, triple.U, strict=True)])
    F = reveal([y - v for y, v in zip(y_shares, triple.V, strict=True)])
    parts = zip(triple.U, triple.V, triple.W)
    return [beaver_part(party, U, V, W, E, F) for party, (U, V, W) in enumerate(parts)]


def beaver_part(party: int, U: Tensor, V: Tensor, W: Tensor, E: Tensor, F: Tensor) -> Tensor:
    """One party's share of X Y, (n, m), when E = X - U (n, k) and F = Y - V (k, m) are open:
    W_i + U_i F + E V_i.

    party: 0 adds E F.  U, V, W: this party's part of the triple.
    """
    masked = U + E if party == 0 else U
    return ring.matmul(masked, F).add_(ring.matmul(E, V)).add_(W)


def truncate(shares: Shares, bits: int) -> Shares:
    """Two parties' shares of z / 2^bits up to less than one unit, without a message: what brings a
    fixed-point product back to scale.

    z_0' = floor(z_0 / 2^f),  z_1' = 2^64 - floor((2^64 - z_1) / 2^f)

    f = bits, z signed, shares read as numbers in [0, 2^64).
    The error, result - z / 2^f, is in (-1, 1) and 0 on average, but with chance |z| / 2^64.

    Derivation: write z = b 2^f + c, z_0 = a 2^f + r with 0 <= c, r < 2^f; r is uniform, as z_0 is.
    Party 1's 2^64 - z_1 is z_0 - z (unless that is negative), its floor is a - b - [r < c], so the
    result is b + [r < c]: it is one of the two neighbours of z / 2^f and P(r < c) = c / 2^f,
    exactly unbiased. It floors one side and ceils the other.
    It fails where z_0 - z leaves [0, 2^64): |z| of the 2^64 shares do that, and the result is then
    off by 2^(64-f). More than two parties have no local form: the sum of k shares wraps an unknown
    number of times; they take the dealer's help (`with_mask`).
    bits: 1 to 62.
    Guarantee: a new share alone is uniform on 2^(64-f) values, whatever z is; both together show
    which neighbour of z / 2^f was taken.
    Source: Mohassel and Zhang 2017 (SecureML), section 4.1 and Theorem 1, cited by zhou2021,
    section 3.3.2.

    >>> reveal(truncate(share(torch.tensor([3 << 16, -5 << 16])), 16)).tolist()
    [3, -5]
    """
    z_0, z_1 = shares
    return [truncate_part(0, z_0, bits), truncate_part(1, z_1, bits)]


def truncate_part(party: int, share: Tensor, bits: int) -> Tensor:
    """One of two parties' share of z / 2^bits, as in `truncate`."""
    return _shift(share, bits) if party == 0 else -_shift(-share, bits)


def with_mask(party: int, share: Tensor, mask: Tensor) -> Tensor:
    """One party's share of z + 2^62 + r, which it opens, to truncate with a dealer's help.

    c = open(z + 2^62 + r);
        floor(c / 2^f) - floor(r / 2^f) + 2^(64-f) [r + z + 2^62 >= 2^64] - 2^(62-f)

    mask: its share of r; party 0 adds the 2^62.
    For any number of parties; the error is in (-1, 1) and 0 on average, and it never fails for
    |z| < 2^62. The low bits of z + r carry with chance c / 2^f; the bracket is
    (r's top bit)(1 - c's top bit), as z + 2^62 < 2^63.
    8 bytes a number from each party to each, 16 from the dealer.
    Guarantee: z + r is uniform.
    Source: Escudero et al. 2020, section 5 (probabilistic truncation in Z_2^k).
    """
    return share + mask + 2**62 if party == 0 else share + mask


def truncated_part(party: int, c: Tensor, high: Tensor, top: Tensor, bits: int) -> Tensor:
    """One party's share of z / 2^bits, when c = z + 2^62 + r of `with_mask` is open.
    high, top: its shares, of a TruncationPair."""
    result = ((c >= 0).long() << (64 - bits)) * top - high  # 2^(64-f) where c's highest bit is 0
    return result + _shift(c, bits) - 2 ** (62 - bits) if party == 0 else result


@dataclass(frozen=True)
class Opened:
    """A secret x that both parties know under a mask: seen = x - u is public, and each has its
    share of u."""

    seen: Tensor
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

    def open(self, name: str, shares: Shares) -> Tensor:
        """Each party sends its share; both know the sum mod 2^64."""
        return torch.add(*self._exchange(name, shares))

    def open_bits(self, name: str, shares: Shares) -> Tensor:
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


def _shift(words: Tensor, bits: int) -> Tensor:
    """floor(w / 2^bits) of words in [0, 2^64)."""
    return (words >> bits) & (2 ** (64 - bits) - 1)
