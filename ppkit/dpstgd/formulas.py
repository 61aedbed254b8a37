"""The formulas of wang2018, also those that do not hold: what the paper computes, not what is true.

Budgets that hold are in `ppkit.accounting`, what the upload gives away at least in `ppkit.audit`.
"""

import math
from types import SimpleNamespace

import numpy as np

from ppkit.accounting import amplified
from ppkit.audit import magnitudes_of
from ppkit.validation import must_be

# Table I, budgets as printed
TABLE_1 = tuple(
    SimpleNamespace(
        epsilon=epsilon,
        sample_rate=sample_rate,
        n_uploads=n_uploads,
        printed_basic=basic,
        printed_advanced=advanced,
    )
    for epsilon, sample_rate, n_uploads, basic, advanced in (
        (0.1, 0.01, 1431, "3.01", "0.37"),
        (0.1, 0.01, 2862, "6.02", "0.52"),
        (0.1, 0.05, 1431, "15.01", "1.88"),
        (0.1, 1.0, 14312, "2862.4", "410.1"),
        (0.5, 0.01, 1431, "18.50", "2.35"),
        (0.5, 0.01, 2862, "37.01", "3.39"),
        (0.5, 0.05, 1431, "91.35", "13.97"),
        (0.5, 1.0, 14312, "14312.4", "9830.1"),
    )
)


def sampled_epsilon(epsilon: float, sample_rate: float) -> float:
    """Budget of an epsilon-DP mechanism that runs on a Poisson sample:
    eps_g = ln(1 + (e^eps - 1) q).

    epsilon: > 0.  sample_rate: q in (0, 1].  Returns eps_g in (0, epsilon].
    ValueError if out of range.
    Guarantee: eps_g-DP for add/remove neighbours, for ONE mechanism per sample.
    Source: wang2018, Lemma 4.1.

    >>> round(sampled_epsilon(1.0, 0.1), 4)
    0.1586
    """
    _check(epsilon, sample_rate)
    return amplified(epsilon, sample_rate)


def basic_budget(epsilon: float, *, sample_rate: float, n_uploads: int) -> float:
    """The paper's price of one upload under basic composition: 2 n eps_g.

    epsilon: > 0, of one selection.  sample_rate: q in (0, 1].  n_uploads: n >= 1.  Returns the
    budget, > 0.
    Guarantee: none for q < 1: all n selections share one sample, and the formula samples anew for
    each.
    Source: wang2018, Theorem 4.2.

    >>> round(basic_budget(0.1, sample_rate=0.01, n_uploads=1431), 2)
    3.01
    """
    _check(epsilon, sample_rate, n_uploads=n_uploads)
    return 2 * n_uploads * sampled_epsilon(epsilon, sample_rate)


def advanced_budget(
    epsilon: float, *, sample_rate: float, n_uploads: int, delta: float = 2.0**-30
) -> float:
    """The paper's price of one upload under advanced composition.

    sqrt(4 n ln(1 / delta)) eps_g + 2 n eps_g (e^eps_g - 1)

    epsilon: > 0, of one selection.  sample_rate: q in (0, 1].  n_uploads: n >= 1.
    delta: in (0, 1).  Returns the budget, > 0, infinity where no float64 holds it.
    Guarantee: none for q < 1, as in `basic_budget`.
    Source: wang2018, Theorem 4.2.

    >>> round(advanced_budget(0.1, sample_rate=0.01, n_uploads=1431), 2)
    0.37
    """
    _check(epsilon, sample_rate, n_uploads=n_uploads)
    must_be("in (0, 1)", delta=delta)
    each = sampled_epsilon(epsilon, sample_rate)
    with np.errstate(over="ignore"):  # infinite from about 709 on
        growth = float(np.expm1(each))
    return math.sqrt(-4 * n_uploads * math.log(delta)) * each + 2 * n_uploads * each * growth


def selection_ratio_bound(gap: float) -> float:
    """Theorem 4.3's lower bound on P(largest selected) / P(second selected):
    e^x / (x / 4 + 1 / 2) - 1.

    gap: x = Delta epsilon / lambda, from 0 to 700, between the two largest |gradients|,
    in units of the Laplace scale.
    Returns the bound, >= 1.  Source: wang2018, Theorem 4.3; the text says "larger by", its proof
    shows the ratio.

    >>> selection_ratio_bound(0.0)
    1.0
    """
    must_be("a finite number >= 0", gap=gap)
    if gap > 700:
        raise ValueError(f"gap must be at most 700, for e^gap must be a float64, got {gap}")
    return math.exp(gap) / (gap / 4 + 0.5) - 1


def selection_probability_product(magnitudes) -> np.ndarray:
    """The proof's P_i: the chances that i beats each j in a pair, multiplied as if they were
    independent.

    magnitudes: (d,) |gradients| in units of the Laplace scale, at most 1e300, d from 2 to 5,000.
    Returns (d,) "probabilities" that need not sum to 1; `audit.selection_probability` has the exact
    ones.
    Source: wang2018, Appendix C, equations 2 and 3.

    >>> float(selection_probability_product([1.0] + [0.0] * 9)[0].round(3))
    0.055
    """
    values = magnitudes_of(magnitudes)
    gap = values[None, :] - values[:, None]  # row i, column j: |g_j| - |g_i|
    behind = np.exp(-np.abs(gap)) * (np.abs(gap) / 4 + 0.5)  # the smaller of two beats the larger
    pair = np.where(gap > 0, behind, 1.0 - behind)
    np.fill_diagonal(pair, 1.0)
    return pair.prod(axis=1)


def upload_bits(n_uploads: int, n_parameters: int) -> int:
    """Bits of one ternary upload: n (ceil(log2 d) + 1), an index and a sign each.

    n_uploads: 1 <= n <= d.  n_parameters: d >= 1.  Returns whole bits.
    Source: wang2018, section III.

    >>> upload_bits(1431, 14312), dense_bits(14312)
    (21465, 457984)
    """
    must_be("a whole number >= 1", n_uploads=n_uploads, n_parameters=n_parameters)
    if n_uploads > n_parameters:
        raise ValueError(
            f"n_uploads must be from 1 to n_parameters = {n_parameters}, got {n_uploads}"
        )
    return int(n_uploads) * ((int(n_parameters) - 1).bit_length() + 1)


def dense_bits(n_parameters: int) -> int:
    """Bits of a gradient sent whole in 32-bit floats: 32 d.  n_parameters: d >= 1."""
    must_be("a whole number >= 1", n_parameters=n_parameters)
    return 32 * int(n_parameters)


def _check(epsilon, sample_rate, n_uploads=1):
    must_be("a finite number > 0", epsilon=epsilon)
    must_be("in (0, 1]", sample_rate=sample_rate)
    must_be("a whole number >= 1", n_uploads=n_uploads)
