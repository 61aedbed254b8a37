"""Splits: nothing lost, nothing shared, a test set that stays. Averages: against their
definition."""

import numpy as np
import pytest
import torch

from ppkit import datasets
from ppkit.datasets import dataset as making
from ppkit.federated import average, split


@pytest.fixture(scope="module")
def data():
    return datasets.load("transactions", rows=6_000, seed=2)


@pytest.fixture(scope="module")
def plain():
    rng = np.random.default_rng(0)
    return making.made(
        name="creditcard",
        X=rng.normal(size=(500, 3)).astype(np.float32),
        y=np.zeros(500, np.int8),
        feature_names=("a", "b", "c"),
        numeric=np.ones(3, bool),
        kind="real",
        of_rows=500,
        note="",
    )


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
    assert len(owned[-1]) == round(0.2 * len(np.unique(data.account)))


def test_the_test_set_depends_on_its_own_seed_only(data):
    fixed = split(data, n_participants=5).test
    for other in (
        split(data, n_participants=30),
        split(data, n_participants=5, seed=9),
        split(data, n_participants=5, by="category"),
    ):
        np.testing.assert_array_equal(other.test, fixed)
    one, two = (split(data, n_participants=5, seed=seed).participants[0] for seed in (0, 1))
    assert not np.array_equal(one, two)
    np.testing.assert_array_equal(split(data, n_participants=5, seed=1).participants[0], two)


@pytest.mark.parametrize("n_participants", [1, 5, 30])
def test_the_test_set_may_be_as_large_as_a_participant(data, n_participants):
    share = 1 / (n_participants + 1)
    parts = split(data, n_participants=n_participants, test_share=share)
    sizes = [len(np.unique(data.account[part])) for part in (*parts.participants, parts.test)]
    assert max(sizes) - min(sizes) <= 1


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
    with pytest.raises(ValueError, match="n_participants must be a whole number >= 1, got 0"):
        split(data, n_participants=0)
    with pytest.raises(ValueError, match=r"test_share must be in \(0, 1\), got 1"):
        split(data, n_participants=2, test_share=1)
    with pytest.raises(ValueError, match="by must be one of account, category, rows, got 'bank'"):
        split(data, n_participants=2, by="bank")
    with pytest.raises(ValueError, match="creditcard has no merchant categories to split by"):
        split(plain, n_participants=2, by="category")
    with pytest.raises(
        ValueError, match=r"would hold no row of creditcard \(500 rows, split by acc"
    ):
        split(plain, n_participants=401)
    with pytest.raises(ValueError, match="would hold no row of transactions"):
        split(data, n_participants=11, by="category")
    one = datasets.load("creditcard", source="standin", rows=2)
    with pytest.raises(ValueError, match="or the test set would hold no row of creditcard"):
        split(one, n_participants=2)


def test_the_average_is_the_weighted_mean_term_by_term():
    rng = torch.Generator().manual_seed(0)
    vectors = [torch.randn(7, generator=rng, dtype=torch.float64) for _ in range(3)]
    weights = (20, 15, 5)
    expected = [sum(w * float(v[i]) for w, v in zip(weights, vectors)) / 40 for i in range(7)]
    np.testing.assert_allclose(average(vectors, weights).numpy(), expected, rtol=1e-14)
    torch.testing.assert_close(
        average(vectors, (0.5, 0.375, 0.125)), average(vectors, weights), rtol=1e-14, atol=0
    )
    assert average([v.float() for v in vectors], weights).dtype == torch.float32


def test_vectors_may_come_right_from_models():
    models = [torch.nn.Linear(2, 1) for _ in range(2)]
    vectors = [torch.nn.utils.parameters_to_vector(model.parameters()) for model in models]
    mean = average(vectors, [1, 1])
    torch.testing.assert_close(mean, (vectors[0] + vectors[1]).detach() / 2)
    assert not mean.requires_grad


def test_a_weight_of_zero_leaves_a_vector_out_and_one_vector_is_its_own_mean():
    one, two = torch.tensor([1.0, 2.0]), torch.tensor([5.0, 7.0])
    torch.testing.assert_close(average([one, two], [0, 3]), two, rtol=0, atol=0)
    torch.testing.assert_close(average([one], [0.1]), one, rtol=0, atol=0)


def test_averaging_weights_and_averaging_differences_are_one_thing_from_one_start():
    rng = torch.Generator().manual_seed(1)
    start, *trained = (torch.randn(50, generator=rng, dtype=torch.float64) for _ in range(4))
    weights = (0.55, 0.35, 0.10)
    by_differences = start + average([vector - start for vector in trained], weights)
    assert (average(trained, weights) - by_differences).abs().max() < 1e-12


@pytest.mark.parametrize(
    "weights, words",
    [
        ([1, -0.5], "weights must be 2 numbers >= 0"),
        ([1, float("nan")], "weights must be 2 numbers >= 0"),
        ([float("inf"), 1], "weights must be 2 numbers >= 0"),
        ([0, 0], "weights must be 2 numbers >= 0, one a vector, and not all 0"),
        ([1], "weights must be 2 numbers >= 0, one a vector, and not all 0"),
    ],
)
def test_weights_that_are_none(weights, words):
    with pytest.raises(ValueError, match=words):
        average([torch.ones(3), torch.zeros(3)], weights)


@pytest.mark.parametrize(
    "vectors, words",
    [
        (
            [torch.ones(3), torch.tensor([1.0, float("nan"), 0.0])],
            "parameters must be finite, got 1 of 6",
        ),
        (
            [torch.tensor([1.0, float("inf"), 0.0]), torch.ones(3)],
            "parameters must be finite, got 1 of 6",
        ),
        (
            [torch.tensor([10, 20]), torch.tensor([30, 40])],  # a batch norm's num_batches_tracked
            "parameters must be vectors of floats, got torch.int64",
        ),
    ],
)
def test_vectors_that_cannot_be_averaged(vectors, words):
    with pytest.raises(ValueError, match=words):
        average(vectors, [1] * len(vectors))
