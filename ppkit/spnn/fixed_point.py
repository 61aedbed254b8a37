"""Decimal numbers as 64-bit integers: encoding, decoding, the head-room of products and the error
that rounding leaves."""

import torch
from torch import Tensor

from ppkit.validation import finite

FRACTIONAL_BITS = 16  # l_F of the paper


def encode(values: Tensor, *, fractional_bits: int = FRACTIONAL_BITS) -> Tensor:
    """Fixed-point numbers: the multiples of 2^-f nearest to the values, as integers.

    z = round(v 2^f), halves to the even neighbour;
        |z 2^-f - v| <= 2^-(f+1), and the bound is attained

    values: floats of any shape, finite, with -2^63 <= z < 2^63.  fractional_bits: f, 0 to 63.
    Returns int64 of the same shape.  ValueError for NaN, infinity or a number out of range, with
    the number and the range.
    Source: zhou2021, section 3.3.2 (f = 16).

    >>> encode(torch.tensor([1.5, -2.0, 2**-17])).tolist()
    [98304, -131072, 0]
    """
    if not values.is_floating_point():
        raise ValueError(f"values must be a tensor of floats, got {values.dtype}")
    finite(values=values.detach())
    z = values.detach().to(torch.float64, copy=True).mul_(2.0**fractional_bits).round_()
    if z.numel() and (z.min() < -(2.0**63) or z.max() >= 2.0**63):
        worst = values.flatten()[z.flatten().abs().argmax()]
        limit = 2.0 ** (63 - fractional_bits)
        raise ValueError(
            f"{worst:.6g} is out of range: 64-bit numbers with {fractional_bits} fractional bits "
            f"hold [-{limit:.6g}, {limit:.6g})"
        )
    return z.long()


def decode(z: Tensor, *, fractional_bits: int = FRACTIONAL_BITS) -> Tensor:
    """The numbers that integers stand for: z 2^-f in float64, exact for |z| <= 2^53, else within a
    factor 1 +- 2^-53.

    z: int64 of any shape, which does not say its f.  fractional_bits: f, as it was encoded with.

    >>> decode(torch.tensor([98304, -131072])).tolist()
    [1.5, -2.0]
    """
    return z.double() * 2.0**-fractional_bits


def row_reach(X: Tensor) -> float:
    """What a row of X can do at most to a product, once per data set:
    max_i sum_k (|x_ik| + 2^-17).

    X: (N, K) finite floats, N and K >= 1.  Returns a float64 >= 0; the second term is what
    rounding may add to an entry.

    >>> row_reach(torch.tensor([[1.0, -2.0], [0.5, 0.5]]))
    3.0000152587890625
    """
    sums = X.detach().to(torch.float64, copy=True).abs_().sum(dim=1)
    return float(sums.max()) + X.shape[1] * 2.0 ** -(FRACTIONAL_BITS + 1)


def check_product(
    reach: float,
    theta: Tensor,
    *,
    n_terms: int = 1,
    fractional_bits: int = FRACTIONAL_BITS,
    bits: int = 64,
) -> None:
    """Refuse, before anything is encoded, a product X theta that could leave the ring.

    n_terms row_reach(X) (max |theta| + 2^-(f+1)) <= 2^(bits-1-2f) (1 - 2^-20)

    Sufficient, not necessary: |sum_k x_ik theta_kj| <= (sum_k |x_ik|) max |theta|, for the rounded
    numbers too. The last factor is more than the rounding of any float64 sum here. It costs one
    pass over theta, none over X.
    reach: what `row_reach` gave for X.  theta: (K, M) finite floats.  n_terms: how many such
    products are added up (each holder checks its own part against its share of the range), >= 1.
    fractional_bits: f of both factors.
    bits: width of the product, 2f before truncation: 64, or bits = 32 + f where only 32 bits after
    truncation are kept.
    ValueError with the bound and the range if it could leave, or if theta or reach is not finite.

    >>> check_product(10.0, torch.tensor([[1e9]]))  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    ValueError: X theta may reach 1e+10, outside (-2.147e+09, 2.147e+09), the range of 64-bit
    products with 32 fractional bits
    """
    largest = float(theta.detach().abs().max())
    bound = n_terms * reach * (largest + 2.0 ** -(fractional_bits + 1))
    limit = 2.0 ** (bits - 1 - 2 * fractional_bits)
    if not bound <= limit * (1 - 2.0**-20):  # also refuses NaN
        raise ValueError(
            f"X theta may reach {bound:.4g}, outside (-{limit:.4g}, {limit:.4g}), the range of "
            f"{bits}-bit products with {2 * fractional_bits} fractional bits"
        )
