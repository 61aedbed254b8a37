"""Invented companies in the layout of the distress file.

First the life of a company: first and last year, how it ends, industry, age, and the month its year
closes in.  Then its rows, drawn backwards from its last year.
"""

from types import SimpleNamespace

import numpy as np
import pandas as pd
from scipy.special import ndtri

from .. import distress
from ..dataset import Dataset
from ..distress import COLUMNS, COMPANIES, FULL_ROWS, INDUSTRIES, TARGET, THRESHOLD
from .distributions import from_normal

# the same for all whose year closes in the same month
MACRO = tuple(f"x{i}" for i in range(61, 80))
MONTHS = np.arange(3, 11)  # closing months of those that do not close in December
_ORDERS = 100  # orders of companies tried for at most 422 of them
FIRM = (*(f"x{i}" for i in range(1, 61)), "x81")  # what differs between companies and years


def draw_lives(
    parameters: dict[str, np.ndarray], rows: int, rng: np.random.Generator
) -> SimpleNamespace:
    """Companies whose years add up to exactly `rows`; at most 422 of them for up to 3,672 rows,
    where chance lets it.

    As many end in distress as it takes for the fitted rate of distressed rows.  The last company
    begins late if need be.
    Returns, one entry per company: first, last (years), distressed (at the end), industry (x80),
    listed (x82 - Time), wait (x83 - x82), month (3 to 12).
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
    return SimpleNamespace(
        first=last - length + 1,
        last=last,
        distressed=distressed,
        industry=_industry(parameters, distressed, rng),
        listed=listed,
        wait=wait,
        month=month,
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
    """The order of companies whose place and x82 - Time have about this rank correlation."""
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


def _macro(parameters: dict[str, np.ndarray], year: np.ndarray, month: np.ndarray) -> np.ndarray:
    """x61..x79 of rows of these years and closing months: on the line from one year's end to the
    next, (rows, 19).
    """
    ends, at = parameters["macro"], year - parameters["years"][0]
    before = np.vstack([2 * ends[:1] - ends[1:2] if len(ends) > 1 else ends[:1], ends[:-1]])
    return ends[at] + (1 - month / 12)[:, None] * (before - ends)[at]


def dataset(
    parameters: dict[str, np.ndarray], rows: int, rng: np.random.Generator, variant: str
) -> Dataset:
    """The rows of `sample` in one of the three forms of `distress.arranged`."""
    drawn = sample(parameters, rows, rng)
    return distress.arranged(drawn, kind="stand-in", of_rows=None, variant=variant)


def sample(parameters: dict[str, np.ndarray], rows: int, rng: np.random.Generator) -> pd.DataFrame:
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
    kept = of_lives(held)
    lives = draw_lives(kept, rows, rng)
    drawn = panel(held, lives, rng)
    company, year, end = drawn.company, drawn.year, drawn.end
    columns = {
        name: from_normal(scores, own)
        for name, scores, own in zip(FIRM, drawn.scores.T, held["knots"], strict=True)
    }
    columns["x81"] = _above(columns["x81"])
    target = np.roll(columns["x81"], -1)  # the next row's x81, within a company
    score = drawn.rests[end] @ held["outcome_weights"] + held[
        "outcome_noise"
    ] * rng.standard_normal(len(end))
    target[end] = np.where(
        lives.distressed,
        THRESHOLD - held["depth"] * rng.exponential(size=len(end)),
        _above(from_normal(score, held["outcome_knots"])),
    )
    columns |= dict(zip(MACRO, _macro(kept, year, lives.month[company]).T, strict=True))
    columns |= {
        "Company": company % COMPANIES + 1,
        "Time": year,
        TARGET: target,
        "x80": lives.industry[company],
        "x82": lives.listed[company] + year,
        "x83": (lives.listed + lives.wait)[company] + year,
        "account": company + 1,
    }
    return pd.DataFrame({name: columns[name] for name in (*COLUMNS, "account")})


def panel(held: dict, lives: SimpleNamespace, rng: np.random.Generator) -> SimpleNamespace:
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
    ages = (np.column_stack([lives.listed, lives.wait])[company] - held["ages_centre"]) / held[
        "ages_spread"
    ]
    levels = design(of_lives(held), year, lives.industry[company], ages) @ held["levels"]
    return SimpleNamespace(
        scores=U + levels + held["shifts"][failed.astype(int)],
        rests=U,
        failed=failed,
        company=company,
        year=year,
        end=end,
    )


def design(lives: dict, year: np.ndarray, industry: np.ndarray, ages: np.ndarray) -> np.ndarray:
    """One-hot of year and of the industry's group, and the two ages: (rows, T + G + 2)."""
    group = lives["groups"][industry - 1]
    return np.column_stack(
        [
            np.eye(len(lives["years"]))[year - lives["years"][0]],
            np.eye(len(lives["shares"]))[group],
            ages,
        ]
    )


def of_lives(parameters: dict) -> dict[str, np.ndarray]:
    return {
        name.removeprefix("lives_"): value
        for name, value in parameters.items()
        if name.startswith("lives_")
    }


def _above(values: np.ndarray) -> np.ndarray:
    """Values at or below the threshold put as far above it: a healthy row is not distressed."""
    return np.where(values <= THRESHOLD, 2 * THRESHOLD - values + 1e-6, values)
