"""DP-SGD for a net of this paper, in SGLD's place: every record's gradient is clipped, and Gaussian
noise goes on the sum of a batch.

For a linear layer z = W a + b the gradient of one record's loss is the outer product of delta =
dL/dz and a. So the squared length of a record's gradient of all weights is

    |g_i|^2 = sum over layers of |delta_i|^2 (|a_i|^2 + 1 where there is a bias)

and no gradient of one record is ever made.
"""

import torch
from torch import Tensor, nn

from ppkit import gradients
from ppkit.spnn import rivals
from ppkit.spnn.party import rows_of
from ppkit.validation import must_be


class PrivateSteps:
    """Hooks that turn a training by `training.train` into DP-SGD.

    g <- sum_i g_i min(1, C / |g_i|) + N(0, (noise_multiplier C)^2 I),  g_i of all weights

    l2_norm_clip: C > 0, public, in units of the gradient of one record's loss.
    noise_multiplier: noise over C, >= 0; 0 gives no privacy.
    rng: torch.Generator of the noise; no source for real secrets.
    Train on the summed loss (`Schedule(loss="sum")`), at a learning rate that is divided by the
    batch size: the mean loss would scale the gradients before they are clipped.
    ValueError for a setting out of range.
    Guarantee: of the weights, `accounting.get_epsilon_epochs(..., neighbouring="zero_out")`, as a
    record is in one batch of each epoch. None for h1 and its gradient, which the server and the
    holders get record by record, without noise.
    Source: Abadi et al. 2016, Algorithm 1, which zhou2021, section 1.2, names as the typical way.
    Departs from the protocols: the lengths need every layer's part of a record, which no party of
    zhou2021 has alone. That is a gift to DP-SGD.

    >>> net = rivals.NN([2, 1], (4, 4), rng=torch.Generator().manual_seed(0))
    >>> net.prepare([torch.ones(5, 2), torch.ones(5, 1)])
    >>> steps = torch.optim.SGD(net.parameters(), lr=0.1)
    >>> private = PrivateSteps(l2_norm_clip=0.5, noise_multiplier=0.0, rng=torch.Generator())
    >>> private.attach(net, steps)
    >>> net(torch.arange(1)).sum().backward()
    >>> sum(float(p.grad.square().sum()) for p in net.parameters()) ** 0.5 < 0.5001
    True
    """

    def __init__(self, *, l2_norm_clip: float, noise_multiplier: float, rng: torch.Generator):
        must_be("a finite number > 0", l2_norm_clip=l2_norm_clip)
        must_be("a finite number >= 0", noise_multiplier=noise_multiplier)
        self.l2_norm_clip, self.noise_multiplier = l2_norm_clip, noise_multiplier
        self._rng = rng
        self._layers: list[tuple[Tensor, Tensor, bool]] = []

    def attach(self, net: rivals.NN, optimiser: torch.optim.Optimizer) -> None:
        """From now on this optimiser sees clipped and noised sums.  net: with one logit."""
        for layer in net.modules():
            if isinstance(layer, nn.Linear):
                layer.register_forward_hook(self._keep)
        net.register_forward_pre_hook(lambda *_: self._layers.clear())
        net.register_forward_hook(self._clip)
        optimiser.register_step_pre_hook(self._add_noise)

    def _keep(self, layer: nn.Linear, inputs: tuple[Tensor], output: Tensor) -> None:
        if output.requires_grad:
            self._layers.append((inputs[0].detach(), output, layer.bias is not None))

    def _clip(self, net: rivals.NN, inputs: tuple[Tensor], logits: Tensor) -> None:
        if logits.requires_grad:
            lengths = self._lengths(net, inputs[0], logits)

            def clipped(delta: Tensor) -> Tensor:
                norms = delta[:, 0].abs() * lengths
                return delta * gradients.clip_factors(norms, self.l2_norm_clip)[:, None]

            logits.register_hook(clipped)

    def _lengths(self, net: rivals.NN, rows: Tensor, logits: Tensor) -> Tensor:
        """Of each record's gradient of the logit: (n,)."""
        outputs = [net.h1, *(output for _, output, _ in self._layers)]
        deltas = torch.autograd.grad(logits.sum(), outputs, retain_graph=True)
        net.h1.grad = net.h_last.grad = None  # what this pass left there
        first = sum(rows_of(part, rows).square().sum(dim=1) for part in net._parts)
        squares = first * deltas[0].square().sum(dim=1)
        for (a, _, has_bias), delta in zip(self._layers, deltas[1:], strict=True):
            squares = squares + (a.square().sum(dim=1) + has_bias) * delta.square().sum(dim=1)
        return squares.sqrt()

    @torch.no_grad()
    def _add_noise(self, optimiser: torch.optim.Optimizer, *_: object) -> None:
        scale = self.noise_multiplier * self.l2_norm_clip
        for group in optimiser.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    noise = torch.empty_like(p).normal_(generator=self._rng)
                    p.grad.add_(noise, alpha=scale)
