"""Renyi divergences of uploads, before and after sampling, and the epsilon that they give.

Renyi divergences are in nats. A curve is a function of orders alpha > 1 that bounds D_alpha in both
directions. Log-moments are K(alpha) = (alpha - 1) D_alpha = ln E_Q[(P / Q)^alpha]:
convex in alpha, 0 at alpha = 1, and they add up over rounds.
"""

import functools
import math
from collections.abc import Callable

import numpy as np
from scipy.special import gammaln

from ppkit.accounting.budget import LEAST_RATE, NEIGHBOURING, counts
from ppkit.validation import must_be, one_of

Curve = Callable[[np.ndarray], np.ndarray]
ORDERS = np.r_[1:65, 68:129:4, 144:257:16, 288:513:32, 576:1025:64]
FINE_ORDERS = 1 + np.logspace(-4, 5, 2_000)


def bounded_range_curve(width: float, n_selections: int) -> Curve:
    """D_alpha <= alpha n width^2 / 8 for n adaptive selections whose log-ratios lie in an interval
    of length `width`.

    width: > 0, finite.  n_selections: n >= 1.  ValueError if an argument is out of range.
    Source: Cesar and Rogers (2021): bounded range is (width^2 / 8)-zCDP.
    """
    must_be("a finite number > 0", width=width)
    must_be("a whole number >= 1", n_selections=n_selections)
    return lambda orders: orders * (n_selections * (width * width) / 8)


def laplace_curve(shift: float, n_values: int) -> Curve:
    """D_alpha of n Laplace releases whose values each move by at most `shift` noise scales; exact
    where all do.

    D_alpha = n / (alpha - 1) ln(alpha / (2 alpha - 1) e^((alpha - 1) shift)
                                 + (alpha - 1) / (2 alpha - 1) e^(-alpha shift))
    shift: > 0, finite.  n_values: n >= 1.  ValueError if an argument is out of range.
    Source: Mironov (2017), Table II.
    """
    must_be("a finite number > 0", shift=shift)
    must_be("a whole number >= 1", n_values=n_values)

    def curve(orders):
        up = np.log(orders / (2 * orders - 1)) + (orders - 1) * shift
        down = np.log((orders - 1) / (2 * orders - 1)) - orders * shift
        rounding = 4 * np.finfo(float).eps
        exact = (np.maximum(np.logaddexp(up, down), 0.0) + rounding) / (orders - 1)
        return n_values * np.minimum(
            exact, orders * (shift * shift) / 2
        )  # a shift-DP release is (shift^2 / 2)-zCDP

    return curve


def to_epsilon(orders: np.ndarray, log_moments: np.ndarray, delta: float) -> float:
    """Smallest epsilon that the log-moments give at `delta`.

    min over alpha of (K(alpha) - ln delta - ln alpha) / (alpha - 1) + ln(1 - 1 / alpha),
    and at least 0
    orders, log_moments: (m,), alpha > 1.  delta: in (0, 1).  Every order is valid, so a coarse grid
    is only looser.  ValueError if delta is out of range, or no log-moment is finite.
    Source: Canonne, Kamath and Steinke (2020), Proposition 12.
    """
    must_be("in (0, 1)", delta=delta)
    orders, log_moments = np.asarray(orders, float), np.asarray(log_moments, float)
    if not ((orders > 1) & (orders < math.inf)).all():
        raise ValueError(f"orders must be finite and above 1, got {orders.min()} to {orders.max()}")
    if orders.shape != log_moments.shape or np.isnan(log_moments).any():
        raise ValueError(
            "orders and log_moments must be as many numbers, "
            f"got {orders.shape} and {log_moments.shape}"
        )
    if not (log_moments < math.inf).any():
        raise ValueError("log_moments must be finite at one order at least, got infinite ones")
    values = (log_moments - np.log(delta) - np.log(orders)) / (orders - 1) + np.log1p(-1 / orders)
    return max(0.0, float(np.min(values)))


def curve_epsilon(curve: Curve, delta: float, n_rounds: int = 1) -> float:
    """Epsilon at `delta` of `n_rounds` uploads of this curve, without any gain from sampling.

    delta: in (0, 1).  n_rounds: from 1 to 10^9.  ValueError if an argument is out of range.
    """
    counts(n_rounds=n_rounds)
    return to_epsilon(FINE_ORDERS, n_rounds * (FINE_ORDERS - 1) * curve(FINE_ORDERS), delta)


def sampled_log_moments(curve: Curve, sample_rate: float, neighbouring: str) -> np.ndarray:
    """Upper bounds on K(alpha) at ORDERS for an upload computed on ONE Poisson sample.

    curve: add/remove curve of the upload before sampling.  sample_rate: q in (0, 1), priced as
    1e-12 below that.  neighbouring: "add_remove" or "replace_one".
    Returns (len(ORDERS),), >= 0.  ValueError if an argument is out of range.
    Guarantee: for any mechanism with that curve, both directions,
    neighbouring "add_remove" or "replace_one".
    Proof. Write M0 for the upload without the record, a = M1 / M0 for its ratio with it (x in,
    given the rest of the sample); by joint convexity one sample of the rest is enough.
    Let c(alpha) = (1 - q)^(1 - alpha) - 1 - (alpha - 1) q.
    (1) With the record against without: E[(1 - q + q a)^alpha], expanded by the binomial theorem:
        `forth`, exact.
    (2) Without against with: E[f(a)], f(a) = (1 - q + q a)^(1 - alpha). Its second-order remainder
        at a = 1, divided by (a - 1)^2, falls in a, so is at most its value at a = 0:
        E f <= 1 + c(alpha) chi2, chi2 = E(a - 1)^2; also f <= (1 - q)^(1 - alpha): `back`.
    (3) Replace-one, ratios a and b: E[(1 - q + q a)^alpha f(b)] is at most
        forth * (1 - q)^(1 - alpha), and at most
        forth * back + sqrt(Var (1 - q + q a)^alpha  Var f(b)) by Cauchy-Schwarz; both means are
        >= 1, so the variances are at most forth(2 alpha) - 1 and back(2 alpha - 1) - 1.
    Source: (1) as in Mironov, Talwar and Zhang (2019); (2) and (3) are ours, checked against
    enumeration in the tests.
    """
    must_be("in (0, 1)", sample_rate=sample_rate)
    one_of(NEIGHBOURING, neighbouring=neighbouring)
    q = max(sample_rate, LEAST_RATE)
    whole = np.arange(2.0, 2 * ORDERS[-1] + 1)
    pieces = np.append([-np.inf, -np.inf], _log_expm1((whole - 1) * curve(whole)))  # ln(E[a^l] - 1)
    orders = ORDERS[1:]

    def back_excess(alpha):  # ln(back - 1)
        ceiling = (1 - alpha) * np.log1p(-q)
        with np.errstate(over="ignore"):
            c = np.maximum(np.expm1(ceiling) - (alpha - 1) * q, alpha * (alpha - 1) / 2 * q * q)
        return np.minimum(np.log(c) + pieces[2], _log_expm1(ceiling))

    forth = np.logaddexp(0.0, _binomial_excess(pieces, q, 1))
    back = np.logaddexp(0.0, back_excess(orders))
    if neighbouring == "add_remove":
        return np.append(0.0, np.maximum(forth, back))
    spread = 0.5 * (_binomial_excess(pieces, q, 2) + back_excess(2 * orders - 1))
    return np.append(
        0.0, np.minimum(forth - (orders - 1) * np.log1p(-q), np.logaddexp(forth + back, spread))
    )


def sampled_epsilon(log_moments: np.ndarray, delta: float, n_rounds: int) -> float:
    """Epsilon at `delta` of `n_rounds` rounds of these log-moments at ORDERS; chords between orders
    are valid bounds.

    delta: in (0, 1).  n_rounds: from 1 to 10^9.  ValueError if an argument is out of range.
    """
    counts(n_rounds=n_rounds)
    log_moments = np.asarray(log_moments, float)
    if log_moments.shape != ORDERS.shape:
        raise ValueError(
            f"log_moments must be {ORDERS.shape}, one for each of ORDERS, got {log_moments.shape}"
        )
    orders = np.unique(np.r_[np.arange(1.02, 12, 0.02), ORDERS[1:]])
    return to_epsilon(orders, n_rounds * np.interp(orders, ORDERS, log_moments), delta)


def _log_expm1(values):
    return values + np.log(-np.expm1(-values))


def _binomial_excess(pieces, q, factor):
    """ln(E[(1 - q + q a)^alpha] - 1) at alpha = factor * ORDERS[1:]:
    binomial weights times E[a^l] - 1, no cancellation."""
    rows, columns, binomial, starts = _binomials(factor)
    terms = binomial + (rows - columns) * np.log1p(-q) + columns * np.log(q) + pieces[columns]
    peak = np.maximum.reduceat(terms, starts)
    lengths = np.diff(np.append(starts, terms.size))
    return peak + np.log(np.add.reduceat(np.exp(terms - np.repeat(peak, lengths)), starts))


@functools.cache
def _binomials(factor):
    """For every alpha = factor * ORDERS[1:], one after the other:
    alpha, l = 2 ... alpha, ln C(alpha, l), and the starts."""
    orders = factor * ORDERS[1:]
    rows = np.repeat(orders, orders - 1)
    columns = np.concatenate([np.arange(2, order + 1) for order in orders])
    starts = np.append(0, np.cumsum(orders - 1)[:-1])
    return (
        rows,
        columns,
        gammaln(rows + 1) - gammaln(columns + 1) - gammaln(rows - columns + 1),
        starts,
    )
