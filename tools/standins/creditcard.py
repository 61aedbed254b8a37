"""Fits the stand-in for creditcard."""

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from ppkit.datasets.creditcard import FEATURES, FULL_ROWS
from ppkit.datasets.standins.creditcard import BLOCK, BLOCKS, KEYS

from . import mixture
from .columns import ROWS_A_KNOT, knots, normal_scores

COMPONENTS = 20  # of the genuine rows' mixture
GRADES, OWN = 6, 0.8  # of the frauds; share of a grade's own covariance beside that of all grades
_FIRST_NIGHT, _DAY = 12_000, 86_400  # seconds


def typical(table: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """The rows with the first night's genuine ones thinned, where the table is a subset that holds
    too many of them.

    Kept is the share that makes the first 12,000 seconds of day one to day two's as the rest of day
    one is to the rest of day two.  The full file comes back as it is.
    """
    if len(table) == FULL_ROWS:
        return table
    time, genuine = table["Time"].to_numpy(), table["Class"].to_numpy() == 0
    first, second = (
        genuine & (time < _FIRST_NIGHT),
        genuine & (time >= _DAY) & (time < _DAY + _FIRST_NIGHT),
    )
    one, two = (
        genuine & (time >= _FIRST_NIGHT) & (time < _DAY),
        genuine & (time >= _DAY + _FIRST_NIGHT),
    )
    if not (first.any() and two.any()):
        return table
    share = min(1.0, second.sum() * one.sum() / two.sum() / first.sum())
    return table[~first | (rng.random(len(table)) < share)]


def fit(table: pd.DataFrame, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """What the sampler needs, from checked rows.

    Of both classes, shares: of the class's rows in each of 16 blocks of three hours.
    Genuine rows: knots, 128 a column; drift, the mean normal score of each column in each block of
    at least 50 rows (0 elsewhere); weights, means, factors, marginals: a mixture over the normal
    scores without their drift.
    Frauds: their normal scores are taken within frauds and as many genuine rows (knots), so that
    they say how unlike genuine a row is; sorted by a logistic regression's score and cut into up to
    six grades of at least 50 frauds, from those that hide to those that cry out, each grade with
    its mean and covariance.
    ValueError if a class has fewer than 50 rows.
    """
    fitted, features, own = {}, {}, {}
    for label in (0, 1):
        own[label] = table[table["Class"] == label]
        if len(own[label]) < ROWS_A_KNOT:
            raise ValueError(
                f"a stand-in needs at least {ROWS_A_KNOT} rows with Class {label}, got "
                f"{len(own[label])}"
            )
        features[label] = _features(own[label])
    for label, found in (
        (0, _genuine(features[0], _blocks(own[0]), rng)),
        (1, _frauds(features[1], features[0], rng)),
    ):
        found["shares"] = np.bincount(_blocks(own[label]), minlength=BLOCKS) / len(own[label])
        fitted |= {f"{key}_{label}": found[key].astype(np.float32) for key in KEYS[label]}
    return fitted


def _features(table: pd.DataFrame) -> np.ndarray:
    """V1 to V28 and log(1 + amount)."""
    rows = table[list(FEATURES[1:])].to_numpy(np.float64, copy=True)
    rows[:, -1] = np.log1p(rows[:, -1])
    return rows


def _blocks(table: pd.DataFrame) -> np.ndarray:
    return np.minimum(table["Time"].to_numpy() // BLOCK, BLOCKS - 1).astype(int)


def _genuine(
    rows: np.ndarray, block: np.ndarray, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    marginals = np.array([knots(column) for column in rows.T])
    scores, counts = normal_scores(rows.T, marginals), np.bincount(block, minlength=BLOCKS)
    drift = np.array(
        [
            scores[block == b].mean(axis=0)
            if counts[b] >= ROWS_A_KNOT
            else np.zeros(scores.shape[1])
            for b in range(BLOCKS)
        ]
    )
    return {
        "knots": marginals,
        "drift": drift,
        **mixture.fit(scores - drift[block], COMPONENTS, rng),
    }


def _frauds(
    rows: np.ndarray, genuine: np.ndarray, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    beside = genuine[rng.choice(len(genuine), min(len(genuine), 20 * len(rows)), replace=False)]
    marginals = np.array([knots(column) for column in np.vstack([rows, beside[: len(rows)]]).T])
    scores, others = normal_scores(rows.T, marginals), normal_scores(beside.T, marginals)
    judge = LogisticRegression(C=0.01, class_weight="balanced", max_iter=2_000)
    judge.fit(np.vstack([scores, others]), np.r_[np.ones(len(scores)), np.zeros(len(others))])
    grades = np.array_split(
        np.argsort(judge.decision_function(scores)), min(GRADES, len(rows) // ROWS_A_KNOT)
    )
    means = np.array([scores[grade].mean(axis=0) for grade in grades])
    spreads = np.array([np.cov(scores[grade].T) for grade in grades])
    weights = np.array([len(grade) for grade in grades]) / len(rows)
    spreads = (
        OWN * spreads
        + (1 - OWN) * np.tensordot(weights, spreads, 1)
        + 0.01 * np.eye(scores.shape[1])
    )
    return {
        "knots": marginals,
        "weights": weights,
        "means": means,
        "factors": np.linalg.cholesky(spreads),
    }
