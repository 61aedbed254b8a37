"""Stand-ins: what they keep of real rows, and what they give back."""

import hashlib

import numpy as np
import pytest

from ppkit import datasets
from ppkit.datasets import loading, standins
from tools.standins import fitting

NAMES = tuple(standins.SAMPLERS)


@pytest.fixture(autouse=True)
def no_files_by_chance(monkeypatch):
    monkeypatch.setenv("PPKIT_SOURCE", "standin")


# what is shipped


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_any_number_of_rows_by_seed_in_the_layout_of_the_file(name):
    for rows in (1, 7, 5_000):
        assert datasets.load(name, rows=rows).n_rows == rows
    one, again, other = (datasets.load(name, rows=2_000, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.X, again.X)
    np.testing.assert_array_equal(one.y, again.y)
    assert (one.X != other.X).any()
    assert one.source.startswith("stand-in: 2,000 rows")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_by_default_as_many_rows_as_the_real_file(name):
    assert datasets.load(name).n_rows == loading.REAL[name].FULL_ROWS


@pytest.mark.parametrize("name", NAMES)
def test_the_parameters_are_small_and_finite_and_those_that_were_measured(name):
    content = standins.FOLDER.joinpath(f"{name}.npz").read_bytes()
    assert len(content) <= 300_000
    assert hashlib.sha256(content).hexdigest() == fitting.measured(name)["parameters"]
    for array in standins.parameters(name).values():
        assert np.isfinite(array).all()
