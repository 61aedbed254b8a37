"""DP-SGD with Gaussian noise: what a participant would upload today, how batches are drawn, and
what each way costs.

    drawn by            priced by                      neighbours
    poisson_batch       epsilon_for                    add/remove, replace-one
    fixed_batch         epsilon_for_fixed_batches      replace-one (the number of records is public)
    shuffled_batches    epsilon_for_epochs             replace-one, zero-out: no gain from the
    shuffling is claimed

Notebook 02 trains on fixed_batch, and prices its steps in all three ways, beside what an attacker
attains.
One record moves the clipped sum by C when it comes or goes, by 2C when it is replaced. In a
microbatch of k > 1 records it moves their mean gradient anywhere: clipped, from one end of the ball
of radius C to the other. So 2C, whatever k and whichever relation; the same noise protects
microbatches less, at equal noise_multiplier, and averages no more of it away.
Accounting is by dp_accounting's privacy loss distributions (PLD). Their discretisation rounds the
loss up, so every epsilon here is an upper bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import dp_accounting
import numpy as np
import torch
from dp_accounting import pld
from dp_accounting.pld import pld_pmf, privacy_loss_mechanism
from torch import nn

from ppkit import gradients
from ppkit.models import n_parameters


@dataclass(frozen=True)
class DPSGD:
    """The upload of one DP-SGD round: the clipped sum plus Gaussian noise, over the expected batch.

    (sum_i g_i min(1, C / ||g_i||) + N(0, (noise_multiplier C)^2 I)) / (q N)

    noise_multiplier: noise over max_grad_norm, >= 0; 0 gives no privacy.  max_grad_norm: C > 0.
    Called with a model, a Poisson sample X (m, F), y (m,) that may be empty, the sample's expected
    size q N > 0 and a generator; returns a flat float tensor (P,).  ValueError if a setting is out
    of range.
    Guarantee: `epsilon_for` (Poisson sampling, add/remove).  The divisor is the expected batch
    because the realised one is private; N is taken as public and equal for both neighbours.
    Floating-point noise is not hardened.
    Source: Abadi et al. 2016, Algorithm 1.
    """

    noise_multiplier: float
    max_grad_norm: float

    def __post_init__(self) -> None:
        if not (self.noise_multiplier >= 0 and math.isfinite(self.noise_multiplier)):
            raise ValueError(
                f"noise_multiplier must be a finite number >= 0, got {self.noise_multiplier}"
            )
        if not self.max_grad_norm > 0:
            raise ValueError(f"max_grad_norm must be > 0, got {self.max_grad_norm}")

    def __call__(
        self,
        model: nn.Sequential,
        X: torch.Tensor,
        y: torch.Tensor,
        *,
        expected_batch: float,
        rng: np.random.Generator,
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


def poisson_batch(
    n_records: int, *, sample_rate: float, microbatch_size: int = 1, rng: torch.Generator
) -> torch.Tensor:
    """Rows of a Poisson batch: every microbatch of consecutive records is in it with probability
    sample_rate, by itself.

    n_records: N >= 1, a multiple of microbatch_size k >= 1.  sample_rate: q in (0, 1].
    Returns ascending int64 indices, about q N of them, perhaps none; whole microbatches, in place.
    Microbatches are fixed before the draw: were they cut from the drawn records, one record more
    would shift all
    that follow.  ValueError if an argument is out of range.  Guarantee: `epsilon_for`.
    """
    _check_rate(sample_rate)
    if microbatch_size < 1 or n_records < 1 or n_records % microbatch_size:
        raise ValueError(
            f"n_records must be a multiple of microbatch_size {microbatch_size}, got {n_records}"
        )
    drawn = (
        torch.rand(n_records // microbatch_size, generator=rng, dtype=torch.float64) < sample_rate
    )
    starts = drawn.nonzero() * microbatch_size
    return (starts + torch.arange(microbatch_size)).flatten()


def fixed_batch(n_records: int, *, batch_size: int, rng: torch.Generator) -> torch.Tensor:
    """batch_size of n_records rows without replacement, all subsets alike, in random order: int64
    indices.

    ValueError unless 1 <= batch_size <= n_records.  Guarantee: `epsilon_for_fixed_batches`.
    """
    return shuffled_batches(n_records, batch_size=batch_size, rng=rng)[0]


def shuffled_batches(n_records: int, *, batch_size: int, rng: torch.Generator) -> torch.Tensor:
    """One epoch: all rows in random order, cut into batches; (n_records // batch_size, batch_size)
    int64 indices.

    What is left over by the last full batch sits this epoch out.  ValueError unless 1 <= batch_size
    <= n_records.
    Guarantee: `epsilon_for_epochs`.
    """
    _check_batch_size(batch_size, n_records)
    n_batches = n_records // batch_size
    return torch.randperm(n_records, generator=rng)[: n_batches * batch_size].view(
        n_batches, batch_size
    )


def epsilon_for(
    noise_multiplier: float,
    *,
    delta: float,
    sample_rate: float,
    n_rounds: int,
    discretisation: float = 1e-4,
    neighbouring: str = "add_remove",
    microbatch_size: int = 1,
) -> float:
    """Total epsilon of n_rounds DP-SGD uploads of one participant, each on a Poisson batch.

    noise_multiplier: > 0.  delta: in (0, 1).  sample_rate: in (0, 1].  n_rounds: uploads of this
    participant, >= 1.
    discretisation: grid of the privacy loss, > 0; a coarser one is faster and never reports less
    than the truth.
    neighbouring: "add_remove" or "replace_one".  microbatch_size: k >= 1; above 1 both relations
    cost what "replace_one" costs, for then a record moves a sampled microbatch from +C to -C and
    leaves the others.
    Returns epsilon >= 0.  ValueError if an argument is out of range.
    Guarantee: (epsilon, delta)-DP, Poisson sampling; add/remove within a fixed grouping if
    microbatch_size > 1.
    Source: dp_accounting.pld.PLDAccountant.

    >>> round(epsilon_for(1.0, delta=2**-30, sample_rate=0.01, n_rounds=100), 2)
    1.85
    """
    _check_budget(noise_multiplier, delta, n_rounds)
    _check_rate(sample_rate)
    relation = _relation(neighbouring, microbatch_size, accepted=("add_remove", "replace_one"))
    one = dp_accounting.PoissonSampledDpEvent(
        sample_rate, dp_accounting.GaussianDpEvent(noise_multiplier)
    )
    accountant = pld.PLDAccountant(
        dp_accounting.NeighboringRelation.REPLACE_ONE
        if relation == "replace_one"
        else dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
        value_discretization_interval=discretisation,
    )
    accountant.compose(dp_accounting.SelfComposedDpEvent(one, int(n_rounds)))
    return float(accountant.get_epsilon(delta))


def epsilon_for_fixed_batches(
    noise_multiplier: float,
    *,
    delta: float,
    n_records: int,
    batch_size: int,
    n_rounds: int,
    discretisation: float = 1e-4,
) -> float:
    """Total epsilon of n_rounds uploads, each on batch_size of n_records drawn anew without
    replacement.

    delta_1(eps) = q delta_G(ln(1 + (e^eps - 1) / q)) for eps >= 0,    q = batch_size / n_records,

    delta_G the Gaussian's at sensitivity 2C; replace-one is symmetric, which gives eps < 0, and
    dp_accounting composes.
    noise_multiplier: > 0.  delta: in (0, 1).  1 <= batch_size <= n_records, both public.  n_rounds:
    >= 1.
    discretisation: as in `epsilon_for`.  Returns epsilon >= 0.  ValueError if an argument is out of
    range.
    Guarantee: (epsilon, delta)-DP, replace-one, microbatches of any size.
    Source: Balle, Barthe and Gaboardi 2018, Theorem 9; composed as a dominating pair (Zhu, Dong and
    Wang 2022).
    Departs from dp_accounting's RdpAccountant: it is looser, and under REPLACE_ONE it takes the
    sensitivity for C, so that it has to be given noise_multiplier / 2.

    >>> round(
    ...     epsilon_for_fixed_batches(2.0, delta=1e-6, n_records=1000, batch_size=10, n_rounds=100),
    ...     2,
    ... )
    1.0
    """
    _check_budget(noise_multiplier, delta, n_rounds)
    _check_batch_size(batch_size, n_records)
    rate = batch_size / n_records
    gaussian = privacy_loss_mechanism.GaussianPrivacyLoss(noise_multiplier / 2)
    widest = gaussian.connect_dots_bounds().epsilon_upper
    n_points = (
        math.ceil((widest + math.log(rate + (1 - rate) * math.exp(-widest))) / discretisation) + 1
    )
    epsilons = np.arange(n_points + 1) * discretisation
    inner = epsilons - math.log(rate) + np.log1p(-(1 - rate) * np.exp(-epsilons))
    right = rate * np.asarray(gaussian.get_delta_for_epsilon(inner))
    left = -np.expm1(-epsilons) + np.exp(-epsilons) * right
    deltas = np.minimum.accumulate(np.concatenate([left[:0:-1], right]))
    one = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
        discretisation, -n_points, n_points, deltas
    )
    many = pld.privacy_loss_distribution.PrivacyLossDistribution(one).self_compose(int(n_rounds))
    return float(many.get_epsilon_for_delta(delta))


def epsilon_for_epochs(
    noise_multiplier: float,
    *,
    delta: float,
    n_epochs: int,
    neighbouring: str = "replace_one",
    microbatch_size: int = 1,
) -> float:
    """Total epsilon of n_epochs passes over shuffled batches, which TensorFlow Privacy's tutorials
    run.

    A record is in at most one batch an epoch, so this is the Gaussian mechanism at noise_multiplier
    / sqrt(n_epochs) (over 2 where one record moves 2C), whatever the batch size, and even if the
    order is known.
    noise_multiplier: > 0.  delta: in (0, 1).  n_epochs: >= 1, a part of an epoch counted whole.
    neighbouring: "replace_one", or "zero_out": the record's gradient is replaced by 0 and its place
    kept (add/remove would move all records behind it into other batches).  microbatch_size: k >= 1;
    above 1 both cost the same.
    Returns epsilon >= 0, exact for the Gaussian mechanism.  ValueError if an argument is out of
    range.
    Guarantee: (epsilon, delta)-DP.  The tutorials price these batches as Poisson ones, which can be
    far below what an attacker attains (Chua et al. 2024); what shuffling does gain is not claimed
    here.
    Source: dp_accounting.get_epsilon_gaussian (Balle and Wang 2018).

    >>> round(epsilon_for_epochs(2.0, delta=1e-6, n_epochs=1, neighbouring="zero_out"), 2)
    2.25
    """
    _check_budget(noise_multiplier, delta, n_epochs, rounds="n_epochs")
    relation = _relation(neighbouring, microbatch_size, accepted=("replace_one", "zero_out"))
    sensitivity = 2 if relation == "replace_one" else 1
    return float(
        dp_accounting.get_epsilon_gaussian(
            noise_multiplier / (sensitivity * math.sqrt(n_epochs)), delta
        )
    )


def noise_multiplier_for(
    epsilon: float, *, delta: float, sample_rate: float, n_rounds: int
) -> float:
    """The smallest noise multiplier, to one part in a thousand, whose n_rounds uploads cost at most
    epsilon.

    epsilon: > 0.  delta, sample_rate, n_rounds: as in `epsilon_for`, of which this is the inverse.
    Returns a noise multiplier > 0 that meets the budget (bisection; the side that holds is
    returned).
    ValueError if an argument is out of range.
    Guarantee: epsilon_for(result) <= epsilon.

    >>> sigma = noise_multiplier_for(8.0, delta=2**-30, sample_rate=0.01, n_rounds=1000)
    >>> 7.9 < epsilon_for(sigma, delta=2**-30, sample_rate=0.01, n_rounds=1000) <= 8.0
    True
    """
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise ValueError(f"epsilon must be a finite number > 0, got {epsilon}")

    def holds(noise_multiplier: float) -> bool:
        spent = epsilon_for(
            noise_multiplier,
            delta=delta,
            sample_rate=sample_rate,
            n_rounds=n_rounds,
            discretisation=min(
                max(1e-4, 2e-4 * epsilon), 1e-2
            ),  # within .2% of the default, 20 times faster
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


def _check_budget(
    noise_multiplier: float, delta: float, n_rounds: int, *, rounds: str = "n_rounds"
) -> None:
    if not (noise_multiplier > 0 and math.isfinite(noise_multiplier)):
        raise ValueError(f"noise_multiplier must be a finite number > 0, got {noise_multiplier}")
    if not 0 < delta < 1:
        raise ValueError(f"delta must be in (0, 1), got {delta}")
    if n_rounds != int(n_rounds) or n_rounds < 1:
        raise ValueError(f"{rounds} must be a whole number >= 1, got {n_rounds}")


def _check_rate(sample_rate: float) -> None:
    if not 0 < sample_rate <= 1:
        raise ValueError(f"sample_rate must be in (0, 1], got {sample_rate}")


def _check_batch_size(batch_size: int, n_records: int) -> None:
    if batch_size != int(batch_size) or not 1 <= batch_size <= n_records:
        raise ValueError(
            f"batch_size must be a whole number from 1 to n_records {n_records}, got {batch_size}"
        )


def _relation(neighbouring: str, microbatch_size: int, *, accepted: tuple[str, ...]) -> str:
    if neighbouring not in accepted:
        raise ValueError(f"neighbouring must be one of {accepted}, got {neighbouring!r}")
    if microbatch_size < 1:
        raise ValueError(f"microbatch_size must be >= 1, got {microbatch_size}")
    return neighbouring if microbatch_size == 1 else "replace_one"
