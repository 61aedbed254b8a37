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

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import lsq_linear
from scipy.special import expit

from ppkit.collaboration.losses import Loss
from ppkit.collaboration.owners import Bounds, Owner, checked
from ppkit.refusals import must_be

REL_GAP = {"squared": 1e-9, "hinge": 1e-8}
_ROUNDING = 1e-14  # of f(0): below it no gap means anything
_MOST_STEPS, _COOLER = 200, 0.25


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """theta (p,) in the box; value = f(theta); gap >= 0 with value - gap <= f(theta*) <= value."""

    theta: np.ndarray
    value: float
    gap: float


def optimum(
    owners: tuple[Owner, ...], *, loss: Loss, bounds: Bounds, rel_gap: float | None = None
) -> Optimum:
    """theta* of all owners' records together, over |theta|_inf <= bounds.theta_max, with a
    certificate of its value.

    owners: >= 1, of one width p, within the bounds.  loss: its f.
    bounds: its theta_max makes the box.
    rel_gap: what gap/value must not exceed, > 0; default 1e-9 (squared), 1e-8 (hinge). A
    gap of 1e-14 f(0), which is rounding, will do in any case: where the fit is perfect no relative
    gap is reached.
    Squared loss: bounded least squares on the Gram matrix (scipy's lsq_linear, BVLS).
    Hinge: projected Newton on mu log(1 + exp(z/mu)), which is above max(0, z) by at most mu log 2,
    with mu cooled towards 0; expit(z/mu) is a dual point. Where the Gram matrix has no full rank
    there are many theta*: the value is certified.
    Returns an Optimum; the certificate holds up to the rounding of float64,
    some 1e-13 of the value.
    ValueError if owners do not fit each other or the bounds,
    or if no certificate of rel_gap is reached.
    Guarantee: none, this is the model without privacy: it needs all records in one place.
    """
    rel_gap = REL_GAP[loss.kind] if rel_gap is None else rel_gap
    must_be("> 0", rel_gap=rel_gap)
    owners = checked(owners, bounds=bounds, signs=loss.signs)
    found = (_squared if loss.kind == "squared" else _hinge)(
        owners, loss, bounds.theta_max, rel_gap
    )
    found = replace(found, gap=min(found.gap, max(found.value, 0.0)))  # as no f is below 0
    if not found.gap <= rel_gap * found.value + _ROUNDING * loss.value(
        np.zeros_like(found.theta), owners
    ):
        raise ValueError(
            f"no certificate: f = {found.value:.6g} is known to lie within {found.gap:.2g} of the "
            "least value, "
            f"expected a relative gap of at most {rel_gap:g}"
        )
    return found


def constant_model(
    owners: tuple[Owner, ...], *, loss: Loss, bounds: Bounds, rel_gap: float | None = None
) -> Optimum:
    """The best model that looks at nothing: all coordinates 0 but the last, which belongs to the
    constant.

    Arguments, errors: as `optimum`; ValueError too if the last column is not the same number in
    every row.
    Returns an Optimum with theta (p,), its gap for this problem of one variable.
    """
    for owner in checked(owners):
        if np.ptp(owner.X[:, -1]) != 0 or owner.X[0, -1] != owners[0].X[0, -1]:
            raise ValueError(
                f"the last column must be the constant, got {owner.X[:, -1].min():g} to "
                f"{owner.X[:, -1].max():g} with {owner.name}"
            )
    last = tuple(
        Owner(name=owner.name, X=np.ascontiguousarray(owner.X[:, -1:]), y=owner.y)
        for owner in owners
    )
    found = optimum(last, loss=loss, bounds=bounds, rel_gap=rel_gap)
    return replace(found, theta=np.append(np.zeros(owners[0].X.shape[1] - 1), found.theta))


def _squared(owners, loss, theta_max, rel_gap) -> Optimum:
    n = sum(owner.n_records for owner in owners)
    gram = sum(owner.X.T @ owner.X for owner in owners) / n + loss.regularisation / 2 * np.eye(
        owners[0].X.shape[1]
    )
    target = sum(owner.X.T @ owner.y for owner in owners) / n
    curvature, axes = np.linalg.eigh(gram)  # f = |root theta - root^-T target|^2 + const
    kept = curvature > 1e-12 * curvature[-1]
    root = np.sqrt(curvature[kept])[:, None] * axes[:, kept].T
    solved = lsq_linear(
        root,
        (axes[:, kept].T @ target) / np.sqrt(curvature[kept]),
        bounds=(-theta_max, theta_max),
        method="bvls",
        tol=1e-15,
    )
    theta = np.clip(solved.x, -theta_max, theta_max)
    value = float(loss.value(theta, owners))
    gradient = 2 * (gram @ theta - target)
    curved = 2 * max(float(curvature[0]), 0.0) if kept.all() else 0.0
    return Optimum(theta, value, _least_below(theta, gradient, curved, theta_max))


def _least_below(theta, gradient, curved, theta_max) -> float:
    """max over the box of -(g.d + L/2 |d|^2), d = t - theta: how far below f(theta) the least value
    can be."""
    if curved > 0:
        step = np.clip(-gradient / curved, -theta_max - theta, theta_max - theta)
    else:
        step = np.where(gradient == 0, 0.0, -theta_max * np.sign(gradient) - theta)
    return max(0.0, float(-(gradient @ step + curved / 2 * step @ step)))


def _hinge(owners, loss, theta_max, rel_gap) -> Optimum:
    """r/2 |theta|^2 + mean mu log(1 + exp(z/mu)), mu cooled from 1."""
    signed = np.concatenate([owner.y[:, None] * owner.X for owner in owners])
    theta, mu, steps, idle = np.zeros(signed.shape[1]), 1.0, 0, 0
    best, least, below = theta, np.inf, -np.inf
    while least == np.inf or least - below > rel_gap * least:
        problem = _Smooth(signed, loss.regularisation, mu)
        theta, used = problem.descend(theta, theta_max, _MOST_STEPS - steps, 0.1 * rel_gap)
        value, under = float(loss.value(theta, owners)), problem.below(theta, theta_max)
        idle = 0 if value < least or under > below else idle + 1
        if value < least:
            best, least = theta, value
        below, steps, mu = max(below, under), steps + used, mu * _COOLER
        if idle == 2 or steps >= _MOST_STEPS:
            break
    return Optimum(best, least, max(0.0, least - below))


class _Smooth:
    """F(theta) = r/2 |theta|^2 + mean mu log(1 + exp(z_i/mu)), z = 1 - signed theta:
    value, slope, curvature."""

    def __init__(self, signed, regularisation, mu):
        self.signed, self.regularisation, self.mu = signed, regularisation, mu
        self.weight = np.full(len(signed), 1 / len(signed))

    def at(self, theta):
        heat = (1.0 - self.signed @ theta) / self.mu
        return self.regularisation / 2 * theta @ theta + self.mu * (
            self.weight @ np.logaddexp(0, heat)
        ), expit(heat)

    def slope(self, theta, alpha):
        return self.regularisation * theta - (self.weight * alpha) @ self.signed

    def curvature(self, alpha):
        bend = self.weight * alpha * (1 - alpha) / self.mu
        near = np.flatnonzero(bend > 1e-14 * bend.max())
        rows = self.signed[near] if len(near) < len(bend) else self.signed
        held = rows.T @ (bend[near, None] * rows) + self.regularisation * np.eye(rows.shape[1])
        return held + 1e-13 * max(np.trace(held), 1e-300) * np.eye(rows.shape[1])

    def below(self, theta, theta_max) -> float:
        """The dual value at alpha = expit(z/mu):
        min over the box of r/2 |t|^2 + mean alpha_i z_i(t), as max(0, z) >= alpha z.
        """
        alpha = self.at(theta)[1]
        pull = (self.weight * alpha) @ self.signed
        if self.regularisation > 0:
            least = np.clip(pull / self.regularisation, -theta_max, theta_max)
        else:
            least = np.where(pull == 0, 0.0, np.where(pull > 0, theta_max, -theta_max))
        return float(self.regularisation / 2 * least @ least - pull @ least + self.weight @ alpha)

    def descend(self, theta, theta_max, most, tolerance):
        """Newton steps on the coordinates that the box does not hold, halved until F falls; until
        they promise no more."""
        value, alpha = self.at(theta)
        for step in range(1, most + 1):
            slope = self.slope(theta, alpha)
            free = ~((theta >= theta_max) & (slope < 0) | (theta <= -theta_max) & (slope > 0))
            move = np.zeros_like(theta)
            move[free] = -np.linalg.solve(self.curvature(alpha)[np.ix_(free, free)], slope[free])
            size = 1.0
            if _least_below(theta, slope, self.regularisation, theta_max) <= tolerance * value:
                return theta, step
            while size > 1e-12:
                tried = np.clip(theta + size * move, -theta_max, theta_max)
                tried_value, tried_alpha = self.at(tried)
                if tried_value <= value - 1e-4 * (slope @ (theta - tried)):
                    break
                size /= 2
            else:
                return theta, step
            theta, value, alpha = tried, tried_value, tried_alpha
        return theta, most
