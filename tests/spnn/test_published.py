"""Algorithm 2: integer arithmetic up to the last digit."""

import pytest
from spnn_parties import exact, made


@pytest.mark.parametrize(("variant", "k"), [("published", 2), ("published", 3), ("dealerless", 2)])
def test_algorithm_2_is_integer_arithmetic_up_to_the_last_digit(variant, k):
    protocol, parts, thetas = made(variant, k, scale=100.0)
    z = exact(parts, thetas)
    got = (protocol.forward(slice(None), thetas) * 2**16).long().numpy().astype(object)
    off = [int(a) * 2**16 - int(b) for a, b in zip(got.flat, z.flat)]
    assert all(-(2**16) < d < 2**16 for d in off) and any(off)
