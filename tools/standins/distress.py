"""Fits the stand-in for distress.

The lives of companies: shares and means over at least 50 rows.  Their rows: levels, what a
company's years have in common, and what a pilot panel lacks.
"""

import numpy as np
import pandas as pd
from numpy.random import Generator
from scipy import stats
from scipy.special import ndtri

from ppkit.datasets.distress import INDUSTRIES, TARGET, THRESHOLD
from ppkit.datasets.standins.distress import FIRM, MACRO, MONTHS, design, draw_lives, panel
from ppkit.datasets.standins.distributions import Arrays
from tools.standins.distributions import ROWS_A_KNOT, atoms, knots

SHRINK_ROWS = 25  # rows of the average that an industry's risk is mixed with
YEAR_ROWS, INDUSTRY_ROWS, PAIR_ROWS = 5.0, 50.0, 30.0  # ridge: rows of "no difference" mixed in
PILOT_ROWS, PILOTS = 40_000, 2
# added to variances; share of the healthy rows' covariance in the distressed ones'
NUGGET, MIX = 0.01, 0.25


def fit(table: pd.DataFrame, rng: Generator) -> Arrays:
    """Parameters of the sampler from real rows; companies may have gaps.

    In normal scores, column by column:
        score = level of the year + of the industry + of two ages + rest.
    The rest of a company's last year is normal, with a mean and covariance for each class; a
    year before follows from the year after by linear regression.  A pilot panel then says what its
    healthy rows' covariance and its classes' means lack.
    table: canonical columns.  rng: breaks ties between equal values, draws the pilot.
    Returns arrays, float32 and int32, each number an aggregate over at least 50 rows, or a share.
    ValueError if a year or the distressed rows are fewer than 50.
    Guarantee: none that is formal.
    """
    table = table.sort_values(["account", "Time"], kind="stable")
    target, ties = table[TARGET].to_numpy(), rng.random(len(table))
    low = target <= THRESHOLD
    fewest = min(table["Time"].value_counts().min(), low.sum())
    if fewest < ROWS_A_KNOT:
        raise ValueError(
            f"a stand-in of distress needs {ROWS_A_KNOT} rows of each year and of distress, "
            f"got {fewest}"
        )
    parameters = fit_lives(table)
    Z = np.column_stack([_scores(table[name].to_numpy(), ties) for name in FIRM])
    ages = np.column_stack([table["x82"] - table["Time"], table["x83"] - table["x82"]])
    centre, spread = ages.mean(axis=0), ages.std(axis=0)
    levels, effect, rest = _levels(Z, table, parameters, (ages - centre) / spread, low)
    U = rest + np.outer(low, effect)
    covariances = [
        np.cov(rest[low == fate].T) + NUGGET * np.eye(len(FIRM)) for fate in (False, True)
    ]
    covariances[1] = MIX * covariances[0] + (1 - MIX) * covariances[1]
    weights, left = _ridge(U[~low], _scores(target[~low], ties[~low]), 1.0)
    parameters |= _backwards(U, table, low) | {
        "knots": np.stack([knots(table[name].to_numpy()) for name in FIRM]),
        "levels": levels,
        "effect": effect,
        "ages_centre": centre,
        "ages_spread": spread,
        "factors": np.stack([_factor(one) for one in covariances]),
        "outcome_knots": knots(target[~low]),
        "outcome_weights": weights,
        "outcome_noise": left.std(),
        "depth": THRESHOLD - target[low].mean(),
    }
    means = np.stack([Z[low == fate].mean(axis=0) for fate in (False, True)])
    parameters |= _corrected(parameters, means, covariances[0], rng)
    return {
        name: np.asarray(value, np.int32 if np.asarray(value).dtype.kind == "i" else np.float32)
        for name, value in parameters.items()
    }


def _scores(values: np.ndarray, ties: np.ndarray) -> np.ndarray:
    """Normal scores of the ranks; equal values in the order of `ties`, one for all columns."""
    return ndtri((np.argsort(np.lexsort((ties, values))) + 0.5) / len(values))


def _levels(
    Z: np.ndarray, table: pd.DataFrame, lives: Arrays, ages: np.ndarray, low: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ridge regression of scores on years, industries, ages and distress: coefficients, distress's
    own, what is left.
    """
    of_lives = design(lives, table["Time"].to_numpy(), table["x80"].to_numpy(), ages)
    D = np.column_stack([of_lives, low])
    sizes = [len(lives["lives_years"]), len(lives["lives_shares"]), 2, 1]
    penalty = np.repeat([YEAR_ROWS, INDUSTRY_ROWS, 1, 1e-6], sizes)
    levels = np.linalg.solve(D.T @ D + np.diag(penalty), D.T @ Z)
    rest = Z - D @ levels
    for fate in (False, True):
        rest[low == fate] -= rest[low == fate].mean(axis=0)
    return levels[:-1], levels[-1], rest


def _ridge(X: np.ndarray, Y: np.ndarray, penalty: float) -> tuple[np.ndarray, np.ndarray]:
    weights = np.linalg.solve(X.T @ X + penalty * np.eye(X.shape[1]), X.T @ Y)
    return weights, Y - X @ weights


def _factor(covariance: np.ndarray) -> np.ndarray:
    return np.linalg.cholesky(covariance + 1e-4 * np.eye(len(covariance)))


def _backwards(U: np.ndarray, table: pd.DataFrame, low: np.ndarray) -> Arrays:
    """From a year to the year before:
    U_before = U_after @ steps + (distress after) * step_low + noise.

    step_low is 0 if fewer than 50 pairs of neighbouring years end in distress.
    """
    account, year = table["account"].to_numpy(), table["Time"].to_numpy()
    after = np.flatnonzero((account[1:] == account[:-1]) & (year[1:] == year[:-1] + 1)) + 1
    steps, left = _ridge(U[after], U[after - 1], PAIR_ROWS)
    step_low = np.zeros(U.shape[1])
    if low[after].sum() >= ROWS_A_KNOT:
        step_low = left[low[after]].mean(axis=0)
        left = left - np.outer(low[after], step_low)
    return {"steps": steps, "step_low": step_low, "step_factor": _factor(np.cov(left.T))}


def _corrected(
    parameters: Arrays, means: np.ndarray, covariance: np.ndarray, rng: Generator
) -> Arrays:
    """Of a pilot panel: the linear map that gives its healthy rows the covariance, the shifts that
    give both classes the means.
    """
    mended = {"recolour": np.eye(len(FIRM)), "shifts": np.zeros_like(means)}
    for _ in range(PILOTS):
        pilot = panel(parameters | mended, draw_lives(parameters, PILOT_ROWS, rng), rng)
        found = [pilot.scores[pilot.failed == fate].mean(axis=0) for fate in (False, True)]
        root = _root(np.cov(pilot.rests[~pilot.failed].T))
        inverse = np.linalg.inv(root)
        recolour = inverse @ _root(root @ covariance @ root) @ inverse
        mended = {
            "recolour": mended["recolour"] @ recolour,
            "shifts": mended["shifts"] + means - found,
        }
    return mended


def _root(covariance: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.sqrt(np.maximum(values, 1e-9))) @ vectors.T


def fit_lives(table: pd.DataFrame) -> Arrays:
    """Shares and means that lives are drawn from.

    table: canonical columns, consecutive years of at least 50 rows each; companies may have gaps.
    Returns, each name beginning with lives_: years (T,); macro (T, 19): x61..x79 at the ends of
    years, such that the samples have each year's means; closing: share of rows with their year's
    commonest values there; rate: share of distressed rows; fails (T,), leaves (T,): how the last
    years of distressed and of other companies are spread; groups (37,): industries, those of fewer
    than 50 rows together; shares (G,), risks (G,): rows, and distress relative to the average;
    listed (m, 3): `atoms` of x82 - Time, their shares by company instead of by row; wait (k,):
    knots of x83 - x82; order: rank correlation of the company's number with x82 - Time.
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
    # divided by the years in which such a company is there
    ages[:, 0] /= np.clip(years[-1] + ages[:, 1], 1, len(years))
    return {
        "lives_years": years,
        "lives_macro": _december(table[list(MACRO)].groupby(year).mean().to_numpy(), commonest),
        "lives_closing": commonest,
        "lives_rate": failed.mean(),
        "lives_fails": fails / fails.sum(),
        "lives_leaves": _leaves(counts, fails, entered),
        "lives_groups": groups,
        "lives_shares": shares,
        "lives_risks": risks,
        "lives_listed": ages,
        "lives_wait": knots((table["x83"] - table["x82"]).to_numpy(), at_most=24),
        "lives_order": stats.spearmanr(table["Company"], listed).statistic,
    }


def _december(means: np.ndarray, closing: float) -> np.ndarray:
    """Values at the ends of years of which rows are mixed, so that these are the years' means."""
    back = (1 - closing) * (1 - MONTHS.mean() / 12)
    mixing = (1 - back) * np.eye(len(means)) + back * np.eye(len(means), k=-1)
    mixing[0, :2] += 2 * back, -back  # before the first year the line goes on
    return np.linalg.solve(mixing, means)


def _leaves(counts: np.ndarray, fails: np.ndarray, entered: np.ndarray) -> np.ndarray:
    """Where healthy companies end: what a year loses beyond chance, and all of the last year."""
    lost = (counts - fails)[:-1] - (counts - entered)[1:]
    beyond_chance = np.where(lost > 2 * np.sqrt(counts[:-1]), lost, 0)
    leaves = np.append(beyond_chance, counts[-1] - fails[-1])
    return leaves / leaves.sum()


def _industries(codes: np.ndarray, failed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Group 0 gathers the smallest industries until none has below 50 rows, nor itself."""
    rows = np.bincount(codes, minlength=INDUSTRIES)
    order = np.argsort(rows, kind="stable")
    pooled = max((rows < ROWS_A_KNOT).sum(), np.searchsorted(rows[order].cumsum(), ROWS_A_KNOT) + 1)
    groups = np.zeros(INDUSTRIES, np.int64)
    groups[order[pooled:]] = np.arange(1, INDUSTRIES - pooled + 1)
    size, bad = np.bincount(groups[codes]), np.bincount(groups[codes], failed)
    rate = failed.mean()
    return groups, size / len(codes), (bad + SHRINK_ROWS * rate) / (size + SHRINK_ROWS) / rate
