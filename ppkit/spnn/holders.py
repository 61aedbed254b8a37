"""The parties of the first layer, each by itself, and what every protocol of it shares.

h1 = X_1 theta_1 + ... + X_k theta_k: holder i has the columns X_i of all rows and its part theta_i of the weights.
A party's side of a protocol (`Holder`, `Server`, `Dealing`) has nothing of the others, and says in `programs` what it sends
and waits for; a `Protocol` is all sides in one process.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence

import torch

from ppkit.spnn.fixed_point import FRACTIONAL_BITS
from ppkit.spnn.messages import Transcript
from ppkit.spnn.programs import Mailroom, Program, Receive, Send, nothing
from ppkit.spnn.randomness import Stream

SERVER, DEALER = "server", "dealer"
Rows = slice | torch.Tensor | Sequence[int]


def holder_names(k: int) -> list[str]:
    """A, B, C, ..., Z, then H27, H28, ...

    >>> holder_names(3)
    ['A', 'B', 'C']
    """
    return [chr(ord("A") + i) if i < 26 else f"H{i + 1}" for i in range(k)]


def check_rows(rows: Rows, n_rows: int) -> None:
    """Refuse what does not name at least one of the prepared rows: ValueError with the range and what was given.

    rows: a slice, or whole numbers 0 to n_rows - 1 in a list, an array or an int64 tensor; a row may come twice.

    >>> check_rows([0, 10], 10)
    Traceback (most recent call last):
    ValueError: rows must be 0 to 9, at least one, got 10
    """
    said = f"rows must be 0 to {n_rows - 1}, at least one, got"
    if isinstance(rows, slice):
        if not range(*rows.indices(n_rows)):
            raise ValueError(f"{said} the empty {rows}")
        return
    numbers = torch.as_tensor(rows)
    if numbers.ndim != 1 or not numbers.numel():
        raise ValueError(f"{said} numbers of shape {tuple(numbers.shape)}")
    if numbers.dtype not in (torch.int64, torch.int32):
        raise ValueError(f"{said} {numbers.dtype}")
    low, high = (int(end) for end in numbers.aminmax())
    if low < 0 or high >= n_rows:
        raise ValueError(f"{said} {low if low < 0 else high}")


def rows_of(X: torch.Tensor, rows: Rows) -> torch.Tensor:
    """These rows of a matrix: a view for a slice, else a copy, by index_select, which is four times faster than X[rows]."""
    return X[rows] if isinstance(rows, slice) else X.index_select(0, torch.as_tensor(rows))


def count(rows: Rows, n_rows: int) -> int:
    """How many of n_rows rows these are.

    >>> count(slice(2, None), 10), count([0, 0, 9], 10)
    (8, 3)
    """
    return len(range(*rows.indices(n_rows))) if isinstance(rows, slice) else len(rows)


def check_parties(names: Sequence[str], columns: Sequence[int]) -> None:
    """Refuse what is not a group of holders: ValueError for fewer than two, a holder without features, or names that do not do.

    >>> check_parties(["A", "A"], [14, 14])
    Traceback (most recent call last):
    ValueError: every holder needs a name of its own, got ['A', 'A']
    """
    names, columns = list(names), list(columns)
    if len(columns) < 2:
        raise ValueError(f"SPNN needs at least 2 holders, got {len(columns)}: {columns}; one holder alone needs no protocol")
    if any(width < 1 for width in columns):
        raise ValueError(f"every holder needs at least 1 feature, got holders={columns}")
    if len(names) != len(columns):
        raise ValueError(f"there must be one name a holder, got {len(names)} names for {len(columns)} holders")
    if len(set(names)) < len(names):
        raise ValueError(f"every holder needs a name of its own, got {names}")
    if taken := [name for name in names if name in (SERVER, DEALER) or not name]:
        raise ValueError(f"a holder cannot be called {taken[0]!r}")


class Side:
    """What one party of a protocol is and has: public sizes, and its own source of secrets.

    name: of this party.  names, columns: of all holders, in one order for everybody.  width: of h1; the sides of a `Protocol`
    get it with the first batch.  stream: this party's alone; None: the operating system's CSPRNG.  dtype: of X and h1.
    streams: every source that this side draws from in sequence, by name, once `connect` is done; each has a `position` and a
    `seek(position)`, so that a side made again with the same stream goes on where this one stopped.
    takes: what else a side of this class can be given, by name.
    """

    takes: tuple[str, ...] = ()

    def __init__(self, name: str, *, names: Sequence[str], columns: Sequence[int], width: int | None = None,
                 stream: Stream | None = None, dtype: torch.dtype = torch.float32):
        self.name, self.names, self.columns, self.width = name, list(names), list(columns), width
        self.dtype, self._stream = dtype, stream
        self.streams: dict[str, Stream] = {}

    def connect(self) -> Program:
        """Once: what travels before any data, such as seeds and keys."""
        return nothing()


class Holder(Side):
    """One data holder's side.  X: its features (N, d_i), which never leave it; batch: the rows that the current step uses."""

    def __init__(self, name: str, **common):
        super().__init__(name, **common)
        self.others = [other for other in self.names if other != name]
        self.n_columns = self.columns[self.names.index(name)]
        self.X: torch.Tensor | None = None
        self.batch: torch.Tensor | None = None
        self._columns: torch.Tensor | None = None

    def checked(self, X: torch.Tensor) -> torch.Tensor:
        """The features in dtype and contiguous.

        X: (N, d_i) tensor or array, N >= 1, finite.  ValueError that names the holder and says what was given.
        """
        X = torch.as_tensor(X).to(self.dtype).contiguous()
        if X.ndim != 2 or X.shape[1] != self.n_columns:
            raise ValueError(f"holder {self.name}'s features must be (N, {self.n_columns}), got {tuple(X.shape)}")
        if not len(X):
            raise ValueError("the data set must have at least one row, got 0")
        bad = int((~torch.isfinite(X)).sum())
        if bad:
            raise ValueError(f"holder {self.name}'s features must be finite, got {bad} of {X.numel()} values "
                             "that are NaN or infinite")
        return X

    def load(self, X: torch.Tensor) -> None:
        """Take the features of one data set, `checked`."""
        self._keep(self.checked(X))

    def _keep(self, X: torch.Tensor) -> None:
        """X, and a copy that lies column by column: narrow products of it are three times faster."""
        self.X, self._columns, self.batch = X, X.T.contiguous().T, None

    def prepare(self) -> Program:
        """Once per data set, after `load`."""
        return nothing()

    def step(self, rows: Rows, theta: torch.Tensor) -> Program:
        """One batch: this holder's part of h1, so that the server gets h1 and nobody anything else.

        rows: as in `check_rows`, the same at all holders.  theta: (d_i, width), this holder's weights.
        All that can be refused is refused now, before the program runs and anything is sent: ValueError without data, for
        rows that are not there, a theta that is not finite, or a part of h1 that has no room in fixed point.
        """
        if self.X is None:
            raise ValueError(f"load(X) must come before the first batch: holder {self.name} has no data yet")
        check_rows(rows, len(self.X))
        self.check_theta(theta)
        return self.begin(rows, theta.detach())

    def check_theta(self, theta: torch.Tensor) -> None:
        """ValueError for weights of another shape, or that are not finite."""
        if theta.ndim != 2 or len(theta) != self.n_columns:
            raise ValueError(f"theta of holder {self.name} must be ({self.n_columns}, width), got {tuple(theta.shape)}")
        if not torch.isfinite(theta).all():
            raise ValueError(f"theta of holder {self.name} is not finite: has the training diverged?")

    def begin(self, rows: Rows, theta: torch.Tensor) -> Program:
        """`step` for rows and weights that were checked: takes the batch, computes what it can, and returns what is left to do."""
        raise NotImplementedError

    def take(self, rows: Rows) -> torch.Tensor:
        """The rows of the batch, by number: (n, d_i)."""
        self.batch = rows_of(self._columns if isinstance(rows, slice) else self.X, rows)
        return self.batch

    def product(self, theta: torch.Tensor) -> torch.Tensor:
        """X_i theta_i on the batch, (n, width), in the clear and for this holder only; it lies column by column too."""
        return (theta.T @ self.batch.T).T

    def to_server(self, name: str, payload: torch.Tensor) -> Program:
        """The program that only sends one payload to the server."""
        yield Send(SERVER, name, payload)


class Server(Side):
    """The server's side: it gets h1, and, but in `Plain`, nothing else."""

    def prepare(self, n_rows: int) -> Program:
        """Once per data set of so many rows."""
        return nothing()

    def step(self, n: int) -> Program:
        """One batch of n rows; returns h1 (n, width) of dtype.  ValueError if a payload of another shape comes."""
        raise NotImplementedError

    def gather(self, name: str, n: int) -> Generator[Receive, torch.Tensor, dict[str, torch.Tensor]]:
        """One payload (n, width) of this name from every holder: {holder: payload}."""
        received = {}
        for holder in self.names:
            payload = yield Receive(holder, name)
            if payload.shape != (n, self.width):
                raise ValueError(f"{name!r} of holder {holder} must have shape {(n, self.width)}, got {tuple(payload.shape)}")
            received[holder] = payload
        return received

    def decoded(self, total: torch.Tensor) -> torch.Tensor:
        """The numbers that integers of 2^-16 stand for, in dtype: exact in float64, rounded once in float32."""
        return total * torch.tensor(2.0**-FRACTIONAL_BITS, dtype=self.dtype)


class Dealing(Side):
    """The dealer's side, where a protocol has one: it sends random numbers that satisfy a relation, and gets nothing."""

    n_rows = 0

    def prepare(self, n_rows: int) -> Program:
        """Once per data set of so many rows."""
        self.n_rows = n_rows
        return nothing()

    def deal(self, rows: Rows) -> Program:
        """What one batch needs, of width `self.width`; rows as in `check_rows`, in the order in which batches will use them.

        ValueError, before the program runs, without a data set or for rows that are not there.
        """
        if not self.n_rows:
            raise ValueError("prepare(n_rows) must come before the first batch: the dealer knows of no data yet")
        check_rows(rows, self.n_rows)
        return self._deal(rows)

    def _deal(self, rows: Rows) -> Program:
        raise NotImplementedError


class Protocol:
    """One way to compute h1 at the server, with all parties in one process; the subclasses say which sides it has.

    holders: how many columns each holder has, k >= 2 numbers >= 1.  transcript: where every message is written down.
    stream: where all secrets come from; None: from the operating system's CSPRNG, each party for itself. A stream made
    by Stream.seeded_for_teaching makes all secrets repeat, and is for teaching only.
    dtype: torch.float32 or torch.float64, in which holders keep X.  choices: what the sides take.

    prepare(X_parts) is called once per data set, then forward(rows, theta_parts) for every batch.
    ValueError if k < 2, or a width is below 1.  TypeError for a choice that no side takes.
    """

    name = ""
    sees = ""          # who sees what, as stated; `costs` puts it next to what the transcript proves
    compute = ""       # what a step computes, in words
    sides: tuple[type[Holder], type[Server], type[Dealing] | None] = (Holder, Server, None)

    def __init__(self, holders: Sequence[int], *, transcript: Transcript, stream: Stream | None = None,
                 dtype: torch.dtype = torch.float32, **choices):
        columns = list(holders)
        names = holder_names(len(columns))
        check_parties(names, columns)
        self.transcript, self.dtype, self.n_rows = transcript, dtype, 0

        def made(role: str) -> Side:
            return self.side(role, names=names, columns=columns, stream=None if stream is None else stream.derive(role),
                             dtype=dtype, **choices)

        self.dealer: Dealing | None = made(DEALER) if self.sides[2] is not None else None
        self.holders: list[Holder] = [made(name) for name in names]
        self.server: Server = made(SERVER)
        self._mailroom = Mailroom(transcript)
        self._run(lambda side: side.connect())

    @classmethod
    def side(cls, role: str, *, names: Sequence[str], columns: Sequence[int], **choices) -> Side:
        """One party's side of this protocol, made of what this party has; see `protocols.side_of`."""
        holder, server, dealer = cls.sides
        made = {SERVER: server, DEALER: dealer}.get(role, holder)
        if made is None or made is holder and role not in names:
            raise ValueError(f"role must be one of {', '.join([*names, SERVER, *([DEALER] if dealer else [])])}, got {role!r}")
        known = {each for kind in cls.sides if kind is not None for each in kind.takes}
        common = ("width", "stream", "dtype")
        if unknown := [each for each in choices if each not in (*common, *known)]:
            raise TypeError(f"protocol {cls.name!r} knows no choice {unknown[0]!r}")
        return made(role, names=names, columns=columns, **{k: v for k, v in choices.items() if k in (*common, *made.takes)})

    @classmethod
    def received(cls, role: str, sender: str, names: Sequence[str], truncation: str | None = None) -> Sequence[str]:
        """The names of all messages that go from one party to another; none by default."""
        return ()

    def _run(self, program_of) -> dict:
        """Run the program of every side that has one; program_of(side) -> Program."""
        sides = [*([] if self.dealer is None else [self.dealer]), *self.holders, self.server]
        return self._mailroom.run({side.name: program_of(side) for side in sides})

    def prepare(self, X_parts: Sequence[torch.Tensor]) -> None:
        """Give each holder its columns of one data set.

        X_parts: one (N, d_i) tensor or array a holder, rows in the same order at all of them, finite.
        ValueError that names the holder, if the number of parts, of rows or of columns is not right or a value not finite.
        """
        if len(X_parts) != len(self.holders):
            raise ValueError(f"there must be one part of X per holder, got {len(X_parts)} for {len(self.holders)} holders")
        parts = [holder.checked(X) for holder, X in zip(self.holders, X_parts)]
        if len({len(X) for X in parts}) > 1:
            counts = ", ".join(f"{holder.name} {len(X)}" for holder, X in zip(self.holders, parts))
            raise ValueError(f"all holders must have the same rows in the same order, got row counts {counts}")
        for holder, X in zip(self.holders, parts):
            holder._keep(X)
        self.n_rows = len(parts[0])
        self._set_up()

    def forward(self, rows: Rows, thetas: Sequence[torch.Tensor]) -> torch.Tensor:
        """h1 of the rows as the server has it: (n, width) of dtype.  thetas: one (d_i, width) tensor a holder.

        ValueError if nothing was prepared, rows are not among what was (`check_rows`), a theta is not finite (with its
        holder), or a value leaves the fixed-point range.
        """
        if not self.n_rows:
            raise ValueError("prepare(X_parts) must come before the first batch: the holders have no data yet")
        check_rows(rows, self.n_rows)
        for holder, theta in zip(self.holders, thetas):
            holder.check_theta(theta)
        return self._compute(rows, [theta.detach() for theta in thetas])

    def error_bound(self, rows: Rows, thetas: Sequence[torch.Tensor]) -> torch.Tensor:
        """How far h1 may lie from X theta, for each entry: (n, width) float64, for dtype float64.

        k 2^-17: every holder rounds its own product once. In float32 the product's own rounding comes on top.
        """
        check_rows(rows, self.n_rows)
        shape = len(self.holders[0].take(rows)), thetas[0].shape[1]
        return torch.full(shape, len(self.holders) * 2.0 ** -(FRACTIONAL_BITS + 1), dtype=torch.float64)

    def _set_up(self) -> None:
        """What a protocol does once per data set."""
        self._run(lambda side: side.prepare() if isinstance(side, Holder) else side.prepare(self.n_rows))

    def _compute(self, rows: Rows, thetas: list[torch.Tensor]) -> torch.Tensor:
        """`forward` for rows and weights that were checked."""
        self.server.width = thetas[0].shape[1]
        programs = self._begin(rows, thetas)
        programs[SERVER] = self.server.step(len(self.holders[0].batch))
        return self._mailroom.run(programs)[SERVER]

    def _begin(self, rows: Rows, thetas: list[torch.Tensor]) -> dict[str, Program]:
        """What holders (and the dealer) do for one batch: {party: program}. All that is refused is refused here."""
        return {holder.name: holder.begin(rows, theta) for holder, theta in zip(self.holders, thetas)}


def check_room(name: str, part: torch.Tensor, bits: int, *, n_terms: int) -> None:
    """Refuse a holder's part of 2^16 h1 that is not finite, or of which n_terms as large do not fit a signed word.

    |part| <= 2^(bits-1) / n_terms - 1,  where the 1 is for rounding

    ValueError that names the holder, the number (of h1, in units of 1) and the range.
    """
    room = 2.0 ** (bits - 1) / n_terms - 1
    low, high = (float(end) for end in part.T.aminmax()) if part.numel() else (0.0, 0.0)
    if not (low >= -room and high <= room):
        if not math.isfinite(low + high):
            raise ValueError(f"X theta of holder {name} is not finite: has the training diverged?")
        worst = (low if -low > high else high) * 2.0**-FRACTIONAL_BITS
        raise ValueError(f"X theta of holder {name} reaches {worst:.6g}, outside the range "
                         f"+-{room * 2.0**-FRACTIONAL_BITS:.6g} that a {bits}-bit word with {FRACTIONAL_BITS} fractional bits leaves for each of {n_terms}")


class _PlainHolder(Holder):
    def begin(self, rows, theta):
        self.take(rows)
        return self.to_server("X theta", self.product(theta))


class _PlainServer(Server):
    def step(self, n):
        parts = list((yield from self.gather("X theta", n)).values())
        return sum(parts[1:], parts[0])


class Plain(Protocol):
    """No protection: every holder sends X_i theta_i in the clear, as floating point.

    The limit that the others are compared with; the server sees each holder's part, not only the sum.
    """

    name = "plain"
    sees = "server: X_i theta_i of each holder, in the clear; holders: nothing"
    compute = "k float products"
    sides = _PlainHolder, _PlainServer, None

    @classmethod
    def received(cls, role, sender, names, truncation=None):
        return ["X theta"] if role == SERVER and sender in names else []

    def error_bound(self, rows, thetas):
        """0: nothing is rounded but by floating point."""
        return torch.zeros_like(super().error_bound(rows, thetas))
