"""The first layer on additive shares mod 2^64: what all forms have in common, and Algorithm 2 line
by line."""

from collections.abc import Mapping, Sequence
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
from ppkit.spnn.sharing import beaver_part, share, truncate_part, truncated_part, with_mask
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
        self._reach = row_reach(self.X)
        if not self._reach < 2.0 ** (63 - FRACTIONAL_BITS):  # some number may have no room
            encode(self.X)

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
            part = encode(rows_of(self.X, rows)).double() @ theta.double() * 2.0**-self.theta_bits
            check_room(self.name, part, WORD_BITS, n_terms=k)

    def open(self, name: str, own: Tensor) -> Opening:
        """Open a value between all holders: each sends its share to each of the others, and adds
        them up."""
        for other in self.others:
            yield Send(other, name, own)
        return (yield from self.add_up(name, own, self.others))

    def add_up(self, name: str, own: Tensor, others: Sequence[str]) -> Opening:
        """The sum of its own share and of those that the others sent."""
        first, *rest = others
        value = own + (yield from self.receive(first, name, own.shape))
        for other in rest:
            value += yield from self.receive(other, name, own.shape)
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


def who_share(names: Sequence[str]) -> list[tuple[str, ...]]:
    """The holders of each triple: with two holders each ordered pair, as line 7 has two products;
    with more all of them, for one product.

    >>> who_share("AB"), who_share("ABC")
    ([('A', 'B'), ('B', 'A')], [('A', 'B', 'C')])
    """
    return list(permutations(names)) if len(names) == 2 else [tuple(names)]


def triple_for(holders: Sequence[str]) -> str:
    """The name under which the dealer sends one holder's part of a triple."""
    return f"<U>, <V>, <W> for {''.join(holders)}"


def shares_of(name: str) -> str:
    """The name of one holder's share of a value that is opened under this name."""
    return f"<{name}>"


class PublishedHolder(SharingHolder):
    """Multiplies by triples, and cuts off bits with the dealer's help if there are more than two
    holders."""

    def __init__(self, name, setup):
        super().__init__(name, setup)
        self.streams = {"own": self.stream}

    def share_and_multiply(self, rows, theta):
        X, T = yield from self._shared(rows, theta)
        if len(self.names) == 2:
            z = ring.matmul(X, T)  # 5, 6
            z += yield from self.cross_products(X, T)  # 7; 8, 9: added up
            z = truncate_part(self.me, z, FRACTIONAL_BITS)
        else:
            z = yield from self._product(X, T)  # 5 to 9
            z = yield from self._truncated(z)
        # 10: every holder sends its share to the server
        yield Send(SERVER, "<X theta>", z)

    def _shared(self, rows: Rows, theta: Tensor) -> Program:
        """Lines 1 to 6: its shares of all holders' features, side by side, and of their models."""
        X, k = encode(rows_of(self.X, rows)), len(self.names)
        # 1, 2: every holder splits its features and its model; the first share stays with it
        own_X, *X_parts = share(X, n_parties=k, stream=self.stream)
        own_T, *T_parts = share(theta, n_parties=k, stream=self.stream)
        # 3, 4: and distributes the others
        for other, X_part, T_part in zip(self.others, X_parts, T_parts):
            yield Send(other, "<X>", X_part)
            yield Send(other, "<theta>", T_part)
        # 5, 6: it puts its shares side by side
        X = yield from self._side_by_side("<X>", own_X, dim=1)
        T = yield from self._side_by_side("<theta>", own_T, dim=0)
        return X, T

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

    def _triple(self, holders: Sequence[str], X: Tensor, T: Tensor) -> Program:
        """Its parts U, V, W of the next triple of these holders."""
        shapes = [tuple(X.shape), tuple(T.shape), (len(X), self.width)]
        return (yield from self._dealt(triple_for(holders), shapes))

    def cross_products(self, X: Tensor, T: Tensor) -> Opening:
        """One of two holders' share of the products of one's <X> with the other's <theta>, by the
        dealer's triples.

        Of pair (i, j): i's share of the factors is (<X>, 0), j's is (0, <theta>); all are opened
        in one round.
        """
        [other], opened = self.others, []
        for pair in who_share(self.names):
            U, V, W = yield from self._triple(pair, X, T)
            party = pair.index(self.name)
            E, F = (X - U, -V) if party == 0 else (-U, T - V)
            yield Send(other, "X - U", E)
            yield Send(other, "Y - V", F)
            opened.append((party, E, F, U, V, W))
        z = torch.zeros((len(X), self.width), dtype=torch.int64)
        for party, E, F, U, V, W in opened:
            E = yield from self.add_up("X - U", E, [other])
            F = yield from self.add_up("Y - V", F, [other])
            z += beaver_part(party, U, V, W, E, F)
        return z

    def _product(self, X: Tensor, T: Tensor) -> Opening:
        """Its share of <X> <theta>, both shared among all holders, by one triple; X is used up."""
        U, V, W = yield from self._triple(self.names, X, T)
        E, F = yield from self._opened({"X - U": X.sub_(U), "Y - V": T - V})
        return beaver_part(self.me, U, V, W, E, F)

    def _truncated(self, z: Tensor) -> Opening:
        """Its share of z / 2^16, with the dealer's help."""
        mask, high, top = yield from self._dealt(TRIM, [z.shape] * 3)
        [c] = yield from self._opened({"z + r": with_mask(self.me, z, mask)})
        return truncated_part(self.me, c, high, top, FRACTIONAL_BITS)

    def _opened(self, shares: Mapping[str, Tensor]) -> Program:
        """Some values, opened together between more than two holders: each sends its shares to the
        first holder, which adds them up and sends the sums back.

        2 (k - 1) messages a value in two rounds; sending to each of the others would take k (k - 1)
        in one.
        """
        first, *others = self.names
        values = []
        if self.name == first:
            for name, own in shares.items():
                values.append((yield from self.add_up(shares_of(name), own, others)))
            for other in others:
                for name, value in zip(shares, values):
                    yield Send(other, name, value)
        else:
            for name, own in shares.items():
                yield Send(first, shares_of(name), own)
            for name, own in shares.items():
                values.append((yield from self.receive(first, name, own.shape)))
        return values


class PublishedServer(Server):
    """11: the server adds the shares."""

    summed, word = "<X theta>", torch.int64


class _PublishedDealer(DealerParty):
    def __init__(self, name, setup):
        super().__init__(name, setup)
        self._dealers = {}
        for holders in who_share(self.names):
            numbers = [self.names.index(holder) for holder in holders]
            label = "pair" if len(holders) == 2 else "all"
            self._dealers[holders] = Dealer(self.stream.derive(label, *numbers))
        self._trimmer = Dealer(self.stream.derive("truncation"))
        for holders, dealer in self._dealers.items():
            for to, stream in zip(holders, dealer.streams(len(holders))):
                self.streams[f"{''.join(holders)} for {to}"] = stream
        for to, stream in zip(self.names, self._trimmer.streams(len(self.names))):
            self.streams[f"truncation for {to}"] = stream

    def begin(self, rows):
        n = len(row_numbers(rows, self.n_rows))
        for holders, dealer in self._dealers.items():
            parts = dealer.matmul_vectors(n, sum(self.columns), self.width, len(holders))
            for to, part in zip(holders, parts):
                yield Send(to, triple_for(holders), part, "offline")
        if len(self.names) > 2:
            size, k = n * self.width, len(self.names)
            parts = self._trimmer.truncation_vectors(size, FRACTIONAL_BITS, k)
            for to, part in zip(self.names, parts):
                yield Send(to, TRIM, part, "offline")


class Published(SharingSimulator):
    """Algorithm 2 as printed, and carried on to k > 2 holders: X and theta shared anew for every
    batch, and multiplied by triples that serve one batch.

    Two holders multiply as printed: each its own shares (lines 5, 6), and the two products of one's
    <X> with the other's <theta> by a triple each (line 7). They truncate as in the paper, by
    SecureML.
    More holders take one product of <X> and <theta>, each shared among all, by one triple of all k
    (`sharing.beaver_matmul`), and truncate with the dealer's help. The paper says that it "can be
    generalized to multi-parties" (4.6) and prints no line for them, so two readings are open. By
    its letter line 7 has a product for each ordered pair of holders, k (k - 1) triples of two
    parties. By what its lines are for, "calculate X theta by using distributive property" (4.3.1),
    lines 5 to 9 are one product of shared matrices. This is that reading: the same h1 to the same
    bound, every view as uniform, k parts of triples instead of 2 k (k - 1), and an opened factor
    takes 2 (k - 1) messages (its shares to the first holder, the sum back) instead of 2 k (k - 1).
    Guarantee: semi-honest, no two parties collude; the server learns h1 only (and which way it was
    rounded), a holder nothing. SecureML's truncation fails, h1 off by 2^32, with probability
    |h1| / 2^32 a number: 2^-17 at the edge |h1| = 2^15.
    Source: zhou2021, Algorithm 2; line numbers in the code. Departs from it: triples come from a
    dealer, as full shares.
    """

    sees = (
        "server: k shares of h1, any k - 1 of them uniform; holders: uniform shares, X - U and "
        "theta - V; dealer: shapes"
    )
    compute = (
        "2 holders: 2 Beaver products (4 ring products each) and 2 ring products; more: 1 Beaver "
        "product (2 k ring products)"
    )
    holder_class, server_class = PublishedHolder, PublishedServer
    dealer_class: type[DealerParty] | None = _PublishedDealer

    @classmethod
    def messages(cls, names):
        sent = [(DEALER, to, triple_for(holders)) for holders in who_share(names) for to in holders]
        ways, exchanged = list(permutations(names, 2)), ["<X>", "<theta>"]
        if len(names) == 2:
            exchanged += ["X - U", "Y - V"]
        else:
            first, *others = names
            sent += [(DEALER, name, TRIM) for name in names]
            for what in ("X - U", "Y - V", "z + r"):
                sent += [(other, first, shares_of(what)) for other in others]
                sent += [(first, other, what) for other in others]
        sent += [(*way, what) for way in ways for what in exchanged]
        return sent + [(name, SERVER, "<X theta>") for name in names]
