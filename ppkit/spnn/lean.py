"""The first layer on additive shares mod 2^64, with the same secrecy as Algorithm 2 for fewer
bytes."""

from itertools import permutations

import torch

from .dealer import Dealer
from .fixed_point import FRACTIONAL_BITS
from .messages import DEALER, SERVER, Program, Receive, Send, seed_from, tensor_from
from .published import Opening, SharingHolder, SharingProtocol
from .randomness import Stream
from .ring import total
from .sharing import beaver_part, share
from .sides import DealerSide, Server, rows_of

OPENED, WORDS = ("seed", "X - U", "theta - V"), "<X theta> mod 2^32"


class _LeanHolder(SharingHolder):
    """Holder i of k; the last one gets the dealer's W, the others draw theirs."""

    theta_bits = 32
    _E: torch.Tensor | None = None

    def connect(self):
        own = Stream() if self._stream is None else self._stream
        self._to = {
            other: own.derive("seed for", other) for other in self.others
        }  # their shares of mine come from it
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

    def _keep(self, X):
        super()._keep(X)
        self._E = None  # X - U belongs to one X

    def prepare(self):
        X = self._share_of_all(self._encoded, dim=1)
        self._U = self._from_dealer.words(tuple(X.shape))
        self._E = yield from self._open("X - U", X - self._U)

    def _share_of_all(self, secret: torch.Tensor, *, dim: int) -> torch.Tensor:
        """This holder's share of all holders' secrets side by side: the rest of its own, and what
        it draws from their seeds."""
        shape = list(secret.shape)
        parts = {
            self.name: share(secret, n_parties=len(self.names), stream=list(self._to.values()))[0]
        }
        for other in self.others:
            shape[dim] = self.columns[self.names.index(other)]
            parts[other] = self._from[other].words(tuple(shape))
        return torch.cat([parts[name] for name in self.names], dim=dim)

    def _dealt(self, n, width):
        V = self._from_dealer.words((self.d, width))
        return V, (yield from self._dealt_product(n, width))

    def _dealt_product(self, n: int, width: int) -> Opening:
        if self.name != self.names[-1]:
            return self._from_dealer.words((n, width))
        return tensor_from(DEALER, "<W>", (yield Receive(DEALER, "<W>")), (n, width), torch.int64)

    def begin(self, rows, theta):
        if self._E is None:
            raise ValueError(
                f"prepare() must come before the first batch: holder {self.name} has no X - U of "
                "this data yet"
            )
        return super().begin(rows, theta)

    def _share_and_multiply(self, rows, theta) -> Program:
        n, width = len(self.batch), theta.shape[1]
        V, W = (
            self._ahead.popleft()
            if self._ahead
            else (self._from_dealer.words((self.d, width)), None)
        )
        own = self._share_of_all(theta, dim=0) - V
        for other in self.others:
            yield Send(other, "theta - V", own)
        if W is None:
            W = yield from self._dealt_product(n, width)
        F = yield from self._add_up("theta - V", own, self.others)
        z = beaver_part(self.me, rows_of(self._U, rows), V, W, rows_of(self._E, rows), F)
        yield Send(SERVER, WORDS, ((z + 2**31) >> 32).to(torch.int32))


class _LeanServer(Server):
    def step(self, n):
        return self.decoded((yield from self.sum_of(WORDS, n, torch.int32)))


class _LeanDealer(DealerSide):
    def __init__(self, name, **common):
        super().__init__(name, **common)
        self._dealer = Dealer(self._stream)
        self.streams = {
            f"for {to}": stream
            for to, stream in zip(self.names, self._dealer.streams(len(self.names)))
        }

    def connect(self):
        for name, own in zip(self.names, self._dealer.streams(len(self.names))):
            yield Send(name, "seed", own.key, "offline")

    def prepare(self, n_rows):
        self._U = total(self._dealer.mask((n_rows, sum(self.columns)), len(self.names)))
        return super().prepare(n_rows)

    def _deal(self, rows):
        _, W = self._dealer.products(rows_of(self._U, rows), self.width, len(self.names))
        yield Send(self.names[-1], "<W>", W[-1], "offline")


class Lean(SharingProtocol):
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
    sides = _LeanHolder, _LeanServer, _LeanDealer

    @classmethod
    def messages(cls, names, truncation=None):
        return [
            *((DEALER, name, "seed") for name in names),
            (DEALER, names[-1], "<W>"),
            *((*way, what) for way in permutations(names, 2) for what in OPENED),
            *((name, SERVER, WORDS) for name in names),
        ]

    def _set_up(self):
        self.transcript.next_round()  # what is opened needs the seeds
        super()._set_up()

    def _truncation_error(self):
        return len(self.holders) / 2 * 2.0**-FRACTIONAL_BITS
