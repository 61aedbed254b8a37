"""What the label holder computes of another holder's columns from h_L, which it gets in each step.

It knows its own part of h1, and which record is which. So a few records whose other columns it
knows fix the other holder's weights and the server's, one look after the other: they are the same
for all records. Then h_L is turned back to h1, and its own part taken off.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import least_squares
from scipy.special import expit, logit

from ppkit.attacks.arrays import matrices, matrix
from ppkit.validation import same_rows

FLOAT32 = 2.0**-24  # the rounding of a number near 1
SOLVED = 1e-4  # the rms of a look is far below, if nothing but float32 stands in the way
FAR_OFF = 1_000  # times the least rms of all looks: such a look was not solved


@dataclass(frozen=True, eq=False)
class Fit:
    """One look, solved.  theta: (d, width), the other holder's.  weight: (width, last width), and
    bias: (last width,), the server's.  rms: of what is left, over that of the looks."""

    theta: np.ndarray = field(repr=False)
    weight: np.ndarray = field(repr=False)
    bias: np.ndarray = field(repr=False)
    rms: float

    def vector(self) -> np.ndarray:
        """All unknowns side by side."""
        return np.concatenate([self.theta.ravel(), self.weight.ravel(), self.bias])


def fit(
    h_last: ArrayLike,
    own: ArrayLike,
    X_known: ArrayLike,
    *,
    rng: np.random.Generator,
    n_starts: int = 3,
    start: Fit | None = None,
) -> Fit:
    """The weights behind one look, from records whose other columns are known.

    logit h_L = sigmoid(own + X theta) W + b,  theta, W, b by Levenberg and Marquardt

    h_last: (m, last width), of the known records, in (0, 1).  own: (m, width), the attacker's own
    part of h1.  X_known: (m, d), the other holder's columns.
    rng: draws n_starts starts.  start: the fit of another look, which is tried first; the drawn
    starts follow if it leaves an rms above SOLVED.
    Returns the best Fit; whoever wants to know whether it is the truth looks at rms.
    ValueError if a value is not finite, for rows that do not fit, a value of h_last that no
    sigmoid has, or if there are fewer numbers than unknowns.
    """
    sums, X = matrix("own", own), matrix("X_known", X_known)
    seen = matrix("h_last", h_last)
    _refuse_outside(h_last=[seen])
    same_rows(h_last=seen, own=sums, X_known=X)
    target = logit(seen)
    (m, width), d, last = sums.shape, X.shape[1], target.shape[1]
    shapes = (d, width), (width, last), (1, last)
    ends = np.cumsum([np.prod(shape) for shape in shapes])
    if target.size < ends[-1]:
        raise ValueError(f"{m} known records give {target.size} numbers for {ends[-1]} unknowns")

    def parts(vector):
        pieces = np.split(vector, ends[:-1])
        return [piece.reshape(shape) for piece, shape in zip(pieces, shapes)]

    def left(vector):
        theta, weight, bias = parts(vector)
        return (expit(sums + X @ theta) @ weight + bias - target).ravel()

    def slope(vector):
        theta, weight, _ = parts(vector)
        s = expit(sums + X @ theta)
        by_theta = np.einsum("ij,ia,ac->icja", X, s * (1 - s), weight)
        by_weight = np.einsum("ia,ce->icae", s, np.eye(last))
        by_bias = np.tile(np.eye(last), (m, 1, 1))
        return np.concatenate(
            [one.reshape(m * last, -1) for one in (by_theta, by_weight, by_bias)], axis=1
        )

    def solved_from(vector):
        found = least_squares(left, vector, jac=slope, method="lm", max_nfev=300)
        theta, weight, bias = parts(found.x)
        return Fit(theta, weight, bias[0], float(np.sqrt(np.mean(found.fun**2)) / target.std()))

    found = [solved_from(start.vector())] if start else []
    if not found or found[0].rms > SOLVED:
        found += [solved_from(_drawn(sums, X, target, rng)) for _ in range(n_starts)]
    return min(found, key=lambda one: one.rms)


def rebuilt(
    looks: Sequence[ArrayLike], own: Sequence[ArrayLike], fits: Sequence[Fit]
) -> np.ndarray:
    """The other holder's columns of all records, from looks that are solved.

    s = (logit h_L - b) W^-1,   h1 = logit s,
    X_i = argmin sum_k (X_i theta_k - h1_ik + own_ik)^2 / v_ik + |X_i|^2,
        v = (error of s / (s (1 - s)))^2,  k over all neurons of all looks that are solved

    looks: T of (n, last width), in (0, 1).  own: T of (n, width).  fits: T.
    The columns are standardised, so X_i is as likely as a record of mean 0 and deviation 1.  The
    error of s is what the fit left, or the rounding of h_L to float32, whichever is larger; an s
    outside (0, 1) counts nothing.  Nor does a look whose fit left FAR_OFF times as much as the
    best one: its weights are not the truth.
    Returns (n, d).  ValueError if a value is not finite or looks do not fit.
    """
    looks = matrices("looks", looks)
    _refuse_outside(looks=looks)
    own = matrices("own", own)
    if not len(looks) == len(own) == len(fits):
        raise ValueError(
            f"there must be as many looks as own parts and fits, got {len(looks)}, {len(own)} and "
            f"{len(fits)}"
        )
    same_rows(looks=looks[0], own=own[0])
    d = fits[0].theta.shape[0]
    squares, sides = np.zeros((len(looks[0]), d, d)), np.zeros((len(looks[0]), d))
    enough = FAR_OFF * max(FLOAT32, min(one.rms for one in fits))
    for h_last, sums, one in zip(looks, own, fits, strict=True):
        if one.rms > enough:
            continue
        back, seen = np.linalg.pinv(one.weight), logit(h_last)
        s = (seen - one.bias) @ back
        rounding = np.maximum(one.rms * seen.std(), FLOAT32 / (h_last * (1 - h_last)))
        error = np.sqrt(rounding**2 @ back**2)
        inside = (s > error) & (s < 1 - error)
        s = np.where(inside, s, 0.5)
        weights = np.where(inside, (s * (1 - s) / error) ** 2, 0.0)
        squares += np.einsum("ik,jk,lk->ijl", weights, one.theta, one.theta, optimize=True)
        sides += (weights * (logit(s) - sums)) @ one.theta.T
    return np.linalg.solve(squares + np.eye(d), sides[:, :, None])[:, :, 0]


def _refuse_outside(**looks: list[np.ndarray]) -> None:
    """Refuse what does not lie in (0, 1), where a sigmoid has its values."""
    for name, views in looks.items():
        outside = sum(int(((h <= 0) | (h >= 1)).sum()) for h in views)
        if outside:
            raise ValueError(
                f"{name} must lie in (0, 1), as a sigmoid's values do, got {outside} that do not"
            )


def _drawn(sums, X, target, rng) -> np.ndarray:
    """A start: theta small, and the W and b that fit it best."""
    theta = rng.normal(size=(X.shape[1], sums.shape[1])) / np.sqrt(X.shape[1]) / 2
    s = np.column_stack([expit(sums + X @ theta), np.ones(len(X))])
    layer = np.linalg.lstsq(s, target, rcond=1e-6)[0]
    return np.concatenate([theta.ravel(), layer.ravel()])
