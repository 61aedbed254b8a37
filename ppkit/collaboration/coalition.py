"""Who should be invited, and who should accept: coalitions judged by forecast, before anything is
trained.

The forecast of a coalition S is what the paper's theorems leave of it, plus, if asked for, what few
records cost:

    value(S) = noise * sum_S 1/eps_l^2 / n(S)^2 + estimation / n(S),        n(S) = sum_S n_l

The first term is the paper's: the variance of the Laplace noise in the averaged answer, the same
for every model and data set but for a constant (`forecast.fit` measures it).  The second is not in
the paper: psi compares a model to the best model OF THE COALITION'S OWN RECORDS, and cannot see
that few records make a poor best model.  Measured on the records of all, or on rows nobody trained
on, a coalition of independent records pays about estimation / n(S) (p/n in psi for a squared loss
with p parameters that fits).  Neither term sees owners whose customers differ.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ppkit.collaboration.forecast import spread
from ppkit.collaboration.owners import records_and_budgets
from ppkit.validation import must_be, one_of

# values closer than this are equal: of them the coalition with the most records is taken
_TIE = 1e-12


@dataclass(frozen=True, slots=True)
class Coalition:
    """members: indices, ascending.  value: its forecast."""

    members: tuple[int, ...]
    value: float


@dataclass(frozen=True, slots=True)
class OwnView:
    """What one owner gets, by forecast, from four ways to a model; lower is better.

    alone: on its own records without noise.  joined: everybody at their own epsilon, its own too
    (the paper's learner).
    learner: it asks everybody else and uses its own records without noise (section V).
    inviting: the same, asking only those who help; invited: their indices, ascending, perhaps none
    (then it is alone).
    """

    alone: float
    joined: float
    learner: float
    inviting: float
    invited: tuple[int, ...]


def noise_level(n_records: ArrayLike, epsilons: ArrayLike) -> float:
    """Variance of the noise in the learner's averaged answer,
    up to the factor that all settings share.

    (1/n^2) sum_l 1/eps_l^2 = forecast.spread(n_records, epsilons)^2

    An owner's scale is b_l = 2 Xi T / (n_l eps_l); with the paper's weights n_l / n this value
    times 8 p Xi^2 T^2 is E|w|^2.
    n_records: (N,) >= 1, public.  epsilons: (N,) > 0, inf for an owner without noise.
    Returns a number >= 0.  ValueError if an argument is out of range.
    Source: wu2020, Appendix B, first display (without its missing factor p).

    >>> noise_level([1000, 1000], [0.5, 1.0])
    1.25e-06
    """
    return float(spread(n_records, epsilons) ** 2)


def coalitions(n_owners: int) -> Iterator[tuple[int, ...]]:
    """All 2^N - 1 nonempty sets of owners, small ones first, each as ascending indices.

    >>> list(coalitions(2))
    [(0,), (1,), (0, 1)]
    """
    return itertools.chain.from_iterable(
        itertools.combinations(range(n_owners), size) for size in range(1, n_owners + 1)
    )


def best_coalition(
    n_records: ArrayLike, epsilons: ArrayLike, *, noise: float = 1.0, estimation: float = 0.0
) -> Coalition:
    """The owners whose coalition has the least forecast, under the paper's weights n_l / n.

    n_records: (N,) >= 1, public.  epsilons: (N,) > 0, inf without noise.
    n_records need not be whole: a price in records is not.
    noise, estimation: constants of the two terms of the forecast (head of this file), >= 0.
    Returns a Coalition.  Of coalitions with equal forecasts it is one with the most records.
    ValueError if an argument is out of range.

    Of the owners by 1/(n_l eps_l^2), least first, only prefixes are tried.  Proof: write
    c_l = noise / eps_l^2 and r_l = c_l / n_l, let v > 0 be the least value, S a coalition that has
    it, c and n its sums, and phi(t) = v t^2 - estimation t: strictly convex, phi(0) = 0. A
    coalition has a value of at least v if and only if its c is at least phi of its n, and S has
    equality.
    Without a member l:  c - c_l >= phi(n - n_l),
        so  r_l <= (phi(n) - phi(n - n_l)) / n_l < phi'(n)  (also if S = {l}).
    With an outsider m:  c + c_m >= phi(n + n_m),
        so  r_m >= (phi(n + n_m) - phi(n)) / n_m > phi'(n).
    So members come before outsiders in the order of r: S is a prefix.  For v = 0 S is all owners
    without noise, and they come first too.
    Without the estimation term phi'(n) = 2 v n, so every member of the BEST coalition S, and no
    outsider, brings for each unit of 1/eps^2 more than half as many records as S has for each:
        n_l eps_l^2 > n / (2 sum_S 1/eps^2).
    A coalition that meets this need not be the best, and the forecast along the prefixes may rise
    and then fall again: try all N.

    >>> best_coalition([100_000, 100_000, 100_000, 40_000], [1.0, 1.0, 1.0, 1.0]).members
    (0, 1, 2)
    """
    n, cost = _records_and_cost(n_records, epsilons)
    must_be("a finite number >= 0", noise=noise, estimation=estimation)
    order = np.argsort(cost / n, kind="stable")
    records = np.cumsum(n[order])
    value = _value(records, np.cumsum(cost[order]), noise, estimation)
    equal = np.flatnonzero(value <= value.min() * (1 + _TIE))
    best = int(equal[np.argmax(records[equal])])
    return Coalition(tuple(sorted(order[: best + 1].tolist())), float(value[best]))


def price_in_records(n_records: ArrayLike, epsilons: ArrayLike, *, epsilon: float) -> float:
    """Records that a newcomer of budget `epsilon` must bring so that the coalition does not lose by
    taking it in.

    n_S (sqrt(1 + (1/epsilon^2) / sum_S 1/eps_l^2) - 1)

    n_records, epsilons: (N,) of the coalition as it stands.  epsilon: of the newcomer, > 0.
    Returns a number >= 0, not rounded; inf if the coalition has no noise and would get some.
    Under inverse-variance weights the price in noise is 0: nobody can make the average noisier.
    ValueError if an argument is out of range.

    >>> round(price_in_records([100_000] * 3, [1.0] * 3, epsilon=1.0))
    46410
    >>> round(price_in_records([100_000] * 3, [1.0] * 3, epsilon=0.1))
    1457840
    """
    n, cost = _records_and_cost(n_records, epsilons)
    must_be("> 0", epsilon=epsilon)
    if not cost.any():
        return 0.0 if np.isinf(epsilon) else float("inf")
    return float(n.sum() * (np.sqrt(1 + epsilon**-2 / cost.sum()) - 1))


def own_view(
    n_records: ArrayLike,
    epsilons: ArrayLike,
    owner: int,
    *,
    noise: float = 1.0,
    estimation: float = 0.0,
) -> OwnView:
    """Joining, training alone, or asking the others: the forecasts of one owner's ways to a model.

    n_records, epsilons: (N,), N >= 2; epsilons[owner] counts only where it joins.  owner: index.
    noise, estimation: as in `best_coalition`.  With estimation = 0, the paper's forecast, nothing
    beats training alone: its noise is 0, and the forecast cannot see that its records are few.
    Returns an OwnView.  ValueError if an argument is out of range.
    Source: wu2020, section V (an owner as learner "can set its own privacy budget to infinity"); a
    threat model of its own: the others' answers are noisy for the owner, and it is NOT private
    towards them: they are sent every theta[k]. A helper who knows its own answer computes from
    theta[k] and theta[k + 1] the owner's exact mean gradient, wherever the box does not cut; where
    several help, only the others' noise, which was not made for that, is left in it.
    No epsilon holds.

    >>> own_view([1_000, 30_000, 30_000], [1.0, 1.0, 0.01], 0, noise=1e6, estimation=100.0).invited
    (1,)
    """
    n, cost = _records_and_cost(n_records, epsilons)
    one_of(range(len(n)), owner=owner)
    exact = np.array(epsilons, float)
    exact[owner] = np.inf
    # the owner is in the best coalition: it comes first, without noise
    best = best_coalition(n, exact, noise=noise, estimation=estimation)
    others = np.delete(cost, owner).sum()
    return OwnView(
        alone=float(_value(n[owner], 0.0, noise, estimation)),
        joined=float(_value(n.sum(), cost.sum(), noise, estimation)),
        learner=float(_value(n.sum(), others, noise, estimation)),
        inviting=best.value,
        invited=tuple(i for i in best.members if i != owner),
    )


def _value(
    records: np.ndarray, costs: np.ndarray | float, noise: float, estimation: float
) -> np.ndarray:
    return noise * costs / records**2 + estimation / records


def _records_and_cost(n_records: ArrayLike, epsilons: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Records as float64 and 1/eps^2, one of each an owner."""
    n, epsilons = records_and_budgets(n_records, epsilons)
    return n, 1 / epsilons**2
