"""The smallest of many numbers, the same ones on every processor."""

import numpy as np


def smallest(values: np.ndarray, n: int) -> np.ndarray:
    """Where the n smallest of some numbers stand; of equal ones those that come first.

    numpy.argpartition takes any of the equal ones: which, depends on the processor's instructions.

    values: (N,) finite numbers.  n: 1 <= n <= N.
    Returns (n,) int64, ascending.

    >>> smallest(np.array([2.0, 1.0, 2.0, 0.0, 2.0]), 3)
    array([0, 1, 3])
    """
    last = np.partition(values, n - 1)[n - 1]
    below = np.flatnonzero(values < last)
    equal = np.flatnonzero(values == last)
    return np.sort(np.concatenate([below, equal[: n - len(below)]]))
