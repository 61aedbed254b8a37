"""What random allocation costs: every record draws one batch of its epoch for itself."""

import math

import numpy as np
from dp_accounting import pld
from dp_accounting.pld import pld_pmf
from scipy import fft
from scipy.special import ndtr, ndtri

from ppkit.accounting.gaussian import check_budget, get_epsilon_epochs
from ppkit.validation import one_of


def get_epsilon_random_allocation(
    noise_multiplier: float,
    *,
    delta: float,
    n_batches: int,
    n_epochs: int,
    neighbouring: str = "add_remove",
) -> float:
    """What n_epochs epochs cost in which every record takes part in one batch of n_batches.

    Each record draws its batch for itself, uniformly, and anew in every epoch.

        P = mean_i N(e_i, s^2 I),   Q = N(0, s^2 I),   P / Q = mean_i W_i,
        W_i = exp((2 x_i - 1) / (2 s^2)),   i = 1 ... n_batches,   s = noise_multiplier

    noise_multiplier, delta: as in `get_epsilon_poisson`.  n_batches: batches an epoch, 1 to 10^7.
    n_epochs: 1 to 10^7, a part of an epoch counted whole.
    neighbouring: "add_remove" (zero-out costs the same), or "replace_one".
    Returns epsilon >= 0, never above `get_epsilon_epochs`, whose "known order" it is
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

    >>> round(get_epsilon_random_allocation(1.1, delta=1e-5, n_batches=50, n_epochs=4), 2)
    1.32
    """
    check_budget(noise_multiplier, delta, n_batches=n_batches, n_epochs=n_epochs)
    one_of(("add_remove", "replace_one"), neighbouring=neighbouring)
    known = "zero_out" if neighbouring == "add_remove" else "replace_one"
    known_order = get_epsilon_epochs(
        noise_multiplier, delta=delta, n_epochs=n_epochs, neighbouring=known
    )
    if delta < 1e-10 or noise_multiplier < 0.1:
        return known_order
    allocated = _allocation_epsilon(noise_multiplier, delta, n_batches, n_epochs, neighbouring)
    return min(known_order, allocated)


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
