"""Networks and batches that a seed draws, for the attack on batches: what is drawn was written down
before the first was tried."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from ppkit import gradients as bounded
from ppkit.backtracking import batches, lattice
from ppkit.backtracking.analytic import shared_gradient
from ppkit.backtracking.matching import row_errors
from ppkit.models import classification_loss, mlp

WIDTHS = {32: 0.3, 64: 0.5, 128: 0.2}  # neurons of each hidden layer, and how often
FILLED = {  # records by neurons, all equally often
    32: (0.25, 0.5, 0.625, 0.75),
    64: (0.25, 0.5, 0.75, 0.875),
    128: (0.25, 0.375, 0.5, 0.625),
}
CLIP = 1.0


@dataclass(frozen=True)
class Setting:
    """width: neurons of each of the n_hidden layers.  n_records: in the batch.  trained: 100 steps
    of .1 on 600 other rows, else as it began.  clip: "none", "known" to the attacker, or "unknown".
    digits: of the gradient, 32 or 64 bits.  labels: "both", every second one 1, or "one", all 0."""

    width: int
    n_records: int
    n_hidden: int
    trained: bool
    clip: str
    digits: int
    labels: str


@dataclass(frozen=True)
class Outcome:
    """back: records of the batch that come back, to .001 of each feature's unit (root mean square
    over the features).  wrong: rows given that are no record of the batch.  why: as in
    `batches.Found`."""

    setting: Setting
    back: int
    wrong: int
    why: str


def setting(seed: int) -> Setting:
    """What a seed draws, each with its own chance and independently of the others.

    >>> setting(0)  # doctest: +NORMALIZE_WHITESPACE
    Setting(width=64, n_records=48, n_hidden=1, trained=True, clip='unknown', digits=32,
            labels='both')
    """
    rng = np.random.default_rng(seed)
    width = int(rng.choice(list(WIDTHS), p=list(WIDTHS.values())))
    return Setting(
        width=width,
        n_records=int(width * rng.choice(FILLED[width])),
        n_hidden=int(rng.choice([1, 2], p=[0.75, 0.25])),
        trained=bool(rng.random() < 0.5),
        clip=str(rng.choice(["none", "known", "unknown"], p=[0.5, 0.25, 0.25])),
        digits=int(rng.choice([64, 32], p=[0.7, 0.3])),
        labels=str(rng.choice(["both", "one"], p=[0.75, 0.25])),
    )


def trial(
    seed: int, X: np.ndarray, y: np.ndarray, *, effort: lattice.Effort = lattice.Effort()
) -> Outcome:
    """The attack on the network and the batch of a seed.

    X: (N, F) rows, of which the batch and the training rows are drawn without repeats; a batch with
    both labels has as many of each, and 200 of the training rows have label 1.  y: (N,) 0 and 1.
    """
    drawn = setting(seed)
    model, rows, labels = _drawn(seed, drawn, X, y)
    if drawn.clip == "none":
        gradient = shared_gradient(model, rows, labels)
    else:
        flat = bounded.clipped_sum(model, rows, labels, max_grad_norm=CLIP) / len(rows)
        sizes = [parameter.numel() for parameter in model.parameters()]
        parts = zip(flat.split(sizes), model.parameters())
        gradient = tuple(part.view_as(parameter) for part, parameter in parts)
    clip = {"none": float("inf"), "known": CLIP, "unknown": None}[drawn.clip]
    found = batches.from_batch(
        *gradient, model=model, n_records=len(rows), l2_norm_clip=clip, effort=effort
    )
    back = int((row_errors(found.rows, rows.double().numpy()) < 1e-3).sum())
    return Outcome(drawn, back, len(found.rows) - back, found.why)


def _drawn(seed: int, drawn: Setting, X: np.ndarray, y: np.ndarray):
    """The network, the batch and its labels."""
    rng = np.random.default_rng([seed, 1])
    dtype = torch.float64 if drawn.digits == 64 else torch.float32
    ones, zeros = rng.permutation(np.flatnonzero(y)), rng.permutation(np.flatnonzero(y == 0))

    def taken(n, n_ones):
        nonlocal ones, zeros
        rows = np.concatenate([ones[:n_ones], zeros[: n - n_ones]])
        ones, zeros = ones[n_ones:], zeros[n - n_ones :]
        return torch.tensor(X[rows], dtype=dtype), torch.tensor(y[rows]).long()

    n = drawn.n_records
    rows, labels = taken(n, n // 2 if drawn.labels == "both" else 0)
    sizes = (X.shape[1], *[drawn.width] * drawn.n_hidden, 2)
    model = mlp(sizes, rng=torch.Generator().manual_seed(seed), dtype=dtype)
    if drawn.trained:
        _train(model, *taken(600, min(200, len(ones))))
    return model, rows, labels


def _train(model: nn.Module, rows: torch.Tensor, labels: torch.Tensor) -> None:
    steps = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(100):
        steps.zero_grad()
        classification_loss(model(rows), labels).backward()
        steps.step()
