"""Gradient matching finds the batch where it is determined, and its distance says when it did
not."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn

from ppkit.backtracking import matching
from ppkit.backtracking.analytic import shared_gradient
from ppkit.backtracking.matching import class_counts, match, row_errors
from ppkit.models import mlp

ACTIVATIONS = {"sigmoid": nn.Sigmoid, "tanh": nn.Tanh, "softplus": nn.Softplus, "relu": nn.ReLU}


def victim(n_records, *, activation="tanh", sizes=(30, 16, 2), seed=0):
    rng = torch.Generator().manual_seed(seed)
    model = mlp(sizes, rng=rng, dtype=torch.float64)
    for k in range(1, len(model), 2):
        model[k] = ACTIVATIONS[activation]()
    X = torch.randn(n_records, sizes[0], generator=rng, dtype=torch.float64)
    y = torch.randint(0, max(2, sizes[-1]), (n_records,), generator=rng)
    return model, X, y, rng


@pytest.fixture
def knowing(monkeypatch):
    """An attacker who knows the class counts, and draws nothing to find them."""

    def told(y):
        counts = tuple(torch.bincount(y, minlength=2).tolist())
        monkeypatch.setattr(matching, "class_counts", lambda *_, **__: [counts])

    return told


def assert_found(result, X, y, limit=1e-5):
    assert row_errors(result.rows, X).max() < limit
    at = [int(np.abs(result.rows - x).max(axis=1).argmin()) for x in X.numpy()]
    assert sorted(at) == list(range(len(X))) and result.labels[at].tolist() == y.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["sigmoid", "tanh", "softplus"])
@pytest.mark.parametrize("n_records", [1, 2, 3, 4])
def test_smooth_nets_give_rows_and_labels_of_small_batches(activation, n_records):
    model, X, y, rng = victim(n_records, activation=activation, seed=n_records)
    result = match(model, shared_gradient(model, X, y), n_records=n_records, rng=rng)
    assert_found(result, X, y)
    assert result.distance < 1e-8


@pytest.mark.parametrize("sizes", [(30, 16, 1), (30, 16, 3), (30, 16, 8, 2), (5, 16, 2)])
def test_other_widths_depths_and_numbers_of_logits(sizes):
    model, X, y, rng = victim(2, sizes=sizes)
    assert_found(match(model, shared_gradient(model, X, y), n_records=2, rng=rng), X, y)


@pytest.mark.slow
def test_relu_goes_as_far_as_its_pieces_let():
    found = 0
    for seed in range(4):
        model, X, y, rng = victim(2, activation="relu", seed=seed)
        result = match(model, shared_gradient(model, X, y), n_records=2, rng=rng, n_restarts=6)
        good = row_errors(result.rows, X).max() < 1e-5
        assert good == (result.distance < 1e-6)  # the attacker knows which
        found += good
    assert found >= 2


def test_the_row_space_is_what_makes_it_quick(monkeypatch, knowing):
    model, X, y, rng = victim(3)
    knowing(y)
    gradient = shared_gradient(model, X, y)
    inside = match(model, gradient, n_records=3, rng=rng, n_restarts=1, n_steps=60)
    monkeypatch.setattr(matching, "_row_space", lambda target, n_records: (None, None))
    outside = match(model, gradient, n_records=3, rng=rng, n_restarts=1, n_steps=60)
    assert inside.distance < 1e-3 * outside.distance
    both = (
        torch.cat(gradient[:2], dim=1)
        if gradient[1].ndim == 2
        else torch.cat([gradient[0], gradient[1][:, None]], dim=1)
    )
    lines = np.c_[inside.rows, np.ones(3)]
    left = np.linalg.lstsq(both.numpy().T, lines.T, rcond=1e-9)[0]
    np.testing.assert_allclose(
        both.numpy().T @ left, lines.T, atol=1e-8
    )  # every row found lies in it


def test_without_a_row_space_all_features_are_searched(monkeypatch, knowing):
    model, X, y, rng = victim(
        2, sizes=(3, 2)
    )  # rank 1 for two records: only an affine combination is determined
    gradient = shared_gradient(model, X, y)
    knowing(y)
    result = match(model, gradient, n_records=2, rng=rng)
    monkeypatch.undo()
    assert result.distance < 1e-6 < row_errors(result.rows, X).max()
    again = shared_gradient(model, torch.tensor(result.rows), torch.tensor(result.labels))
    for ours, theirs in zip(again, gradient):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
    model, X, y, rng = victim(1, activation="softplus", sizes=(4, 16, 2))
    model[0].bias = None
    assert_found(match(model, shared_gradient(model, X, y), n_records=1, rng=rng), X, y, limit=1e-4)


def test_distance_is_the_one_between_the_gradients(knowing):
    model, X, y, rng = victim(4)
    knowing(y)
    gradient = shared_gradient(model, X, y)
    result = match(model, gradient, n_records=4, rng=rng, n_restarts=1, n_steps=3)
    again = shared_gradient(model, torch.tensor(result.rows), torch.tensor(result.labels))
    made, true = (torch.cat([g.flatten() for g in one]) for one in (again, gradient))
    assert result.distance == pytest.approx(float((made - true).norm() / true.norm()), rel=1e-9)
    assert result.distance > 1e-4


def test_noise_on_the_gradient_is_seen_in_the_distance(knowing):
    model, X, y, rng = victim(2)
    knowing(y)
    gradient = shared_gradient(model, X, y)
    size = math.sqrt(sum(float(g.square().sum()) for g in gradient))
    noisy = [
        g + 0.3 * size / math.sqrt(g.numel()) * torch.randn(g.shape, generator=rng, dtype=g.dtype)
        for g in gradient
    ]
    result = match(model, noisy, n_records=2, rng=rng, n_restarts=2)
    assert result.distance > 0.05 and row_errors(result.rows, X).max() > 0.1


def test_the_same_generator_gives_the_same_rows():
    model, X, y, _ = victim(2)
    gradient = shared_gradient(model, X, y)
    one, two = (
        match(model, gradient, n_records=2, rng=torch.Generator().manual_seed(5)) for _ in range(2)
    )
    assert (one.rows == two.rows).all() and one.distance == two.distance
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("n_logits", [1, 2, 3])
def test_class_counts_hold_the_true_ones_and_one_record_has_one(n_logits):
    first = 0
    for seed in range(60):
        n_records = 1 + seed % 5
        model, X, y, rng = victim(n_records, sizes=(6, 5, n_logits), seed=seed)
        with torch.no_grad():
            model[2].weight *= 3
        possible = class_counts(
            model, shared_gradient(model, X, y)[-1], n_records=n_records, rng=rng
        )
        true = tuple(int((y == k).sum()) for k in range(max(2, n_logits)))
        assert true in possible and all(
            sum(counts) == n_records and min(counts) >= 0 for counts in possible
        )
        assert n_records > 1 or possible == [true]
        db = shared_gradient(model, X, y)[-1].tolist()
        db = db if n_logits > 1 else [-db[0], db[0]]
        allowed = [
            counts
            for counts in itertools.product(range(n_records + 1), repeat=len(db))
            if sum(counts) == n_records
            and all(-g < count / n_records < 1 - g for count, g in zip(counts, db))
        ]
        assert sorted(possible) == allowed
        first += possible[0] == true
    assert first >= 45


@pytest.mark.slow
def test_more_restarts_are_never_worse_and_sometimes_better(knowing):
    better = 0
    for seed in range(4):
        model, X, y, _ = victim(3, activation="relu", seed=seed)
        gradient = shared_gradient(model, X, y)
        knowing(y)
        one, five = (
            match(
                model,
                gradient,
                n_records=3,
                rng=torch.Generator().manual_seed(1),
                n_restarts=k,
                n_steps=40,
            ).distance
            for k in (1, 5)
        )
        assert five <= one
        better += five < 0.9 * one
    assert better


def test_row_errors_are_those_of_the_best_assignment():
    rng = np.random.default_rng(0)
    for n_found, n_true in ((4, 4), (2, 4), (5, 3)):
        found, truth = rng.standard_normal((n_found, 3)), rng.standard_normal((n_true, 3))
        cost = np.sqrt(((truth[:, None] - found[None]) ** 2).mean(axis=2))
        least = min(
            sum(cost[i, j] for i, j in zip(rows, columns))
            for rows in itertools.combinations(range(n_true), min(n_found, n_true))
            for columns in itertools.permutations(range(n_found), min(n_found, n_true))
        )
        errors = row_errors(found, truth)
        assert errors[np.isfinite(errors)].sum() == pytest.approx(least, rel=1e-12)
        assert np.isinf(errors).sum() == max(0, n_true - n_found)
    assert np.isinf(row_errors(np.zeros((0, 3)), np.ones((2, 3)))).all()


def test_bad_input_is_named():
    model, X, y, rng = victim(2)
    gradient = shared_gradient(model, X, y)
    for settings, message in (
        ({"n_records": 0}, "n_records must be a whole number from 1 to 8, got 0"),
        ({"n_records": 9}, "n_records must be a whole number from 1 to 8, got 9"),
        ({"n_restarts": 0}, "n_restarts must be a whole number >= 1, got 0"),
        ({"n_steps": 1.5}, "n_steps must be a whole number >= 1, got 1.5"),
    ):
        with pytest.raises(ValueError, match=message):
            match(model, gradient, **{"n_records": 2, "rng": rng, **settings})
    with pytest.raises(ValueError, match="one tensor per parameter, of shapes"):
        match(model, gradient[:2], n_records=2, rng=rng)
    with pytest.raises(ValueError, match="the gradient must be finite, got 1 of 2 values"):
        match(
            model, [*gradient[:3], gradient[3] * torch.tensor([1, math.nan])], n_records=2, rng=rng
        )
    with pytest.raises(ValueError, match="the gradient is 0: there is nothing to match"):
        match(model, [0 * g for g in gradient], n_records=2, rng=rng)
    with pytest.raises(ValueError, match="a model whose first layer is Linear, got ReLU"):
        match(nn.Sequential(nn.ReLU(), *model), gradient, n_records=2, rng=rng)
    with pytest.raises(
        ValueError, match=r"no class counts of 2 records fit a last bias gradient of \[3.0, 3.0\]"
    ):
        class_counts(model, torch.tensor([3.0, 3.0], dtype=torch.float64), n_records=2, rng=rng)
    with pytest.raises(ValueError, match=r"one entry per logit, got \(3,\)"):
        class_counts(model, torch.zeros(3, dtype=torch.float64), n_records=2, rng=rng)
    with pytest.raises(
        ValueError,
        match=r"found and truth must be \(K, F\) and \(N, F\), got \(2, 3\) and \(2, 4\)",
    ):
        row_errors(np.zeros((2, 3)), np.zeros((2, 4)))
