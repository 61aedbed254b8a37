"""Splits: nothing lost, nothing shared, a test set that stays."""

import numpy as np
import pytest

from ppkit import datasets
from ppkit.datasets import dataset as making
from ppkit.federated import split


@pytest.fixture(scope="module")
def data():
    return datasets.load("transactions", rows=6_000, seed=2)


@pytest.fixture(scope="module")
def plain():
    rng = np.random.default_rng(0)
    return making.made(name="creditcard", X=rng.normal(size=(500, 3)).astype(np.float32), y=np.zeros(500, np.int8),
                       feature_names=("a", "b", "c"), numeric=np.ones(3, bool), kind="real", of_rows=500, note="")


@pytest.mark.parametrize("by", ["account", "category", "rows"])
@pytest.mark.parametrize("n_participants", [1, 5, 10])
def test_every_row_lies_in_exactly_one_place(data, by, n_participants):
    parts = split(data, n_participants=n_participants, by=by)
    assert len(parts.participants) == n_participants
    together = np.concatenate([*parts.participants, parts.test])
    np.testing.assert_array_equal(np.sort(together), np.arange(data.n_rows))
    assert all((np.diff(part) > 0).all() for part in (*parts.participants, parts.test))


def test_an_account_has_one_owner_and_owners_have_as_many_accounts(data):
    parts = split(data, n_participants=7)
    owned = [set(data.account[part].tolist()) for part in (*parts.participants, parts.test)]
    assert sum(map(len, owned)) == len(set.union(*owned)) == len(np.unique(data.account))
    sizes = [len(accounts) for accounts in owned[:-1]]
    assert max(sizes) - min(sizes) <= 1
    assert len(owned[-1]) == round(.2 * len(np.unique(data.account)))


def test_the_test_set_depends_on_its_own_seed_only(data):
    fixed = split(data, n_participants=5).test
    for other in (split(data, n_participants=30), split(data, n_participants=5, seed=9),
                  split(data, n_participants=5, by="category")):
        np.testing.assert_array_equal(other.test, fixed)
    assert not np.array_equal(split(data, n_participants=5, test_seed=1).test, fixed)
    one, two = (split(data, n_participants=5, seed=seed).participants[0] for seed in (0, 1))
    assert not np.array_equal(one, two)
    np.testing.assert_array_equal(split(data, n_participants=5, seed=1).participants[0], two)


def test_by_category_every_participant_sees_its_own_categories(data):
    parts = split(data, n_participants=4, by="category")
    seen = [set(data.category[part].tolist()) for part in parts.participants]
    assert sum(map(len, seen)) == len(set.union(*seen)) == 10
    sizes = np.array([len(part) for part in parts.participants])
    assert sizes.max() < 2 * sizes.min()
    assert set(data.category[parts.test].tolist()) == set(range(10))


def test_rows_without_accounts_are_laid_singly(plain):
    parts = split(plain, n_participants=3)
    assert len(parts.test) == 100 and sorted(map(len, parts.participants)) == [133, 133, 134]
    np.testing.assert_array_equal(parts.test, split(plain, n_participants=3, by="rows").test)


def test_refusals_name_what_is_wrong(data, plain):
    with pytest.raises(ValueError, match="n_participants must be >= 1, got 0"):
        split(data, n_participants=0)
    for share in (0, 1, -.1, float("nan")):
        with pytest.raises(ValueError, match=r"test_share must be in \(0, 1\), got"):
            split(data, n_participants=2, test_share=share)
    with pytest.raises(ValueError, match="by must be one of 'account', 'category', 'rows', got 'bank'"):
        split(data, n_participants=2, by="bank")
    with pytest.raises(ValueError, match="creditcard has no merchant categories to split by"):
        split(plain, n_participants=2, by="category")
    with pytest.raises(ValueError, match=r"participant 400 of 401 would hold no row of creditcard \(500 rows"):
        split(plain, n_participants=401)
    with pytest.raises(ValueError, match="participant .* of 11 would hold no row of transactions"):
        split(data, n_participants=11, by="category")
    with pytest.raises(ValueError, match="the test set would hold no row: test_share 0.0001 of 500"):
        split(plain, n_participants=2, test_share=.0001)
