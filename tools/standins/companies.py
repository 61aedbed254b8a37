"""Fits the lives of companies: shares and means over at least 50 rows."""

import numpy as np
import pandas as pd
from scipy import stats

from ppkit.datasets.distress import INDUSTRIES, TARGET, THRESHOLD
from ppkit.datasets.standins.companies import MACRO, MONTHS

from .columns import ROWS_A_KNOT, atoms, knots

SHRINK_ROWS = 25  # rows of the average that an industry's risk is mixed with


def fit(table: pd.DataFrame) -> dict[str, np.ndarray]:
    """Shares and means that lives are drawn from.

    table: canonical columns, consecutive years of at least 50 rows each; companies may have gaps.
    Returns years (T,); macro (T, 19): x61..x79 at the ends of years, such that the samples have
    each year's means; closing: share of rows with their year's commonest values there; rate: share
    of distressed rows; fails (T,), leaves (T,): how the last years of distressed and of other
    companies are spread; groups (37,): industries, those of fewer than 50 rows together; shares
    (G,), risks (G,): rows, and distress relative to the average; listed (m, 3): `atoms` of x82 -
    Time, their shares by company instead of by row; wait (k,): knots of x83 - x82; order: rank
    correlation of the company's number with x82 - Time.
    """
    year, listed = table["Time"].to_numpy(), (table["x82"] - table["Time"]).to_numpy()
    years, counts = np.unique(year, return_counts=True)
    failed = table[TARGET].to_numpy() <= THRESHOLD
    fails, entered = (
        np.array([mask[year == one].sum() for one in years])
        for mask in (failed, table["x82"].to_numpy() == 1)
    )
    alike = table.groupby(["Time", *MACRO], sort=False).size()
    commonest = alike.groupby("Time").max().sum() / len(table)
    groups, shares, risks = _industries(table["x80"].to_numpy(np.int64) - 1, failed)
    ages = atoms(listed, at_most=40)
    seen = np.clip(years[-1] + ages[:, 1], 1, len(years))  # years in which such a company is there
    ages[:, 0] /= seen
    return {
        "years": years,
        "macro": _december(table[list(MACRO)].groupby(year).mean().to_numpy(), commonest),
        "closing": commonest,
        "rate": failed.mean(),
        "fails": fails / fails.sum() if failed.any() else counts / len(table),
        "leaves": _leaves(counts, fails, entered),
        "groups": groups,
        "shares": shares,
        "risks": risks,
        "listed": ages,
        "wait": knots((table["x83"] - table["x82"]).to_numpy(), at_most=24),
        "order": np.nan_to_num(stats.spearmanr(table["Company"], listed).statistic),
    }


def _december(means: np.ndarray, closing: float) -> np.ndarray:
    """Values at the ends of years, of which the rows are mixed so that these are the years'
    means.
    """
    if len(means) == 1:
        return means
    back = (1 - closing) * (1 - MONTHS.mean() / 12)
    mixing = (1 - back) * np.eye(len(means)) + back * np.eye(len(means), k=-1)
    mixing[0, :2] += 2 * back, -back  # before the first year the line goes on
    return np.linalg.solve(mixing, means)


def _leaves(counts: np.ndarray, fails: np.ndarray, entered: np.ndarray) -> np.ndarray:
    """Where healthy companies end: what a year loses beyond chance, and all that are there in the
    last.
    """
    lost = (counts - fails)[:-1] - (counts - entered)[1:]
    leaves = np.r_[
        np.where(lost > 2 * np.sqrt(counts[:-1]), lost, 0), max(1, counts[-1] - fails[-1])
    ]
    return leaves / leaves.sum()


def _industries(codes: np.ndarray, failed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Group 0 gathers the smallest industries until none below 50 rows is left and it has 50
    itself.
    """
    rows = np.bincount(codes, minlength=INDUSTRIES)
    order = np.argsort(rows, kind="stable")
    pooled = max((rows < ROWS_A_KNOT).sum(), np.searchsorted(rows[order].cumsum(), ROWS_A_KNOT) + 1)
    groups = np.zeros(INDUSTRIES, np.int64)
    groups[order[pooled:]] = np.arange(1, INDUSTRIES - pooled + 1)
    size, bad = np.bincount(groups[codes]), np.bincount(groups[codes], failed)
    prior = max(failed.mean(), 1 / len(codes))
    return groups, size / len(codes), (bad + SHRINK_ROWS * prior) / (size + SHRINK_ROWS) / prior
