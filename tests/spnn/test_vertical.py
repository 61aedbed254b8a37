"""The two data sets as holders have them: no column lost, twice or in other hands, nothing fitted
on what tests."""

import numpy as np
import pytest
import torch

from ppkit import datasets
from ppkit.spnn.vertical import LEAKAGE, above_median, distress, fraud, vertical


@pytest.fixture(scope="module")
def cards():
    return datasets.load("creditcard", source="standin", rows=20_000)


@pytest.fixture(scope="module")
def companies():
    return datasets.load("distress", source="standin")


@pytest.mark.parametrize(
    "holders, widths",
    [(1, [28]), (2, [14, 14]), (3, [10, 9, 9]), (5, [6, 6, 6, 5, 5]), (14, [2] * 14)],
)
def test_fraud_has_v1_to_v28_once_in_nearly_equal_widths(cards, holders, widths):
    held = fraud(cards, holders=holders)
    assert held.holders == widths and held.feature_names == tuple(f"V{i}" for i in range(1, 29))
    for key in ("train", "test"):
        assert [part.shape for part in held.parts[key]] == [
            (len(held.y[key]), width) for width in widths
        ]
        X = torch.cat(held.parts[key], dim=1)
        first, last = cards.feature_names.index("V1"), cards.feature_names.index("V28")
        raw = cards.X[held.rows[key]][:, first : last + 1]
        assert all(np.corrcoef(raw[:, j], X[:, j])[0, 1] > 0.99999 for j in range(28))
        assert torch.equal(held.y[key], torch.from_numpy(cards.y[held.rows[key]].astype(np.int64)))
    parts, y = held["test"]
    assert parts is held.parts["test"] and y is held.y["test"]


def test_the_amount_comes_last_if_asked(cards):
    assert fraud(cards, with_amount=True).feature_names[-2:] == ("V28", "Amount")
    assert fraud(cards, with_amount=True).holders == [15, 14]


def test_rows_are_cut_80_to_20_with_the_frauds_in_proportion(cards):
    held = fraud(cards, seed=3)
    both = np.concatenate([held.rows["train"], held.rows["test"]])
    assert np.array_equal(np.sort(both), np.arange(20_000)) and len(held.rows["test"]) == 4_000
    frauds = [int(held.y[key].sum()) for key in ("train", "test")]
    assert sum(frauds) == int(cards.y.sum()) and frauds[1] == round(0.2 * sum(frauds))
    assert not np.array_equal(held.rows["test"], fraud(cards, seed=4).rows["test"])
    assert np.array_equal(
        held.rows["test"], datasets.train_test(cards, test_share=0.2, seed=3).test
    )


def test_table_2_cuts_50_25_25(cards):
    held = fraud(cards, fractions=LEAKAGE, seed=1)
    assert list(held.parts) == ["shadow", "train", "test"]
    assert [len(held.rows[key]) for key in held.rows] == [10_000, 5_000, 5_000]
    assert np.array_equal(np.sort(np.concatenate(list(held.rows.values()))), np.arange(20_000))


@pytest.mark.parametrize("fractions", [{"train": 0.8, "test": 0.2}, LEAKAGE])
def test_only_training_rows_set_mean_and_deviation(cards, fractions):
    held = fraud(cards, fractions=fractions, with_amount=True, dtype=torch.float64)
    X = {key: torch.cat(parts, dim=1) for key, parts in held.parts.items()}
    assert (
        X["train"].mean(dim=0).abs().max() < 1e-5
        and (X["train"].std(dim=0, correction=0) - 1).abs().max() < 1e-5
    )
    for key in set(X) - {"train"}:
        assert X[key].mean(dim=0).abs().max() > 1e-3


def test_distress_keeps_its_one_hot_columns_and_goes_to_two_holders(companies):
    held = distress(companies)
    assert sum(held.holders) == 555 and abs(len(held.y["train"]) - 0.7 * 3_672) <= 1
    X = torch.cat(held.parts["train"], dim=1)
    coded = torch.from_numpy(~companies.numeric)
    assert set(X[:, coded].unique().tolist()) == {0.0, 1.0} and (X[:, coded].sum(dim=1) == 3).all()
    assert X[:, ~coded].mean(dim=0).abs().max() < 1e-4


def test_whole_columns_of_distress_stay_with_one_holder(companies):
    held = distress(companies)
    names = np.split(np.array(held.feature_names), np.cumsum(held.holders)[:-1])
    of_a, of_b = ({name.split(" = ")[0] for name in part} for part in names)
    assert not of_a & of_b and (len(of_a), len(of_b)) == (43, 42) and held.holders == [513, 42]
    assert {"Company", "Time", "x80", "x1"} <= of_a and {"x81", "x83"} <= of_b
    one = distress(companies, holders=1)
    assert torch.equal(torch.cat(held.parts["test"], dim=1), one.parts["test"][0])


def test_whole_columns_need_not_be_coded(cards):
    names = ["V1", "V2", "V3"]
    held = vertical(cards, names, 2, fractions=LEAKAGE, seed=0)
    assert held.holders == [2, 1]


def test_the_property_is_above_the_median_and_ties_are_not(cards):
    amount = cards.X[:, cards.feature_names.index("Amount")]
    above = above_median(cards).numpy()
    assert set(above) == {0, 1} and np.array_equal(above == 1, amount > np.median(amount))
    assert (amount[above == 1].min() > amount[above == 0].max()) and 0.4 < above.mean() <= 0.5
    odd = datasets.load(
        "creditcard", source="standin", rows=501
    )  # the median is a row's own value: that row is not above
    sizes = np.sort(odd.X[:, odd.feature_names.index("Amount")])
    ties_and_below = np.searchsorted(sizes, sizes[250], side="right")
    assert int(above_median(odd).sum()) == 501 - ties_and_below <= 250


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"fractions": {"train": 0.8, "test": 0.3}}, "fractions must sum to 1, got"),
        ({"holders": 0}, "28 cannot be dealt to 0"),
        ({"holders": 29}, "28 cannot be dealt to 29"),
    ],
)
def test_bad_settings_are_named(cards, wrong, said):
    with pytest.raises(ValueError, match=said):
        fraud(cards, **wrong)


def test_another_data_set_is_refused(cards, companies):
    with pytest.raises(ValueError, match="dataset must be one of creditcard, got 'distress'"):
        fraud(companies)
    with pytest.raises(ValueError, match="dataset must be one of distress, got 'creditcard'"):
        distress(cards)
    with pytest.raises(ValueError, match="distress has no column 'Amount'"):
        above_median(companies)
    with pytest.raises(ValueError, match="creditcard has no column 'V29'"):
        vertical(cards, ["V1", "V29"], 2, fractions={"train": 0.5, "test": 0.5}, seed=0)
