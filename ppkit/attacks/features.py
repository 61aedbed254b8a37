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

from ppkit.attacks.arrays import known_rows, matrix, views_of
from ppkit.refusals import must_be

ROUNDED_16 = (
    2**-16 / 12**0.5
)  # standard deviation of what truncation to 16 fractional bits takes from a value
_RIDGES = (0, 1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 3e-2, 0.1, 0.3, 1, 3, 10)
_WIDEST = 400  # columns that a span is first looked for in


@dataclass(frozen=True, eq=False)
class Recovered:
    """What the server made of the views.

    X: (N, d) float64, or None where it has nothing.  rank: directions of X that the views hold, at
    most d.
    expected_r2: the `r_squared` that the server itself expects, by leaving known records out one at
    a time (spread: theirs about their mean); where the views have directions that no known record
    has, at most the fraction of columns in which known records differ, and at most what is left if
    each such direction varies twice as much as the largest known one.  None where it cannot check.
    why: "" where nothing stands in the way, else one sentence.
    exact: (N,) bool, the rows that come back exactly, up to the views' noise: their views are
    combinations of known ones, and the fit is exact on those; None where that was not looked for.
    """

    X: np.ndarray | None
    rank: int
    expected_r2: float | None
    why: str
    exact: np.ndarray | None = None


def r_squared(X, guess) -> float:
    """Share of the features' variance that a guess explains:
    1 - sum |X - guess|^2 / sum |X - mean|^2.

    X, guess: (N, d), rows of X not all equal.  Returns at most 1; below 0 if the columns' means
    would have served better.

    >>> r_squared([[0.0], [2.0]], [[0.0], [1.0]])
    0.5
    """
    X, guess = matrix("X", X), matrix("guess", guess)
    if X.shape != guess.shape:
        raise ValueError(f"X and guess must be of one shape, got {X.shape} and {guess.shape}")
    spread = float(((X - X.mean(axis=0)) ** 2).sum())
    if spread == 0:
        raise ValueError("X must vary for a share of its variance to be explained, got equal rows")
    return 1 - float(((X - guess) ** 2).sum()) / spread


def reconstruct(views: Sequence, known, X_known, *, noise: float = 0.0) -> Recovered:
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
    ValueError if shapes do not match, a value is not finite, or a row is named twice.
    Guarantee: none needed; with rank r at most r of d directions are found, r/d of the variance
    where X is white.

    >>> rng = np.random.default_rng(0)
    >>> X, thetas = rng.normal(size=(50, 6)), rng.normal(size=(3, 6, 2))
    >>> got = reconstruct([X @ theta for theta in thetas], range(8), X[:8])
    >>> got.rank, bool(np.abs(got.X - X).max() < 1e-9), got.exact.all(), got.why
    (6, True, np.True_, '')
    """
    views, X_known = views_of(views), matrix("X_known", X_known)
    known, (m, d) = known_rows(known, X_known, len(views[0])), X_known.shape
    span = _span(views, d, noise)
    if span.rank == 0:
        return Recovered(
            None, 0, None, f"nothing in the views is larger than the noise of {noise:g}"
        )
    width = views[0].shape[1]
    widths = sorted({min(q, span.rank) for q in range(width, d + width, width)})
    least = _least_norm(span, known, X_known)
    unchecked = noise == 0 and m == span.rank == d and least.n_open == 0  # as many as unknowns
    A, loss = _fit(span.Z[known], X_known, widths)
    X, exact = span.Z[:, : len(A)] @ A, None
    if unchecked or least.fits or least.loss <= loss:
        X, loss = least.X, least.loss
        exact = least.within if least.fits or unchecked else None
    return Recovered(
        X,
        span.rank,
        None if unchecked else _expected(loss, X_known, least),
        _open_directions(X_known, least, span.rank, len(views), width),
        exact,
    )


def inner_products(
    views: Sequence,
    gradients: Sequence,
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
    Returns Recovered with X = Z M^1/2, so that X X^T holds the inner products; X is None if all
    steps together do not move theta in every direction that the views hold, or if the views' rank
    is below d and the steps contradict a span of that rank. expected_r2 is None.
    ValueError if shapes do not match, a value is not finite or a setting is out of range.
    Source: none; zhou2021's equations 1 and 2, seen from the server.
    """
    views, gradients = views_of(views), views_of(gradients, "gradients")
    n_steps, n_rows = len(views) - 1, len(views[0])
    if (
        n_steps < 1
        or len(gradients) not in (n_steps, n_steps + 1)
        or gradients[0].shape != views[0].shape
    ):
        raise ValueError(
            "needs at least 2 views and a gradient of the same shape for each but the last, "
            f"got {len(views)} of "
            f"{views[0].shape} and {len(gradients)} of {gradients[0].shape}"
        )
    must_be("> 0", lr=lr)
    must_be(">= 0", noise_variance=noise_variance)
    must_be("a whole number >= 1", n_features=n_features)
    span, width = _span(views, n_features, noise), views[0].shape[1]
    Z, rank = span.Z, span.rank
    phi = [Z.T @ view / n_rows for view in views]
    D = np.hstack([after - before for before, after in zip(phi, phi[1:])])
    S = np.hstack([-lr * (Z.T @ gradient) for gradient in gradients[:n_steps]])
    unseen = _unseen_directions(rank, n_features, n_steps + 1, width)
    if noise_variance:
        if (n_steps + 1) * width < n_features:
            return Recovered(None, rank, None, unseen)
        blurred = 2 * noise**2 / n_rows * D.shape[1]  # what the views' own noise adds to D D^T
        M = _likeliest(D @ D.T - blurred * np.eye(rank), S @ S.T, noise_variance * D.shape[1])
    else:
        moved = int(np.linalg.matrix_rank(S)) if S.any() else 0
        if moved < rank:
            why = f"{n_steps} steps move theta in {moved} of {rank} directions"
            return Recovered(None, rank, None, unseen or why)
        M = _symmetric(D, S)
        rounding = 1e-6 * np.linalg.norm(D) + 3 * noise * (2 * D.size / n_rows) ** 0.5
        if rank < n_features and np.linalg.norm(D - M @ S) > rounding:
            return Recovered(None, rank, None, unseen)
    q, E = np.linalg.eigh((M + M.T) / 2)
    why = f"X has rank {rank} of {n_features}, as far as views and steps tell" if unseen else ""
    return Recovered(Z @ (E * np.sqrt(np.maximum(q, 0))), rank, None, why)


def whitened(views: Sequence, *, n_features: int, noise: float = 0.0) -> Recovered:
    """X up to one rotation where its columns are uncorrelated, of variance 1, as principal
    components are: no step is needed.

    X^T X = N I and X = Z R with Z^T Z = N I make R a rotation: X X^T = Z Z^T.

    views, n_features, noise: as in `inner_products`.  Returns Recovered; X is None if the views'
    rank is below d.
    """
    views = views_of(views)
    must_be("a whole number >= 1", n_features=n_features)
    span = _span(views, n_features, noise)
    why = _unseen_directions(span.rank, n_features, len(views), views[0].shape[1])
    if why:
        why += f", or X has rank {span.rank} and its columns are correlated"
    return Recovered(None if why else span.Z, span.rank, None, why)


class Categories(NamedTuple):
    """groups: sorted row numbers of each.  why: "" unless there is no group, else one sentence."""

    groups: list[np.ndarray]
    why: str


def categories(views: Sequence, *, noise: float = 0.0, most: int = 60) -> Categories:
    """Records that share a category, where X has one-hot columns: no known record, no step.

    P = Z Z^T / N, Z^T Z = N I a basis of the views' columns, centred.  A one-hot column of m
    records that lies in that span adds 1/m - 1/N to P at every two of them.  Each record names
    those whose P is before the widest gap.  A group counts if all its members name the same one,
    and if its own column of 0 and 1, centred, lies in the span: what is outside must be less than
    half of what is outside of any column of chance, 1 - r / (N - 1) of its square for r directions.

    views: as in `inner_products`; one will do if it is as wide as X's rank, and a narrower one
    finds less.  noise: as there.  most: records of a category at most, >= 2.
    Returns Categories.  Which category it is, nothing tells, nor whether a group is the union of
    several.  Records that are near each other in columns of numbers only are no group; in views
    narrower than X's rank a few such may pass.
    Source: ours, after Ye et al. 2024 (binary columns fix the rotation that inner products leave).

    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat(np.eye(4), 3, axis=0)
    >>> [group.tolist() for group in categories([X @ rng.standard_normal((4, 9))]).groups]
    [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    """
    views = views_of(views)
    n = len(views[0])
    must_be("a whole number >= 2", most=most)
    Z = _span([view - view.mean(axis=0) for view in views], n, noise).Z
    r = Z.shape[1]
    if not 0 < r < n - 1:
        return Categories([], f"the views hold {r} of {n - 1} directions in which {n} records vary")
    P = Z @ Z.T / n
    np.fill_diagonal(P, -np.inf)
    nearest = np.argsort(-P, axis=1)[:, : min(most, n - 1)]
    values = np.maximum(np.take_along_axis(P, nearest, axis=1), 0)
    ends = 1 + np.argmax(values[:, :-1] - values[:, 1:], axis=1)
    named = Counter(tuple(sorted((i, *nearest[i, : ends[i]]))) for i in range(n))
    alike = [np.array(group) for group, times in named.items() if times == len(group)]
    groups = [group for group in alike if _outside(Z, group) < (1 - r / (n - 1)) / 2]
    if groups:
        return Categories(groups, "")
    near = f"{len(alike)} groups of records are near each other, " if alike else ""
    return Categories([], near + f"no column of 0 and 1 was found in {r} directions of the views")


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


def _span(views: list[np.ndarray], most: int, noise: float) -> _Span:
    """The directions of the views above noise, at most `most`."""
    must_be(">= 0", noise=noise)
    n_rows, width = views[0].shape
    kept = views[:: -(-len(views) * width // _WIDEST)]
    U, sizes, _ = np.linalg.svd(np.hstack(kept), full_matrices=False)
    columns = width * len(kept)
    if len(kept) < len(views):  # subspace iteration brings the other views in
        H, columns = np.hstack(views), width * len(views)
        U = U[:, : most + width]
        for _ in range(2):
            U = np.linalg.qr(H @ (H.T @ U))[0]
        inner, sizes, _ = np.linalg.svd(U.T @ H, full_matrices=False)
        U = U @ inner
    noise = max(noise, 2 * np.finfo(float).eps * sizes[0] / n_rows**0.5)
    rank = min(most, int((sizes > noise * (n_rows**0.5 + columns**0.5)).sum()))
    return _Span(U[:, :rank] * n_rows**0.5, sizes[:rank] / n_rows**0.5, noise)


@dataclass(frozen=True, eq=False)
class _LeastNorm:
    """The fit of least norm on all that the known records' views hold.

    X: (N, d).  loss: summed squares over known records, each left out.  energies (k,): variance
    that the directions of known rows add to X, at their size.  n_open: directions of the views
    that no known row has.  fits: whether the known records, more than the rank, are fitted exactly,
    up to noise.  within: (N,) bool, the rows whose views are combinations of known ones."""

    X: np.ndarray
    loss: float
    energies: np.ndarray
    n_open: int
    fits: bool
    within: np.ndarray


def _least_norm(span: _Span, known: np.ndarray, X_known: np.ndarray) -> _LeastNorm:
    """Which directions the known rows have is seen in the views' own scale, where noise is alike in
    all; directions near it are left out; the norm is that of Z.  Where the span holds a constant,
    as that of one-hot columns does, all is taken from the known rows' mean.  A row that alone holds
    a direction, free_i = 0, is predicted from what is left of it: the error is q_i A / |q_i|^2,
    q_i = u_i / s, A = (u / s)^T X_known."""
    clear = span.scale > 100 * span.noise
    none = np.zeros(len(span.Z), bool)
    if not clear.any():
        return _LeastNorm(0 * span.Z, np.inf, np.zeros(0), 0, False, none)
    span = _Span(span.Z[:, clear], span.scale[clear], span.noise)
    m, constant = len(known), float((span.Z.mean(axis=0) ** 2).sum()) > 0.99
    center = constant * span.Z[known].mean(axis=0)
    middle = constant * X_known.mean(axis=0)
    Z, X = span.Z - center, X_known - middle
    of_known = _directions(span, Z[known])
    if len(of_known) == 0:
        return _LeastNorm(0 * span.Z, np.inf, np.zeros(0), 0, False, none)
    basis = np.linalg.qr(of_known.T / span.scale[:, None])[0]
    inner = Z @ basis
    U, sizes, Vt = np.linalg.svd(inner[known], full_matrices=False)
    q = U / sizes
    left = X - U @ (U.T @ X)
    free = 1 - constant / m - (U**2).sum(axis=1)
    spare = free > max(1e-9, 1e3 * (span.noise / span.scale.min(initial=1.0)) ** 2)
    errors = np.empty_like(left)
    errors[spare] = left[spare] / free[spare, None]
    errors[~spare] = q[~spare] @ (q.T @ X) / (q[~spare] ** 2).sum(axis=1)[:, None]
    A = Vt.T @ (q.T @ X)
    outside = (Z - inner @ basis.T) * span.scale
    blurred = _rms(span.noise / span.scale[:, None] * (basis @ A)) * span.rank**0.5
    exact = _rms(left) <= 1e-8 * _rms(X_known) + 3 * blurred and blurred <= 0.01 * _rms(X)
    near = (5 * span.noise * span.rank**0.5) ** 2 + 1e-16 * ((Z * span.scale) ** 2).sum(axis=1)
    within = (outside**2).sum(axis=1) <= near
    return _LeastNorm(
        middle + inner @ A,
        float((errors**2).sum()),
        np.linalg.svd(A, compute_uv=False) ** 2,
        0 if within.all() else len(_directions(span, outside / span.scale)),
        bool(spare.any() and exact),
        within,
    )


def _directions(span: _Span, Z: np.ndarray) -> np.ndarray:
    """The directions of some rows in the views' scale, one a line, those above noise."""
    _, sizes, Vt = np.linalg.svd(Z * span.scale, full_matrices=False)
    rounding = 1e3 * np.finfo(float).eps * span.scale[0] * len(span.Z) ** 0.5
    return Vt[sizes > max(span.noise * (len(Z) ** 0.5 + span.rank**0.5), rounding)]


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt((values**2).mean())) if values.size else 0.0


def _fit(Z: np.ndarray, X: np.ndarray, widths: list[int]) -> tuple[np.ndarray, float]:
    """The ridge regression of X on the first columns of Z that predicts left-out rows best, and the
    summed squares that they are missed by."""
    m, best = len(Z), (np.inf, None)
    for q in widths:
        U, sizes, Vt = np.linalg.svd(Z[:, :q], full_matrices=False)
        for ridge in _RIDGES:
            if ridge == 0 and (m <= q or sizes[-1] < 1e-12 * sizes[0]):
                continue
            shrunk = sizes**2 / (sizes**2 + m * ridge)
            free = 1 - (U**2) @ shrunk
            left = (X - (U * shrunk) @ (U.T @ X)) / np.maximum(free, 1e-12)[:, None]
            loss = float((left**2).sum())
            if loss < best[0]:
                best = (loss, (Vt.T * (shrunk / sizes)) @ (U.T @ X))
    return best[1], best[0]


def _expected(loss: float, X_known: np.ndarray, fit: _LeastNorm) -> float | None:
    spread = float(((X_known - X_known.mean(axis=0)) ** 2).sum())
    m = len(X_known)
    if m < 2 or spread == 0:
        return None
    if fit.n_open == 0:
        return 1 - loss / spread
    varied = float((np.ptp(X_known, axis=0) > 0).mean())
    unknown = 2 * fit.n_open * float(fit.energies.max(initial=0.0)) if fit.fits else 0.0
    return min(1 - loss / spread, varied, 1 - m * unknown / spread)


def _symmetric(D: np.ndarray, S: np.ndarray) -> np.ndarray:
    q, E = np.linalg.eigh(S @ S.T)
    q = np.maximum(q, 0)
    return E @ ((E.T @ (D @ S.T + S @ D.T) @ E) / (q[:, None] + q[None])) @ E.T


def _likeliest(P: np.ndarray, Q: np.ndarray, n: float) -> np.ndarray:
    """The positive root of M Q M + n M = P, n > 0,
    with sqrt(k + n^2/4) - n/2 = k / (sqrt(k + n^2/4) + n/2); Q may be singular."""
    q, E = np.linalg.eigh(Q)
    root = np.sqrt(np.maximum(q, q.max() * 1e-14 if q.max() else 0))
    if not root.any():
        return P / n
    R = E * np.where(root > 0, root, 1)
    k, F = np.linalg.eigh(R.T @ P @ R)
    k = np.maximum(k, 0)
    back = (E / np.where(root > 0, root, 1)) @ F
    return (back * (k / (np.sqrt(k + n * n / 4) + n / 2))) @ back.T


def _open_directions(
    X_known: np.ndarray, fit: _LeastNorm, rank: int, n_steps: int, width: int
) -> str:
    """What `reconstruct` says, of views of that rank."""
    m, d = X_known.shape
    unseen = _unseen_directions(rank, d, n_steps, width)
    of_known = int(np.linalg.matrix_rank(X_known))
    if unseen and (of_known > rank or not fit.fits):
        return unseen
    if fit.n_open and not fit.fits:
        return f"{m} known records fix {rank - fit.n_open} of {d} directions"
    if fit.n_open:
        return (
            f"the known rows have rank {of_known} of {d}, and {fit.n_open} directions of the views "
            f"have no known row: {int(fit.within.sum())} of {len(fit.within)} rows are exact"
        )
    if unseen:
        return (
            f"the known rows have rank {of_known} of {d}, and so have the views: "
            "every row is a combination of known ones"
        )
    return ""


def _unseen_directions(rank: int, d: int, n_steps: int, width: int) -> str:
    if rank >= d:
        return ""
    why = "too few steps"
    if rank < n_steps * width:
        why = (
            "either theta has moved too little, or the columns depend on each other, "
            "as one-hot columns do"
        )
    seen = f"{n_steps} views of width {width} hold {rank} of {d} directions"
    return f"{seen} above rounding and noise: {why}"
