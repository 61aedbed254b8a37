"""What a collaboration will cost in fitness, before it is run: wu2020's law with one constant,
fitted on cheap settings.

A psi that was measured is no private release: a forecast calibrated on it is for whoever may see
the data.
`expectation` forecasts without any fit.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ppkit.collaboration.owners import records_and_budgets
from ppkit.validation import must_be, numbers


def spread(n_records: ArrayLike, epsilons: ArrayLike) -> np.ndarray:
    """(1/n) sqrt(sum 1/epsilon_l^2): all that the forecast knows of a setting.

    n_records: (..., N), >= 1.  epsilons: (..., N), > 0, inf for no noise.
    Returns (...), per record; a number for one setting.  ValueError if an argument is out of range.
    Source: wu2020, section III: Theorem 2 has its square, Theorem 3 itself.

    >>> float(spread([1000] * 3, [0.1, 0.1, 1.0]).round(6))
    0.004726
    """
    n, budgets = records_and_budgets(n_records, epsilons)
    return np.sqrt((1 / budgets**2).sum(axis=-1)) / n.sum(axis=-1)


@dataclass(frozen=True, slots=True)
class Forecast:
    """psi = floor + constant spread^exponent.

    constant: > 0.  exponent: 2 (Theorem 2's form) or 1 (Theorem 3's).
    floor: psi without noise, >= 0.  ValueError if out of range.
    """

    constant: float
    exponent: float = 2.0
    floor: float = 0.0

    def __post_init__(self):
        must_be("a finite number > 0", constant=self.constant, exponent=self.exponent)
        must_be("a finite number >= 0", floor=self.floor)

    def psi(self, n_records: ArrayLike, epsilons: ArrayLike) -> np.ndarray:
        """The forecast, (...); arguments as in `spread`."""
        return self.floor + self.constant * spread(n_records, epsilons) ** self.exponent

    def bend(self, n_records: Sequence[float]) -> float:
        """The budget at which N equal owners have as much noise as floor: the log-log line bends
        there, its slope halves.

        n_records: (N,).  Returns epsilon > 0, or inf if the floor is 0.
        """
        if self.floor == 0:
            return float("inf")
        at_one = float(spread(n_records, np.ones(len(n_records))))
        return at_one * (self.constant / self.floor) ** (1 / self.exponent)


def fit(
    psi: ArrayLike,
    n_records: ArrayLike,
    epsilons: ArrayLike,
    *,
    exponent: float = 2.0,
    floor: float = 0.0,
) -> Forecast:
    """The forecast whose logarithm fits best: the mean log ratio.

    psi: (S,) > 0, means over runs.  n_records, epsilons: (S, N) or, the same for all, (N,); some
    noise in every setting.
    exponent: 2, or 1 for Theorem 3's form.  floor: psi without noise, >= 0, from a run with
    epsilon = inf (psi must lie above it).
    Returns a Forecast.  ValueError if an argument is out of range.
    Departs from the paper, which fits a line to each figure and calls it the bound.

    >>> round(fit([0.03, 0.0003], [[100], [1000]], [1.0]).constant, 6)
    300.0
    """
    psi, x = _measured(psi, n_records, epsilons)
    if not 0 <= floor < psi.min() < np.inf:
        raise ValueError(
            f"floor must be >= 0 and below every psi, got {floor} and psi from {psi.min():g} to "
            f"{psi.max():g}"
        )
    constant = np.exp(np.log((psi - floor) / x**exponent).mean())
    return Forecast(float(constant), float(exponent), float(floor))


def r_squared(
    forecast: Forecast, psi: ArrayLike, n_records: ArrayLike, epsilons: ArrayLike
) -> float:
    """1 - (sum of squared errors)/(sum of squares about the mean), both of log psi, over held-out
    settings.

    psi: (S,) > 0, S >= 2, not all equal.  n_records, epsilons: as in `fit`.  Returns a number <= 1;
    below 0 the mean of the held-out settings would have been the better forecast.
    ValueError if an argument is out of range.
    """
    psi, _ = _measured(psi, n_records, epsilons)
    if not 0 < psi.min() < psi.max() < np.inf:
        raise ValueError(
            f"psi must be two numbers > 0 or more, not all equal, got {psi.min():g} to "
            f"{psi.max():g}"
        )
    logs = np.log(psi)
    errors = logs - np.log(forecast.psi(n_records, epsilons))
    return float(1 - (errors**2).sum() / ((logs - logs.mean()) ** 2).sum())


def _measured(
    psi: ArrayLike, n_records: ArrayLike, epsilons: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """psi (S,) and the spread of each setting; ValueError where they are not as many, or where a
    setting has no noise."""
    psi, x = np.atleast_1d(numbers("psi", psi)), np.atleast_1d(spread(n_records, epsilons))
    if not psi.size or psi.shape != x.shape:
        raise ValueError(
            f"psi must be one number for each setting, got shape {psi.shape} for settings of shape "
            f"{x.shape}"
        )
    if not (x > 0).all():
        raise ValueError("every setting needs noise, an epsilon below infinity")
    return psi, x
