"""Many records from their mean gradient: what a ReLU layer gives away exactly, and how an attacker
knows that he has it.

For a batch every neuron's ratio dW_j / db_j is an affine combination of the rows, with weights
delta_ij / sum_i delta_ij that add up to 1 and are negative where the other class pulls. A ReLU
neuron that is on for one record only has weight 1 there: its ratio is that record. The aggregator
knows the model, so he can test every ratio as if it were a record: run it through the model, and
see whether the bias gradient comes out as observed. What passes is subtracted from the gradient,
and neurons that were on for two records are then on for one.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from ppkit import gradients as bounded
from ppkit.backtracking.analytic import first_layer
from ppkit.models import classification_loss
from ppkit.refusals import finite, must_be

_BLOCK = 8192  # candidates that go through the model at a time


class Found(NamedTuple):
    """rows: (K, F) float64 recovered records, in the order found.  labels: (K,) int64."""

    rows: np.ndarray
    labels: np.ndarray


def isolated(model: nn.Sequential, X: torch.Tensor, y: torch.Tensor) -> np.ndarray:
    """The records of a batch that some first-layer neuron sees alone: ascending positions, of
    0..N-1.

    For the notebook, which knows the batch.
    model: nn.Sequential that begins with Linear.  X: (N, F).  y: (N,) integer classes.
    """
    seen = _deltas(model, X, y).numpy() != 0
    return np.flatnonzero(seen[:, seen.sum(axis=0) == 1].any(axis=1))


def from_batch(
    weight_grad: torch.Tensor,
    bias_grad: torch.Tensor,
    *,
    model: nn.Sequential,
    n_records: int,
    l2_norm_clip: float = math.inf,
    tolerance: float = 1e-9,
) -> Found:
    """The records of a batch that its mean gradient gives away; `from_rounds` with one round."""
    return from_rounds(
        [model],
        [(weight_grad, bias_grad)],
        n_records=n_records,
        l2_norm_clip=l2_norm_clip,
        tolerance=tolerance,
    )


def from_rounds(
    models: Sequence[nn.Sequential],
    gradients: Sequence[Sequence[torch.Tensor]],
    *,
    n_records: int,
    l2_norm_clip: float = math.inf,
    tolerance: float = 1e-9,
) -> Found:
    """The records of one batch that its mean gradients at several weights give away, without any
    look at the batch.

    Candidates: dW_j / db_j of every neuron; and, for one hidden ReLU layer with one logit or two
    classes, where delta_ij = e_i v_j [on], the ratio of every difference G_j / v_j - G_k / v_k,
    G = [dW db]: neurons that are on for the same records but one differ by that one.
    A candidate (a, y) is a record if the model's own delta at a, with label y, gives the observed
    denominator: |sum_j c_j delta_j(a, y) / n - D| <= tolerance |D|, and if taking it out lowers the
    rank of [dW db], where that is not full anyway: a combination of records may pass the first test
    by chance, the more so as an untrained net is almost linear.  What passes in one round is
    subtracted in all, and the search goes on until nothing new passes.

    models: what the participant was sent in each round; nn.Sequential that begins with Linear.
    gradients: per round dW (H, F), db (H,), of the mean loss of the same n_records records; more
    entries are ignored.
    l2_norm_clip: C > 0, known, if every record's gradient was clipped to it before the mean (DP-SGD
    without noise): a record's delta then counts min(1, C / |its gradient|) times, in each of its
    neurons alike, so no ratio moves.  It needs Linear and ReLU layers.
    tolerance: > 0; 1e-9 suits float64, 1e-3 float32.
    Returns Found; rows is (0, F) where nothing falls: wide batches, no ReLU, noise,
    float32 below its digits.
    ValueError for shapes that do not fit, a missing db, values that are not finite, numbers out of
    range, and as in `first_layer`.
    Departs from the paper, which takes one record; peeling and the test of a candidate by the model
    are ours, that a neuron may see one record alone is Geiping et al. 2020
    and Boenisch et al. 2021.
    """
    if not len(models) == len(gradients) >= 1:
        raise ValueError(
            "every round, at least one, needs a model and a gradient, "
            f"got {len(models)} models and {len(gradients)} gradients"
        )
    rounds = [_round(model, gradient) for model, gradient in zip(models, gradients)]
    must_be("> 0", l2_norm_clip=l2_norm_clip, tolerance=tolerance)
    must_be("a whole number >= 1", n_records=n_records)
    left = [G.clone() for _, G in rounds]
    floors = [
        torch.finfo(G.dtype).eps ** (2 / 3) * float(torch.linalg.matrix_norm(G, 2))
        for _, G in rounds
    ]
    rows, labels = [], []
    before = -1
    while before < len(rows) < n_records:
        before = len(rows)
        for at, (model, _) in enumerate(rounds):
            for row, label in _passing(model, left[at], n_records, tolerance, l2_norm_clip):
                if len(rows) == n_records:
                    break
                if rows and bool(
                    ((torch.stack(rows) - row).abs() <= 1e-6 + 1e-4 * row.abs()).all(dim=1).any()
                ):
                    continue
                if not _lowers_rank(
                    left[at],
                    _first_gradient(model, row, label, l2_norm_clip) / n_records,
                    floors[at],
                ):
                    continue
                rows.append(row)
                labels.append(label)
                for rest, (other, _) in zip(left, rounds):
                    rest -= _first_gradient(other, row, label, l2_norm_clip) / n_records
    found = torch.stack(rows) if rows else left[0].new_zeros(0, left[0].shape[1] - 1)
    return Found(found.double().numpy(), np.array(labels, dtype=np.int64))


def _passing(model, G, n_records, tolerance, l2_norm_clip) -> list[tuple[torch.Tensor, int]]:
    """Candidates that the model confirms, best first."""
    combined, weights = _candidates(model, G)
    bottom = combined[:, -1]
    usable = bottom.abs() > 100 * torch.finfo(G.dtype).eps * bottom.abs().max()
    if not usable.any():
        return []
    combined, bottom = combined[usable], bottom[usable]
    pairs = [(j[usable], w[usable]) for j, w in weights]
    a = combined[:, :-1] / bottom[:, None]
    n_classes = max(2, model(a[:1]).shape[1])
    passing = []
    for start in range(0, len(a), _BLOCK):
        block = slice(start, start + _BLOCK)
        for label in range(n_classes):
            y = torch.full((len(a[block]),), label)
            delta = _shares(model, a[block], y, l2_norm_clip)
            predicted = (
                sum(w[block] * delta.gather(1, j[block, None])[:, 0] for j, w in pairs) / n_records
            )
            off = (predicted - bottom[block]).abs() / bottom[block].abs()
            passing += [
                (float(off[k]), start + int(k), label)
                for k in torch.nonzero(off <= tolerance)[:, 0]
            ]
    return [(a[k], label) for _, k, label in sorted(passing)]


def _lowers_rank(G: torch.Tensor, share: torch.Tensor, floor: float) -> bool:
    """Whether G less the share of one record has a lower rank; True where G's is full, and nothing
    can be said."""
    before, after = (int((torch.linalg.svdvals(each) > floor).sum()) for each in (G, G - share))
    return after < before or before == min(G.shape)


def _candidates(model, G) -> tuple[torch.Tensor, list[tuple[torch.Tensor, torch.Tensor]]]:
    """Combinations of lines of G, and for each the neurons and factors that make it: (j, w) pairs,
    w 0 for none."""
    neurons = torch.arange(len(G))
    ones, zeros = torch.ones(len(G), dtype=G.dtype), torch.zeros(len(G), dtype=G.dtype)
    layers = list(model)
    shared = (
        len(layers) == 3 and isinstance(layers[1], nn.ReLU) and isinstance(layers[2], nn.Linear)
    )
    if not shared or layers[2].out_features > 2:
        return G, [(neurons, ones)]
    V = layers[2].weight.detach()
    v = V[0] if len(V) == 1 else V[1] - V[0]
    kept = neurons[v != 0]
    one, two = torch.combinations(torch.arange(len(kept))).T
    j, k = kept[one], kept[two]
    differences = G[j] / v[j, None] - G[k] / v[k, None]
    return torch.cat([G, differences]), [
        (torch.cat([neurons, j]), torch.cat([ones, 1 / v[j]])),
        (torch.cat([neurons, k]), torch.cat([zeros, -1 / v[k]])),
    ]


def _first_gradient(model, row, label, l2_norm_clip) -> torch.Tensor:
    delta = _shares(model, row[None], torch.tensor([label]), l2_norm_clip)
    return delta.T @ torch.cat([row, row.new_ones(1)])[None]


def _shares(model, X, y, l2_norm_clip) -> torch.Tensor:
    """What each record adds to the summed gradient of the first layer's output, (N, H): clipped, if
    there is a clip."""
    delta = _deltas(model, X, y) * len(X)
    if l2_norm_clip < math.inf:
        delta *= bounded.clip_factors(
            bounded.group_norms(bounded.capture(model, X, y)), l2_norm_clip
        )[:, None]
    return delta


def _deltas(model, X, y) -> torch.Tensor:
    """The gradient of the mean loss in the first layer's output, (N, H)."""
    first_layer(model)
    z = model[0](X).detach().requires_grad_()
    return torch.autograd.grad(classification_loss(model[1:](z), y), z)[0]


def _round(model, gradient) -> tuple[nn.Sequential, torch.Tensor]:
    layer = first_layer(model)
    if not isinstance(model, nn.Sequential) or layer is not model[0]:
        raise ValueError(f"batches need an nn.Sequential that begins with Linear, got {model}")
    if layer.bias is None or len(gradient) < 2 or gradient[1] is None:
        raise ValueError(
            "the attack needs dW and db, and the first layer has no bias gradient: "
            "rows show up to a factor only"
        )
    dW, db = gradient[0].detach(), gradient[1].detach()
    if dW.shape != layer.weight.shape or db.shape != dW.shape[:1]:
        raise ValueError(
            f"the gradient must be {tuple(layer.weight.shape)} and {tuple(layer.weight.shape[:1])} "
            "as the "
            f"model's first layer, got {tuple(dW.shape)} and {tuple(db.shape)}"
        )
    G = torch.cat([dW, db[:, None]], dim=1)
    finite(**{"the gradient": G})
    return model, G
