"""The first layer on additive shares mod 2^64: what all forms have in common, and Algorithm 2 line
by line."""

from collections.abc import Sequence
from itertools import permutations

import torch
from torch import Tensor

from ppkit.spnn import ring
from ppkit.spnn.dealer import Dealer
from ppkit.spnn.fixed_point import FRACTIONAL_BITS, encode, row_reach
from ppkit.spnn.messages import DEALER, SERVER, Program, Send
from ppkit.spnn.party import (
    WORD_BITS,
    DealerParty,
    Holder,
    Opening,
    Rows,
    Server,
    check_room,
    row_numbers,
    rows_of,
)
from ppkit.spnn.sharing import beaver_part, flat, share, truncate_part, truncated_part, with_mask
from ppkit.spnn.simulator import Simulator

TRIM = "<r>, <r / 2^16>, <top bit>"


class SharingHolder(Holder):
    """What all forms have in common at a holder: X_i as integers, head-room, and opening."""

    theta_bits = FRACTIONAL_BITS

    def __init__(self, name, setup):
        super().__init__(name, setup)
        self.d = sum(self.columns)

    def load(self, X):
        super().load(X)
        self._encoded, self._reach = encode(self.X), row_reach(self.X)

    def begin(self, rows, theta):
        encoded = encode(theta, fractional_bits=self.theta_bits)
        self._check_room(rows, encoded)
        return self.share_and_multiply(rows, encoded)

    def share_and_multiply(self, rows: Rows, theta: Tensor) -> Program:
        """The rest of a step of one form; theta as integers."""
        raise NotImplementedError

    def _check_room(self, rows: Rows, theta: Tensor) -> None:
        k = len(self.names)
        room = 2.0 ** (WORD_BITS - 1 - FRACTIONAL_BITS) / k * (1 - 2.0**-20)
        largest = float(theta.double().abs().max()) * 2.0**-self.theta_bits
        if not self._reach * largest < room:  # the quick way; else exactly
            part = rows_of(self._encoded, rows).double() @ theta.double() * 2.0**-self.theta_bits
            check_room(self.name, part, WORD_BITS, n_terms=k)

    def open(self, name: str, own: Tensor) -> Opening:
        """Open a value between all holders: each sends its share to each of the others, and adds
        them up."""
        for other in self.others:
            yield Send(other, name, own)
        return (yield from self.add_up(name, own, self.others))

    def add_up(self, name: str, own: Tensor, others: Sequence[str]) -> Opening:
        """The sum of its own share and of those that the others sent."""
        value = own
        for other in others:
            value = value + (yield from self.receive(other, name, own.shape))
        return value


class SharingSimulator(Simulator):
    """All parties of one form in one process."""

    name = "ss"
    holder_class: type[SharingHolder]

    def truncation_error(self) -> float:
        """What truncation adds to `error_bound` at most."""
        return 2.0**-FRACTIONAL_BITS

    def error_bound(self, rows, thetas):
        """u (sum |theta| over features) + v (sum |x| over features) + d u v + what truncation adds;
        u, v half a unit of X, theta.

        encode gives x + a, theta + b with |a| <= u, |b| <= v; the product in the ring is exactly
        sum (x + a)(theta + b), so before truncation it is off by sum (x b + a theta + a b), each
        term at most |x| v, u |theta|, u v. All are attained together: halves that round up, all of
        one sign.
        """
        u, v = 2.0 ** -(FRACTIONAL_BITS + 1), 2.0 ** -(self.holder_class.theta_bits + 1)
        X = torch.cat([rows_of(holder.X, rows) for holder in self.holders], dim=1).double().abs()
        theta = torch.cat(list(thetas)).detach().double().abs()
        rounded = u * theta.sum(dim=0) + v * X.sum(dim=1, keepdim=True) + X.shape[1] * u * v
        return rounded + self.truncation_error()


def triple_for(i: str, j: str) -> str:
    """The name under which the dealer sends one holder's part of a triple."""
    return f"<U>, <V>, <W> for {i}{j}"


class PublishedHolder(SharingHolder):
    """Cuts off bits with the dealer's help if there are more than two holders."""

    def __init__(self, name, setup):
        super().__init__(name, setup)
        self.streams = {"own": self.stream}

    def share_and_multiply(self, rows, theta):
        # 1, 2: every holder splits its features and its model; the first share stays with it
        k = len(self.names)
        own_X, *X_parts = share(rows_of(self._encoded, rows), n_parties=k, stream=self.stream)
        own_T, *T_parts = share(theta, n_parties=k, stream=self.stream)
        # 3, 4: and distributes the others
        for other, X_part, T_part in zip(self.others, X_parts, T_parts):
            yield Send(other, "<X>", X_part)
            yield Send(other, "<theta>", T_part)
        # 5, 6: it puts its shares side by side, and multiplies them
        X = yield from self._side_by_side("<X>", own_X, dim=1)
        T = yield from self._side_by_side("<theta>", own_T, dim=0)
        z = ring.matmul(X, T)
        # 7: the products of one holder's <X> with another's <theta>, in shares (one round); 8, 9:
        # all added up
        z += yield from self.cross_products(X, T)
        if k == 2:
            z = truncate_part(self.me, z, FRACTIONAL_BITS)
        else:
            mask, high, top = yield from self._dealt(TRIM, [z.shape] * 3)
            c = yield from self.open("z + r", with_mask(self.me, z, mask))
            z = truncated_part(self.me, c, high, top, FRACTIONAL_BITS)
        # 10: every holder sends its share to the server
        yield Send(SERVER, "<X theta>", z)

    def _side_by_side(self, name: str, own: Tensor, *, dim: int) -> Opening:
        """All holders' shares of this name, its own among them."""
        parts, shape = [], list(own.shape)
        for holder, columns in zip(self.names, self.columns):
            part = own
            if holder != self.name:
                shape[dim] = columns
                part = yield from self.receive(holder, name, tuple(shape))
            parts.append(part)
        return torch.cat(parts, dim=dim)

    def _dealt(self, name: str, shapes: Sequence[tuple[int, ...]]) -> Program:
        """Some matrices that the dealer sends as one vector."""
        sizes = [rows * columns for rows, columns in shapes]
        words = yield from self.receive(DEALER, name, (sum(sizes),))
        return [part.view(shape) for part, shape in zip(words.split(sizes), shapes)]

    def cross_products(self, X: Tensor, T: Tensor) -> Opening:
        """Its share of all products of one holder's <X> with another's <theta>, by the dealer's
        triples.

        Of pair (i, j): i's share of the factors is (<X>, 0), j's is (0, <theta>); all are opened
        in one round.
        """
        shapes = [tuple(X.shape), tuple(T.shape), (len(X), self.width)]
        opened = []
        for i, j in permutations(self.names, 2):
            if self.name not in (i, j):
                continue
            U, V, W = yield from self._dealt(triple_for(i, j), shapes)
            party, other = (0, j) if i == self.name else (1, i)
            E, F = (X - U, -V) if party == 0 else (-U, T - V)
            yield Send(other, "X - U", E)
            yield Send(other, "Y - V", F)
            opened.append((party, other, E, F, U, V, W))
        z = torch.zeros(shapes[-1], dtype=torch.int64)
        for party, other, E, F, U, V, W in opened:
            E = yield from self.add_up("X - U", E, [other])
            F = yield from self.add_up("Y - V", F, [other])
            z += beaver_part(party, U, V, W, E, F)
        return z


class PublishedServer(Server):
    """11: the server adds the shares."""

    summed, word = "<X theta>", torch.int64


class _PublishedDealer(DealerParty):
    def __init__(self, name, setup):
        super().__init__(name, setup)
        self._dealers = {
            (i, j): Dealer(self.stream.derive("pair", self.names.index(i), self.names.index(j)))
            for i, j in permutations(self.names, 2)
        }
        self._trimmer = Dealer(self.stream.derive("truncation"))
        for pair, dealer in self._dealers.items():
            for to, stream in zip(pair, dealer.streams(2)):
                self.streams[f"{''.join(pair)} for {to}"] = stream
        for to, stream in zip(self.names, self._trimmer.streams(len(self.names))):
            self.streams[f"truncation for {to}"] = stream

    def begin(self, rows):
        n = len(row_numbers(rows, self.n_rows))
        for (i, j), dealer in self._dealers.items():
            triple = dealer.matmul_triple(n, sum(self.columns), self.width)
            for to, part in zip((i, j), flat([triple.U, triple.V, triple.W])):
                yield Send(to, triple_for(i, j), part, "offline")
        if len(self.names) > 2:
            shape = n, self.width
            pair = self._trimmer.truncation_pair(shape, FRACTIONAL_BITS, len(self.names))
            for to, part in zip(self.names, flat([pair.mask, pair.high, pair.top])):
                yield Send(to, TRIM, part, "offline")


class Published(SharingSimulator):
    """Algorithm 2 as printed: X and theta shared anew for every batch, two products of shares for
    every pair of holders.

    Two holders truncate as in the paper, by SecureML; more with the dealer's help.
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
    holder_class, server_class = PublishedHolder, PublishedServer
    dealer_class: type[DealerParty] | None = _PublishedDealer

    @classmethod
    def messages(cls, names):
        pairs, opened = list(permutations(names, 2)), ["<X>", "<theta>", "X - U", "Y - V"]
        sent = [(DEALER, to, triple_for(*pair)) for pair in pairs for to in pair]
        if len(names) > 2:
            opened.append("z + r")
            sent += [(DEALER, name, TRIM) for name in names]
        sent += [(*way, what) for way in pairs for what in opened]
        return sent + [(name, SERVER, "<X theta>") for name in names]
