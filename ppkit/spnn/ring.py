"""Matrix products and sums in the ring Z_2^64, exact; a product takes one to four times as long as
float64's."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numba
import torch
from llvmlite import ir
from numba.extending import intrinsic
from torch import Tensor

_TILE = 8  # rows and columns that are multiplied together: 8 words are the widest vector
_WORTH_THREADS = 1 << 23  # multiplications: milliseconds, far more than starting threads takes


def matmul(a: Tensor, b: Tensor) -> Tensor:
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
    n, m = len(a), b.shape[1]
    if not a.numel() * m:
        return torch.zeros((n, m), dtype=torch.int64)
    a = a if n >= _TILE else torch.nn.functional.pad(a, (0, 0, 0, _TILE - n))
    tiles = torch.nn.functional.pad(b, (0, -m % _TILE)).reshape(len(b), -1, _TILE).transpose(0, 1)
    product = torch.empty((len(a), len(tiles) * _TILE), dtype=torch.int64)
    arrays = a.contiguous().numpy(), tiles.contiguous().numpy(), product.numpy()
    n_threads = torch.get_num_threads() if a.numel() * m >= _WORTH_THREADS else 1
    if n_threads == 1:
        _multiply(*arrays, 0, len(a))
    else:
        size = len(a) // n_threads + 1
        with ThreadPoolExecutor(n_threads) as pool:
            rows = lambda i: _multiply(*arrays, i, min(i + size, len(a)))
            list(pool.map(rows, range(0, len(a), size)))
    return product[:n, :m].contiguous()


def total(shares: Sequence[Tensor]) -> Tensor:
    """The sum of int64 tensors mod 2^64: what shares reveal."""
    first, *rest = shares
    if not rest:
        return first
    value = first + rest[0]
    for share in rest[1:]:
        value += share
    return value


def minus(value: Tensor, shares: Sequence[Tensor]) -> Tensor:
    """The share that makes the sum with these shares a value: value - total(shares) mod 2^64."""
    return value - total(shares)


@intrinsic
def _multiply_tile(_, a, b, c, k, stride):
    """c = a b of one tile, by vectors of eight words; k at least 1.

    a, b, c: addresses of (8, k), (k, 8) and (8, 8) words, the rows of c `stride` words apart. The
    eight sums stay in registers for all k. LLVM does not find these vectors in a loop by itself,
    or takes half of the width.
    """

    def build(context, code, _, given):
        a, b, c, k, stride = given
        word, index = ir.IntType(64), ir.IntType(32)
        vector = ir.VectorType(word, _TILE)
        entry, loop, end = code.block, code.append_basic_block(), code.append_basic_block()

        def row(start, i, n_words, kind):
            return code.inttoptr(code.add(start, code.mul(n_words, word(8 * i))), kind.as_pointer())

        code.branch(loop)
        code.position_at_end(loop)
        old = [code.phi(kind) for kind in [word] + _TILE * [vector]]
        right = code.load(code.gep(row(b, 0, k, vector), old[:1]), align=8)
        new = [code.add(old[0], word(1))]
        for i, partial in enumerate(old[1:]):
            left = code.load(code.gep(row(a, i, k, word), old[:1]))
            left = code.insert_element(vector(ir.Undefined), left, index(0))
            left = code.shuffle_vector(left, left, ir.VectorType(index, _TILE)(None))
            new.append(code.add(partial, code.mul(left, right)))
        for before, after in zip(old, new):
            before.add_incoming(before.type(None), entry)
            before.add_incoming(after, loop)
        code.cbranch(code.icmp_signed("<", new[0], k), loop, end)
        code.position_at_end(end)
        for i, value in enumerate(new[1:]):
            code.store(value, row(c, i, stride, vector), align=8)
        return context.get_dummy_value()

    return numba.types.void(a, b, c, k, stride), build


@numba.njit(nogil=True, cache="NUMBA_CACHE_DIR" in os.environ)
def _multiply(a, b, c, first, last):
    """Rows first to last of c = a b, and up to seven before them, which another thread may write,
    too, with the same values.

    a (N, K), b (T, K, 8): its tiles of eight columns, c (N, 8 T), contiguous int64; N at least 8.
    """
    n, k = a.shape
    for start in range(first, last, _TILE):
        i = min(start, n - _TILE)
        for t in range(len(b)):
            _multiply_tile(
                a.ctypes.data + 8 * k * i,
                b.ctypes.data + 8 * k * _TILE * t,
                c.ctypes.data + 8 * (c.shape[1] * i + _TILE * t),
                k,
                c.shape[1],
            )
