"""Model completion: a holder without labels puts a layer of its own on its trained half of a split
model, and fits both to the few labels that it has (Fu et al., USENIX Security 2022)."""

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import nn

from ppkit import optimisers
from ppkit.attacks.arrays import bits_of, matrix, rows_of
from ppkit.models import classification_loss, mlp
from ppkit.validation import must_be, same_rows

N_STEPS = 200


def few_labels(y: ArrayLike, n: int, *, rng: np.random.Generator) -> np.ndarray:
    """n rows whose labels are told, half of them positives, but at most half of all positives.

    y: (N,) in {0, 1}.  n: >= 2.  Returns (n,) int64, none twice.
    ValueError for other labels, or if there are too few rows.
    Source: Fu et al. 2022 give the attacker equally many labels of each class.
    """
    labels = bits_of("labels", y)
    must_be("a whole number >= 2", n=n)
    n = int(n)
    positives, others = np.flatnonzero(labels == 1), np.flatnonzero(labels == 0)
    k = min(n // 2, len(positives) // 2)
    if n - k > len(others):
        raise ValueError(f"there are {len(others)} negatives, fewer than {n - k}")
    if k == 0:
        raise ValueError(f"there must be two positives or more, got {len(positives)}")
    return np.concatenate(
        [rng.choice(positives, k, replace=False), rng.choice(others, n - k, replace=False)]
    )


def completed(
    X: ArrayLike,
    known: ArrayLike,
    y_known: ArrayLike,
    *,
    half: ArrayLike | None = None,
    width: int = 8,
    rng: np.random.Generator,
) -> np.ndarray:
    """Scores of all records by a model whose first layer starts at the holder's trained half.

    logit = w sigmoid(X theta) + b,  theta from half, all of it by Adam on the known labels,
        a trained theta 30 times slower than one that starts at random

    X: (N, d), the holder's own columns.  known: (m,) rows whose labels are y_known (m,) in {0, 1}.
    half: theta (d, width) that the holder trained; None: a random start of that width, which says
    what the labels give without it.
    Returns (N,), higher for who seems positive.  ValueError for shapes that do not fit, or values
    that are not finite.
    Source: Fu et al. 2022, "Label Inference Attacks Against Vertical Federated Learning".
    Departs from it: the records without labels are not used (MixMatch there).
    """
    columns = torch.from_numpy(matrix("X", X))
    start = None if half is None else torch.from_numpy(matrix("half", half))
    if start is not None and len(start) != columns.shape[1]:
        raise ValueError(f"half has {len(start)} rows for {columns.shape[1]} columns")
    width = width if start is None else start.shape[1]
    draws = torch.Generator().manual_seed(int(rng.integers(2**62)))
    sizes = columns.shape[1], width, 1
    model = mlp(sizes, rng=draws, activation="sigmoid", dtype=torch.float64)
    first = model[0]
    if start is not None and isinstance(first, nn.Linear):
        with torch.no_grad():
            first.weight.copy_(start.T)
            first.bias.zero_()
    rows = torch.from_numpy(rows_of("known", known, len(columns)))
    y = torch.from_numpy(bits_of("y_known", y_known))
    same_rows(known=rows, y_known=y)
    optimiser = optimisers.Adam(
        [
            {"params": model[0].parameters(), "lr": 1e-2 if start is None else 3e-4},
            {"params": model[-1].parameters(), "lr": 3e-2},
        ],
        weight_decay=1e-3,
    )
    for _ in range(N_STEPS):
        optimiser.zero_grad()
        classification_loss(model(columns[rows]), y).backward()
        optimiser.step()
    with torch.no_grad():
        return model(columns)[:, 0].numpy()
