"""The n smallest numbers: those of a stable sort, also where numbers are equal."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppkit.mechanisms import SELECTIONS
from ppkit.ordering import smallest


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=60), st.data())
def test_the_smallest_are_those_of_a_stable_sort(numbers, data):
    values = np.array(numbers, dtype=float)
    n = data.draw(st.integers(1, len(values)))
    expected = np.sort(np.argsort(values, kind="stable")[:n])
    assert smallest(values, n).tolist() == expected.tolist()


@pytest.mark.parametrize("name", SELECTIONS)
def test_a_selection_without_noise_takes_the_first_of_equal_coordinates(name):
    g = np.full(1_000, 0.1)  # numpy.argpartition takes others, which depend on the processor
    chosen, signs = SELECTIONS[name](g, 51, scale=0.0, rng=np.random.default_rng(0))
    assert chosen.tolist() == list(range(51))
    assert signs.tolist() == [1] * 51
