"""How much noise an owner adds to its answers, so that all of them together keep its promise.

An answer is a mean gradient; replacing one record moves it by at most 2 Xi / n in the l1 norm, and
so in the l2 norm.
The guarantees hold for real numbers; floating-point noise is not hardened.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize

from ppkit.accounting import FINE_ORDERS, curve_epsilon, laplace_curve, to_epsilon
from ppkit.validation import must_be, one_of


@dataclass(frozen=True, slots=True, eq=False)
class Privacy:
    """What the owners promise, and the noise that keeps it.

    epsilons: (N,), one an owner, or (S, N) for S settings; > 0, infinity for no noise.
    kappa: 1 ... N data sets that may hold the same record; the noise grows kappa-fold.  With kappa,
    such a record costs at most epsilon only if each owner that holds it promises at most epsilon:
    it pays the sum of their epsilon_l / kappa.
    mechanism: "laplace" (delta 0: pure epsilon, wu2020, Theorem 1) or "gaussian" (delta in
    (0, 1)); see `laplace_scale` and `gaussian_scale`.
    ValueError if an argument is out of range.
    """

    epsilons: ArrayLike
    kappa: int = 1
    mechanism: str = "laplace"
    delta: float = 0.0

    def __post_init__(self):
        must_be("a whole number >= 1", kappa=self.kappa)
        one_of(("laplace", "gaussian"), mechanism=self.mechanism)

    def scales(self, gradient_bound: float, n_records: Sequence[int], horizon: int) -> np.ndarray:
        """Noise scale of every owner in every setting, (S, N); 0 for no noise.

        gradient_bound: Xi > 0.  n_records: one number an owner.  horizon: answers of each.
        ValueError if the epsilons or kappa do not fit N owners, or are out of range.
        """
        table, n_owners = np.atleast_2d(np.asarray(self.epsilons, float)), len(n_records)
        if table.shape[1:] != (n_owners,):
            raise ValueError(
                f"epsilons must be ({n_owners},) or (S, {n_owners}) for {n_owners} owners, "
                f"got shape {np.shape(self.epsilons)}"
            )
        if self.kappa > n_owners:
            raise ValueError(
                f"kappa must be at most the number of owners, {n_owners}, got {self.kappa}"
            )
        scale_of = laplace_scale if self.mechanism == "laplace" else gaussian_scale
        scales = np.empty(table.shape)
        for place, epsilon in np.ndenumerate(table):
            scales[place] = scale_of(
                gradient_bound=gradient_bound,
                n_records=n_records[place[1]],
                horizon=horizon,
                epsilon=float(epsilon),
                kappa=self.kappa,
                delta=self.delta,
            )
        return scales


def laplace_scale(
    *,
    gradient_bound: float,
    n_records: int,
    horizon: int,
    epsilon: float,
    kappa: int = 1,
    delta: float = 0.0,
) -> float:
    """Scale of the Laplace noise on every coordinate of every answer,
    so that all answers together cost epsilon.

    b = 2 Xi T kappa / (n epsilon)

    gradient_bound: Xi > 0, on the l1 norm of one record's gradient; public.
    n_records: n >= 1, public.
    horizon: T, from 1 to 10^9 answers.  epsilon: > 0; infinity gives 0, no noise.
    kappa: >= 1, data sets that may hold one record.
    delta: 0 for pure epsilon; else in (0, 1), and the scale is the smallest that basic
    composition or Renyi composition proves for (epsilon / kappa, delta / kappa), never above the
    pure one. Renyi: a vector of Laplace noise with an l1 shift s costs at most one coordinate
    shifted by s, as (alpha - 1) D_alpha(s) is convex in s and 0 at 0.
    Returns b >= 0, in the unit of the gradient.  ValueError if an argument is out of range.
    Guarantee: epsilon-DP, or (epsilon, delta)-DP, for replace-one neighbours over the whole
    horizon, adaptive queries included. For a record in kappa data sets it is this epsilon if every
    owner that holds it promises at most this epsilon: each owner of budget epsilon_l pays
    epsilon_l / kappa, so owners of .1 and 10 with kappa 2 cost it 5.05, not .1.
    Source: wu2020, Theorem 1; kappa from section II.A; delta is ours (Mironov 2017 for the curve).

    >>> laplace_scale(gradient_bound=1.0, n_records=100, horizon=10, epsilon=1.0)
    0.2
    """
    _check(gradient_bound, n_records, horizon, epsilon, kappa, delta)
    if math.isinf(epsilon):
        return 0.0
    sensitivity = 2.0 * gradient_bound / n_records
    if delta == 0:
        return sensitivity * horizon * kappa / epsilon
    return sensitivity / _laplace_shift(epsilon / kappa, delta / kappa, int(horizon))


def gaussian_scale(
    *,
    gradient_bound: float,
    n_records: int,
    horizon: int,
    epsilon: float,
    delta: float,
    kappa: int = 1,
) -> float:
    """Standard deviation of Gaussian noise on every coordinate of every answer, for (epsilon,
    delta) over the horizon.

    sigma = (2 Xi_2 / n) sqrt(T / (2 rho)),
        rho the largest zCDP that gives (epsilon / kappa, delta / kappa)

    gradient_bound: Xi_2 > 0, on the l2 norm of one record's gradient; a bound on its l1 norm is
    one, and the same where a record may have all its weight in one feature.  delta: in (0, 1).  The
    others as in `laplace_scale`.
    Returns sigma >= 0, in the unit of the gradient; 0 for epsilon = infinity.
    ValueError if an argument is out of range, or epsilon is so small (about 1e-5) that no noise is
    proved to give it.
    Guarantee: (epsilon, delta)-DP for replace-one neighbours over the whole horizon,
    adaptive queries included.
    Source: not in wu2020. Bun and Steinke (2016), zCDP;
    Canonne, Kamath and Steinke (2020), Proposition 12.

    >>> round(
    ...     gaussian_scale(gradient_bound=1.0, n_records=100, horizon=10, epsilon=1.0, delta=1e-6),
    ...     3,
    ... )
    0.287
    """
    must_be("in (0, 1)", delta=delta)
    _check(gradient_bound, n_records, horizon, epsilon, kappa, delta)
    if math.isinf(epsilon):
        return 0.0
    rho = zcdp_budget(epsilon / kappa, delta / kappa)
    return 2.0 * gradient_bound / n_records * math.sqrt(horizon / (2.0 * rho))


@functools.lru_cache(maxsize=4096)
def zcdp_budget(epsilon: float, delta: float) -> float:
    """The largest rho for which rho-zCDP gives (epsilon, delta)-DP, by Renyi orders.

    epsilon: finite, > 0.  delta: in (0, 1).  Returns rho > 0.  ValueError if an argument is out of
    range.
    """
    must_be("a finite number > 0", epsilon=epsilon)
    must_be("in (0, 1)", delta=delta)

    def excess(log_rho: float) -> float:
        with np.errstate(over="ignore"):  # an order that overflows is not the best one
            moments = (FINE_ORDERS - 1) * FINE_ORDERS * math.exp(log_rho)
        return to_epsilon(FINE_ORDERS, moments, delta) - epsilon

    low = 2 * min(0.0, math.log(epsilon)) + 2 * math.log(delta) - 40.0
    return math.exp(_last_at_most_0(excess, low, math.log(epsilon) + 5.0, epsilon, delta))


@functools.lru_cache(maxsize=4096)
def _laplace_shift(epsilon: float, delta: float, horizon: int) -> float:
    """The largest l1 shift of one answer, in noise scales, for which `horizon` answers are proved
    (epsilon, delta)-DP."""
    pure = math.log(epsilon / horizon)

    def excess(log_shift: float) -> float:
        shift = math.exp(log_shift)
        by_renyi = curve_epsilon(laplace_curve(shift, 1), delta, horizon)
        return min(horizon * shift, by_renyi) - epsilon

    if excess(pure + 1e-9) > 0:
        return epsilon / horizon
    return math.exp(_last_at_most_0(excess, pure + 1e-9, pure + 20.0, epsilon, delta))


def _last_at_most_0(
    excess: Callable[[float], float], low: float, high: float, epsilon: float, delta: float
) -> float:
    """A root of a growing function, from the side where it is at most 0; `high` where it is at most
    0 even there."""
    if excess(low) > 0:
        raise ValueError(
            f"no noise is proved to give epsilon = {epsilon:.3g} at delta = {delta:.3g}: too small"
        )
    if excess(high) <= 0:
        return high
    return optimize.brentq(excess, low, high, xtol=1e-13, rtol=1e-13) - 1e-12


def _check(
    gradient_bound: float, n_records: int, horizon: int, epsilon: float, kappa: int, delta: float
) -> None:
    must_be("a finite number > 0", gradient_bound=gradient_bound)
    must_be("a whole number >= 1", n_records=n_records, horizon=horizon, kappa=kappa)
    must_be("> 0", epsilon=epsilon)
    must_be("in [0, 1)", delta=delta)
    if horizon > 10**9:
        raise ValueError(f"horizon must be at most 1,000,000,000, got {horizon}")
    if math.isinf(2.0 * gradient_bound * horizon * kappa / n_records / epsilon):
        raise ValueError(f"epsilon = {epsilon:g} asks for more noise than a float64 can hold")
