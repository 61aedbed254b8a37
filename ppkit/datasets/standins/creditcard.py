"""The stand-in for creditcard: times by class, and for each class a Gaussian mixture under the columns' distributions."""

import numpy as np
import pandas as pd

from ..creditcard import COLUMNS, FEATURES, FULL_FRAUDS, FULL_ROWS, RANGES
from . import mixture
from .marginals import ROWS_A_KNOT, from_normal, knots, to_normal

COMPONENTS = {0: 20, 1: 1}                # genuine, fraud: a fifth of 492 frauds would be too few for a second
BLOCKS, BLOCK = 16, 10_800                # three hours each, in seconds
_FIRST_NIGHT, _DAY = 12_000, 86_400       # seconds
LARGEST_AMOUNT = 26_000                   # the published maximum is 25,691.16
_KEYS = ("weights", "means", "factors", "marginals", "knots", "shares", "drift")


def typical(table: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """The rows with the first night's genuine ones thinned, where the table is a subset that holds too many of them.

    Kept is the share that makes the first 12,000 seconds of day one to day two's as the rest of day one is to the rest of
    day two.  The full file comes back as it is.
    """
    if len(table) == FULL_ROWS:
        return table
    time, genuine = table["Time"].to_numpy(), table["Class"].to_numpy() == 0
    first, second = genuine & (time < _FIRST_NIGHT), genuine & (time >= _DAY) & (time < _DAY + _FIRST_NIGHT)
    one, two = genuine & (time >= _FIRST_NIGHT) & (time < _DAY), genuine & (time >= _DAY + _FIRST_NIGHT)
    if not (first.any() and two.any()):
        return table
    share = min(1.0, second.sum() * one.sum() / two.sum() / first.sum())
    return table[~first | (rng.random(len(table)) < share)]


def fit(table: pd.DataFrame, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """What the sampler needs, from checked rows, for each class by itself.

    shares: of the class's rows in each of 16 blocks of three hours.  knots: 128 a column (6 for 329 frauds).  drift: mean
    normal score of each column in each block of at least 50 rows, 0 elsewhere.  weights, means, factors, marginals: a
    mixture over the normal scores without their drift.
    ValueError if a class has fewer than 50 rows.
    """
    fitted = {}
    for label, components in COMPONENTS.items():
        own = table[table["Class"] == label]
        if len(own) < mixture.ROWS_A_COMPONENT:
            raise ValueError(f"a stand-in needs at least {mixture.ROWS_A_COMPONENT} rows with Class {label}, got {len(own)}")
        block = np.minimum(own["Time"].to_numpy() // BLOCK, BLOCKS - 1).astype(int)
        rows = own[list(FEATURES[1:])].to_numpy(np.float64, copy=True)
        rows[:, -1] = np.log1p(rows[:, -1])
        marginals = np.array([knots(column) for column in rows.T])
        scores = np.column_stack([to_normal(*one) for one in zip(rows.T, marginals, strict=True)])
        counts = np.bincount(block, minlength=BLOCKS)
        drift = np.array([scores[block == b].mean(axis=0) if counts[b] >= ROWS_A_KNOT else np.zeros(scores.shape[1])
                          for b in range(BLOCKS)])
        found = {"shares": counts / len(own), "knots": marginals, "drift": drift,
                 **mixture.fit(scores - drift[block], components, rng)}
        fitted |= {f"{key}_{label}": found[key].astype(np.float32) for key in _KEYS}
    return fitted


def sample(parameters: dict[str, np.ndarray], rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Rows in order of time, fraud at the full file's rate of 492 in 284,807 (rounded), amounts in whole cents.

    parameters: as `fit` returns them.  rows: >= 1.
    Returns a table in the checked layout.
    """
    labels = np.zeros(rows, np.int8)
    labels[:round(rows * FULL_FRAUDS / FULL_ROWS)] = 1
    drawn = np.empty((rows, len(FEATURES)))
    for label in COMPONENTS:
        own = {key: parameters[f"{key}_{label}"].astype(np.float64) for key in _KEYS}
        drawn[labels == label] = _of_one_class(own, int((labels == label).sum()), rng)
    order = np.argsort(drawn[:, 0], kind="stable")
    return pd.DataFrame(drawn[order], columns=list(FEATURES)).assign(Class=labels[order])[list(COLUMNS)]


def _of_one_class(own: dict[str, np.ndarray], n: int, rng: np.random.Generator) -> np.ndarray:
    block = rng.choice(BLOCKS, n, p=own["shares"] / own["shares"].sum())
    time = np.floor((block + rng.random(n)) * BLOCK)
    scores = mixture.sample(own, n, rng)
    values = np.empty_like(scores)
    for j, (mixed, kept) in enumerate(zip(own["marginals"], own["knots"], strict=True)):
        moved = own["drift"][:, j]
        moved = moved - own["shares"] @ moved                       # the marginal stays what it is over all blocks
        spread = np.sqrt(max(1 - own["shares"] @ moved**2, 0.1))
        values[:, j] = from_normal(to_normal(scores[:, j], mixed) * spread + moved[block], kept)
    values[:, -1] = np.round(np.minimum(np.expm1(values[:, -1]), LARGEST_AMOUNT), 2)
    low, high = np.array([RANGES[column] for column in FEATURES[1:]], float).T
    return np.column_stack([time, np.clip(values, low, high)])
