"""The first layer on additive shares mod 2^64, with the same secrecy as Algorithm 2 for fewer
bytes."""

from itertools import permutations

import torch
from torch import Tensor

from ppkit.spnn.dealer import Dealer
from ppkit.spnn.fixed_point import FRACTIONAL_BITS, encode
from ppkit.spnn.messages import DEALER, SERVER, Receive, Send, seed_from
from ppkit.spnn.party import DealerParty, Server, rows_of
from ppkit.spnn.published import SharingHolder, SharingSimulator
from ppkit.spnn.ring import total
from ppkit.spnn.sharing import beaver_part, share

OPENED, WORDS = ("seed", "X - U", "theta - V"), "<X theta> mod 2^32"


class _LeanHolder(SharingHolder):
    """Holder i of k; the last one gets the dealer's W, the others draw theirs."""

    theta_bits = 32

    def connect(self):
        # their shares of mine come from it
        self._to = {other: self.stream.derive("seed for", other) for other in self.others}
        for other, seed in self._to.items():
            yield Send(other, "seed", seed.key)
        self._from_dealer = seed_from(DEALER, (yield Receive(DEALER, "seed")))
        self._from = {}
        for other in self.others:
            self._from[other] = seed_from(other, (yield Receive(other, "seed")))
        self.streams = {
            "dealer": self._from_dealer,
            **{f"to {other}": stream for other, stream in self._to.items()},
            **{f"from {other}": stream for other, stream in self._from.items()},
        }

    def load(self, X):
        super().load(X)
        self._E = torch.empty(0)  # X - U belongs to one X

    def prepare(self):
        X = self._share_of_all(encode(self.X), dim=1)
        self._U = self._from_dealer.words(tuple(X.shape))
        self._E = yield from self.open("X - U", X - self._U)

    def _share_of_all(self, secret: Tensor, *, dim: int) -> Tensor:
        """This holder's share of all holders' secrets side by side: the rest of its own, and what
        it draws from their seeds."""
        own, *_ = share(secret, n_parties=len(self.names), stream=list(self._to.values()))
        parts, shape = [], list(secret.shape)
        for name, columns in zip(self.names, self.columns):
            shape[dim] = columns
            parts.append(own if name == self.name else self._from[name].words(tuple(shape)))
        return torch.cat(parts, dim=dim)

    def begin(self, rows, theta):
        if not len(self._E):
            raise ValueError(
                f"prepare() must come before the first batch: holder {self.name} has no X - U of "
                "this data yet"
            )
        return super().begin(rows, theta)

    def share_and_multiply(self, rows, theta):
        shape = len(self.batch), self.width
        V = self._from_dealer.words((self.d, self.width))
        own = self._share_of_all(theta, dim=0) - V
        for other in self.others:
            yield Send(other, "theta - V", own)
        if self.name == self.names[-1]:
            W = yield from self.receive(DEALER, "<W>", shape)
        else:
            W = self._from_dealer.words(shape)
        F = yield from self.add_up("theta - V", own, self.others)
        z = beaver_part(self.me, rows_of(self._U, rows), V, W, rows_of(self._E, rows), F)
        yield Send(SERVER, WORDS, ((z + 2**31) >> 32).to(torch.int32))


class _LeanServer(Server):
    summed = WORDS


class _LeanDealer(DealerParty):
    def __init__(self, name, setup):
        super().__init__(name, setup)
        self._dealer = Dealer(self.stream)
        own = self._dealer.streams(len(self.names))
        self.streams = {f"for {to}": stream for to, stream in zip(self.names, own)}

    def connect(self):
        for name, own in zip(self.names, self._dealer.streams(len(self.names))):
            yield Send(name, "seed", own.key, "offline")

    def prepare(self, n_rows):
        self._U = total(self._dealer.mask((n_rows, sum(self.columns)), len(self.names)))
        return super().prepare(n_rows)

    def begin(self, rows):
        _, W = self._dealer.products(rows_of(self._U, rows), self.width, len(self.names))
        yield Send(self.names[-1], "<W>", W[-1], "offline")


class Lean(SharingSimulator):
    """Algorithm 2 with X - U opened once per data set, random shares sent as seeds, and 32 bits a
    number to the server.

    once:    <X> = share(X), E = open(X - U);
    a step:  <theta> = share(theta), F = open(theta - V),
             z_i = W_i + U_i F + E V_i (first holder also E F),
             to the server: y_i = floor((z_i + 2^31) / 2^32) mod 2^32

    theta has 32 fractional bits (X has 16): the ring has room for them, and rounding theta is what
    costs most otherwise.
    The rounding of each share is exact: of z mod 2^64 the bits above 2^32 are the sum of the
    shares' bits above, and k roundings, mod 2^32. So h1 is off by at most k/2 units of 2^-16, on
    average by nothing, for any k, and, unlike every truncation inside the ring, with no chance of
    failure. |h1| < 2^15.
    The rounding is random and drawn anew in each pass: who averages h1 over many passes on the same
    rows and weights gets the last digit back (rms error .41 units over one pass, .02 over 400 with
    two holders); that is precision, not secrecy.
    Guarantee: as Published, computational (AES-256) where a seed stands for a share. X - U is
    opened once for one X; V is fresh for every step, so E and F are uniform together. The dealer
    must collude with nobody, the server included.
    Departs from the paper: it shares X anew for each batch and sends 64 bits a number.
    """

    sees = (
        "server: k words, any k - 1 of them uniform, with sum h1; holders: seeds, X - U once, "
        "theta - V; dealer: rows of a batch"
    )
    compute = "k Beaver parts (2 ring products each)"
    holder_class, server_class, dealer_class = _LeanHolder, _LeanServer, _LeanDealer

    @classmethod
    def messages(cls, names):
        return [
            *((DEALER, name, "seed") for name in names),
            (DEALER, names[-1], "<W>"),
            *((*way, what) for way in permutations(names, 2) for what in OPENED),
            *((name, SERVER, WORDS) for name in names),
        ]

    def prepare(self, X_parts):
        self.transcript.next_round()  # what is opened needs the seeds
        super().prepare(X_parts)

    def truncation_error(self):
        return len(self.holders) / 2 * 2.0**-FRACTIONAL_BITS
