"""Gradient matching: where no neuron gives a row away, look for the batch whose gradient is the one
that was shared.

Zhu et al. 2019 minimise the squared distance of the two gradients; they differentiate the victim's
own gradient (double backward). Two things known from algebra make it quick on small batches:
the class counts are bounded by the last bias gradient, and, where the first layer's gradient [dW
db] has rank n, every row [x_i 1] lies in its row space, so a batch of n has n (n - 1) unknowns
whatever the number of features.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import nn

from ppkit.backtracking.analytic import first_layer
from ppkit.models import classification_loss
from ppkit.refusals import finite, must_be

MAX_RECORDS = 8
_RANK = 1e-7  # singular values below this share of the largest are rounding
_SOLVED = 1e-8  # distance of gradients at which the search is over


class Match(NamedTuple):
    """rows: (n, F) float64, in no particular order.  labels: (n,) int64.  distance: of the two
    gradients, |g' - g| / |g|; the attacker's own measure of success."""

    rows: np.ndarray
    labels: np.ndarray
    distance: float


def match(
    model: nn.Module,
    gradient: Sequence[torch.Tensor],
    *,
    n_records: int,
    rng: torch.Generator,
    n_restarts: int = 4,
    n_steps: int = 200,
) -> Match:
    """The batch whose gradient comes closest to the one that was shared,
    from several random starts.

    min over rows x_1..x_n and labels of |grad of loss(model(x), y) - gradient| / |gradient|

    model: begins with Linear; smooth activations (sigmoid, tanh, softplus) are matched well, ReLU
    as far as its pieces let.
    gradient: one tensor per parameter, of the mean loss (`analytic.shared_gradient`).
    n_records: n, 1 to 8, known.
    Every class count that `class_counts` allows is tried, the likeliest first.
    n_restarts: starts for each class count, >= 1;
    the search ends early where the gradients agree to 1e-8.
    n_steps: of LBFGS with strong Wolfe, >= 1, in the row space if [dW db] has rank n,
    else over all features.
    rng: draws the starts, standard normal rows; features are taken to be standardised.
    Returns the best Match.  ValueError for arguments out of range, shapes that do not fit, values
    that are not finite.
    Guarantee: none; a distance of 0 is the victim's batch wherever the gradient determines it.
    Source: Zhu et al. 2019 (LBFGS), Zhao et al. 2020 (the label of n = 1).
    Departs from them: class counts instead of labels to optimise, and the row space, which a first
    Linear layer has.
    """
    _check(model, gradient, n_records, n_restarts, n_steps)
    target = [g.detach() for g in gradient]
    counts = class_counts(model, target[-1], n_records=n_records, rng=rng)
    tried = [
        torch.tensor([k for k, count in enumerate(each) for _ in range(count)]) for each in counts
    ]
    origin, basis = _row_space(target, n_records)
    best = None
    for _, y in itertools.product(range(n_restarts), tried):
        start = torch.randn(
            n_records, first_layer(model).in_features, generator=rng, dtype=target[0].dtype
        )
        unknown = start if basis is None else (start - origin) @ basis.T
        away, found = _descend(model, target, unknown, y, origin, basis, n_steps)
        if best is None or away < best.distance:
            best = Match(found.double().numpy(), y.numpy().astype(np.int64), away)
        if best.distance <= _SOLVED:
            break
    return best


def class_counts(
    model: nn.Module, last_bias_grad: torch.Tensor, *, n_records: int, rng: torch.Generator
) -> list[tuple[int, ...]]:
    """The class counts that a batch may have, the likeliest first,
    from the gradient of the last bias.

    db_k = mean_i p_ik - n_k / n with 0 < p < 1, so -db_k < n_k / n < 1 - db_k. For n = 1 that is
    one class: the one whose entry is negative. Among those left, the likeliest has n_k / n closest
    to mean p_k - db_k, p taken on random rows.

    model: with logits (N, K); for K = 1 the classes are 0 and 1.  last_bias_grad: (K,).
    n_records: n >= 1.
    Returns tuples (n_0, ..) that add up to n, at least one.  ValueError if none is possible: then
    it is no gradient of this loss.
    Source: n = 1 is Zhao et al. 2020 (iDLG); the bounds are the same argument for any n.

    >>> from ppkit.models import mlp
    >>> rng = torch.Generator().manual_seed(0)
    >>> class_counts(mlp((3, 2), rng=rng), torch.tensor([0.4, -0.4]), n_records=1, rng=rng)
    [(0, 1)]
    """
    rows = torch.randn(
        256, first_layer(model).in_features, generator=rng, dtype=last_bias_grad.dtype
    )
    with torch.no_grad():
        logits = model(rows)
    if logits.shape[1] == 1:
        logits, pull = (
            torch.cat([torch.zeros_like(logits), logits], dim=1),
            torch.cat([-last_bias_grad, last_bias_grad]),
        )
    else:
        pull = last_bias_grad
    if pull.shape != logits.shape[1:]:
        raise ValueError(
            "the last bias gradient must have one entry per logit, "
            f"got {tuple(last_bias_grad.shape)}"
        )
    low, high = (-pull * n_records).tolist(), ((1 - pull) * n_records).tolist()
    ranges = [
        range(max(0, math.ceil(a - 1e-6)), min(n_records, math.floor(b + 1e-6)) + 1)
        for a, b in zip(low, high)
    ]
    possible = [counts for counts in itertools.product(*ranges) if sum(counts) == n_records]
    if not possible:
        raise ValueError(
            f"no class counts of {n_records} records fit a last bias gradient of "
            f"{last_bias_grad.tolist()}"
        )
    likely = (torch.softmax(logits, dim=1).mean(dim=0) - pull) * n_records
    return sorted(
        possible, key=lambda counts: float((torch.tensor(counts) - likely).square().sum())
    )


def row_errors(found, truth) -> np.ndarray:
    """How far each true row is from its partner among the rows found, partners chosen so that the
    sum is least.

    found: (K, F).  truth: (N, F).  Returns (N,): the root mean square over the features, in their
    unit; infinity for a row that has no partner (K < N).  ValueError if the widths differ.

    >>> row_errors([[0.0, 0.0], [1.0, 1.0]], [[1.0, 1.0], [0.0, 0.1], [5.0, 5.0]]).round(3).tolist()
    [0.0, 0.071, inf]
    """
    found, truth = np.asarray(found, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    if found.ndim != 2 or truth.ndim != 2 or found.shape[1] != truth.shape[1]:
        raise ValueError(
            f"found and truth must be (K, F) and (N, F), got {found.shape} and {truth.shape}"
        )
    distance = np.sqrt(((truth[:, None] - found[None]) ** 2).mean(axis=2))
    errors = np.full(len(truth), np.inf)
    rows, partners = linear_sum_assignment(distance)
    errors[rows] = distance[rows, partners]
    return errors


def _row_space(target, n_records) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """A point (F,) and a basis (n - 1, F) of the rows x with [x 1] in the row space of [dW db], or
    None, None."""
    if len(target) < 2 or target[1].shape != target[0].shape[:1]:
        return None, None
    _, sizes, V = torch.linalg.svd(
        torch.cat([target[0], target[1][:, None]], dim=1), full_matrices=False
    )
    if n_records > len(sizes) or not sizes[n_records - 1] > _RANK * sizes[0]:
        return None, None
    V = V[:n_records]
    last = V[:, -1]
    origin = (last @ V)[:-1] / last.square().sum()
    flat = (
        torch.linalg.svd(last[None], full_matrices=True)[2][1:] @ V
    )  # combinations with last entry 0
    return origin, flat[:, :-1]


def _descend(model, target, unknown, y, origin, basis, n_steps) -> tuple[float, torch.Tensor]:
    unknown = unknown.clone().requires_grad_()
    parameters = list(model.parameters())
    size = torch.sqrt(sum(g.square().sum() for g in target))

    def rows():
        return unknown if basis is None else origin + unknown @ basis

    def objective():
        made = torch.autograd.grad(
            classification_loss(model(rows()), y),
            parameters,
            create_graph=True,
            materialize_grads=True,
        )
        return sum((m - g).square().sum() for m, g in zip(made, target)) / size**2

    def closure():
        value = objective()
        (unknown.grad,) = torch.autograd.grad(value, unknown, materialize_grads=True)
        return value.detach()

    if unknown.numel():  # a row space of dimension 0 holds one point
        torch.optim.LBFGS(
            [unknown],
            max_iter=n_steps,
            tolerance_grad=1e-15,
            tolerance_change=1e-18,
            history_size=20,
            line_search_fn="strong_wolfe",
        ).step(closure)
    away = float(objective().detach())
    return math.sqrt(away) if math.isfinite(away) else math.inf, rows().detach()


def _check(model, gradient, n_records, n_restarts, n_steps) -> None:
    first_layer(model)
    if n_records != int(n_records) or not 1 <= n_records <= MAX_RECORDS:
        raise ValueError(
            f"n_records must be a whole number from 1 to {MAX_RECORDS}, got {n_records}"
        )
    must_be("a whole number >= 1", n_restarts=n_restarts, n_steps=n_steps)
    expected, got = [tuple(p.shape) for p in model.parameters()], [tuple(g.shape) for g in gradient]
    if expected != got:
        raise ValueError(
            f"the gradient must have one tensor per parameter, of shapes {expected}, got {got}"
        )
    for part in gradient:
        finite(**{"the gradient": part.detach()})
    if not any(bool(g.any()) for g in gradient):
        raise ValueError("the gradient is 0: there is nothing to match")
