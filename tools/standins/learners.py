"""The models that learn from real rows and from a stand-in's, so that the two can be compared."""

from collections.abc import Callable

import numpy as np
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

# fewer training rows are shrunk harder: set after a first look, where real rows do best, too
FEW = 10_000


def _scaled(*learners):
    clip = FunctionTransformer(np.clip, kw_args={"a_min": -5, "a_max": 5})
    return make_pipeline(StandardScaler(), clip, *learners)


def _logistic(shrinkage: float):
    return _scaled(LogisticRegression(C=shrinkage, max_iter=2_000))


def _network(seed: int, n_rows: int):
    epochs = max(15, 150_000 // n_rows)  # some thousand steps of 64 rows, for few rows as for many
    return _scaled(
        MLPClassifier(
            (32,),
            alpha=5.0 if n_rows < FEW else 1.0,
            batch_size=64,
            max_iter=epochs,
            random_state=seed,
        )
    )


# by name: from a seed and the number of training rows, a model that has learned nothing yet
LEARNERS: dict[str, Callable] = {
    "logistic regression": lambda seed, n_rows: _logistic(0.01 if n_rows < FEW else 0.1),
    "logistic regression, C = .1": lambda seed, n_rows: _logistic(0.1),
    "MLP, 32 hidden": _network,
    "gradient boosting": lambda seed, n_rows: HistGradientBoostingClassifier(
        max_iter=100, learning_rate=0.05, max_leaf_nodes=8, random_state=seed
    ),
    "gradient boosting (regression)": lambda seed, n_rows: HistGradientBoostingRegressor(
        max_iter=100, learning_rate=0.1, random_state=seed
    ),
    "linear regression": lambda seed, n_rows: _scaled(LinearRegression()),
    "linear regression on ten components": lambda seed, n_rows: make_pipeline(
        PCA(10, random_state=seed), LinearRegression()
    ),
    "linear regression on ten components, scaled": lambda seed, n_rows: _scaled(
        PCA(10, random_state=seed), LinearRegression()
    ),
}
