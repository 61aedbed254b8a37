"""What a server that sees h1 = X theta in every training step learns about X, from a few records or
from none.

Linked over T steps, the views are one product: H = [H_1 ... H_T] = X [theta_1 ... theta_T]. Its
column space is that of X as soon as the thetas together have rank d, so X = H A, and A is fixed by
d records that the server knows. Who knows no record has X up to one rotation from the updates:
H_(t+1) - H_t = -lr X X^T G_t. Linking by position is in `linking`.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_continuous_are, solve_continuous_lyapunov
from sklearn.utils.extmath import randomized_svd

from ppkit.attacks.arrays import matrices, matrix, rows_of
from ppkit.validation import must_be, same_rows

# standard deviation of what one truncation to 16 fractional bits takes from a value; h1 of
# k holders, whose parts are cut one by one, has sqrt(k) times as much
ROUNDED_16 = 2**-16 / 12**0.5
_RIDGES = (1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 3e-2, 0.1, 0.3, 1, 3, 10)
_NO_RIDGE = 1e-13  # so that a matrix without full rank has an inverse
_BLOCK = 500  # records that are sorted by likeness at a time
_MOST_ALIKE = 60  # records of one category that are looked for
_WIDEST = 400  # columns whose span is found by a full SVD


@dataclass(frozen=True, eq=False)
class Recovered:
    """What the server made of the views.

    X: (N, d) float64, or None where it has nothing.  rank: directions of X that the views hold, at
    most d.
    expected_r2: the `r_squared` that the server itself expects, by leaving known records out one at
    a time (spread: theirs about their mean); where the views have directions that no known record
    has, at most the fraction of columns in which known records differ, and at most what is left if
    each such direction varies three times as much as the largest known one.  None where it cannot
    check.
    why: "" where nothing stands in the way, else one sentence.
    exact: (N,) bool, the rows that come back exactly, up to the views' noise: their views are
    combinations of known ones, and the fit is exact on those; None where that was not looked for.
    """

    X: np.ndarray | None
    rank: int
    expected_r2: float | None
    why: str
    exact: np.ndarray | None = None


def r_squared(X: ArrayLike, guess: ArrayLike) -> float:
    """Share of the features' variance that a guess explains:
    1 - sum |X - guess|^2 / sum |X - mean|^2.

    X, guess: (N, d), rows of X not all equal.  Returns at most 1; below 0 if the columns' means
    would have served better.  ValueError for shapes that differ, or if all rows are equal.

    >>> r_squared([[0.0], [2.0]], [[0.0], [1.0]])
    0.5
    """
    X, guess = matrix("X", X), matrix("guess", guess)
    if X.shape != guess.shape:
        raise ValueError(f"X and guess must have one shape, got {X.shape} and {guess.shape}")
    if not np.ptp(X, axis=0).any():
        raise ValueError(f"X must vary: all {len(X)} rows are equal, so nothing can be explained")
    return 1 - float(((X - guess) ** 2).sum() / ((X - X.mean(axis=0)) ** 2).sum())


def reconstruct(
    views: Sequence[ArrayLike], known: ArrayLike, X_known: ArrayLike, *, noise: float = 0.0
) -> Recovered:
    """All records from the views of T steps and the features of m records.

    H = U S V^T;  Z = sqrt(N) U[:, :q];  A = argmin |Z_known A - X_known|^2 + m ridge |A|^2;
    X = Z A

    q and ridge are those under which known records, left out one at a time, are predicted best; but
    where the fit of least norm on all of U S predicts some of them exactly, it is that one.
    Singular values up to noise (sqrt(N) + sqrt(width T)) are noise's own and are dropped. Without
    noise, and where the views hold all that X varies in, X is exact for every record whose view is
    a combination of known ones: for all records, if the known ones have X's rank. X may have a rank
    below d, as one-hot columns do.
    views: T arrays (N, width), row i the same record in each.  known: (m,) row numbers.
    X_known: (m, d), their features.
    noise: standard deviation of the error of one entry of a view, >= 0:
    ROUNDED_16 for 16 fractional bits.
    Returns Recovered; `why` says which directions are open: those that the views do not hold, and
    those that the known records do not have.
    ValueError if a value is not finite, or for shapes or row numbers that do not fit.
    Guarantee: none needed; with rank r at most r of d directions are found, r/d of the variance
    where X is white.

    >>> rng = np.random.default_rng(0)
    >>> X, thetas = rng.normal(size=(50, 6)), rng.normal(size=(3, 6, 2))
    >>> got = reconstruct([X @ theta for theta in thetas], range(8), X[:8])
    >>> got.rank, bool(np.abs(got.X - X).max() < 1e-9), got.exact.all(), got.why
    (6, True, np.True_, '')
    """
    views, X_known = matrices("views", views), matrix("X_known", X_known)
    known, (m, d) = rows_of("known", known, len(views[0])), X_known.shape
    same_rows(known=known, X_known=X_known)
    span, width = _span(views, d, noise), views[0].shape[1]
    if span.rank == 0:
        why = f"nothing in the views is larger than the noise of {noise:g}"
        return Recovered(None, 0, None, why)
    clear = span.clear()
    seen = _directions(clear, clear.Z[known])
    within = _within(clear, seen)
    basis = np.linalg.qr(seen.T / clear.scale[:, None])[0]
    plain = _fit(clear.Z @ basis, known, X_known, (_NO_RIDGE,))
    # a record that alone holds a direction is predicted with a ridge of the noise's size
    of_noise = max(_NO_RIDGE, (clear.noise / clear.scale.min(initial=1.0)) ** 2)
    plain = plain._replace(loss=_fit(clear.Z @ basis, known, X_known, (of_noise,)).loss)
    confirmed = 0 < len(seen) < m and _exact(clear, basis, plain, X_known)
    as_many_as_unknowns = noise == 0 and m == len(seen) == span.rank == d
    n_open = clear.rank - len(seen)
    fit = plain
    if not (confirmed or as_many_as_unknowns):
        widths = sorted({min(q, span.rank) for q in range(width, d + width, width)})
        fits = [_fit(span.Z[:, :q], known, X_known, _RIDGES) for q in widths]
        fit = min([plain, *fits], key=lambda fit: fit.loss)
    expected = None
    if not as_many_as_unknowns:
        expected = _expected(fit.loss, X_known, n_open if confirmed else 0)
    why = ""
    if confirmed:
        why = _unknown_directions(X_known, n_open, within)
    elif span.rank < d:
        why = _unseen_directions(span.rank, d, len(views), width)
    elif len(seen) < span.rank:
        why = f"{m} known records fix {len(seen)} of {d} directions"
    exact = within if confirmed or as_many_as_unknowns else None
    return Recovered(fit.Z @ fit.A, span.rank, expected, why, exact)


def inner_products(
    views: Sequence[ArrayLike],
    gradients: Sequence[ArrayLike],
    *,
    lr: float,
    n_features: int,
    noise_variance: float = 0.0,
    noise: float = 0.0,
) -> Recovered:
    """X up to one rotation, hence every inner product of two records, from no known record: the
    holders' updates tell.

    theta_(t+1) = theta_t - lr X^T G_t - eta_t,  eta_t ~ N(0, noise_variance I);
    X = Z R with Z known from the span, phi_t = R theta_t = Z^T H_t / N, M = R R^T:
        phi_(t+1) - phi_t = -lr M Z^T G_t - R eta_t.

    Without noise M is the symmetric least-squares solution D = M S (D: all steps of phi side by
    side, S = -lr Z^T G_t): in the eigenbasis of S S^T = E q E^T it is
        M_ij = (D S^T + S D^T)_ij / (q_i + q_j).
    With noise M maximises the likelihood, whose derivative is 0 where M Q M + n M = P,
    Q = S S^T, P = D D^T, n = noise_variance times the columns of D:
        M = Q^-1/2 (sqrt(K + n^2/4) - n/2) Q^-1/2, K = Q^1/2 P Q^1/2.
    The noise helps: R eta_t has covariance noise_variance M.
    views: T arrays (N, width) of all records that the holders step on, in one order.
    gradients: T - 1 or T arrays (N, width) as the holders get them.  lr: > 0, what the holders
    multiply X^T G with (equation 2: alpha / 2 for a summed loss).
    n_features: d, >= 1; X may have a lower rank.  noise_variance: of the holders' steps, >= 0
    (equation 2: alpha).  noise: as in `reconstruct`.
    Returns Recovered with X = Z M^1/2, so that X X^T holds the inner products, as far as the views
    hold X; X is None if all steps together do not move theta in every direction that the views
    hold.  expected_r2 is None.
    ValueError if a value is not finite or a setting is out of range.
    Source: none; zhou2021's equations 1 and 2, seen from the server.
    """
    views, gradients = matrices("views", views), matrices("gradients", gradients)
    n_gradients, shape = len(gradients), views[0].shape
    if len(views) < 2 or n_gradients not in (len(views) - 1, len(views)):
        raise ValueError(
            f"there must be two views or more and a gradient for each, but perhaps the last, got "
            f"{len(views)} views and {n_gradients} gradients"
        )
    if gradients[0].shape != shape:
        raise ValueError(f"gradients must be {shape} as the views, got {gradients[0].shape}")
    must_be("> 0", lr=lr)
    must_be(">= 0", noise_variance=noise_variance)
    n_steps, n_rows = len(views) - 1, len(views[0])
    span = _span(views, n_features, noise)
    Z, rank = span.Z, span.rank
    phi = [Z.T @ view / n_rows for view in views]
    D = np.hstack([after - before for before, after in zip(phi, phi[1:])])
    S = np.hstack([-lr * (Z.T @ gradient) for gradient in gradients[:n_steps]])
    why = _unseen_directions(rank, n_features, len(views), views[0].shape[1])
    if noise_variance:
        blurred = 2 * noise**2 / n_rows * D.shape[1]  # what the views' own noise adds to D D^T
        M = _likeliest(D @ D.T - blurred * np.eye(rank), S @ S.T, noise_variance * D.shape[1])
    else:
        moved = int(np.linalg.matrix_rank(S))
        if moved < rank:
            why = why or f"{n_steps} steps move theta in {moved} of {rank} directions"
            return Recovered(None, rank, None, why)
        M = solve_continuous_lyapunov(S @ S.T, D @ S.T + S @ D.T)
    q, E = np.linalg.eigh((M + M.T) / 2)
    return Recovered(Z @ (E * np.sqrt(np.maximum(q, 0))), rank, None, why)


def whitened(views: Sequence[ArrayLike], *, n_features: int, noise: float = 0.0) -> Recovered:
    """X up to one rotation where its columns are uncorrelated, of variance 1, as principal
    components are: no step is needed.

    X^T X = N I and X = Z R with Z^T Z = N I make R a rotation: X X^T = Z Z^T.

    views, n_features, noise: as in `inner_products`.  Returns Recovered; X is None if the views'
    rank is below d.
    """
    views = matrices("views", views)
    span = _span(views, n_features, noise)
    why = _unseen_directions(span.rank, n_features, len(views), views[0].shape[1])
    return Recovered(None if why else span.Z, span.rank, None, why)


class Categories(NamedTuple):
    """groups: sorted row numbers of each."""

    groups: list[np.ndarray]


def categories(views: Sequence[ArrayLike], *, noise: float = 0.0) -> Categories:
    """Records that share a category, where X has one-hot columns: no known record, no step.

    P = Z Z^T / N, Z^T Z = N I a basis of the views' columns, centred.  A one-hot column of m
    records that lies in that span adds 1/m - 1/N to P at every two of them.  Each record names
    those whose P is before the widest gap.  A group counts if all its members name the same one,
    and if its own column of 0 and 1, centred, lies in the span: what is outside must be less than
    half of what is outside of any column of chance, 1 - r / (N - 1) of its square for r directions.

    views: as in `inner_products`; one will do if it is as wide as X's rank, and a narrower one
    finds less.  noise: as there.  Groups of more than 60 records are not looked for.
    Returns Categories.  Which category it is, nothing tells, nor whether a group is the union of
    several.  Records that are near each other in columns of numbers only are no group; in views
    narrower than X's rank a few such may pass.
    Source: ours, after Ye et al. 2024 (binary columns fix the rotation that inner products leave).

    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat(np.eye(4), 3, axis=0)
    >>> [group.tolist() for group in categories([X @ rng.standard_normal((4, 9))]).groups]
    [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    """
    views = matrices("views", views)
    n = len(views[0])
    if n < 3:
        raise ValueError(f"views must have three records or more to find groups, got {n}")
    Z = _span([view - view.mean(axis=0) for view in views], n, noise).Z
    by_chance = 1 - Z.shape[1] / (n - 1)
    blocks = [np.arange(i, min(i + _BLOCK, n)) for i in range(0, n, _BLOCK)]
    nearest, values = (np.vstack(found) for found in zip(*(_most_alike(Z, b) for b in blocks)))
    ends = 1 + np.argmax(values[:, :-1] - values[:, 1:], axis=1)
    named = Counter(tuple(sorted((i, *nearest[i, : ends[i]]))) for i in range(n))
    alike = [np.array(group) for group, times in named.items() if times == len(group)]
    return Categories([group for group in alike if _outside(Z, group) < by_chance / 2])


def _most_alike(Z: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of some rows: the others by falling P, and their P, at least 0."""
    P = Z[rows] @ Z.T / len(Z)
    P[np.arange(len(rows)), rows] = -np.inf
    nearest = np.argsort(-P, axis=1, kind="stable")[:, : min(_MOST_ALIKE, len(Z) - 1)]
    return nearest, np.maximum(np.take_along_axis(P, nearest, axis=1), 0)


def _outside(Z: np.ndarray, group: np.ndarray) -> float:
    """Fraction of a group's column of 0 and 1, centred, that lies outside the span of Z."""
    column = np.zeros(len(Z))
    column[group] = 1
    column -= column.mean()
    return 1 - float(((Z.T @ column) ** 2).sum()) / len(Z) / float(column @ column)


@dataclass(frozen=True, eq=False)
class _Span:
    """Z (N, r), Z^T Z = N I: the views' column space, its directions by size.  scale (r,): Z scale
    are the views, turned.  noise: of one entry of a view, rounding at least."""

    Z: np.ndarray
    scale: np.ndarray
    noise: float

    @property
    def rank(self) -> int:
        return self.Z.shape[1]

    def clear(self) -> "_Span":
        """The directions that noise hardly touches."""
        some = self.scale > 100 * self.noise
        return _Span(self.Z[:, some], self.scale[some], self.noise)


def _span(views: list[np.ndarray], most: int, noise: float) -> _Span:
    """The directions of the views above noise, at most `most`."""
    must_be(">= 0", noise=noise)
    must_be("a whole number >= 1", n_features=most)
    H = np.hstack(views)
    n_rows, n_columns = H.shape
    if n_columns > _WIDEST:
        U, sizes, _ = randomized_svd(H, most + views[0].shape[1], random_state=0)
    else:
        U, sizes, _ = np.linalg.svd(H, full_matrices=False)
    noise = max(noise, 2 * np.finfo(float).eps * sizes[0] / n_rows**0.5)
    rank = min(most, int((sizes > noise * (n_rows**0.5 + n_columns**0.5)).sum()))
    return _Span(U[:, :rank] * n_rows**0.5, sizes[:rank] / n_rows**0.5, noise)


def _directions(span: _Span, Z: np.ndarray) -> np.ndarray:
    """The directions of some rows in the views' scale, one a line, those above noise."""
    _, sizes, Vt = np.linalg.svd(Z * span.scale, full_matrices=False)
    rounding = 1e3 * np.finfo(float).eps * span.scale.max(initial=0.0) * len(span.Z) ** 0.5
    return Vt[sizes > max(span.noise * (len(Z) ** 0.5 + span.rank**0.5), rounding)]


def _within(span: _Span, seen: np.ndarray) -> np.ndarray:
    """(N,) bool, the rows whose views are combinations of such directions, up to noise."""
    H = span.Z * span.scale
    outside = H - H @ seen.T @ seen
    near = (5 * span.noise * span.rank**0.5) ** 2 + 1e-16 * (H**2).sum(axis=1)
    return (outside**2).sum(axis=1) <= near


class _Fit(NamedTuple):
    """Z: (N, q).  A: (q, d), so that X = Z A.  loss: summed squares over known records, each
    predicted from the others.  left: what the known records' own fit leaves of them."""

    Z: np.ndarray
    A: np.ndarray
    loss: float
    left: np.ndarray


def _fit(Z: np.ndarray, known: np.ndarray, X_known: np.ndarray, ridges: Sequence[float]) -> _Fit:
    """The ridge regression of X on Z that predicts left-out known records best."""
    U, sizes, Vt = np.linalg.svd(Z[known], full_matrices=False)
    fits = []
    for ridge in ridges:
        damped = sizes**2 + len(known) * ridge
        shrunk = sizes**2 / damped
        left = X_known - (U * shrunk) @ (U.T @ X_known)
        free = np.maximum(1 - (U**2) @ shrunk, 1e-12)
        A = (Vt.T * (sizes / damped)) @ (U.T @ X_known)
        fits.append(_Fit(Z, A, float(((left / free[:, None]) ** 2).sum()), left))
    return min(fits, key=lambda fit: fit.loss)


def _exact(span: _Span, basis: np.ndarray, fit: _Fit, X_known: np.ndarray) -> bool:
    """Whether the known records are fitted exactly, up to what noise does to the fit."""
    of_noise = span.noise / span.scale[:, None] * (basis @ fit.A)
    blurred = _rms(of_noise) * span.rank**0.5
    limit = 1e-8 * _rms(X_known) + 3 * blurred
    return _rms(fit.left) <= limit and blurred <= 0.01 * _rms(X_known)


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _expected(loss: float, X_known: np.ndarray, n_open: int) -> float | None:
    """R^2 by the left-out known records, less what n_open directions that none of them has hold."""
    sizes = np.linalg.svd(X_known - X_known.mean(axis=0), compute_uv=False) ** 2
    spread = float(sizes.sum())
    if spread == 0:
        return None
    if n_open == 0:
        return 1 - loss / spread
    varied = float((np.ptp(X_known, axis=0) > 0).mean())
    unknown = 3 * n_open * float(sizes.max())
    return min(1 - loss / spread, varied, 1 - unknown / spread)


def _likeliest(P: np.ndarray, Q: np.ndarray, n: float) -> np.ndarray:
    """The positive root of M Q M + n M = P, n > 0, a Riccati equation; Q may be singular."""
    q, E = np.linalg.eigh(Q)
    root = E * np.sqrt(np.maximum(q, 0))
    return solve_continuous_are(-n / 2 * np.eye(len(Q)), root, P, np.eye(len(Q)))


def _unknown_directions(X_known: np.ndarray, n_open: int, within: np.ndarray) -> str:
    """What stands in the way of a fit that is exact for the known records."""
    of_known, d = int(np.linalg.matrix_rank(X_known)), X_known.shape[1]
    if n_open:
        return (
            f"the known rows have rank {of_known} of {d}, and {n_open} directions of the views "
            f"have no known row: {int(within.sum())} of {len(within)} rows are exact"
        )
    if of_known < d:
        return (
            f"the known rows have rank {of_known} of {d}, and so have the views: "
            "every row is a combination of known ones"
        )
    return ""


def _unseen_directions(rank: int, d: int, n_steps: int, width: int) -> str:
    if rank >= d:
        return ""
    return (
        f"{n_steps} views of width {width} hold {rank} of {d} directions above rounding and noise: "
        "theta has moved too little, or the columns depend on each other, as one-hot columns do"
    )
