"""How faithful a stand-in is, measured on real rows that it was not fitted on; `make fit-standins` keeps what comes out."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from ..dataset import Dataset, subset
from ..splitting import train_test
from .marginals import knots, to_normal

SPLITS = 20
QUANTILES = (0.01, 0.05, 0.25, 0.5)
BLOCKS = 8
_LOOKED_FOR = 3_000                 # rows whose nearest fitting row is looked for, of either kind


class Task(NamedTuple):
    """One thing to learn: what stands in the card, the variant, how rows are held back, its inputs, models, the bar.

    columns: names of the inputs, () for all.  models: keys of MODELS.  bar: what the loss's upper limit may be at most.
    """
    about: str
    models: tuple[str, ...]
    bar: float
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

    table: checked real rows.  For every split 30% of them are held back, the stand-in is fitted on the others, and as many
    of its rows (of each label) train a second model beside the one that the others train.
    Returns rows with task, model, real and standin (mean AUC, or R^2), loss, upper, bar.  upper: one-sided 95% limit of the
    mean loss over the splits (Student; as if they shared no rows, which they do: it speaks of this file).
    """
    scores: dict[tuple[Task, str], list] = {(task, model): [] for task in stand.tasks for model in task.models}
    for split in range(splits):
        for by in dict.fromkeys(task.by for task in stand.tasks):
            rng = np.random.default_rng([seed, split])
            learnt, held = _held_back(stand, table, by, rng)
            fitted = stand.fit(learnt, rng)
            for task in (task for task in stand.tasks if task.by == by):
                real, test = (stand.arranged(rows, kind="real", of_rows=len(rows), variant=task.variant) for rows in (learnt, held))
                ours = _as_many(stand, fitted, real, task.variant, rng)
                for model in task.models:
                    scores[task, model].append([_score(model, given, test, task.columns, split) for given in (real, ours)])
    return [_summed_up(task, model, np.array(pairs)) for (task, model), pairs in scores.items()]


def marginals(table: pd.DataFrame, drawn: pd.DataFrame) -> dict:
    """The largest Kolmogorov-Smirnov distance of a column, and the largest and mean difference of rank correlations."""
    columns = [column for column in table.columns if table[column].nunique() > 1]
    distances = {column: stats.ks_2samp(table[column], drawn[column]).statistic for column in columns}
    worst = max(distances, key=distances.get)
    real, ours = (stats.spearmanr(rows[columns].to_numpy()).statistic for rows in (table, drawn))
    apart = np.abs(np.nan_to_num(real) - np.nan_to_num(ours))[np.triu_indices(len(columns), 1)]
    return {"ks_largest": float(distances[worst]), "ks_column": worst, "ks_median": float(np.median([*distances.values()])),
            "correlation_largest": float(apart.max()), "correlation_mean": float(apart.mean())}


def distances(stand: Stand, table: pd.DataFrame, *, by: str, columns: tuple[str, ...], rng: np.random.Generator) -> list[dict]:
    """How near sampled rows come to the rows that the stand-in was fitted on, beside how near real held-back rows come.

    Euclidean, over the normal scores of the columns (fitted on the fitting rows).  by: how rows are held back.
    Returns one row for each of QUANTILES: quantile, sampled, held_back, limit (lower 99% bootstrap limit of held_back).
    """
    from sklearn.neighbors import NearestNeighbors

    learnt, held = _held_back(stand, table, by, rng)
    drawn = stand.sample(stand.fit(learnt, rng), len(learnt), rng)
    kept = {column: knots(learnt[column].to_numpy()) for column in columns}
    near = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(_scores(learnt, kept))
    found = []
    for rows in (drawn, held):
        some = rows.iloc[rng.choice(len(rows), min(len(rows), _LOOKED_FOR), replace=False)]
        found.append(near.kneighbors(_scores(some, kept))[0][:, 0])
    sampled, held_back = found
    again = np.quantile(rng.choice(held_back, (1_000, len(held_back))), QUANTILES, axis=1)
    return [{"quantile": q, "sampled": float(np.quantile(sampled, q)), "held_back": float(np.quantile(held_back, q)),
             "limit": float(np.quantile(again[i], 0.01))} for i, q in enumerate(QUANTILES)]


def drift(time: str, followed: dict[str, str], table: pd.DataFrame, drawn: pd.DataFrame) -> list[dict]:
    """The mean of each followed column in eight blocks of the time column, for real and sampled rows.

    followed: column to what it is called.  Returns one row a column: about, real (8,), standin (8,), each as a ratio to the
    mean over all rows, and correlation between the two.
    """
    edges = np.linspace(table[time].min(), table[time].max() + 1e-9, BLOCKS + 1)[1:-1]
    rows = []
    for column, about in followed.items():
        real, ours = (one[column].groupby(np.searchsorted(edges, one[time], side="right")).mean().reindex(range(BLOCKS))
                      / one[column].mean() for one in (table, drawn))
        rows.append({"about": about, "real": real.tolist(), "standin": ours.tolist(), "correlation": float(real.corr(ours))})
    return rows


def _held_back(stand: Stand, table: pd.DataFrame, by: str, rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    if by == "time" and "account" in table:           # without chance of itself: a tenth of the companies is left out
        accounts = table["account"].unique()
        table = table[table["account"].isin(rng.choice(accounts, round(0.9 * len(accounts)), replace=False))]
    whole = stand.arranged(table, kind="real", of_rows=len(table), variant=stand.tasks[-1].variant)
    parts = train_test(whole, by=by, test_share=0.3, seed=int(rng.integers(2**31)))
    return table.iloc[parts.train], table.iloc[parts.test]


def _as_many(stand: Stand, fitted: dict, real: Dataset, variant: str, rng: np.random.Generator) -> Dataset:
    """Stand-in rows, as many as the real ones and as many of each label."""
    wanted = np.bincount(real.y, minlength=2) if real.is_classification else None
    rows = real.n_rows
    while True:
        ours = stand.arranged(stand.sample(fitted, rows, rng), kind="stand-in", of_rows=None, variant=variant)
        if wanted is None:
            return ours
        found = np.bincount(ours.y, minlength=2)
        if (found >= wanted).all():
            picked = [rng.choice(np.flatnonzero(ours.y == label), wanted[label], replace=False) for label in (0, 1)]
            return subset(ours, np.sort(np.concatenate(picked)))
        rows = int(rows * 1.1 * max(wanted / np.maximum(found, 1))) + 1


def _score(model: str, given: Dataset, test: Dataset, columns: tuple[str, ...], seed: int) -> float:
    from sklearn.metrics import r2_score, roc_auc_score

    use = [given.feature_names.index(column) for column in columns] if columns else slice(None)
    learner = MODELS[model](seed).fit(given.X[:, use], given.y)
    if given.is_classification:
        return roc_auc_score(test.y, learner.predict_proba(test.X[:, use])[:, 1])
    return r2_score(test.y, learner.predict(test.X[:, use]))


def _summed_up(task: Task, model: str, pairs: np.ndarray) -> dict:
    lost, n = pairs[:, 0] - pairs[:, 1], len(pairs)
    halfwidth = stats.t.ppf(0.95, n - 1) * lost.std(ddof=1) / np.sqrt(n)
    return {"task": task.about, "model": model, "real": float(pairs[:, 0].mean()), "standin": float(pairs[:, 1].mean()),
            "loss": float(lost.mean()), "lower": float(lost.mean() - halfwidth), "upper": float(lost.mean() + halfwidth),
            "bar": task.bar}


def _scores(rows: pd.DataFrame, kept: dict[str, np.ndarray]) -> np.ndarray:
    return np.column_stack([to_normal(rows[column].to_numpy(), own) for column, own in kept.items()])


def _scaled(learner):
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    return make_pipeline(StandardScaler(), FunctionTransformer(np.clip, kw_args={"a_min": -5, "a_max": 5}), learner)


def _logistic(seed):
    from sklearn.linear_model import LogisticRegression

    return _scaled(LogisticRegression(C=0.1, max_iter=2_000))


def _network(seed):
    from sklearn.neural_network import MLPClassifier

    return _scaled(MLPClassifier((32,), alpha=0.1, max_iter=40, random_state=seed))


def _boosted(seed):
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=100, learning_rate=0.05, max_leaf_nodes=8, random_state=seed)


def _linear(seed):
    from sklearn.linear_model import LinearRegression

    return _scaled(LinearRegression())


MODELS = {"logistic regression": _logistic, "network of 32": _network, "boosted trees": _boosted, "linear regression": _linear}
