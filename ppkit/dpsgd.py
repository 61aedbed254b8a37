"""DP-SGD with Gaussian noise: what a participant would upload today, the optimiser that does it,
and what each way to draw batches costs.

    batches                        priced by                   neighbours
    Poisson: every record alone    epsilon_for                 add/remove, replace-one
    fixed_batch: a fixed number    epsilon_for_fixed_batches   replace-one (that number is public)
    epochs: shuffled, then cut     epsilon_for_epochs          replace-one, zero-out; no gain from
                                                               the shuffling is claimed
    random allocation: a batch     epsilon_for_random_         add/remove, replace-one
    of its own for every record,   allocation
    anew in each epoch

The record of kanodia2020 and lesson 02b train on fixed_batch, and price its steps in several ways,
beside what an attacker attains.
One record moves the clipped sum by C when it comes or goes, by 2C when it is replaced. In a
microbatch of k > 1 records it moves their mean gradient anywhere: clipped, from one end of the ball
of radius C to the other. So 2C, whatever k and whichever relation; the same noise protects
microbatches less, at equal noise_multiplier, and averages no more of it away.
Accounting is by dp_accounting's privacy loss distributions (PLD). Their discretisation rounds the
loss up, so every epsilon here is an upper bound.
"""

import math
from dataclasses import dataclass
from functools import cache

import dp_accounting
import numpy as np
import torch
from dp_accounting import pld
from dp_accounting.pld import pld_pmf, privacy_loss_mechanism
from scipy import fft, optimize
from scipy.special import ndtr, ndtri
from torch import nn

from ppkit import gradients
from ppkit.models import n_parameters
from ppkit.refusals import must_be, one_of


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
        must_be("a finite number >= 0", noise_multiplier=self.noise_multiplier)
        must_be("> 0", max_grad_norm=self.max_grad_norm)

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


class DPOptimizer:
    """A torch optimiser that only ever sees clipped, averaged and noised gradients.

    optimizer: any torch.optim optimiser whose step needs no closure, over all parameters of a model
    that `gradients.capture` takes.
    l2_norm_clip: C > 0; math.inf bounds nothing and allows no noise.  noise_multiplier: noise over
    C, >= 0; 0 gives no privacy.  num_microbatches: M, a divisor of the batch; None takes every
    record for itself.
    rng: torch.Generator of the noise, on the parameters' device; no source for real secrets.
    Batches are of a fixed size, which is public.  (`DPSGD` is for Poisson batches.)
    ValueError for a setting out of range.
    Guarantee: `epsilon_for` and its two neighbours, by the sampling that ran; floating point
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
        the batch, the parameters are others, or a gradient is not finite.
        """
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
            noise = torch.empty_like(flat).normal_(generator=self.rng)
            flat.add_(noise, alpha=self.noise_multiplier * self.l2_norm_clip / divisor)
        for p, part in zip(parameters, flat.split([p.numel() for p in parameters])):
            p.grad = part.view(p.shape)


def fixed_batch(n_records: int, *, batch_size: int, rng: torch.Generator) -> torch.Tensor:
    """batch_size of n_records rows without replacement, all subsets alike, in random order: int64
    indices.

    ValueError unless 1 <= batch_size <= n_records.  Guarantee: `epsilon_for_fixed_batches`.
    """
    _check_batch_size(batch_size, n_records)
    return torch.randperm(n_records, generator=rng)[:batch_size].clone()  # without the others


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
    _check_budget(noise_multiplier, delta, n_rounds=n_rounds)
    must_be("in (0, 1]", sample_rate=sample_rate)
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
    """Total epsilon of n_rounds uploads, each on batch_size
    of n_records drawn anew without replacement.

    delta_1(eps) = q delta_G(ln(1 + (e^eps - 1) / q)) for eps >= 0,    q = batch_size / n_records,

    delta_G the Gaussian's at sensitivity 2C; replace-one is symmetric, which gives eps < 0,
    and dp_accounting composes.
    noise_multiplier: > 0.  delta: in (0, 1).  1 <= batch_size <= n_records, both public.
    n_rounds: >= 1.
    discretisation: as in `epsilon_for`.  Returns epsilon >= 0.
    ValueError if an argument is out of range.
    Guarantee: (epsilon, delta)-DP, replace-one, microbatches of any size.
    Source: Balle, Barthe and Gaboardi 2018, Theorem 9; composed as a dominating pair
    (Zhu, Dong and Wang 2022).
    Departs from dp_accounting's RdpAccountant: it is looser, and under REPLACE_ONE it takes the
    sensitivity for C, so that it has to be given noise_multiplier / 2.

    >>> round(
    ...     epsilon_for_fixed_batches(2.0, delta=1e-6, n_records=1000, batch_size=10, n_rounds=100),
    ...     2,
    ... )
    1.0
    """
    _check_budget(noise_multiplier, delta, n_rounds=n_rounds)
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
    return float(
        pld.privacy_loss_distribution.PrivacyLossDistribution(one)
        .self_compose(int(n_rounds))
        .get_epsilon_for_delta(delta)
    )


def epsilon_for_epochs(
    noise_multiplier: float,
    *,
    delta: float,
    n_epochs: int,
    neighbouring: str = "replace_one",
    microbatch_size: int = 1,
) -> float:
    """Total epsilon of n_epochs passes over shuffled batches,
    which TensorFlow Privacy's tutorials run.

    A record is in at most one batch an epoch, so this is the Gaussian mechanism at
    noise_multiplier / sqrt(n_epochs) (over 2 where one record moves 2C), whatever the batch size,
    and even if the order is known.
    noise_multiplier: > 0.  delta: in (0, 1).  n_epochs: >= 1, a part of an epoch counted whole.
    neighbouring: "replace_one", or "zero_out": the record's gradient is replaced by 0 and its place
    kept (add/remove would move all records behind it into other batches).  microbatch_size: k >= 1;
    above 1 both cost the same.
    Returns epsilon >= 0, exact for the Gaussian mechanism.
    ValueError if an argument is out of range.
    Guarantee: (epsilon, delta)-DP.  The tutorials price these batches as Poisson ones, which can be
    far below what an attacker attains (Chua et al. 2024);
    what shuffling does gain is not claimed here.
    Source: dp_accounting.get_epsilon_gaussian (Balle and Wang 2018).

    >>> round(epsilon_for_epochs(2.0, delta=1e-6, n_epochs=1, neighbouring="zero_out"), 2)
    2.25
    """
    _check_budget(noise_multiplier, delta, n_epochs=n_epochs)
    relation = _relation(neighbouring, microbatch_size, accepted=("replace_one", "zero_out"))
    sensitivity = 2 if relation == "replace_one" else 1
    return float(
        dp_accounting.get_epsilon_gaussian(
            noise_multiplier / (sensitivity * math.sqrt(n_epochs)), delta
        )
    )


def epsilon_for_random_allocation(
    noise_multiplier: float,
    *,
    delta: float,
    n_batches: int,
    n_epochs: int,
    neighbouring: str = "add_remove",
    discretisation: float = 1e-3,
) -> float:
    """Total epsilon of n_epochs epochs in which every record takes part in one batch of n_batches.

    Each record draws its batch for itself, uniformly, and anew in every epoch.

        P = mean_i N(e_i, s^2 I),   Q = N(0, s^2 I),   P / Q = mean_i W_i,
        W_i = exp((2 x_i - 1) / (2 s^2)),   i = 1 ... n_batches,   s = noise_multiplier

    noise_multiplier: > 0.  delta: in (0, 1).  n_batches: batches an epoch, >= 1.  n_epochs: >= 1, a
    part of an epoch counted whole.
    neighbouring: "add_remove" (zero-out costs the same), or "replace_one".
    discretisation: as in `epsilon_for`.
    Returns epsilon >= 0, never above `epsilon_for_epochs`.  ValueError if an argument is out of
    range.
    Guarantee: (epsilon, delta)-DP, microbatches of one record, sums divided by a public number;
    tight for add/remove with noise multipliers from .5 and ten batches on, or from 1 with fewer;
    loose for replace-one.
    Why. (1) P and Q dominate an epoch: given what was sent before, a gradient of length c <= 1 in
    any direction turns x_i into c x_i + sqrt(1 - c^2) s z, z of N(0, 1), along that direction, so
    the transcript with the record comes from P and without it from Q, by the same steps.
    (2) P / Q is a mean of independent W_i. Each is split between two points of a grid with its mean
    kept. By Jensen's inequality the rounded pair is told apart at least as well, in both
    directions. What lies above the grid counts as seen for certain.
    (3) A replaced record is one that goes and one that comes:
    delta(a + b) <= delta_PQ(a) + e^a delta_QP(b), over all epochs.
    Source: the scheme as in Feldman and Shenfeld 2025, with whose bounds the tests compare; (1) to
    (3) are ours.

    >>> round(epsilon_for_random_allocation(1.1, delta=1e-5, n_batches=50, n_epochs=4), 2)
    1.32
    """
    _check_budget(noise_multiplier, delta, n_batches=n_batches, n_epochs=n_epochs)
    one_of(("add_remove", "replace_one"), neighbouring=neighbouring)
    forth, back = (
        pld.privacy_loss_distribution.PrivacyLossDistribution(one)
        .self_compose(int(n_epochs))
        .get_epsilon_for_delta
        for one in _allocation_losses(noise_multiplier, n_batches, delta / n_epochs, discretisation)
    )
    if neighbouring == "add_remove":
        found, known = max(forth(delta), back(delta)), "zero_out"
    else:
        parts = delta * np.linspace(0.05, 0.95, 19)
        first = [forth(part) for part in parts]
        left = (delta - parts) * np.exp(-np.array(first))
        found, known = min(a + back(rest) for a, rest in zip(first, left)), "replace_one"
    return min(
        float(found),
        epsilon_for_epochs(noise_multiplier, delta=delta, n_epochs=n_epochs, neighbouring=known),
    )


def _allocation_losses(s: float, n_batches: int, tail: float, discretisation: float):
    """Upper bounds on the privacy loss of one epoch of random allocation: P to Q, Q to P."""
    top = math.exp(-ndtri(tail / 1_000) / s + 1 / (2 * s * s))
    grid = np.linspace(0, top + 2 * n_batches, 2**19)
    edges = grid[: np.searchsorted(grid, top, side="right")]
    with np.errstate(divide="ignore"):
        z = s * np.log(edges)
    mass, mean = (np.diff(ndtr(z + by / (2 * s))) for by in (1, -1))  # of W under Q, by cell
    right = np.clip(mean / grid[1] - np.arange(len(mass)) * mass, 0, mass)
    one = np.append(mass - right, 0) + np.append(0, right)
    size = fft.next_fast_len(2 * len(grid), real=True)

    def added(a, b):  # the law of a sum; what exceeds the grid is dropped
        return fft.irfft(fft.rfft(a, size) * fft.rfft(b, size), size)[: len(grid)].clip(0)

    others, power, left = np.ones(1), one, n_batches - 1
    while left:
        others = added(others, power) if left % 2 else others
        power, left = added(power, power), left // 2
    ratio, q, p = grid / n_batches, added(others, one), added(others, one * edges)
    q = np.where(ratio > 1, p / np.maximum(ratio, 1), q)  # each where it is the more exact
    p = np.where(ratio > 1, p, q * ratio)
    q[0] += max(0.0, 1 - q.sum())
    n_points = math.ceil(math.log(ratio[-1]) / discretisation)
    e = np.exp(np.arange(-n_points, n_points + 1) * discretisation)
    high, low = np.searchsorted(ratio, e), np.searchsorted(ratio, 1 / e)
    p_from, q_from = (np.append(np.cumsum(part[::-1])[::-1], 0) for part in (p, q))
    p_to, q_to = (np.append(0, np.cumsum(part)) for part in (p, q))
    forth = max(0.0, 1 - p_to[-1]) + p_from[high] - e * q_from[high]
    back = q_to[low] - e * p_to[low]
    for deltas in (forth, back):
        yield pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
            discretisation, -n_points, n_points, np.minimum.accumulate(np.clip(deltas, 0, 1))
        )


def noise_multiplier_for(
    epsilon: float, *, delta: float, sample_rate: float, n_rounds: int
) -> float:
    """The smallest noise multiplier, to one part in a thousand, whose n_rounds uploads cost at most
    epsilon.

    epsilon: > 0.  delta, sample_rate, n_rounds: as in `epsilon_for`, of which this is the inverse.
    Returns a noise multiplier > 0 that meets the budget (Brent's method; the side that holds is
    returned).
    ValueError if an argument is out of range.
    Guarantee: epsilon_for(result) <= epsilon.

    >>> sigma = noise_multiplier_for(8.0, delta=2**-30, sample_rate=0.01, n_rounds=1000)
    >>> 7.9 < epsilon_for(sigma, delta=2**-30, sample_rate=0.01, n_rounds=1000) <= 8.0
    True
    """
    must_be("a finite number > 0", epsilon=epsilon)

    @cache
    def excess(doublings: float) -> float:
        about = dict(delta=delta, sample_rate=sample_rate, n_rounds=n_rounds)
        grid = min(max(1e-4, 2e-4 * epsilon), 1e-2)  # within .2% of the default, 20 times faster
        return epsilon_for(2.0**doublings, discretisation=grid, **about) / epsilon - 1

    high = 4.0  # much noise is cheap to account for, little noise is not: come from above
    while excess(high) > 0:
        high += 1
    low = high - 1
    while excess(low) <= 0:
        low, high = low - 1, low
    found = optimize.brentq(excess, low, high, xtol=5e-4)  # 5e-4 doublings are .035%
    while excess(found) > 0:
        found += 2e-4
    return 2.0**found


def _check_budget(noise_multiplier: float, delta: float, **times: int) -> None:
    must_be("a finite number > 0", noise_multiplier=noise_multiplier)
    must_be("in (0, 1)", delta=delta)
    must_be("a whole number >= 1", **times)


def _check_batch_size(batch_size: int, n_records: int) -> None:
    if batch_size != int(batch_size) or not 1 <= batch_size <= n_records:
        raise ValueError(
            f"batch_size must be a whole number from 1 to n_records {n_records}, got {batch_size}"
        )


def _relation(neighbouring: str, microbatch_size: int, *, accepted: tuple[str, ...]) -> str:
    one_of(accepted, neighbouring=neighbouring)
    must_be("a whole number >= 1", microbatch_size=microbatch_size)
    return neighbouring if microbatch_size == 1 else "replace_one"
