"""The lean form: its rounding, and its head-room."""

import math

import numpy as np
import pytest
import torch
from spnn_parties import HOLDERS, exact, made


@pytest.mark.parametrize("k", HOLDERS)
def test_lean_rounds_the_exact_product_by_at_most_k_halves_and_without_bias(k):
    """Hoeffding on n errors in [-k/2, k/2] of mean 0:
    P(|mean| > t) <= 2 exp(-2 n t^2 / k^2) = 1e-9 at t."""
    protocol, parts, thetas = made("lean", k, n=4_000, scale=100.0)
    z = exact(parts, thetas, theta_bits=32)
    got = (protocol.forward(slice(None), thetas) * 2**16).long().numpy().astype(object)
    off = np.array([(int(a) * 2**32 - int(b)) / 2**32 for a, b in zip(got.flat, z.flat)])
    assert np.abs(off).max() <= k / 2 and np.abs(off).max() > 0.5
    assert abs(off.mean()) < k * math.sqrt(math.log(2 / 1e-9) / (2 * len(off)))


def test_what_does_not_fit_the_quick_bound_is_looked_at_exactly():
    """One feature is large and its weight small: the bound of the whole row says no, the product
    fits."""
    protocol, _, _ = made("lean", width=1)
    X = torch.tensor([[2.0**13, 1.0, 0.0]] * 2, dtype=torch.float64)
    protocol.prepare([X, torch.zeros(2, 2)])
    thetas = [
        torch.tensor([[0.5], [4.0], [0.0]], dtype=torch.float64),
        torch.zeros(2, 1, dtype=torch.float64),
    ]
    assert protocol.forward(slice(None), thetas).tolist() == [[4100.0], [4100.0]]
