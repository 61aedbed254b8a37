"""DP-SGD around any torch optimiser, with the settings of TensorFlow Privacy: microbatches,
l2_norm_clip, noise_multiplier.

    g = (sum_j G_j min(1, C / ||G_j||) + N(0, (noise_multiplier C)^2 I)) / M,    G_j = mean gradient
    of microbatch j

The wrapped optimiser takes g for the gradient and does with it what it always does. What a step
costs depends on how its batch was drawn: `ppkit.dpsgd` draws batches and prices them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from ppkit import gradients
from ppkit.models import classification_loss

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

_CHUNK = 1 << 22  # numbers of per-microbatch gradients that the general path holds at once


class DPOptimizer:
    """A torch optimiser that only ever sees clipped, averaged and noised gradients.

    optimizer: any torch.optim optimiser whose step needs no closure; the clipped norm is over all
    its parameters.
    l2_norm_clip: C > 0; math.inf bounds nothing and allows no noise.  noise_multiplier: noise over
    C, >= 0; 0 gives no privacy.  num_microbatches: M, a divisor of the batch; None takes every
    record for itself.
    expected_batch: None for batches of a fixed size, which the M divides.  For Poisson batches,
    whose realised size is private, the public size that is expected, q N > 0: the sum is divided by
    it (M = q N), or by num_microbatches if given; then microbatches have expected_batch /
    num_microbatches records, and a batch, which holds whole ones, any number of them, none
    included.
    rng: torch.Generator of the noise, on the parameters' device.  It is no source for real secrets,
    and it is not part of the state: to replay noise over other data would let it cancel.
    ValueError for a setting out of range.
    Guarantee: `dpsgd.epsilon_for` and its two neighbours, by the sampling that ran; floating point
    is not hardened.
    Source: kanodia2020, section 6; Abadi et al. 2016, Algorithm 1; microbatches as in TensorFlow
    Privacy's Keras optimisers, to which the names belong.

    >>> model = nn.Sequential(nn.Linear(3, 2))
    >>> adam = torch.optim.Adam(model.parameters(), lr=0.01)
    >>> defended = DPOptimizer(
    ...     adam, l2_norm_clip=1.0, noise_multiplier=1.1, rng=torch.Generator().manual_seed(0)
    ... )
    >>> defended.step(model, torch.ones(8, 3), torch.ones(8, dtype=torch.int64))
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        *,
        l2_norm_clip: float,
        noise_multiplier: float,
        num_microbatches: int | None = None,
        expected_batch: float | None = None,
        rng: torch.Generator,
    ) -> None:
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise ValueError(
                f"optimizer must be a torch.optim optimiser, got {type(optimizer).__name__}"
            )
        if not isinstance(rng, torch.Generator):
            raise ValueError(f"rng must be a torch.Generator, got {type(rng).__name__}")
        if not l2_norm_clip > 0:
            raise ValueError(f"l2_norm_clip must be > 0, got {l2_norm_clip}")
        if not (noise_multiplier >= 0 and math.isfinite(noise_multiplier)):
            raise ValueError(
                f"noise_multiplier must be a finite number >= 0, got {noise_multiplier}"
            )
        if noise_multiplier and math.isinf(l2_norm_clip):
            raise ValueError(
                f"noise needs a finite l2_norm_clip to be measured by, got {l2_norm_clip}"
            )
        if num_microbatches is not None and (
            num_microbatches != int(num_microbatches) or num_microbatches < 1
        ):
            raise ValueError(
                f"num_microbatches must be a whole number >= 1 or None, got {num_microbatches}"
            )
        if expected_batch is not None and not (
            expected_batch > 0 and math.isfinite(expected_batch)
        ):
            raise ValueError(
                f"expected_batch must be a finite number > 0 or None, got {expected_batch}"
            )
        self._size = None if expected_batch is None else 1
        if expected_batch is not None and num_microbatches is not None:
            self._size = round(expected_batch / num_microbatches)
            if (
                self._size < 1
                or abs(self._size * num_microbatches - expected_batch) > 1e-9 * expected_batch
            ):
                raise ValueError(
                    f"num_microbatches must divide expected_batch {expected_batch}, got {num_microbatches}"
                )
        if isinstance(optimizer, torch.optim.LBFGS):
            raise ValueError(
                "an optimiser that needs a closure looks at the data many times a step: LBFGS is not accepted"
            )
        self.optimizer = optimizer
        self.l2_norm_clip, self.noise_multiplier = float(l2_norm_clip), float(noise_multiplier)
        self.num_microbatches, self.expected_batch = num_microbatches, expected_batch
        self.rng = rng

    def step(
        self, model: nn.Module, X: torch.Tensor, y: torch.Tensor, *, loss: Loss | None = None
    ) -> None:
        """`backward`, then one step of the wrapped optimiser."""
        self.backward(model, X, y, loss=loss)
        self.optimizer.step()

    @torch.no_grad()
    def backward(
        self, model: nn.Module, X: torch.Tensor, y: torch.Tensor, *, loss: Loss | None = None
    ) -> None:
        """Put the clipped, noised and averaged gradient into .grad, in place of loss.backward().

        model: any module that has the optimiser's parameters and that torch.func.vmap can follow.
        X: (N, ...), y:
        (N, ...); consecutive records form a microbatch.  loss: function of a microbatch's outputs
        and y that returns its mean loss; None is `models.classification_loss`.
        .grad is overwritten with new tensors, so one that was kept stays as it was.  nn.Sequential
        of Linear and ReLU with the default loss takes closed forms (`ppkit.gradients`); everything
        else, one vectorised autograd pass over the microbatches.
        ValueError, and nothing is changed, if the microbatches do not divide the batch, the batch
        is empty but none was to be expected so, the model lacks a parameter of the optimiser or
        keeps running statistics of its inputs, or a gradient is not finite.
        """
        parameters = [
            p for group in self.optimizer.param_groups for p in group["params"] if p.requires_grad
        ]
        size, divisor = self._microbatch(len(X))
        sizes = [p.numel() for p in parameters]
        flat = torch.zeros(sum(sizes), dtype=parameters[0].dtype, device=parameters[0].device)
        into = {p: part.view(p.shape) for p, part in zip(parameters, flat.split(sizes))}
        if (
            len(X)
            and loss is None
            and gradients.is_layered(model)
            and into.keys() == set(model.parameters())
        ):
            pairs = gradients.capture(model, X, y)
            factors = self._factors(gradients.group_norms(pairs, size)).div_(size * divisor)
            weights = factors if size == 1 else factors.repeat_interleave(size)
            layers = [(into[layer.weight], into[layer.bias]) for layer in list(model)[::2]]
            gradients.weighted_sum(pairs, weights, out=layers)
        elif len(X):
            names = _names(model, into)
            shaped = X.unflatten(0, (-1, size)), y.unflatten(0, (-1, size))
            for grads in _microbatch_gradients(model, names, *shaped, loss or classification_loss):
                norms = torch.stack([g.flatten(1).norm(dim=1) for g in grads]).norm(dim=0)
                factors = self._factors(norms).div_(divisor)
                for p, g in zip(names, grads):
                    into[p] += torch.tensordot(factors, g, dims=1)
        if self.noise_multiplier:
            noise = torch.empty_like(flat).normal_(generator=self.rng)
            flat.add_(noise, alpha=self.noise_multiplier * self.l2_norm_clip / divisor)
        for p, part in into.items():
            p.grad = part

    def zero_grad(self, set_to_none: bool = True) -> None:
        """As the wrapped optimiser's; `backward` overwrites .grad and does not need it."""
        self.optimizer.zero_grad(set_to_none)

    def state_dict(self) -> dict:
        """The wrapped optimiser's state (momentum, step counts); rng is not in it."""
        return self.optimizer.state_dict()

    def load_state_dict(self, state: dict) -> None:
        """Into the wrapped optimiser."""
        self.optimizer.load_state_dict(state)

    def _microbatch(self, n_records: int) -> tuple[int, float]:
        """Records in one microbatch, and what the noisy sum is divided by."""
        if self._size is not None:
            if n_records % self._size:
                raise ValueError(
                    f"a batch must hold whole microbatches of {self._size} records, got {n_records} records"
                )
            return self._size, self.num_microbatches or self.expected_batch
        if n_records == 0:
            raise ValueError(
                "the batch is empty: X has 0 records; Poisson batches may be, if expected_batch is given"
            )
        if self.num_microbatches is None:
            return 1, n_records
        if n_records % self.num_microbatches:
            raise ValueError(
                f"num_microbatches must divide the batch of {n_records} records, got {self.num_microbatches}"
            )
        return n_records // self.num_microbatches, self.num_microbatches

    def _factors(self, norms: torch.Tensor) -> torch.Tensor:
        if not math.isfinite(float(norms.sum())):
            bad = int((~torch.isfinite(norms)).sum())
            raise ValueError(
                f"the gradient of {bad} of {len(norms)} microbatches is NaN, infinite or too large"
            )
        return gradients.clip_factors(norms, self.l2_norm_clip)


def _names(model: nn.Module, parameters: dict) -> dict[nn.Parameter, list[str]]:
    """What the model calls each of the optimiser's parameters: one name for every module that holds
    it."""
    names: dict[nn.Parameter, list[str]] = {}
    for prefix, module in model.named_modules():
        if getattr(module, "track_running_stats", False):
            raise ValueError(
                "the model keeps running statistics of its inputs (BatchNorm), which no noise covers"
            )
        for name, p in module.named_parameters(prefix, recurse=False, remove_duplicate=False):
            if p in parameters:
                names.setdefault(p, []).append(name)
    if len(names) < len(parameters):
        raise ValueError(
            f"the optimiser trains {len(parameters)} parameters, and the model holds {len(names)} of them"
        )
    return names


def _microbatch_gradients(
    model: nn.Module, names: dict, X: torch.Tensor, y: torch.Tensor, loss: Loss
):
    """The mean gradients of the microbatches X (M, k, ...), y (M, k, ...): (m, *shape) per
    parameter, a chunk at a time."""

    def one(values, X, y):
        called = {name: value for value, alike in zip(values, names.values()) for name in alike}
        return loss(
            functional_call(model, called, (X,), tie_weights=False), y
        )  # tying loses a module that is used twice

    every = vmap(grad(one), in_dims=(None, 0, 0), randomness="error")
    values = tuple(p.detach() for p in names)
    chunk = max(1, _CHUNK // sum(value.numel() for value in values))
    for some_X, some_y in zip(X.split(chunk), y.split(chunk)):
        yield every(values, some_X, some_y)
