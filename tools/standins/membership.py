"""Whether the parameters tell who was among the rows: a likelihood-ratio attack."""

from collections.abc import Callable

import numpy as np
from scipy import stats

FITS, FALSE = 64, 0.01  # fits; the rate of false alarms


def attack(
    fit: Callable, log_density: Callable, n: int, kinds: dict[str, np.ndarray], seed: int
) -> list[dict]:
    """How often an attacker who knows the population, but not the other members, names a member.

    Each of 64 fits sees a random half of the rows.  Of each fit in turn the attacker sees the
    parameters; the other 63 tell, for every row, how its log density is distributed with the row
    among the fitted ones and without it (two normals, the variance shared).  The ratio of the two
    likelihoods is the score of the row; the threshold is the one with 1% false alarms.
    fit: rows' numbers to parameters.  log_density: parameters and rows' numbers to (m,).
    n: rows there are.  kinds: rows' numbers by what they are called.
    Returns one row a kind: kind, rows, caught (the share of members), low, high: the 95% interval
    of Clopper and Pearson as if there were one fit, because the fits share their rows; chance.
    Source: N. Carlini et al., Membership inference attacks from first principles, S&P 2022.
    """
    rng, inside = np.random.default_rng(seed), np.zeros((FITS, n), bool)
    density = {kind: np.empty((FITS, len(rows))) for kind, rows in kinds.items()}
    for place in range(FITS):
        inside[place, rng.permutation(n)[: n // 2]] = True
        fitted = fit(np.flatnonzero(inside[place]), rng)
        for kind, rows in kinds.items():
            density[kind][place] = log_density(fitted, rows)
    return [_caught(kind, density[kind], inside[:, rows]) for kind, rows in kinds.items()]


def _caught(kind: str, density: np.ndarray, inside: np.ndarray) -> dict:
    """density, inside: (fits, rows)."""
    score = np.empty_like(density)
    for place in range(len(density)):
        others, member = (np.delete(of, place, axis=0) for of in (density, inside))
        means = [others.mean(axis=0, where=member == one) for one in (True, False)]
        spread = (others - np.where(member, *means)).std(axis=0)
        score[place] = (
            (density[place] - means[1]) ** 2 - (density[place] - means[0]) ** 2
        ) / spread**2
    caught = float((score[inside] > np.quantile(score[~inside], 1 - FALSE)).mean())
    rows = density.shape[1]
    interval = stats.binomtest(round(caught * rows), rows).proportion_ci(0.95)
    return {
        "kind": kind,
        "rows": rows,
        "caught": caught,
        "low": float(interval.low),
        "high": float(interval.high),
        "chance": FALSE,
    }
