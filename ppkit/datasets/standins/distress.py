"""Invented companies in the layout of the distress file: a panel drawn backwards from each
company's last year.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from ..distress import COLUMNS, COMPANIES, TARGET, THRESHOLD
from . import companies
from .companies import Lives
from .distributions import from_normal

FIRM = (*(f"x{i}" for i in range(1, 61)), "x81")  # what differs between companies and years


class Panel(NamedTuple):
    """Rows of all companies. scores, rests: (rows, 61).  failed, company, year: (rows,).  end: last
    row of each company.
    """

    scores: np.ndarray
    rests: np.ndarray
    failed: np.ndarray
    company: np.ndarray
    year: np.ndarray
    end: np.ndarray


def sample(parameters: dict[str, np.ndarray], rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Exactly `rows` rows of invented companies, company by company, period by period, in the
    canonical columns.

    x81 is the target of the year before, wherever that year is there; a distressed year is a
    company's last; x61..x79 are the same for all companies whose year closes in the same month.
    Company wraps round after 422; `account` does not.
    parameters: as `tools/standins/distress.py` fits them.  rows: >= 1, else ValueError.
    """
    held = {
        name: value.astype(np.float64 if value.dtype.kind == "f" else np.int64)
        for name, value in parameters.items()
    }
    kept = of_lives(held)
    lives = companies.draw(kept, rows, rng)
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
    columns |= dict(
        zip(companies.MACRO, companies.macro(kept, year, lives.month[company]).T, strict=True)
    )
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


def panel(held: dict, lives: Lives, rng: np.random.Generator) -> Panel:
    """Each company's last year by its class, then year by year backwards; levels added to what is
    drawn.
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
    return Panel(U + levels + held["shifts"][failed.astype(int)], U, failed, company, year, end)


def design(lives: dict, year: np.ndarray, industry: np.ndarray, ages: np.ndarray) -> np.ndarray:
    """One-hot of year and of the industry's group, and the two ages: one row per row, T + G + 2
    columns.
    """
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
    """Values at or below the threshold put as far above it, distressed being what a healthy row is
    not.
    """
    return np.where(values <= THRESHOLD, 2 * THRESHOLD - values + 1e-6, values)
