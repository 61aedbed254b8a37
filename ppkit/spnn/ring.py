"""Matrix products and sums in the ring Z_2^64, exact; a product takes one to four times as long as
float64's."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numba
import torch

_WORTH_THREADS = 1 << 23  # multiplications: milliseconds, far more than starting threads takes


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product of two matrices mod 2^64, exact: int64 wraps around.

    c_ij = sum_k a_ik b_kj mod 2^64

    a: (N, K), b: (K, M), int64, on the processor.  Returns (N, M) int64.  Large products go by
    blocks of rows over torch.get_num_threads() threads. torch.mm of int64 is exact too, and 30
    times slower than float64's on a processor whose vectors cannot multiply 64-bit integers (AVX2).
    ValueError for another type or shapes that do not fit.

    >>> matmul(torch.tensor([[2**62, 3]]), torch.tensor([[4], [5]])).tolist()
    [[15]]
    """
    if a.dtype != torch.int64 or b.dtype != torch.int64:
        raise ValueError(f"ring elements are int64, got {a.dtype} and {b.dtype}")
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(
            f"shapes must be (N, K) and (K, M), got {tuple(a.shape)} and {tuple(b.shape)}"
        )
    product = torch.empty((a.shape[0], b.shape[1]), dtype=torch.int64)
    rows, columns, out = a.contiguous().numpy(), b.contiguous().numpy(), product.numpy()
    n_threads = torch.get_num_threads() if a.numel() * b.shape[1] >= _WORTH_THREADS else 1
    if n_threads == 1:
        _multiply(rows, columns, out)
    else:
        size = len(rows) // n_threads + 1
        blocks = [slice(start, start + size) for start in range(0, len(rows), size)]
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(lambda block: _multiply(rows[block], columns, out[block]), blocks))
    return product


def total(shares: Sequence[torch.Tensor]) -> torch.Tensor:
    """The sum of int64 tensors mod 2^64: what shares reveal."""
    return sum(shares[1:], shares[0])


def minus(value: torch.Tensor, shares: Sequence[torch.Tensor]) -> torch.Tensor:
    """The share that makes the sum with these shares a value: value - total(shares) mod 2^64."""
    return value - total(shares)


@numba.njit(nogil=True, cache="NUMBA_CACHE_DIR" in os.environ)
def _multiply(a, b, c):
    """c = a b; a (N, K), b (K, M), c (N, M), contiguous int64.

    Two rows of `a` and four of `b` at a time, so that a row of `c` is read and written once for
    four multiplications; with more rows the check that none overlap costs more than it saves at 8
    columns.
    """
    n, n_inner = a.shape
    n_columns = b.shape[1]
    i = 0
    while i + 2 <= n:
        c0, c1 = c[i], c[i + 1]
        c0[:] = 0
        c1[:] = 0
        k = 0
        while k + 4 <= n_inner:
            p0, p1, p2, p3 = a[i, k], a[i, k + 1], a[i, k + 2], a[i, k + 3]
            q0, q1, q2, q3 = a[i + 1, k], a[i + 1, k + 1], a[i + 1, k + 2], a[i + 1, k + 3]
            b0, b1, b2, b3 = b[k], b[k + 1], b[k + 2], b[k + 3]
            for j in range(n_columns):
                x0, x1, x2, x3 = b0[j], b1[j], b2[j], b3[j]
                c0[j] += p0 * x0 + p1 * x1 + p2 * x2 + p3 * x3
                c1[j] += q0 * x0 + q1 * x1 + q2 * x2 + q3 * x3
            k += 4
        while k < n_inner:
            p0, q0, b0 = a[i, k], a[i + 1, k], b[k]
            for j in range(n_columns):
                c0[j] += p0 * b0[j]
                c1[j] += q0 * b0[j]
            k += 1
        i += 2
    if i < n:
        c0 = c[i]
        c0[:] = 0
        for k in range(n_inner):
            p0, b0 = a[i, k], b[k]
            for j in range(n_columns):
                c0[j] += p0 * b0[j]
