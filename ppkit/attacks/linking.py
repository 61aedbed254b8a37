"""When batches are reshuffled: finding each record again by how little its h1 moved, and solving
for it from all its looks.

A record that comes back in another batch is seen through another theta. Who knows d records of a
batch knows the batch's theta exactly, and each record has as many linear equations as it was looked
at; a wrong link shows, because the equations of two different records contradict each other.
Nothing is told about order: position alone links.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from ppkit.attacks.arrays import deviations, matrices, matrix, rows_of
from ppkit.validation import must_be, same_rows

_BLOCK = 1_000  # records whose equations are solved at a time
_ROUNDS = 3  # of matching and of fitting the move that most records share


@dataclass(frozen=True, eq=False)
class Linked:
    """positions: T arrays (N,): where in views[t] the record stands that is row i of views[0]; a
    guess for every row.
    sure: (N,) bool, whether in every matching the two were each other's nearest: what the server
    itself can go by."""

    positions: list[np.ndarray]
    sure: np.ndarray


def follow(views: Sequence[ArrayLike]) -> Linked:
    """Link the rows of views that come in secret orders, from one view to the next, by nearest
    neighbours.

    Records are matched to the nearest row of the next view (columns scaled to deviation 1); the
    affine move that the mutually nearest pairs share is taken out, and they are matched again,
    three times.
    views: T arrays (N, width), each the same records in another order; an epoch's batches one below
    the other.
    Returns Linked.  ValueError if a value is not finite.

    >>> points = np.array([[0.0, 1.0], [4.0, 2.0], [1.0, 9.0], [7.0, 7.0]])
    >>> follow([points, points[[2, 0, 3, 1]] + 0.1]).positions[1].tolist()
    [1, 3, 0, 2]
    """
    here, *later = matrices("views", views)
    positions, sure = [np.arange(len(here))], np.ones(len(here), bool)
    for view in later:
        scale = deviations(view)
        scale[scale == 0] = 1.0  # a column that is constant tells no record from another
        there, moved = cKDTree(view / scale), here
        for _ in range(_ROUNDS):
            nearest = there.query(moved / scale)[1]
            back = cKDTree(moved / scale).query(view / scale)[1]
            both = back[nearest] == np.arange(len(view))  # mutually nearest
            if both.sum() <= 2 * (view.shape[1] + 1):
                break
            before = np.c_[here, np.ones(len(here))]
            moved = before @ np.linalg.lstsq(before[both], view[nearest[both]], rcond=None)[0]
        positions.append(nearest)
        sure &= both
        here = view[nearest]
    return Linked(positions, sure)


@dataclass(frozen=True, eq=False)
class Solved:
    """X: (N, d), the features.

    expected_r2: the `features.r_squared` that the server expects; it takes all links for right, and
    counts how well the looks tell directions apart.
    consistent: (N,) bool, whether what a record's equations leave over, in root mean square, is
    within five times what noise and the error of theta explain: the server trusts these links.
    """

    X: np.ndarray
    expected_r2: float
    consistent: np.ndarray


def reconstruct_moved(
    views: Sequence[ArrayLike],
    batches: Sequence[np.ndarray],
    known: ArrayLike,
    X_known: ArrayLike,
    *,
    noise: float,
) -> Solved:
    """All records, linked over T looks through weights that differ from batch to batch; the known
    records give the weights.

    theta_b = argmin sum over known i in b |x_i theta - h_i|^2,
        three quarters first, then all that fit (wrong links do not);
    x_i = (sum_t theta theta^T + s^2 I)^-1 sum_t theta h_it,
        s^2 = noise^2 (1 + d / (k - d)), k the fewest known in a batch:
    least squares with features of deviation 1 as prior; s^2 adds the error of theta,
    which |x|^2 ~ d passes on

    views: T arrays (N, width), row i the same record in each (or what `follow` makes of it).
    batches: T arrays (N,) of whole numbers: which batch of look t the record was in; each batch has
    a theta of its own.  known: (m,) rows; X_known: (m, d), standardised.
    noise: of one entry of a view, > 0, as in `features.reconstruct`.
    Returns Solved. A look in a batch with fewer than d + d/3 known records is not used.
    ValueError if a value is not finite, shapes or row numbers do not fit, or no look can be used.
    """
    views, X_known = matrices("views", views), matrix("X_known", X_known)
    n_rows, width = views[0].shape
    known = rows_of("known", known, n_rows)
    same_rows(known=known, X_known=X_known)
    batches = [np.asarray(batch) for batch in batches]
    if [batch.shape for batch in batches] != [(n_rows,)] * len(views):
        raise ValueError(
            f"batches must be {len(views)} arrays of {n_rows}, one for each view, got shapes "
            f"{[batch.shape for batch in batches]}"
        )
    must_be("> 0", noise=noise)
    d = X_known.shape[1]
    needed = d + math.ceil(d / 3)
    sides, looks = np.zeros((n_rows, d)), np.zeros(n_rows, int)
    used: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # rows, their view, theta
    fewest = len(known)
    which = np.full((len(views), n_rows), -1)  # of `used`; the last gram is 0
    for view, batch, at in zip(views, batches, which):
        for b in np.unique(batch):
            rows, mine = np.flatnonzero(batch == b), batch[known] == b
            if mine.sum() < needed:
                continue
            theta = _trimmed(X_known[mine], view[known[mine]], noise)
            at[rows] = len(used)
            used.append((rows, view[rows], theta))
            fewest = min(fewest, int(mine.sum()))
            sides[rows] += view[rows] @ theta.T
            looks[rows] += 1
    if not used:
        raise ValueError(f"no batch has {needed} known records, which its weights take to find")
    spread = noise**2 * (1 + d / (fewest - d))
    grams = np.stack([*(theta @ theta.T for *_, theta in used), np.zeros((d, d))])
    X, traces = np.zeros((n_rows, d)), np.zeros(n_rows)
    for block in (slice(i, i + _BLOCK) for i in range(0, n_rows, _BLOCK)):
        equations = sum(grams[at[block]] for at in which) + spread * np.eye(d)
        X[block] = np.linalg.solve(equations, sides[block, :, None])[..., 0]
        traces[block] = np.trace(np.linalg.inv(equations), axis1=1, axis2=2)
    squares = np.zeros(n_rows)
    for rows, seen, theta in used:
        squares[rows] += ((seen - X[rows] @ theta) ** 2).sum(axis=1)
    misfit = np.sqrt(squares / np.maximum(looks * width, 1))
    expected = noise * np.sqrt(1 + (X**2).sum(axis=1) / fewest)
    variance_left = spread * traces / d  # of 1
    consistent = (misfit <= 5 * expected) & (looks * width > d)
    return Solved(X, 1 - float(variance_left.mean()), consistent)


def _trimmed(X: np.ndarray, H: np.ndarray, noise: float) -> np.ndarray:
    """theta from rows most of which are linked rightly: least trimmed squares, then all rows that
    fit."""
    weights = np.ones(len(X))
    for _ in range(30):  # least absolute deviations: where to start from
        theta = np.linalg.lstsq(X * weights[:, None], H * weights[:, None], rcond=None)[0]
        left = np.linalg.norm(H - X @ theta, axis=1)
        weights = 1 / np.sqrt(np.maximum(left, 1e-6 * np.median(left)))
    kept = left <= np.quantile(left, 0.75)
    for _ in range(5):
        theta = np.linalg.lstsq(X[kept], H[kept], rcond=None)[0]
        left = np.linalg.norm(H - X @ theta, axis=1)
        typical = float(np.sqrt((left[kept] ** 2).mean()))
        now = left <= max(5 * typical, 5 * noise * H.shape[1] ** 0.5)
        if now.sum() < X.shape[1] or (now == kept).all():
            break
        kept = now
    return theta
