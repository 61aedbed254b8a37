"""What a whole privacy profile says of naming: how often any attacker picks the right one of
several candidates.

One (epsilon, delta) bounds this chance, and so does every other pair that holds.  All pairs
together are the mechanism's *profile*.  The pair that is advertised has a tiny delta, and so a
large epsilon; a larger delta often gives a far smaller bound.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy import optimize
from scipy.special import expit, logit

from ppkit.validation import must_be, one_of

RELATIONS = ("add_remove", "zero_out", "replace_one")
DELTAS = (1e-12, 0.999)
N_TRIED = 24  # deltas, before the best is sought between two of them


def get_naming_bound(
    epsilon_at: Callable[[float], float],
    *,
    n_candidates: int,
    neighbouring: str,
    largest_delta: float = DELTAS[1],
) -> float:
    """The chance that no attacker exceeds who must name which of m equally likely candidates was
    used.

        add/remove, zero-out:   min over delta of  e^epsilon / m + delta
        replace-one:            min over delta of  (e^epsilon + (m - 1) delta) / (e^epsilon + m - 1)

    with epsilon = epsilon_at(delta).  Let P_i be the law of what is sent with candidate i, and A_i
    the event that the attacker names i.
    - add/remove: let Q be the law without any of them (zero-out: with a gradient of 0 in its
      place).  P_i(A_i) <= e^epsilon Q(A_i) + delta, and the Q(A_i) add up to at most 1.
    - replace-one: P_i(A_i) <= e^epsilon P_j(A_i) + delta for each j != i.  On average over all
      pairs P_j(A_i) is at most (1 - P) / (m - 1), P the average of the P_i(A_i).

    epsilon_at: the profile, a delta to an epsilon >= 0 such that (epsilon, delta) holds for
    everything that the attacker sees; constant if the mechanism is pure.
    n_candidates: m, a whole number >= 2.
    neighbouring: of the profile, "add_remove", "zero_out" or "replace_one".
    largest_delta: in (0, 1), the last delta that epsilon_at takes.
    Returns a chance from 1 / m to 1.  ValueError if an argument is out of range.
    Guarantee: against every attacker, who may know all other records; the profile's own guarantee
    is the only assumption.  The least of the bounds at deltas from 1e-12 to largest_delta; each
    holds, so a coarse search gives nothing away.
    Source: the least over all pairs of add/remove is the trade-off curve at 1 / m (Dong, Roth and
    Su 2022), which is the bound of Balle, Cherubin and Hayes (2022) on reconstruction.
    Departs from it with few candidates: the curve takes negative epsilons, too, and the profiles of
    this kit end at 0, which is never below the curve.

    >>> from ppkit.accounting import get_epsilon_epochs
    >>> def gaussian(delta):
    ...     return get_epsilon_epochs(4.0, delta=delta, n_epochs=1, neighbouring="zero_out")
    >>> bound = get_naming_bound(gaussian, n_candidates=100, neighbouring="zero_out")
    >>> round(bound, 4), round(math.exp(gaussian(1e-6)) / 100, 4)
    (0.0189, 0.0289)
    """
    must_be("a whole number >= 2", n_candidates=n_candidates)
    one_of(RELATIONS, neighbouring=neighbouring)
    must_be("in (0, 1)", largest_delta=largest_delta)

    def bound(log_odds: float) -> float:
        delta = min(float(expit(log_odds)), largest_delta)
        return _chance(epsilon_at(delta), delta, int(n_candidates), neighbouring)

    first, last = logit(min(DELTAS[0], largest_delta / 2)), logit(largest_delta)
    tried = np.linspace(first, last, N_TRIED)
    found = [bound(log_odds) for log_odds in tried]
    best = int(np.argmin(found))
    beside = tried[max(best - 1, 0)], tried[min(best + 1, N_TRIED - 1)]
    between = optimize.minimize_scalar(bound, bounds=beside, method="bounded")
    return min(1.0, found[best], float(between.fun))


def _chance(epsilon: float, delta: float, n_candidates: int, neighbouring: str) -> float:
    """What one pair gives; above 1 where it says nothing."""
    if neighbouring == "replace_one":
        others = (n_candidates - 1) * math.exp(-epsilon)
        return (1 + others * delta) / (1 + others)
    return math.exp(min(epsilon - math.log(n_candidates), 700.0)) + delta
