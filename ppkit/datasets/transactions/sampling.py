"""wang2018's sample: accounts with fraud, as many without, all fraud, a fifth of the rest.

And what one record is in it: how far a single transaction, and a single account, reach into the
table that is learned from.
"""

from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from ppkit.datasets.transactions.features import features
from ppkit.datasets.transactions.merchants import world
from ppkit.datasets.transactions.population import Population, population_given_class, select
from ppkit.datasets.transactions.schema import FEATURE_NAMES, Columns

KEPT = 0.2  # share of the genuine rows that the paper keeps
PAPER_ROWS = 700_000
SMALLEST = 100
PAIRS_AT_A_TIME = 500


def kept_rows(population: Population, rng: Generator) -> np.ndarray:
    """Ascending indices of all frauds and of each genuine row with chance KEPT."""
    return np.flatnonzero(population.fraud | (rng.random(len(population.fraud)) < KEPT))


def paper_sample(rows: int, rng: Generator) -> Columns:
    """The paper's sample, drawn from the law of `simulate` conditioned on the accounts' classes.

    rows: how many are wanted, >= 100; whole pairs of accounts (one with fraud, one without) are
    taken, so the number comes out within 1% or one pair.  Features are computed on all rows of an
    account before any is left out.
    Returns rows by account and time: X float32 (N, 264) unscaled, y int8 (N,), account int64 (N,),
    category int16 (N,), number of the merchant's group.  ValueError if rows is too small.
    Source: wang2018, section V (700,000 rows, 14% fraud).  The same seed with fewer rows gives the
    first of the rows.
    """
    if rows < SMALLEST:
        raise ValueError(f"rows must be >= {SMALLEST} for transactions, got {rows}")
    X = np.empty((int(rows * 1.01) + 500, len(FEATURE_NAMES)), np.float32)
    parts: dict[str, list[np.ndarray]] = {"y": [], "account": [], "category": []}
    filled, first_account, enough = 0, 0, False
    while not enough:
        population = pairs_of_accounts(PAIRS_AT_A_TIME, rng)
        keep = kept_rows(population, rng)
        enough = len(keep) >= rows - filled
        keep = keep[: _whole_pairs(population.rows["who"][keep], rows - filled)]
        X[filled : filled + len(keep)] = features(population, keep)
        parts["y"].append(population.fraud[keep].astype(np.int8))
        parts["account"].append(population.rows["who"][keep] + first_account)
        parts["category"].append(world().group[population.rows["code"][keep]])
        filled += len(keep)
        first_account += 2 * PAIRS_AT_A_TIME
    columns = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    return columns | {"X": X[:filled]}


def pairs_of_accounts(n_pairs: int, rng: Generator) -> Population:
    """n_pairs accounts that meet fraud and as many that do not, in random order in each pair."""
    has_fraud = rng.permuted(np.tile([True, False], (n_pairs, 1)), axis=1)
    return population_given_class(has_fraud.ravel(), rng)


def _whole_pairs(who: np.ndarray, wanted: int) -> int:
    """How many rows to take for whole pairs of accounts only, nearest to what is wanted."""
    if len(who) <= wanted:
        return len(who)
    edges = np.searchsorted(who, np.arange(0, who[-1] + 3, 2))
    return int(edges[np.argmin(np.abs(edges - wanted))])


class Touched(NamedTuple):
    """How many rows of the sample change with one transaction, and how many are of its account,
    both int64 (n_accounts,)."""

    by_transaction: np.ndarray
    by_account: np.ndarray


def rows_touched(n_accounts: int, rng: Generator) -> Touched:
    """Count, by computing the features again, which rows change when one transaction of an account
    never happened.

    n_accounts: even, >= 2, half of them with fraud as in the paper's sample; one random transaction
    of each is removed.
    Returns by_transaction: for each account the number of the sample's rows, the removed one not
    counted, in which any of the 264 features changes; and by_account: the number of its rows in the
    sample, all of which go with the account.
    Statistics fitted on all rows (standardising) are not counted: they touch every row a little.
    ValueError if n_accounts is odd.
    """
    if n_accounts % 2:
        raise ValueError(f"n_accounts must be even, got {n_accounts}")
    population = pairs_of_accounts(n_accounts // 2, rng)
    who = population.rows["who"]
    sizes = np.bincount(who)
    removed = np.cumsum(sizes) - sizes + (rng.random(n_accounts) * sizes).astype(np.int64)
    keep = kept_rows(population, rng)
    left = np.delete(np.arange(len(who)), removed)
    compared = np.setdiff1d(keep, removed)
    before = features(population, compared)
    after = features(select(population, left), np.searchsorted(left, compared))
    changed = compared[(before != after).any(axis=1)]
    return Touched(*(np.bincount(who[rows], minlength=n_accounts) for rows in (changed, keep)))
