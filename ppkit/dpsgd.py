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
Every epsilon is an upper bound: the smallest that we can prove, by one of

    PLD                   the privacy loss of all rounds, on a grid that follows the budget
    RDP                   moments of one round, added up
    Gaussian              the record in every batch
    batches seen          the attacker also sees in which batches the record was
    rounds one by one     the closed form of one round, with delta / n_rounds each
    known order           the attacker also sees which batch of its epoch was the record's

`budget_for` and its neighbours say which one it was; `epsilon_for` and its neighbours are their
epsilons.
The guarantees hold for noise over the real numbers. Noise from torch is a double that never passes
8.57 standard deviations (numpy's 13.7), so a step gives away Phi(m / noise_multiplier - 8.57) of
delta that no epsilon covers, m = 1 where a record moves C and 2 where it moves 2C: 2e-14 a step
that it takes part in, at noise multiplier 1 and m = 1. Add it to delta where delta is as small.
What the last bits of a float give away (Mironov 2012) is not covered at all.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import dp_accounting
import numpy as np
import torch
from dp_accounting import pld
from dp_accounting.pld import pld_pmf
from scipy import fft, optimize, stats
from scipy.special import log_ndtr, ndtr, ndtri
from torch import nn

from ppkit import accounting, gradients, privacy_loss
from ppkit.accounting import Budget
from ppkit.models import n_parameters
from ppkit.refusals import must_be, one_of

NOISE = (1e-3, 1e9)  # what is priced: noise multipliers
LEAST_DELTA, LEAST_RATE = 1e-100, 1e-12
MOST_TIMES = 10**7  # rounds, epochs, batches an epoch
MOST_RECORDS = 10**9
EPSILONS = (1e-4, 1e5)  # for which noise is sought


@dataclass(frozen=True)
class DPSGD:
    """The upload of one DP-SGD round: the clipped sum plus Gaussian noise, over the expected batch.

    (sum_i g_i min(1, C / ||g_i||) + N(0, (noise_multiplier C)^2 I)) / (q N)

    noise_multiplier: noise over max_grad_norm, >= 0; 0 gives no privacy.  max_grad_norm: C > 0.
    Called with a model, a Poisson sample X (m, F), y (m,) that may be empty, the sample's expected
    size q N, finite, > 0, and a generator; returns a flat float tensor (P,).  ValueError if a
    setting is out of range, or the sample does not fit the model.
    Guarantee: `epsilon_for` (Poisson sampling, add/remove).  The divisor is the expected batch
    because the realised one is private; N is taken as public and equal for both neighbours.
    Noise is drawn in float64, added and then rounded to X's type; the module says what is left.
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
        must_be("a finite number > 0", expected_batch=expected_batch)
        gradients.check_sample(model, X, y)
        size = n_parameters(model)
        total = torch.zeros(size, dtype=X.dtype)
        if len(X):
            total += gradients.clipped_sum(model, X, y, max_grad_norm=self.max_grad_norm)
        if self.noise_multiplier:
            noise = torch.from_numpy(rng.standard_normal(size))  # doubles: floats end at 5.8
            total.add_(noise, alpha=self.noise_multiplier * self.max_grad_norm)
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
    Guarantee: `epsilon_for` and its neighbours, by the sampling that ran.
    Noise is drawn in float64, added and then rounded to the parameters' type: torch's float32
    normals end at 5.77 standard deviations, float64 ones at 8.57. The module says what is left.
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
            noise = torch.empty_like(flat, dtype=torch.float64).normal_(generator=self.rng)
            flat.add_(noise, alpha=self.noise_multiplier * self.l2_norm_clip / divisor)
        for p, part in zip(parameters, flat.split([p.numel() for p in parameters])):
            p.grad = part.view(p.shape)


def fixed_batch(n_records: int, *, batch_size: int, rng: torch.Generator) -> torch.Tensor:
    """batch_size of n_records rows without replacement, all subsets alike, in random order: int64
    indices.

    ValueError unless 1 <= batch_size <= n_records <= 10^9.  Guarantee: `epsilon_for_fixed_batches`.
    """
    _check_batch_size(batch_size, n_records)
    return torch.randperm(n_records, generator=rng)[:batch_size].clone()  # without the others


def budget_for(
    noise_multiplier: float,
    *,
    delta: float,
    sample_rate: float,
    n_rounds: int,
    neighbouring: str = "add_remove",
    microbatch_size: int = 1,
) -> Budget:
    """What n_rounds DP-SGD uploads of one participant cost, each on a Poisson batch: the smallest
    epsilon of all bounds, and the name of the bound.

    noise_multiplier: .001 to 1e9.  delta: from 1e-100, below 1.  sample_rate: 1e-12 to 1.
    n_rounds: uploads of this participant, 1 to 10^7.
    neighbouring: "add_remove" or "replace_one".  microbatch_size: k >= 1; above 1 both relations
    cost what "replace_one" costs, for then a record moves a sampled microbatch from +C to -C and
    leaves the others.
    Returns a Budget, epsilon >= 0.  ValueError if an argument is out of range.
    Guarantee: (epsilon, delta)-DP, Poisson sampling; add/remove within a fixed grouping if
    microbatch_size > 1.  Above the exact epsilon by no more than noise smaller by one part in a
    thousand would cost, for noise multipliers from .001, rates from 1e-5, up to 10^6 rounds,
    delta from 2^-128 to .1 and an epsilon of 1e-4 to 1e3.
    Source: PLD, `ppkit.privacy_loss`.  RDP, `accounting.sampled_log_moments`.  Gaussian, Balle and
    Wang 2018.  One round, Balle, Barthe and Gaboardi 2018, Theorem 8.

    >>> budget_for(1.0, delta=2**-60, sample_rate=0.01, n_rounds=100).bound
    'PLD'
    """
    _check_budget(noise_multiplier, delta, n_rounds=n_rounds)
    _check_rate(sample_rate)
    relation = _relation(neighbouring, microbatch_size, accepted=("add_remove", "replace_one"))
    return _poisson(noise_multiplier, delta, sample_rate, int(n_rounds), relation)


def epsilon_for(
    noise_multiplier: float,
    *,
    delta: float,
    sample_rate: float,
    n_rounds: int,
    neighbouring: str = "add_remove",
    microbatch_size: int = 1,
) -> float:
    """The epsilon of `budget_for`; arguments, errors and guarantee as there.

    >>> round(epsilon_for(1.0, delta=2**-30, sample_rate=0.01, n_rounds=100), 2)
    1.85
    """
    return budget_for(
        noise_multiplier,
        delta=delta,
        sample_rate=sample_rate,
        n_rounds=n_rounds,
        neighbouring=neighbouring,
        microbatch_size=microbatch_size,
    ).epsilon


def budget_for_fixed_batches(
    noise_multiplier: float, *, delta: float, n_records: int, batch_size: int, n_rounds: int
) -> Budget:
    """What n_rounds uploads cost, each on batch_size of n_records drawn anew without replacement:
    the smallest epsilon of all bounds, and the name of the bound.

    delta_1(eps) = q delta_G(ln(1 + (e^eps - 1) / q)) for eps >= 0,    q = batch_size / n_records,

    delta_G the Gaussian's at sensitivity 2C; replace-one is symmetric, which gives eps < 0.
    noise_multiplier, delta, n_rounds: as in `budget_for`.
    1 <= batch_size <= n_records <= 10^9, both public.
    Returns a Budget, epsilon >= 0.  ValueError if an argument is out of range.
    Guarantee: (epsilon, delta)-DP, replace-one, microbatches of any size; as near to the exact
    epsilon of this pair as `budget_for`.
    Source: Balle, Barthe and Gaboardi 2018, Theorem 9; composed as a dominating pair
    (Zhu, Dong and Wang 2022).
    Departs from dp_accounting's RdpAccountant: it is looser, and under REPLACE_ONE it takes the
    sensitivity for C, so that it has to be given noise_multiplier / 2.
    """
    _check_budget(noise_multiplier, delta, n_rounds=n_rounds)
    _check_batch_size(batch_size, n_records)
    rate, n_rounds = batch_size / n_records, int(n_rounds)
    found = _closed_forms(noise_multiplier / 2, rate, n_rounds, delta)
    if rate < 1 and _smallest(found).epsilon > 0:
        pair = privacy_loss.SampledGaussian(noise_multiplier / 2, rate)
        epsilon = privacy_loss.epsilon(pair, "both", delta=delta, n_rounds=n_rounds)
        found.append(Budget(epsilon, delta, "PLD"))
    return _smallest(found)


def epsilon_for_fixed_batches(
    noise_multiplier: float, *, delta: float, n_records: int, batch_size: int, n_rounds: int
) -> float:
    """The epsilon of `budget_for_fixed_batches`; arguments, errors and guarantee as there.

    >>> round(
    ...     epsilon_for_fixed_batches(2.0, delta=1e-6, n_records=1000, batch_size=10, n_rounds=100),
    ...     2,
    ... )
    1.0
    """
    return budget_for_fixed_batches(
        noise_multiplier, delta=delta, n_records=n_records, batch_size=batch_size, n_rounds=n_rounds
    ).epsilon


def budget_for_epochs(
    noise_multiplier: float,
    *,
    delta: float,
    n_epochs: int,
    neighbouring: str = "replace_one",
    microbatch_size: int = 1,
) -> Budget:
    """What n_epochs passes over shuffled batches cost, which TensorFlow Privacy's tutorials run.

    A record is in at most one batch an epoch, so this is the Gaussian mechanism at
    noise_multiplier / sqrt(n_epochs) (over 2 where one record moves 2C), whatever the batch size,
    and even if the order is known.
    noise_multiplier, delta: as in `budget_for`.  n_epochs: 1 to 10^7, a part of an epoch counted
    whole.
    neighbouring: "replace_one", or "zero_out": the record's gradient is replaced by 0 and its place
    kept (add/remove would move all records behind it into other batches).  microbatch_size: k >= 1;
    above 1 both cost the same.
    Returns a Budget, epsilon >= 0, exact for the Gaussian mechanism; its bound is "known order".
    ValueError if an argument is out of range.
    Guarantee: (epsilon, delta)-DP.  The tutorials price these batches as Poisson ones, which can be
    far below what an attacker attains (Chua et al. 2024);
    what shuffling does gain is not claimed here.
    Source: dp_accounting.get_epsilon_gaussian (Balle and Wang 2018).
    """
    _check_budget(noise_multiplier, delta, n_epochs=n_epochs)
    relation = _relation(neighbouring, microbatch_size, accepted=("replace_one", "zero_out"))
    sensitivity = 2 if relation == "replace_one" else 1
    epsilon = _gaussian_epsilon(noise_multiplier / (sensitivity * math.sqrt(n_epochs)), delta)
    return Budget(epsilon, delta, "known order")


def epsilon_for_epochs(
    noise_multiplier: float,
    *,
    delta: float,
    n_epochs: int,
    neighbouring: str = "replace_one",
    microbatch_size: int = 1,
) -> float:
    """The epsilon of `budget_for_epochs`; arguments, errors and guarantee as there.

    >>> round(epsilon_for_epochs(2.0, delta=1e-6, n_epochs=1, neighbouring="zero_out"), 2)
    2.25
    """
    return budget_for_epochs(
        noise_multiplier,
        delta=delta,
        n_epochs=n_epochs,
        neighbouring=neighbouring,
        microbatch_size=microbatch_size,
    ).epsilon


def budget_for_random_allocation(
    noise_multiplier: float,
    *,
    delta: float,
    n_batches: int,
    n_epochs: int,
    neighbouring: str = "add_remove",
) -> Budget:
    """What n_epochs epochs cost in which every record takes part in one batch of n_batches.

    Each record draws its batch for itself, uniformly, and anew in every epoch.

        P = mean_i N(e_i, s^2 I),   Q = N(0, s^2 I),   P / Q = mean_i W_i,
        W_i = exp((2 x_i - 1) / (2 s^2)),   i = 1 ... n_batches,   s = noise_multiplier

    noise_multiplier, delta: as in `budget_for`.  n_batches: batches an epoch, 1 to 10^7.
    n_epochs: 1 to 10^7, a part of an epoch counted whole.
    neighbouring: "add_remove" (zero-out costs the same), or "replace_one".
    Returns a Budget, epsilon >= 0, never above `epsilon_for_epochs`, whose "known order" it is
    where the PLD says nothing better: below a delta of 1e-10, with very many batches, and with
    little noise.  ValueError if an argument is out of range.
    Guarantee: (epsilon, delta)-DP, microbatches of one record, sums divided by a public number;
    add/remove within 2% of what others bracket with noise multipliers from .5 and ten batches on,
    or from 1 with fewer, for a delta of 1e-7 or more; loose for replace-one.  It is not always
    below the Poisson price, nor above it.
    Why. (1) P and Q dominate an epoch: given what was sent before, a gradient of length c <= 1 in
    any direction turns x_i into c x_i + sqrt(1 - c^2) s z, z of N(0, 1), along that direction, so
    the transcript with the record comes from P and without it from Q, by the same steps.
    (2) P / Q is a mean of independent W_i. Each is split between two points of a grid with its mean
    kept. By Jensen's inequality the rounded pair is told apart at least as well, in both
    directions. For P to Q, what lies above the grid counts as seen for certain. For Q to P,
    E_Q (1 - e^eps P / Q)+ only grows if a W_i above the grid is taken for the grid's end.
    (3) A replaced record is one that goes and one that comes:
    delta(a + b) <= delta_PQ(a) + e^a delta_QP(b), over all epochs.
    Source: the scheme as in Feldman and Shenfeld 2025, with whose bounds the tests compare; (1) to
    (3) are ours.
    """
    _check_budget(noise_multiplier, delta, n_batches=n_batches, n_epochs=n_epochs)
    one_of(("add_remove", "replace_one"), neighbouring=neighbouring)
    known = "zero_out" if neighbouring == "add_remove" else "replace_one"
    found = [
        budget_for_epochs(noise_multiplier, delta=delta, n_epochs=n_epochs, neighbouring=known)
    ]
    if delta >= 1e-10 and noise_multiplier >= 0.1:
        epsilon = _allocation_epsilon(noise_multiplier, delta, n_batches, n_epochs, neighbouring)
        found.append(Budget(epsilon, delta, "PLD"))
    return _smallest(found)


def epsilon_for_random_allocation(
    noise_multiplier: float,
    *,
    delta: float,
    n_batches: int,
    n_epochs: int,
    neighbouring: str = "add_remove",
) -> float:
    """The epsilon of `budget_for_random_allocation`; arguments, errors and guarantee as there.

    >>> round(epsilon_for_random_allocation(1.1, delta=1e-5, n_batches=50, n_epochs=4), 2)
    1.32
    """
    return budget_for_random_allocation(
        noise_multiplier,
        delta=delta,
        n_batches=n_batches,
        n_epochs=n_epochs,
        neighbouring=neighbouring,
    ).epsilon


def _allocation_epsilon(s, delta, n_batches, n_epochs, neighbouring) -> float:
    forth, back = (
        pld.privacy_loss_distribution.PrivacyLossDistribution(one)
        .self_compose(int(n_epochs))
        .get_epsilon_for_delta
        for one in _allocation_losses(s, int(n_batches), delta / n_epochs)
    )
    if neighbouring == "add_remove":
        return float(max(forth(delta), back(delta)))
    parts = delta * np.linspace(0.05, 0.95, 19)
    first = [forth(part) for part in parts]
    left = (delta - parts) * np.exp(-np.array(first))
    return float(min(a + back(rest) for a, rest in zip(first, left)))


def _allocation_losses(s: float, n_batches: int, tail: float, step: float = 1e-3):
    """Upper bounds on the privacy loss of one epoch of random allocation: P to Q, Q to P."""
    for direction in ("forth", "back"):
        # the share of P above the grid: lost for "forth", taken for the grid's end for "back"
        above = tail / 1_000 if direction == "forth" else 1e-4 if s >= 0.5 else 1e-2
        ratio, p, q = _allocation_ratio(s, n_batches, above, capped=direction == "back")
        widest = math.log(ratio[-1]) if direction == "forth" else -math.log(ratio[1])
        n_points = max(1, math.ceil(widest / step))  # 1: a grid too coarse for any loss
        e = np.exp(np.arange(-n_points, n_points + 1) * step)
        if direction == "forth":
            at = np.searchsorted(ratio, e)
            p_from, q_from = (np.append(np.cumsum(part[::-1])[::-1], 0) for part in (p, q))
            deltas = max(0.0, 1 - p.sum()) + p_from[at] - e * q_from[at]
        else:
            at = np.searchsorted(ratio, 1 / e)
            p_to, q_to = (np.append(0, np.cumsum(part)) for part in (p, q))
            deltas = q_to[at] - e * p_to[at]
        yield pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
            step, -n_points, n_points, np.minimum.accumulate(np.clip(deltas, 0, 1))
        )


def _allocation_ratio(s: float, n_batches: int, above: float, *, capped: bool):
    """Points of P / Q, and their masses under P and under Q.

    above: share of P that has a W beyond the grid's end.  capped: such a W counts as the end.
    """
    top = math.exp(-ndtri(above) / s + 1 / (2 * s * s))
    grid = np.linspace(0, top + 2 * n_batches, 2**19)
    edges = grid[: np.searchsorted(grid, top, side="right")]
    with np.errstate(divide="ignore"):
        z = s * np.log(edges)
    mass, mean = (np.diff(ndtr(z + by / (2 * s))) for by in (1, -1))  # of W under Q, by cell
    right = np.clip(mean / grid[1] - np.arange(len(mass)) * mass, 0, mass)
    one = np.append(mass - right, 0) + np.append(0, right)
    if capped:
        one[-1] += ndtr(-z[-1] - 1 / (2 * s))
    size = fft.next_fast_len(2 * len(grid), real=True)

    def added(a, b):  # the law of a sum; what exceeds the grid is dropped
        return fft.irfft(fft.rfft(a, size) * fft.rfft(b, size), size)[: len(grid)].clip(0)

    others, power, left = np.ones(1), one, n_batches - 1
    while left:
        others = added(others, power) if left % 2 else others
        left //= 2
        power = added(power, power) if left else power
    ratio, q, p = grid / n_batches, added(others, one), added(others, one * edges)
    q = np.where(ratio > 1, p / np.maximum(ratio, 1), q)  # each where it is the more exact
    p = np.where(ratio > 1, p, q * ratio)
    q[-1 if capped else 0] += max(0.0, 1 - q.sum())
    return ratio, p, q


def noise_multiplier_for(
    epsilon: float, *, delta: float, sample_rate: float, n_rounds: int
) -> float:
    """The smallest noise multiplier, to one part in a thousand, whose n_rounds uploads cost at most
    epsilon.

    epsilon: 1e-4 to 1e5.  delta, sample_rate, n_rounds: as in `epsilon_for`, of which this is the
    inverse.
    Returns a noise multiplier > 0 that meets the budget.
    ValueError if an argument is out of range, or if the record is sampled at all with a chance of
    at most delta: then the budget holds without noise, and protects no record that is sampled.
    Guarantee: epsilon_for(result) <= epsilon < epsilon_for(.999 result).

    >>> sigma = noise_multiplier_for(8.0, delta=2**-30, sample_rate=0.01, n_rounds=1000)
    >>> 7.9 < epsilon_for(sigma, delta=2**-30, sample_rate=0.01, n_rounds=1000) <= 8.0
    True
    """
    must_be("a finite number > 0", epsilon=epsilon)
    if not EPSILONS[0] <= epsilon <= EPSILONS[1]:
        raise ValueError(f"epsilon must be from {EPSILONS[0]} to {EPSILONS[1]:g}, got {epsilon}")
    _check_budget(1.0, delta, n_rounds=n_rounds)
    _check_rate(sample_rate)
    sampled = _chance_of_any(sample_rate, n_rounds)
    if delta >= sampled:
        raise ValueError(
            f"delta must be below {sampled:g}, the chance that a record is sampled at all, got "
            f"{delta:g}: this budget holds without any noise"
        )

    n_rounds = int(n_rounds)

    @functools.cache
    def excess(log_noise: float, accuracy: float) -> float:
        noise = math.exp(log_noise)
        spent = _poisson(noise, delta, sample_rate, n_rounds, "add_remove", accuracy).epsilon
        return math.log(max(spent, epsilon / 100) / epsilon)

    def closed_form_excess(log_noise: float) -> float:
        found = _closed_forms(math.exp(log_noise), sample_rate, n_rounds, delta)
        return math.log(max(_smallest(found).epsilon, epsilon / 100) / epsilon)

    # with the record in every batch the inverse is a closed form, and enough noise
    with np.errstate(divide="ignore"):
        enough = dp_accounting.get_sigma_gaussian(epsilon, delta) * math.sqrt(n_rounds)
    _, high = _bracket(closed_form_excess, math.log(enough) + 1e-6)
    high = optimize.brentq(closed_form_excess, *_bracket(closed_form_excess, high), xtol=1e-3)
    coarse = functools.partial(excess, accuracy=5e-3)
    rough = optimize.brentq(coarse, *_bracket(coarse, high + 2e-3), xtol=2e-3)
    slope = min((coarse(rough + 0.01) - coarse(rough - 0.01)) / 0.02, -0.5)
    fine = functools.partial(excess, accuracy=privacy_loss.ACCURACY)
    return math.exp(_narrow(fine, rough, slope))


def _bracket(falling: Callable[[float], float], high: float) -> tuple[float, float]:
    """An interval with falling(low) > 0 >= falling(high), sought from `high` in growing strides."""
    stride = 0.125
    while falling(high) > 0:
        high, stride = high + stride, 2 * stride
    low, stride = high - stride, 2 * stride
    while falling(low) <= 0:
        low, high, stride = low - stride, low, 2 * stride
    return low, high


def _narrow(falling: Callable[[float], float], at: float, slope: float) -> float:
    """The upper end of an interval of at most 7e-4 with falling(low) > 0 >= falling(high).

    By few calls, from a point near the root: it aims at either side of where the root should be.
    """
    low, high, aside = -math.inf, math.inf, 3e-4
    while high - low > 7e-4:
        gap = falling(at)
        low, high = (at, high) if gap > 0 else (low, at)
        root = at - gap / slope
        at = root - aside if gap <= 0 else root + aside
        if not low < at < high:
            at = (low + high) / 2
        aside *= 1.5
    return high


def _poisson(
    noise_multiplier: float,
    delta: float,
    sample_rate: float,
    n_rounds: int,
    neighbouring: str,
    accuracy: float = privacy_loss.ACCURACY,
) -> Budget:
    replaced = neighbouring == "replace_one"
    moved = 2 if replaced else 1
    found = _closed_forms(noise_multiplier / moved, sample_rate, n_rounds, delta)
    if sample_rate < 1:
        curve = lambda orders: orders / (2 * noise_multiplier**2)
        moments = accounting.sampled_log_moments(curve, sample_rate, neighbouring)
        epsilon = accounting.sampled_epsilon(moments, delta, n_rounds)
        found.append(Budget(epsilon, delta, "RDP"))
    if sample_rate < 1 and _smallest(found).epsilon > 0:
        pair = privacy_loss.SampledGaussian(noise_multiplier, sample_rate, replaced)
        epsilon = privacy_loss.both_ways(pair, delta=delta, n_rounds=n_rounds, accuracy=accuracy)
        found.append(Budget(epsilon, delta, "PLD"))
    return _smallest(found)


def _closed_forms(noise: float, rate: float, n_rounds: int, delta: float) -> list[Budget]:
    """Bounds on n_rounds rounds of Gaussian noise, `noise` deviations for what a record moves."""
    found = [Budget(_gaussian_epsilon(noise / math.sqrt(n_rounds), delta), delta, "Gaussian")]
    if rate < 1:
        found += [
            Budget(_seen_epsilon(noise, rate, n_rounds, delta), delta, "batches seen"),
            Budget(_one_by_one(noise, rate, n_rounds, delta), delta, "rounds one by one"),
        ]
    return found


def _gaussian_epsilon(noise: float, delta: float) -> float:
    with np.errstate(divide="ignore"):  # two equal cdfs while it searches
        return float(dp_accounting.get_epsilon_gaussian(noise, delta))


def _one_by_one(noise: float, rate: float, n_rounds: int, delta: float) -> float:
    """n_rounds times ln(1 + q (e^eps - 1)), where one unsampled round is (eps, delta / (q T))."""
    each = delta / n_rounds / rate
    if each >= 1:
        return 0.0
    whole = _gaussian_epsilon(noise, each)
    if whole < 1:
        return n_rounds * math.log1p(rate * math.expm1(whole))
    return n_rounds * float(np.logaddexp(math.log1p(-rate), math.log(rate) + whole))


def _seen_epsilon(noise: float, rate: float, n_rounds: int, delta: float) -> float:
    """Joint convexity over the patterns of batches that the record was in:

    delta(eps) <= sum_m P(m batches) delta_G(eps; sqrt(m) / noise)
    """
    mean, nats = rate * n_rounds, 14 - math.log(delta)
    above = nats / 3 + math.sqrt(nats**2 / 9 + 2 * mean * nats)  # Bernstein: e^-nats of it
    most = min(n_rounds, math.ceil(mean + above))
    fewest = max(0, math.floor(mean - math.sqrt(2 * mean * nats)))  # fewer count as that many
    times = np.arange(fewest, most + 1)
    chance = stats.binom.pmf(times, n_rounds, rate)
    chance[0] += stats.binom.cdf(fewest - 1, n_rounds, rate) if fewest else 0.0
    rest = 0.0 if most == n_rounds else math.exp(-nats)
    if rest + chance[times > 0].sum() <= delta:
        return 0.0
    moved = np.sqrt(times[times > 0]) / noise
    chance = chance[times > 0]

    def excess(epsilon):
        there = ndtr(moved / 2 - epsilon / moved)
        here = np.exp(epsilon + log_ndtr(-moved / 2 - epsilon / moved))
        return float(chance @ np.maximum(there - here, 0)) + rest - delta

    if excess(0.0) <= 0:
        return 0.0
    high = _gaussian_epsilon(noise / math.sqrt(most), delta - rest)
    found = optimize.brentq(excess, 0.0, high * (1 + 1e-9), xtol=1e-9 * high, rtol=1e-9)
    while excess(found) > 0:
        found += 1e-9 * high
    return float(found)


def _chance_of_any(rate: float, n_rounds: int) -> float:
    """1 - (1 - q)^T."""
    return 1.0 if rate == 1 else -math.expm1(n_rounds * math.log1p(-rate))


def _smallest(found: list[Budget]) -> Budget:
    return min(found, key=lambda budget: budget.epsilon)


def _check_budget(noise_multiplier: float, delta: float, **times: int) -> None:
    must_be("a finite number > 0", noise_multiplier=noise_multiplier)
    if not NOISE[0] <= noise_multiplier <= NOISE[1]:
        raise ValueError(
            f"noise_multiplier must be from {NOISE[0]} to {NOISE[1]:g}, got {noise_multiplier}"
        )
    must_be("in (0, 1)", delta=delta)
    if delta < LEAST_DELTA:
        raise ValueError(f"delta must be at least {LEAST_DELTA}, got {delta}")
    must_be("a whole number >= 1", **times)
    for name, value in times.items():
        if value > MOST_TIMES:
            raise ValueError(f"{name} must be at most {MOST_TIMES:,}, got {value}")


def _check_rate(sample_rate: float) -> None:
    must_be("in (0, 1]", sample_rate=sample_rate)
    if sample_rate < LEAST_RATE:
        raise ValueError(f"sample_rate must be at least {LEAST_RATE}, got {sample_rate}")


def _check_batch_size(batch_size: int, n_records: int) -> None:
    must_be("a whole number >= 1", batch_size=batch_size, n_records=n_records)
    if n_records > MOST_RECORDS:
        raise ValueError(f"n_records must be at most {MOST_RECORDS:,}, got {n_records}")
    if batch_size > n_records:
        raise ValueError(
            f"batch_size must be a whole number from 1 to n_records {n_records}, got {batch_size}"
        )


def _relation(neighbouring: str, microbatch_size: int, *, accepted: tuple[str, ...]) -> str:
    one_of(accepted, neighbouring=neighbouring)
    must_be("a whole number >= 1", microbatch_size=microbatch_size)
    return neighbouring if microbatch_size == 1 else "replace_one"
