"""All parties of a protocol in one process, their messages in a Transcript: what notebooks and
`layer` compute with; and the protocol without protection, which the others are compared with."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ppkit.spnn.fixed_point import FRACTIONAL_BITS
from ppkit.spnn.messages import DEALER, SERVER, Mailroom, Transcript
from ppkit.spnn.party import DealerParty, Holder, Rows, Server, Setup, row_numbers


class Simulator:
    """One way to compute h1 at the server, with all parties in one process; the subclasses say
    which parties it has.

    setup: what every party is made with; each draws from its own part of setup.stream. A stream
    made by Stream.seeded_for_teaching makes all secrets repeat, and is for teaching only.
    transcript: where every message is written down.

    prepare(X_parts) is called once per data set, then forward(rows, theta_parts) for every batch.
    """

    name = ""
    sees = ""  # who sees what, as stated; `layer.costs` puts it next to what the transcript proves
    compute = ""  # what a step computes, in words
    holder_class: type[Holder]
    server_class: type[Server]
    dealer_class: type[DealerParty] | None = None

    def __init__(self, setup: Setup, transcript: Transcript):
        def own(role: str) -> Setup:
            stream = None if setup.stream is None else setup.stream.derive(role)
            return replace(setup, stream=stream)

        self.setup, self.transcript = setup, transcript
        self.dealers: list[DealerParty] = []
        if self.dealer_class is not None:
            self.dealers = [self.dealer_class(DEALER, own(DEALER))]
        self.holders = [self.holder_class(name, own(name)) for name in setup.names]
        self.server = self.server_class(SERVER, own(SERVER))
        self.n_rows = 0
        self._dealt: deque[Tensor] = deque()  # row numbers of the batches that were dealt for
        self._mailroom = Mailroom(transcript)
        parties = [*self.dealers, *self.holders, self.server]
        self._mailroom.run({party.name: party.connect() for party in parties})

    @classmethod
    def party(cls, role: str, setup: Setup) -> Holder | Server | DealerParty:
        """One party of this protocol, made of what this party has; see `protocols.party_of`."""
        if role == SERVER:
            return cls.server_class(role, setup)
        if role == DEALER and cls.dealer_class is not None:
            return cls.dealer_class(role, setup)
        if role not in setup.names:
            raise ValueError(f"protocol {cls.name!r} has no role {role!r}")
        return cls.holder_class(role, setup)

    @classmethod
    def messages(cls, names: Sequence[str]) -> list[tuple[str, str, str]]:
        """All messages of the first layer: (sender, receiver, name), each once."""
        raise NotImplementedError

    def prepare(self, X_parts: Sequence[Tensor]) -> None:
        """Give each holder its columns of one data set.

        X_parts: one (N, d_i) tensor or array a holder, rows in the same order at all of them,
        finite.
        ValueError that names the holder, if the number of parts, of rows or of columns is not right
        or a value not finite; and if something was dealt for the old data and not used.
        """
        if len(X_parts) != len(self.holders):
            raise ValueError(
                f"there must be one part of X per holder, got {len(X_parts)} for "
                f"{len(self.holders)} holders"
            )
        parts = [holder.checked(X) for holder, X in zip(self.holders, X_parts)]
        counts = {holder.name: len(X) for holder, X in zip(self.holders, parts)}
        if len(set(counts.values())) > 1:
            raise ValueError(
                f"all holders must have the same rows in the same order, got row counts {counts}"
            )
        if self._dealt:
            raise ValueError(f"{len(self._dealt)} batches were dealt for and not used")
        for holder, X in zip(self.holders, parts):
            holder.load(X)
        self.n_rows = len(parts[0])
        programs = {dealer.name: dealer.prepare(self.n_rows) for dealer in self.dealers}
        programs |= {holder.name: holder.prepare() for holder in self.holders}
        self._mailroom.run(programs | {SERVER: self.server.prepare(self.n_rows)})

    def deal(self, rows: Rows) -> None:
        """Let the dealer prepare what one batch needs ahead of time; batches use it up in the order
        in which it was dealt."""
        self._mailroom.run({dealer.name: dealer.deal(rows) for dealer in self.dealers})
        self._dealt.append(row_numbers(rows, self.n_rows))

    def forward(self, rows: Rows, thetas: Sequence[Tensor]) -> Tensor:
        """h1 of the rows as the server has it: (n, width) of dtype.  thetas: one (d_i, width)
        tensor a holder.

        ValueError if nothing was prepared, rows are not among what was (`row_numbers`), a theta is
        not finite (with its holder), a value leaves the fixed-point range, or what was dealt ahead
        is for another batch.
        """
        programs = {
            holder.name: holder.step(rows, theta)
            for holder, theta in zip(self.holders, thetas, strict=True)
        }
        programs[SERVER] = self.server.step(len(self.holders[0].batch))
        if not self._dealt:
            programs = {dealer.name: dealer.deal(rows) for dealer in self.dealers} | programs
        elif torch.equal(self._dealt[0], row_numbers(rows, self.n_rows)):
            self._dealt.popleft()
        else:
            raise ValueError(
                "the next triples were dealt for another batch: batches must come in the order of "
                "deal()"
            )
        return self._mailroom.run(programs)[SERVER]

    def error_bound(self, rows: Rows, thetas: Sequence[Tensor]) -> Tensor:
        """How far h1 may lie from X theta, for each entry: (n, width) float64, for dtype float64.

        k 2^-17: every holder rounds its own product once. In float32 the product's own rounding
        comes on top.
        """
        shape = len(row_numbers(rows, self.n_rows)), self.setup.width
        half_unit = 2.0 ** -(FRACTIONAL_BITS + 1)
        return torch.full(shape, len(self.holders) * half_unit, dtype=torch.float64)


class _PlainHolder(Holder):
    def begin(self, rows, theta):
        return self.to_server("X theta", self.product(theta))


class _PlainServer(Server):
    summed = "X theta"

    def __init__(self, name, setup):
        super().__init__(name, setup)
        self.word = setup.dtype

    def decoded(self, sums):
        return sums


class Plain(Simulator):
    """No protection: every holder sends X_i theta_i in the clear, as floating point.

    The limit that the others are compared with; the server sees each holder's part, not only the
    sum.
    """

    name = "plain"
    sees = "server: X_i theta_i of each holder, in the clear; holders: nothing"
    compute = "k float products"
    holder_class, server_class = _PlainHolder, _PlainServer

    @classmethod
    def messages(cls, names):
        return [(name, SERVER, "X theta") for name in names]

    def error_bound(self, rows, thetas):
        """0: nothing is rounded but by floating point."""
        return torch.zeros_like(super().error_bound(rows, thetas))
