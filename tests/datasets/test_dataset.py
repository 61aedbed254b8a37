"""Dataset: a source that cannot be forged, and the steps before learning.

train_test: every row in one part, labels in proportion, whole accounts.  hashed: a fold that is the
row's own.
"""

import copy
import dataclasses
import pickle

import numpy as np
import pytest

from ppkit import datasets
from ppkit.datasets import dataset as making
from ppkit.datasets.dataset import hashed


@pytest.fixture(scope="module")
def small():
    return datasets.load("transactions", rows=1_000)


def test_no_other_way_to_a_dataset(small):
    fields = {one.name: getattr(small, one.name) for one in dataclasses.fields(small) if one.init}
    for attempt in (
        lambda: datasets.Dataset(**fields),
        lambda: dataclasses.replace(small, kind="real", of_rows=284_807),
        lambda: dataclasses.replace(small, verified=True),
        lambda: copy.copy(small),
        lambda: copy.deepcopy(small),
        lambda: pickle.dumps(small),
    ):
        with pytest.raises(TypeError, match="source is true"):
            attempt()
    for name, value in (
        ("source", "real: 284,807 rows"),
        ("kind", "real"),
        ("of_rows", 284_807),
        ("verified", True),
    ):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(small, name, value)
    assert small.source == f"simulated: {small.n_rows:,} rows"


def test_arrays_are_read_only(small):
    for array in (small.X, small.y, small.numeric, small.account, small.category):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


# the steps before learning


def test_standardise_uses_the_named_rows_only_and_leaves_coded_columns(small):
    fit_on = np.flatnonzero(small.account % 2 == 0)
    scaled = datasets.standardise(small, fit_on)
    assert scaled.dtype == np.float32 and scaled.shape == small.X.shape
    np.testing.assert_array_equal(scaled[:, ~small.numeric], small.X[:, ~small.numeric])
    for column in np.flatnonzero(small.numeric):  # the oracle: one column at a time
        fitted = small.X[fit_on, column].astype(np.float64)
        deviation = fitted.std() if fitted.std() > 1e-6 * max(abs(fitted.mean()), 1) else 1.0
        np.testing.assert_allclose(
            scaled[:, column],
            (small.X[:, column] - fitted.mean()) / deviation,
            rtol=1e-5,
            atol=1e-5,
        )
    as_mask = np.zeros(small.n_rows, bool)
    as_mask[fit_on] = True
    np.testing.assert_array_equal(datasets.standardise(small, as_mask), scaled)
    with pytest.raises(ValueError, match="fit_on must name at least one row"):
        datasets.standardise(small, np.array([], int))


def test_a_constant_column_is_only_centred():
    X = np.c_[np.full(50, 3e5), np.arange(50)].astype(np.float32)
    data = making.made(
        name="t",
        X=X,
        y=np.zeros(50, np.int8),
        feature_names=("a", "b"),
        numeric=np.ones(2, bool),
        kind="simulated",
        note="",
    )
    scaled = datasets.standardise(data, np.arange(40))
    np.testing.assert_array_equal(scaled[:, 0], 0)
    assert scaled[:40, 1].std() == pytest.approx(1, abs=1e-6)


def test_undersampled_simulation_stays_simulated_and_keeps_its_accounts(small):
    fewer = datasets.undersample(small, 0.3, 0)
    assert fewer.source == f"simulated: {fewer.n_rows:,} rows" and fewer.y.sum() == small.y.sum()
    assert len(fewer.account) == len(fewer.category) == fewer.n_rows


# train and test, folds


def rows(account=None, y=None, n=200):
    rng = np.random.default_rng(0)
    y = (np.arange(n) % 10 == 0).astype(np.int8) if y is None else y
    return making.made(
        name="t",
        X=rng.normal(size=(n, 2)).astype(np.float32),
        y=y,
        feature_names=("a", "b"),
        numeric=np.ones(2, bool),
        kind="simulated",
        note="",
        account=account,
    )


@pytest.mark.parametrize("by", ["rows", "account"])
def test_every_row_lies_in_one_part(by):
    data = rows(account=np.repeat(np.arange(20), 10))
    parts = datasets.train_test(data, by=by, test_share=0.3, seed=1)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(200))
    assert len(parts.test) == 60
    assert all((np.diff(part) > 0).all() for part in parts)


def test_rows_keep_the_labels_in_proportion_and_follow_the_seed():
    data = rows()
    one, again, other = (datasets.train_test(data, seed=seed).test for seed in (1, 1, 2))
    assert data.y[one].sum() == 6 and len(one) == 60
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)
    quantity = rows(y=np.random.default_rng(1).normal(size=200).astype(np.float32))
    assert len(datasets.train_test(quantity, seed=1).test) == 60


def test_accounts_stay_whole():
    account = np.repeat([7, 3, 9, 1, 4], 40)
    parts = datasets.train_test(rows(account=account), by="account", test_share=0.4)
    assert (
        set(account[parts.train]).isdisjoint(account[parts.test])
        and len(set(account[parts.test])) == 2
    )


def test_what_cannot_be_split_is_refused():
    with pytest.raises(ValueError, match="t cannot be split by account: its rows carry none"):
        datasets.train_test(rows(), by="account")
    with pytest.raises(ValueError, match="by must be one of rows, account, got 'day'"):
        datasets.train_test(rows(), by="day")
    for share in (0, 1, -0.1, np.nan):
        with pytest.raises(ValueError, match=r"test_share must be in \(0, 1\), got"):
            datasets.train_test(rows(), test_share=share)
    with pytest.raises(
        ValueError, match="a part would hold no row: 200 rows of t, test_share 0.01"
    ):
        datasets.train_test(rows(account=np.zeros(200, int)), by="account", test_share=0.01)


def test_a_fold_is_the_row_s_own():
    """Whatever rows are beside it, in whatever order and precision the file was read."""
    numbers = np.random.default_rng(1).normal(size=(20_000, 29))
    fold, chance = hashed(numbers)
    order = np.random.default_rng(2).permutation(20_000)[:5_000]
    part = hashed(np.asfortranarray(numbers[order].astype(np.float32)))
    np.testing.assert_array_equal(part, (fold[order], chance[order]))
    assert hashed(np.array([[0.0], [-0.0]]))[0].tolist() in ([0, 0], [1, 1], [2, 2], [3, 3], [4, 4])
    # pinned: another hash would put rows that were fitted to into the test
    assert hashed(np.arange(12).reshape(6, 2))[0].tolist() == [2, 4, 1, 4, 3, 0]
    # a share of 4,000 in 20,000 by Hoeffding: 400 off has chance 2 exp(-2 * 400^2 / 20,000) = 2e-7
    assert np.abs(np.bincount(fold, minlength=5) - 4_000).max() < 400
    within = chance[fold == 0]
    assert 0 <= within.min() and within.max() < 1 and abs(within.mean() - 0.5) < 0.05
