import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from spnn_parties import simulator

from ppkit.spnn.dealer import Dealer
from ppkit.spnn.fixed_point import check_product, decode, encode, row_reach
from ppkit.spnn.ring import matmul
from ppkit.spnn.sharing import beaver_matmul, reveal, share, truncate


def as_integers(values, fractional_bits):
    """Oracle: exact fractions, rounded by Python (halves to even)."""
    return [round(Fraction(v) * 2**fractional_bits) for v in values.flatten().tolist()]


def product(z, w):
    """Oracle: the matrix product in Python's integers."""
    return [
        [sum(p * q for p, q in zip(row, column)) for column in zip(*w.tolist())]
        for row in z.tolist()
    ]


@given(st.data(), st.integers(0, 40), st.sampled_from([32, 64]))
def test_encode_equals_rounding_in_fractions_and_moves_a_value_by_half_a_unit_at_most(
    data, fractional_bits, width
):
    limit = 2.0 ** (62 - fractional_bits)
    anything = st.floats(-limit, limit, width=width)
    halves = st.integers(-(2**20), 2**20).map(lambda i: (i + 0.5) * 2.0**-fractional_bits)
    values = data.draw(st.lists(anything | halves if width == 64 else anything))
    values = torch.tensor(values, dtype=torch.float64 if width == 64 else torch.float32)
    z = encode(values, fractional_bits=fractional_bits)
    assert z.tolist() == as_integers(values.double(), fractional_bits)
    for value, rounded in zip(values.double().tolist(), z.tolist()):
        error = Fraction(rounded, 2**fractional_bits) - Fraction(value)
        assert abs(error) <= Fraction(1, 2 ** (fractional_bits + 1))


@given(st.lists(st.integers(-(2**53), 2**53)))
def test_integers_come_back_exactly(integers):
    z = torch.tensor(integers, dtype=torch.int64)
    assert decode(z).tolist() == [v / 2**16 for v in integers]
    assert torch.equal(encode(decode(z)), z)


@pytest.mark.parametrize("fractional_bits", [0, 8, 16, 24, 40])
def test_what_is_decoded_with_the_bits_of_its_encoding_is_what_was_encoded(fractional_bits):
    values = torch.tensor([3.0, -2.0, 0.0], dtype=torch.float64)
    z = encode(values, fractional_bits=fractional_bits)
    assert torch.equal(decode(z, fractional_bits=fractional_bits), values)


def test_half_a_unit_is_attained_and_shapes_stay():
    half = torch.tensor([1 + 3 * 2.0**-17, -1 - 3 * 2.0**-17], dtype=torch.float64)
    assert torch.equal(
        decode(encode(half)) - half, torch.tensor([2.0**-17, -(2.0**-17)], dtype=torch.float64)
    )
    assert encode(torch.empty(0, 3)).shape == (0, 3)


def test_the_ends_of_the_range():
    inside = torch.tensor([-(2.0**47), math.nextafter(2.0**47, 0)], dtype=torch.float64)
    assert encode(inside).tolist() == [-(2**63), 2**63 - 1024]


@pytest.mark.parametrize(
    "values, says",
    [
        (
            [1.0, 2.0**47],
            r"1\.40737e\+14 is out of range: 64-bit numbers with 16 fractional bits hold "
            r"\[-1\.40737e\+14, 1\.40737e\+14\)",
        ),
        ([0.0, math.nextafter(-(2.0**47), -math.inf)], "-1.40737e.14 is out of range"),
        ([1e300], r"1e\+300 is out of range"),
        ([0.0, math.nan], "values must be finite, got 1 of 2 values"),
        ([math.inf, -math.inf], "values must be finite, got 2 of 2 values"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_number_and_the_range(values, says):
    with pytest.raises(ValueError, match=says):
        encode(torch.tensor(values, dtype=torch.float64))


def test_a_wrong_type_is_refused():
    with pytest.raises(ValueError, match="values must be a tensor of floats, got torch.int64"):
        encode(torch.tensor([1]))


@pytest.mark.parametrize("bits, n_terms", [(64, 1), (64, 3), (48, 1), (48, 2)])
def test_head_room_of_products_is_refused_just_where_the_product_leaves(bits, n_terms):
    """Rows of one sign and size attain the bound: just inside fits in n_terms-fold sum, 0.01% more
    does not."""
    X = torch.full((2, 28), -3.0, dtype=torch.float64)
    X[1] = 1.0
    edge = 2.0 ** (bits - 1 - 32) / (n_terms * row_reach(X))
    inside, outside = (
        torch.full((28, 4), edge * factor - 2.0**-17, dtype=torch.float64)
        for factor in (1 - 2e-6, 1.0001)
    )
    check_product(row_reach(X), inside, n_terms=n_terms, bits=bits)
    with pytest.raises(
        ValueError, match=f"the range of {bits}-bit products with 32 fractional bits"
    ):
        check_product(row_reach(X), outside, n_terms=n_terms, bits=bits)
    fits, leaves = (
        n_terms * abs(product(encode(X), encode(theta))[0][0]) for theta in (inside, outside)
    )
    assert fits < 2 ** (bits - 1) < leaves


def test_the_reach_of_a_row_counts_sizes_not_signs():
    X = torch.tensor([[3.0, -3.0, 0.25], [1.0, 1.0, 1.0]])
    assert row_reach(X) == 6.25 + 3 * 2.0**-17
    assert row_reach(-X) == row_reach(X.double()) == row_reach(X)


def test_accepted_products_stay_in_the_ring_whatever_the_signs():
    rng = torch.Generator().manual_seed(2)
    X = torch.randn(20, 9, generator=rng, dtype=torch.float64) * 50
    limit = 2.0**31 / row_reach(X) * (1 - 1e-5)
    theta = (torch.rand(9, 5, generator=rng, dtype=torch.float64) * 2 - 1) * limit
    check_product(row_reach(X), theta)
    exact = product(encode(X), encode(theta))
    assert max(abs(v) for row in exact for v in row) > 2**60  # the case is not a small one
    assert matmul(encode(X), encode(theta)).tolist() == exact


@pytest.mark.parametrize(
    "reach, theta",
    [(math.nan, 1.0), (1.0, math.nan), (math.inf, 1.0), (1.0, -math.inf), (1e10, -1.0)],
)
def test_what_is_not_finite_has_no_head_room(reach, theta):
    with pytest.raises(ValueError, match="X theta may reach"):
        check_product(reach, torch.tensor([[0.0], [theta]], dtype=torch.float64))


def through_shares(X, theta):
    x, y = encode(X), encode(theta)
    z = beaver_matmul(share(x), share(y), Dealer().matmul_triple(*x.shape, y.shape[1]))
    return decode(reveal(truncate(z, 16)))


def error_bound(X, theta):
    """What the protocol states for this product, with the columns of X at two holders."""
    half, width = X.shape[1] // 2, theta.shape[1]
    protocol = simulator("published", [half, half], width, dtype=torch.float64)
    protocol.prepare(X.split(half, dim=1))
    return protocol.error_bound(slice(None), theta.split(half))


def test_the_error_of_a_shared_product_is_below_its_bound():
    rng = torch.Generator().manual_seed(3)
    X, theta = (
        torch.randn(*shape, generator=rng, dtype=torch.float64) * 30
        for shape in ((400, 28), (28, 8))
    )
    bound = error_bound(X, theta)
    assert bound.shape == (400, 8)
    exact = X @ theta
    error = (through_shares(X, theta) - exact).abs()
    # Shares from the system's randomness: local truncation misses a number z of 32 fractional bits
    # by 2^32 with chance |z| / 2^64, here .0035 for all 3,200 together, so that one run in 300 has
    # one; three or more have a chance below 1e-6.
    expected = float(exact.abs().sum()) * 2.0 ** (32 - 64)
    assert stats.poisson.sf(2, expected) < 1e-6
    missed = error > 2.0**20
    assert int(missed.sum()) <= 2
    assert (error <= bound + 1e-9)[~missed].all()  # 1e-9: float64's own rounding of X @ theta


def test_the_error_bound_is_attained_before_truncation_and_nearly_after():
    """Halves that round away from 0, all of one sign: every term of the derivation at its
    largest."""
    u = 2.0**-17
    X, theta = (
        torch.full((1, 28), 50 + 3 * u, dtype=torch.float64),
        torch.full((28, 1), 2 + 7 * u, dtype=torch.float64),
    )
    exact = Fraction(28) * Fraction(X[0, 0].item()) * Fraction(theta[0, 0].item())
    z = matmul(encode(X), encode(theta)).item()
    error = Fraction(z, 2**32) - exact
    with_truncation = error_bound(X, theta).item()
    assert error == Fraction(with_truncation) - Fraction(1, 2**16)
    assert 0.99 * with_truncation < float(error) < with_truncation
    for sign in (1, -1):  # the sign of theta turns the error round
        h = through_shares(X, sign * theta).item()
        assert 0.99 * with_truncation < sign * float(Fraction(h) - sign * exact) < with_truncation
