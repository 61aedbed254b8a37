"""A hidden subset sum, and how lattice reduction solves it.

Somebody adds up unknown vectors Y_1 ... Y_n, K times, each time over another unknown subset, and
shows the K sums. Which vectors were they?

    H = S Y,    H (K, F) known,    S (K, n) of zeros and ones,    Y (n, F)

An integer combination of the sums that is 0 in H is 0 in S too, if its weights are small. These
combinations form a lattice. What is orthogonal to all of them is a second lattice, which holds the
columns of S; they are its vectors of zeros and ones. Then Y = S^+ H.
The vectors of zeros and ones are short: with ones for zeros and halves taken off, (2 s - 1), every
entry is 1 or -1, and hardly any other vector of the lattice {2 B, 1} is as short. LLL finds some
of them, and pairwise differences of short vectors, shortest first, find the others (a sieve).
Source: Nguyen and Stern 1999 for the first lattice; Coron and Gini 2020 for the second and
{2 B, 1}, with a block reduction where we sieve (Nguyen and Vidick 2008).
What a gradient has to do with it is in `subset_sums`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from flint import fmpz_mat

from ppkit.ordering import smallest

_KERNEL = 10**12  # what a combination that is not orthogonal weighs, beside its length
_JUMP = 5.0  # in length, from combinations that are 0 to those that are not
_LONGEST = 2000  # an entry above this in a reduced basis: there is nothing short to be found
_BLOCK = 1000  # vectors whose differences with all others are looked at in one go


@dataclass(frozen=True)
class Effort:
    """How long the search may take.

    bits: of H that are used, at most: fewer reduce faster, more allow more subsets.
    sizes: vectors that the sieve holds, the next number where one was not enough.
    n_passes: of the sieve over all pairs, at most.
    n_choices: sets of patterns that are tried, at most.
    """

    bits: int = 44
    sizes: tuple[int, ...] = (500, 3_000)
    n_passes: int = 40
    n_choices: int = 50


@dataclass(frozen=True, eq=False)
class Solution:
    """subsets: (K, m) of zeros and ones, a column a vector.  vectors: (m, F) float64.
    sure: (m,) bool, which of them the caller's test confirmed.  residual: root mean square of
    H - S Y, which is about the error of the vectors' entries."""

    subsets: np.ndarray
    vectors: np.ndarray
    sure: np.ndarray
    residual: float


def solve(
    H: np.ndarray,
    n: int,
    *,
    rounding: float,
    rng: np.random.Generator,
    confirmed: Callable[[np.ndarray, np.ndarray], np.ndarray],
    effort: Effort = Effort(),
) -> Solution | None:
    """The subsets and vectors of a hidden subset sum.

    H: (K, F), finite.  n: vectors, at least 1; there may be fewer, where some are in the same sums.
    rounding: standard deviation of the errors in H, by its largest singular value; at least 1e-16.
    confirmed: takes subsets (K, m) and vectors (m, F), and says (m,) for which vectors they agree;
    several sets of subsets fit H, and only the caller knows what a vector may be.
    Returns the Solution with the most that are sure, or None where no m subsets are found.

    >>> rng = np.random.default_rng(0)
    >>> Y, S = rng.normal(size=(6, 8)), rng.integers(2, size=(20, 6))
    >>> mine = lambda subsets, Y_found: np.isclose(Y_found[:, None], Y).all(axis=2).any(axis=1)
    >>> found = solve(S @ Y, 6, rounding=1e-15, rng=rng, confirmed=mine)
    >>> bool(found.sure.all()), {tuple(s) for s in found.subsets.T} == {tuple(s) for s in S.T}
    (True, True)
    """
    if n >= len(H):
        return None
    combinations = orthogonal(H, n, rounding=rounding, bits=effort.bits)
    basis = kernel(combinations)
    m = len(H) - len(combinations)
    if len(basis) != m or np.abs(basis).max() > _LONGEST:
        return None
    candidates = patterns(basis.astype(np.int64), rng=rng, effort=effort)
    best = None
    first = np.zeros(0, dtype=np.int64)  # candidates that were confirmed: they come first
    for _ in range(effort.n_choices):
        others = np.setdiff1d(rng.permutation(len(candidates)), first, assume_unique=True)
        chosen = _independent(candidates, np.concatenate([first, rng.permutation(others)]), m)
        if len(chosen) < m:
            break
        subsets = candidates[chosen].T
        vectors = np.linalg.lstsq(subsets.astype(float), H, rcond=None)[0]
        sure = confirmed(subsets, vectors)
        if best is None or sure.sum() > best.sure.sum():
            residual = float(np.sqrt(np.mean((H - subsets @ vectors) ** 2)))
            best = Solution(subsets, vectors, sure, residual)
            first = chosen[sure]
        if sure.all() or len(candidates) == m:
            break
    return best


def orthogonal(H: np.ndarray, n: int, *, rounding: float, bits: int = 44) -> np.ndarray:
    """Short integer combinations of the lines of H that are 0.

    LLL on [I | C],  C = U S / max(rounding, 2^-bits) rounded to integers,  H = U S V^T,  s_1 = 1

    H: (K, F).  n: 1 <= n < K.  rounding: as in `solve`.
    Returns (K - m, K) integers.  m, from 1 to n, is the number of subsets that H shows: after K - m
    combinations the lengths jump, because the next ones are 0 in H for no subset's sake.  It is
    below n where two vectors are in the same sums, or where some are as small as rounding.
    """
    U, s, _ = np.linalg.svd(H, full_matrices=False)
    unit = max(rounding, 2.0**-bits)
    columns = U * (s / s[0] / unit)
    told = s / s[0] > 4 * unit * np.sqrt(len(H))  # the others are rounding
    K = len(H)
    identity = np.eye(K, dtype=np.int64).astype(object)
    reduced = _reduced(np.hstack([identity, _integers(columns[:, told])]))
    lengths = np.array([float(line @ line) for line in reduced]) ** 0.5
    jumps = lengths[1:] / np.maximum.accumulate(lengths)[:-1]
    fewest = K - n  # combinations that must be 0
    first = np.argmax(jumps[fewest - 1 :] > _JUMP)  # 0 if there is none: then n subsets
    return reduced[: fewest + int(first), :K]


def kernel(combinations: np.ndarray) -> np.ndarray:
    """A reduced basis of the integer vectors orthogonal to all lines: (K - m, K) of (m, K)."""
    m, K = combinations.shape
    identity = np.eye(K, dtype=np.int64).astype(object)
    reduced = _reduced(np.hstack([_KERNEL * combinations.T, identity]))
    is_orthogonal = ~reduced[:, :m].any(axis=1)
    return _reduced(reduced[is_orthogonal, m:])


def patterns(basis: np.ndarray, *, rng: np.random.Generator, effort: Effort = Effort()):
    """Vectors of zeros and ones of a lattice, (P, K), without 0: as many as it takes for P to have
    the rank of the lattice, or as are found.

    basis: (m, K) integers.  rng: draws the vectors with which the sieve begins.
    """
    m, K = basis.shape
    doubled = np.vstack([2 * basis, np.ones((1, K), dtype=np.int64)])
    reduced = _reduced(doubled).astype(np.int64)
    reduced = reduced[reduced.any(axis=1)]
    inverse = np.linalg.pinv(basis.astype(float))

    def of_lattice(vectors):
        signs = vectors[(np.abs(vectors) == 1).all(axis=1)]
        halves = np.unique(np.vstack([1 + signs, 1 - signs]) // 2, axis=0)
        inside = ((halves @ inverse).round().astype(np.int64) @ basis == halves).all(axis=1)
        return halves[inside & halves.any(axis=1)]

    found = of_lattice(reduced)
    for size in effort.sizes:
        for vectors in _sieve(reduced, size, effort.n_passes, rng):
            found = of_lattice(vectors)
            if len(found) >= m and np.linalg.matrix_rank(found.astype(float)) == m:
                return found
    return found


def _sieve(basis: np.ndarray, size: int, n_passes: int, rng: np.random.Generator):
    """The shortest vectors that differences of pairs give, after each pass, until a pass makes none
    shorter: those of ones and minus ones, and `size` others at most, none of which is a combination
    of these. (Their combinations are short, and would fill the sieve.)"""
    n, K = basis.shape
    key = rng.integers(-(2**40), 2**40, size=(K,))
    weights = rng.integers(-1, 2, size=(size, n)) * (rng.random((size, n)) < 3 / n)
    # int32 takes half the memory; a reduced basis has entries of some thousands at most
    vectors = _different(np.vstack([basis, weights @ basis]).astype(np.int32), key)
    total = np.inf
    for _ in range(n_passes):
        signs = vectors[(np.abs(vectors) == 1).all(axis=1)]
        others = _shortest(_outside(vectors, signs), size)
        vectors = np.vstack([signs, _shortest(vectors, size), others])
        vectors = _different(vectors, key)
        yield vectors
        vectors = _different(np.vstack([vectors, *_differences(vectors)]), key)
        before, total = total, float(_squared(others).sum()) / max(1, len(others))
        if total > (1 - 1e-4) * before:
            return


def _outside(vectors: np.ndarray, of: np.ndarray) -> np.ndarray:
    """Those of the vectors that are no combination of some others."""
    if len(of) == 0:
        return vectors
    directions, lengths, _ = np.linalg.svd(of.T.astype(float), full_matrices=False)
    directions = directions[:, lengths > 1e-6 * lengths[0]]
    rest = np.concatenate([_rest(part, directions) for part in _blocks(vectors)])
    return vectors[rest > 1e-6]


def _rest(vectors: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Squared lengths of what the directions leave of the vectors."""
    rest = vectors - (vectors @ directions) @ directions.T
    return (rest**2).sum(axis=1)


def _differences(vectors: np.ndarray):
    """x - y or x + y of all pairs, where it is shorter than the longest vector; of very many the
    shortest, about 60 a vector."""
    exact = vectors.astype(np.float32)  # integers below 2^24
    squares = (exact**2).sum(axis=1)
    for start in range(0, len(vectors), _BLOCK):
        block = slice(start, start + _BLOCK)
        products = exact[block] @ exact[start:].T
        lengths = squares[block, None] + squares[start:] - 2 * np.abs(products)
        shorter = lengths < squares.max()
        shorter[:, :_BLOCK] = np.triu(shorter[:, :_BLOCK], k=1)  # a pair once, and no vector twice
        one, two = np.nonzero(shorter)
        if len(one) > 60 * _BLOCK:
            short = smallest(lengths[one, two], 60 * _BLOCK)
            one, two = one[short], two[short]
        signs = np.where(products[one, two] > 0, 1, -1).astype(vectors.dtype)
        yield vectors[start + one] - signs[:, None] * vectors[start + two]


def _shortest(vectors: np.ndarray, size: int) -> np.ndarray:
    lengths = np.concatenate([_squared(part) for part in _blocks(vectors)])
    return vectors[np.argsort(lengths, kind="stable")[:size]]


def _squared(vectors: np.ndarray) -> np.ndarray:
    """Their squared lengths, int64."""
    return (vectors.astype(np.int64) ** 2).sum(axis=1)


def _blocks(vectors: np.ndarray) -> list[np.ndarray]:
    """Their parts: a sieve holds hundreds of thousands, and no copy of all of them is needed."""
    return np.array_split(vectors, len(vectors) // _BLOCK + 1)


def _different(vectors: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Each vector other than 0 once, up to its sign.

    key: random weights; vectors of one sum of weights, up to its sign, count as one."""
    sums = np.concatenate([part @ key for part in _blocks(vectors)])
    sums, at = np.unique(np.abs(sums), return_index=True)
    return vectors[at[sums != 0]]


def _independent(lines: np.ndarray, order: np.ndarray, m: int) -> np.ndarray:
    """The first m of the lines, in that order, none of which depends on those before it."""
    directions = np.zeros((m, lines.shape[1]))
    chosen: list[int] = []
    for i in order:
        rest = lines[i].astype(float)
        for _ in range(2):  # twice, for the digits
            rest -= directions.T @ (directions @ rest)
        length = np.linalg.norm(rest)
        if length > 1e-6:
            directions[len(chosen)] = rest / length
            chosen.append(int(i))
        if len(chosen) == m:
            break
    return np.array(chosen, dtype=np.int64)


def _integers(values: np.ndarray) -> np.ndarray:
    return np.array([[round(x) for x in line] for line in values.tolist()], dtype=object)


def _reduced(lines: np.ndarray) -> np.ndarray:
    """LLL, about the shortest first; Python's integers."""
    matrix = fmpz_mat([[int(x) for x in line] for line in lines]).lll()
    return np.array([[int(x) for x in line] for line in matrix.tolist()], dtype=object)
