"""What attacks take: arrays or tensors of finite numbers, checked at the public edge of each."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike

from ppkit.validation import binary, finite


def matrix(name: str, values: ArrayLike | torch.Tensor) -> np.ndarray:
    """A float64 matrix of finite values, of an array, a tensor or a table; ValueError that names
    it, otherwise."""
    if isinstance(values, torch.Tensor):
        values = values.detach()
    numbers = np.asarray(values, dtype=float)
    if numbers.ndim != 2:
        raise ValueError(f"{name} must be a matrix, got shape {numbers.shape}")
    finite(**{name: numbers})
    return numbers


def matrices(name: str, views: Sequence[ArrayLike | torch.Tensor]) -> list[np.ndarray]:
    """Several such matrices."""
    return [matrix(name, view) for view in views]


def bits_of(name: str, values: ArrayLike | torch.Tensor) -> np.ndarray:
    """One 0 or 1 for each record, as int64; ValueError that names it, otherwise."""
    bits = np.asarray(values)
    binary(**{name: bits})
    return bits.astype(np.int64)
