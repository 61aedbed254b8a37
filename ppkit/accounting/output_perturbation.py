"""What one noisy vector costs at any delta, if its noise has a random direction and a length drawn
from a Gamma distribution: output perturbation.
"""

import functools
import math

import numpy as np
from scipy import stats

from ppkit.validation import must_be

N_CELLS = 1_000  # of the length, and of the direction
LEAST_CELL = 1e-15  # chance of the worst one
ROUNDING = 1e-12  # of a sum, relative
EPSILONS = (1e-6, 100.0)
MOST_PARAMETERS = 10**6


def get_epsilon_output_perturbation(epsilon: float, *, delta: float, n_parameters: int) -> float:
    """The epsilon at delta of a vector that is sent once, with noise of density proportional to
    e^(-epsilon |z| / sensitivity).

    In units of sensitivity / epsilon the noise has a length R of Gamma(p, 1) and any direction
    alike.  Let C be the cosine between it and the record's pull, whose length is at most epsilon:

        L = sqrt(R^2 + 2 R epsilon C + epsilon^2) - R,    delta(e) = E (1 - e^(e - L))+

    epsilon: the pure budget, from 1e-6 to 100; sensitivity is the l2 distance that one record moves
    the vector at most.  delta: in (0, 1).  n_parameters: p, from 2 to 10^6.
    Returns an epsilon from 0 to the pure one.  ValueError if an argument is out of range.
    Guarantee: (epsilon, delta)-DP for the neighbours that the sensitivity is for.  L falls in R and
    grows in C, so each of the cells takes the corner where L is largest: from above.  A shorter
    pull costs no more: what is orthogonal to it tells nothing, and along it the noise is
    log-concave, so that half-lines are the best events.
    Source: the mechanism of Chaudhuri and Monteleoni 2008, pure there.

    >>> round(get_epsilon_output_perturbation(2.0, delta=1e-6, n_parameters=30), 2)
    1.37
    """
    must_be("a finite number > 0", epsilon=epsilon)
    if not EPSILONS[0] <= epsilon <= EPSILONS[1]:
        raise ValueError(f"epsilon must be from 1e-06 to 100, got {epsilon}")
    must_be("in (0, 1)", delta=delta)
    must_be("a whole number >= 2", n_parameters=n_parameters)
    if n_parameters > MOST_PARAMETERS:
        raise ValueError(f"n_parameters must be at most 1,000,000, got {n_parameters}")
    losses, above, weighed = _law(epsilon, int(n_parameters))
    # delta(e) = above - e^e weighed between two losses: no more than delta from the first one on
    enough = np.flatnonzero(above - np.exp(losses) * weighed <= delta)
    if enough.size == 0:
        return epsilon
    first = enough[0]
    return min(epsilon, max(0.0, math.log((above[first] - delta) / weighed[first])))


@functools.lru_cache(maxsize=8)
def _law(epsilon: float, n_parameters: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """L at the worst corner of each cell, sorted; and of all that are as large or larger the chance
    under the law with the record, and under the one without."""
    edges = np.r_[0.0, np.geomspace(LEAST_CELL, 1.0, N_CELLS)]  # the worst cells are the smallest
    length = stats.gamma(n_parameters).ppf(edges[:-1])[:, None]  # the lower end
    half = (n_parameters - 1) / 2
    cosine = 1 - 2 * stats.beta(half, half).ppf(edges[:-1])  # the upper end
    root = np.sqrt(length**2 + 2 * length * epsilon * cosine + epsilon**2)
    # root - length, without a difference of large numbers
    losses = (epsilon * (2 * length * cosine + epsilon) / (root + length)).ravel()
    masses = np.outer(np.diff(edges), np.diff(edges)).ravel()
    order = np.argsort(losses, kind="stable")
    losses, masses = losses[order], masses[order]
    above = np.cumsum(masses[::-1])[::-1] * (1 + ROUNDING)
    weighed = np.cumsum((masses * np.exp(-losses))[::-1])[::-1]
    return losses, above, weighed
