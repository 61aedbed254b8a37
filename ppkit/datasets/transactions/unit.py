"""What one record is: how far a single transaction, and a single account, reach into the table that is learned from."""

from typing import NamedTuple

import numpy as np

from .features import features
from .population import select
from .sampling import KEPT, kept_rows, pairs_of_accounts


class Touched(NamedTuple):
    """Rows of the sample per removal, int64 (A,) each: later rows changed by one transaction, rows of one account."""
    by_transaction: np.ndarray
    by_account: np.ndarray


def rows_touched(n_accounts: int, rng: np.random.Generator, *, kept: float = KEPT) -> Touched:
    """Count, by computing the features again, which rows change when one transaction of an account never happened.

    n_accounts: even, >= 2, half of them with fraud as in the paper's sample; one random transaction of each is
    removed.  kept: share of genuine rows in the sample, in (0, 1]; 1 counts all rows.
    Returns for each account the number of the sample's rows, the removed one not counted, in which any of the 264
    features changes, and the number of its rows in the sample, all of which go with the account.
    Statistics fitted on all rows (standardising) are not counted: they touch every row a little.
    ValueError if an argument is out of range.
    """
    if n_accounts < 2 or n_accounts % 2:
        raise ValueError(f"n_accounts must be even and >= 2, got {n_accounts}")
    if not 0 < kept <= 1:
        raise ValueError(f"kept must be in (0, 1], got {kept}")
    population = pairs_of_accounts(n_accounts // 2, rng)
    who = population.rows["who"]
    sizes = np.bincount(who, minlength=n_accounts)
    removed = np.cumsum(sizes) - sizes + (rng.random(n_accounts) * sizes).astype(np.int64)
    keep = kept_rows(population, rng, kept)
    left = np.delete(np.arange(len(who)), removed)
    compared = np.setdiff1d(keep, removed)
    before = features(population, compared)
    after = features(select(population, left), np.searchsorted(left, compared))
    changed = (before != after).any(axis=1)
    return Touched(np.bincount(who[compared[changed]], minlength=n_accounts),
                   np.bincount(who[keep], minlength=n_accounts))
