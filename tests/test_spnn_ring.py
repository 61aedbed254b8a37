import pytest
import torch

from ppkit.spnn import ring
from ppkit.spnn.randomness import Stream


def matmul(a, b):
    """Oracle: Python's integers, reduced mod 2^64 to a signed number."""

    def signed(value):
        return (value + 2**63) % 2**64 - 2**63

    columns = list(zip(*b.tolist()))
    return [
        [signed(sum(p * q for p, q in zip(row, column))) for column in columns]
        for row in a.tolist()
    ]


SHAPES = [(n, k, m) for n in (1, 2, 5) for k in (1, 3, 4, 6, 29) for m in (1, 8, 32, 33, 40)]


@pytest.mark.parametrize("shape", SHAPES)
def test_products_equal_integer_arithmetic_mod_2_to_the_64(shape):
    n, k, m = shape
    stream = Stream.seeded_for_teaching(n + 10 * k + 1000 * m)
    a, b = stream.words((n, k)), stream.words((k, m))
    assert ring.matmul(a, b).tolist() == matmul(a, b)
    a, b = stream.words((k, n)).t(), stream.words((m, k)).t()  # seen from the side: not contiguous
    assert ring.matmul(a, b).tolist() == matmul(a, b)
    before = a.clone(), b.clone()
    ring.matmul(a, b)
    assert torch.equal(a, before[0]) and torch.equal(b, before[1])


def test_extremes_wrap_around():
    ends = torch.tensor([[-(2**63), 2**63 - 1], [-1, 2**62]])
    assert ring.matmul(ends, ends).tolist() == matmul(ends, ends)


@pytest.mark.parametrize("n_rows", [1, 2, 7, 8])
def test_rows_over_threads_give_the_same(n_rows, monkeypatch):
    monkeypatch.setattr(ring, "_WORTH_THREADS", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    stream = Stream.seeded_for_teaching(n_rows)
    a, b = stream.words((n_rows, 11)), stream.words((11, 50))
    assert ring.matmul(a, b).tolist() == matmul(a, b)


def test_the_layers_own_shapes_against_torch():
    stream = Stream.seeded_for_teaching(0)
    for n, k, m in ((5000, 28, 8), (28, 5000, 8), (257, 556, 400)):
        a, b = stream.words((n, k)), stream.words((k, m))
        expected = torch.zeros((n, m), dtype=torch.int64)
        for j in range(k):
            expected += a[:, j : j + 1] * b[j]
        assert torch.equal(ring.matmul(a, b), expected)


def test_empty_matrices():
    for n, k, m in ((0, 3, 2), (2, 0, 3), (2, 0, 40), (2, 3, 0)):
        product = ring.matmul(
            torch.ones((n, k), dtype=torch.int64), torch.ones((k, m), dtype=torch.int64)
        )
        assert product.shape == (n, m) and not product.any()


def test_wrong_types_and_shapes_are_refused():
    z = torch.ones((2, 3), dtype=torch.int64)
    with pytest.raises(
        ValueError, match="ring elements are int64, got torch.int64 and torch.float64"
    ):
        ring.matmul(z, z.t().double())
    for a, b in ((z, z), (z, z[0]), (z[None], z.t())):
        with pytest.raises(ValueError, match=r"shapes must be \(N, K\) and \(K, M\), got"):
            ring.matmul(a, b)
