"""train_test: every row in one part, labels in proportion, whole accounts, and time that does not
run backwards; hashed: a fold that is the row's own."""

import numpy as np
import pytest

from ppkit import datasets
from ppkit.datasets import dataset as making
from ppkit.datasets import dataset as splitting


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
    fold, chance = splitting.hashed(numbers)
    order = np.random.default_rng(2).permutation(20_000)[:5_000]
    part = splitting.hashed(np.asfortranarray(numbers[order].astype(np.float32)))
    np.testing.assert_array_equal(part, (fold[order], chance[order]))
    assert splitting.hashed(np.array([[0.0], [-0.0]]))[0].tolist() in (
        [0, 0],
        [1, 1],
        [2, 2],
        [3, 3],
        [4, 4],
    )
    # pinned: another hash would put rows that were fitted to into the test
    assert splitting.hashed(np.arange(12).reshape(6, 2))[0].tolist() == [2, 4, 1, 4, 3, 0]
    # a share of 4,000 in 20,000 by Hoeffding: 400 off has chance 2 exp(-2 * 400^2 / 20,000) = 2e-7
    assert np.abs(np.bincount(fold, minlength=5) - 4_000).max() < 400
    within = chance[fold == 0]
    assert 0 <= within.min() and within.max() < 1 and abs(within.mean() - 0.5) < 0.05
