"""The first layer on additive shares mod 2^64: what both forms have in common, and Algorithm 2 line
by line."""

from collections import deque
from collections.abc import Generator, Sequence
from itertools import permutations

import torch

from ppkit.refusals import one_of

from . import ring
from .dealer import Dealer
from .fixed_point import FRACTIONAL_BITS, encode, row_reach
from .in_process import Protocol
from .messages import DEALER, SERVER, Program, Receive, Send, tensor_from
from .randomness import Stream
from .sharing import TRUNCATIONS, beaver_part, flat, share, truncate_part, truncated_part, with_mask
from .sides import (
    WORD_BITS,
    DealerSide,
    Holder,
    Rows,
    Server,
    check_room,
    check_rows,
    count,
    rows_of,
)

Opening = Generator[Send | Receive, torch.Tensor | None, torch.Tensor]


class SharingHolder(Holder):
    """What both forms have in common at a holder: X_i as integers, head-room, opening, and what was
    dealt ahead.

    A form has `_dealt(n, width)`, the program that takes what the dealer deals for one batch, and
    `_share_and_multiply(rows, theta)`, the rest of the step, theta as integers.
    """

    theta_bits = FRACTIONAL_BITS

    def __init__(self, name, **common):
        super().__init__(name, **common)
        self.me, self.d = self.names.index(name), sum(self.columns)
        self._ahead: deque = deque()

    def _keep(self, X):
        super()._keep(X)
        self._ahead.clear()
        self._encoded, self._reach = encode(X), row_reach(X)

    def deal(self, rows: Rows) -> Program:
        """Take what the dealer deals for one batch ahead of its step: batches use it up in the
        order in which it was dealt.

        Without it, `step` takes it when it needs it. What was taken ahead and not used is lost to
        who notes positions of `streams`, and gone with the next `load`.
        """
        self._ahead.append((yield from self._dealt(count(rows, len(self.X)), self.width)))

    def begin(self, rows, theta):
        self.take(rows)
        encoded = encode(theta, fractional_bits=self.theta_bits)
        self._check_room(rows, encoded)
        return self._share_and_multiply(rows, encoded)

    def _check_room(self, rows: Rows, theta: torch.Tensor) -> None:
        k = len(self.names)
        room = 2.0 ** (WORD_BITS - 1 - FRACTIONAL_BITS) / k * (1 - 2.0**-20)
        largest = float(theta.double().abs().max()) * 2.0**-self.theta_bits
        if not self._reach * largest < room:  # the quick way; else exactly
            part = rows_of(self._encoded, rows).double() @ theta.double() * 2.0**-self.theta_bits
            check_room(self.name, part, WORD_BITS, n_terms=k)

    def _open(self, name: str, own: torch.Tensor) -> Opening:
        """Open a value between all holders: each sends its share to each of the others, and adds
        them up."""
        for other in self.others:
            yield Send(other, name, own)
        return (yield from self._add_up(name, own, self.others))

    def _add_up(self, name: str, own: torch.Tensor, others: Sequence[str]) -> Opening:
        value = None
        for other in others:
            came = tensor_from(other, name, (yield Receive(other, name)), own.shape, own.dtype)
            value = own + came if value is None else value.add_(came)
        return value


class SharingProtocol(Protocol):
    """All sides of one form in one process, with triples dealt ahead where that is asked for.

    A form has `_truncation_error()`, what truncation adds to `error_bound` at most.
    """

    name = "ss"

    def __init__(self, holders, **common):
        super().__init__(holders, **common)
        self._dealt: deque[Rows] = deque()  # the batches that were dealt for

    def deal(self, rows: Rows, width: int) -> None:
        """Let the dealer prepare what one batch needs ahead of time; batches use it up in the order
        in which it was dealt."""
        if self.n_rows:
            check_rows(rows, self.n_rows)
        sides = [*([] if self.dealer is None else [self.dealer]), *self.holders]
        for side in sides:
            side.width = width
        self._mailroom.run({side.name: side.deal(rows) for side in sides})
        self._dealt.append(rows)

    def _set_up(self) -> None:
        self._dealt.clear()
        super()._set_up()

    def _begin(self, rows, thetas):
        programs = super()._begin(rows, thetas)
        if not self._dealt:
            if self.dealer is None:
                return programs
            self.dealer.width = thetas[0].shape[1]
            return {DEALER: self.dealer.deal(rows)} | programs
        dealt_for = self._dealt[0]
        same = (
            dealt_for is rows
            or type(dealt_for) is type(rows)
            and (
                torch.equal(dealt_for, rows)
                if isinstance(rows, torch.Tensor)
                else dealt_for == rows
            )
        )
        if not same:
            raise ValueError(
                "the next triples were dealt for another batch: batches must come in the order of "
                "deal()"
            )
        self._dealt.popleft()
        return programs

    def error_bound(self, rows, thetas):
        """u (sum |theta| over features) + v (sum |x| over features) + d u v + what truncation adds;
        u, v half a unit of X, theta.

        encode gives x + a, theta + b with |a| <= u, |b| <= v; the product in the ring is exactly
        sum (x + a)(theta + b), so before truncation it is off by sum (x b + a theta + a b), each
        term at most |x| v, u |theta|, u v. All are attained together: halves that round up, all of
        one sign.
        """
        u, v = 2.0 ** -(FRACTIONAL_BITS + 1), 2.0 ** -(self.sides[0].theta_bits + 1)
        X = torch.cat([holder.take(rows) for holder in self.holders], dim=1).double().abs()
        theta = torch.cat(list(thetas)).detach().double().abs()
        return (
            u * theta.sum(dim=0)
            + v * X.sum(dim=1, keepdim=True)
            + X.shape[1] * u * v
            + self._truncation_error()
        )


def truncation_for(k: int, asked: str | None) -> str:
    """Algorithm 2's truncation for k holders: what was asked for, or the paper's where it exists,
    and else the dealer's."""
    truncation = ("secureml" if k == 2 else "dealer") if asked is None else asked
    one_of(TRUNCATIONS, truncation=truncation)
    if k > 2 and truncation != "dealer":
        raise ValueError(f"truncation={asked!r} is for 2 holders, got {k}: use 'dealer'")
    return truncation


def triple_for(i: str, j: str) -> str:
    """The name under which the dealer sends one holder's part of a triple."""
    return f"<U>, <V>, <W> for {i}{j}"


TRIM = "<r>, <r / 2^16>, <top bit>"


class PublishedHolder(SharingHolder):
    takes = ("truncation",)

    def __init__(self, name, *, truncation: str | None = None, **common):
        super().__init__(name, **common)
        self.truncation = truncation_for(len(self.names), truncation)
        self._own = Stream() if self._stream is None else self._stream
        self.streams = {"own": self._own}
        self._pairs = [pair for pair in permutations(self.names, 2) if name in pair]

    def _dealt(self, n, width):
        triples, shapes = {}, ((n, self.d), (self.d, width), (n, width))
        for pair in self._pairs:
            triples[pair] = _in_parts((yield Receive(DEALER, triple_for(*pair))), shapes)
        trim = None
        if self.truncation == "dealer":
            trim = _in_parts((yield Receive(DEALER, TRIM)), [(n, width)] * 3)
        return triples, trim

    def _share_and_multiply(self, rows, theta):
        # 1, 2: every holder splits its features and its model; the first share stays with it
        to, k = [self.name, *self.others], len(self.names)
        X_parts, T_parts = (
            dict(zip(to, share(secret, n_parties=k, stream=self._own)))
            for secret in (rows_of(self._encoded, rows), theta)
        )
        # 3, 4: and distributes the others
        for other in self.others:
            yield Send(other, "<X>", X_parts[other])
            yield Send(other, "<theta>", T_parts[other])
        for other in self.others:
            d = self.columns[self.names.index(other)]
            X_parts[other] = tensor_from(
                other, "<X>", (yield Receive(other, "<X>")), (len(self.batch), d), torch.int64
            )
            T_parts[other] = tensor_from(
                other,
                "<theta>",
                (yield Receive(other, "<theta>")),
                (d, theta.shape[1]),
                torch.int64,
            )
        # 5, 6: it puts its shares side by side, and multiplies them
        X = torch.cat([X_parts[name] for name in self.names], dim=1)
        T = torch.cat([T_parts[name] for name in self.names], dim=0)
        z = ring.matmul(X, T)
        # 7: the products of one holder's <X> with another's <theta>, in shares (one round); 8, 9:
        # all added up
        triples, trim = self._ahead.popleft() if self._ahead else (yield from self._dealt(*z.shape))
        z += yield from self._cross_products(X, T, triples)
        if trim is None:
            z = truncate_part(self.me, z, FRACTIONAL_BITS, how=self.truncation)
        else:
            mask, high, top = trim
            c = yield from self._open("z + r", with_mask(self.me, z, mask))
            z = truncated_part(self.me, c, high, top, FRACTIONAL_BITS)
        # 10: every holder sends its share to the server
        yield Send(SERVER, "<X theta>", z)

    def _cross_products(self, X: torch.Tensor, T: torch.Tensor, triples: dict) -> Opening:
        """Of pair (i, j): i's share of the factors is (<X>, 0), j's is (0, <theta>); all are opened
        in one round."""
        opened = []
        for i, j in self._pairs:
            U, V, _ = triples[i, j]
            party, other = (0, j) if i == self.name else (1, i)
            masked = (X - U, -V) if party == 0 else (-U, T - V)
            for name, own in zip(("X - U", "Y - V"), masked):
                yield Send(other, name, own)
            opened.append((party, other, masked, triples[i, j]))
        z = torch.zeros((len(X), T.shape[1]), dtype=torch.int64)
        for party, other, (e, f), (U, V, W) in opened:
            E, F = (
                (yield from self._add_up("X - U", e, [other])),
                (yield from self._add_up("Y - V", f, [other])),
            )
            z += beaver_part(party, U, V, W, E, F)
        return z


class PublishedServer(Server):
    def step(self, n):
        # 11: the server adds the shares
        return self.decoded((yield from self.sum_of("<X theta>", n, torch.int64)))


class _PublishedDealer(DealerSide):
    takes = ("truncation",)

    def __init__(self, name, *, truncation: str | None = None, **common):
        super().__init__(name, **common)
        k, root = len(self.names), Stream() if self._stream is None else self._stream
        self.truncation = truncation_for(k, truncation)
        number = {name: i for i, name in enumerate(self.names)}
        self._dealers = {
            (i, j): Dealer(root.derive("pair", number[i], number[j]))
            for i, j in permutations(self.names, 2)
        }
        self._trimmer = Dealer(root.derive("truncation"))
        self.streams = {
            f"{i}{j} for {to}": stream
            for (i, j), dealer in self._dealers.items()
            for to, stream in zip((i, j), dealer.streams(2))
        }
        self.streams |= {
            f"truncation for {to}": stream
            for to, stream in zip(self.names, self._trimmer.streams(k))
        }

    def _deal(self, rows):
        n, d, width = count(rows, self.n_rows), sum(self.columns), self.width
        for (i, j), dealer in self._dealers.items():
            triple = dealer.matmul_triple(n, d, width)
            for to, part in zip((i, j), flat([triple.U, triple.V, triple.W])):
                yield Send(to, triple_for(i, j), part, "offline")
        if self.truncation == "dealer":
            pair = self._trimmer.truncation_pair((n, width), FRACTIONAL_BITS, len(self.names))
            for to, part in zip(self.names, flat([pair.mask, pair.high, pair.top])):
                yield Send(to, TRIM, part, "offline")


class Published(SharingProtocol):
    """Algorithm 2 as printed: X and theta shared anew for every batch, two products of shares for
    every pair of holders.

    truncation: "secureml" (the paper's, for two holders), "floor" (two) or "dealer" (any k); None
    takes the paper's where it exists, k = 2, and else the dealer's.
    Guarantee: semi-honest, no two parties collude; the server learns h1 only (and which way it was
    rounded), a holder nothing. SecureML's truncation fails, h1 off by 2^32, with probability
    |h1| / 2^32 a number: 2^-17 at the edge |h1| = 2^15.
    Source: zhou2021, Algorithm 2; line numbers in the code. Departs from it: triples come from a
    dealer, as full shares; for k > 2 holders line 7 runs over all pairs.
    """

    sees = (
        "server: k shares of h1, any k - 1 of them uniform; holders: uniform shares, X - U and "
        "theta - V; dealer: shapes"
    )
    compute = "k (k - 1) Beaver products (4 ring products each) and k ring products"
    sides = PublishedHolder, PublishedServer, _PublishedDealer

    @classmethod
    def messages(cls, names, truncation=None):
        by_dealer = truncation_for(len(names), truncation) == "dealer"
        opened = ["<X>", "<theta>", "X - U", "Y - V"] + ["z + r"] * by_dealer
        return [
            *((DEALER, to, triple_for(*pair)) for pair in permutations(names, 2) for to in pair),
            *((DEALER, name, TRIM) for name in names if by_dealer),
            *((*way, what) for way in permutations(names, 2) for what in opened),
            *((name, SERVER, "<X theta>") for name in names),
        ]

    def _truncation_error(self):
        return (2 if self.dealer.truncation == "floor" else 1) * 2.0**-FRACTIONAL_BITS


def _in_parts(payload: torch.Tensor, shapes: Sequence[tuple[int, int]]) -> list[torch.Tensor]:
    sizes = [rows * columns for rows, columns in shapes]
    payload = tensor_from(DEALER, "part for this batch", payload, (sum(sizes),), torch.int64)
    return [part.view(shape) for part, shape in zip(payload.split(sizes), shapes)]
