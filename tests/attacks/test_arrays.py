"""What attacks refuse, each in a sentence that names the argument: somebody else's data come as
tables with text, masks in place of row numbers, labels of 1 and 2, and constant columns.
"""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch

from ppkit.attacks import (
    completion,
    features,
    label_defences,
    label_holder,
    labels,
    linking,
    property,
    property_defences,
    second_layer,
    tracking,
)
from ppkit.attacks.arrays import bits_of, matrices, matrix, rows_of, scores_of

N, D, WIDTH = 60, 4, 3
rng = partial(np.random.default_rng, 0)
X = rng().normal(size=(N, D))
VIEWS = [X @ theta for theta in rng().normal(size=(3, D, WIDTH))]
MASK = np.arange(N) < 20
Y = MASK.astype(int)
TEXT = pd.DataFrame({"sex": ["F", "M"] * 10})
IN_UNIT = 1 / (1 + np.exp(-VIEWS[0]))


def test_tables_and_tensors_are_taken_as_arrays():
    frame = pd.DataFrame(X, index=np.arange(N)[::-1])
    for values in (frame, torch.tensor(X, requires_grad=True), X.tolist()):
        assert np.array_equal(matrix("X", values), X)
    assert rows_of("known", frame.index[:3], N).tolist() == [59, 58, 57]
    assert bits_of("bits", pd.Series([True, False], index=[1, 0])).tolist() == [1, 0]
    assert scores_of("scores", torch.arange(3)).tolist() == [0, 1, 2]
    assert len(matrices("views", [frame, X])) == 2


@pytest.mark.parametrize("known", [MASK, [N], [-1], [0.5, 1.0], [[0, 1]], ["a"]], ids=str)
@pytest.mark.parametrize("attack", ["reconstruct", "moved", "completed", "columns", "rejoin"])
def test_known_rows_are_row_numbers_and_neither_a_mask_nor_out_of_range(known, attack):
    X_known = X[: len(known)]
    with pytest.raises(
        ValueError, match=r"^(known|rows) must be row numbers of 0 to 59 \(of a mask"
    ):
        if attack == "reconstruct":
            features.reconstruct(VIEWS, known, X_known)
        elif attack == "moved":
            linking.reconstruct_moved(VIEWS, [np.zeros(N)] * 3, known, X_known, noise=1e-5)
        elif attack == "completed":
            completion.completed(X, known, Y[: len(known)], rng=rng())
        elif attack == "columns":
            second_layer.columns(VIEWS, known, X_known, width=WIDTH, rng=rng())
        else:
            tracking.rejoin([[np.ones((D, WIDTH))]], [[VIEWS[0]]], known, noise=1e-4)


REFUSED = {
    "text": (
        lambda: features.reconstruct(VIEWS, range(20), TEXT),
        "X_known must be numbers, with text as codes: .*'F'",
    ),
    "no rows": (lambda: labels.first_direction(np.zeros((0, 3))), "must be a matrix, got shape"),
    "digits as text": (
        lambda: features.reconstruct(VIEWS, range(2), [["1"], ["2"]]),
        "X_known must be numbers, with text as codes: got '1'",
    ),
    "no epoch": (
        lambda: tracking.rejoin([], [], [], noise=1e-4),
        "views must be one epoch of one batch or more, got none",
    ),
    "no views": (lambda: labels.averaged([]), "gradients must be one matrix or more"),
    "views of unlike rows": (
        lambda: features.reconstruct([X, X[:9]], range(5), X[:5]),
        r"views must be one matrix or more, all of one shape, got \[\(60, 4\), \(9, 4\)\]",
    ),
    "followed unlike rows": (lambda: linking.follow([X, X[:9]]), "views must be one matrix or mo"),
    "known and X_known": (
        lambda: features.reconstruct(VIEWS, range(9), X[:10]),
        "known and X_known must have the same rows, got 9 and 10",
    ),
    "a guess of one row": (lambda: features.r_squared(X, X[:1]), "X and guess must have one shape"),
    "constant X": (lambda: features.r_squared(X * 0, X), "X must vary: all 60 rows are equal"),
    "gradients too few": (
        lambda: features.inner_products(VIEWS, VIEWS[:1], lr=1.0, n_features=D),
        "two views or more and a gradient for each, .* 3 views and 1 gradients",
    ),
    "one view": (
        lambda: features.inner_products(VIEWS[:1], VIEWS[:1], lr=1.0, n_features=D),
        "two views or more",
    ),
    "gradients of other rows": (
        lambda: features.inner_products(VIEWS, [X[:5, :3]] * 3, lr=1.0, n_features=D),
        r"gradients must be \(60, 3\) as the views",
    ),
    "n_features": (lambda: features.whitened(VIEWS, n_features=3.5), "n_features must be a whole"),
    "two records": (lambda: features.categories([X[:2]]), "views must have three records or more"),
    "targets": (lambda: labels.explained(X, X[:9], rng=rng()), "inputs and targets must have the"),
    "folds": (lambda: labels.explained(X[:3], X[:3], rng=rng()), "folds must be at most the 3"),
    "one class": (lambda: property.leak(Y * 0, Y), "bits must have two of each at least, got 0 of"),
    "scores": (lambda: property.leak(Y, Y[:9]), "bits and scores must have the same rows"),
    "no scores": (lambda: property.leak(Y, Y * np.nan), "scores must be finite"),
    "a column of bits": (
        lambda: property.infer(X, Y[:, None], X, rng=rng()),
        r"property_known must be one 0 or 1 for each record, got shape \(60, 1\)",
    ),
    "bits of other rows": (
        lambda: property.infer(X, Y[:9], X, rng=rng()),
        "hidden_known and property_known must have the same rows",
    ),
    "unlike columns": (
        lambda: property.infer(X, Y, X[:, :2], rng=rng()),
        "must have the same columns, got 4 and 2",
    ),
    "sizes": (
        lambda: property.sweep(
            property.Scene(X, Y, known=X, known_bits=Y), sizes=[61], repeats=1, rng=rng()
        ),
        r"sizes must be of 2 to the 60 known records, got \[61\]",
    ),
    "batches": (
        lambda: linking.reconstruct_moved(VIEWS, [MASK] * 2, range(9), X[:9], noise=1e-5),
        "batches must be 3 arrays of 60, one for each view",
    ),
    "noise": (
        lambda: linking.reconstruct_moved(VIEWS, [MASK] * 3, range(9), X[:9], noise=0),
        "noise must be > 0",
    ),
    "no positives": (
        lambda: completion.few_labels(Y * 0, 4, rng=rng()),
        "there must be two positives or more, got 0",
    ),
    "labels of 1 and 2": (
        lambda: completion.completed(X, range(N), Y + 1, rng=rng()),
        "y_known must be 0 or 1, got 2",
    ),
    "h_last of ReLU": (
        lambda: label_holder.fit(np.maximum(VIEWS[0], 0), X[:, :3], X, rng=rng()),
        r"h_last must lie in \(0, 1\), as a sigmoid's values do, got \d+ that do not",
    ),
    "own of other rows": (
        lambda: label_holder.fit(IN_UNIT, X[:9, :3], X, rng=rng()),
        "h_last and own and X_known must have the same rows",
    ),
    "fits": (
        lambda: label_holder.rebuilt([IN_UNIT], [X[:, :3]], []),
        "as many looks as own parts and fits, got 1, 1 and 0",
    ),
    "view_known": (
        lambda: second_layer.fit_layers(X[:50], X, width=3, rng=rng()),
        "view_known and X_known must have the same rows",
    ),
    "theta": (
        lambda: tracking.track(np.ones((D, 3)), X, X, spread=0.1, share=0.5, rng=rng()),
        r"theta \(4, 3\) needs a view of 3 columns",
    ),
    "few rows in view": (
        lambda: tracking.track(np.ones((D, D)), X[:5], X, spread=0.1, share=0.5, rng=rng()),
        "more than 10 rows",
    ),
    "spread": (
        lambda: tracking.track(np.ones((D, D)), X, X, spread=0, share=0.5, rng=rng()),
        "spread must be a finite number > 0",
    ),
    "share": (
        lambda: tracking.track(np.ones((D, D)), X, X, spread=0.1, share=1.0, rng=rng()),
        r"share must be in \(0, 1\)",
    ),
    "thetas": (lambda: tracking.rejoin([[]], [[X]], [0], noise=1e-4), "a theta for each batch"),
    "shaped noise for 1 and 2": (
        lambda: label_defences.shaped_noise(
            torch.tensor(X), torch.tensor(Y + 1), power=1.0, rng=torch.Generator()
        ),
        "labels must be 0 or 1, got 2",
    ),
    "direction of 1 and 2": (
        lambda: property_defences.property_direction(torch.tensor(X), torch.tensor(Y + 1)),
        "bits must be 0 or 1, got 2",
    ),
    "direction of one value": (
        lambda: property_defences.property_direction(torch.tensor(X), torch.tensor(Y * 0)),
        "bits must have both values, got 0 only",
    ),
    "guard of 1 and 2": (
        lambda: property_defences.Defender(D, strength=1.0, rng=torch.Generator()).guard(
            torch.tensor(X, requires_grad=True), torch.tensor(Y + 1)
        ),
        "bits must be 0 or 1, got 2",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_in_a_sentence(case):
    call, said = REFUSED[case]
    with pytest.raises(ValueError, match=said):
        call()


def test_a_step_whose_scores_are_alike_takes_nothing_from_the_others():
    steps = [VIEWS[0][:, :2], VIEWS[0][:, :2] * 1.1]
    across = np.c_[np.full(N, 3.0), np.where(MASK, 1.0, -1.0) * 1e-9]  # varies beside its length
    np.testing.assert_allclose(
        labels.averaged([*steps, across]).scores, labels.averaged(steps).scores
    )


@pytest.mark.parametrize("value", [1.0, 0.1, 1 / 3])  # the deviation of the last two is rounding
def test_a_constant_column_links_as_none(value):
    constant = np.c_[VIEWS[0], np.full(N, value)]
    assert np.ptp(constant[:, -1]) == 0
    found = linking.follow([constant, constant * 1.0001])
    alone = linking.follow([VIEWS[0], VIEWS[0] * 1.0001])
    assert found.sure.all() and alone.sure.all()
    assert np.array_equal(found.positions[1], alone.positions[1])


def test_a_constant_column_is_explained_by_none():
    X_and_constant = np.c_[X, np.ones(N)]
    shares = labels.explained(X_and_constant, X_and_constant, rng=rng())
    assert (shares[:-1] > 0.9).all() and shares[-1] == 0.0
    assert labels.explained(X, X[:, :1], rng=rng()) == pytest.approx(shares[0])


def test_a_whole_number_may_be_written_with_a_point():
    assert completion.few_labels(Y, 4.0, rng=rng()).tolist() == (
        completion.few_labels(Y, 4, rng=rng()).tolist()
    )


def test_a_step_without_gradients_takes_nothing_from_the_others():
    steps = [VIEWS[0], VIEWS[0] * 1.1]
    for value in (0.0, 1.0, 0.1, 1 / 3):  # all alike, too
        alike = np.full_like(VIEWS[0], value)
        np.testing.assert_allclose(
            labels.averaged([*steps, alike]).scores, labels.averaged(steps).scores
        )


def test_arrays_are_noised_like_tensors():
    def noised(kind):
        make = torch.Generator().manual_seed
        return (
            label_defences.shaped_noise(kind(X), kind(Y), power=1.0, rng=make(0)),
            label_defences.randomised(kind(Y), epsilon=1.0, rng=make(0)),
        )

    for one, other in zip(noised(torch.tensor), noised(np.array)):
        assert torch.equal(one, other)
