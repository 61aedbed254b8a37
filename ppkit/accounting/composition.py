"""Pure guarantees put together: over rounds, and on a sample."""

import math

import numpy as np
from scipy.special import gammaln

from ppkit.validation import must_be


def kov_epsilon(epsilon: float, k: int, delta: float) -> float:
    """Smallest E such that k adaptive epsilon-DP mechanisms are together (E, delta)-DP:
    the optimal composition.

    delta(E) = sum over l with (k - 2 l) epsilon > E of
               C(k, l) (e^((k - l) epsilon) - e^(E + l epsilon)) / (1 + e^epsilon)^k
    epsilon: >= 0, finite.  k: from 1 to 10^7, a whole number.  delta: in (0, 1).  The sum is linear
    in e^E between its corners and is solved there: no grid.
    Source: Kairouz, Oh and Viswanath (2015), Theorem 3.3.

    >>> kov_epsilon(1.0, 1, 1e-9) < 1.0 and kov_epsilon(1.0, 1, 0.5) == 0.0
    True
    """
    must_be("a finite number >= 0", epsilon=epsilon)
    must_be("a whole number >= 1", k=k)
    must_be("in (0, 1)", delta=delta)
    if k > 10**7:
        raise ValueError(f"k must be at most 10,000,000, got {k}")
    k = int(k)
    l = np.arange(k // 2 + 1)  # the other half has a loss below 0
    loss = (k - 2 * l) * epsilon
    log_p = (
        gammaln(k + 1)
        - gammaln(l + 1)
        - gammaln(k - l + 1)
        - l * epsilon
        - k * math.log1p(math.exp(-epsilon))
    )
    below = np.logaddexp.accumulate(log_p)
    above = np.logaddexp.accumulate(log_p - loss)
    corner = np.append(loss[1:], 0.0)  # the sum of l + 1 terms holds for E in [corner_l, loss_l)
    with np.errstate(divide="ignore"):
        at_corner = below + np.log(-np.expm1(np.minimum(corner + above - below, 0.0)))
    enough = np.flatnonzero(at_corner >= math.log(delta))
    if enough.size == 0:
        return 0.0
    first = enough[0]
    return max(
        0.0,
        float(below[first] + math.log(-math.expm1(math.log(delta) - below[first])) - above[first]),
    )


def amplified(epsilon: float, q: float) -> float:
    """ln(1 + q (e^epsilon - 1)): an epsilon-DP mechanism on a Poisson sample of rate q, add/remove.

    epsilon: >= 0, infinity included.  q: in (0, 1].  ValueError if an argument is out of range.
    """
    must_be(">= 0", epsilon=epsilon)
    must_be("in (0, 1]", q=q)
    if epsilon < 30:
        return math.log1p(q * math.expm1(epsilon))
    return float(np.logaddexp(math.log1p(-q) if q < 1 else -math.inf, math.log(q) + epsilon))
