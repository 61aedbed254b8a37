"""Many records from their mean gradient: what a ReLU layer gives away exactly, and how an attacker
knows that he has it.

For a batch every neuron's ratio dW_j / db_j is an affine combination of the rows, with weights
delta_ij / sum_i delta_ij that add up to 1 and are negative where the other class pulls. A ReLU
neuron that is on for one record only has weight 1 there: its ratio is that record. The aggregator
knows the model, so he can test every ratio as if it were a record: run it through the model, and
see whether the bias gradient comes out as observed. What passes is subtracted from the gradient,
and neurons that were on for two records are then on for one. A row that is in the batch several
times, with one label or several, is one row whose delta is the sum of its copies'.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from ppkit.backtracking import judging, lattice, subset_sums
from ppkit.backtracking.analytic import flat, training_layer
from ppkit.validation import must_be

_BLOCK = 1024  # candidates that go through the model at a time
_CHANCE = 1e-3  # of a wrong row among those that the rank cannot confirm, about


class Found(NamedTuple):
    """rows: (K, F) float64 recovered records, in the order found; a row that is in the batch k
    times stands here k times.  labels: (K,) int64.  times: (K,) int64, in the batch, of the row.
    why: "" where all records were found, else one sentence that says what stood in the way."""

    rows: np.ndarray
    labels: np.ndarray
    times: np.ndarray
    why: str


def isolated(model: nn.Module, X: torch.Tensor, y: torch.Tensor) -> np.ndarray:
    """The records of a batch that some first-layer neuron sees alone, or beside copies of itself
    only: ascending positions, of 0..N-1.

    For the notebook, which knows the batch.
    model: as in `from_rounds`.  X: (N, F).  y: (N,) integer classes.
    """
    delta = judging.deltas(model, X, y)
    _, row_of = torch.unique(X.flatten(1), dim=0, return_inverse=True)
    n_rows = int(row_of.max()) + 1
    by_row = lambda values: values.new_zeros(n_rows, delta.shape[1]).index_add(0, row_of, values)
    seen, total = by_row((delta != 0).to(delta.dtype)) > 0, by_row(delta)
    rounding = 100 * torch.finfo(delta.dtype).eps * by_row(delta.abs())
    alone = seen & (seen.sum(dim=0) == 1) & (total.abs() > rounding)
    return np.flatnonzero(alone.any(dim=1)[row_of].numpy())


def from_batch(
    weight_grad: torch.Tensor,
    bias_grad: torch.Tensor,
    *later_grads: torch.Tensor,
    model: nn.Module,
    n_records: int,
    l2_norm_clip: float | None = math.inf,
    effort: lattice.Effort | None = lattice.Effort(),
) -> Found:
    """The records of a batch that its mean gradient gives away; `from_rounds` with one round.

    later_grads: of the model's other parameters, in its order; needed with several hidden layers.

    >>> from ppkit.models import classification_loss, mlp
    >>> net = mlp((3, 8, 2), rng=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> X = torch.tensor([[1.0, 2.0, 4.0], [1.0, 2.0, 4.0], [0.0, -1.0, 0.0]]).double()
    >>> loss = classification_loss(net(X), torch.tensor([0, 1, 1]))
    >>> found = from_batch(*torch.autograd.grad(loss, net[0].parameters()), model=net, n_records=3)
    >>> (found.rows.round(6) + 0.0).tolist(), found.labels.tolist(), found.times.tolist()
    ([[0.0, -1.0, 0.0], [1.0, 2.0, 4.0], [1.0, 2.0, 4.0]], [1, 0, 1], [1, 2, 2])
    """
    return from_rounds(
        [model],
        [(weight_grad, bias_grad, *later_grads)],
        n_records=n_records,
        l2_norm_clip=l2_norm_clip,
        effort=effort,
    )


def from_rounds(
    models: Sequence[nn.Module],
    gradients: Sequence[Sequence[torch.Tensor]],
    *,
    n_records: int,
    l2_norm_clip: float | None = math.inf,
    effort: lattice.Effort | None = lattice.Effort(),
) -> Found:
    """The records of one batch that its mean gradients at several weights give away, without any
    look at the batch.

    Candidates: dW_j / db_j of every neuron; and, for one hidden layer with one logit or two
    classes, where delta_ij = e_i v_j s_ij with s_ij the activation's slope, the ratio of every
    difference G_j / v_j - G_k / v_k, G = [dW db]: where slopes are constants (ReLU: 0 and 1,
    LeakyReLU), neurons that are on for the same records but one differ by that one.
    A candidate a, in the batch m_c times with label c, is a row if the model's own delta at a gives
    the observed denominator: |sum_j c_j sum_c m_c delta_j(a, c) / n - D| <= tolerance |D|, and if
    taking it out lowers the rank of [dW db]: a combination of records may pass the first test by
    chance, the more so as an untrained net is almost linear.  The rank says nothing where it is
    full, or where the records left are more than it, because they may depend on each other (one-hot
    rows do); then the first test must be met so closely that a wrong row passes it with a chance of
    about .001.  What passes in one round is subtracted in all, and the search goes on until nothing
    new passes.  Tried are copies of one label, and of labels mixed in 400 ways, the fewest first; a
    mean may stand for rows that differ by less than about 1e-4 of themselves, as their copies.
    Where records are missing then, the gradient of each round is taken as a hidden subset sum
    (`subset_sums`), which gives all records of a batch at once.  Rounds do not add up there: each
    has errors e_i of its own; but what one gives is subtracted in all.  A row whose error is small
    beside the others' has fewer digits; it is given if they are good to about .01.

    models: what the participant was sent in each round; a module whose first layer is Linear, sees
    the records themselves and is used once; the differences need an nn.Sequential.  Layers that
    treat a record by itself only: eval() for Dropout and BatchNorm, on both sides.
    gradients: per round dW (H, F), db (H,), of the mean loss of the same n_records records, and
    those of the later layers, which a subset sum needs with several hidden layers.
    l2_norm_clip: C > 0, known, if every record's gradient was clipped to it before the mean (DP-SGD
    without noise): a record's delta then counts min(1, C / |its gradient|) times, in each of its
    neurons alike, so no ratio moves.  None: clipped, and the attacker does not know C; then there
    is the subset sum only, which finds C.  Both need Linear and ReLU layers.
    effort: of the subset sum; None leaves it out.
    The tolerance is 1e-9 in float64, 1e-3 in float32.
    Returns Found; where records are missing `why` says what stood in the way: wide batches, no
    neuron that is ever off, a layer in training, noise.
    ValueError for values that are not finite, numbers out of range, and as in `first_layer`.
    Departs from the paper, which takes one record; peeling and the test of a candidate by the model
    are ours, that a neuron may see one record alone is Geiping et al. 2020
    and Boenisch et al. 2021.
    """
    rounds = [
        judging.observed(model, gradient) for model, gradient in zip(models, gradients, strict=True)
    ]
    if l2_norm_clip is not None:
        must_be("> 0", l2_norm_clip=l2_norm_clip)
    must_be("a whole number >= 1", n_records=n_records)
    settings = judging.Settings(n_records, l2_norm_clip)
    why = _in_training(models)
    found: list[judging.Candidate] = []
    if not why:
        if l2_norm_clip is not None:
            _search(found, rounds, settings)
        why_no_sum = ""
        if effort is not None:
            why_no_sum = _sum_up(found, rounds, gradients, settings, effort)
        if _n_left(found, settings):
            why = _obstacle(rounds, why_no_sum)
    n_found = n_records - _n_left(found, settings)
    if why:
        why = f"{n_found} of {n_records} records found: {why}"
    return _listed(found, rounds[0].G, why)


def _listed(found: list[judging.Candidate], G: torch.Tensor, why: str) -> Found:
    rows = G.new_zeros(0, G.shape[1] - 1)
    labels, times = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    for one in found:
        of_copies = np.repeat(np.arange(len(one.counts)), one.counts.long().numpy())
        rows = torch.cat([rows, one.row.expand(one.n_copies, -1)])
        labels = np.append(labels, of_copies)
        times = np.append(times, np.full(one.n_copies, one.n_copies))
    return Found(rows.double().numpy(), labels, times, why)


def _n_left(found: list[judging.Candidate], settings: judging.Settings) -> int:
    return settings.n_records - sum(one.n_copies for one in found)


def _search(
    found: list[judging.Candidate], rounds: list[judging.Round], settings: judging.Settings
) -> None:
    """Rows one after the other, each added to those found and subtracted in all rounds, until
    nothing new passes."""
    while n_left := _n_left(found, settings):
        passing = [_passing(one, n_left, settings) for one in rounds]
        before = len(found)
        for confirmed in (_lowers_rank, _unlikely_by_chance):
            for at, candidates in zip(rounds, passing):
                for one in candidates:
                    n_left = _n_left(found, settings)
                    if (
                        one.n_copies <= n_left
                        and _is_new(one.row, found, at.tolerance)
                        and confirmed(at, one, n_left, settings)
                    ):
                        _add(one, found, rounds, settings)
            if len(found) > before:
                break
        if len(found) == before:
            break


def _sum_up(
    found: list[judging.Candidate],
    rounds: list[judging.Round],
    gradients: Sequence[Sequence[torch.Tensor]],
    settings: judging.Settings,
    effort: lattice.Effort,
) -> str:
    """The same with what the gradients give as hidden subset sums.  Why the last one gave no more,
    or ""."""
    why = ""
    for at, gradient in zip(rounds, gradients):
        if _n_left(found, settings) == 0:
            return ""
        before = len(found)
        rows, why = subset_sums.find(at, gradient, settings, effort=effort)
        for one in rows:
            if one.n_copies <= _n_left(found, settings) and _is_new(one.row, found, at.tolerance):
                _add(one, found, rounds, settings)
        if len(found) > before and settings.l2_norm_clip is not None:
            _search(found, rounds, settings)
    return why


def _add(
    one: judging.Candidate,
    found: list[judging.Candidate],
    rounds: list[judging.Round],
    settings: judging.Settings,
) -> None:
    found.append(one)
    if settings.l2_norm_clip is not None:
        for each in rounds:
            each.G.sub_(judging.gradient(each.model, one, settings))


def _is_new(row: torch.Tensor, found: list[judging.Candidate], tolerance: float) -> bool:
    near = min(1e-4, 100 * tolerance)
    return not any(bool(((row - one.row).abs() <= near * (1 + row.abs())).all()) for one in found)


def _lowers_rank(
    at: judging.Round, one: judging.Candidate, n_left: int, settings: judging.Settings
) -> bool:
    return at.rank(without=judging.gradient(at.model, one, settings)) < at.rank()


def _unlikely_by_chance(
    at: judging.Round, one: judging.Candidate, n_left: int, settings: judging.Settings
) -> bool:
    """Whether the rank says nothing, and the denominator says enough: a mean of two records that
    the model treats alike passes for two copies, up to the square of their difference."""
    rank = at.rank()
    silent = rank == min(at.G.shape) or rank < n_left
    rounding = torch.finfo(at.G.dtype).eps
    missed = at.tolerance if one.n_copies == 1 else math.sqrt(max(one.off, rounding))
    return silent and one.n_candidates * len(one.counts) * missed <= _CHANCE


def _passing(at: judging.Round, n_left: int, settings: judging.Settings) -> list[judging.Candidate]:
    """Candidates whose denominator the model confirms, fewest copies first, then the best."""
    lines = _candidates(at.model, at.G)
    combined = lines @ at.G
    bottom = combined[:, -1]
    usable = bottom.abs() > 100 * torch.finfo(at.G.dtype).eps * bottom.abs().max()
    if not usable.any():
        return []
    lines, combined, bottom = lines[usable], combined[usable], bottom[usable]
    rows = combined[:, :-1] / bottom[:, None]
    counts = judging.label_counts(judging.n_classes(at.model, rows), n_left, rows)
    passing = []
    for start in range(0, len(rows), _BLOCK):
        block = slice(start, start + _BLOCK)
        of_class = []
        for label in range(counts.shape[1]):
            y = torch.full((len(rows[block]),), label)
            delta = judging.shares(at.model, rows[block], y, settings.l2_norm_clip)
            of_class.append((lines[block] * delta).sum(dim=1))
        predicted = torch.stack(of_class, dim=1) @ counts.T / settings.n_records
        off = (predicted / bottom[block, None] - 1).abs()
        for k, m in torch.nonzero(off <= at.tolerance).tolist():
            passing.append((int(counts[m].sum()), float(off[k, m]), start + k, m))
    return [
        judging.Candidate(rows[k], counts[m], off, len(rows)) for _, off, k, m in sorted(passing)
    ]


def _candidates(model: nn.Module, G: torch.Tensor) -> torch.Tensor:
    """Combinations of the neurons, one a line: each neuron, and where one hidden layer is all,
    differences of two by their factors in the output."""
    neurons = torch.eye(len(G), dtype=G.dtype)
    layers = flat(model)
    last = layers[-1]
    if len(layers) != 3 or not isinstance(last, nn.Linear) or last.out_features > 2:
        return neurons
    V = last.weight.detach()
    v = V[0] if len(V) == 1 else V[1] - V[0]
    each = neurons[v != 0] / v[v != 0, None]
    one, two = torch.combinations(torch.arange(len(each))).T
    return torch.cat([neurons, each[one] - each[two]])


def _in_training(models: Sequence[nn.Module]) -> str:
    """Why no candidate can be tested by these models, or ""."""
    for model in models:
        layer = training_layer(model)
        if layer:
            return (
                f"{layer} is in training and does not treat a record by itself, so no candidate "
                "can be tested: call eval() before the gradient is taken"
            )
    return ""


def _obstacle(rounds: list[judging.Round], why_no_sum: str) -> str:
    """Why a search found no more, from what is left of the gradients."""
    at = max(rounds, key=judging.Round.rank)
    rank = at.rank()
    if rank == 0:
        return (
            "what is left of the gradient is 0: no neuron of the first layer is active for the "
            "others, their loss is flat there, or they cancel each other"
        )
    ratios = at.G[:, :-1] / at.G[:, -1:]
    rows = ratios[torch.isfinite(ratios).all(dim=1)]
    if bool((judging.deltas(at.model, rows, torch.zeros(len(rows), dtype=torch.int64)) != 0).all()):
        return (
            "the attack looks for neurons that are off for all records but one, as ReLU's are, and "
            f"{_behind_first(at.model)} lets every record reach every neuron"
        )
    return (
        f"none of {len(_candidates(at.model, at.G))} candidates agrees with the model for certain, "
        f"so each neuron sees several records (what is left has rank {rank}), or the gradient has "
        "noise, a clip, a number of records or a mode (training, eval) other than said"
        + (f"; as a subset sum: {why_no_sum}" if why_no_sum else "")
    )


def _behind_first(model: nn.Module) -> str:
    layers = flat(model)
    if len(layers) < 2:
        return "what follows its first layer"
    kind = type(layers[1]).__name__
    return f"{kind}, with no activation before it," if kind == "Linear" else kind
