"""When batches are reshuffled: finding each record again by how little its h1 moved, and solving
for it from all its looks.

A record that comes back in another batch is seen through another theta. Who knows d records of a
batch knows the batch's theta exactly, and each record has as many linear equations as it was looked
at; a wrong link shows, because the equations of two different records contradict each other.
Nothing is told about order: position alone links.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from ppkit.attacks.arrays import known_rows, matrix, views_of
from ppkit.attacks.features import Recovered

_ROUNDS = 3  # of matching and of fitting the move that most records share


@dataclass(frozen=True, eq=False)
class Linked:
    """positions: T arrays (N,): where in views[t] the record stands that is row i of views[0]; a
    guess for every row.
    sure: (N,) bool, whether in every matching the two were each other's nearest: what the server
    itself can go by.  why: "" unless none is sure, then one sentence."""

    positions: list[np.ndarray]
    sure: np.ndarray
    why: str


def follow(views: Sequence) -> Linked:
    """Link the rows of views that come in secret orders, from one view to the next, by nearest
    neighbours.

    Records are matched to the nearest row of the next view (columns scaled to deviation 1); the
    affine move that the mutually nearest pairs share is taken out, and they are matched again,
    three times.
    views: T arrays (N, width), each the same records in another order; an epoch's batches one below
    the other.
    Returns Linked.  ValueError if shapes do not match or a value is not finite.

    >>> points = np.array([[0.0, 1.0], [4.0, 2.0], [1.0, 9.0], [7.0, 7.0]])
    >>> follow([points, points[[2, 0, 3, 1]] + 0.1]).positions[1].tolist()
    [1, 3, 0, 2]
    """
    views = views_of(views)
    here, positions, sure = views[0], [np.arange(len(views[0]))], np.ones(len(views[0]), bool)
    for view in views[1:]:
        scale = np.maximum(view.std(axis=0), np.finfo(float).tiny)
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
    why = "in no link of all views were the two rows each other's nearest: records move too far"
    return Linked(positions, sure, "" if sure.any() else why)


@dataclass(frozen=True, eq=False)
class Solved(Recovered):
    """A Recovered; its expected_r2 takes all links for right, and counts how well the looks tell
    directions apart.

    consistent: (N,) bool, whether what a record's equations leave over, in root mean square, is
    within five times what noise and the error of theta explain: the server trusts these links.
    """

    consistent: np.ndarray | None = None


def reconstruct_moved(
    views: Sequence, batches: Sequence, known, X_known, *, noise: float = 0.0
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
    noise: of one entry of a view, as in `features.reconstruct`.
    Returns Solved. A look in a batch with fewer than d + d/3 known records is not used; rank is the
    smallest number of directions (at most d) that a record's used looks can hold; X is None if no
    look can be used.
    ValueError if shapes do not match or a value is not finite.
    """
    views, X_known = views_of(views), matrix("X_known", X_known)
    n_rows, width = views[0].shape
    known = known_rows(known, X_known, n_rows)
    d, batches = X_known.shape[1], [np.asarray(batch, int) for batch in batches]
    if len(batches) != len(views) or any(batch.shape != (n_rows,) for batch in batches):
        raise ValueError(
            f"batches must be {len(views)} arrays of {n_rows} numbers, "
            f"got {[batch.shape for batch in batches]}"
        )
    equations, looks = np.zeros((n_rows, d, d)), np.zeros(n_rows, int)
    used, fewest = [], len(known)
    for view, batch in zip(views, batches):
        for b in np.unique(batch):
            rows, mine = np.flatnonzero(batch == b), batch[known] == b
            if mine.sum() < d + -(-d // 3):
                continue
            theta = _trimmed(X_known[mine], view[known[mine]], noise)
            used.append((rows, view, theta))
            fewest = min(fewest, int(mine.sum()))
            equations[rows] += theta @ theta.T
            looks[rows] += 1
    if not used:
        return Solved(
            None,
            0,
            None,
            f"no batch has {d + -(-d // 3)} known records, which its weights take to find",
        )
    spread = noise**2 * (1 + d / (fewest - d))
    damped = max(spread, 1e-14 * float(np.trace(equations[looks.argmax()])) / d)
    equations += damped * np.eye(d)
    X = np.zeros((n_rows, d))
    for _ in range(4):  # refined: normal equations square what rounding does
        left = -spread * X
        for rows, view, theta in used:
            left[rows] += (view[rows] - X[rows] @ theta) @ theta.T
        X = X + np.linalg.solve(equations, left[..., None])[..., 0]
    squares, size = np.zeros(n_rows), 0.0
    for rows, view, theta in used:
        squares[rows] += ((view[rows] - X[rows] @ theta) ** 2).sum(axis=1)
        size = max(size, float(np.abs(view[rows]).max()))
    misfit = np.sqrt(squares / np.maximum(looks * width, 1))
    rank = min(d, int(looks.min()) * width)
    why = (
        f"records were looked at {looks.min()} times through known weights: "
        f"{rank} of {d} directions"
        if rank < d
        else ""
    )
    expected = max(noise, 1e-8 * size) * np.sqrt(1 + (X**2).sum(axis=1) / fewest)
    unknown = (
        damped * np.trace(np.linalg.inv(equations), axis1=1, axis2=2) / d
    )  # variance left per feature, of 1
    return Solved(
        X,
        rank,
        1 - float(unknown.mean()),
        why,
        consistent=(misfit <= 5 * expected) & (looks * width > d),
    )


def _trimmed(X: np.ndarray, H: np.ndarray, noise: float) -> np.ndarray:
    """theta from rows most of which are linked rightly: least trimmed squares, then all rows that
    fit."""
    weights = np.ones(len(X))
    for _ in range(30):  # least absolute deviations: where to start from
        theta = np.linalg.lstsq(X * weights[:, None], H * weights[:, None], rcond=None)[0]
        left = np.linalg.norm(H - X @ theta, axis=1)
        weights = 1 / np.sqrt(
            np.maximum(left, 1e-6 * max(float(np.median(left)), np.finfo(float).tiny))
        )
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
