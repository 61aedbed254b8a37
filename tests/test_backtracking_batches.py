"""Batches out of gradients: everything that is found is a record, and what is known to be open is
found."""

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn

from ppkit.backtracking import batches
from ppkit.backtracking.analytic import shared_gradient
from ppkit.models import mlp


def batch(n_records, sizes=(30, 64, 2), seed=0, dtype=torch.float64):
    rng = torch.Generator().manual_seed(seed)
    model = mlp(sizes, rng=rng, dtype=dtype)
    X = torch.randn(n_records, sizes[0], generator=rng, dtype=dtype)
    y = torch.randint(0, max(2, sizes[-1]), (n_records,), generator=rng)
    return model, X, y


def per_record_biases(model, X, y):
    """Oracle: the first bias gradient of each record by itself, (N, H)."""
    return torch.stack(
        [shared_gradient(model, X[i : i + 1], y[i : i + 1])[1] for i in range(len(X))]
    ).numpy()


@pytest.mark.parametrize("n_records", [1, 3, 6, 9])
def test_isolated_counts_records_that_a_neuron_sees_alone(n_records):
    model, X, y = batch(n_records, (30, 20, 8, 2))
    seen = per_record_biases(model, X, y) != 0
    expected = [
        i for i in range(n_records) if any(seen[i, j] and seen[:, j].sum() == 1 for j in range(20))
    ]
    assert batches.isolated(model, X, y).tolist() == expected
    assert n_records > 3 or expected


def hits(found, X, limit=1e-6):
    """For each row found, the record of the batch that it is, to `limit`; an error if it is
    none."""
    distance = np.abs(found.rows[:, None] - X.double().numpy()[None]).max(axis=2)
    assert (distance.min(axis=1, initial=np.inf) < limit).all()
    return distance.argmin(axis=1)


@pytest.mark.parametrize("sizes", [(30, 64, 2), (30, 64, 1), (30, 64, 16, 2), (30, 64, 5)])
@pytest.mark.parametrize("seed", range(4))
def test_a_batch_of_six_falls_whole_without_a_look_at_it(sizes, seed):
    model, X, y = batch(6, sizes, seed)
    dW, db, *_ = shared_gradient(model, X, y)
    found = batches.from_batch(dW, db, model=model, n_records=6)
    at = hits(found, X)
    assert sorted(at) == list(range(6)) and (found.labels == y.numpy()[at]).all()
    assert set(batches.isolated(model, X, y)) <= set(at)


def test_peeling_and_differences_find_what_no_neuron_sees_alone():
    model, X, y = batch(12, seed=0)
    assert len(batches.isolated(model, X, y)) == 0
    dW, db, *_ = shared_gradient(model, X, y)
    found = batches.from_batch(dW, db, model=model, n_records=12)
    assert sorted(hits(found, X)) == list(range(12))


def test_what_does_not_fall_is_not_claimed():
    for n_records, sizes in ((32, (30, 64, 2)), (4, (30, 2)), (4, (30, 1))):
        model, X, y = batch(n_records, sizes)
        dW, db, *_ = shared_gradient(model, X, y)
        found = batches.from_batch(dW, db, model=model, n_records=n_records)
        assert found.rows.shape == (0, 30) and found.labels.shape == (0,)
    model, X, y = batch(6)
    dW, db, *_ = shared_gradient(model, X, y)
    assert (
        len(batches.from_batch(dW, db, model=model, n_records=7).rows) == 0
    )  # the wrong size confirms nothing
    assert len(batches.from_batch(dW, 1.001 * db, model=model, n_records=6).rows) == 0
    noise = 1e-4 * torch.randn(
        db.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    assert len(batches.from_batch(dW, db + noise, model=model, n_records=6).rows) == 0
    nothing = batches.from_batch(
        torch.zeros_like(dW), torch.zeros_like(db), model=model, n_records=6
    )
    assert len(nothing.rows) == 0
    model[1] = nn.Sigmoid()  # every neuron sees every record
    dW, db, *_ = shared_gradient(model, X, y)
    assert len(batches.from_batch(dW, db, model=model, n_records=6).rows) == 0


def test_a_single_record_falls_to_logistic_regression():
    for sizes in ((30, 1), (30, 2)):
        model, X, y = batch(1, sizes)
        found = batches.from_batch(*shared_gradient(model, X, y), model=model, n_records=1)
        assert hits(found, X).tolist() == [0] and found.labels.tolist() == y.tolist()


def test_a_record_that_stands_twice_is_missed_and_the_others_are_not():
    model, X, y = batch(6)
    X[1], y[1] = X[0], y[0]
    whole = shared_gradient(model, X, y)[:2]
    found = batches.from_batch(*whole, model=model, n_records=6)
    assert sorted(hits(found, X)) == [2, 3, 4, 5]


@pytest.mark.parametrize(
    "dtype, tolerance", [(torch.float64, 1e-9), (torch.float64, 1e-3), (torch.float32, 1e-3)]
)
def test_no_combination_of_records_passes_for_one_even_at_a_wide_tolerance(dtype, tolerance):
    for seed in range(10):
        model, X, y = batch(6, seed=seed, dtype=dtype)
        dW, db, *_ = shared_gradient(model, X, y)
        found = batches.from_batch(dW, db, model=model, n_records=6, tolerance=tolerance)
        assert sorted(hits(found, X, limit=1e-6 if dtype == torch.float64 else 1e-3)) == list(
            range(6)
        )


def test_more_rounds_isolate_more_rows():
    model, X, y = batch(9, (30, 24, 6, 2), seed=1)
    models, gradients = [], []
    for _ in range(6):
        models.append(copy.deepcopy(model))
        gradients.append(shared_gradient(model, X, y))
        model = mlp(
            (30, 24, 6, 2), rng=torch.Generator().manual_seed(len(models)), dtype=torch.float64
        )
    alone = [
        len(hits(batches.from_rounds([m], [g], n_records=9), X)) for m, g in zip(models, gradients)
    ]
    together = batches.from_rounds(models, gradients, n_records=9)
    assert max(alone) < 9 and sorted(hits(together, X)) == list(range(9))


def test_an_aggregator_who_chooses_the_weights_reads_many_rows_of_128():
    model, X, y = batch(128)
    with (
        torch.no_grad()
    ):  # one direction, thresholds at the quantiles of what it gives on rows of the same kind
        direction = torch.randn(30, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        model[0].weight.copy_(direction.expand(64, 30))
        model[0].bias.copy_(
            direction.norm()
            * torch.special.ndtri((torch.arange(64, dtype=torch.float64) + 0.5) / 64)
        )
    dW, db, *_ = shared_gradient(model, X, y)
    found = batches.from_batch(dW, db, model=model, n_records=128)
    assert len(set(hits(found, X))) == len(found.rows) >= 10


@pytest.mark.parametrize("sizes", [(30, 64, 2), (30, 64, 1)])
@pytest.mark.parametrize("l2_norm_clip", [1e-3, 1.0, 4.0])
def test_clipping_every_record_hides_no_record_and_no_outlier(sizes, l2_norm_clip):
    model, X, y = batch(8, sizes)
    X[3] *= 10
    single = [
        shared_gradient(model, X[i : i + 1], y[i : i + 1]) for i in range(8)
    ]  # oracle: one record at a time
    norms = [float(torch.cat([g.flatten() for g in grads]).norm()) for grads in single]
    assert l2_norm_clip < norms[3]
    dW, db = (
        sum(grads[k] * min(1.0, l2_norm_clip / norm) for grads, norm in zip(single, norms)) / 8
        for k in (0, 1)
    )
    found = batches.from_batch(dW, db, model=model, n_records=8, l2_norm_clip=l2_norm_clip)
    assert sorted(hits(found, X, limit=1e-5)) == list(range(8))
    sure = batches.from_batch(
        dW, db, model=model, n_records=8
    )  # who does not know the clip cannot test what he has
    assert len(sure.rows) < 8


def test_bad_input_is_named():
    model, X, y = batch(4)
    dW, db, *_ = shared_gradient(model, X, y)
    with pytest.raises(
        ValueError, match=r"the gradient must be \(64, 30\) and \(64,\) as the model's first layer"
    ):
        batches.from_batch(dW[:, 1:], db, model=model, n_records=4)
    with pytest.raises(
        ValueError, match="the gradient must be finite, got 64 of 1984 values that are NaN"
    ):
        batches.from_batch(dW, db * math.nan, model=model, n_records=4)
    for n_records in (0, 1.5):
        with pytest.raises(
            ValueError, match=f"n_records must be a whole number >= 1, got {n_records}"
        ):
            batches.from_batch(dW, db, model=model, n_records=n_records)
    with pytest.raises(ValueError, match="tolerance must be > 0, got 0"):
        batches.from_batch(dW, db, model=model, n_records=4, tolerance=0)
    for l2_norm_clip in (0.0, math.nan):
        with pytest.raises(ValueError, match=f"l2_norm_clip must be > 0, got {l2_norm_clip}"):
            batches.from_batch(dW, db, model=model, n_records=4, l2_norm_clip=l2_norm_clip)
    with pytest.raises(
        ValueError, match="the attack needs dW and db, and the first layer has no bias gradient"
    ):
        batches.from_batch(dW, None, model=model, n_records=4)
    with pytest.raises(
        ValueError, match="needs a model and a gradient, got 2 models and 1 gradients"
    ):
        batches.from_rounds([model, model], [(dW, db)], n_records=4)

    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(30, 64)

        def forward(self, X):
            return self.first(X)

    with pytest.raises(ValueError, match="an nn.Sequential that begins with Linear, got Own"):
        batches.from_batch(dW, db, model=Own(), n_records=4)
    with pytest.raises(ValueError, match="begins with Linear, got Sequential"):
        batches.from_batch(dW, db, model=nn.Sequential(nn.Flatten(), *model), n_records=4)
    with pytest.raises(
        ValueError, match="at least one, needs a model and a gradient, got 0 models"
    ):
        batches.from_rounds([], [], n_records=4)
