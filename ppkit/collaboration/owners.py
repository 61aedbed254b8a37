"""Data owners, and what is public about their records: how many, and the bounds that they are
clipped to."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ppkit.refusals import NUMBER, finite, must_be

_ROWS = 4096  # rows that a pass looks at together
_ROUNDING = 1e-9  # a clipped record may be above its bound by rounding


@dataclass(frozen=True, eq=False)
class Owner:
    """One owner's records. They are not copied where they are float64 in C order already, and must
    not change any more.

    name: for messages and tables.  X: (n, p) finite; float64, C order.  y: (n,) finite; -1 or +1
    for hinge and logistic.
    largest_l1, largest_label: max |x|_1 and max |y|: the owner's secret, only there to refuse what
    is not clipped.
    ValueError for an owner without rows or columns, shapes that do not fit, values that are not
    finite.
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    largest_l1: float = field(init=False, repr=False)
    largest_label: float = field(init=False, repr=False)

    def __post_init__(self):
        X, y = (
            np.ascontiguousarray(self.X, dtype=np.float64),
            np.ascontiguousarray(self.y, dtype=np.float64),
        )
        if X.ndim != 2 or y.ndim != 1 or len(X) != len(y):
            raise ValueError(
                f"owner {self.name}: X must be (n, p) and y (n,), got {X.shape} and {y.shape}"
            )
        if not X.size:
            raise ValueError(f"owner {self.name} has no records: X has shape {X.shape}")
        norms = np.abs(X).sum(axis=1)
        finite(**{f"owner {self.name}: X": X, f"owner {self.name}: y": y})
        X, y = X.view(), y.view()
        X.flags.writeable = y.flags.writeable = False
        for name, value in (
            ("X", X),
            ("y", y),
            ("largest_l1", float(norms.max())),
            ("largest_label", float(np.abs(y).max())),
        ):
            object.__setattr__(self, name, value)

    @property
    def n_records(self) -> int:
        """n_l, which is public: neighbours replace one record."""
        return len(self.y)

    @cached_property
    def moments(self) -> tuple[np.ndarray, np.ndarray, float]:
        """A = X'X / n (p, p), b = X'y / n (p,) and c = y'y / n: all that squared loss needs."""
        n, p = self.X.shape
        A, b, c = np.zeros((p, p)), np.zeros(p), 0.0
        for start in range(0, n, _ROWS):  # rows that stay in the cache for both products
            X, y = self.X[start : start + _ROWS], self.y[start : start + _ROWS]
            A += X.T @ X
            b += y @ X
            c += float(y @ y)
        return A / n, b / n, c / n


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


def blocks(X, y, sizes: Sequence[int]) -> tuple[Owner, ...]:
    """Owners with consecutive blocks of the rows, from row 0.

    X: (n, p).  y: (n,).  sizes: records of each owner, >= 1, together at most n.
    Returns the owners, "1", "2", ..., which share X's memory where it is float64 in C order.
    Source: wu2020, section IV.

    >>> [owner.n_records for owner in blocks(np.eye(5), np.ones(5), (2, 3))]
    [2, 3]
    """
    X, y = np.asarray(X), np.asarray(y)
    if np.ndim(sizes) != 1 or not len(sizes):
        raise ValueError(f"sizes must be a list, a number of records for each owner, got {sizes!r}")
    for i, size in enumerate(sizes, start=1):
        must_be("a whole number >= 1", **{f"the size of owner {i}": size})
    if X.ndim != 2 or y.shape != X.shape[:1]:
        raise ValueError(f"X must be (n, p) and y (n,), got {X.shape} and {y.shape}")
    if sum(sizes) > len(X):
        raise ValueError(
            f"sizes {tuple(sizes)} ask for {sum(sizes)} records, the data has {len(X)}"
        )
    ends = np.cumsum(np.asarray(sizes, dtype=np.int64))
    return tuple(
        Owner(str(i), X[end - int(size) : end], y[end - int(size) : end])
        for i, (size, end) in enumerate(zip(sizes, ends), start=1)
    )


def clip_records(X, *, l1_bound: float, constant: bool = False) -> np.ndarray:
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
    X = np.asarray(X, dtype=np.float64)
    if not (isinstance(l1_bound, NUMBER) and math.isfinite(l1_bound) and l1_bound > int(constant)):
        raise ValueError(f"l1_bound must be a finite number > {int(constant)}, got {l1_bound!r}")
    room = l1_bound - 1.0 if constant else l1_bound
    if X.ndim != 2:
        raise ValueError(f"X must be (n, p), got shape {X.shape}")
    finite(X=X)
    norms = np.abs(X).sum(axis=1)
    factors = np.divide(room, norms, out=np.ones(len(X)), where=norms > room)
    clipped = np.ones((len(X), X.shape[1] + constant))
    np.multiply(X, factors[:, None], out=clipped[:, : X.shape[1]])
    return clipped


def settings(n_records, epsilons, kappa=1, *, whole: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """n_records and epsilons as float64 arrays (..., N), one entry per owner; ValueError in one
    sentence if they, or kappa, are odd.  whole: whether numbers of records must be."""
    n, budgets = (
        np.atleast_1d(np.asarray(n_records, dtype=float)),
        np.atleast_1d(np.asarray(epsilons, dtype=float)),
    )
    if n.shape[-1] != budgets.shape[-1] or n.shape[-1] == 0:
        raise ValueError(
            "n_records and epsilons must have one entry per owner, "
            f"got shapes {n.shape} and {budgets.shape}"
        )
    if not (np.isfinite(n).all() and (n >= 1).all() and (not whole or (n == np.floor(n)).all())):
        kind = "whole numbers" if whole else "numbers"
        raise ValueError(f"n_records must be {kind} >= 1, got {n.tolist()}")
    if not (budgets > 0).all():
        raise ValueError(f"epsilons must be > 0, got {budgets[~(budgets > 0)][0]}")
    must_be("a whole number >= 1", kappa=kappa)
    if kappa > n.shape[-1]:
        raise ValueError(
            f"kappa must be a whole number from 1 to {n.shape[-1]} (the owners), got {kappa}"
        )
    return n, budgets


def checked(
    owners: Sequence[Owner], *, bounds: Bounds | None = None, signs: bool = False
) -> tuple[Owner, ...]:
    """The owners, after a look that they fit each other, the bounds, and (signs) labels of -1 and
    +1.

    ValueError in one sentence that names the owner and the value.
    """
    owners = tuple(owners)
    if not owners:
        raise ValueError("there must be at least one owner, got none")
    widths = {owner.name: owner.X.shape[1] for owner in owners}
    if len({owner.X.shape[1] for owner in owners}) > 1:
        raise ValueError(f"all owners must have the same number of features, got {widths}")
    for owner in owners:
        if signs and not (np.abs(owner.y) == 1).all():
            odd = owner.y[np.abs(owner.y) != 1][0]
            raise ValueError(
                f"owner {owner.name}: labels must be -1 or +1 for this loss, got {odd}"
            )
        if bounds is None:
            continue
        if owner.largest_l1 > bounds.record_l1 * (1 + _ROUNDING):
            raise ValueError(
                f"owner {owner.name}: records are not clipped: "
                f"an l1 norm of {owner.largest_l1:.6g} is above "
                f"record_l1 = {bounds.record_l1:.6g} (see clip_records)"
            )
        if bounds.record_l2 is not None:
            longest = float(np.linalg.norm(owner.X, axis=1).max())
            if longest > bounds.record_l2 * (1 + _ROUNDING):
                raise ValueError(
                    f"owner {owner.name}: records are not clipped: an l2 norm of {longest:.6g} "
                    f"is above record_l2 = {bounds.record_l2:.6g}"
                )
        if not signs and owner.largest_label > bounds.label * (1 + _ROUNDING):
            raise ValueError(
                f"owner {owner.name}: a label of size {owner.largest_label:.6g} is above "
                f"label = {bounds.label:.6g}"
            )
    return owners


def start_within(start, p: int, theta_max: float) -> np.ndarray:
    """theta[1] as (p,) float64, 0 for None; ValueError if its shape is another or it lies outside
    |theta|_inf <= theta_max."""
    start = np.zeros(p) if start is None else np.asarray(start, dtype=np.float64)
    if start.shape != (p,) or not (np.abs(start) <= theta_max).all():
        raise ValueError(
            f"start must be ({p},) within theta_max = {theta_max}, got shape {start.shape}"
            f" and a largest size of {np.abs(start).max(initial=0.0)}"
        )
    return start
