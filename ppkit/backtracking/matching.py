"""Matching what an attack found with what is true, for who knows the truth."""

import numpy as np
from scipy.optimize import linear_sum_assignment


def row_errors(found, truth) -> np.ndarray:
    """How far each true row is from its partner among the rows found, partners chosen so that the
    sum is least.

    found: (K, F).  truth: (N, F).  Returns (N,): the root mean square over the features, in their
    unit; infinity for a row that has no partner (K < N).  ValueError if the widths differ.

    >>> row_errors([[0.0, 0.0], [1.0, 1.0]], [[1.0, 1.0], [0.0, 0.1], [5.0, 5.0]]).round(3).tolist()
    [0.0, 0.071, inf]
    """
    found, truth = np.asarray(found, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    if found.ndim != 2 or truth.ndim != 2 or found.shape[1] != truth.shape[1]:
        raise ValueError(
            f"found and truth must be (K, F) and (N, F), got {found.shape} and {truth.shape}"
        )
    distance = np.sqrt(((truth[:, None] - found[None]) ** 2).mean(axis=2))
    errors = np.full(len(truth), np.inf)
    rows, partners = linear_sum_assignment(distance)
    errors[rows] = distance[rows, partners]
    return errors
