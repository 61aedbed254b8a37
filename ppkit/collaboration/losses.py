"""The two losses f(theta) = g1(theta) + (1/n) sum g2, their constants, and mean gradients of many
models at once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ppkit.collaboration.hits import Lines
from ppkit.collaboration.owners import Bounds, Owner, checked
from ppkit.refusals import must_be, one_of

KINDS = ("squared", "hinge")


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
        one_of(KINDS, kind=self.kind)
        must_be("a finite number >= 0", regularisation=self.regularisation)

    @property
    def signs(self) -> bool:
        """Whether labels must be -1 or +1."""
        return self.kind != "squared"

    def value(self, thetas, owners: Sequence[Owner]) -> np.ndarray:
        """f at each of `thetas` (..., p), over all records of the owners; returns (...,), a float
        for one theta."""
        owners = checked(owners, signs=self.signs)
        thetas = np.asarray(thetas, dtype=np.float64)
        if thetas.shape[-1:] != owners[0].X.shape[1:]:
            raise ValueError(
                f"thetas must be (..., {owners[0].X.shape[1]}) as the features, got {thetas.shape}"
            )
        columns = np.ascontiguousarray(thetas.reshape(-1, thetas.shape[-1]).T)
        values = queries(self, owners).values(columns).reshape(thetas.shape[:-1])
        return values if values.ndim else float(values)

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
        owners = checked(owners, signs=self.signs)
        if self.kind == "hinge":
            return self.regularisation, math.inf
        n = sum(owner.n_records for owner in owners)
        second = sum(owner.n_records / n * owner.moments[0] for owner in owners)
        ends = np.linalg.eigvalsh(2 * second)[[0, -1]]
        return tuple(self.regularisation + max(0.0, float(end)) for end in ends)


def squared(regularisation: float = 0.0) -> Loss:
    """Linear regression of wu2020, section IV.A: (y - theta.x)^2 without a regulariser."""
    return Loss("squared", regularisation)


def hinge(regularisation: float = 1.0) -> Loss:
    """The linear support vector machine of wu2020, section IV.B: |theta|_2^2 / 2 and the hinge."""
    return Loss("hinge", regularisation)


def queries(loss: Loss, owners: Sequence[Owner], *, together: int = 1, dtype=np.float64):
    """What the owners can be asked, without noise: `gradient(at, columns)` and `values(columns)`,
    columns (p, C) models.

    gradient: owner number `at`'s mean gradient of g2 at every model, (p, C), wu2020 (5).
    values: f over all records, (C,).  Both float64; dtype is that of the products (squared loss:
    always float64).
    together: so many consecutive models are runs of one setting and close to each other; it is
    about speed only.
    """
    return {"squared": _Squared, "hinge": _Hinge}[loss.kind](
        loss, owners, together, np.dtype(dtype)
    )


class _Squared:
    """All from Gram matrices: no record is looked at again."""

    def __init__(self, loss, owners, together, dtype):
        self.loss = loss
        self.owners = [owner.moments for owner in owners]
        sizes = np.array([owner.n_records for owner in owners], dtype=np.float64)
        shares = sizes / sizes.sum()
        self.A, self.b, self.c = (
            sum(share * part for share, part in zip(shares, parts)) for parts in zip(*self.owners)
        )

    def gradient(self, at, columns):
        A, b, _ = self.owners[at]
        return 2.0 * (A @ columns - b[:, None])

    def values(self, columns):
        g = self.A @ columns - 2.0 * self.b[:, None] + self.loss.regularisation / 2 * columns
        return (g * columns).sum(axis=0) + self.c


class _Hinge:
    """Sums over the records below margin 1: a = sum y x and b their number; the gradient is -a,
    the value b - a.theta."""

    def __init__(self, loss, owners, together, dtype):
        self.loss, self.together = loss, together
        self.lines = [Lines(owner.X * owner.y[:, None], dtype) for owner in owners]
        self.sizes = [owner.n_records for owner in owners]

    def gradient(self, at, columns):
        a, _ = self.lines[at].sums(columns, self.together)
        return a / -self.sizes[at]

    def values(self, columns):
        total = 0.0
        for lines in self.lines:
            a, b = lines.sums(columns, self.together)
            total = total + b - np.einsum("pc,pc->c", a, columns)
        return total / sum(self.sizes) + self.loss.regularisation / 2 * np.einsum(
            "pc,pc->c", columns, columns
        )
