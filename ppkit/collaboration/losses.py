"""The two losses f(theta) = g1(theta) + (1/n) sum g2, their constants, and mean gradients of many
models at once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ppkit.collaboration.hits import Lines
from ppkit.collaboration.owners import Bounds, Owner, pooled_moments
from ppkit.validation import must_be, one_of


@dataclass(frozen=True, slots=True)
class Loss:
    """f(theta) = regularisation / 2 |theta|_2^2 + (1/n) sum over all records of g2;
    convex in theta.

    kind: squared, g2 = (y - theta.x)^2;  hinge, g2 = max(0, 1 - y theta.x).
    regularisation: finite, >= 0: g1 is convex.
    ValueError if out of range.  Source: wu2020, Remark 1.
    """

    kind: str
    regularisation: float

    def __post_init__(self):
        one_of(("squared", "hinge"), kind=self.kind)
        must_be("a finite number >= 0", regularisation=self.regularisation)

    @property
    def signs(self) -> bool:
        """Whether labels must be -1 or +1."""
        return self.kind == "hinge"

    def value(self, thetas: ArrayLike, owners: Sequence[Owner]) -> np.ndarray:
        """f at each of `thetas` (..., p), over all records of the owners; returns (...,), a number
        for one theta."""
        thetas = np.asarray(thetas, dtype=np.float64)
        columns = thetas.reshape(-1, thetas.shape[-1]).T
        return queries(self, owners).values(columns).reshape(thetas.shape[:-1])[()]

    def gradient_bound(self, bounds: Bounds, mechanism: str = "laplace") -> float:
        """Xi: the largest norm of the gradient of one record's g2, for any record and model within
        the bounds.

        hinge: r;  squared: 2 (theta_max record_l1 + label) r
        mechanism: "laplace", the l1 norm, r = record_l1; "gaussian", the l2 norm, r = record_l2,
        or record_l1 where there is no such bound.
        Source: wu2020, Assumption 3, from public bounds alone.

        >>> hinge().gradient_bound(Bounds(record_l1=10.0, theta_max=2.0))
        10.0
        """
        l2 = bounds.record_l2 if mechanism == "gaussian" else None
        longest = bounds.record_l1 if l2 is None else l2
        if self.kind == "hinge":
            return longest
        return 2.0 * (bounds.theta_max * bounds.record_l1 + bounds.label) * longest

    def curvature(self, owners: Sequence[Owner]) -> tuple[float, float]:
        """(L, lambda) of wu2020, Theorem 2: f is L-strongly convex with a lambda-Lipschitz
        gradient, over all theta.

        squared: extreme eigenvalues of 2 X'X / n + regularisation;
        hinge: regularisation, infinity.
        """
        if self.kind == "hinge":
            return self.regularisation, math.inf
        ends = np.linalg.eigvalsh(2 * pooled_moments(owners).A)
        low, high = self.regularisation + np.maximum(ends[[0, -1]], 0.0)
        return float(low), float(high)


def squared(regularisation: float = 0.0) -> Loss:
    """Linear regression of wu2020, section IV.A: (y - theta.x)^2 without a regulariser."""
    return Loss("squared", regularisation)


def hinge(regularisation: float = 1.0) -> Loss:
    """The linear support vector machine of wu2020, section IV.B: |theta|_2^2 / 2 and the hinge."""
    return Loss("hinge", regularisation)


class Queries(Protocol):
    """What the owners can be asked, without noise."""

    def gradient(self, at: int, columns: np.ndarray) -> np.ndarray:
        """Owner number `at`'s mean gradient of g2 at every model (p, C); (p, C), wu2020 (5)."""

    def values(self, columns: np.ndarray) -> np.ndarray:
        """f over all records, (C,)."""


def queries(
    loss: Loss, owners: Sequence[Owner], *, together: int = 1, dtype: DTypeLike = np.float64
) -> Queries:
    """The owners' answers, for columns (p, C) of models.

    Answers are float64; dtype is that of the products (squared loss: always float64).
    together: so many consecutive models are runs of one setting and close to each other; it is
    about speed only.
    """
    if loss.kind == "squared":
        return _Squared(loss, owners)
    return _Hinge(loss, owners, together, dtype)


class _Squared:
    """All from Gram matrices: no record is looked at again."""

    def __init__(self, loss: Loss, owners: Sequence[Owner]):
        self.loss = loss
        self.each = [owner.moments for owner in owners]
        self.all = pooled_moments(owners)

    def gradient(self, at: int, columns: np.ndarray) -> np.ndarray:
        A, b, _ = self.each[at]
        return 2.0 * (A @ columns - b[:, None])

    def values(self, columns: np.ndarray) -> np.ndarray:
        A, b, c = self.all
        g = A @ columns - 2.0 * b[:, None] + self.loss.regularisation / 2 * columns
        return (g * columns).sum(axis=0) + c


class _Hinge:
    """Sums over the records below margin 1: a = sum y x and b their number; the gradient is -a,
    the value b - a.theta."""

    def __init__(self, loss: Loss, owners: Sequence[Owner], together: int, dtype: DTypeLike):
        self.loss, self.together = loss, together
        self.lines = [Lines(owner.X * owner.y[:, None], dtype) for owner in owners]
        self.sizes = [owner.n_records for owner in owners]

    def gradient(self, at: int, columns: np.ndarray) -> np.ndarray:
        a, _ = self.lines[at].sums(columns, self.together)
        return a / -self.sizes[at]

    def values(self, columns: np.ndarray) -> np.ndarray:
        total = np.zeros(columns.shape[1])
        for lines in self.lines:
            a, b = lines.sums(columns, self.together)
            total += b - (a * columns).sum(axis=0)
        length = (columns**2).sum(axis=0)
        return total / sum(self.sizes) + self.loss.regularisation / 2 * length
