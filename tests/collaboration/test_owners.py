"""Owners, blocks and clipping: what is public, and what is refused."""

import math

import numpy as np
import pytest

from ppkit.collaboration.owners import Bounds, Owner, blocks, check_bounds, clip_records


def rows(n=12, p=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, p)) * 5, rng.standard_normal(n)


def test_blocks_are_consecutive_and_share_the_memory():
    X, y = rows()
    owners = blocks(X, y, (5, 1, 4))
    assert [(owner.name, owner.n_records) for owner in owners] == [("1", 5), ("2", 1), ("3", 4)]
    np.testing.assert_array_equal(np.concatenate([owner.X for owner in owners]), X[:10])
    np.testing.assert_array_equal(np.concatenate([owner.y for owner in owners]), y[:10])
    assert all(np.shares_memory(owner.X, X) for owner in owners)


def test_an_owner_is_float64_in_c_order():
    X, y = rows()
    other = Owner("b", np.asfortranarray(X.astype(np.float32)), y.astype(int))
    assert other.X.dtype == other.y.dtype == np.float64 and other.X.flags.c_contiguous


def test_moments_are_the_gram_matrices_per_record():
    X, y = rows(9_001)
    A, b, c = Owner("a", X, y).moments
    np.testing.assert_allclose(A, sum(np.outer(x, x) for x in X) / 9_001, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(b, sum(x * t for x, t in zip(X, y)) / 9_001, rtol=1e-11, atol=1e-13)
    assert c == pytest.approx(sum(t * t for t in y) / 9_001, rel=1e-12)


@pytest.mark.parametrize("constant", [False, True])
def test_clipping_scales_long_rows_down_and_leaves_short_ones(constant):
    X, _ = rows(200)
    X[0] = 0.0
    X[1] = (1.5, -0.5, 1.0)
    clipped = clip_records(X, l1_bound=4.0 + constant, constant=constant)
    norms = np.abs(X).sum(axis=1)
    assert (norms > 4).sum() > 100
    for x, got, norm in zip(X, clipped, norms):
        np.testing.assert_allclose(got[:3], x if norm <= 4 else x * 4 / norm, rtol=1e-15)
    assert np.abs(clipped).sum(axis=1).max() <= (4.0 + constant) * (1 + 1e-15)
    if constant:
        assert clipped.shape == (200, 4) and (clipped[:, 3] == 1).all()
    check_bounds(blocks(clipped, np.ones(200), (200,)), Bounds(4.0 + constant, 1.0), signs=False)


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda: Owner("a", np.zeros((0, 3)), np.zeros(0)),
            r"owner a: X must be .* with n, p >= 1, got \(0, 3\)",
        ),
        (
            lambda: Owner("a", np.zeros((2, 3)), np.zeros(3)),
            r"owner a: X must be \(n, p\) and y \(n,\) .*, got \(2, 3\) and \(3,\)",
        ),
        (
            lambda: Owner("a", np.array([[1.0, np.nan], [1, 2]]), np.zeros(2)),
            "owner a: X must be finite, got 1 of",
        ),
        (
            lambda: Owner("a", np.zeros((2, 3)), np.array([1.0, np.inf])),
            "owner a: y must be finite, got 1 of",
        ),
        (lambda: blocks(*rows(), (6, 7)), r"sizes \(6, 7\) ask for 13 records, the data has 12"),
        (lambda: Bounds("1", 1), "record_l1 must be a finite number > 0, got '1'"),
        (
            lambda: clip_records(rows()[0], l1_bound=0.0),
            "l1_bound, less the constant, must be a finite number > 0, got 0.0",
        ),
        (
            lambda: clip_records(rows()[0], l1_bound=1.0, constant=True),
            "l1_bound, less the constant, must be a finite number > 0, got 0.0",
        ),
        (
            lambda: clip_records(rows()[0], l1_bound=math.nan),
            "l1_bound, .* must be a finite number > 0, got nan",
        ),
        (lambda: Bounds(0.0, 1.0), "record_l1 must be a finite number > 0, got 0.0"),
        (lambda: Bounds(1.0, -2.0), "theta_max must be a finite number > 0, got -2.0"),
        (lambda: Bounds(1.0, 2.0, math.inf), "label must be a finite number > 0, got inf"),
        (
            lambda: check_bounds(
                [Owner("a", np.ones((2, 3)), np.array([1, 0]))], Bounds(3.0, 1.0), signs=True
            ),
            "owner a: labels must be -1 or .1 for this loss, got 0.0",
        ),
        (
            lambda: check_bounds(
                [Owner("a", np.ones((2, 3)), np.ones(2))], Bounds(2.9, 1.0), signs=False
            ),
            "owner a: a record is beyond record_l1 = 2.9: 3",
        ),
        (lambda: Bounds(1.0, 2.0, record_l2=0.0), "record_l2 must be a finite number > 0, got 0.0"),
        (
            lambda: check_bounds(
                [Owner("a", np.ones((2, 4)), np.ones(2))],
                Bounds(4.0, 1.0, record_l2=1.9),
                signs=False,
            ),
            "owner a: a record is beyond record_l2 = 1.9: 2",
        ),
        (
            lambda: check_bounds(
                [Owner("a", np.ones((2, 3)), np.array([0.5, -2]))], Bounds(3.0, 1.0), signs=False
            ),
            "owner a: a record is beyond label = 1: 2",
        ),
        (lambda: Owner("a", [["F"], ["M"]], [1, 2]), "owner a: X must be numbers, with text as co"),
        (lambda: Owner("a", [[1.0]], ["benign"]), "owner a: y must be numbers, with text as codes"),
        (lambda: blocks(np.ones((5, 1)), np.ones(6), (2, 2)), "X and y must have the same rows, "),
        (lambda: blocks(np.ones((5, 1)), np.ones(5), ()), "sizes must name the records of one ow"),
        (lambda: blocks(np.ones((5, 1)), np.ones(5), (0.5, 0.5)), "a size must be a whole .* 0.5"),
        (lambda: blocks(np.ones((5, 1)), np.ones(5), (4, -2)), "a size must be a whole .* got -2"),
        (lambda: clip_records([[1.0, np.nan]], l1_bound=1.0), "X must be finite, got 1 of 2"),
        (lambda: clip_records([["F"]], l1_bound=1.0), "X must be numbers, with text as codes"),
        (lambda: clip_records([1.0, 2.0], l1_bound=1.0), r"X must be \(n, p\), got shape \(2,\)"),
        (
            lambda: check_bounds(
                [Owner("a", np.ones((2, 2)), np.ones(2)), Owner("b", np.ones((2, 3)), np.ones(2))],
                Bounds(9.0, 1.0),
                signs=True,
            ),
            "all owners must have the 2 columns of owner a, owner b has 3",
        ),
        (lambda: check_bounds([], Bounds(9.0, 1.0), signs=True), "one owner or more, got none"),
    ],
)
def test_refusals_name_the_value(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_record_above_the_bound_by_more_than_rounding_is_refused():
    owner = Owner("a", np.ones((1, 2)), np.ones(1))
    check_bounds([owner], Bounds(2.0 / (1 + 1e-10), 1.0), signs=False)
    with pytest.raises(ValueError, match="a record is beyond record_l1"):
        check_bounds([owner], Bounds(2.0 / (1 + 1e-7), 1.0), signs=False)
