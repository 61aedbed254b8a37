"""Gaussian mixtures over normal scores, fitted so that no component leans on a handful of rows."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from ppkit.datasets.standins.distributions import draw_mixture

from .columns import ROWS_A_KNOT, knots


def fit(
    Z: np.ndarray, n_components: int, rng: np.random.Generator, *, ridge: float = 1e-3
) -> dict[str, np.ndarray]:
    """A Gaussian mixture with full covariances, by expectation-maximisation from k-means.

    Z: (N, D).  n_components: wanted, >= 1; fewer where a component would hold under 50 rows.
    ridge: added to variances.
    Returns weights (K,), means (K, D), factors (K, D, D): lower Cholesky factors of the
    covariances, and marginals (D, m):
    the knots of the mixture's own columns, from 100,000 draws, for `to_normal`.
    """
    components = max(1, min(n_components, len(Z) // ROWS_A_KNOT))
    while True:
        model = GaussianMixture(
            components,
            reg_covar=ridge,
            max_iter=60,
            tol=1e-3,
            init_params="k-means++",
            random_state=int(rng.integers(2**31)),
        )
        with (
            warnings.catch_warnings()
        ):  # sixty rounds are enough: what counts is measured afterwards
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(Z)
        thin = int((model.weights_ * len(Z) < ROWS_A_KNOT).sum())
        if thin == 0 or components == 1:
            break
        components -= thin
    fitted = {
        "weights": model.weights_,
        "means": model.means_,
        "factors": np.linalg.cholesky(model.covariances_),
    }
    return fitted | {
        "marginals": np.array([knots(column) for column in draw_mixture(fitted, 100_000, rng).T])
    }
