"""What the model says of a row that may be in a batch: the judge of every attack on batches.

An attacker knows the model. A row that he thinks is in the batch goes through it, and what the
model says must be what he observed.
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
from ppkit.backtracking.analytic import first_layer
from ppkit.models import classification_loss
from ppkit.validation import finite

_MOST_MIXED = 400  # ways in which copies of a row may have different labels that are tried


@dataclass(frozen=True)
class Settings:
    n_records: int
    l2_norm_clip: float | None  # None: unknown


@dataclass(frozen=True, eq=False)
class Round:
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


class Candidate(NamedTuple):
    """A row, how often it has each label, by which part of itself the model misses the denominator,
    and how many candidates there were beside it."""

    row: torch.Tensor
    counts: torch.Tensor
    off: float
    n_candidates: int

    @property
    def n_copies(self) -> int:
        return int(self.counts.sum())


def observed(model: nn.Module, gradient: Sequence[torch.Tensor]) -> Round:
    dW, db = gradient[0].detach(), gradient[1].detach()
    G = torch.cat([dW, db[:, None]], dim=1)
    finite(**{"the gradient": G})
    floor = torch.finfo(G.dtype).eps ** (2 / 3) * float(torch.linalg.matrix_norm(G, 2))
    return Round(model, G, floor)


def label_counts(n_classes: int, most: int, like: torch.Tensor) -> torch.Tensor:
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


def gradient(model, one: Candidate, settings: Settings) -> torch.Tensor:
    """What a row, all its copies, adds to the mean gradient of the first layer."""
    labels = torch.arange(len(one.counts))
    delta = shares(model, one.row.expand(len(labels), -1), labels, settings.l2_norm_clip)
    total = one.counts @ delta / settings.n_records
    return torch.outer(total, torch.cat([one.row, one.row.new_ones(1)]))


def shares(model, X, y, l2_norm_clip) -> torch.Tensor:
    """What each record adds to the summed gradient of the first layer's output, (N, H): clipped, if
    there is a clip."""
    delta = deltas(model, X, y) * len(X)
    if l2_norm_clip < math.inf:
        delta *= bounded.clip_factors(
            bounded.group_norms(bounded.capture(model, X, y)), l2_norm_clip
        )[:, None]
    return delta


def deltas(model: nn.Module, X: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
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
def n_classes(model, rows) -> int:
    return max(2, model(rows[:1]).shape[1])
