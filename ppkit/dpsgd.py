"""DP-SGD's optimiser: it only ever sees clipped, averaged and noised gradients, as in TensorFlow
Privacy; `ppkit.accounting` says what its steps cost, by the way in which batches are drawn.

Noise from torch is a double that never passes 8.57 standard deviations: `accounting.gaussian` says
what that gives away. What the last bits of a float give away (Mironov 2012) is not covered at all.
"""

import math

import torch
from torch import nn

from ppkit import gradients
from ppkit.accounting.gaussian import check_batch_size
from ppkit.models import refuse_frozen
from ppkit.validation import must_be


class DPOptimizer:
    """A torch optimiser that only ever sees clipped, averaged and noised gradients.

    optimizer: any torch.optim optimiser whose step needs no closure, over all parameters of a model
    that `gradients.capture` takes.
    l2_norm_clip: C > 0; math.inf bounds nothing and allows no noise.  noise_multiplier: noise over
    C, >= 0; 0 gives no privacy.  num_microbatches: M, a divisor of the batch; None takes every
    record for itself.
    rng: torch.Generator of the noise, on the parameters' device; no source for real secrets.
    Batches are of a fixed size, which is public.  (`dpstgd.DPSGD` is for Poisson batches.)
    ValueError for a setting out of range.
    Guarantee: `accounting.get_epsilon_poisson` and its neighbours, by the sampling that ran.
    Noise is drawn in float64, added and then rounded to the parameters' type: torch's float32
    normals end at 5.77 standard deviations, float64 ones at 8.57.  `accounting.gaussian` says what
    is left.
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
        rng: torch.Generator,
    ) -> None:
        must_be("> 0", l2_norm_clip=l2_norm_clip)
        must_be("a finite number >= 0", noise_multiplier=noise_multiplier)
        if noise_multiplier and math.isinf(l2_norm_clip):
            raise ValueError(
                f"noise needs a finite l2_norm_clip to be measured by, got {l2_norm_clip}"
            )
        if num_microbatches is not None:
            must_be("a whole number >= 1", num_microbatches=num_microbatches)
        self.optimizer = optimizer
        self.l2_norm_clip, self.noise_multiplier = float(l2_norm_clip), float(noise_multiplier)
        self.num_microbatches, self.rng = num_microbatches, rng

    def step(self, model: nn.Sequential, X: torch.Tensor, y: torch.Tensor) -> None:
        """`backward`, then one step of the wrapped optimiser."""
        self.backward(model, X, y)
        self.optimizer.step()

    @torch.no_grad()
    def backward(self, model: nn.Sequential, X: torch.Tensor, y: torch.Tensor) -> None:
        """Put the clipped, noised and averaged gradient into .grad, in place of loss.backward().

        model, X, y: as in `gradients.capture`, whose loss it is; all parameters of the model are
        the optimiser's, and no others.  Consecutive records form a microbatch.
        .grad is overwritten with new tensors, so one that was kept stays as it was.
        ValueError, and nothing is changed, as in `capture`, or if the microbatches do not divide
        the batch, the parameters are others or frozen, or a gradient is not finite.
        """
        refuse_frozen(model)
        trained = {p for group in self.optimizer.param_groups for p in group["params"]}
        if trained != set(parameters := list(model.parameters())):
            raise ValueError("the optimiser must hold the parameters of the model, and no others")
        pairs = gradients.capture(model, X, y)
        divisor = self.num_microbatches or len(X)
        if len(X) % divisor:
            raise ValueError(
                f"num_microbatches must divide the batch of {len(X)} records, got {divisor}"
            )
        size = len(X) // divisor
        norms = gradients.group_norms(pairs, size)
        # the sum shows it, and is quick
        if not math.isfinite(float(norms.sum())) and (bad := int((~torch.isfinite(norms)).sum())):
            raise ValueError(
                f"the gradient of {bad} of {divisor} microbatches is NaN, infinite or too large"
            )
        factors = gradients.clip_factors(norms, self.l2_norm_clip).div_(size * divisor)
        flat = gradients.weighted_sum(pairs, factors.repeat_interleave(size))
        if self.noise_multiplier:
            noise = torch.empty_like(flat, dtype=torch.float64).normal_(generator=self.rng)
            flat.add_(noise, alpha=self.noise_multiplier * self.l2_norm_clip / divisor)
        for p, part in zip(parameters, flat.split([p.numel() for p in parameters])):
            p.grad = part.view(p.shape)


def fixed_batch(n_records: int, *, batch_size: int, rng: torch.Generator) -> torch.Tensor:
    """batch_size of n_records rows without replacement, all subsets alike, in random order: int64
    indices.

    ValueError unless 1 <= batch_size <= n_records <= 10^9.
    Guarantee: `accounting.get_epsilon_fixed_batches`.
    """
    check_batch_size(batch_size, n_records)
    rows = torch.randperm(int(n_records), generator=rng)
    return rows[: int(batch_size)].clone()  # without the others


def fixed_batches(
    n_records: int, *, batch_size: int, n_steps: int, rng: torch.Generator
) -> torch.Tensor:
    """The batches of n_steps steps, as `fixed_batch` draws them one after the other: (n_steps,
    batch_size) int64.

    One piece of memory: kept one by one, the batches leave the holes of their permutations behind.
    ValueError unless n_steps is a whole number >= 1, and as in `fixed_batch`.
    """
    must_be("a whole number >= 1", n_steps=n_steps)
    check_batch_size(batch_size, n_records)
    batches = torch.empty((int(n_steps), int(batch_size)), dtype=torch.int64)
    for batch in batches:
        batch.copy_(fixed_batch(n_records, batch_size=batch_size, rng=rng))
    return batches
