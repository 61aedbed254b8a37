"""A population of accounts with everything that happened on them, sorted by account and time."""

from typing import NamedTuple

import numpy as np

from .accounts import FRAUD_ACCOUNTS, accounts_given_class
from .authorisation import authorise
from .fraud import fraud_rows
from .spending import own_rows

ACCOUNTS_AT_A_TIME = 3_000


class Population(NamedTuple):
    """accounts: columns (A,).  rows: columns (N,), sorted by "who" (index of the account), then by "time" (seconds)."""
    accounts: dict[str, np.ndarray]
    rows: dict[str, np.ndarray]

    @property
    def fraud(self) -> np.ndarray:
        """Which rows are fraudulent, bool (N,)."""
        return self.rows["kind"] >= 0


def population_given_class(has_fraud: np.ndarray, rng: np.random.Generator) -> Population:
    """Draw one account per entry of has_fraud (A,), and all that happens on it in eight months."""
    accounts = accounts_given_class(np.asarray(has_fraud, bool), rng)
    own = _sorted(own_rows(accounts, rng))
    stolen = fraud_rows(accounts, own, rng)
    rows = _sorted({name: np.concatenate([own[name], stolen[name]]) for name in own})
    return Population(accounts, rows | authorise(rows, accounts, rng))


def simulate(n_accounts: int, rng: np.random.Generator) -> Population:
    """Draw a whole population: each account meets fraud with chance FRAUD_ACCOUNTS, independently.

    n_accounts: >= 1.  Returns about 39 rows an account, 0.136% of them fraudulent.
    ValueError if n_accounts < 1.
    """
    if n_accounts < 1:
        raise ValueError(f"n_accounts must be >= 1, got {n_accounts}")
    parts = []
    for first in range(0, n_accounts, ACCOUNTS_AT_A_TIME):
        size = min(ACCOUNTS_AT_A_TIME, n_accounts - first)
        parts.append(population_given_class(rng.random(size) < FRAUD_ACCOUNTS, rng))
        parts[-1].rows["who"] += first
    return Population(*({name: np.concatenate([part[field][name] for part in parts]) for name in parts[0][field]}
                        for field in (0, 1)))


def select(population: Population, keep: np.ndarray) -> Population:
    """The same accounts with only the rows in keep (mask or ascending indices)."""
    return Population(population.accounts, {name: column[keep] for name, column in population.rows.items()})


def _sorted(rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    order = np.lexsort((rows["time"], rows["who"]))
    return {name: column[order] for name, column in rows.items()}
