"""What attacks take: arrays or tensors of finite numbers, checked at the public edge of each."""

from collections.abc import Sequence

import numpy as np
import torch
from scipy.sparse import issparse

from ppkit.refusals import binary, finite


def matrix(name: str, values) -> np.ndarray:
    """A float64 matrix of finite values, at least one, of an array, a tensor, a table or a sparse
    matrix (as scikit-learn's encoders make); ValueError that names it, otherwise."""
    values = values.detach().cpu() if hasattr(values, "detach") else values
    values = values.toarray() if issparse(values) else values
    try:
        values = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers only, got {error}") from None
    if values.ndim != 2 or values.size == 0:
        raise ValueError(f"{name} must be a matrix with rows and columns, got shape {values.shape}")
    finite(**{name: values})
    return values


def views_of(views: Sequence, name: str = "views") -> list[np.ndarray]:
    """At least one such matrix, all of one shape."""
    views = [matrix(name, view) for view in views]
    if not views or len({view.shape for view in views}) > 1:
        raise ValueError(
            f"{name} must be matrices of one shape, at least one, "
            f"got {sorted({view.shape for view in views})}"
        )
    return views


def bits_of(values, name: str, beside) -> np.ndarray:
    """One 0 or 1 for each record of `beside`, as int64; ValueError that names it, otherwise."""
    values = (
        values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
    )
    if values.shape != (len(beside),):
        raise ValueError(
            f"{name} must hold one bit a record, got shape {values.shape} for {len(beside)} records"
        )
    binary(**{name: values})
    return values.astype(np.int64)


def known_rows(known, X_known: np.ndarray, n_rows: int) -> np.ndarray:
    """The numbers of the rows whose features X_known (m, d) the attacker has, (m,) int64;
    ValueError unless they name m >= 1 different rows of n_rows."""
    known, m = np.asarray(known, int), len(X_known)
    named = len(np.unique(known))
    if known.shape != (m,) or named < m or known.min() < 0 or known.max() >= n_rows:
        raise ValueError(
            f"known must name {m} different rows of 0 to {n_rows - 1}, one for each row of "
            f"X_known, got {known.size} with {named} different"
        )
    return known
