"""How faithful a stand-in is, measured on real rows; `make fit-standins` keeps what comes out."""

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.neighbors import NearestNeighbors

from ppkit.datasets import Dataset, train_test
from ppkit.datasets.dataset import subset

from .columns import knots, normal_scores
from .learners import LEARNERS

SPLITS = 20
QUANTILES = (0.01, 0.05, 0.25, 0.5)
BLOCKS = 8
_LOOKED_FOR = 3_000  # rows whose nearest fitting row is looked for, of either kind
_TEST_SHARE = 0.3


class Task(NamedTuple):
    """One thing to learn: what stands in the card, the variant, how rows are held back, its inputs,
    models, the bar.

    columns: names of the inputs, () for all.  models: keys of LEARNERS.  bar: what the loss's upper
    limit may be at most, None where it is for information.
    """

    about: str
    models: tuple[str, ...]
    bar: float | None
    variant: str = ""
    by: str = "rows"
    columns: tuple[str, ...] = ()


class Stand(NamedTuple):
    """What is to be measured: how a table is fitted, sampled and arranged, and the tasks."""

    fit: Callable
    sample: Callable
    arranged: Callable
    tasks: tuple[Task, ...]


def losses(stand: Stand, table: pd.DataFrame, *, splits: int = SPLITS, seed: int = 0) -> list[dict]:
    """What training on the stand-in loses on held-back real rows: one row for each task and model.

    table: checked real rows.  For every split 30% of them are held back, the stand-in is fitted on
    the others, and as many of its rows (of each label) train a second model beside the one that the
    others train.
    Returns rows with task, model, real and standin (mean AUC, or R^2, on real rows), itself (of the
    model of the stand-in on further rows of the stand-in: whether it is as hard as the real rows),
    loss, lower, upper, bar.  upper: one-sided 95% limit of the mean loss, Student's with the
    variance (1/splits + .3/.7) sd^2, because the splits share rows (Nadeau and Bengio 2003).
    """
    scores: dict[tuple[Task, str], list] = {
        (task, model): [] for task in stand.tasks for model in task.models
    }
    for split in range(splits):
        for by in dict.fromkeys(task.by for task in stand.tasks):
            rng = np.random.default_rng([seed, split])
            learnt, held = _held_back(stand, table, by, rng)
            fitted = stand.fit(learnt, rng)
            for task in (task for task in stand.tasks if task.by == by):
                real, test = (
                    stand.arranged(rows, kind="real", of_rows=len(rows), variant=task.variant)
                    for rows in (learnt, held)
                )
                ours, other = (
                    _as_many(stand, fitted, like, task.variant, rng) for like in (real, test)
                )
                for model in task.models:
                    scores[task, model].append(
                        [
                            *_scores_of(model, real, (test,), task.columns, split),
                            *_scores_of(model, ours, (test, other), task.columns, split),
                        ]
                    )
    return [_summed_up(task, model, np.array(found)) for (task, model), found in scores.items()]


def marginals(table: pd.DataFrame, drawn: pd.DataFrame) -> dict:
    """How far sampled rows are from the fitted ones, in columns and in pairs of columns.

    Returns the largest and the median Kolmogorov-Smirnov distance of a column, which column, and
    the largest and the mean difference of Spearman's rank correlations over pairs of columns that
    vary.
    """
    apart = {
        column: stats.ks_2samp(table[column], drawn[column], method="asymp").statistic
        for column in table.columns
    }
    worst = max(apart, key=apart.get)
    varying = [
        column for column in table.columns if table[column].nunique() > 1 < drawn[column].nunique()
    ]
    real, ours = (stats.spearmanr(rows[varying].to_numpy()).statistic for rows in (table, drawn))
    off = np.abs(real - ours)[np.triu_indices(len(varying), 1)]
    return {
        "ks_largest": float(apart[worst]),
        "ks_column": worst,
        "ks_median": float(np.median([*apart.values()])),
        "correlation_largest": float(off.max()),
        "correlation_mean": float(off.mean()),
    }


def distances(
    stand: Stand,
    table: pd.DataFrame,
    *,
    by: str,
    columns: tuple[str, ...],
    among: dict[str, Callable],
    splits: int = 5,
    seed: int = 0,
) -> list[dict]:
    """How near sampled rows come to the rows that the stand-in was fitted on, beside how near real
    held-back rows come.

    Euclidean, over the normal scores of the columns (fitted on the fitting rows); pooled over a few
    splits.
    by: how rows are held back.  among: what to call a kind of rows, and which rows of a table they
    are; each kind is compared within itself.
    Returns one row for each kind and each of QUANTILES: among, quantile, sampled, held_back, limit
    (lower 99% bootstrap limit of held_back).
    """
    found = {about: ([], []) for about in among}
    for split in range(splits):
        rng = np.random.default_rng([seed, split])
        learnt, held = _held_back(stand, table, by, rng)
        drawn = stand.sample(stand.fit(learnt, rng), 10 * len(learnt), rng)
        kept = {column: knots(learnt[column].to_numpy()) for column in columns}
        for about, which in among.items():
            for of, pool in zip((drawn, held), found[about], strict=True):
                pool.append(_nearest(of[which(of)], learnt[which(learnt)], kept, rng))
    rows = []
    for about, pools in found.items():
        ours, theirs = (np.concatenate(pool) for pool in pools)
        again = np.quantile(rng.choice(theirs, (1_000, len(theirs))), QUANTILES, axis=1)
        rows += [
            {
                "among": about,
                "quantile": q,
                "sampled": float(np.quantile(ours, q)),
                "held_back": float(np.quantile(theirs, q)),
                "limit": float(np.quantile(again[i], 0.01)),
            }
            for i, q in enumerate(QUANTILES)
        ]
    return rows


def drift(
    time: str, drift_of: dict[str, str], table: pd.DataFrame, drawn: pd.DataFrame
) -> list[dict]:
    """The mean of each column of drift_of in eight blocks of time, for real and sampled rows.

    drift_of: column to what it is called.  Returns one row a column: about, real (8,), standin
    (8,), each as a ratio to the mean over all rows.
    """
    edges = np.linspace(table[time].min(), table[time].max() + 1e-9, BLOCKS + 1)[1:-1]
    rows = []
    for column, about in drift_of.items():
        real, ours = (
            one[column]
            .groupby(np.searchsorted(edges, one[time], side="right"))
            .mean()
            .reindex(range(BLOCKS))
            / one[column].mean()
            for one in (table, drawn)
        )
        rows.append({"about": about, "real": real.tolist(), "standin": ours.tolist()})
    return rows


def _held_back(
    stand: Stand, table: pd.DataFrame, by: str, rng: np.random.Generator
) -> tuple[pd.DataFrame, pd.DataFrame]:
    if (
        by == "time" and "account" in table
    ):  # without chance of itself: a tenth of the companies is left out
        accounts = table["account"].unique()
        table = table[
            table["account"].isin(rng.choice(accounts, round(0.9 * len(accounts)), replace=False))
        ]
    whole = stand.arranged(table, kind="real", of_rows=len(table), variant=stand.tasks[-1].variant)
    parts = train_test(whole, by=by, test_share=_TEST_SHARE, seed=int(rng.integers(2**31)))
    return table.iloc[parts.train], table.iloc[parts.test]


def _as_many(
    stand: Stand, fitted: dict, real: Dataset, variant: str, rng: np.random.Generator
) -> Dataset:
    """Stand-in rows, as many as the real ones and as many of each label."""
    wanted = np.bincount(real.y, minlength=2) if real.is_classification else None
    rows = real.n_rows
    for _ in range(5):
        ours = stand.arranged(
            stand.sample(fitted, rows, rng), kind="stand-in", of_rows=None, variant=variant
        )
        if wanted is None:
            return ours
        found = np.bincount(ours.y, minlength=2)
        if (found >= wanted).all():
            picked = [
                rng.choice(np.flatnonzero(ours.y == label), wanted[label], replace=False)
                for label in (0, 1)
            ]
            return subset(ours, np.sort(np.concatenate(picked)))
        if found.min() == 0:
            break
        rows = int(rows * 1.1 * max(wanted / found)) + 1
    raise ValueError(
        f"the stand-in of {real.name} gives {found.min()} rows of a label in {ours.n_rows:,} rows, "
        "too few to train on"
    )


def _scores_of(
    model: str, given: Dataset, tests: tuple[Dataset, ...], columns: tuple[str, ...], seed: int
) -> list[float]:
    """AUC (R^2 for a quantity) on each of the tests, of a model trained on the given rows."""
    use = [given.feature_names.index(column) for column in columns] if columns else slice(None)
    with warnings.catch_warnings():  # the network stops after so many epochs, on either side
        warnings.simplefilter("ignore", ConvergenceWarning)
        learner = LEARNERS[model](seed, given.n_rows).fit(given.X[:, use], given.y)
    if given.is_classification:
        return [
            roc_auc_score(test.y, learner.predict_proba(test.X[:, use])[:, 1]) for test in tests
        ]
    return [r2_score(test.y, learner.predict(test.X[:, use])) for test in tests]


def _summed_up(task: Task, model: str, found: np.ndarray) -> dict:
    lost, n = found[:, 0] - found[:, 1], len(found)
    halfwidth = (
        stats.t.ppf(0.95, n - 1)
        * lost.std(ddof=1)
        * np.sqrt(1 / n + _TEST_SHARE / (1 - _TEST_SHARE))
    )
    return {
        "task": task.about,
        "model": model,
        "real": float(found[:, 0].mean()),
        "standin": float(found[:, 1].mean()),
        "itself": float(found[:, 2].mean()),
        "loss": float(lost.mean()),
        "lower": float(lost.mean() - halfwidth),
        "upper": float(lost.mean() + halfwidth),
        "bar": task.bar,
    }


def _nearest(
    rows: pd.DataFrame,
    fitted_on: pd.DataFrame,
    kept: dict[str, np.ndarray],
    rng: np.random.Generator,
) -> np.ndarray:
    some = rows.iloc[rng.choice(len(rows), min(len(rows), _LOOKED_FOR), replace=False)]
    near = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(
        normal_scores((fitted_on[one].to_numpy() for one in kept), kept.values())
    )
    return near.kneighbors(normal_scores((some[one].to_numpy() for one in kept), kept.values()))[0][
        :, 0
    ]
