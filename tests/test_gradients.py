import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from ppkit.gradients import capture, clipped_sum, mean_clipped, mean_plain
from ppkit.models import mlp


def per_record(model, X, y):
    """Oracle: one backward pass of autograd per record; (N, P)."""
    rows = []
    for n in range(len(X)):
        loss = functional.cross_entropy(model(X[n : n + 1]), y[n : n + 1].long())
        rows.append(
            torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])
        )
    return torch.stack(rows)


def problem(sizes=(13, 9, 6, 3), n_records=137, dtype=torch.float64, seed=0, scale=1.0):
    rng = torch.Generator().manual_seed(seed)
    model = mlp(sizes, rng=rng, dtype=dtype)
    X = scale * torch.randn(n_records, sizes[0], generator=rng, dtype=dtype)
    y = torch.randint(0, sizes[-1], (n_records,), generator=rng)
    return model, X, y


@pytest.mark.slow
@pytest.mark.parametrize("clip_bound", [1e-4, 1e-2, 0.3, 50.0])
@pytest.mark.parametrize("n_records", [1, 3, 64, 65, 137])
def test_mean_clipped_equals_the_oracle_in_float64(clip_bound, n_records):
    model, X, y = problem(n_records=n_records)
    expected = per_record(model, X, y).clamp(-clip_bound, clip_bound).mean(dim=0)
    torch.testing.assert_close(
        mean_clipped(model, X, y, clip_bound=clip_bound), expected, rtol=1e-12, atol=1e-15
    )


@pytest.mark.slow
@pytest.mark.parametrize("clip_bound", [1e-3, 0.05, 10.0])
def test_mean_clipped_equals_the_oracle_at_the_papers_size(clip_bound):
    model, X, y = problem((264, 50, 20, 2), n_records=1166, dtype=torch.float32)
    grads = per_record(model, X, y)
    clipped_share = float((grads.abs() > clip_bound).float().mean())
    assert (clipped_share > 0.05) == (clip_bound < 1)  # the bound bites where it should
    expected = grads.clamp(-clip_bound, clip_bound).mean(dim=0)
    assert (mean_clipped(model, X, y, clip_bound=clip_bound) - expected).abs().max() < 1e-6


@pytest.mark.slow
def test_an_unreachable_bound_gives_plain_sgd_through_the_same_path():
    model, X, y = problem()
    loss = functional.cross_entropy(model(X), y)
    plain = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])
    for gradient in (
        mean_clipped(model, X, y, clip_bound=math.inf),
        clipped_sum(model, X, y, max_grad_norm=math.inf) / len(X),
        mean_plain(model, X, y),
    ):
        assert (gradient - plain).abs().max() < 1e-12


@pytest.mark.parametrize("max_grad_norm", [1e-3, 0.5, 3.0])
def test_clipped_sum_equals_the_oracle(max_grad_norm):
    model, X, y = problem()
    grads = per_record(model, X, y)
    factor = (max_grad_norm / grads.norm(dim=1)).clamp(max=1)
    expected = (grads * factor[:, None]).sum(dim=0)
    torch.testing.assert_close(
        clipped_sum(model, X, y, max_grad_norm=max_grad_norm), expected, rtol=1e-11, atol=1e-13
    )


@pytest.mark.slow
def test_bounds_on_what_one_record_can_do():
    model, X, y = problem(scale=100.0)
    for n in range(20):
        one = (model, X[n : n + 1], y[n : n + 1])
        assert mean_clipped(*one, clip_bound=0.01).abs().max() <= 0.01
        assert clipped_sum(*one, max_grad_norm=0.5).norm() <= 0.5 * (1 + 1e-12)


def test_a_record_without_gradient_adds_zero_to_the_clipped_sum():
    model, X, y = problem((4, 2), n_records=2, dtype=torch.float32)
    with torch.no_grad():
        model[0].weight.zero_()
        model[0].bias.copy_(torch.tensor([200.0, -200.0]))  # p = (1, 0) exactly
    assert not clipped_sum(model, X, torch.zeros(2, dtype=torch.int64), max_grad_norm=1.0).any()


def test_capture_reproduces_the_per_record_gradient_as_an_outer_product():
    model, X, y = problem(n_records=5)
    flat = torch.cat(
        [
            part.flatten(1)
            for a, delta in capture(model, X, y)
            for part in (delta[:, :, None] * a[:, None, :], delta)
        ],
        dim=1,
    )
    torch.testing.assert_close(flat, per_record(model, X, y), rtol=1e-12, atol=1e-15)


def test_inputs_and_model_stay_as_they_were():
    model, X, y = problem()
    before = (X.clone(), y.clone(), [p.clone() for p in model.parameters()])
    mean_clipped(model, X, y, clip_bound=0.1)
    assert torch.equal(X, before[0]) and torch.equal(y, before[1])
    assert all(torch.equal(p, q) and p.grad is None for p, q in zip(model.parameters(), before[2]))


def test_int8_labels_and_rows_taken_from_a_larger_tensor():
    model, X, y = problem()
    strided = torch.stack([X, X], dim=2)[:, :, 0]
    assert not strided.is_contiguous()
    assert torch.equal(
        mean_clipped(model, strided, y.to(torch.int8), clip_bound=0.1),
        mean_clipped(model, X, y, clip_bound=0.1),
    )


@pytest.mark.parametrize(
    "function, keyword", [(mean_clipped, "clip_bound"), (clipped_sum, "max_grad_norm")]
)
@pytest.mark.parametrize("bound", [0.0, -1.0, math.nan])
def test_a_bound_that_is_not_positive_is_named(function, keyword, bound):
    with pytest.raises(ValueError, match=f"{keyword} must be > 0, got {bound}"):
        function(*problem(), **{keyword: bound})


def test_bad_batches_are_named():
    model, X, y = problem()
    with pytest.raises(ValueError, match="the batch is empty: X has 0 records"):
        mean_plain(model, X[:0], y[:0])
    with pytest.raises(ValueError, match=r"labels must be 0..2, got 3"):
        mean_plain(model, X, y + 1)
    with pytest.raises(ValueError, match=r"labels must be 0..2, got -1"):
        mean_plain(model, X, y - 1)
    for value in (np.nan, np.inf):
        bad = X.clone()
        bad[3, 1] = value
        with pytest.raises(
            ValueError, match="X must be finite, got 1 of [0-9]+ values that are NaN or infinite"
        ):
            mean_plain(model, bad, y)
    with pytest.raises(
        ValueError, match=r"X must be \(N, 13\) of torch.float64, got \(137, 13\) of torch.float32"
    ):
        mean_plain(model, X.float(), y)
    with pytest.raises(
        ValueError, match=r"y must be \(137,\) integer classes, got \(136,\) of torch.int64"
    ):
        mean_plain(model, X, y[1:])
    with pytest.raises(
        ValueError, match=r"y must be \(137,\) integer classes, got \(137,\) of torch.float64"
    ):
        mean_plain(model, X, y.double())


def test_a_diverged_model_is_told_from_bad_features():
    model, X, y = problem()
    with torch.no_grad():
        model[0].weight.fill_(math.nan)
    with pytest.raises(
        ValueError, match="the model's output is not finite: the training has diverged"
    ):
        mean_plain(model, X, y)


@pytest.mark.parametrize(
    "model",
    [
        torch.nn.Linear(13, 3),
        torch.nn.Sequential(torch.nn.Linear(13, 3), torch.nn.Sigmoid(), torch.nn.Linear(3, 3)),
        torch.nn.Sequential(torch.nn.Linear(13, 3, bias=False)),
        torch.nn.Sequential(torch.nn.Linear(13, 3), torch.nn.ReLU()),
    ],
)
def test_other_models_are_refused(model):
    _, X, y = problem(dtype=torch.float32)
    said = "model must be an nn.Sequential of Linear .*, got Linear[^\n]*$"
    with pytest.raises(ValueError, match=said):
        mean_plain(model, X, y)


def test_a_nested_sequential_is_the_flat_one():
    model, X, y = problem(dtype=torch.float64)
    nested = torch.nn.Sequential(torch.nn.Sequential(*model[:2]), torch.nn.Sequential(model[2:]))
    assert torch.equal(mean_plain(nested, X, y), mean_plain(model, X, y))
