"""What is refused, and that the sentence names the setting, what is accepted and the value."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from ppkit import validation
from ppkit.validation import ACCEPTED, binary, finite, must_be, one_of

FITS = {
    "> 0": (1e-300, math.inf),
    ">= 0": (0, math.inf),
    "a finite number > 0": (np.float32(1e-30), 1e300),
    "a finite number >= 0": (0.0, np.int64(3)),
    "in (0, 1)": (1e-9, 1 - 1e-9),
    "in (0, 1]": (1e-9, 1),
    "in [0, 1)": (0, 0.5),
    "in [0, 1]": (0, 1),
    "a whole number >= 0": (0, 7.0),
    "a whole number >= 1": (1, np.float64(10)),
    "a whole number >= 2": (2, 10**9),
}
ODD = {
    "> 0": (0, -1.0),
    ">= 0": (-1e-300,),
    "a finite number > 0": (0, math.inf),
    "a finite number >= 0": (-1, math.inf),
    "in (0, 1)": (0, 1, math.inf),
    "in (0, 1]": (0, 1.1),
    "in [0, 1)": (-0.1, 1),
    "in [0, 1]": (-0.1, 1.1),
    "a whole number >= 0": (-1, 0.5, math.inf),
    "a whole number >= 1": (0, 2.5, math.inf),
    "a whole number >= 2": (1, 2.5, -math.inf),
}


@pytest.mark.parametrize("accepted", ACCEPTED)
def test_every_kind_of_number_at_its_ends(accepted):
    must_be(accepted, **{f"n{i}": value for i, value in enumerate(FITS[accepted])})
    for value in (*ODD[accepted], math.nan, True, None, "1", [1]):
        with pytest.raises(ValueError) as refused:
            must_be(accepted, right=FITS[accepted][0], wrong=value)
        shown = value if type(value) in (int, float) else repr(value)
        assert str(refused.value) == f"wrong must be {accepted}, got {shown}"


@pytest.mark.parametrize(
    "values, said",
    [
        (["F", "M"], "X must be numbers, with text as codes: got 'F'"),
        ([["1"], ["2"]], "got '1'"),
        (pd.DataFrame({"n": [1.0, 2.0], "code": ["1", "2"]}), "got '1'"),
        (pd.to_datetime(["2026-11-29", None]), "X must be numbers, got dates"),
        (pd.DataFrame({"n": [1.0], "day": pd.to_datetime(["2026-11-29"])}), "got dates"),
        (np.array([1, 2], "m8[s]"), "got spans of time"),
        ([1j], "got complex numbers"),
        ([[1.0], [1.0, 2.0]], "X must be numbers: "),
        ([object()], "X must be numbers: "),
    ],
)
def test_what_is_no_number_is_refused(values, said):
    with pytest.raises(ValueError, match=said):
        validation.numbers("X", values)


def test_tables_whole_numbers_and_gaps_become_float64():
    for values in ([[1, 2]], pd.DataFrame({"a": [1], "b": [2.0]}), np.array([[True, 2]], object)):
        assert validation.numbers("X", values).tolist() == [[1.0, 2.0]]
    assert np.isnan(validation.numbers("X", [1, None]))[1]
    nullable = pd.DataFrame({"a": pd.array([1, None], "Int64")})
    assert np.isnan(validation.numbers("X", nullable)[1, 0])


def test_one_of_takes_no_true_for_1():
    one_of((1, 2), algorithm=2)
    for value in (True, 3, "2"):
        with pytest.raises(ValueError, match=f"^algorithm must be one of 1, 2, got {value!r}$"):
            one_of((1, 2), algorithm=value)


@pytest.mark.parametrize("kind", [np.array, torch.tensor])
def test_arrays_and_tensors_are_looked_through(kind):
    finite(X=kind([1e38, 1e38, 3e38]), y=kind([0, 1]))
    binary(y=kind([0, 1, 1]), bits=kind([0.0, 1.0]))
    for bad in ([1.0, math.nan], [math.inf, 0.0]):
        with pytest.raises(ValueError, match="^X must be finite, got 1 of 2 values that are NaN"):
            finite(X=kind(bad))
    with pytest.raises(ValueError, match="got 2 of 2 values"):
        finite(X=kind([math.inf, -math.inf]))
    with pytest.raises(ValueError, match="^labels must be 0 or 1, got 2$"):
        binary(labels=kind([0, 2, 1]))
    for odd in (-1.0, 0.5, math.nan, math.inf):
        with pytest.raises(ValueError, match=f"^labels must be 0 or 1, got {odd}$"):
            binary(labels=kind([0.0, odd, 1.0]))
