"""theta*: the least f over the box, with a lower bound that nobody has to take on trust.

wu2020 takes theta* from Algorithm 1 without noise, which has not converged after T = 100 rounds;
then psi is measured against a number that a good run can undercut. Here a converged solver finds
theta, and a second computation, which does not use how theta was found, bounds f from below on the
whole box |theta|_inf <= theta_max:
    squared   f(t) >= f(theta) + g.(t - theta) + L/2 |t - theta|^2,
              least over the box, coordinate by coordinate;
    hinge     a dual point: every loss is above its tangents,
              f(t) >= r/2 |t|^2 - q.t + const, least over the box.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy.special import expit

from ppkit.collaboration.losses import Loss
from ppkit.collaboration.owners import Bounds, Owner, check_bounds, pooled_moments
from ppkit.validation import must_be

_REL_GAP = 1e-8
_ROUNDING = 1e-14  # of f(0): below it no gap means anything
_MOST_STEPS = 200
_TEMPERATURES = 0.25 ** np.arange(24)


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """theta (p,) in the box; value = f(theta); gap >= 0 with value - gap <= f(theta*) <= value."""

    theta: np.ndarray
    value: float
    gap: float


def optimum(
    owners: Sequence[Owner], *, loss: Loss, bounds: Bounds, rel_gap: float = _REL_GAP
) -> Optimum:
    """theta* of all owners' records together, over |theta|_inf <= bounds.theta_max, with a
    certificate of its value.

    owners: >= 1, of one width p, within the bounds.  loss: its f.
    bounds: its theta_max makes the box.
    rel_gap: what gap/value must not exceed, > 0. A gap of 1e-14 f(0), which is rounding, will do in
    any case: where the fit is perfect no relative gap is reached.
    Both by projected Newton steps; the hinge as mu log(1 + exp(z/mu)), which is above max(0, z) by
    at most mu log 2, with mu cooled towards 0; expit(z/mu) is a dual point. Where the Gram matrix
    has no full rank there are many theta*: the value is certified.
    Returns an Optimum; the certificate holds up to the rounding of float64,
    some 1e-13 of the value.
    ValueError if owners do not fit each other or the bounds,
    or if no certificate of rel_gap is reached.
    Guarantee: none, this is the model without privacy: it needs all records in one place.
    """
    must_be("> 0", rel_gap=rel_gap)
    check_bounds(owners, bounds, signs=loss.signs)
    solve = _squared if loss.kind == "squared" else _hinge
    solved = solve(owners, loss, bounds.theta_max, rel_gap)
    gap = min(solved.gap, max(solved.value, 0.0))  # as no f is below 0
    at_zero = float(loss.value(np.zeros_like(solved.theta), owners))
    if not gap <= rel_gap * solved.value + _ROUNDING * at_zero:
        raise ValueError(
            f"no certificate: f = {solved.value:.6g} is known to lie within {gap:.2g} of the "
            f"least value, expected a relative gap of at most {rel_gap:g}"
        )
    return replace(solved, gap=gap)


def constant_model(
    owners: Sequence[Owner], *, loss: Loss, bounds: Bounds, rel_gap: float = _REL_GAP
) -> Optimum:
    """The best model that looks at nothing: all coordinates 0 but the last, which belongs to the
    constant.

    Arguments, errors: as `optimum`; ValueError too if the last column is not the same number in
    every row.
    Returns an Optimum with theta (p,), its gap for this problem of one variable.
    """
    constants = np.concatenate([owner.X[:, -1] for owner in owners])
    if np.ptp(constants) != 0:
        raise ValueError(
            f"the last column must be the constant, got {constants.min():g} to {constants.max():g}"
        )
    last_columns = [Owner(owner.name, owner.X[:, -1:], owner.y) for owner in owners]
    alone = optimum(last_columns, loss=loss, bounds=bounds, rel_gap=rel_gap)
    theta = np.zeros(owners[0].X.shape[1])
    theta[-1] = alone.theta[0]
    return replace(alone, theta=theta)


class _Objective(Protocol):
    """A smooth f that is least in the box.  strength: of its convexity, L >= 0."""

    strength: float

    def value(self, theta: np.ndarray) -> float:
        """f."""

    def slope(self, theta: np.ndarray) -> np.ndarray:
        """Its gradient."""

    def curvature(self, theta: np.ndarray) -> np.ndarray:
        """Its Hessian, of full rank."""


def _descend(f: _Objective, theta: np.ndarray, theta_max: float, tolerance: float) -> np.ndarray:
    """Newton steps on the coordinates that the box does not hold, halved until f falls; until
    they promise no more."""
    for _ in range(_MOST_STEPS):
        value, slope = f.value(theta), f.slope(theta)
        if _least_below(theta, slope, f.strength, theta_max) <= tolerance * value:
            return theta
        held = (theta >= theta_max) & (slope < 0) | (theta <= -theta_max) & (slope > 0)
        free = ~held
        move = np.zeros_like(theta)
        move[free] = -np.linalg.solve(f.curvature(theta)[np.ix_(free, free)], slope[free])
        size = 1.0
        while size > 1e-12:
            tried = np.clip(theta + size * move, -theta_max, theta_max)
            if f.value(tried) <= value - 1e-4 * (slope @ (theta - tried)):
                break
            size /= 2
        else:
            return theta
        theta = tried
    return theta


def _least_below(theta: np.ndarray, gradient: np.ndarray, curved: float, theta_max: float) -> float:
    """max over the box of -(g.d + L/2 |d|^2), d = t - theta: how far below f(theta) the least value
    can be."""
    if curved > 0:
        step = np.clip(-gradient / curved, -theta_max - theta, theta_max - theta)
    else:
        step = np.where(gradient == 0, 0.0, -theta_max * np.sign(gradient) - theta)
    return max(0.0, float(-(gradient @ step + curved / 2 * step @ step)))


def _regular(hessian: np.ndarray) -> np.ndarray:
    """With a little added where it has no full rank."""
    return hessian + 1e-13 * max(np.trace(hessian), 1e-300) * np.eye(len(hessian))


class _Quadratic:
    """t'Ht/2 - q.t + c."""

    def __init__(self, hessian: np.ndarray, pull: np.ndarray, constant: float):
        self.hessian, self.pull, self.constant = hessian, pull, constant
        self.strength = max(0.0, float(np.linalg.eigvalsh(hessian)[0]))

    def value(self, theta: np.ndarray) -> float:
        return float((self.hessian @ theta / 2 - self.pull) @ theta) + self.constant

    def slope(self, theta: np.ndarray) -> np.ndarray:
        return self.hessian @ theta - self.pull

    def curvature(self, theta: np.ndarray) -> np.ndarray:
        return _regular(self.hessian)


def _squared(owners: Sequence[Owner], loss: Loss, theta_max: float, rel_gap: float) -> Optimum:
    A, b, c = pooled_moments(owners)
    f = _Quadratic(2 * A + loss.regularisation * np.eye(len(b)), 2 * b, c)
    theta = _descend(f, np.zeros(len(b)), theta_max, 0.1 * rel_gap)
    gap = _least_below(theta, f.slope(theta), f.strength, theta_max)
    return Optimum(theta, float(loss.value(theta, owners)), gap)


class _SmoothHinge:
    """r/2 |theta|^2 + mean mu log(1 + exp(z_i/mu)), z = 1 - signed theta."""

    def __init__(self, signed: np.ndarray, regularisation: float, mu: float):
        self.signed, self.strength, self.mu = signed, regularisation, mu

    def heat(self, theta: np.ndarray) -> np.ndarray:
        """z / mu; its expit is a point of the dual problem."""
        return (1.0 - self.signed @ theta) / self.mu

    def value(self, theta: np.ndarray) -> float:
        smooth = self.mu * np.logaddexp(0, self.heat(theta)).mean()
        return float(self.strength / 2 * theta @ theta + smooth)

    def slope(self, theta: np.ndarray) -> np.ndarray:
        alpha = expit(self.heat(theta))
        return self.strength * theta - alpha @ self.signed / len(alpha)

    def curvature(self, theta: np.ndarray) -> np.ndarray:
        alpha = expit(self.heat(theta))
        bend = alpha * (1 - alpha) / (self.mu * len(alpha))
        near = bend > 1e-14 * bend.max()
        rows = self.signed[near]
        hessian = rows.T @ (bend[near, None] * rows)
        return _regular(hessian + self.strength * np.eye(len(theta)))

    def dual(self, theta: np.ndarray, theta_max: float) -> float:
        """At alpha = expit(z/mu):
        min over the box of r/2 |t|^2 + mean alpha_i z_i(t), as max(0, z) >= alpha z.
        """
        alpha = expit(self.heat(theta))
        zero = np.zeros_like(theta)
        pull = alpha @ self.signed / len(alpha)
        return float(alpha.mean()) - _least_below(zero, -pull, self.strength, theta_max)


def _hinge(owners: Sequence[Owner], loss: Loss, theta_max: float, rel_gap: float) -> Optimum:
    """The smooth hinge, mu cooled from 1."""
    signed = np.concatenate([owner.y[:, None] * owner.X for owner in owners])
    theta = best = np.zeros(signed.shape[1])
    least, below = np.inf, -np.inf
    for mu in _TEMPERATURES:
        f = _SmoothHinge(signed, loss.regularisation, mu)
        theta = _descend(f, theta, theta_max, 0.1 * rel_gap)
        value = float(loss.value(theta, owners))
        if value < least:
            best, least = theta, value
        below = max(below, f.dual(theta, theta_max))
        if least - below <= rel_gap * least:
            break
    return Optimum(best, least, max(0.0, least - below))
