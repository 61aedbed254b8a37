"""wang2018's formulas against Table I as printed, exact fractions, and limits."""

import math
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal, getcontext
from fractions import Fraction

import numpy as np
import pytest

from ppkit.dpstgd import formulas
from ppkit.dpstgd.formulas import TABLE_1


def digits_agree(value, printed):
    """True when `value` rounded or cut to the printed digits is the print."""
    unit = Decimal(1).scaleb(Decimal(printed).as_tuple().exponent)
    return Decimal(printed) in {
        Decimal(value).quantize(unit, mode) for mode in (ROUND_DOWN, ROUND_HALF_UP)
    }


@pytest.mark.parametrize("row", TABLE_1)
def test_table_1_cell_by_cell(row):
    basic = formulas.basic_budget(row.epsilon, sample_rate=row.sample_rate, n_uploads=row.n_uploads)
    advanced = formulas.advanced_budget(
        row.epsilon, sample_rate=row.sample_rate, n_uploads=row.n_uploads
    )
    assert digits_agree(basic, row.printed_basic) == (row != TABLE_1[7])  # 14312.4 is a misprint
    assert digits_agree(advanced, row.printed_advanced) == (row != TABLE_1[7])  # 9830.1 for 9830.03


def test_what_the_paper_cut_and_what_it_misprinted():
    def both(i):
        row = TABLE_1[i]
        settings = dict(sample_rate=row.sample_rate, n_uploads=row.n_uploads)
        return formulas.basic_budget(row.epsilon, **settings), formulas.advanced_budget(
            row.epsilon, **settings
        )

    assert both(4)[0] == pytest.approx(18.506, abs=5e-4)
    assert both(5)[1] == pytest.approx(3.395, abs=5e-4)
    assert both(6) == pytest.approx((91.358, 13.976), abs=5e-4)
    assert both(7)[0] == 14312.0
    assert both(7)[1] == pytest.approx(9830.03, abs=5e-3)


@pytest.mark.parametrize("epsilon", ["0.0000001", "0.1", "1", "29.99", "30.01", "700", "5000"])
@pytest.mark.parametrize("rate", ["0.000000001", "0.01", "0.999", "1"])
def test_sampled_epsilon_against_fifty_digits(epsilon, rate):
    getcontext().prec = 60
    exact = (1 + Decimal(rate) * (Decimal(epsilon).exp() - 1)).ln()
    assert formulas.sampled_epsilon(float(epsilon), float(rate)) == pytest.approx(
        float(exact), rel=1e-12
    )


def test_sampled_epsilon_bounds_and_limits():
    for epsilon in (1e-6, 0.1, 3.0, 100.0):
        for rate in (1e-6, 0.01, 0.5):
            value = formulas.sampled_epsilon(epsilon, rate)
            assert (
                max(rate * epsilon, epsilon + math.log(rate)) <= value < epsilon
            )  # Jensen; drop the 1 - q
    assert formulas.sampled_epsilon(0.3, 1.0) == pytest.approx(0.3, rel=1e-15)


def test_proof_product_by_hand_and_equal_gradients():
    exact_pair = 1 - math.exp(-1) * (0.5 + 0.25)
    np.testing.assert_allclose(
        formulas.selection_probability_product([1.0, 0.0]), [exact_pair, 1 - exact_pair]
    )
    np.testing.assert_allclose(
        formulas.selection_probability_product([0.0] * 4), [float(Fraction(1, 8))] * 4
    )
    top, second = formulas.selection_probability_product([2.5, 1.0])
    assert top / second == pytest.approx(
        formulas.selection_ratio_bound(1.5), rel=1e-12
    )  # equality at d = 2


def test_bits():
    assert formulas.upload_bits(1, 1) == 1
    assert formulas.upload_bits(3, 1024) == 3 * 11 and formulas.upload_bits(3, 1025) == 3 * 12
    assert formulas.dense_bits(14_312) == 457_984


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: formulas.sampled_epsilon(-1, 0.1), "epsilon must be a finite number > 0, got -1"),
        (lambda: formulas.sampled_epsilon(float("nan"), 0.1), "epsilon must be .*got nan"),
        (
            lambda: formulas.basic_budget(1.0, sample_rate=0.0, n_uploads=1),
            r"sample_rate must be in \(0, 1\], got 0.0",
        ),
        (
            lambda: formulas.basic_budget(1.0, sample_rate=1.5, n_uploads=1),
            r"sample_rate must be in \(0, 1\], got 1.5",
        ),
        (
            lambda: formulas.basic_budget(1.0, sample_rate=0.5, n_uploads=0),
            "n_uploads must be .*got 0",
        ),
        (
            lambda: formulas.advanced_budget(1.0, sample_rate=0.5, n_uploads=1, delta=0.0),
            "delta must be .*got 0.0",
        ),
        (lambda: formulas.selection_ratio_bound(-0.1), "gap must be .*got -0.1"),
        (lambda: formulas.selection_probability_product([1.0]), "magnitudes must be .*got"),
        (lambda: formulas.upload_bits(9, 8), "n_uploads must be from 1 to n_parameters = 8, got 9"),
        (lambda: formulas.dense_bits(0), "n_parameters must be a whole number >= 1, got 0"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
