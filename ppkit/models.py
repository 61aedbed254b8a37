"""The papers' networks as plain torch modules, started from an explicit generator, and the loss that they are trained on."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

STARTS = ("random", "zero")


def mlp(
    sizes: Sequence[int],
    *,
    rng: torch.Generator,
    start: str = "random",
    dtype: torch.dtype = torch.float32,
) -> nn.Sequential:
    """A fully connected network: Linear layers with ReLU between them and none at the end.

    weight, bias ~ U(-1/sqrt(fan_in), 1/sqrt(fan_in))    (torch's own rule for Linear), or 0

    sizes: widths from input to output, at least two, each >= 1.  rng: draws the start; the global generator of
    torch is not touched.  start: "random", or "zero" (every parameter 0; then the gradient of a ReLU network with
    a hidden layer is 0 in all parameters but the last bias, and plain SGD never leaves AUC .5).
    dtype: torch.float32 or torch.float64.
    Returns an nn.Sequential that maps (N, sizes[0]) to logits (N, sizes[-1]).
    ValueError if sizes or start is not accepted.
    Source: wang2018, section V.B (264-50-20-2); Algorithm 1 starts at 0, section III "randomly".

    >>> n_parameters(mlp((264, 50, 20, 2), rng=torch.Generator().manual_seed(0)))
    14312
    """
    sizes = tuple(sizes)
    if len(sizes) < 2 or any(size < 1 for size in sizes):
        raise ValueError(f"sizes must be at least two widths >= 1, got {sizes}")
    if start not in STARTS:
        raise ValueError(f"start must be one of {STARTS}, got {start!r}")
    layers: list[nn.Module] = []
    for fan_in, fan_out in zip(sizes[:-1], sizes[1:]):
        linear = nn.utils.skip_init(nn.Linear, fan_in, fan_out, dtype=dtype)
        bound = fan_in**-0.5 if start == "random" else 0.0
        with torch.no_grad():
            linear.weight.uniform_(-bound, bound, generator=rng)
            linear.bias.uniform_(-bound, bound, generator=rng)
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def n_parameters(model: nn.Module) -> int:
    """Number of trainable numbers in a model: the d of wang2018.

    >>> n_parameters(nn.Linear(3, 2))
    8
    """
    return sum(parameter.numel() for parameter in model.parameters())


def classification_loss(logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The mean loss of a classifier: cross-entropy of its logits, of a single logit the binary one.

    logits: (N, K).  y: (N,) integer classes; for K > 1 also (N, K) shares of classes.  Returns a scalar, in nats a record.

    >>> round(float(classification_loss(torch.zeros(3, 1), torch.tensor([0, 1, 1]))), 4)
    0.6931
    """
    if logits.shape[1] == 1:
        return functional.binary_cross_entropy_with_logits(logits[:, 0], y.to(logits.dtype))
    return functional.cross_entropy(logits, y if y.is_floating_point() else y.long())
