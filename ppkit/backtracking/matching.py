"""Matching what an attack found with what is true, for who knows the truth."""

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist


def row_errors(found: np.ndarray, truth: np.ndarray | torch.Tensor) -> np.ndarray:
    """How far each true row is from its partner among the rows found, partners chosen so that the
    sum is least.

    found: (K, F).  truth: (N, F).  Returns (N,): the root mean square over the features, in their
    unit; infinity for a row that has no partner (K < N).

    >>> row_errors([[0.0, 0.0], [1.0, 1.0]], [[1.0, 1.0], [0.0, 0.1], [5.0, 5.0]]).round(3).tolist()
    [0.0, 0.071, inf]
    """
    distance = cdist(truth, found) / np.sqrt(np.shape(found)[1])
    errors = np.full(len(distance), np.inf)
    rows, partners = linear_sum_assignment(distance)
    errors[rows] = distance[rows, partners]
    return errors
