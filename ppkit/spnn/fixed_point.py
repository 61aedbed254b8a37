"""Decimal numbers as 64-bit integers: encoding, decoding, the head-room of products and the error
that rounding leaves."""

from numbers import Integral

import torch

from ppkit.refusals import finite

FRACTIONAL_BITS = 16  # l_F of the paper


def encode(values: torch.Tensor, *, fractional_bits: int = FRACTIONAL_BITS) -> torch.Tensor:
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
    _check_bits(fractional_bits, 64)
    if not isinstance(values, torch.Tensor) or not values.is_floating_point():
        raise ValueError(
            "values must be a tensor of floats, got "
            f"{getattr(values, 'dtype', type(values).__name__)}"
        )
    z = (values.detach().double() * 2.0**fractional_bits).round_()
    if z.numel():
        low, high = (float(v) for v in z.aminmax())  # a NaN comes out, and fails both comparisons
        if not (low >= -(2.0**63) and high < 2.0**63):
            _refuse(values, z, fractional_bits)
    return z.long()


def decode(z: torch.Tensor, *, fractional_bits: int = FRACTIONAL_BITS) -> torch.Tensor:
    """The numbers that integers stand for: z 2^-f in float64, exact for |z| <= 2^53, else within a
    factor 1 +- 2^-53.

    z: int64 of any shape.  fractional_bits: f, 0 to 63 (32 for an untruncated product of two f = 16
    numbers).

    >>> decode(torch.tensor([98304, -131072])).tolist()
    [1.5, -2.0]
    """
    _check_bits(fractional_bits, 64)
    if not isinstance(z, torch.Tensor) or z.dtype != torch.int64:
        raise ValueError(f"z must be an int64 tensor, got {getattr(z, 'dtype', type(z).__name__)}")
    return z.double() * 2.0**-fractional_bits


def row_reach(X: torch.Tensor, *, fractional_bits: int = FRACTIONAL_BITS) -> float:
    """What a row of X can do at most to a product, once per data set:
    max_i sum_k (|x_ik| + 2^-(f+1)).

    X: (N, K) finite floats, N and K >= 1.  Returns a float64 >= 0; the second term is what
    rounding to f bits may add to an entry.  ValueError for another shape.

    >>> row_reach(torch.tensor([[1.0, -2.0], [0.5, 0.5]]), fractional_bits=0)
    4.0
    """
    if X.ndim != 2 or not X.numel():
        raise ValueError(
            f"X must have a row or more and a column or more, got shape {tuple(X.shape)}"
        )
    return float(X.detach().double().abs().sum(dim=1).max()) + X.shape[1] * 2.0 ** -(
        fractional_bits + 1
    )


def check_product(
    reach: float,
    theta: torch.Tensor,
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
    _check_bits(fractional_bits, bits)
    largest = float(theta.detach().abs().max()) if theta.numel() else 0.0
    bound = n_terms * reach * (largest + 2.0 ** -(fractional_bits + 1))
    limit = 2.0 ** (bits - 1 - 2 * fractional_bits)
    if not bound <= limit * (1 - 2.0**-20):  # also refuses NaN
        raise ValueError(
            f"X theta may reach {bound:.4g}, outside (-{limit:.4g}, {limit:.4g}), the range of "
            f"{bits}-bit products with {2 * fractional_bits} fractional bits"
        )


def _check_bits(fractional_bits: int, bits: int) -> None:
    if not isinstance(bits, Integral) or not 2 <= bits <= 64:
        raise ValueError(f"bits must be a whole number from 2 to 64, got {bits}")
    if not isinstance(fractional_bits, Integral) or not 0 <= fractional_bits < bits:
        raise ValueError(
            f"fractional_bits must be a whole number from 0 to {bits - 1}, got {fractional_bits}"
        )


def _refuse(values: torch.Tensor, z: torch.Tensor, fractional_bits: int) -> None:
    finite(values=values.detach())
    worst = float(values.flatten()[z.flatten().abs().argmax()])
    limit = 2.0 ** (63 - fractional_bits)
    raise ValueError(
        f"{worst:.6g} is out of range: 64-bit numbers with {fractional_bits} fractional bits hold "
        f"[-{limit:.6g}, {limit:.6g})"
    )
