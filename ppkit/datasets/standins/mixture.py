"""Gaussian mixtures over normal scores: fitted so that no component leans on a handful of rows, and sampled."""

import warnings

import numpy as np

from .marginals import knots

ROWS_A_COMPONENT = 50


def fit(Z: np.ndarray, n_components: int, rng: np.random.Generator, *, ridge: float = 1e-3) -> dict[str, np.ndarray]:
    """A Gaussian mixture with full covariances, by expectation-maximisation from k-means.

    Z: (N, D).  n_components: wanted, >= 1; fewer where a component would hold under 50 rows.  ridge: added to variances.
    Returns weights (K,), means (K, D), factors (K, D, D): lower Cholesky factors of the covariances, and marginals (D, m):
    the knots of the mixture's own columns, from 100,000 draws, for `to_normal`.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    components = max(1, min(n_components, len(Z) // ROWS_A_COMPONENT))
    while True:
        model = GaussianMixture(components, reg_covar=ridge, max_iter=60, tol=1e-3, init_params="k-means++",
                                random_state=int(rng.integers(2**31)))
        with warnings.catch_warnings():          # sixty rounds are enough: what counts is measured afterwards
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(Z)
        thin = int((model.weights_ * len(Z) < ROWS_A_COMPONENT).sum())
        if thin == 0 or components == 1:
            break
        components -= thin
    fitted = {"weights": model.weights_, "means": model.means_, "factors": np.linalg.cholesky(model.covariances_)}
    return fitted | {"marginals": np.array([knots(column) for column in sample(fitted, 100_000, rng).T])}


def sample(parameters: dict[str, np.ndarray], n: int, rng: np.random.Generator) -> np.ndarray:
    """n draws from the mixture, in random order of components.

    parameters: as `fit` returns them.  n: >= 0.  Returns (n, D) float64.
    """
    weights, means, factors = (np.asarray(parameters[key], np.float64) for key in ("weights", "means", "factors"))
    component = rng.choice(len(weights), n, p=weights / weights.sum())
    drawn = rng.standard_normal((n, means.shape[1]))
    for k in range(len(weights)):
        mine = np.flatnonzero(component == k)
        drawn[mine] = drawn[mine] @ factors[k].T + means[k]
    return drawn
