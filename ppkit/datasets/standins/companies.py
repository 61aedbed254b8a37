"""The life of invented companies: first and last year, how it ends, industry, age, and the month its year closes in."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import ndtri

from ..distress import COMPANIES, FULL_ROWS, INDUSTRIES, TARGET, THRESHOLD
from .atoms import atoms
from .marginals import ROWS_A_KNOT, from_normal, knots

MACRO = tuple(f"x{i}" for i in range(61, 80))                    # the same for all whose year closes in the same month
MONTHS = np.arange(3, 11)                                        # closing months of those that do not close in December
SHRINK_ROWS = 25                                                 # rows of the average that an industry's risk is mixed with
_ORDERS = 100                                                    # orders of companies tried for at most 422 of them


class Lives(NamedTuple):
    """One entry per company.

    first, last: years.  distressed: at the end.  industry: x80.  listed: x82 - Time.  wait: x83 - x82.  month: 3 to 12.
    """
    first: np.ndarray
    last: np.ndarray
    distressed: np.ndarray
    industry: np.ndarray
    listed: np.ndarray
    wait: np.ndarray
    month: np.ndarray


def fit(table: pd.DataFrame) -> dict[str, np.ndarray]:
    """Shares and means that lives are drawn from.

    table: canonical columns, consecutive years of at least 50 rows each; companies may have gaps.
    Returns years (T,); macro (T, 19): x61..x79 at the ends of years, such that the samples have each year's means;
    closing: share of rows with their year's commonest values there; rate: share of distressed rows; fails (T,), leaves
    (T,): how the last years of distressed and of other companies are spread; groups (37,): industries, those of fewer than
    50 rows together; shares (G,), risks (G,): rows, and distress relative to the average; listed (m, 3): `atoms` of
    x82 - Time, their shares by company instead of by row; wait (k,): knots of x83 - x82; order: rank correlation of the
    company's number with x82 - Time.
    """
    year, listed = table["Time"].to_numpy(), (table["x82"] - table["Time"]).to_numpy()
    years, counts = np.unique(year, return_counts=True)
    failed = table[TARGET].to_numpy() <= THRESHOLD
    fails, entered = (np.array([mask[year == one].sum() for one in years]) for mask in (failed, table["x82"].to_numpy() == 1))
    commonest = table.groupby(["Time", *MACRO], sort=False).size().groupby("Time").max().sum() / len(table)
    groups, shares, risks = _industries(table["x80"].to_numpy(np.int64) - 1, failed)
    ages = atoms(listed, at_most=40)
    ages[:, 0] /= np.clip(years[-1] + ages[:, 1], 1, len(years))                 # years in which such a company is seen
    return {"years": years, "macro": _december(table[list(MACRO)].groupby(year).mean().to_numpy(), commonest),
            "closing": commonest, "rate": failed.mean(), "fails": fails / fails.sum() if failed.any() else counts / len(table),
            "leaves": _leaves(counts, fails, entered), "groups": groups, "shares": shares, "risks": risks,
            "listed": ages, "wait": knots((table["x83"] - table["x82"]).to_numpy(), at_most=24),
            "order": np.nan_to_num(stats.spearmanr(table["Company"], listed).statistic)}


def _december(means: np.ndarray, closing: float) -> np.ndarray:
    """Values at the ends of years, of which the rows are mixed so that these are the years' means."""
    if len(means) == 1:
        return means
    back = (1 - closing) * (1 - MONTHS.mean() / 12)
    mixing = (1 - back) * np.eye(len(means)) + back * np.eye(len(means), k=-1)
    mixing[0, :2] += 2 * back, -back                             # before the first year the line goes on
    return np.linalg.solve(mixing, means)


def _leaves(counts: np.ndarray, fails: np.ndarray, entered: np.ndarray) -> np.ndarray:
    """Where healthy companies end: what a year loses beyond chance, and all that are there in the last."""
    lost = (counts - fails)[:-1] - (counts - entered)[1:]
    leaves = np.r_[np.where(lost > 2 * np.sqrt(counts[:-1]), lost, 0), max(1, counts[-1] - fails[-1])]
    return leaves / leaves.sum()


def _industries(codes: np.ndarray, failed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Group 0 gathers the smallest industries until none below 50 rows is left and it has 50 itself."""
    rows = np.bincount(codes, minlength=INDUSTRIES)
    order = np.argsort(rows, kind="stable")
    pooled = max((rows < ROWS_A_KNOT).sum(), np.searchsorted(rows[order].cumsum(), ROWS_A_KNOT) + 1)
    groups = np.zeros(INDUSTRIES, np.int64)
    groups[order[pooled:]] = np.arange(1, INDUSTRIES - pooled + 1)
    size, bad = np.bincount(groups[codes]), np.bincount(groups[codes], failed)
    prior = max(failed.mean(), 1 / len(codes))
    return groups, size / len(codes), (bad + SHRINK_ROWS * prior) / (size + SHRINK_ROWS) / prior


def draw(parameters: dict[str, np.ndarray], rows: int, rng: np.random.Generator) -> Lives:
    """Companies whose years add up to exactly `rows`; at most 422 of them for up to 3,672 rows, where chance lets it.

    As many end in distress as it takes for the fitted rate of distressed rows.  The last company begins late if need be.
    """
    years, rate = parameters["years"], float(parameters["rate"])
    fails, leaves = (parameters[how] / parameters[how].sum() for how in ("fails", "leaves"))
    trial = np.random.default_rng(0)                             # mean lengths are the same whatever is asked for
    of_failed, of_others = (_seen(parameters, trial.choice(years, 4_000, p=p), trial)[1].mean() for p in (fails, leaves))
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
    last, listed, length, distressed = (one[order[:kept]] for one in (last, listed, length, distressed))
    length[-1] -= length.sum() - rows
    order = _in_file(listed, float(parameters["order"]), rng)
    last, listed, length, distressed = (one[order] for one in (last, listed, length, distressed))
    month = np.where(rng.random(kept) < parameters["closing"], 12, rng.choice(MONTHS, kept))
    wait = np.maximum(0, from_normal(rng.standard_normal(kept), parameters["wait"]).round()).astype(np.int64)
    return Lives(last - length + 1, last, distressed, _industry(parameters, distressed, rng), listed, wait, month)


def _seen(parameters: dict, last: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """x82 - Time, and number of years, of companies with these last years: from the first on the exchange, or the first of all."""
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
    """The order of companies in which their place and x82 - Time have about this rank correlation."""
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
    """x61..x79 of rows of these years and closing months: on the line from one year's end to the next, (rows, 19)."""
    ends, at = parameters["macro"], year - parameters["years"][0]
    before = np.vstack([2 * ends[:1] - ends[1:2] if len(ends) > 1 else ends[:1], ends[:-1]])
    return ends[at] + (1 - month / 12)[:, None] * (before - ends)[at]
