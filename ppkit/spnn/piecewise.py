"""SecureML's network in the clear: the piecewise sigmoid at the output too, and the loss that goes
with it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from .rivals import NN

Layer = tuple[torch.Tensor, torch.Tensor | None]


class PiecewiseNet(NN):
    """What `secureml.SecureML` computes on shares, in floating point and at once.

    p = f(logit), f(z) = 0 for z < -1/2, z + 1/2 between, 1 above; hidden layers f or ReLU; output
    error (p - y) / |B|

    holders, hidden, rng, bias, dtype: as for `rivals.NN`.  activation: "piecewise" or "relu" for
    all hidden layers, or one
    each: ("piecewise", "piecewise", "relu") for distress.  ValueError for another activation, or as
    for NN.
    Records are to be ranked by their logits: p is exactly 0 or 1 for most, and ties would count in
    an AUC.
    Source: SecureML (Mohassel and Zhang 2017); zhou2021, section 6.1.

    >>> net = PiecewiseNet([14, 14], (8, 8), rng=torch.Generator().manual_seed(0))
    >>> net.prepare([torch.zeros(5, 14, dtype=torch.float64)] * 2)
    >>> net.step(torch.arange(5), torch.ones(5), lr=0.5)
    """

    def __init__(
        self,
        holders: Sequence[int],
        hidden: Sequence[int],
        *,
        activation: str | Sequence[str] = "piecewise",
        rng: torch.Generator,
        bias: bool = False,
        dtype: torch.dtype = torch.float64,
    ):
        kinds = [activation] * len(hidden) if isinstance(activation, str) else list(activation)
        if set(kinds) - {"piecewise", "relu"}:
            raise ValueError(f"SecureML has the activations piecewise and relu, got {activation!r}")
        super().__init__(holders, hidden, activation=kinds, rng=rng, bias=bias, dtype=dtype)
        self.kinds = [*kinds, "piecewise"]

    @staticmethod
    def probabilities(logits: torch.Tensor) -> torch.Tensor:
        """p in [0, 1], of the logits' shape."""
        return (logits + 0.5).clamp(0, 1)

    @staticmethod
    def loss(logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The loss whose gradient is SecureML's output error: the mean of F(z) - y z, where F' = f
        and F(-1/2) = 0.

        logits: (N, 1).  y: (N,) in {0, 1}.  Returns a scalar >= 0, convex in the logits; 1/8 at z =
        0. With the sigmoid itself for f it would be the logistic loss.
        """
        z = logits[:, 0]
        return ((z + 0.5).clamp(0, 1).square() / 2 + (z - 0.5).clamp(min=0) - y * z).mean()

    def step(self, rows: torch.Tensor, y: torch.Tensor, *, lr: float) -> None:
        """One step of gradient descent on some of the prepared rows.  y: (len(rows),), their
        labels.  lr: > 0."""
        self.zero_grad()
        self.loss(self(rows), y).backward()
        with torch.no_grad():
            for p in self.parameters():
                p -= lr * p.grad

    def layers(self) -> list[Layer]:
        """theta (d, m) and bias (m,), or None, of every layer from the first to the output: the
        values, not copies."""
        linear = [
            (layer.weight.detach().t(), layer.bias.detach())
            for layer in [*self.hidden, self.output]
            if isinstance(layer, nn.Linear)
        ]
        return [
            (
                torch.cat(list(self.theta)).detach(),
                None if self.bias is None else self.bias.detach(),
            ),
            *linear,
        ]

    @torch.no_grad()
    def load_layers(self, layers: Sequence[Layer]) -> None:
        """Take over weights in the form that `layers` gives them."""
        (theta, bias), *rest = layers
        for mine, part in zip(self.theta, theta.split(self.holders)):
            mine.copy_(part)
        if bias is not None:
            self.bias.copy_(bias)
        for (theta, bias), (mine, its_bias) in zip(rest, self.layers()[1:], strict=True):
            mine.copy_(theta)
            its_bias.copy_(bias)
