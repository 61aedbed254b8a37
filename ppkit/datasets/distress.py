"""Companies in distress (Kaggle: shebrahimi/financial-distress): the file and what it must hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ppkit.datasets.checks import (
    Checked,
    columns_and_rows,
    means,
    numbers,
    positives,
    repeats,
    typical_at_least,
)
from ppkit.datasets.dataset import Dataset, made
from ppkit.sources import Kind

if TYPE_CHECKING:
    import pandas as pd

STEMS = ("Financial Distress", "Financial%20Distress")  # as Kaggle's client calls it
BEGINNINGS: dict[str, str] = {}
VARIANTS = ("paper", "no_lag", "forecast")
FULL_ROWS, FULL_DISTRESSED, FULL_REPEATS = 3_672, 136, 2
LARGEST = 7_000_000  # bytes, unpacked: three times the published file
FULL_SHA256 = None  # none is known, so that every file is unverified
PUBLISHED_MEANS = {
    "Financial Distress": 3_819.82256732 / 3_672,
    "x1": 5_096.074 / 3_672,
    "x2": 476.27972646 / 3_672,
}
COMPANIES, PERIODS, INDUSTRIES = 422, 14, 37
# distressed: the target at or below this
THRESHOLD = -0.5
TARGET = "Financial Distress"
COLUMNS = ("Company", "Time", TARGET, *(f"x{i}" for i in range(1, 84)))
NUMBERS = tuple(f"x{i}" for i in range(1, 84) if i != 80)  # 82 numbers; x80 is a category
HOW = (
    "download Financial Distress.csv (Kaggle account needed) from "
    "www.kaggle.com/datasets/shebrahimi/financial-distress and put it, or the zip, into data/raw"
)
_WHOLE = {"Company": COMPANIES, "Time": PERIODS, "x80": INDUSTRIES}  # counted from 1
_AGES = {"x82": (0, 200), "x83": (0, 200)}  # whole years, at most 49 and 74 in the file
_RANGES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(COLUMNS, (-1e12, 1e12)),  # the file's own largest number is 3.6e8
    **{column: (1, most) for column, most in _WHOLE.items()},
    **_AGES,
}
_CODED = {
    "paper": ("Company", "Time", "x80"),
    "no_lag": ("Time", "x80"),
    "forecast": ("Time", "x80"),
}
_EXPECTED = "Company, Time, Financial Distress and x1 to x83"


def checked_table(table: pd.DataFrame, file: str) -> Checked:
    """The table, its 86 columns in order and a copy of Company as `account`; one sentence for the
    first thing wrong.

    Company (1 to 422), Time (1 to 14), x80 (1 to 37) and the ages x82 and x83 (0 to 200) are whole
    numbers; all other columns numbers from -1e12 to 1e12.  Of 100 rows or more the median of x48 is
    500 or more, so that they were not scaled: in the published file each x48 is above 533.
    At most 3,672 rows, 136 distressed (target <= -0.5), and 2 rows that repeat another one but for
    company and period; of 3,672 rows exactly 136 distressed, and the published means of three
    columns.  x81 as `_lagged` asks.  A table without distress passes: somebody may have chosen
    companies that stayed healthy.
    table: as read.  file: its name, for the message.  ValueError naming file, column and
    expectation.
    """
    import pandas as pd

    columns_and_rows(table, COLUMNS, file, expected=_EXPECTED, at_most=FULL_ROWS)
    held = {
        column: numbers(table[column], file, low, high, whole=column in (*_WHOLE, *_AGES))
        for column, (low, high) in _RANGES.items()
    }
    checked = pd.DataFrame(held)
    typical_at_least(checked, {"x48": 500}, file)
    distressed = int((checked[TARGET] <= THRESHOLD).sum())
    positives(distressed, "distressed", checked, file, published=FULL_DISTRESSED, of_rows=FULL_ROWS)
    if len(checked) == FULL_ROWS:
        means(checked, PUBLISHED_MEANS, file)
    repeats(checked[list(COLUMNS[2:])], file, known=FULL_REPEATS)
    _lagged(checked, file)
    checked = checked.astype(dict.fromkeys(_WHOLE, np.int64))
    return Checked(checked.assign(account=checked["Company"]), FULL_ROWS)


def _lagged(table: pd.DataFrame, file: str) -> None:
    """Refuse a target that was changed: x81 is the company's target of the period before.

    That holds in all 3,250 pairs of neighbouring periods of the published file, and so in every
    part of it.  1e-4 is left for rounding.
    """
    ordered = table.sort_values(["Company", "Time"])[["Company", "Time", "x81", TARGET]]
    company, period, x81, target = ordered.to_numpy(float).T
    follows = (company[1:] == company[:-1]) & (period[1:] == period[:-1] + 1)
    wrong = follows & ~np.isclose(x81[1:], target[:-1], rtol=1e-4, atol=1e-4)
    if wrong.any():
        row = int(np.argmax(wrong)) + 1
        raise ValueError(
            f"{file}: column {TARGET!r} does not belong to these rows: x81 is "
            f"{x81[row]:g} for company {company[row]:g} in period {period[row]:g}, "
            f"expected its target of the period before, {target[row - 1]:g}"
        )


def arranged(table: pd.DataFrame, *, kind: Kind, of_rows: int | None, variant: str) -> Dataset:
    """The Dataset of a checked or sampled table in one of three forms: label = target <= -0.5.

    paper: 555 inputs: one-hot of company (422), period (14) and x80 (37), then the 82 numbers.
    no_lag: 132 inputs, without the company and without x81, which is the target of the period
    before.  forecast: 133 inputs, with x81 and without the company, meant for splits by time within
    a company or by company.
    table: canonical columns, `account` among them.  kind, of_rows: as on a Dataset.
    """
    coded = _CODED[variant]
    kept = [name for name in NUMBERS if name != "x81" or variant != "no_lag"]
    names, one_hot = [], []
    for column in coded:
        names += [f"{column} = {level}" for level in range(1, _WHOLE[column] + 1)]
        codes = table[column].to_numpy(np.int64) - 1
        one_hot.append(np.eye(_WHOLE[column], dtype=np.float32)[codes])
    X = np.hstack([*one_hot, table[kept].to_numpy(np.float32)])
    return made(
        name="distress",
        X=X,
        y=(table[TARGET].to_numpy() <= THRESHOLD).astype(np.int8),
        feature_names=(*names, *kept),
        numeric=np.r_[np.zeros(len(names), bool), np.ones(len(kept), bool)],
        kind=kind,
        of_rows=of_rows,
        variant=variant,
        target="distress",
        account=table["account"].to_numpy(np.int64, copy=True),
        time=table["Time"].to_numpy(np.float64, copy=True),
        note="yearly accounts of up to 422 companies over up to 14 periods; distressed is "
        "a target of -0.5 or less",
    )
