"""Hidden subset sums: each lattice against what defines it, and the whole against the truth."""

import itertools

import numpy as np
import pytest

from ppkit.backtracking import lattice


def hidden(K, n, F=12, seed=0):
    """Sums H = S Y, with every column of S another one."""
    rng = np.random.default_rng(seed)
    S, Y = rng.integers(2, size=(K, n)), rng.normal(size=(n, F))
    assert len(np.unique(S, axis=1).T) == n
    return S, Y, S @ Y


def with_truth(Y):
    """Says of vectors found which are among the true ones."""
    return lambda subsets, found: np.isclose(found[:, None], Y, atol=1e-3).all(axis=2).any(axis=1)


@pytest.mark.parametrize("K, n", [(20, 3), (32, 12), (32, 20), (64, 24)])
def test_combinations_that_are_zero_in_the_sums_are_zero_in_every_subset(K, n):
    S, Y, H = hidden(K, n)
    combinations = lattice.orthogonal(H, n, rounding=1e-15).astype(np.int64)
    assert combinations.shape == (K - n, K)
    assert np.linalg.matrix_rank(combinations.astype(float)) == K - n
    assert not (combinations @ S).any()


def test_how_many_subsets_there_are_is_seen_in_the_sums():
    S, Y, H = hidden(40, 14)
    for n in (14, 16, 20, 39):  # the attacker's guess, an upper bound
        assert len(lattice.orthogonal(H, n, rounding=1e-15)) == 40 - 14
    S[:, 1] = S[:, 0]  # two vectors in the same sums are one
    assert len(lattice.orthogonal(S @ Y, 14, rounding=1e-15)) == 40 - 13


def test_the_kernel_holds_every_subset_and_nothing_that_is_not_orthogonal():
    S, _, H = hidden(32, 12)
    combinations = lattice.orthogonal(H, 12, rounding=1e-15)
    basis = lattice.kernel(combinations).astype(np.int64)
    assert basis.shape == (12, 32) and not (combinations.astype(np.int64) @ basis.T).any()
    weights = np.linalg.lstsq(basis.T.astype(float), S.astype(float), rcond=None)[0]
    assert (basis.T @ weights.round().astype(np.int64) == S).all()


@pytest.mark.parametrize("seed", range(5))
def test_zeros_and_ones_of_a_small_lattice_are_those_that_counting_finds(seed):
    """Oracle: all combinations of the basis with weights from -3 to 3."""
    rng = np.random.default_rng(seed)
    S = rng.integers(2, size=(14, 4))
    basis = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [0, -1, 1, 0], [0, 2, 0, 1]]) @ S.T
    weights = np.array(list(itertools.product(range(-3, 4), repeat=4)))
    vectors = weights @ basis
    is_pattern = ((vectors == 0) | (vectors == 1)).all(axis=1) & vectors.any(axis=1)
    counted = {tuple(vector) for vector in vectors[is_pattern]}
    found = {tuple(vector) for vector in lattice.patterns(basis, rng=rng)}
    assert {tuple(column) for column in S.T} <= counted
    assert found <= counted and np.linalg.matrix_rank(np.array(sorted(found))) == 4


@pytest.mark.parametrize("K, n", [(32, 20), (64, 40), pytest.param(64, 48, marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", range(2))
def test_all_subsets_and_vectors_come_out(K, n, seed):
    S, Y, H = hidden(K, n, seed=seed)
    found = lattice.solve(
        H, n, rounding=1e-15, rng=np.random.default_rng(seed), confirmed=with_truth(Y)
    )
    assert found.sure.all() and found.residual < 1e-12
    assert {tuple(column) for column in found.subsets.T} == {tuple(column) for column in S.T}
    assert np.allclose(found.subsets @ found.vectors, H, atol=1e-10)


def test_as_many_vectors_as_sums_hide_themselves():
    _, Y, H = hidden(16, 16, F=20)
    rng = np.random.default_rng(0)
    for n in (16, 20):
        assert lattice.solve(H, n, rounding=1e-15, rng=rng, confirmed=with_truth(Y)) is None


def test_small_errors_in_the_sums_are_borne_and_large_ones_are_not():
    S, Y, H = hidden(64, 16)
    errors = np.linalg.norm(H, 2) * np.random.default_rng(1).normal(size=H.shape)

    def found(size):
        rng = np.random.default_rng(0)
        return lattice.solve(H + size * errors, 16, rounding=size, rng=rng, confirmed=with_truth(Y))

    assert {tuple(column) for column in found(1e-6).subsets.T} == {tuple(s) for s in S.T}
    lost = found(1e-1)
    assert lost is None or not lost.sure.any()
