"""What attacks take: arrays or tensors of finite numbers, checked at the public edge of each."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike

from ppkit.validation import binary, finite, numbers


def matrix(name: str, values: ArrayLike | torch.Tensor) -> np.ndarray:
    """A float64 matrix of finite values, of an array, a tensor or a table; ValueError that names
    it, otherwise."""
    array = numbers(name, _detached(values))
    if array.ndim != 2 or not array.size:
        raise ValueError(f"{name} must be a matrix, got shape {array.shape}")
    finite(**{name: array})
    return array


def matrices(name: str, views: Sequence[ArrayLike | torch.Tensor]) -> list[np.ndarray]:
    """Several such matrices, one or more and of one shape."""
    arrays = [matrix(name, view) for view in views]
    shapes = [array.shape for array in arrays]
    if len(set(shapes)) != 1:
        raise ValueError(f"{name} must be one matrix or more, all of one shape, got {shapes}")
    return arrays


def deviations(values: np.ndarray) -> np.ndarray:
    """Standard deviation of each column (N, width) -> (width,), or of a vector; 0 where all that
    varies is rounding.

    >>> deviations(np.array([[1 / 3, 0.0], [1 / 3, 2.0], [1 / 3, 4.0]])).round(2)
    array([0.  , 1.63])
    """
    found = values.std(axis=0)
    return np.where(found <= 1e-12 * np.abs(values.mean(axis=0)), 0.0, found)


def rows_of(name: str, values: ArrayLike | torch.Tensor, n_rows: int) -> np.ndarray:
    """Numbers of some of n_rows rows, as int64 (m,); ValueError that names them, otherwise."""
    rows = np.asarray(_detached(values))
    is_whole = rows.ndim == 1 and (rows.dtype.kind in "iu" or not rows.size)
    if not is_whole or (rows.size and not (rows.min() >= 0 and rows.max() < n_rows)):
        raise ValueError(
            f"{name} must be row numbers of 0 to {n_rows - 1} (of a mask, np.flatnonzero makes "
            f"them), got {rows.dtype} of shape {rows.shape}"
            + (f", {rows.min()} to {rows.max()}" if is_whole else "")
        )
    return rows.astype(np.int64)


def bits_of(name: str, values: ArrayLike | torch.Tensor) -> np.ndarray:
    """One 0 or 1 for each record, as int64; ValueError that names it, otherwise."""
    bits = np.asarray(_detached(values))
    if bits.ndim != 1 or not bits.size:
        raise ValueError(f"{name} must be one 0 or 1 for each record, got shape {bits.shape}")
    binary(**{name: bits})
    return bits.astype(np.int64)


def scores_of(name: str, values: ArrayLike | torch.Tensor) -> np.ndarray:
    """One finite number for each record, as float64; ValueError that names it, otherwise."""
    scores = numbers(name, _detached(values))
    if scores.ndim != 1:
        raise ValueError(f"{name} must be one number for each record, got shape {scores.shape}")
    finite(**{name: scores})
    return scores


def _detached(values: ArrayLike | torch.Tensor) -> ArrayLike:
    return values.detach().numpy() if isinstance(values, torch.Tensor) else values
