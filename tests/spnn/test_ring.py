from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ppkit.spnn import ring
from ppkit.spnn.randomness import Stream


def matmul(a, b):
    """Oracle: Python's integers, reduced mod 2^64 to a signed number."""

    def signed(value):
        return (value + 2**63) % 2**64 - 2**63

    columns = list(zip(*b.tolist())) or [()] * b.shape[1]
    return [
        [signed(sum(p * q for p, q in zip(row, column))) for column in columns]
        for row in a.tolist()
    ]


@st.composite
def factors(draw, rows=st.integers(0, 6)):
    """Two matrices whose sizes fall on and beside the steps of the kernel's loops, of any int64."""
    n, k = draw(rows), draw(st.integers(0, 9) | st.just(29))
    m = draw(st.integers(0, 9) | st.sampled_from([32, 33, 40]))
    return [torch.from_numpy(draw(arrays(np.int64, shape))) for shape in ((n, k), (k, m))]


ENDS = torch.tensor([[-(2**63), 2**63 - 1], [-1, 2**62]])


@given(factors())
@example([ENDS, ENDS])
def test_products_equal_integer_arithmetic_mod_2_to_the_64(ab):
    a, b = ab
    before, expected = (a.clone(), b.clone()), matmul(a, b)
    product = ring.matmul(a, b)
    assert product.shape == (len(a), b.shape[1]) and product.tolist() == expected
    lying = [z.t().contiguous().t() for z in ab]  # column by column: not contiguous
    assert torch.equal(ring.matmul(*lying), product)
    assert torch.equal(a, before[0]) and torch.equal(b, before[1])


@given(factors(st.integers(1, 9)), st.integers(2, 4))
def test_rows_over_threads_give_the_same(ab, n_threads):
    with (
        mock.patch.object(ring, "_WORTH_THREADS", 0),
        mock.patch.object(torch, "get_num_threads", lambda: n_threads),
    ):
        product = ring.matmul(*ab)
    assert product.tolist() == matmul(*ab)


def test_the_layers_own_shapes_against_torch():
    stream = Stream.seeded_for_teaching(0)
    for n, k, m in ((5000, 28, 8), (28, 5000, 8), (257, 556, 400)):
        a, b = stream.words((n, k)), stream.words((k, m))
        expected = torch.zeros((n, m), dtype=torch.int64)
        for j in range(k):
            expected += a[:, j : j + 1] * b[j]
        assert torch.equal(ring.matmul(a, b), expected)


def test_wrong_types_and_shapes_are_refused():
    z = torch.ones((2, 3), dtype=torch.int64)
    with pytest.raises(
        ValueError, match="ring elements are int64, got torch.int64 and torch.float64"
    ):
        ring.matmul(z, z.t().double())
    for a, b in ((z, z), (z, z[0]), (z[None], z.t())):
        with pytest.raises(ValueError, match=r"shapes must be \(N, K\) and \(K, M\), got"):
            ring.matmul(a, b)
