"""Data owners, and what is public about their records: how many, and the bounds that they are
clipped to."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ppkit.validation import finite, must_be, numbers, same_rows

_ROWS = 4096  # rows that a pass looks at together
_ROUNDING = 1e-9  # a clipped record may be above its bound by rounding


class Moments(NamedTuple):
    """A = X'X / n (p, p), b = X'y / n (p,) and c = y'y / n: all that squared loss needs."""

    A: np.ndarray
    b: np.ndarray
    c: float


class Owner:
    """One owner's records. They are not copied where they are float64 in C order already, and must
    not change any more.

    name: for messages and tables.  X: (n, p) finite; float64, C order.  y: (n,) finite; -1 or +1
    for the hinge.
    ValueError for an owner without rows or columns, shapes that do not fit, values that are no
    finite numbers.
    """

    def __init__(self, name: str, X: ArrayLike, y: ArrayLike):
        self.name = name
        self.X = np.ascontiguousarray(numbers(f"owner {name}: X", X))
        self.y = np.ascontiguousarray(numbers(f"owner {name}: y", y))
        if self.X.ndim != 2 or not self.X.size or self.y.shape != self.X.shape[:1]:
            raise ValueError(
                f"owner {name}: X must be (n, p) and y (n,) with n, p >= 1, "
                f"got {self.X.shape} and {self.y.shape}"
            )
        finite(**{f"owner {name}: X": self.X, f"owner {name}: y": self.y})

    @property
    def n_records(self) -> int:
        """n_l, which is public: neighbours replace one record."""
        return len(self.y)

    @cached_property
    def moments(self) -> Moments:
        """The moments of the records, computed once.

        The sums X'X, X'y and y'y are added up by blocks of rows that fit into the processor's
        cache.
        """
        n, p = self.X.shape
        A, b, c = np.zeros((p, p)), np.zeros(p), 0.0
        for start in range(0, n, _ROWS):
            X_block, y_block = self.X[start : start + _ROWS], self.y[start : start + _ROWS]
            A += X_block.T @ X_block
            b += y_block @ X_block
            c += float(y_block @ y_block)
        return Moments(A / n, b / n, c / n)

    @cached_property
    def extremes(self) -> tuple[float, float, float]:
        """max |x|_1, max |x|_2 and max |y|: the owner's secret, only there to refuse what is beyond
        the bounds."""
        l1 = np.abs(self.X).sum(axis=1).max()
        l2 = np.linalg.norm(self.X, axis=1).max()
        return float(l1), float(l2), float(np.abs(self.y).max())


def pooled_moments(owners: Sequence[Owner]) -> Moments:
    """Of all owners' records together."""
    n = sum(owner.n_records for owner in owners)
    A, b, c = np.zeros_like(owners[0].moments.A), np.zeros_like(owners[0].moments.b), 0.0
    for owner in owners:
        share = owner.n_records / n
        A += share * owner.moments.A
        b += share * owner.moments.b
        c += share * owner.moments.c
    return Moments(A, b, c)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What everybody knows before any record is seen: |x|_1 <= record_l1, |theta|_inf <= theta_max,
    |y| <= label, and |x|_2 <= record_l2 if there is such a bound.

    record_l1, theta_max, label: finite, > 0.  A maximum taken from the data would not be public.
    record_l2: finite, > 0, for Gaussian noise, which then hides gradients of that l2 length; None
    takes record_l1, which bounds the l2 length too.
    """

    record_l1: float
    theta_max: float
    label: float = 1.0
    record_l2: float | None = None

    def __post_init__(self):
        must_be(
            "a finite number > 0",
            record_l1=self.record_l1,
            theta_max=self.theta_max,
            label=self.label,
            record_l2=self.record_l1 if self.record_l2 is None else self.record_l2,
        )


def blocks(X: np.ndarray, y: np.ndarray, sizes: Sequence[int]) -> tuple[Owner, ...]:
    """Owners with consecutive blocks of the rows, from row 0.

    X: (n, p).  y: (n,).  sizes: records of each owner, >= 1, together at most n.
    Returns the owners, "1", "2", ..., which share X's memory where it is float64 in C order.
    ValueError for sizes that are no whole numbers or too many, and X and y of unlike rows.
    Source: wu2020, section IV.

    >>> [owner.n_records for owner in blocks(np.eye(5), np.ones(5), (2, 3))]
    [2, 3]
    """
    same_rows(X=X, y=y)
    if not len(sizes):
        raise ValueError("sizes must name the records of one owner or more, got none")
    for size in sizes:
        must_be("a whole number >= 1", **{"a size": size})
    ends = np.cumsum([int(size) for size in sizes])
    if ends[-1] > len(X):
        raise ValueError(f"sizes {tuple(sizes)} ask for {ends[-1]} records, the data has {len(X)}")
    return tuple(
        Owner(str(i), X[end - int(size) : end], y[end - int(size) : end])
        for i, (size, end) in enumerate(zip(sizes, ends), start=1)
    )


def clip_records(X: ArrayLike, *, l1_bound: float, constant: bool = False) -> np.ndarray:
    """Every row scaled down to an l1 norm of at most `l1_bound`: x min(1, l1_bound / |x|_1).

    X: (n, p) finite.  l1_bound: > 0, public; above 1 with a constant.
    constant: append a feature that is 1, and clip the others to l1_bound - 1, so that the whole
    keeps to the bound.
    Returns (n, p) or (n, p + 1) float64, a new array.
    The paper's Xi (Assumption 3) is a maximum over the domain X x Y of records, so public; how its
    experiments bound that domain they do not say. Clipping to a bound that is chosen first is ours:
    it makes the domain, and so Xi, finite.

    >>> clip_records([[3.0, -1.0], [0.5, 0.5]], l1_bound=2.0)
    array([[ 1.5, -0.5],
           [ 0.5,  0.5]])
    """
    X = numbers("X", X)
    if X.ndim != 2:
        raise ValueError(f"X must be (n, p), got shape {X.shape}")
    finite(X=X)
    room = l1_bound - constant
    must_be("a finite number > 0", **{"l1_bound, less the constant,": room})
    norms = np.abs(X).sum(axis=1, keepdims=True)
    clipped = X * (room / np.maximum(norms, room))
    return np.c_[clipped, np.ones(len(X))] if constant else clipped


def records_and_budgets(
    n_records: ArrayLike, epsilons: ArrayLike, kappa: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """n_records and epsilons as float64 arrays (..., N), one entry per owner; ValueError in one
    sentence if they, or kappa, are odd."""
    n = np.atleast_1d(numbers("n_records", n_records))
    budgets = np.atleast_1d(numbers("epsilons", epsilons))
    if n.shape[-1] != budgets.shape[-1]:
        raise ValueError(
            "n_records and epsilons must have one entry per owner, "
            f"got shapes {n.shape} and {budgets.shape}"
        )
    if not (np.isfinite(n) & (n >= 1)).all():
        raise ValueError(f"n_records must be numbers >= 1, got {n.tolist()}")
    if not (budgets > 0).all():
        raise ValueError(f"epsilons must be > 0, got {budgets.tolist()}")
    if kappa not in range(1, n.shape[-1] + 1):
        raise ValueError(
            f"kappa must be a whole number from 1 to {n.shape[-1]} (the owners), got {kappa}"
        )
    return n, budgets


def check_bounds(owners: Sequence[Owner], bounds: Bounds, *, signs: bool) -> None:
    """Refuse owners whose records are beyond the bounds, or (signs) whose labels are not -1 or +1,
    or that have unlike columns: ValueError in one sentence that names the owner and the value."""
    if not owners:
        raise ValueError("there must be one owner or more, got none")
    for owner in owners:
        width, own = owners[0].X.shape[1], owner.X.shape[1]
        if own != width:
            raise ValueError(
                f"all owners must have the {width} columns of owner {owners[0].name}, owner "
                f"{owner.name} has {own}"
            )
    for owner in owners:
        l1, l2, largest_label = owner.extremes
        if signs and not (np.abs(owner.y) == 1).all():
            odd = owner.y[np.abs(owner.y) != 1][0]
            raise ValueError(
                f"owner {owner.name}: labels must be -1 or +1 for this loss, got {odd}"
            )
        for name, longest, bound in (
            ("record_l1", l1, bounds.record_l1),
            ("record_l2", l2, bounds.record_l1 if bounds.record_l2 is None else bounds.record_l2),
            ("label", largest_label, largest_label if signs else bounds.label),
        ):
            if longest > bound * (1 + _ROUNDING):
                raise ValueError(
                    f"owner {owner.name}: a record is beyond {name} = {bound:.6g}: {longest:.6g}"
                )
