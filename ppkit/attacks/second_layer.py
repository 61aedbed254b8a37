"""What a server that gets h_2, behind two secret layers, learns about X from some known records.

    h_2 = f(X theta) W + c,    f(z) = 0 for z < -1/2, z + 1/2 between, 1 above

The known records give theta, W and c of one look, up to the order and the sign of the neurons:
two layers are fitted to their h_2 from random starts. Known records that the fit never saw judge
it. Every later look starts from the look before. Then f(X theta) = (h_2 - c) W^-1 gives one linear
equation for each neuron of a record that is not saturated, and the equations of all looks the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve

from ppkit.attacks.arrays import matrices, matrix, rows_of
from ppkit.attacks.features import r_squared
from ppkit.validation import must_be, same_rows

_LEAST_NOISE = 1e-9  # of a view in floating point, what the fit itself leaves
_LEAST_ERROR = 1e-6  # of an equation: beside a prior, a smaller one leaves no digits
_TRIES = 25  # dampings of one step
_PATIENCE = 15  # steps that gain less than half a per cent
_WITHIN = 5.0  # deviations of the noise that a prediction may miss by
_ENOUGH = 0.9  # of the records that judge a fit
_CLEAR = 6.0  # deviations from 0 and 1, so that a neuron is not saturated


@dataclass(frozen=True)
class Effort:
    """How long the attack tries.

    n_random: fits of the first look from new random weights, >= 1.  n_fits: of the first look in
    all, >= 1: the rest start from the best so far with one neuron drawn anew.
    n_later: fits of each later look, >= 1.  n_missed: looks in a row that are not recovered, after
    which it ends, >= 1.  n_steps: of one fit, >= 1.
    judging: share of the known records that no fit sees, in (0, 1).
    """

    n_random: int = 5
    n_fits: int = 120
    n_later: int = 10
    n_missed: int = 3
    n_steps: int = 100
    judging: float = 0.2

    def __post_init__(self):
        must_be("a whole number >= 1", n_random=self.n_random, n_later=self.n_later)
        must_be("a whole number >= 1", n_fits=self.n_fits, n_missed=self.n_missed)
        must_be("a whole number >= 1", n_steps=self.n_steps)
        must_be("in (0, 1)", judging=self.judging)


@dataclass(frozen=True, eq=False)
class Layers:
    """theta: (d, width).  W: (width, v).  c: (v,).  rms: what the fit leaves of an entry of h_2, in
    root mean square."""

    theta: np.ndarray
    W: np.ndarray
    c: np.ndarray
    rms: float

    def predicted(self, X: np.ndarray) -> np.ndarray:
        """h_2 (n, v) of rows (n, d)."""
        return _piecewise(X @ self.theta) @ self.W + self.c


@dataclass(frozen=True, eq=False)
class Fitted:
    """The layers of one look.

    recovered: whether at least .9 of the known records that no fit saw are predicted within five
    deviations of the noise.  predicted: the share of them that is.  n_fits: how many were tried.
    """

    layers: Layers
    recovered: bool
    predicted: float
    n_fits: int


@dataclass(frozen=True, eq=False)
class Columns:
    """X: (N, d), or None where no look's layers were recovered.  first: the fit of the first look.
    used: numbers of the looks that were recovered.
    expected_r2: the `features.r_squared` of the known records, found in the same way as the others:
    what the server expects.  why: "" or one sentence.
    """

    X: np.ndarray | None
    first: Fitted
    used: list[int]
    expected_r2: float | None
    why: str


def fit_layers(
    view_known: ArrayLike,
    X_known: ArrayLike,
    *,
    width: int,
    noise: float = 0.0,
    effort: Effort = Effort(),
    start: np.ndarray | None = None,
    rng: np.random.Generator,
) -> Fitted:
    """Two layers that give the known records' h_2.

    theta = argmin min over W, c of |f(X theta) W + c - h_2|^2 by Levenberg and Marquardt; W and c
    are linear and solved for in every step (variable projection, Kaufman's Jacobian).
    view_known: (m, v), their h_2.  X_known: (m, d).  width: neurons of the first layer.
    noise: standard deviation of an entry of h_2, >= 0.  start: theta (d, width) of the look before;
    None: random weights of the size of torch's start.
    rng: draws the starts, and the records that judge.
    Returns Fitted.  ValueError if a value is not finite, or for fewer than d + width + 2 records
    that do not judge.
    The attacker knows: the network's shape, that the first layer has no bias, which rows of the
    view are the known records.  Guarantee: none; `recovered` is judged by records that no fit saw.
    Source: ours; Golub and Pereyra 1973 for the projection.
    """
    view, X = matrix("view_known", view_known), matrix("X_known", X_known)
    must_be(">= 0", noise=noise)
    same_rows(view_known=view, X_known=X)
    noise, (m, d) = max(noise, _LEAST_NOISE), X.shape
    order = rng.permutation(m)
    judges, fitting = np.split(order, [round(effort.judging * m)])
    if not len(judges) or len(fitting) < d + width + 2:
        raise ValueError(
            f"{d + width + 2} known records are needed to fit, and one to judge, got "
            f"{len(fitting)} and {len(judges)}"
        )
    n_random = effort.n_random if start is None else 0
    n_fits = effort.n_fits if start is None else effort.n_later
    best: Layers | None = None
    for number in range(n_fits):
        theta = _start(number, n_random, best, start, (d, width), rng)
        layers = _fit(theta, X[fitting], view[fitting], noise, effort.n_steps)
        if best is None or layers.rms < best.rms:
            best = layers
        predicted = _share_predicted(best, X[judges], view[judges], noise)
        if predicted >= _ENOUGH:
            break
    assert best is not None  # at least one fit
    return Fitted(best, predicted >= _ENOUGH, predicted, number + 1)


def columns(
    views: Sequence[ArrayLike],
    known: ArrayLike,
    X_known: ArrayLike,
    *,
    width: int,
    noise: float = 0.0,
    effort: Effort = Effort(),
    rng: np.random.Generator,
) -> Columns:
    """All records' features from their h_2 at several looks and the features of m records.

    x_i = argmin sum over looks and unsaturated neurons j of
        (x theta_j + 1/2 - a_ij)^2 / s_j^2 + (x - mean) S^-1 (x - mean)^T,
        a = (h_2 - c) W^-1, s_j = noise |W^-1 e_j|, mean and S those of the known records
    views: T arrays (N, v), v = width, row i the same record in each.  known: (m,) row numbers.
    X_known: (m, d).  width, noise, effort, rng: as in `fit_layers`.
    Returns Columns.  A look whose layers are not recovered is not used.
    ValueError as in `fit_layers`, or if v is not width.
    """
    views, X_known = matrices("views", views), matrix("X_known", X_known)
    n_rows = len(views[0])
    known = rows_of("known", known, n_rows)
    same_rows(known=known, X_known=X_known)
    if views[0].shape[1] != width:
        raise ValueError(f"h_2 must have {width} columns as h_1 has, got {views[0].shape[1]}")
    equations = _Equations(X_known, n_rows)
    fit = partial(fit_layers, width=width, noise=noise, effort=effort, rng=rng)
    first = fitted = fit(views[0][known], X_known)
    used: list[int] = []
    missed = 0
    for number, view in enumerate(views):
        if number:
            theta = fitted.layers.theta
            fitted = fit(view[known], X_known, start=theta)
        missed = 0 if fitted.recovered else missed + 1
        if fitted.recovered:
            used.append(number)
            equations.add(view, fitted.layers, max(noise, fitted.layers.rms, _LEAST_ERROR))
        if not first.recovered or missed == effort.n_missed:
            break
    if not used:
        why = (
            f"not recovered: {first.n_fits} fits of the first look leave "
            f"{first.layers.rms:.1e} of an entry, and predict {first.predicted:.0%} of the records "
            "that judge"
        )
        return Columns(None, first, used, None, why)
    why = "" if len(used) == len(views) else f"not recovered: {len(views) - len(used)} later looks"
    X = equations.solved()
    return Columns(X, first, used, r_squared(X_known, X[known]), why)


class _Equations:
    """Normal equations of every record, with the known records' spread as prior."""

    def __init__(self, X_known: np.ndarray, n_rows: int):
        d = X_known.shape[1]
        self.spread = np.cov(X_known.T) + 1e-4 * np.eye(d)
        self.left = np.tile(np.linalg.inv(self.spread), (n_rows, 1, 1))
        self.right = np.zeros((n_rows, d))
        self.mean = X_known.mean(axis=0)

    def add(self, view: np.ndarray, layers: Layers, noise: float) -> None:
        """One equation for each neuron that is not saturated."""
        inverse = np.linalg.inv(layers.W)
        a = (view - layers.c) @ inverse
        deviations = noise * np.linalg.norm(inverse, axis=0)
        for j, deviation in enumerate(deviations):
            clear = (a[:, j] > _CLEAR * deviation) & (a[:, j] < 1 - _CLEAR * deviation)
            theta = layers.theta[:, j]
            h1 = a[clear, j] - 0.5 - self.mean @ theta
            self.left[clear] += np.outer(theta, theta) / deviation**2
            self.right[clear] += h1[:, None] * theta / deviation**2

    def solved(self) -> np.ndarray:
        return self.mean + np.linalg.solve(self.left, self.right[..., None])[..., 0]


def _piecewise(z: np.ndarray) -> np.ndarray:
    return (z + 0.5).clip(0, 1)


def _start(
    number: int,
    n_random: int,
    best: Layers | None,
    before: np.ndarray | None,
    shape: tuple[int, int],
    rng: np.random.Generator,
) -> np.ndarray:
    """Where a fit starts: at random, at the look before, or at the best so far with one neuron
    drawn anew."""
    drawn = rng.uniform(-1, 1, shape) / shape[0] ** 0.5
    if best is None:
        return drawn if before is None else before
    if number < n_random:
        return drawn
    neuron = number % shape[1]
    theta = best.theta.copy()
    theta[:, neuron] = drawn[:, neuron]
    return theta


def _share_predicted(layers: Layers, X: np.ndarray, view: np.ndarray, noise: float) -> float:
    off = np.sqrt(((layers.predicted(X) - view) ** 2).mean(axis=1))
    return float((off <= _WITHIN * noise).mean())


@dataclass(frozen=True, eq=False)
class _Point:
    """slopes: (m, width) bool.  Q: an orthonormal basis of f(X theta) and 1.  last: (width + 1, v),
    W and c.  left: (m, v)."""

    slopes: np.ndarray
    Q: np.ndarray
    last: np.ndarray
    left: np.ndarray

    @property
    def loss(self) -> float:
        return float((self.left**2).sum())


def _at(theta: np.ndarray, X: np.ndarray, view: np.ndarray) -> _Point:
    """The best last layer for this theta, and what it leaves."""
    z = X @ theta
    inputs = np.c_[_piecewise(z), np.ones(len(X))]
    Q, sizes, Vt = np.linalg.svd(inputs, full_matrices=False)
    some = sizes > 1e-10 * sizes[0]
    Q = Q[:, some]
    last = Vt[some].T @ ((Q.T @ view) / sizes[some, None])
    return _Point(np.abs(z) < 0.5, Q, last, inputs @ last - view)


def _normal_equations(X: np.ndarray, at: _Point) -> tuple[np.ndarray, np.ndarray]:
    """Of the projected residuals in theta, neuron by neuron: J^T J and J^T r."""
    (m, d), width = X.shape, at.slopes.shape[1]
    W = at.last[:-1]
    moved = (X[:, None, :] * at.slopes[:, :, None]).reshape(m, width * d)
    moved = moved - at.Q @ (at.Q.T @ moved)
    products = (moved.T @ moved).reshape(width, d, width, d)
    products = products * (W @ W.T)[:, None, :, None]
    slope = (X.T @ ((at.left @ W.T) * at.slopes)).T.ravel()
    return products.reshape(width * d, width * d), slope


def _fit(theta: np.ndarray, X: np.ndarray, view: np.ndarray, noise: float, n_steps: int) -> Layers:
    """The nearest minimum, or where the noise is reached."""
    damping, slow, at = 1e-2, 0, _at(theta, X, view)
    aim = noise**2 * view.size / 4
    for _ in range(n_steps):
        products, slope = _normal_equations(X, at)
        sizes = np.diag(products) + 1e-12 * np.diag(products).max()
        for _ in range(_TRIES):
            damped = products + np.diag(damping * sizes + np.finfo(float).tiny)
            move = cho_solve(cho_factor(damped), slope)
            there = theta - move.reshape(theta.shape[::-1]).T
            tried = _at(there, X, view)
            if tried.loss < at.loss:
                break
            damping *= 4
        else:
            break
        slow = slow + 1 if tried.loss > 0.995 * at.loss else 0
        theta, at, damping = there, tried, max(damping / 5, 1e-12)
        if at.loss < aim or slow >= _PATIENCE:
            break
    return Layers(theta, at.last[:-1], at.last[-1], float(np.sqrt((at.left**2).mean())))
