"""Measures of a loss by epoch: on curves whose answer is known."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from ppkit.spnn import loss_curves


def record(train_loss):
    return SimpleNamespace(curve=pd.DataFrame({"train_loss": train_loss}))


def test_means_are_of_five_splits_start_by_start():
    by_split = [[record([split, 10.0 * split]), record([0.0, split])] for split in range(10)]
    curves = loss_curves.means(by_split, "train_loss")
    assert curves.tolist() == [[[2, 20], [0, 2]], [[7, 70], [0, 7]]]


@pytest.mark.parametrize("n, sizes", [(1, [1]), (5, [5]), (6, [3, 3]), (15, [5, 5, 5])])
def test_every_split_stands_in_one_curve(n, sizes):
    curves = loss_curves.means([[record([2.0**split])] for split in range(n)], "train_loss")
    sums = curves[:, 0, 0] * sizes
    assert sums.sum() == 2.0**n - 1 and len(curves) == len(sizes)


def test_no_split_and_uneven_curves_are_refused():
    with pytest.raises(ValueError):
        loss_curves.means([], "train_loss")
    with pytest.raises(ValueError):
        loss_curves.means([[record([1.0, 2.0])], [record([1.0])]], "train_loss")


def test_a_curve_that_falls_is_steady_and_one_that_rises_is_not():
    down = np.linspace(1, 0.1, 31)
    assert loss_curves.falling(down) == 1 and loss_curves.rise(down) == 0
    assert loss_curves.falling(down[::-1]) == 0
    both = np.stack([down, down[::-1]])[None]
    assert loss_curves.falling(both).tolist() == [[1, 0]]


@pytest.mark.parametrize("jump, share", [(0.14, 1.0), (0.16, 0.5)])
def test_a_jump_counts_once_it_is_wider_than_the_trend_of_five_epochs(jump, share):
    trend = np.linspace(1, 0.1, 31)  # .03 an epoch
    curve = trend + jump * (np.arange(31) % 2)
    assert np.mean(np.diff(curve) < 0) == 0.5
    assert loss_curves.falling(curve) == pytest.approx(share, abs=0.03)


def test_the_loss_before_the_first_epoch_does_not_count():
    curve = np.array([0.01, *np.linspace(1, 0.5, 10)])
    assert loss_curves.falling(curve) == 1 and loss_curves.rise(curve) == 0


def test_the_rise_is_that_of_means_of_five():
    curve = np.array([1.0, *[0.5] * 5, *[0.6] * 5])
    assert loss_curves.rise(curve) == pytest.approx(0.2)


def test_too_few_epochs_are_refused():
    with pytest.raises(ValueError):
        loss_curves.rise(np.ones(5))
    with pytest.raises(ValueError, match="six epochs"):
        loss_curves.falling(np.ones(6))


def test_a_loss_that_stands_still_does_not_fall():
    assert loss_curves.falling(np.ones(20)) == 0 and loss_curves.rise(np.ones(20)) == 0
