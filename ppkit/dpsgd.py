"""DP-SGD with Gaussian noise: what a participant would upload today, and the noise that a budget asks for.

Accounting is by dp_accounting's privacy loss distributions (PLD) of the Poisson-sampled Gaussian, for add/remove
neighbours. Its discretisation rounds the loss up, so every epsilon here is an upper bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import dp_accounting
import numpy as np
import torch
from dp_accounting import pld
from torch import nn

from ppkit import gradients
from ppkit.models import n_parameters


@dataclass(frozen=True)
class DPSGD:
    """The upload of one DP-SGD round: the clipped sum plus Gaussian noise, over the expected batch.

    (sum_i g_i min(1, C / ||g_i||) + N(0, (noise_multiplier C)^2 I)) / (q N)

    noise_multiplier: noise over max_grad_norm, >= 0; 0 gives no privacy.  max_grad_norm: C > 0.
    Called with a model, a Poisson sample X (m, F), y (m,) that may be empty, the sample's expected size q N > 0 and a
    generator; returns a flat float tensor (P,).  ValueError if a setting is out of range.
    Guarantee: `epsilon_for` (Poisson sampling, add/remove).  The divisor is the expected batch because the realised
    one is private; N is taken as public and equal for both neighbours.  Floating-point noise is not hardened.
    Source: Abadi et al. 2016, Algorithm 1.
    """

    noise_multiplier: float
    max_grad_norm: float

    def __post_init__(self) -> None:
        if not (self.noise_multiplier >= 0 and math.isfinite(self.noise_multiplier)):
            raise ValueError(f"noise_multiplier must be a finite number >= 0, got {self.noise_multiplier}")
        if not self.max_grad_norm > 0:
            raise ValueError(f"max_grad_norm must be > 0, got {self.max_grad_norm}")

    def __call__(
        self, model: nn.Sequential, X: torch.Tensor, y: torch.Tensor, *, expected_batch: float, rng: np.random.Generator
    ) -> torch.Tensor:
        size = n_parameters(model)
        total = torch.zeros(size, dtype=X.dtype)
        if len(X):
            total += gradients.clipped_sum(model, X, y, max_grad_norm=self.max_grad_norm)
        if self.noise_multiplier:
            noise = rng.standard_normal(size, dtype=total.numpy().dtype)
            total.add_(torch.from_numpy(noise), alpha=self.noise_multiplier * self.max_grad_norm)
        return total.div_(expected_batch)

    def bits(self, size: int) -> int:
        """Bits of one upload of `size` parameters: every coordinate as a float32."""
        return 32 * size


def epsilon_for(
    noise_multiplier: float, *, delta: float, sample_rate: float, n_rounds: int, discretisation: float = 1e-4
) -> float:
    """Total epsilon of n_rounds DP-SGD uploads of one participant.

    noise_multiplier: > 0.  delta: in (0, 1).  sample_rate: in (0, 1].  n_rounds: uploads of this participant, >= 1.
    discretisation: grid of the privacy loss, > 0; a coarser one is faster and never reports less than the truth.
    Returns epsilon >= 0.  ValueError if an argument is out of range.
    Guarantee: (epsilon, delta)-DP, add/remove neighbours, Poisson sampling.
    Source: dp_accounting.pld.PLDAccountant.

    >>> round(epsilon_for(1.0, delta=2**-30, sample_rate=.01, n_rounds=100), 2)
    1.85
    """
    if not (noise_multiplier > 0 and math.isfinite(noise_multiplier)):
        raise ValueError(f"noise_multiplier must be a finite number > 0, got {noise_multiplier}")
    if not 0 < delta < 1:
        raise ValueError(f"delta must be in (0, 1), got {delta}")
    if not 0 < sample_rate <= 1:
        raise ValueError(f"sample_rate must be in (0, 1], got {sample_rate}")
    if n_rounds != int(n_rounds) or n_rounds < 1:
        raise ValueError(f"n_rounds must be a whole number >= 1, got {n_rounds}")
    one = dp_accounting.PoissonSampledDpEvent(sample_rate, dp_accounting.GaussianDpEvent(noise_multiplier))
    accountant = pld.PLDAccountant(value_discretization_interval=discretisation)
    accountant.compose(dp_accounting.SelfComposedDpEvent(one, int(n_rounds)))
    return float(accountant.get_epsilon(delta))


def noise_multiplier_for(epsilon: float, *, delta: float, sample_rate: float, n_rounds: int) -> float:
    """The smallest noise multiplier, to one part in a thousand, whose n_rounds uploads cost at most epsilon.

    epsilon: > 0.  delta, sample_rate, n_rounds: as in `epsilon_for`, of which this is the inverse.
    Returns a noise multiplier > 0 that meets the budget (bisection; the side that holds is returned).
    ValueError if an argument is out of range.
    Guarantee: epsilon_for(result) <= epsilon.

    >>> sigma = noise_multiplier_for(8.0, delta=2**-30, sample_rate=.01, n_rounds=1000)
    >>> 7.9 < epsilon_for(sigma, delta=2**-30, sample_rate=.01, n_rounds=1000) <= 8.0
    True
    """
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise ValueError(f"epsilon must be a finite number > 0, got {epsilon}")

    def holds(noise_multiplier: float) -> bool:
        spent = epsilon_for(
            noise_multiplier, delta=delta, sample_rate=sample_rate, n_rounds=n_rounds,
            discretisation=min(max(1e-4, 2e-4 * epsilon), 1e-2),  # within .2% of the default, 20 times faster
        )
        return spent <= epsilon

    high = 16.0  # much noise is cheap to account for, little noise is not: come from above
    while not holds(high):
        high *= 2
    low = high / 2
    while holds(low):
        low, high = low / 2, low
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
