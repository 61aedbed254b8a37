"""How much noise an owner adds to its answers, so that all of them together keep its promise.

An answer is a mean gradient; replacing one record moves it by at most 2 Xi / n in the l1 norm, and
so in the l2 norm.
The guarantees hold for real numbers; floating-point noise is not hardened.
"""

import functools
import math

import numpy as np
from scipy import optimize

from ppkit.accounting import FINE_ORDERS, curve_epsilon, laplace_curve, to_epsilon
from ppkit.collaboration.owners import NUMBER, positive, whole


def laplace_scale(
    *,
    gradient_bound: float,
    n_records: int,
    horizon: int,
    epsilon: float,
    kappa: int = 1,
    delta: float | None = None,
) -> float:
    """Scale of the Laplace noise on every coordinate of every answer, so that all answers together
    cost epsilon.

    b = 2 Xi T kappa / (n epsilon)

    gradient_bound: Xi > 0, on the l1 norm of one record's gradient; public.  n_records: n >= 1,
    public.
    horizon: T >= 1 answers.  epsilon: > 0; infinity gives 0, no noise.  kappa: >= 1, data sets that
    may hold one record.
    delta: None for pure epsilon; else in (0, 1), and the scale is the smallest that basic
    composition or Renyi composition proves for (epsilon / kappa, delta / kappa), never above the
    pure one. Renyi: a vector of Laplace noise with an l1 shift s costs at most one coordinate
    shifted by s, as (alpha - 1) D_alpha(s) is convex in s and 0 at 0.
    Returns b >= 0, in the unit of the gradient.  ValueError if an argument is out of range.
    Guarantee: epsilon-DP, or (epsilon, delta)-DP, for replace-one neighbours over the whole
    horizon, adaptive queries included. For a record in kappa data sets it is this epsilon if every
    owner that holds it promises at most this epsilon:
    each owner of budget epsilon_l pays epsilon_l / kappa, so owners of .1 and 10 with kappa 2 cost
    it 5.05, not .1.
    Source: wu2020, Theorem 1; kappa from section II.A; delta is ours (Mironov 2017 for the curve).

    >>> laplace_scale(gradient_bound=1.0, n_records=100, horizon=10, epsilon=1.0)
    0.2
    """
    _check(gradient_bound, n_records, horizon, epsilon, kappa, delta)
    if math.isinf(epsilon):
        return 0.0
    if delta is None:
        return 2.0 * gradient_bound * horizon * kappa / (n_records * epsilon)
    return (
        2.0
        * gradient_bound
        / n_records
        / _laplace_shift(epsilon / kappa, delta / kappa, int(horizon))
    )


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

    sigma = (2 Xi_2 / n) sqrt(T / (2 rho)), rho the largest zCDP that gives (epsilon / kappa, delta
    / kappa)

    gradient_bound: Xi_2 > 0, on the l2 norm of one record's gradient; a bound on its l1 norm is
    one, and the same where a record may have all its weight in one feature.  delta: in (0, 1).  The
    others as in `laplace_scale`.
    Returns sigma >= 0, in the unit of the gradient; 0 for epsilon = infinity.  ValueError if an
    argument is out of range, or epsilon and delta are so small (1e-150) that no noise is proved to
    give them.
    Guarantee: (epsilon, delta)-DP for replace-one neighbours over the whole horizon, adaptive
    queries included.
    Source: not in wu2020. Bun and Steinke (2016), zCDP; Canonne, Kamath and Steinke (2020),
    Proposition 12.

    >>> round(
    ...     gaussian_scale(gradient_bound=1.0, n_records=100, horizon=10, epsilon=1.0, delta=1e-6),
    ...     3,
    ... )
    0.287
    """
    if delta is None:
        raise ValueError("Gaussian noise needs a delta in (0, 1), got None")
    _check(gradient_bound, n_records, horizon, epsilon, kappa, delta)
    if math.isinf(epsilon):
        return 0.0
    return (
        2.0
        * gradient_bound
        / n_records
        * math.sqrt(horizon / (2.0 * zcdp_budget(epsilon / kappa, delta / kappa)))
    )


@functools.lru_cache(maxsize=4096)
def zcdp_budget(epsilon: float, delta: float) -> float:
    """The largest rho for which rho-zCDP gives (epsilon, delta)-DP, by Renyi orders.

    epsilon: finite, > 0.  delta: in (0, 1).  Returns rho > 0.  ValueError if an argument is out of
    range.
    """
    positive("epsilon", epsilon)
    _check_delta(delta)
    orders = np.r_[
        FINE_ORDERS, 1 + np.logspace(5, min(max(5.0, 1 - math.log10(delta)), 150.0), 500)
    ]

    def excess(log_rho):
        return to_epsilon(orders, (orders - 1) * orders * math.exp(log_rho), delta) - epsilon

    # for small epsilon the best order is about 1/delta, and rho about delta^2
    ends = math.log(epsilon), 2 * math.log(delta)
    return math.exp(_last_at_most_0(excess, min(ends) - 40.0, max(ends) + 5.0, epsilon, delta))


@functools.lru_cache(maxsize=4096)
def _laplace_shift(epsilon: float, delta: float, horizon: int) -> float:
    """The largest l1 shift of one answer, in noise scales, for which `horizon` answers are proved
    (epsilon, delta)-DP."""
    pure = math.log(epsilon / horizon)

    def excess(log_shift):
        shift = math.exp(log_shift)
        return (
            min(horizon * shift, curve_epsilon(laplace_curve(shift, 1), delta, horizon)) - epsilon
        )

    if excess(pure + 1e-9) > 0:
        return epsilon / horizon
    return math.exp(_last_at_most_0(excess, pure + 1e-9, pure + 20.0, epsilon, delta))


def _last_at_most_0(excess, low, high, epsilon, delta):
    """A root of a growing function, from the side where it is at most 0; `high` where it is at most
    0 even there."""
    if excess(low) > 0:
        raise ValueError(
            f"no noise is proved to give epsilon = {epsilon:.3g} at delta = {delta:.3g}: too small"
        )
    if excess(high) <= 0:
        return high
    root = optimize.brentq(excess, low, high, xtol=1e-13, rtol=1e-13)
    return root - 1e-12


def _check(gradient_bound, n_records, horizon, epsilon, kappa, delta):
    positive("gradient_bound", gradient_bound)
    for name, value in (("n_records", n_records), ("horizon", horizon), ("kappa", kappa)):
        whole(name, value)
    if not isinstance(epsilon, NUMBER) or not epsilon > 0:
        raise ValueError(f"epsilon must be > 0, got {epsilon!r}")
    if delta is not None:
        _check_delta(delta)
    if math.isinf(2.0 * gradient_bound * horizon * kappa / n_records / epsilon):
        raise ValueError(f"epsilon = {epsilon:g} asks for more noise than a float64 can hold")


def _check_delta(delta):
    if not (isinstance(delta, NUMBER) and 0 < delta < 1):
        raise ValueError(f"delta must be in (0, 1), got {delta!r}")
