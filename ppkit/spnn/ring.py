"""Matrix products in the ring Z_2^64."""

from __future__ import annotations

import torch


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product of two matrices mod 2^64, exact: int64 wraps around.

    a: (N, K), b: (K, M), int64.  Returns (N, M) int64.  ValueError for another type or shapes that do not fit.

    >>> matmul(torch.tensor([[2**62, 3]]), torch.tensor([[4], [5]])).tolist()
    [[15]]
    """
    if a.dtype != torch.int64 or b.dtype != torch.int64:
        raise ValueError(f"ring elements are int64, got {a.dtype} and {b.dtype}")
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"shapes must be (N, K) and (K, M), got {tuple(a.shape)} and {tuple(b.shape)}")
    return a @ b
