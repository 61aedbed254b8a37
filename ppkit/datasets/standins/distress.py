"""Invented companies in the layout of the distress file.

First the life of a company: first and last year, how it ends, industry, age, and the month its year
closes in.  Then its rows, drawn backwards from its last year.
"""

from types import SimpleNamespace

import numpy as np
import pandas as pd
from numpy.random import Generator
from scipy.special import ndtri

from ppkit.datasets import distress
from ppkit.datasets.dataset import Dataset
from ppkit.datasets.distress import COLUMNS, COMPANIES, FULL_ROWS, INDUSTRIES, TARGET, THRESHOLD
from ppkit.datasets.standins.distributions import Arrays, from_normal

# the same for all whose year closes in the same month
MACRO = tuple(f"x{i}" for i in range(61, 80))
MONTHS = np.arange(3, 11)  # closing months of those that do not close in December
_ORDERS = 100  # orders of companies tried for at most 422 of them
FIRM = (*(f"x{i}" for i in range(1, 61)), "x81")  # what differs between companies and years


def draw_lives(parameters: Arrays, rows: int, rng: Generator) -> SimpleNamespace:
    """Companies whose years add up to exactly `rows`; at most 422 of them for up to 3,672 rows,
    where chance lets it.

    As many end in distress as it takes for the fitted rate of distressed rows.  The last company
    begins late if need be.
    Returns, one entry per company: first, last (years), distressed (at the end), industry (x80),
    listed (x82 - Time), wait (x83 - x82), month (3 to 12).
    """
    years, rate = parameters["lives_years"], float(parameters["lives_rate"])
    fails = parameters["lives_fails"] / parameters["lives_fails"].sum()
    leaves = parameters["lives_leaves"] / parameters["lives_leaves"].sum()
    trial = np.random.default_rng(0)  # mean lengths are the same whatever is asked for
    of_failed, of_others = (
        _seen(parameters, trial.choice(years, 4_000, p=ends), trial)[1].mean()
        for ends in (fails, leaves)
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
    order = order[:kept]
    length[order[-1]] -= length[order].sum() - rows
    order = order[_in_file(listed[order], float(parameters["lives_order"]), rng)]
    last, distressed = last[order], distressed[order]
    closing = rng.random(kept) < parameters["lives_closing"]
    month = np.where(closing, 12, rng.choice(MONTHS, kept))
    wait = from_normal(rng.standard_normal(kept), parameters["lives_wait"]).round()
    return SimpleNamespace(
        first=last - length[order] + 1,
        last=last,
        distressed=distressed,
        industry=_industry(parameters, distressed, rng),
        listed=listed[order],
        wait=np.maximum(0, wait).astype(np.int64),
        month=month,
    )


def _seen(parameters: Arrays, last: np.ndarray, rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    """x82 - Time, and number of years, of companies with these last years: from the first on the
    exchange, or the first of all.
    """
    weights, mean, spread = parameters["lives_listed"].T
    listed = np.empty(len(last))
    for year in np.unique(last):
        mine = np.flatnonzero(last == year)
        there = np.where(mean + np.sqrt(3) * spread >= 1 - year, weights, 0) + 1e-12 * weights
        place = rng.choice(len(weights), len(mine), p=there / there.sum())
        listed[mine] = mean[place] + np.sqrt(3) * spread[place] * rng.uniform(-1, 1, len(mine))
    listed = np.maximum(listed.round().astype(np.int64), 1 - last)
    return listed, last - np.maximum(parameters["lives_years"][0], 1 - listed) + 1


def _in_file(listed: np.ndarray, correlation: float, rng: Generator) -> np.ndarray:
    """The order of companies whose place and x82 - Time have about this rank correlation."""
    age = ndtri((np.argsort(np.lexsort((rng.random(len(listed)), listed))) + 0.5) / len(listed))
    weight = np.clip(2 * np.sin(np.pi / 6 * correlation), -1, 1)
    return np.argsort(weight * age + np.sqrt(1 - weight**2) * rng.standard_normal(len(listed)))


def _industry(parameters: Arrays, distressed: np.ndarray, rng: Generator) -> np.ndarray:
    groups, industry = parameters["lives_groups"], np.empty(len(distressed), np.int64)
    healthy = parameters["lives_shares"]
    for fate, shares in ((False, healthy), (True, healthy * parameters["lives_risks"])):
        mine = np.flatnonzero(distressed == fate)
        of_code = (shares / np.bincount(groups))[groups]
        industry[mine] = rng.choice(INDUSTRIES, len(mine), p=of_code / of_code.sum()) + 1
    return industry


def _macro(parameters: Arrays, year: np.ndarray, month: np.ndarray) -> np.ndarray:
    """x61..x79 of rows of these years and closing months: on the line from one year's end to the
    next, (rows, 19).
    """
    ends, at = parameters["lives_macro"], year - parameters["lives_years"][0]
    before = np.vstack([2 * ends[:1] - ends[1:2], ends[:-1]])
    return ends[at] + (1 - month / 12)[:, None] * (before - ends)[at]


def dataset(parameters: Arrays, rows: int, rng: Generator, variant: str) -> Dataset:
    """The rows of `sample` in one of the three forms of `distress.arranged`."""
    drawn = sample(parameters, rows, rng)
    return distress.arranged(drawn, kind="stand-in", of_rows=None, variant=variant)


def sample(parameters: Arrays, rows: int, rng: Generator) -> pd.DataFrame:
    """Exactly `rows` rows of invented companies, company by company, period by period, in the
    canonical columns.

    x81 is the target of the year before, wherever that year is there; a distressed year is a
    company's last; x61..x79 are the same for all companies whose year closes in the same month.
    Company wraps round after 422; `account` does not.
    parameters: as `tools/standins/distress.py` fits them.  rows: >= 1.
    """
    held = {
        name: value.astype(np.float64 if value.dtype.kind == "f" else np.int64)
        for name, value in parameters.items()
    }
    lives = draw_lives(held, rows, rng)
    drawn = panel(held, lives, rng)
    company, year, end = drawn.company, drawn.year, drawn.end
    columns = dict(zip(FIRM, map(from_normal, drawn.scores.T, held["knots"]), strict=True))
    columns["x81"] = _above(columns["x81"])
    target = np.roll(columns["x81"], -1)  # the next row's x81, within a company
    score = drawn.rests[end] @ held["outcome_weights"]
    score += held["outcome_noise"] * rng.standard_normal(len(end))
    depth = held["depth"] * rng.exponential(size=len(end))
    healthy = _above(from_normal(score, held["outcome_knots"]))
    target[end] = np.where(lives.distressed, THRESHOLD - depth, healthy)
    columns |= dict(zip(MACRO, _macro(held, year, lives.month[company]).T, strict=True))
    columns |= {
        "Company": company % COMPANIES + 1,
        "Time": year,
        TARGET: target,
        "x80": lives.industry[company],
        "x82": lives.listed[company] + year,
        "x83": (lives.listed + lives.wait)[company] + year,
        "account": company + 1,
    }
    return pd.DataFrame(columns)[[*COLUMNS, "account"]]


def panel(held: Arrays, lives: SimpleNamespace, rng: Generator) -> SimpleNamespace:
    """Each company's last year by its class, then year by year backwards; levels are added.

    lives: of `draw_lives`.  Returns scores, rests (rows, 61), failed, company, year (rows,), and
    end: the last row of each company.
    """
    length = lives.last - lives.first + 1
    company, end = np.repeat(np.arange(len(length)), length), length.cumsum() - 1
    year = lives.last[company] - (end[company] - np.arange(len(company)))
    failed = np.zeros(len(company), bool)
    failed[end] = lives.distressed
    U = rng.standard_normal((len(company), len(FIRM)))
    for fate in (False, True):
        mine = end[lives.distressed == fate]
        U[mine] = U[mine] @ held["factors"][int(fate)].T + fate * held["effect"]
    for back in range(1, int(length.max())):
        row = end[length > back] - back
        U[row] = U[row + 1] @ held["steps"] + U[row] @ held["step_factor"].T
        if back == 1:
            U[row] += np.outer(lives.distressed[length > back], held["step_low"])
    U[~failed] = U[~failed] @ held["recolour"]
    ages = (np.column_stack([lives.listed, lives.wait]) - held["ages_centre"]) / held["ages_spread"]
    levels = design(held, year, lives.industry[company], ages[company]) @ held["levels"]
    return SimpleNamespace(
        scores=U + levels + held["shifts"][failed.astype(int)],
        rests=U,
        failed=failed,
        company=company,
        year=year,
        end=end,
    )


def design(
    parameters: Arrays, year: np.ndarray, industry: np.ndarray, ages: np.ndarray
) -> np.ndarray:
    """One-hot of year and of the industry's group, and the two ages: (rows, T + G + 2)."""
    years, group = parameters["lives_years"], parameters["lives_groups"][industry - 1]
    of_year, of_group = np.eye(len(years)), np.eye(len(parameters["lives_shares"]))
    return np.column_stack([of_year[year - years[0]], of_group[group], ages])


def _above(values: np.ndarray) -> np.ndarray:
    """Values at or below the threshold put as far above it: a healthy row is not distressed."""
    return np.where(values <= THRESHOLD, 2 * THRESHOLD - values + 1e-6, values)
