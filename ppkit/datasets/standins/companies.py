"""The life of invented companies: first and last year, how it ends, industry, age, and the month
its year closes in.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from ..distress import COMPANIES, FULL_ROWS, INDUSTRIES
from .distributions import from_normal

# the same for all whose year closes in the same month
MACRO = tuple(f"x{i}" for i in range(61, 80))
MONTHS = np.arange(3, 11)  # closing months of those that do not close in December
_ORDERS = 100  # orders of companies tried for at most 422 of them


class Lives(NamedTuple):
    """One entry per company.

    first, last: years.  distressed: at the end.  industry: x80.  listed: x82 - Time.  wait: x83 -
    x82.  month: 3 to 12.
    """

    first: np.ndarray
    last: np.ndarray
    distressed: np.ndarray
    industry: np.ndarray
    listed: np.ndarray
    wait: np.ndarray
    month: np.ndarray


def draw(parameters: dict[str, np.ndarray], rows: int, rng: np.random.Generator) -> Lives:
    """Companies whose years add up to exactly `rows`; at most 422 of them for up to 3,672 rows,
    where chance lets it.

    As many end in distress as it takes for the fitted rate of distressed rows.  The last company
    begins late if need be.
    """
    years, rate = parameters["years"], float(parameters["rate"])
    fails, leaves = (parameters[how] / parameters[how].sum() for how in ("fails", "leaves"))
    trial = np.random.default_rng(0)  # mean lengths are the same whatever is asked for
    of_failed, of_others = (
        _seen(parameters, trial.choice(years, 4_000, p=p), trial)[1].mean() for p in (fails, leaves)
    )
    share = rate * of_others / (1 - rate * (of_failed - of_others))
    n = int(1.3 * rows / (share * of_failed + (1 - share) * of_others)) + 30
    distressed = rng.permutation(np.diff(np.floor(np.arange(n + 1) * share + rng.random())) > 0)
    last = np.where(distressed, rng.choice(years, n, p=fails), rng.choice(years, n, p=leaves))
    listed, length = _seen(parameters, last, rng)
    for _ in range(_ORDERS):
        order = rng.permutation(n)
        kept = int(np.searchsorted(length[order].cumsum(), rows)) + 1
        if rows > FULL_ROWS or kept <= COMPANIES:
            break
    last, listed, length, distressed = (
        one[order[:kept]] for one in (last, listed, length, distressed)
    )
    length[-1] -= length.sum() - rows
    order = _in_file(listed, float(parameters["order"]), rng)
    last, listed, length, distressed = (one[order] for one in (last, listed, length, distressed))
    month = np.where(rng.random(kept) < parameters["closing"], 12, rng.choice(MONTHS, kept))
    wait = np.maximum(0, from_normal(rng.standard_normal(kept), parameters["wait"]).round()).astype(
        np.int64
    )
    return Lives(
        last - length + 1,
        last,
        distressed,
        _industry(parameters, distressed, rng),
        listed,
        wait,
        month,
    )


def _seen(
    parameters: dict, last: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """x82 - Time, and number of years, of companies with these last years: from the first on the
    exchange, or the first of all.
    """
    weights, mean, spread = parameters["listed"].T
    listed = np.empty(len(last))
    for year in np.unique(last):
        mine = np.flatnonzero(last == year)
        there = np.where(mean + np.sqrt(3) * spread >= 1 - year, weights, 0) + 1e-12 * weights
        place = rng.choice(len(weights), len(mine), p=there / there.sum())
        listed[mine] = mean[place] + np.sqrt(3) * spread[place] * rng.uniform(-1, 1, len(mine))
    listed = np.maximum(listed.round().astype(np.int64), 1 - last)
    return listed, last - np.maximum(parameters["years"][0], 1 - listed) + 1


def _in_file(listed: np.ndarray, correlation: float, rng: np.random.Generator) -> np.ndarray:
    """The order of companies in which their place and x82 - Time have about this rank
    correlation.
    """
    age = ndtri((np.argsort(np.lexsort((rng.random(len(listed)), listed))) + 0.5) / len(listed))
    weight = np.clip(2 * np.sin(np.pi / 6 * correlation), -1, 1)
    return np.argsort(weight * age + np.sqrt(1 - weight**2) * rng.standard_normal(len(listed)))


def _industry(parameters: dict, distressed: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    groups, industry = parameters["groups"], np.empty(len(distressed), np.int64)
    for fate in (False, True):
        mine = np.flatnonzero(distressed == fate)
        chance = parameters["shares"] * (parameters["risks"] if fate else 1)
        of_code = (chance / np.bincount(groups))[groups]
        industry[mine] = rng.choice(INDUSTRIES, len(mine), p=of_code / of_code.sum()) + 1
    return industry


def macro(parameters: dict[str, np.ndarray], year: np.ndarray, month: np.ndarray) -> np.ndarray:
    """x61..x79 of rows of these years and closing months: on the line from one year's end to the
    next, (rows, 19).
    """
    ends, at = parameters["macro"], year - parameters["years"][0]
    before = np.vstack([2 * ends[:1] - ends[1:2] if len(ends) > 1 else ends[:1], ends[:-1]])
    return ends[at] + (1 - month / 12)[:, None] * (before - ends)[at]
