"""Gaussian mixtures, fitted so that no component leans on a handful of rows."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from .columns import ROWS_A_KNOT


def fit(
    Z: np.ndarray,
    n_components: int,
    rng: np.random.Generator,
    *,
    ridge: float = 1e-3,
    steps: int = 60,
    start: dict[str, np.ndarray] | None = None,
) -> dict[str, np.ndarray]:
    """A Gaussian mixture with full covariances, by expectation-maximisation from k-means++.

    Components under 50 rows are dropped, and the others go on from where they are.
    Z: (N, D).  n_components: wanted at the start, >= 1.
    ridge: share of a column's variance that is added to its variance in each component.
    steps: of expectation-maximisation, at most, after each drop.  start: a mixture to go on from,
    instead of k-means++.
    Returns weights (K,), means (K, D), factors (K, D, D): lower Cholesky factors of the
    covariances.
    """
    scale = np.where(Z.std(axis=0) > 1e-9, Z.std(axis=0), 1.0)
    model = GaussianMixture(
        max(1, min(n_components, len(Z) // ROWS_A_KNOT)),
        reg_covar=ridge,
        max_iter=steps,
        tol=1e-3,
        init_params="k-means++",
        random_state=int(rng.integers(2**31)),
    )
    if start is not None:
        factors = start["factors"] / scale[:, None]
        model.set_params(
            n_components=len(start["weights"]),
            weights_init=start["weights"] / start["weights"].sum(),
            means_init=start["means"] / scale,
            precisions_init=np.linalg.inv(factors @ factors.transpose(0, 2, 1)),
        )
    while True:
        with warnings.catch_warnings():  # what counts is measured later
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(Z / scale)
        kept = model.weights_ * len(Z) >= ROWS_A_KNOT
        if kept.all() or model.n_components == 1:
            break
        kept[np.argmax(model.weights_)] = True
        model.set_params(
            n_components=int(kept.sum()),
            weights_init=model.weights_[kept] / model.weights_[kept].sum(),
            means_init=model.means_[kept],
            precisions_init=model.precisions_[kept],
        )
    return {
        "weights": model.weights_,
        "means": model.means_ * scale,
        "factors": scale[:, None] * np.linalg.cholesky(model.covariances_),
    }
