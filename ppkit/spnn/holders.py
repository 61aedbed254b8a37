"""The data holders, and what every protocol of the first layer shares: who holds what, and how a batch is asked for.

h1 = X_1 theta_1 + ... + X_k theta_k: holder i has the columns X_i of all rows and its part theta_i of the weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ppkit.spnn.fixed_point import FRACTIONAL_BITS
from ppkit.spnn.messages import Transcript
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


class Holder:
    """One data holder.  X: its features (N, d_i), which never leave it; batch: the rows that the current step uses."""

    def __init__(self, name: str, width: int):
        self.name, self.width = name, width
        self.X: torch.Tensor | None = None
        self.batch: torch.Tensor | None = None
        self._columns: torch.Tensor | None = None

    def load(self, X: torch.Tensor) -> None:
        """Take the features, and a copy that lies column by column: narrow products of it are three times faster."""
        self.X, self._columns, self.batch = X, X.T.contiguous().T, None

    def take(self, rows: Rows) -> torch.Tensor:
        """The rows of the batch, by number: (n, d_i)."""
        self.batch = self._columns[rows] if isinstance(rows, slice) else self.X.index_select(0, torch.as_tensor(rows))
        return self.batch

    def product(self, theta: torch.Tensor) -> torch.Tensor:
        """X_i theta_i on the batch, (n, width), in the clear and for this holder only; it lies column by column too."""
        return (theta.T @ self.batch.T).T


class Protocol:
    """One way to compute h1 at the server; the subclasses are what differs.

    holders: how many columns each holder has, k >= 2 numbers >= 1.  transcript: where every message is written down.
    stream: where all secrets come from; None: from the operating system's CSPRNG, each party for itself. A stream made
    by Stream.seeded_for_teaching makes all secrets repeat, and is for teaching only.
    dtype: torch.float32 or torch.float64, in which holders keep X.

    prepare(X_parts) is called once per data set, then forward(rows, theta_parts) for every batch.
    ValueError if k < 2, or a width is below 1.
    """

    name = ""
    sees = ""          # who sees what, as stated; `costs` puts it next to what the transcript proves
    compute = ""       # what a step computes, in words

    def __init__(self, holders: Sequence[int], *, transcript: Transcript, stream: Stream | None = None,
                 dtype: torch.dtype = torch.float32):
        holders = list(holders)
        if len(holders) < 2:
            raise ValueError(f"SPNN needs at least 2 holders, got {len(holders)}: {holders}; "
                             "one holder alone needs no protocol")
        if any(width < 1 for width in holders):
            raise ValueError(f"every holder needs at least 1 feature, got holders={holders}")
        self.transcript, self.dtype, self._stream = transcript, dtype, stream
        self.holders = [Holder(name, width) for name, width in zip(holder_names(len(holders)), holders)]
        self._unit = torch.tensor(2.0**-FRACTIONAL_BITS, dtype=dtype)
        self.n_rows = 0

    def prepare(self, X_parts: Sequence[torch.Tensor]) -> None:
        """Give each holder its columns of one data set.

        X_parts: one (N, d_i) tensor or array a holder, rows in the same order at all of them, finite.
        ValueError that names the holder, if the number of parts, of rows or of columns is not right or a value not finite.
        """
        if len(X_parts) != len(self.holders):
            raise ValueError(f"there must be one part of X per holder, got {len(X_parts)} for {len(self.holders)} holders")
        parts = [torch.as_tensor(X).to(self.dtype).contiguous() for X in X_parts]
        for holder, X in zip(self.holders, parts):
            if X.ndim != 2 or X.shape[1] != holder.width:
                raise ValueError(f"holder {holder.name}'s features must be (N, {holder.width}), got {tuple(X.shape)}")
            bad = int((~torch.isfinite(X)).sum())
            if bad:
                raise ValueError(f"holder {holder.name}'s features must be finite, got {bad} of {X.numel()} values "
                                 "that are NaN or infinite")
        if len({len(X) for X in parts}) > 1:
            counts = ", ".join(f"{holder.name} {len(X)}" for holder, X in zip(self.holders, parts))
            raise ValueError(f"all holders must have the same rows in the same order, got row counts {counts}")
        if not len(parts[0]):
            raise ValueError("the data set must have at least one row, got 0")
        for holder, X in zip(self.holders, parts):
            holder.load(X)
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
            if not torch.isfinite(theta).all():
                raise ValueError(f"theta of holder {holder.name} is not finite: has the training diverged?")
            holder.take(rows)
        return self._forward(rows, [theta.detach() for theta in thetas])

    def error_bound(self, rows: Rows, thetas: Sequence[torch.Tensor]) -> torch.Tensor:
        """How far h1 may lie from X theta, for each entry: (n, width) float64, for dtype float64.

        k 2^-17: every holder rounds its own product once. In float32 the product's own rounding comes on top.
        """
        check_rows(rows, self.n_rows)
        shape = len(self.holders[0].take(rows)), thetas[0].shape[1]
        return torch.full(shape, len(self.holders) * 2.0 ** -(FRACTIONAL_BITS + 1), dtype=torch.float64)

    def _set_up(self) -> None:
        """What a protocol does once per data set."""

    def _forward(self, rows: Rows, thetas: list[torch.Tensor]) -> torch.Tensor:
        raise NotImplementedError

    def secrets_of(self, party: str) -> Stream:
        """A party's own source of randomness."""
        return Stream() if self._stream is None else self._stream.derive(party)

    def decoded(self, total: torch.Tensor) -> torch.Tensor:
        """The numbers that integers of 2^-16 stand for, in dtype: exact in float64, rounded once in float32."""
        return total * self._unit

    def rounded_product(self, holder: Holder, theta: torch.Tensor, bits: int, *, n_terms: int | None = None) -> torch.Tensor:
        """round(2^16 X_i theta_i), halves to even, as floats that are whole numbers; refused where the word has no room.

        bits: of the signed word.  n_terms: how many such parts it must hold the sum of; None for the number of holders.
        """
        part = holder.product(theta * 2.0**FRACTIONAL_BITS).round_()
        check_room(holder.name, part, bits, n_terms=len(self.holders) if n_terms is None else n_terms)
        return part


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


class Plain(Protocol):
    """No protection: every holder sends X_i theta_i in the clear, as floating point.

    The limit that the others are compared with; the server sees each holder's part, not only the sum.
    """

    name = "plain"
    sees = "server: X_i theta_i of each holder, in the clear; holders: nothing"
    compute = "k float products"

    def error_bound(self, rows, thetas):
        """0: nothing is rounded but by floating point."""
        return torch.zeros_like(super().error_bound(rows, thetas))

    def _forward(self, rows, thetas):
        parts = [self.transcript.send(holder.name, SERVER, "X theta", holder.product(theta))
                 for holder, theta in zip(self.holders, thetas)]
        return sum(parts[1:], parts[0])
