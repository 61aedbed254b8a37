"""Gradients that are bounded per record, without ever storing one gradient per record.

For a Linear layer z = W a + b the gradient of one record's loss is
the outer product of two vectors,

    dL/dW = delta a^T,    dL/db = delta,    delta = dL/dz,

so the pairs (a, delta) of a batch, N (I + O) numbers a layer, hold all N per-record gradients
of N I O numbers.
One forward and one backward pass give the pairs (`capture`); what is left is to bound and add up:

    mean_clipped   every coordinate to [-B, B], then the mean       wang2018, Algorithm 2
    clipped_sum    every record to l2 norm <= C, then the sum       DP-SGD (Abadi et al. 2016)
    mean_plain     nothing bounded                                  SGD

All three return one flat vector in the order of torch.nn.utils.parameters_to_vector. What
`dpsgd.DPOptimizer` builds on are the norms of mean gradients of small groups of records
(`group_norms`) and a weighted sum (`weighted_sum`).
"""

import math
import os
from typing import NamedTuple

import numba
import numpy as np
import torch
from torch import nn

from ppkit.validation import finite, must_be

_ROWS = 64  # rows of `a` that a block keeps in cache while all outputs pass over them


class Pair(NamedTuple):
    """What one Linear layer saw of a batch: `a` its inputs (N, I), `delta` the gradients of its
    outputs (N, O)."""

    a: torch.Tensor
    delta: torch.Tensor


@torch.no_grad()
def capture(model: nn.Sequential, X: torch.Tensor, y: torch.Tensor) -> list[Pair]:
    """The (input, delta) pair of every Linear layer, for the cross-entropy of each record,
    in one pass.

    model: nn.Sequential, nested or not, of Linear and ReLU that begins and ends with Linear, logits
    (N, n_classes); a single logit is that of class 1 of two, and its loss the binary cross-entropy
    (logistic regression is mlp((F, 1))).
    X: (N, F), N >= 1, finite, in the model's dtype.  y: (N,) integer classes 0..n_classes-1.
    Returns one Pair per Linear layer, first layer first; delta is not divided by N.
    ValueError for an empty batch, features that are not finite, labels outside the classes, another
    kind of model, or a model whose own output is not finite.
    """
    layers = _linear_layers(model)
    _check_batch(X, y, layers[0], n_classes=max(2, layers[-1].out_features))
    inputs = [
        X.contiguous().t()
    ]  # one column per record: the long dimension lies in a row, for products and softmax alike
    for layer in layers[:-1]:
        inputs.append(torch.addmm(layer.bias[:, None], layer.weight, inputs[-1]).clamp_(min=0))
    logits = torch.addmm(layers[-1].bias[:, None], layers[-1].weight, inputs[-1])
    if not math.isfinite(float(logits.sum())) and not bool(torch.isfinite(logits).all()):
        raise ValueError(
            "the model's output is not finite: the training has diverged, lower the learning rate"
        )
    if len(logits) == 1:
        delta = torch.sigmoid(logits).sub_(y)
    else:
        delta = torch.softmax(logits, dim=0)
        delta.scatter_add_(0, y.long()[None], delta.new_full((1, len(y)), -1.0))
    pairs = [Pair(inputs[-1].t(), delta.t())]
    for a, layer, after in zip(inputs[-2::-1], layers[:0:-1], inputs[:0:-1]):
        delta = torch.ops.aten.threshold_backward(layer.weight.t() @ delta, after, 0)
        pairs.append(Pair(a.t(), delta.t()))
    return pairs[::-1]


def mean_clipped(
    model: nn.Sequential, X: torch.Tensor, y: torch.Tensor, *, clip_bound: float
) -> torch.Tensor:
    """Mean over the batch of the per-record gradients, each coordinate clipped to [-clip_bound,
    clip_bound].

    G_j = 1/N sum_i max(-B, min(B, g_ij))

    model, X, y: as in `capture`.  clip_bound: B > 0, in units of the gradient; math.inf gives the
    plain mean.
    Returns a flat tensor (P,).  Memory N (I + O) a layer: the (N, P) tensor is never built.
    ValueError if clip_bound is not > 0, and as in `capture`.
    Guarantee: none by itself; one record moves each coordinate of N G by at most B (add/remove) or
    2B (replace-one).
    Source: wang2018, Algorithm 2, steps 2 and 3.
    """
    must_be("> 0", clip_bound=clip_bound)
    parts = []
    for a, delta in capture(model, X, y):
        weight = torch.zeros((delta.shape[1], a.shape[1]), dtype=X.dtype)
        total = weight.numpy()
        inputs, by_output = a.contiguous().numpy(), delta.t().contiguous().numpy()
        _add_clipped(inputs, by_output, total.dtype.type(clip_bound), total)
        parts += [weight.flatten(), delta.clamp(-clip_bound, clip_bound).sum(dim=0)]
    return torch.cat(parts).div_(len(X))


def clipped_sum(
    model: nn.Sequential, X: torch.Tensor, y: torch.Tensor, *, max_grad_norm: float
) -> torch.Tensor:
    """Sum over the batch of the per-record gradients, each scaled down to l2 norm <= max_grad_norm.

    sum_i g_i min(1, C / ||g_i||),    ||g_i||^2 = sum over layers of ||delta_i||^2 (||a_i||^2 + 1)

    The norms need only the pairs (a, delta), and the weighted sum is one matrix product a layer.
    model, X, y: as in `capture`.  max_grad_norm: C > 0, in units of the gradient; math.inf gives
    the plain sum.
    Returns a flat tensor (P,): the sum, not the mean.
    ValueError if max_grad_norm is not > 0, and as in `capture`.
    Guarantee: none by itself; the l2 sensitivity to one record is C (add/remove) or 2C
    (replace-one).
    Source: Abadi et al. 2016, Algorithm 1; the closed form of the norms is Goodfellow 2015.
    """
    must_be("> 0", max_grad_norm=max_grad_norm)
    pairs = capture(model, X, y)
    return weighted_sum(pairs, clip_factors(group_norms(pairs), max_grad_norm))


def mean_plain(model: nn.Sequential, X: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Mean gradient of the batch, nothing bounded: what plain SGD follows.

    model, X, y: as in `capture`.  Returns a flat tensor (P,).  ValueError as in `capture`.
    """
    return _flat_sum(capture(model, X, y)).div_(len(X))


def group_norms(pairs: list[Pair], group_size: int = 1) -> torch.Tensor:
    """l2 norm, over all layers together, of the mean gradient of every group
    of consecutive records.

    ||1/k sum_i g_i||^2
        = 1/k^2 sum over layers, i, j of (delta_i . delta_j) (a_i . a_j + 1),   i, j in the group

    pairs: from `capture`, N records.  group_size: k >= 1, a divisor of N.
    Returns (N/k,), in the pairs' dtype; infinite or NaN where the gradient is,
    or where its square overflows.
    For k > 1 a layer takes the cheaper of two ways: the k x k inner products above, or the mean
    gradients themselves, by one batched matrix product.  The inner products can cancel, so they are
    taken in float64: a norm is wrong by at most about 1e-7 times the largest norm
    of a record in its group.
    Source: k = 1 is Goodfellow 2015; the inner products are the ghost norm of Li et al. 2022, there
    over a sequence.
    """
    squares = torch.zeros(len(pairs[0].a) // group_size, dtype=pairs[0].a.dtype)
    if group_size == 1:
        for a, delta in pairs:
            squares += _row_squares(delta) * (_row_squares(a) + 1)
        return squares.sqrt_()
    for a, delta in pairs:
        a, delta = a.unflatten(0, (-1, group_size)), delta.unflatten(0, (-1, group_size))
        n_in, n_out = a.shape[2], delta.shape[2]
        if group_size * (n_in + n_out) < n_in * n_out:
            a, delta = a.double(), delta.double()
            squares += ((delta @ delta.mT) * (a @ a.mT + 1)).sum(dim=(1, 2)).clamp_(min=0)
        else:
            squares += _row_squares((delta.mT @ a).flatten(1)) + _row_squares(delta.sum(dim=1))
    return squares.sqrt_().div_(group_size)


def clip_factors(norms: torch.Tensor, max_grad_norm: float) -> torch.Tensor:
    """min(1, C / norm) for every norm: what brings it to at most C; norms (M,) >= 0, C > 0 or
    math.inf."""
    return (max_grad_norm / norms.clamp(min=torch.finfo(norms.dtype).tiny)).clamp_(max=1)


def weighted_sum(pairs: list[Pair], weights: torch.Tensor) -> torch.Tensor:
    """sum_i weights_i g_i as a flat tensor (P,): one matrix product a layer.

    pairs: from `capture`, N records.  weights: (N,).
    """
    return _flat_sum([Pair(a, delta * weights[:, None]) for a, delta in pairs])


def _flat_sum(pairs: list[Pair]) -> torch.Tensor:
    return torch.cat(
        [part for a, delta in pairs for part in ((delta.t() @ a).flatten(), delta.sum(dim=0))]
    )


def _row_squares(rows: torch.Tensor) -> torch.Tensor:
    return (
        torch.linalg.vector_norm(rows, dim=1).square_()
        if rows.is_contiguous()
        else (rows * rows).sum(dim=1)
    )


def _linear_layers(model: nn.Sequential) -> list[nn.Linear]:
    layers = _nested(model)
    linear = [layer for layer in layers[::2] if type(layer) is nn.Linear]
    between = [layer for layer in layers[1::2] if type(layer) is nn.ReLU]
    parameters = {p for layer in linear for p in (layer.weight, layer.bias)} - {None}
    in_turn = len(linear) == len(between) + 1 == len(layers) - len(between)
    if type(model) is not nn.Sequential or not in_turn or len(parameters) != 2 * len(linear):
        raise ValueError(
            "model must be an nn.Sequential of Linear (with bias), ReLU, ..., Linear, no layer "
            f"twice, got {', '.join(_kind(layer) for layer in layers) or 'no layer'}"
        )
    return linear


def _nested(model: nn.Module) -> list[nn.Module]:
    if type(model) is not nn.Sequential:
        return [model]
    return [layer for child in model for layer in _nested(child)]


def _kind(layer: nn.Module) -> str:
    without = isinstance(layer, nn.Linear) and layer.bias is None
    return type(layer).__name__ + (" without bias" if without else "")


def check_sample(model: nn.Sequential, X: torch.Tensor, y: torch.Tensor) -> None:
    """Refuse rows that do not fit the model or their labels, none at all included.

    model, X, y: as in `capture`, but that N may be 0.  ValueError for another shape or type, or
    another kind of model.
    """
    _check_shapes(X, y, _linear_layers(model)[0])


def _check_shapes(X: torch.Tensor, y: torch.Tensor, first: nn.Linear) -> None:
    if X.ndim != 2 or X.shape[1] != first.in_features or X.dtype != first.weight.dtype:
        raise ValueError(
            f"X must be (N, {first.in_features}) of {first.weight.dtype}, "
            f"got {tuple(X.shape)} of {X.dtype}"
        )
    if y.shape != (len(X),) or y.is_floating_point():
        raise ValueError(
            f"y must be ({len(X)},) integer classes, got {tuple(y.shape)} of {y.dtype}"
        )


def _check_batch(X: torch.Tensor, y: torch.Tensor, first: nn.Linear, *, n_classes: int) -> None:
    _check_shapes(X, y, first)
    if len(X) == 0:
        raise ValueError("the batch is empty: X has 0 records")
    low, high = (int(v) for v in y.aminmax())
    if low < 0 or high >= n_classes:
        raise ValueError(f"labels must be 0..{n_classes - 1}, got {low if low < 0 else high}")
    finite(X=X)


@numba.njit(
    nogil=True, fastmath={"contract", "reassoc", "nsz"}, cache="NUMBA_CACHE_DIR" in os.environ
)
def _add_clipped(a, delta_t, bound, total):
    """total[o, i] += sum_n clip(delta_t[o, n] * a[n, i]); a (N, I), delta_t (O, N), total (O, I),
    all contiguous.

    A record whose delta is 0 (a ReLU that is off) adds nothing and is skipped; the others are taken
    four at a time, so that `total` is read and written once for four records.
    """
    n_records, n_in = a.shape
    active = np.empty(_ROWS, np.int64)
    for start in range(0, n_records, _ROWS):
        stop = min(start + _ROWS, n_records)
        for o in range(delta_t.shape[0]):
            row = total[o]
            count = 0
            for n in range(start, stop):
                active[count] = n
                count += delta_t[o, n] != 0
            k = 0
            while k + 4 <= count:
                n0, n1, n2, n3 = active[k], active[k + 1], active[k + 2], active[k + 3]
                d0, d1, d2, d3 = delta_t[o, n0], delta_t[o, n1], delta_t[o, n2], delta_t[o, n3]
                a0, a1, a2, a3 = a[n0], a[n1], a[n2], a[n3]
                for i in range(n_in):
                    row[i] += (
                        min(max(d0 * a0[i], -bound), bound)
                        + min(max(d1 * a1[i], -bound), bound)
                        + min(max(d2 * a2[i], -bound), bound)
                        + min(max(d3 * a3[i], -bound), bound)
                    )
                k += 4
            while k < count:
                n0 = active[k]
                d0 = delta_t[o, n0]
                a0 = a[n0]
                for i in range(n_in):
                    row[i] += min(max(d0 * a0[i], -bound), bound)
                k += 1
