"""All sides of a protocol in one process, their messages in a Transcript: what notebooks and
`layer` compute with; and the protocol without protection, which the others are compared with."""

from collections.abc import Sequence

import torch

from .fixed_point import FRACTIONAL_BITS
from .messages import DEALER, SERVER, Mailroom, Program, Transcript, holder_names
from .randomness import Stream
from .sides import DealerSide, Holder, Rows, Server, Side, check_parties, check_rows


class Protocol:
    """One way to compute h1 at the server, with all parties in one process; the subclasses say
    which sides it has.

    holders: how many columns each holder has, k >= 2 numbers >= 1.  transcript: where every message
    is written down.
    stream: where all secrets come from; None: from the operating system's CSPRNG, each party for
    itself. A stream made by Stream.seeded_for_teaching makes all secrets repeat, and is for
    teaching only.
    dtype: torch.float32 or torch.float64, in which holders keep X.  choices: what the sides take.

    prepare(X_parts) is called once per data set, then forward(rows, theta_parts) for every batch.
    ValueError if k < 2, or a width is below 1.  TypeError for a choice that no side takes.
    """

    name = ""
    sees = ""  # who sees what, as stated; `layer.costs` puts it next to what the transcript proves
    compute = ""  # what a step computes, in words
    sides: tuple[type[Holder], type[Server], type[DealerSide] | None] = (Holder, Server, None)

    def __init__(
        self,
        holders: Sequence[int],
        *,
        transcript: Transcript,
        stream: Stream | None = None,
        dtype: torch.dtype = torch.float32,
        **choices,
    ):
        columns = list(holders)
        names = holder_names(len(columns))
        check_parties(columns)
        self.transcript, self.dtype, self.n_rows = transcript, dtype, 0

        def made(role: str) -> Side:
            return self.side(
                role,
                names=names,
                columns=columns,
                stream=None if stream is None else stream.derive(role),
                dtype=dtype,
                **choices,
            )

        self.dealer: DealerSide | None = made(DEALER) if self.sides[2] is not None else None
        self.holders: list[Holder] = [made(name) for name in names]
        self.server: Server = made(SERVER)
        self._mailroom = Mailroom(transcript)
        self._run(lambda side: side.connect())

    @classmethod
    def side(cls, role: str, *, names: Sequence[str], columns: Sequence[int], **choices) -> Side:
        """One party's side of this protocol, made of what this party has; see
        `protocols.side_of`."""
        holder, server, dealer = cls.sides
        made = {SERVER: server, DEALER: dealer}.get(role, holder)
        if made is None or made is holder and role not in names:
            raise ValueError(
                "role must be one of "
                f"{', '.join([*names, SERVER, *([DEALER] if dealer else [])])}, got {role!r}"
            )
        known = {each for kind in cls.sides if kind is not None for each in kind.takes}
        common = ("width", "stream", "dtype")
        if unknown := [each for each in choices if each not in (*common, *known)]:
            raise TypeError(f"protocol {cls.name!r} knows no choice {unknown[0]!r}")
        return made(
            role,
            names=names,
            columns=columns,
            **{k: v for k, v in choices.items() if k in (*common, *made.takes)},
        )

    @classmethod
    def messages(
        cls, names: Sequence[str], truncation: str | None = None
    ) -> list[tuple[str, str, str]]:
        """All messages of the first layer: (sender, receiver, name), each once."""
        raise NotImplementedError

    def _run(self, program_of) -> dict:
        """Run the program of every side that has one; program_of(side) -> Program."""
        sides = [*([] if self.dealer is None else [self.dealer]), *self.holders, self.server]
        return self._mailroom.run({side.name: program_of(side) for side in sides})

    def prepare(self, X_parts: Sequence[torch.Tensor]) -> None:
        """Give each holder its columns of one data set.

        X_parts: one (N, d_i) tensor or array a holder, rows in the same order at all of them,
        finite.
        ValueError that names the holder, if the number of parts, of rows or of columns is not right
        or a value not finite.
        """
        if len(X_parts) != len(self.holders):
            raise ValueError(
                f"there must be one part of X per holder, got {len(X_parts)} for "
                f"{len(self.holders)} holders"
            )
        parts = [holder.checked(X) for holder, X in zip(self.holders, X_parts)]
        if len({len(X) for X in parts}) > 1:
            counts = ", ".join(f"{holder.name} {len(X)}" for holder, X in zip(self.holders, parts))
            raise ValueError(
                f"all holders must have the same rows in the same order, got row counts {counts}"
            )
        for holder, X in zip(self.holders, parts):
            holder._keep(X)
        self.n_rows = len(parts[0])
        self._set_up()

    def forward(self, rows: Rows, thetas: Sequence[torch.Tensor]) -> torch.Tensor:
        """h1 of the rows as the server has it: (n, width) of dtype.  thetas: one (d_i, width)
        tensor a holder.

        ValueError if nothing was prepared, rows are not among what was (`check_rows`), a theta is
        not finite (with its holder), or a value leaves the fixed-point range.
        """
        if not self.n_rows:
            raise ValueError(
                "prepare(X_parts) must come before the first batch: the holders have no data yet"
            )
        check_rows(rows, self.n_rows)
        for holder, theta in zip(self.holders, thetas):
            holder.check_theta(theta)
        return self._compute(rows, [theta.detach() for theta in thetas])

    def error_bound(self, rows: Rows, thetas: Sequence[torch.Tensor]) -> torch.Tensor:
        """How far h1 may lie from X theta, for each entry: (n, width) float64, for dtype float64.

        k 2^-17: every holder rounds its own product once. In float32 the product's own rounding
        comes on top.
        """
        shape = len(self.holders[0].take(rows)), thetas[0].shape[1]
        return torch.full(
            shape, len(self.holders) * 2.0 ** -(FRACTIONAL_BITS + 1), dtype=torch.float64
        )

    def _set_up(self) -> None:
        """What a protocol does once per data set."""
        self._run(
            lambda side: side.prepare() if isinstance(side, Holder) else side.prepare(self.n_rows)
        )

    def _compute(self, rows: Rows, thetas: list[torch.Tensor]) -> torch.Tensor:
        """`forward` for rows and weights that were checked."""
        self.server.width = thetas[0].shape[1]
        programs = self._begin(rows, thetas)
        programs[SERVER] = self.server.step(len(self.holders[0].batch))
        return self._mailroom.run(programs)[SERVER]

    def _begin(self, rows: Rows, thetas: list[torch.Tensor]) -> dict[str, Program]:
        """What holders (and the dealer) do for one batch: {party: program}. All that is refused is
        refused here."""
        return {
            holder.name: holder.begin(rows, theta) for holder, theta in zip(self.holders, thetas)
        }


class _PlainHolder(Holder):
    def begin(self, rows, theta):
        self.take(rows)
        return self.to_server("X theta", self.product(theta))


class _PlainServer(Server):
    def step(self, n):
        return (yield from self.sum_of("X theta", n, self.dtype))


class Plain(Protocol):
    """No protection: every holder sends X_i theta_i in the clear, as floating point.

    The limit that the others are compared with; the server sees each holder's part, not only the
    sum.
    """

    name = "plain"
    sees = "server: X_i theta_i of each holder, in the clear; holders: nothing"
    compute = "k float products"
    sides = _PlainHolder, _PlainServer, None

    @classmethod
    def messages(cls, names, truncation=None):
        return [(name, SERVER, "X theta") for name in names]

    def error_bound(self, rows, thetas):
        """0: nothing is rounded but by floating point."""
        return torch.zeros_like(super().error_bound(rows, thetas))
