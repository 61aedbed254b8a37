"""The first layer on additive shares mod 2^64: Algorithm 2 line by line, and the same secrecy for fewer bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import torch

from ppkit.spnn import ring
from ppkit.spnn.dealer import Dealer, Triple, TruncationPair
from ppkit.spnn.fixed_point import FRACTIONAL_BITS, encode, row_reach
from ppkit.spnn.holders import DEALER, SERVER, Holder, Protocol, Rows, check_room, check_rows
from ppkit.spnn.randomness import Stream
from ppkit.spnn.sharing import TRUNCATIONS, beaver_matmul, reveal, share, truncate

FORMS = ("published", "lean")
WORD_BITS = 32                               # h1 in fixed point: |h1| < 2^15 in both forms


class _Shared(Protocol):
    """What both forms have in common: X_i as integers, head-room, opening between holders, triples dealt ahead."""

    name = "ss"
    theta_bits = FRACTIONAL_BITS

    def __init__(self, holders, **common):
        super().__init__(holders, **common)
        self._dealt: deque[tuple[Rows, list]] = deque()

    def deal(self, rows: Rows, width: int) -> None:
        """Let the dealer prepare what one batch needs ahead of time; batches use it up in the order in which it was dealt."""
        check_rows(rows, self.n_rows)
        n = len(self.holders[0].X[rows])
        self._dealt.append((rows, self._triples(rows, n, width)))

    def _set_up(self) -> None:
        self._dealt.clear()
        self._encoded = [encode(holder.X) for holder in self.holders]
        self._reach = [row_reach(holder.X) for holder in self.holders]

    def _next_triples(self, rows: Rows, n: int, width: int) -> list:
        if not self._dealt:
            return self._triples(rows, n, width)
        dealt_for, triples = self._dealt[0]
        same = dealt_for is rows or type(dealt_for) is type(rows) and (
            torch.equal(dealt_for, rows) if isinstance(rows, torch.Tensor) else dealt_for == rows)
        if not same:
            raise ValueError("the next triples were dealt for another batch: batches must come in the order of deal()")
        self._dealt.popleft()
        return triples

    def _encode_models(self, rows: Rows, thetas: list[torch.Tensor]) -> list[torch.Tensor]:
        """theta_i as integers, after each holder has made sure that its part of h1 has room."""
        encoded = [encode(theta, fractional_bits=self.theta_bits) for theta in thetas]
        room = 2.0 ** (WORD_BITS - 1 - FRACTIONAL_BITS) / len(self.holders) * (1 - 2.0**-20)
        for holder, X, reach, theta in zip(self.holders, self._encoded, self._reach, encoded):
            largest = float(theta.double().abs().max()) * 2.0**-self.theta_bits
            if not reach * largest < room:                                       # the quick way; else exactly
                check_room(holder.name, X[rows].double() @ theta.double() * 2.0**-self.theta_bits, WORD_BITS,
                           n_terms=len(self.holders))
        return encoded

    def error_bound(self, rows, thetas):
        """u (sum |theta| over features) + v (sum |x| over features) + d u v + what truncation adds; u, v half a unit of X, theta.

        Rounding X by at most u and theta by at most v moves a product of d terms by at most sum (u |theta| + v |x| + u v).
        """
        check_rows(rows, self.n_rows)
        u, v = 2.0 ** -(FRACTIONAL_BITS + 1), 2.0 ** -(self.theta_bits + 1)
        X = torch.cat([holder.take(rows) for holder in self.holders], dim=1).double().abs()
        theta = torch.cat(list(thetas)).detach().double().abs()
        return u * theta.sum(dim=0) + v * X.sum(dim=1, keepdim=True) + X.shape[1] * u * v + self._truncation_error()

    def _truncation_error(self) -> float:
        raise NotImplementedError

    def _open_between(self, parties: Sequence[Holder]):
        """How holders open a value: each sends its share to each of the others, which add them up."""
        def open_(name: str, shares: list[torch.Tensor]) -> torch.Tensor:
            for sender, own in zip(parties, shares):
                for receiver in parties:
                    if receiver is not sender:
                        self.transcript.send(sender.name, receiver.name, name, own)
            return reveal(shares)
        return open_

    def _triples(self, rows: Rows, n: int, width: int) -> list:
        raise NotImplementedError


class Published(_Shared):
    """Algorithm 2 as printed: X and theta shared anew for every batch, two products of shares for every pair of holders.

    truncation: "secureml" (the paper's, for two holders), "floor" (two) or "dealer" (any k); None takes the paper's where
    it exists, k = 2, and else the dealer's.
    Guarantee: semi-honest, no two parties collude; the server learns h1 only (and which way it was rounded), a holder
    nothing. SecureML's truncation fails, h1 off by 2^32, with probability |h1| / 2^32 a number: 2^-17 at the edge |h1| = 2^15.
    Source: zhou2021, Algorithm 2; line numbers in the code. Departs from it: triples come from a dealer, as full shares;
    for k > 2 holders line 7 runs over all pairs.
    """

    sees = "server: k shares of h1, any k - 1 of them uniform; holders: uniform shares, X - U and theta - V; dealer: shapes"
    compute = "k (k - 1) Beaver products (4 ring products each) and k ring products"

    def __init__(self, holders, *, truncation: str | None = None, **common):
        super().__init__(holders, **common)
        k = len(self.holders)
        self.truncation = ("secureml" if k == 2 else "dealer") if truncation is None else truncation
        if self.truncation not in TRUNCATIONS:
            raise ValueError(f"truncation must be one of {TRUNCATIONS}, got {truncation!r}")
        if k > 2 and self.truncation != "dealer":
            raise ValueError(f"truncation={truncation!r} is for 2 holders, got {k}: use 'dealer'")
        self._own = [self.secrets_of(holder.name) for holder in self.holders]
        self._pairs = [(i, j) for i in range(k) for j in range(k) if i != j]
        root = self.secrets_of(DEALER)
        self._dealers = {pair: Dealer(root.derive("pair", *pair)) for pair in self._pairs}
        self._trimmer = Dealer(root.derive("truncation"))

    def _truncation_error(self):
        return (2 if self.truncation == "floor" else 1) * 2.0**-FRACTIONAL_BITS

    def _triples(self, rows, n, width):
        d, names = sum(holder.width for holder in self.holders), [holder.name for holder in self.holders]
        triples = {pair: self._dealers[pair].matmul_triple(n, d, width) for pair in self._pairs}
        for (i, j), triple in triples.items():
            for party, at in enumerate((i, j)):
                payload = torch.cat([part[party].flatten() for part in (triple.U, triple.V, triple.W)])
                self.transcript.send(DEALER, names[at], f"<U>, <V>, <W> for {names[i]}{names[j]}", payload, phase="offline")
        trim = None
        if self.truncation == "dealer":
            trim = self._trimmer.truncation_pair((n, width), FRACTIONAL_BITS, len(names))
            for party, name in enumerate(names):
                payload = torch.cat([part[party].flatten() for part in (trim.mask, trim.high, trim.top)])
                self.transcript.send(DEALER, name, "<r>, <r / 2^16>, <top bit>", payload, phase="offline")
        return [triples, trim]

    def _forward(self, rows, thetas):
        k, names, send = len(self.holders), [holder.name for holder in self.holders], self.transcript.send
        models = self._encode_models(rows, thetas)
        batches = [X[rows] for X in self._encoded]
        triples: dict[tuple[int, int], Triple]
        trim: TruncationPair | None
        triples, trim = self._next_triples(rows, len(batches[0]), models[0].shape[1])
        # 1, 2: every holder splits its features and its model; the first share stays with it
        X_shares = [_turned(share(X, n_parties=k, stream=own), i) for i, (X, own) in enumerate(zip(batches, self._own))]
        T_shares = [_turned(share(T, n_parties=k, stream=own), i) for i, (T, own) in enumerate(zip(models, self._own))]
        # 3, 4: and distributes the others
        for i in range(k):
            for j in range(k):
                if i != j:
                    X_shares[i][j] = send(names[i], names[j], "<X>", X_shares[i][j])
                    T_shares[i][j] = send(names[i], names[j], "<theta>", T_shares[i][j])
        # 5, 6: holder j puts its shares side by side, and multiplies them
        X = [torch.cat([X_shares[i][j] for i in range(k)], dim=1) for j in range(k)]
        T = [torch.cat([T_shares[i][j] for i in range(k)], dim=0) for j in range(k)]
        z = [ring.matmul(X[j], T[j]) for j in range(k)]
        # 7: the products of one holder's <X> with another's <theta>, in shares (one round); 8, 9: all added up
        self.transcript.next_round()
        for i, j in self._pairs:
            cross = beaver_matmul([X[i], torch.zeros_like(X[i])], [torch.zeros_like(T[j]), T[j]], triples[i, j],
                                  open=self._open_between([self.holders[i], self.holders[j]]))
            z[i], z[j] = z[i] + cross[0], z[j] + cross[1]
        if trim is not None:
            self.transcript.next_round()
        z = truncate(z, FRACTIONAL_BITS, how=self.truncation, pair=trim, open=self._open_between(self.holders))
        # 10: every holder sends its share to the server; 11: which adds them
        self.transcript.next_round()
        return self.decoded(reveal([send(name, SERVER, "<X theta>", part) for name, part in zip(names, z)]))


class Lean(_Shared):
    """Algorithm 2 with X - U opened once per data set, random shares sent as seeds, and 32 bits a number to the server.

    once:  <X> = share(X), E = open(X - U);   a step:  <theta> = share(theta), F = open(theta - V),
           z_i = W_i + U_i F + E V_i (first holder also E F),   to the server: y_i = floor((z_i + 2^31) / 2^32) mod 2^32

    theta has 32 fractional bits (X has 16): the ring has room for them, and rounding theta is what costs most otherwise.
    The rounding of each share is exact: of z mod 2^64 the bits above 2^32 are the sum of the shares' bits above, and k
    roundings, mod 2^32. So h1 is off by at most k/2 units of 2^-16, on average by nothing, for any k, and, unlike every
    truncation inside the ring, with no chance of failure. |h1| < 2^15.
    The rounding is random and drawn anew in each pass: who averages h1 over many passes on the same rows and weights gets the
    last digit back (rms error .41 units over one pass, .02 over 400 with two holders); that is precision, not secrecy.
    Guarantee: as Published, computational (AES-256) where a seed stands for a share. X - U is opened once for one X; V is
    fresh for every step, so E and F are uniform together. The dealer must collude with nobody, the server included.
    Departs from the paper: it shares X anew for each batch and sends 64 bits a number.
    """

    theta_bits = 32
    sees = "server: k words, any k - 1 of them uniform, with sum h1; holders: seeds, X - U once, theta - V; dealer: rows of a batch"
    compute = "k Beaver parts (2 ring products each)"

    def __init__(self, holders, **common):
        super().__init__(holders, **common)
        names = [holder.name for holder in self.holders]
        self._dealer = Dealer(self.secrets_of(DEALER))
        for i, name in enumerate(names):
            self.transcript.send(DEALER, name, "seed", self._dealer.seed(i, len(names)), phase="offline")
        self._sent: list[list[Stream]] = []                  # _sent[i]: what holder i draws the others' shares from
        self._got: list[dict[int, Stream]] = [{} for _ in names]
        for i, name in enumerate(names):
            own = self.secrets_of(name)
            self._sent.append([own.derive("seed for", other) for other in names if other != name])
            others = [j for j in range(len(names)) if j != i]
            for j, seed in zip(others, self._sent[i]):
                self._got[j][i] = Stream(self.transcript.send(name, names[j], "seed", seed.key))

    def _truncation_error(self):
        return len(self.holders) / 2 * 2.0**-FRACTIONAL_BITS

    def _set_up(self):
        super()._set_up()
        k, d = len(self.holders), sum(holder.width for holder in self.holders)
        X = self._distribute(self._encoded, dim=1)
        self._mask = self._dealer.data_mask(self.n_rows, d, k)
        self.transcript.next_round()
        self._mask.open(X, self._open_between(self.holders))

    def _distribute(self, secrets: list[torch.Tensor], *, dim: int) -> list[torch.Tensor]:
        """Holder j's share of all holders' secrets together: its own part, and what it draws from the others' seeds."""
        kept = [share(secret, n_parties=len(secrets), stream=sent)[0] for secret, sent in zip(secrets, self._sent)]
        return [torch.cat([kept[j] if i == j else got[i].words(tuple(secrets[i].shape)) for i in range(len(secrets))], dim=dim)
                for j, got in enumerate(self._got)]

    def _triples(self, rows, n, width):
        d, k = self._mask.shares[0].shape[1], len(self.holders)
        triple = self._dealer.matmul_triple(n, d, width, k, U=self._mask, rows=rows)
        for holder, W, n_bytes in zip(self.holders, triple.W, triple.n_bytes):
            if n_bytes:
                self.transcript.send(DEALER, holder.name, "<W>", W, n_bytes=n_bytes, phase="offline")
        return [triple]

    def _forward(self, rows, thetas):
        models = self._encode_models(rows, thetas)
        [triple] = self._next_triples(rows, len(self.holders[0].batch), models[0].shape[1])
        T = self._distribute(models, dim=0)
        z = beaver_matmul(None, T, triple, open=lambda name, shares: self._open_between(self.holders)("theta - V", shares))
        self.transcript.next_round()
        words = [((part + 2**31) >> 32).to(torch.int32) for part in z]
        received = [self.transcript.send(holder.name, SERVER, "<X theta> mod 2^32", part)
                    for holder, part in zip(self.holders, words)]
        return self.decoded(sum(received[1:], received[0]))


def _turned(shares: list[torch.Tensor], i: int) -> list[torch.Tensor]:
    """The same shares with the first one, which stays with holder i, at place i."""
    return [*shares[1 : i + 1], shares[0], *shares[i + 1 :]]
