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

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from ppkit import gradients as bounded
from ppkit.backtracking.analytic import first_layer, flat, training_layer
from ppkit.models import classification_loss
from ppkit.validation import finite, must_be

_BLOCK = 1024  # candidates that go through the model at a time
_MOST_MIXED = 400  # ways in which copies of a row may have different labels that are tried
_CHANCE = 1e-3  # of a wrong row among those that the rank cannot confirm, about


class Found(NamedTuple):
    """rows: (K, F) float64 recovered records, in the order found; a row that is in the batch k
    times stands here k times.  labels: (K,) int64.  times: (K,) int64, in the batch, of the row.
    why: "" where all records were found, else one sentence that says what stood in the way."""

    rows: np.ndarray
    labels: np.ndarray
    times: np.ndarray
    why: str


@dataclass(frozen=True)
class _Settings:
    n_records: int
    l2_norm_clip: float


@dataclass(frozen=True, eq=False)
class _Round:
    """What the participant was sent and what is left of its answer, G = [dW db]; a singular value
    of G up to floor is rounding."""

    model: nn.Module
    G: torch.Tensor
    floor: float

    @property
    def tolerance(self) -> float:
        """By which part of itself a denominator may be missed."""
        return 1e-9 if self.G.dtype == torch.float64 else 1e-3

    def rank(self, without: torch.Tensor | None = None) -> int:
        rest = self.G if without is None else self.G - without
        return int((torch.linalg.svdvals(rest) > self.floor).sum())


class _Candidate(NamedTuple):
    """A row, how often it has each label, by which part of itself the model misses the denominator,
    and how many candidates there were beside it."""

    row: torch.Tensor
    counts: torch.Tensor
    off: float
    n_candidates: int

    @property
    def n_copies(self) -> int:
        return int(self.counts.sum())


def isolated(model: nn.Module, X: torch.Tensor, y: torch.Tensor) -> np.ndarray:
    """The records of a batch that some first-layer neuron sees alone, or beside copies of itself
    only: ascending positions, of 0..N-1.

    For the notebook, which knows the batch.
    model: as in `from_rounds`.  X: (N, F).  y: (N,) integer classes.
    """
    delta = _deltas(model, X, y)
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
    *,
    model: nn.Module,
    n_records: int,
    l2_norm_clip: float = math.inf,
) -> Found:
    """The records of a batch that its mean gradient gives away; `from_rounds` with one round.

    >>> from ppkit.models import mlp
    >>> net = mlp((3, 8, 2), rng=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> X = torch.tensor([[1.0, 2.0, 4.0], [1.0, 2.0, 4.0], [0.0, -1.0, 0.0]]).double()
    >>> loss = classification_loss(net(X), torch.tensor([0, 1, 1]))
    >>> found = from_batch(*torch.autograd.grad(loss, net[0].parameters()), model=net, n_records=3)
    >>> (found.rows.round(6) + 0.0).tolist(), found.labels.tolist(), found.times.tolist()
    ([[0.0, -1.0, 0.0], [1.0, 2.0, 4.0], [1.0, 2.0, 4.0]], [1, 0, 1], [1, 2, 2])
    """
    return from_rounds(
        [model], [(weight_grad, bias_grad)], n_records=n_records, l2_norm_clip=l2_norm_clip
    )


def from_rounds(
    models: Sequence[nn.Module],
    gradients: Sequence[Sequence[torch.Tensor]],
    *,
    n_records: int,
    l2_norm_clip: float = math.inf,
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

    models: what the participant was sent in each round; a module whose first layer is Linear, sees
    the records themselves and is used once; the differences need an nn.Sequential.  Layers that
    treat a record by itself only: eval() for Dropout and BatchNorm, on both sides.
    gradients: per round dW (H, F), db (H,), of the mean loss of the same n_records records; more
    entries are ignored.
    l2_norm_clip: C > 0, known, if every record's gradient was clipped to it before the mean (DP-SGD
    without noise): a record's delta then counts min(1, C / |its gradient|) times, in each of its
    neurons alike, so no ratio moves.  It needs Linear and ReLU layers.
    The tolerance is 1e-9 in float64, 1e-3 in float32.
    Returns Found; where records are missing `why` says what stood in the way: wide batches, no
    neuron that is ever off, a layer in training, noise.
    ValueError for values that are not finite, numbers out of range, and as in `first_layer`.
    Departs from the paper, which takes one record; peeling and the test of a candidate by the model
    are ours, that a neuron may see one record alone is Geiping et al. 2020
    and Boenisch et al. 2021.
    """
    rounds = [_round(model, gradient) for model, gradient in zip(models, gradients, strict=True)]
    must_be("> 0", l2_norm_clip=l2_norm_clip)
    must_be("a whole number >= 1", n_records=n_records)
    settings = _Settings(n_records, l2_norm_clip)
    why = _in_training(models)
    found = [] if why else _search(rounds, settings)
    n_found = sum(one.n_copies for one in found)
    if not why and n_found < n_records:
        why = _obstacle(rounds)
    if why:
        why = f"{n_found} of {n_records} records found: {why}"
    return _listed(found, rounds[0].G, why)


def _listed(found: list[_Candidate], G: torch.Tensor, why: str) -> Found:
    rows = G.new_zeros(0, G.shape[1] - 1)
    labels, times = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    for one in found:
        of_copies = np.repeat(np.arange(len(one.counts)), one.counts.long().numpy())
        rows = torch.cat([rows, one.row.expand(one.n_copies, -1)])
        labels = np.append(labels, of_copies)
        times = np.append(times, np.full(one.n_copies, one.n_copies))
    return Found(rows.double().numpy(), labels, times, why)


def _search(rounds: list[_Round], settings: _Settings) -> list[_Candidate]:
    """Rows one after the other, each subtracted in all rounds, until nothing new passes."""
    found: list[_Candidate] = []
    while n_left := settings.n_records - sum(one.n_copies for one in found):
        passing = [_passing(one, n_left, settings) for one in rounds]
        before = len(found)
        for confirmed in (_lowers_rank, _unlikely_by_chance):
            for at, candidates in zip(rounds, passing):
                for one in candidates:
                    n_left = settings.n_records - sum(each.n_copies for each in found)
                    if (
                        one.n_copies <= n_left
                        and _is_new(one.row, found, at.tolerance)
                        and confirmed(at, one, n_left, settings)
                    ):
                        found.append(one)
                        for each in rounds:
                            each.G.sub_(_gradient(each.model, one, settings))
            if len(found) > before:
                break
        if len(found) == before:
            break
    return found


def _is_new(row: torch.Tensor, found: list[_Candidate], tolerance: float) -> bool:
    near = min(1e-4, 100 * tolerance)
    return not any(bool(((row - one.row).abs() <= near * (1 + row.abs())).all()) for one in found)


def _lowers_rank(at: _Round, one: _Candidate, n_left: int, settings: _Settings) -> bool:
    return at.rank(without=_gradient(at.model, one, settings)) < at.rank()


def _unlikely_by_chance(at: _Round, one: _Candidate, n_left: int, settings: _Settings) -> bool:
    """Whether the rank says nothing, and the denominator says enough: a mean of two records that
    the model treats alike passes for two copies, up to the square of their difference."""
    rank = at.rank()
    silent = rank == min(at.G.shape) or rank < n_left
    rounding = torch.finfo(at.G.dtype).eps
    missed = at.tolerance if one.n_copies == 1 else math.sqrt(max(one.off, rounding))
    return silent and one.n_candidates * len(one.counts) * missed <= _CHANCE


def _passing(at: _Round, n_left: int, settings: _Settings) -> list[_Candidate]:
    """Candidates whose denominator the model confirms, fewest copies first, then the best."""
    lines = _candidates(at.model, at.G)
    combined = lines @ at.G
    bottom = combined[:, -1]
    usable = bottom.abs() > 100 * torch.finfo(at.G.dtype).eps * bottom.abs().max()
    if not usable.any():
        return []
    lines, combined, bottom = lines[usable], combined[usable], bottom[usable]
    rows = combined[:, :-1] / bottom[:, None]
    counts = _label_counts(_n_classes(at.model, rows), n_left, rows)
    passing = []
    for start in range(0, len(rows), _BLOCK):
        block = slice(start, start + _BLOCK)
        of_class = []
        for label in range(counts.shape[1]):
            y = torch.full((len(rows[block]),), label)
            delta = _shares(at.model, rows[block], y, settings.l2_norm_clip)
            of_class.append((lines[block] * delta).sum(dim=1))
        predicted = torch.stack(of_class, dim=1) @ counts.T / settings.n_records
        off = (predicted / bottom[block, None] - 1).abs()
        for k, m in torch.nonzero(off <= at.tolerance).tolist():
            passing.append((int(counts[m].sum()), float(off[k, m]), start + k, m))
    return [_Candidate(rows[k], counts[m], off, len(rows)) for _, off, k, m in sorted(passing)]


def _label_counts(n_classes: int, most: int, like: torch.Tensor) -> torch.Tensor:
    """How often a row may have each label, (M, n_classes): up to `most` copies of one label, and
    the ways to mix labels that come first."""
    alike = [[label] * k for k in range(1, most + 1) for label in range(n_classes)]
    copies = itertools.chain.from_iterable(
        itertools.combinations_with_replacement(range(n_classes), k) for k in range(2, most + 1)
    )
    mixed = (labels for labels in copies if len(set(labels)) > 1)
    tried = [*alike, *itertools.islice(mixed, _MOST_MIXED)]
    counts = [np.bincount(labels, minlength=n_classes) for labels in tried]
    return torch.as_tensor(np.array(counts), dtype=like.dtype)


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


def _gradient(model, one: _Candidate, settings: _Settings) -> torch.Tensor:
    """What a row, all its copies, adds to the mean gradient of the first layer."""
    labels = torch.arange(len(one.counts))
    delta = _shares(model, one.row.expand(len(labels), -1), labels, settings.l2_norm_clip)
    total = one.counts @ delta / settings.n_records
    return torch.outer(total, torch.cat([one.row, one.row.new_ones(1)]))


def _shares(model, X, y, l2_norm_clip) -> torch.Tensor:
    """What each record adds to the summed gradient of the first layer's output, (N, H): clipped, if
    there is a clip."""
    delta = _deltas(model, X, y) * len(X)
    if l2_norm_clip < math.inf:
        delta *= bounded.clip_factors(
            bounded.group_norms(bounded.capture(model, X, y)), l2_norm_clip
        )[:, None]
    return delta


def _deltas(model: nn.Module, X: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The gradient of the mean loss in the first layer's output, (N, H)."""
    seen = []

    def keep(layer, inputs, output):
        seen.append(output.detach().requires_grad_())
        return seen[0].clone()  # an activation in place changes the copy

    hook = first_layer(model).register_forward_hook(keep)
    loss = classification_loss(model(X), y)
    hook.remove()
    return torch.autograd.grad(loss, seen[0], materialize_grads=True)[0]


@torch.no_grad()
def _n_classes(model, rows) -> int:
    return max(2, model(rows[:1]).shape[1])


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


def _obstacle(rounds: list[_Round]) -> str:
    """Why a search found no more, from what is left of the gradients."""
    at = max(rounds, key=_Round.rank)
    rank = at.rank()
    if rank == 0:
        return (
            "what is left of the gradient is 0: no neuron of the first layer is active for the "
            "others, their loss is flat there, or they cancel each other"
        )
    ratios = at.G[:, :-1] / at.G[:, -1:]
    rows = ratios[torch.isfinite(ratios).all(dim=1)]
    if bool((_deltas(at.model, rows, torch.zeros(len(rows), dtype=torch.int64)) != 0).all()):
        return (
            "the attack looks for neurons that are off for all records but one, as ReLU's are, and "
            f"{_behind_first(at.model)} lets every record reach every neuron"
        )
    return (
        f"none of {len(_candidates(at.model, at.G))} candidates agrees with the model for certain, "
        f"so each neuron sees several records (what is left has rank {rank}), or the gradient has "
        "noise, a clip, a number of records or a mode (training, eval) other than said"
    )


def _behind_first(model: nn.Module) -> str:
    layers = flat(model)
    if len(layers) < 2:
        return "what follows its first layer"
    kind = type(layers[1]).__name__
    return f"{kind}, with no activation before it," if kind == "Linear" else kind


def _round(model: nn.Module, gradient: Sequence[torch.Tensor]) -> _Round:
    dW, db = gradient[0].detach(), gradient[1].detach()
    G = torch.cat([dW, db[:, None]], dim=1)
    finite(**{"the gradient": G})
    floor = torch.finfo(G.dtype).eps ** (2 / 3) * float(torch.linalg.matrix_norm(G, 2))
    return _Round(model, G, floor)
