"""What DP-SGD with Gaussian noise costs, by the way in which batches are drawn, and the noise that
keeps a budget.

    batches                        priced by                       neighbours
    Poisson: every record alone    get_epsilon_poisson             add/remove, replace-one
    fixed_batch: a fixed number    get_epsilon_fixed_batches       replace-one (its size is public)
    epochs: shuffled, then cut     get_epsilon_epochs              replace-one, zero-out; no gain
                                                                   from the shuffling is claimed
    random allocation: a batch     get_epsilon_random_allocation   add/remove, replace-one
    of its own for every record,
    anew in each epoch

`calibrate_noise_multiplier` is the inverse of `get_epsilon_poisson`.

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

The guarantees hold for noise over the real numbers. Noise from torch is a double that never passes
8.57 standard deviations (numpy's 13.7), so a step gives away Phi(m / noise_multiplier - 8.57) of
delta that no epsilon covers, m = 1 where a record moves C and 2 where it moves 2C: 2e-14 a step
that it takes part in, at noise multiplier 1 and m = 1. Add it to delta where delta is as small.
What the last bits of a float give away (Mironov 2012) is not covered at all.
"""

import functools
import math
from collections.abc import Callable

import dp_accounting
import numpy as np
from scipy import optimize, stats
from scipy.special import log_ndtr, ndtr

from ppkit.accounting import privacy_loss
from ppkit.accounting.budget import LEAST_RATE, Budget, smallest
from ppkit.accounting.renyi import sampled_epsilon, sampled_log_moments
from ppkit.validation import must_be, one_of

NOISE = (1e-3, 1e9)  # what is priced: noise multipliers
LEAST_DELTA = 1e-100
MOST_TIMES = 10**7  # rounds, epochs, batches an epoch
MOST_RECORDS = 10**9
EPSILONS = (1e-4, 1e5)  # for which noise is sought


def get_epsilon_poisson(
    noise_multiplier: float,
    *,
    delta: float,
    sample_rate: float,
    n_rounds: int,
    neighbouring: str = "add_remove",
    microbatch_size: int = 1,
) -> float:
    """What n_rounds DP-SGD uploads of one participant cost, each on a Poisson batch: the smallest
    epsilon of all bounds.

    noise_multiplier: .001 to 1e9.  delta: from 1e-100, below 1.  sample_rate: 1e-12 to 1.
    n_rounds: uploads of this participant, 1 to 10^7.
    neighbouring: "add_remove" or "replace_one".  microbatch_size: k >= 1; above 1 both relations
    cost what "replace_one" costs, for then a record moves a sampled microbatch from +C to -C and
    leaves the others.
    Returns epsilon >= 0.  ValueError if an argument is out of range.
    Guarantee: (epsilon, delta)-DP, Poisson sampling; add/remove within a fixed grouping if
    microbatch_size > 1.  Above the exact epsilon by no more than noise smaller by one part in a
    thousand would cost, for noise multipliers from .001, rates from 1e-5, up to 10^6 rounds,
    delta from 2^-128 to .1 and an epsilon of 1e-4 to 1e3.
    Source: PLD, `privacy_loss`.  RDP, `sampled_log_moments`.  Gaussian, Balle and
    Wang 2018.  One round, Balle, Barthe and Gaboardi 2018, Theorem 8.

    >>> round(get_epsilon_poisson(1.0, delta=2**-30, sample_rate=0.01, n_rounds=100), 2)
    1.85
    """
    check_budget(noise_multiplier, delta, n_rounds=n_rounds)
    _check_rate(sample_rate)
    relation = _relation(neighbouring, microbatch_size, accepted=("add_remove", "replace_one"))
    bounds = poisson_bounds(noise_multiplier, delta, sample_rate, int(n_rounds), relation)
    return smallest(bounds).epsilon


def get_epsilon_fixed_batches(
    noise_multiplier: float, *, delta: float, n_records: int, batch_size: int, n_rounds: int
) -> float:
    """What n_rounds uploads cost, each on batch_size of n_records drawn anew without replacement:
    the smallest epsilon of all bounds.

    delta_1(eps) = q delta_G(ln(1 + (e^eps - 1) / q)) for eps >= 0,    q = batch_size / n_records,

    delta_G the Gaussian's at sensitivity 2C; replace-one is symmetric, which gives eps < 0.
    noise_multiplier, delta, n_rounds: as in `get_epsilon_poisson`.
    1 <= batch_size <= n_records <= 10^9, both public.
    Returns epsilon >= 0.  ValueError if an argument is out of range.
    Guarantee: (epsilon, delta)-DP, replace-one, microbatches of any size; as near to the exact
    epsilon of this pair as `get_epsilon_poisson`.
    Source: Balle, Barthe and Gaboardi 2018, Theorem 9; composed as a dominating pair
    (Zhu, Dong and Wang 2022).
    Departs from dp_accounting's RdpAccountant: it is looser, and under REPLACE_ONE it takes the
    sensitivity for C, so that it has to be given noise_multiplier / 2.

    >>> round(
    ...     get_epsilon_fixed_batches(2.0, delta=1e-6, n_records=1000, batch_size=10, n_rounds=100),
    ...     2,
    ... )
    1.0
    """
    check_budget(noise_multiplier, delta, n_rounds=n_rounds)
    check_batch_size(batch_size, n_records)
    rate, n_rounds = batch_size / n_records, int(n_rounds)
    found = _closed_forms(noise_multiplier / 2, rate, n_rounds, delta)
    if rate < 1 and smallest(found).epsilon > 0:
        pair = privacy_loss.SampledGaussian(noise_multiplier / 2, rate)
        epsilon = privacy_loss.epsilon(pair, "both", delta=delta, n_rounds=n_rounds)
        found.append(Budget(epsilon, delta, "PLD"))
    return smallest(found).epsilon


def get_epsilon_epochs(
    noise_multiplier: float,
    *,
    delta: float,
    n_epochs: int,
    neighbouring: str = "replace_one",
    microbatch_size: int = 1,
) -> float:
    """What n_epochs passes over shuffled batches cost, which TensorFlow Privacy's tutorials run.

    A record is in at most one batch an epoch, so this is the Gaussian mechanism at
    noise_multiplier / sqrt(n_epochs) (over 2 where one record moves 2C), whatever the batch size,
    and even if the order is known.
    noise_multiplier, delta: as in `get_epsilon_poisson`.
    n_epochs: 1 to 10^7, a part of an epoch counted whole.
    neighbouring: "replace_one", or "zero_out": the record's gradient is replaced by 0 and its place
    kept (add/remove would move all records behind it into other batches).  microbatch_size: k >= 1;
    above 1 both cost the same.
    Returns epsilon >= 0, exact for the Gaussian mechanism: "known order" above.
    ValueError if an argument is out of range.
    Guarantee: (epsilon, delta)-DP.  The tutorials price these batches as Poisson ones, which can be
    far below what an attacker attains (Chua et al. 2024);
    what shuffling does gain is not claimed here.
    Source: dp_accounting.get_epsilon_gaussian (Balle and Wang 2018).

    >>> round(get_epsilon_epochs(2.0, delta=1e-6, n_epochs=1, neighbouring="zero_out"), 2)
    2.25
    """
    check_budget(noise_multiplier, delta, n_epochs=n_epochs)
    relation = _relation(neighbouring, microbatch_size, accepted=("replace_one", "zero_out"))
    sensitivity = 2 if relation == "replace_one" else 1
    return gaussian_epsilon(noise_multiplier / (sensitivity * math.sqrt(n_epochs)), delta)


def calibrate_noise_multiplier(
    epsilon: float, *, delta: float, sample_rate: float, n_rounds: int
) -> float:
    """The smallest noise multiplier, to one part in a thousand, whose n_rounds uploads cost at most
    epsilon.

    epsilon: 1e-4 to 1e5.
    delta, sample_rate, n_rounds: as in `get_epsilon_poisson`, of which this is the inverse.
    Returns a noise multiplier > 0 that meets the budget.
    ValueError if an argument is out of range, or if the record is sampled at all with a chance of
    at most delta: then the budget holds without noise, and protects no record that is sampled.
    Guarantee: get_epsilon_poisson(result) <= epsilon < get_epsilon_poisson(.999 result).

    >>> sigma = calibrate_noise_multiplier(8.0, delta=2**-30, sample_rate=0.01, n_rounds=1000)
    >>> 7.9 < get_epsilon_poisson(sigma, delta=2**-30, sample_rate=0.01, n_rounds=1000) <= 8.0
    True
    """
    must_be("a finite number > 0", epsilon=epsilon)
    if not EPSILONS[0] <= epsilon <= EPSILONS[1]:
        raise ValueError(f"epsilon must be from {EPSILONS[0]} to {EPSILONS[1]:g}, got {epsilon}")
    check_budget(1.0, delta, n_rounds=n_rounds)
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
        bounds = poisson_bounds(noise, delta, sample_rate, n_rounds, "add_remove", accuracy)
        spent = smallest(bounds).epsilon
        return math.log(max(spent, epsilon / 100) / epsilon)

    def closed_form_excess(log_noise: float) -> float:
        found = _closed_forms(math.exp(log_noise), sample_rate, n_rounds, delta)
        return math.log(max(smallest(found).epsilon, epsilon / 100) / epsilon)

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


def poisson_bounds(
    noise_multiplier: float,
    delta: float,
    sample_rate: float,
    n_rounds: int,
    neighbouring: str,
    accuracy: float = privacy_loss.ACCURACY,
) -> list[Budget]:
    """All bounds on n_rounds Poisson batches; the PLD only where the others leave something."""
    replaced = neighbouring == "replace_one"
    moved = 2 if replaced else 1
    found = _closed_forms(noise_multiplier / moved, sample_rate, n_rounds, delta)
    if sample_rate < 1:
        curve = lambda orders: orders / (2 * noise_multiplier**2)
        moments = sampled_log_moments(curve, sample_rate, neighbouring)
        epsilon = sampled_epsilon(moments, delta, n_rounds)
        found.append(Budget(epsilon, delta, "RDP"))
    if sample_rate < 1 and smallest(found).epsilon > 0:
        pair = privacy_loss.SampledGaussian(noise_multiplier, sample_rate, replaced)
        epsilon = privacy_loss.both_ways(pair, delta=delta, n_rounds=n_rounds, accuracy=accuracy)
        found.append(Budget(epsilon, delta, "PLD"))
    return found


def _closed_forms(noise: float, rate: float, n_rounds: int, delta: float) -> list[Budget]:
    """Bounds on n_rounds rounds of Gaussian noise, `noise` deviations for what a record moves."""
    found = [Budget(gaussian_epsilon(noise / math.sqrt(n_rounds), delta), delta, "Gaussian")]
    if rate < 1:
        found += [
            Budget(_seen_epsilon(noise, rate, n_rounds, delta), delta, "batches seen"),
            Budget(_one_by_one(noise, rate, n_rounds, delta), delta, "rounds one by one"),
        ]
    return found


def gaussian_epsilon(noise: float, delta: float) -> float:
    """Exact epsilon of one Gaussian release, `noise` deviations for what a record moves."""
    with np.errstate(divide="ignore"):  # two equal cdfs while it searches
        return float(dp_accounting.get_epsilon_gaussian(noise, delta))


def _one_by_one(noise: float, rate: float, n_rounds: int, delta: float) -> float:
    """n_rounds times ln(1 + q (e^eps - 1)), where one unsampled round is (eps, delta / (q T))."""
    each = delta / n_rounds / rate
    if each >= 1:
        return 0.0
    whole = gaussian_epsilon(noise, each)
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
    high = gaussian_epsilon(noise / math.sqrt(most), delta - rest)
    found = optimize.brentq(excess, 0.0, high * (1 + 1e-9), xtol=1e-9 * high, rtol=1e-9)
    while excess(found) > 0:
        found += 1e-9 * high
    return float(found)


def _chance_of_any(rate: float, n_rounds: int) -> float:
    """1 - (1 - q)^T."""
    return 1.0 if rate == 1 else -math.expm1(n_rounds * math.log1p(-rate))


def check_budget(noise_multiplier: float, delta: float, **times: int) -> None:
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


def check_batch_size(batch_size: int, n_records: int) -> None:
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
