"""The side of one party of the first layer, by itself, and what every protocol of it shares.

h1 = X_1 theta_1 + ... + X_k theta_k: holder i has the columns X_i of all rows and its part theta_i
of the weights.
A party's side of a protocol (`Holder`, `Server`, `DealerSide`) has nothing of the others. Its
`messages.Program` says what it sends and waits for; `in_process` puts all sides into one process.
"""

import math
from collections.abc import Generator, Sequence

import torch

from ppkit.refusals import finite

from .fixed_point import FRACTIONAL_BITS
from .messages import SERVER, Program, Receive, Send, nothing, tensor_from
from .randomness import Stream

WORD_BITS = 32  # of h1 in fixed point, where a protocol has words: |h1| < 2^15
Rows = slice | torch.Tensor | Sequence[int]


def check_rows(rows: Rows, n_rows: int) -> None:
    """Refuse what does not name at least one of the prepared rows: ValueError with the range and
    what was given.

    rows: a slice, or whole numbers 0 to n_rows - 1 in a list, an array or an int64 tensor; a row
    may come twice.

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
    """These rows of a matrix: a view for a slice, else a copy, by index_select, which is four times
    faster than X[rows]."""
    return X[rows] if isinstance(rows, slice) else X.index_select(0, torch.as_tensor(rows))


def count(rows: Rows, n_rows: int) -> int:
    """How many of n_rows rows these are.

    >>> count(slice(2, None), 10), count([0, 0, 9], 10)
    (8, 3)
    """
    return len(range(*rows.indices(n_rows))) if isinstance(rows, slice) else len(rows)


def check_parties(columns: Sequence[int]) -> None:
    """Refuse what is not a group of holders: ValueError for fewer than two, or a holder without
    features.  columns: of each.

    >>> check_parties([28])
    Traceback (most recent call last):
    ValueError: SPNN needs at least 2 holders, got 1: [28]; one holder alone needs no protocol
    """
    if len(columns) < 2:
        raise ValueError(
            f"SPNN needs at least 2 holders, got {len(columns)}: {columns}; "
            "one holder alone needs no protocol"
        )
    if any(width < 1 for width in columns):
        raise ValueError(f"every holder needs at least 1 feature, got holders={columns}")


class Side:
    """What one party of a protocol is and has: public sizes, and its own source of secrets.

    name: of this party.  names, columns: of all holders, in one order for everybody.  width: of h1;
    the sides of an `in_process.Protocol` get it with the first batch.  stream: this party's alone;
    None: the operating system's CSPRNG.  dtype: of X and h1.
    streams: every source that this side draws from in sequence, by name, once `connect` is done;
    each has a `position` and a `seek(position)`, so that a side made again with the same stream
    goes on where this one stopped.
    takes: what else a side of this class can be given, by name.
    """

    takes: tuple[str, ...] = ()

    def __init__(
        self,
        name: str,
        *,
        names: Sequence[str],
        columns: Sequence[int],
        width: int | None = None,
        stream: Stream | None = None,
        dtype: torch.dtype = torch.float32,
    ):
        self.name, self.names, self.columns, self.width = name, list(names), list(columns), width
        self.dtype, self._stream = dtype, stream
        self.streams: dict[str, Stream] = {}

    def connect(self) -> Program:
        """Once: what travels before any data, such as seeds and keys."""
        return nothing()


class Holder(Side):
    """One data holder's side.  X: its features (N, d_i), which never leave it; batch: the rows that
    the current step uses.  theta, which it has in the clear and shares anew in every step, moves in
    `spnn.training` (one process) or `spnn_system.roles.weights`."""

    def __init__(self, name: str, **common):
        super().__init__(name, **common)
        self.others = [other for other in self.names if other != name]
        self.n_columns = self.columns[self.names.index(name)]
        self.X: torch.Tensor | None = None
        self.batch: torch.Tensor | None = None
        self._columns: torch.Tensor | None = None

    def checked(self, X: torch.Tensor) -> torch.Tensor:
        """The features in dtype and contiguous.

        X: (N, d_i) tensor or array, N >= 1, finite.  ValueError that names the holder and says what
        was given.
        """
        X = torch.as_tensor(X).to(self.dtype).contiguous()
        if X.ndim != 2 or X.shape[1] != self.n_columns:
            raise ValueError(
                f"holder {self.name}'s features must be (N, {self.n_columns}), got {tuple(X.shape)}"
            )
        if not len(X):
            raise ValueError("the data set must have at least one row, got 0")
        finite(**{f"holder {self.name}'s features": X})
        return X

    def load(self, X: torch.Tensor) -> None:
        """Take the features of one data set, `checked`."""
        self._keep(self.checked(X))

    def _keep(self, X: torch.Tensor) -> None:
        """X, and a copy that lies column by column: narrow products of it are three times
        faster."""
        self.X, self._columns, self.batch = X, X.T.contiguous().T, None

    def prepare(self) -> Program:
        """Once per data set, after `load`."""
        return nothing()

    def step(self, rows: Rows, theta: torch.Tensor) -> Program:
        """One batch: this holder's part of h1, so that the server gets h1 and nobody anything else.

        rows: as in `check_rows`, the same at all holders.  theta: (d_i, width), this holder's
        weights.
        All that can be refused is refused now, before the program runs and anything is sent:
        ValueError without data, for rows that are not there, a theta that is not finite, or a part
        of h1 that has no room in fixed point.
        """
        if self.X is None:
            raise ValueError(
                f"load(X) must come before the first batch: holder {self.name} has no data yet"
            )
        check_rows(rows, len(self.X))
        self.check_theta(theta)
        return self.begin(rows, theta.detach())

    def check_theta(self, theta: torch.Tensor) -> None:
        """ValueError for weights of another shape, or that are not finite."""
        if theta.ndim != 2 or len(theta) != self.n_columns:
            raise ValueError(
                f"theta of holder {self.name} must be ({self.n_columns}, width), got "
                f"{tuple(theta.shape)}"
            )
        if not math.isfinite(theta.detach().sum().item()) and not torch.isfinite(theta).all():
            raise ValueError(
                f"theta of holder {self.name} is not finite: has the training diverged?"
            )

    def begin(self, rows: Rows, theta: torch.Tensor) -> Program:
        """`step` for rows and weights that were checked: takes the batch, refuses what has no room,
        returns what is left to do."""
        raise NotImplementedError

    def take(self, rows: Rows) -> torch.Tensor:
        """The rows of the batch, by number: (n, d_i)."""
        self.batch = rows_of(self._columns if isinstance(rows, slice) else self.X, rows)
        return self.batch

    def product(self, theta: torch.Tensor) -> torch.Tensor:
        """X_i theta_i on the batch, (n, width), in the clear and for this holder only; it lies
        column by column too."""
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
        """One batch of n rows; returns h1 (n, width) of dtype.  Malformed if a payload of another
        shape or type comes."""
        raise NotImplementedError

    def sum_of(
        self, name: str, n: int, dtype: torch.dtype
    ) -> Generator[Receive, torch.Tensor, torch.Tensor]:
        """The sum of one payload (n, width) of this name and type from every holder."""
        parts = []
        for holder in self.names:
            came = yield Receive(holder, name)
            parts.append(tensor_from(holder, name, came, (n, self.width), dtype))
        return sum(parts[1:], parts[0])

    def decoded(self, total: torch.Tensor) -> torch.Tensor:
        """The numbers that integers of 2^-16 stand for, in dtype: exact in float64, rounded once in
        float32."""
        return total.to(self.dtype, copy=True).mul_(2.0**-FRACTIONAL_BITS)


class DealerSide(Side):
    """The dealer's side, where a protocol has one: it sends random numbers that satisfy a relation,
    and gets nothing."""

    n_rows = 0

    def prepare(self, n_rows: int) -> Program:
        """Once per data set of so many rows."""
        self.n_rows = n_rows
        return nothing()

    def deal(self, rows: Rows) -> Program:
        """What one batch needs, of width `self.width`; rows as in `check_rows`, in the order in
        which batches will use them.

        ValueError, before the program runs, without a data set or for rows that are not there.
        """
        if not self.n_rows:
            raise ValueError(
                "prepare(n_rows) must come before the first batch: the dealer knows of no data yet"
            )
        check_rows(rows, self.n_rows)
        return self._deal(rows)

    def _deal(self, rows: Rows) -> Program:
        raise NotImplementedError


def check_room(name: str, part: torch.Tensor, bits: int, *, n_terms: int) -> None:
    """Refuse a holder's part of 2^16 h1 that is not finite, or of which n_terms as large do not fit
    a signed word.

    |part| <= 2^(bits-1) / n_terms - 1,  where the 1 is for rounding

    ValueError that names the holder, the number (of h1, in units of 1) and the range.
    """
    room = 2.0 ** (bits - 1) / n_terms - 1
    low, high = (float(end) for end in part.T.aminmax()) if part.numel() else (0.0, 0.0)
    if not (low >= -room and high <= room):
        if not math.isfinite(low + high):
            raise ValueError(f"X theta of holder {name} is not finite: has the training diverged?")
        worst = (low if -low > high else high) * 2.0**-FRACTIONAL_BITS
        raise ValueError(
            f"X theta of holder {name} reaches {worst:.6g}, outside the range "
            f"+-{room * 2.0**-FRACTIONAL_BITS:.6g} that a {bits}-bit word with {FRACTIONAL_BITS} "
            f"fractional bits leaves for each of {n_terms}"
        )
