"""SPNN and SplitNN under the same attacks: what each server is given decides."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from ppkit.datasets import load
from ppkit.spnn import rival_attacks, vertical

SCALE = rival_attacks.Scale(
    batch=1_000,
    n_epochs=8,
    n_known=100,
    n_known_bits=300,
    n_known_bits_one_look=1_000,
    n_attacked=1_000,
)


@pytest.fixture(scope="module")
def scene():
    """Cards with few rows, both labels among them, and the amount's bits."""
    cards = load("creditcard", source="standin", seed=0)
    whole = vertical.fraud(cards, fractions=vertical.LEAKAGE, seed=0, dtype=torch.float64)
    rows = {}
    for key, y in whole.y.items():
        first = np.argsort(-y.numpy(), kind="stable")[:2_000]
        rows[key] = np.random.default_rng(0).permutation(first)
    small = replace(
        whole,
        parts={key: [part[rows[key]] for part in whole.parts[key]] for key in rows},
        y={key: whole.y[key][rows[key]] for key in rows},
        rows={key: whole.rows[key][rows[key]] for key in rows},
    )
    return small, vertical.above_median(cards).numpy()


@pytest.fixture(scope="module")
def found(scene):
    return {
        arm: rival_attacks.attacked(arm, *scene, seed=0, scale=SCALE) for arm in rival_attacks.ARMS
    }


@pytest.mark.slow
def test_both_give_the_labels_and_splitnn_gives_a_holders_part_as_it_is(found):
    for arm in rival_attacks.ARMS:
        assert found[arm]["labels, B"] > 0.99 and found[arm]["labels, server"] > 0.99
    assert found["SplitNN, SGD"]["one holder's part"] == 1
    assert 0 < found["SPNN, SGD"]["one holder's part"] < 0.99


@pytest.mark.slow
def test_looks_add_up_under_every_arm(found):
    for arm in rival_attacks.ARMS:
        one, every = (found[arm][f"features, {looks}"] for looks in ("one look", "all looks"))
        assert one < 0.5 < every <= 1, arm


@pytest.mark.slow
def test_spnn_under_both_optimisers_starts_from_the_same_look(found):
    sgd, sgld = found["SPNN, SGD"], found["SPNN, SGLD"]
    assert sgd["features, one look"] == sgld["features, one look"]
    assert sgd["labels, B"] == sgld["labels, B"]
    assert sgd["task"] != sgld["task"]


def test_an_unknown_arm_is_refused(scene):
    with pytest.raises(ValueError, match="SPNN, SGD"):
        rival_attacks.attacked("SplitNN, SGLD", *scene, seed=0)
