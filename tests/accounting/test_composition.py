"""Optimal composition against enumeration and older bounds."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from ppkit import accounting
from ppkit.accounting import kov_epsilon

DELTA = 2.0**-30
D = 14_312
SMALL = dict(sample_rate=0.01, n_uploads=1431, n_parameters=D, delta=DELTA)


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


@pytest.mark.parametrize("k", [1, 2, 5, 8])
@pytest.mark.parametrize(
    "ratio", [Fraction(3, 2), Fraction(4), Fraction(11, 10)]
)  # e^epsilon, rational
def test_kov_against_exact_enumeration_of_randomised_responses(k, ratio):
    heads = ratio / (1 + ratio)
    p, q = Fraction(1), Fraction(1)
    outcomes = []
    for answer in itertools.product((0, 1), repeat=k):
        p = math.prod((heads if bit else 1 - heads for bit in answer), start=Fraction(1))
        q = math.prod((1 - heads if bit else heads for bit in answer), start=Fraction(1))
        outcomes.append((p, q))
    for delta in (1e-3, 0.05, 0.3):
        total = kov_epsilon(math.log(ratio), k, delta)
        exact = sum(max(p - Fraction(math.exp(total)) * q, Fraction(0)) for p, q in outcomes)
        if total > 0:
            assert float(exact) == pytest.approx(delta, rel=1e-9)
        else:
            assert float(exact) <= delta


@pytest.mark.parametrize(
    "epsilon, k, delta", [(0.1, 2862, DELTA), (0.05, 14312, 1e-7), (1.0, 40, 1e-6)]
)
def test_kov_lies_below_every_older_bound(epsilon, k, delta):
    ours = kov_epsilon(epsilon, k, delta)
    concentrated = accounting.curve_epsilon(lambda alpha: alpha * k * epsilon**2 / 2, delta)
    dwork_rothblum_vadhan = math.sqrt(
        2 * k * math.log(1 / delta)
    ) * epsilon + k * epsilon * math.expm1(epsilon)
    assert 0 < ours < min(concentrated, dwork_rothblum_vadhan, k * epsilon)
    assert kov_epsilon(epsilon, k, 1e-300) <= k * epsilon


def test_kov_limits():
    assert kov_epsilon(0.0, 7, 1e-9) == 0.0
    assert kov_epsilon(0.7, 3, 1e-200) == pytest.approx(2.1, rel=1e-12)
    with pytest.raises(ValueError, match=r"delta must be in \(0, 1\), got 0"):
        kov_epsilon(0.5, 3, 0)
