"""One party of the first layer, by itself, and what every protocol of it shares.

h1 = X_1 theta_1 + ... + X_k theta_k: holder i has the columns X_i of all rows and its part theta_i
of the weights.
A party (`Holder`, `Server`, `DealerParty`) has nothing of the others. Its `messages.Program` says
what it sends and waits for; `simulator` puts all parties into one process.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ppkit.spnn.fixed_point import FRACTIONAL_BITS
from ppkit.spnn.messages import SERVER, Payload, Program, Receive, Send, nothing, tensor_from
from ppkit.spnn.paillier_keys import SECURE_BITS, PrivateKey, generate_keys
from ppkit.spnn.randomness import Seekable, Stream
from ppkit.spnn.ring import total
from ppkit.validation import finite, numbers

WORD_BITS = 32  # of h1 in fixed point, where a protocol has words: |h1| < 2^15
Rows = slice | Tensor | Sequence[int]
Opening = Generator[Send | Receive, Payload | None, Tensor]  # a program's part that gives a tensor


def row_numbers(rows: Rows, n_rows: int) -> Tensor:
    """The numbers of some of n_rows prepared rows: (n,) int64.

    rows: a slice, or whole numbers 0 to n_rows - 1 in a list, an array or an int64 tensor; a row
    may come twice.  ValueError for other rows, or for none.

    >>> row_numbers(slice(2, 5), 10).tolist(), row_numbers([0, 0, 9], 10).tolist()
    ([2, 3, 4], [0, 0, 9])
    """
    numbers = torch.arange(n_rows)[rows] if isinstance(rows, slice) else torch.as_tensor(rows)
    are_numbers = numbers.ndim == 1 and len(numbers) > 0 and numbers.dtype == torch.int64
    low, high = numbers.aminmax() if are_numbers else (-1, -1)
    if low < 0 or high >= n_rows:
        raise ValueError(f"rows must be 0 to {n_rows - 1}, at least one, got {numbers}")
    return numbers


def rows_of(X: Tensor, rows: Rows) -> Tensor:
    """These rows of a matrix: a view for a slice, else a copy, by index_select, which is four times
    faster than X[rows]."""
    return X[rows] if isinstance(rows, slice) else X.index_select(0, torch.as_tensor(rows))


@dataclass(frozen=True, eq=False)
class Setup:
    """What a party is made with.

    names, columns: of all holders, k >= 2, in one order for everybody.  width: of h1.
    stream: where all of this party's secrets come from; None: the operating system's CSPRNG.
    dtype: of X and h1.
    key_bits: length of Paillier keys.  teaching: allows short ones.  keys: a PrivateKey that its
    owner made before, to use instead of a new one.
    ValueError for fewer than two holders, or a holder without columns.
    """

    names: Sequence[str]
    columns: Sequence[int]
    width: int
    stream: Stream | None = None
    dtype: torch.dtype = torch.float32
    key_bits: int = SECURE_BITS
    teaching: bool = False
    keys: PrivateKey | None = None

    def __post_init__(self):
        if len(self.columns) < 2:
            raise ValueError(
                f"SPNN needs at least 2 holders, got {len(self.columns)}: {self.columns}; "
                "one holder alone needs no protocol"
            )
        if min(self.columns) < 1:
            raise ValueError(f"every holder needs at least 1 feature, got holders={self.columns}")

    def own_keys(self) -> PrivateKey:
        """The keys that were given, or new ones."""
        if self.keys is not None:
            return self.keys
        return generate_keys(self.key_bits, teaching=self.teaching)[1]


class Party(Protocol):
    """What every party has, of whatever protocol and role.

    streams: every source that it draws from in sequence, by name, once `connect` is done. A party
    made again with the same stream goes on where this one stopped after `seek(position)` of each.
    """

    name: str

    @property
    def streams(self) -> Mapping[str, Seekable]:
        """Its sources, by name."""

    def connect(self) -> Program:
        """Once: what travels before any data, such as seeds and keys."""


class _Party:
    """What the parties of this kit have in common: the public sizes, and their secrets' source."""

    def __init__(self, name: str, setup: Setup):
        self.name, self.names, self.columns = name, list(setup.names), list(setup.columns)
        self.width, self.dtype = setup.width, setup.dtype
        self.stream = Stream() if setup.stream is None else setup.stream
        self.streams: dict[str, Seekable] = {}

    def connect(self) -> Program:
        return nothing()

    def receive(
        self, sender: str, name: str, shape: tuple[int, ...], dtype: torch.dtype = torch.int64
    ) -> Opening:
        """Wait for a tensor of this shape and type.  Malformed if something else comes."""
        return tensor_from(sender, name, (yield Receive(sender, name)), shape, dtype)


class Holder(_Party):
    """One data holder.  X: its features (N, d_i), which never leave it; batch: the rows that the
    current step uses.  theta, which it has in the clear and shares anew in every step, moves in
    `spnn.training` (one process) or `spnn_system.roles.weights`."""

    def __init__(self, name: str, setup: Setup):
        super().__init__(name, setup)
        self.me = self.names.index(name)
        self.others = [other for other in self.names if other != name]
        self.X = self.batch = torch.empty(0, self.columns[self.me])
        self._columns: Tensor | None = None

    def checked(self, X: Tensor) -> Tensor:
        """The features in dtype and contiguous.

        X: (N, d_i) tensor or array, N >= 1, finite.  ValueError that names the holder and says what
        was given.
        """
        if not isinstance(X, Tensor):
            X = torch.from_numpy(numbers(f"holder {self.name}'s features", X).copy())
        X = X.to(self.dtype).contiguous()
        if X.ndim != 2 or X.shape[1] != self.columns[self.me] or not len(X):
            raise ValueError(
                f"holder {self.name}'s features must be (N, {self.columns[self.me]}), at least one "
                f"row, got {tuple(X.shape)}"
            )
        finite(**{f"holder {self.name}'s features": X})
        return X

    def load(self, X: Tensor) -> None:
        """Take the features of one data set, `checked`."""
        self.X, self._columns = self.checked(X), None

    def prepare(self) -> Program:
        """Once per data set, after `load`."""
        return nothing()

    def step(self, rows: Rows, theta: Tensor) -> Program:
        """One batch: this holder's part of h1, so that the server gets h1 and nobody anything else.

        rows: as in `row_numbers`, the same at all holders.  theta: (d_i, width), this holder's
        weights.
        All that can be refused is refused now, before the program runs and anything is drawn or
        sent: ValueError without data, for rows that are not there, a theta that is not finite, or a
        part of h1 that has no room in fixed point.
        """
        if not len(self.X):
            raise ValueError(
                f"holder {self.name} has no data yet: prepare comes before the first batch"
            )
        row_numbers(rows, len(self.X))
        shape = self.columns[self.me], self.width
        if theta.shape != shape:
            raise ValueError(
                f"theta of holder {self.name} must be {shape}, got {tuple(theta.shape)}"
            )
        if not torch.isfinite(theta).all():
            raise ValueError(
                f"theta of holder {self.name} is not finite: has the training diverged?"
            )
        self.batch = self._by_columns()[rows] if isinstance(rows, slice) else rows_of(self.X, rows)
        return self.begin(rows, theta.detach())

    def _by_columns(self) -> Tensor:
        """The features, lying column by column: narrow products of them are three times faster."""
        if self._columns is None:
            self._columns = self.X.T.contiguous().T
        return self._columns

    def begin(self, rows: Rows, theta: Tensor) -> Program:
        """`step` for rows and weights that were checked: refuses what has no room, returns what is
        left to do."""
        raise NotImplementedError

    def product(self, theta: Tensor) -> Tensor:
        """X_i theta_i on the batch, (n, width), in the clear and for this holder only; it lies
        column by column too."""
        return (theta.T @ self.batch.T).T

    def to_server(self, name: str, payload: Tensor) -> Program:
        """The program that only sends one payload to the server."""
        yield Send(SERVER, name, payload)


class Server(_Party):
    """The server: it gets h1, and, but in `Plain`, nothing else.

    Every holder sends it one payload a batch, `summed`, of type `word`; their sum is 2^16 h1.
    """

    summed = ""
    word = torch.int32

    def prepare(self, n_rows: int) -> Program:
        """Once per data set of so many rows."""
        return nothing()

    def step(self, n: int) -> Program:
        """One batch of n rows; returns h1 (n, width) of dtype.  Malformed if a payload of another
        shape or type comes."""
        parts, shape = [], (n, self.width)
        for holder in self.names:
            parts.append((yield from self.receive(holder, self.summed, shape, self.word)))
        return self.decoded(total(parts))

    def decoded(self, sums: Tensor) -> Tensor:
        """The numbers that integers of 2^-16 stand for, in dtype: exact in float64, rounded once in
        float32."""
        return sums.to(self.dtype, copy=True).mul_(2.0**-FRACTIONAL_BITS)


class DealerParty(_Party):
    """The dealer, where a protocol has one: it sends random numbers that satisfy a relation, and
    gets nothing."""

    n_rows = 0

    def prepare(self, n_rows: int) -> Program:
        """Once per data set of so many rows."""
        self.n_rows = n_rows
        return nothing()

    def deal(self, rows: Rows) -> Program:
        """What one batch needs; rows as in `row_numbers`, in the order in which batches will use
        them.  ValueError, before the program runs, for rows that are not there."""
        row_numbers(rows, self.n_rows)
        return self.begin(rows)

    def begin(self, rows: Rows) -> Program:
        """`deal` for rows that were checked."""
        raise NotImplementedError


def check_room(name: str, part: Tensor, bits: int, *, n_terms: int) -> None:
    """Refuse a holder's part of 2^16 h1 of which n_terms as large do not fit a signed word.

    |part| <= 2^(bits-1) / n_terms - 1,  where the 1 is for rounding

    ValueError that names the holder, the size (of h1, in units of 1) and the range.
    """
    room = 2.0 ** (bits - 1) / n_terms - 1
    low, high = part.T.aminmax()  # products lie column by column
    largest = max(-float(low), float(high))
    if not largest <= room:  # a NaN fits nowhere
        unit = 2.0**-FRACTIONAL_BITS
        raise ValueError(
            f"X theta of holder {name} reaches {largest * unit:.6g}, outside the range "
            f"+-{room * unit:.6g} that a {bits}-bit word with {FRACTIONAL_BITS} fractional bits "
            f"leaves for each of {n_terms}: standardise its features, or lower the learning rate "
            "where they are"
        )
