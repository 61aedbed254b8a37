"""Lower bounds on epsilon: what an upload gives away for certain, by quadrature, exact binomials
and counting runs.

Every value is attained by a named event and named gradients, so a smaller claimed budget is wrong.
Gradients are sums of clipped gradients in units of the noise scale 2 B / epsilon: one record moves
each coordinate by at most epsilon / 2.
"""

import functools
import math

import numpy as np
from dp_accounting.pld import privacy_loss_distribution
from scipy import optimize, stats
from scipy.special import gammaln, log_expit, log_ndtr, logsumexp

from ppkit.validation import must_be, one_of

NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
ROUNDING = 1e-11  # of an exact chance, relative: an attained value never lies above the truth
MOST = 10**6  # entries sent, rounds
CELLS = 2**23  # numbers at a time


def exact_top_n(
    epsilon: float,
    *,
    sample_rate: float,
    n: int,
    d: int,
    neighbouring: str,
    mechanism: str = "laplace",
) -> float:
    """Epsilon that Algorithm 2's own upload attains at delta = 0, one sample for all n selections.

    Event: the first n coordinates are chosen, all with sign +. Gradients without the record: far
    below 0 there, further above 0 elsewhere, in every sample: a limit that many rows approach. The
    record pushes the first n up and the others down by epsilon / 2 each; the record that replaces
    it does the opposite. With r the log-likelihood ratio of record against none, r' of the other
    record against none:
    add/remove ln(1 - q + q e^r); replace-one ln(1 - q + q e^r) - ln(1 - q + q e^r').

    epsilon: from 1e-9 to 1e3.  sample_rate: q in (0, 1].  n, d: 1 <= n <= d, n at most 10^6.
    neighbouring: "add_remove" or "replace_one".
    mechanism: "laplace" or "gumbel".
    Returns the attained epsilon, > 0; the suprema are min(2 n, d) epsilon / 2 (Laplace) and
    n epsilon (Gumbel) for r.
    Source: counter-example to wang2018, Theorem 4.2, by one-dimensional quadrature (Laplace) or in
    closed form (Gumbel).

    >>> round(exact_top_n(1.0, sample_rate=0.1, n=3, d=8, neighbouring="add_remove"), 3)
    1.068
    """
    sizes = dict(n=n, d=d)
    n, d = _check(epsilon, sizes, sample_rate, mechanism, neighbouring, largest=1e3)
    record, other = (
        _LOG_RATIOS[mechanism](shift, n, d, epsilon) for shift in (epsilon / 2, -epsilon / 2)
    )
    attained = _sampled(record, sample_rate)
    if neighbouring == "replace_one":
        attained -= _sampled(other, sample_rate)
    return float(attained) * (1 - ROUNDING)


def sign_count(
    epsilon: float,
    *,
    sample_rate: float,
    n_uploads: int,
    n_parameters: int,
    neighbouring: str,
    mechanism: str = "laplace",
    delta: float = 2.0**-30,
) -> float:
    """Epsilon that the number of + signs in one upload attains at `delta`, by exact binomials.

    Gradients without the record: 0, so each sign is fair. The record pushes every coordinate up by
    epsilon / 2: each sign is + with chance 1 / (1 + e^-epsilon), independently. That is exact for
    Gumbel noise. For Laplace noise it is exact unless a coordinate with |noisy value| < epsilon / 2
    is chosen; the chance of that (a binomial tail) is given away; at n = d all are chosen, and the
    chance of + is 1 - e^(-epsilon / 2) / 2.

    Arguments as in `accounting.get_upload_budget`, n at most 10^6; delta may be 0:
    then the event is "all n signs are +".
    Returns the largest E with sum_k (P(k) - e^E P'(k))_+ >= delta, or 0.
    Source: counter-example to wang2018, Table I.

    >>> round(
    ...     sign_count(
    ...         0.1, sample_rate=0.01, n_uploads=1431, n_parameters=14312, neighbouring="add_remove"
    ...     ),
    ...     1,
    ... )
    6.5
    """
    sizes = dict(n_uploads=n_uploads, n_parameters=n_parameters)
    n, d = _check(epsilon, sizes, sample_rate, mechanism, neighbouring)
    must_be("in [0, 1)", delta=delta)
    log_up, log_down, log_off = _sign_chances(epsilon, n, d, mechanism)
    k = np.arange(n + 1)
    choose = _log_choose(n, k)
    fair = choose - n * math.log(2)
    stay, go = _log_rates(sample_rate)
    replaced = neighbouring == "replace_one"
    if delta == 0.0:
        # the event of the largest ratio, "all n signs are +", in logarithms: its chances are tiny
        seen = n * log_up
        seen = seen + math.log(-math.expm1(log_off - seen)) if log_off < seen else -math.inf
        against = np.logaddexp(n * log_down, log_off) if replaced else fair[-1]
        by_luck = stay + fair[-1]
        gained = np.logaddexp(by_luck, go + seen) - np.logaddexp(by_luck, go + against)
        return max(0.0, float(gained))
    record = np.logaddexp(stay + fair, go + choose + k * log_up + (n - k) * log_down)
    other = fair
    if replaced:
        other = np.logaddexp(stay + fair, go + choose + (n - k) * log_up + k * log_down)
    loss = record - other

    def log_delta(total):
        above = loss > total
        if not above.any():
            return -math.inf
        return logsumexp(record[above] + np.log(-np.expm1(total - loss[above])))

    def excess(total):  # both laws may be off by sample_rate * e^log_off
        off = math.log(sample_rate) + log_off + np.logaddexp(0.0, total)
        return max(log_delta(total), -1e9) - float(np.logaddexp(math.log(delta), off))

    if excess(0.0) <= 0:
        return 0.0
    return float(optimize.brentq(excess, 0.0, float(loss.max()), xtol=1e-10))


def rounds_attained(
    epsilon: float,
    *,
    sample_rate: float,
    n_uploads: int,
    n_parameters: int,
    neighbouring: str,
    mechanism: str = "laplace",
    delta: float = 2.0**-30,
    n_rounds: int,
    pushed: int | None = None,
) -> float:
    """Epsilon that `n_rounds` uploads together attain at `delta`, by binomials of binomials.

    Gradients without the record: 0. The record pushes `pushed` of the d coordinates by epsilon / 2
    in every round, and leaves the others alone. Event: in at least j rounds, at least c more signs
    agree with the record than not, among the pushed coordinates that are sent. Let c have chance a
    without the record, and b in a round whose sample has it. Then such rounds are
    Binomial(T, a) without the record and Binomial(T, (1 - q) a + q b) with it. The best j and c
    are taken. At least as many pushed coordinates are sent as a draw of n from d without
    replacement finds; a is bounded from above and b from below (as in `sign_count`).

    Arguments as in `sign_count`; at delta 0 it is n_rounds times `sign_count`, for pushed = d.
    n_rounds: T, from 1 to 10^6.  pushed: 0 ... d, None for d; fewer than d for add_remove only.
    Returns the attained epsilon, >= 0.
    Source: counter-example to wang2018, Theorem 4.2 with Theorems 2.4 and 2.5.

    >>> where = dict(sample_rate=0.01, n_uploads=1431, n_parameters=14312)
    >>> [
    ...     round(rounds_attained(0.5, neighbouring="add_remove", n_rounds=t, **where))
    ...     for t in (1, 200)
    ... ]
    [85, 490]
    """
    pushed = n_parameters if pushed is None else pushed
    must_be("a whole number >= 1", n_rounds=n_rounds)
    must_be("a whole number >= 0", pushed=pushed)
    if n_rounds > MOST:
        raise ValueError(f"n_rounds must be at most 1,000,000, got {n_rounds}")
    sizes = dict(n_uploads=n_uploads, n_parameters=n_parameters)
    n, d = _check(epsilon, sizes, sample_rate, mechanism, neighbouring)
    if pushed > d or (pushed < d and neighbouring != "add_remove"):
        raise ValueError(
            f"pushed must be at most n_parameters = {d}, and less for add_remove only, got {pushed}"
        )
    must_be("in [0, 1)", delta=delta)
    if delta == 0.0:
        if pushed < d:
            raise ValueError(f"delta must be > 0 where pushed is not all, got {pushed}")
        return n_rounds * sign_count(
            epsilon,
            sample_rate=sample_rate,
            n_uploads=n,
            n_parameters=d,
            neighbouring=neighbouring,
            mechanism=mechanism,
            delta=0.0,
        )
    by_luck, seen, against = _agree(epsilon, n, d, mechanism, int(pushed))
    if by_luck.size * (n_rounds + 1) > CELLS:  # fewer events: less may be attained
        few = np.linspace(0, by_luck.size - 1, max(1, CELLS // int(n_rounds))).astype(int)
        by_luck, seen, against = by_luck[few], seen[few], against[few]
    if neighbouring == "add_remove":
        against = by_luck
    stay, go = _log_rates(sample_rate)
    with np.errstate(divide="ignore"):
        log_seen = np.log(seen)
    least = np.log(np.maximum(by_luck, 1e-300))
    with_it = np.logaddexp(stay + least, go + log_seen)
    without = np.logaddexp(stay + least, go + np.log(np.maximum(against, 1e-300)))
    chance, luck = _at_least(with_it, int(n_rounds)), _at_least(without, int(n_rounds))
    enough = chance > math.log(delta) + 1e-9
    gained = chance[enough] + np.log(-np.expm1(math.log(delta) - chance[enough])) - luck[enough]
    return max(0.0, float(gained.max(initial=0.0)))


def _sign_chances(epsilon, n, d, mechanism, pushed=None):
    """ln of the chances of + and of - on a coordinate that was pushed, and ln of what may be wrong
    with them: the chance that fewer than n coordinates lie beyond epsilon / 2. One that was pushed
    does with chance (1 + e^-epsilon) / 2, another with e^(-epsilon / 2), which is less and is taken
    for all where not all are pushed."""
    if mechanism == "laplace" and n == d:
        log_down = -epsilon / 2 - math.log(2)
        return math.log1p(-math.exp(log_down)), log_down, -math.inf
    log_up, log_down = float(log_expit(epsilon)), float(log_expit(-epsilon))
    if mechanism == "gumbel":
        return log_up, log_down, -math.inf
    beyond = 0.5 + 0.5 * math.exp(-epsilon)
    if pushed is not None and pushed < d:
        beyond = math.exp(-epsilon / 2)
    return log_up, log_down, _log_binomial_cdf(n - 1, d, beyond)


def _log_binomial_cdf(k, n, p):
    """ln P(Binomial(n, p) <= k), or more where scipy's is no number: Chernoff's bound."""
    chance = float(stats.binom.cdf(k, n, p))
    if chance > 1e-290:
        return math.log(chance)
    if p == 1.0:
        return -math.inf
    part = k / n
    lost = (1 - part) * math.log((1 - part) / (1 - p)) + (part * math.log(part / p) if k else 0.0)
    return -n * lost


@functools.lru_cache(maxsize=64)
def _agree(epsilon, n, d, mechanism, pushed):
    """Chances that at least c more signs agree than not, c = 1 ... n in steps: without the record,
    with it, and with its opposite."""
    log_up, log_down, log_off = _sign_chances(epsilon, n, d, mechanism, pushed)
    up, down, given_away = math.exp(log_up), math.exp(log_down), math.exp(log_off)
    k = np.arange(max(0, n - (d - pushed)), min(n, pushed) + 1)  # how many of the pushed are sent
    weight = np.exp(_log_choose(pushed, k) + _log_choose(d - pushed, n - k) - _log_choose(d, n))
    step = 1 if len(k) == 1 else max(1 + n // 256, len(k) * n // CELLS)
    need = np.ceil((k[:, None] + np.arange(1, n + 1, step)) / 2)
    luck, seen, against = (stats.binom.sf(need - 1, k[:, None], p) for p in (0.5, up, down))
    seen = np.minimum.accumulate(seen[::-1])[::-1]  # more of them sent, more chance
    return (
        weight @ luck,
        np.maximum(weight @ seen - given_away, 0.0),
        weight @ against + given_away,
    )


def _log_choose(n, k):
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)


def _at_least(log_chance, trials):
    """ln P(at least j of `trials`), j = 1 ... trials, for each ln chance: (m, trials)."""
    i = np.arange(trials + 1)
    off = np.log(-np.expm1(np.minimum(log_chance, -1e-15)))
    log_chance = np.maximum(log_chance, -1e300)  # for 0 times it
    terms = np.multiply.outer(log_chance, i) + np.multiply.outer(off, trials - i)
    terms += _log_choose(trials, i)
    return np.minimum(np.logaddexp.accumulate(terms[:, ::-1], axis=1)[:, ::-1][:, 1:], 0.0)


def returned_values(epsilon: float, *, n_parameters: int) -> float:
    """Epsilon that Algorithm 3 attains when it returns noisy VALUES, before sampling: d epsilon,
    whatever n is.

    Event: the largest noisy value is below 0, so all are. One record moves every value from 0 to
    lambda (replace-one).
    epsilon: > 0.  n_parameters: d >= 1.
    Returns ln(P(Lap < 0)^d / P(epsilon + Lap < 0)^d) = d ln((1 / 2) / (e^-epsilon / 2)).
    Source: counter-example to wang2018, Appendix B, first claim (2 n epsilon), at n = 1 and d = 3;
    under add/remove a value moves half as far (epsilon / 2), and d = 5 is one.

    >>> round(returned_values(1.0, n_parameters=3), 12)
    3.0
    """
    _check(epsilon, dict(n_parameters=n_parameters))
    return float(n_parameters * epsilon)


def laplace_l2(epsilon: float, *, n_parameters: int) -> float:
    """Epsilon that Laplace noise attains when its scale is (l2 sensitivity) / epsilon:
    sqrt(d) epsilon.

    The record moves each of d values by S / sqrt(d), an l2 distance of S;
    every value is seen below both means.
    epsilon: > 0.  n_parameters: d >= 1.
    Source: counter-example to wang2018, Definitions 2.2 and 2.3.

    >>> round(laplace_l2(1.0, n_parameters=100), 12)
    10.0
    """
    _check(epsilon, dict(n_parameters=n_parameters))
    shift = epsilon / math.sqrt(n_parameters)  # in noise scales: what one value tells
    return float(n_parameters * shift)


def selection_probability(magnitudes) -> np.ndarray:
    """Exact chances that each |g_i| + Laplace noise is the largest:
    P_i = int f(t - v_i) prod_(j != i) F(t - v_j) dt.

    magnitudes: (d,) v_i = |g_i| epsilon / lambda, at most 1e300, d from 2 to 5,000.
    Returns (d,), summing to 1 up to quadrature error 1e-10; 0 where a chance is below 1e-300.
    ValueError if they are no such vector.
    Source: the exact side of wang2018, Theorem 4.3;
    `dpstgd.selection_probability_product` is the paper's.

    >>> float(selection_probability([1.0] + [0.0] * 9)[0].round(3))
    0.257
    """
    values = magnitudes_of(magnitudes)
    values = values - values.max()  # only the gaps count, and are exact near 0
    chances = np.zeros(values.size)
    near = values > -800.0  # behind these, a value never wins
    values = values[near]
    kinks = np.unique(values)
    far = 40.0 + math.log(values.size)
    t, log_w = _panels(np.concatenate([[kinks[0] - far], kinks, [kinks[-1] + far]]), 0.5)
    parts = []
    for at in np.array_split(np.arange(t.size), 1 + t.size * values.size // CELLS):
        gap = t[at, None] - values
        log_pdf = -np.abs(gap) - math.log(2)
        log_cdf = np.where(gap < 0, log_pdf, np.log1p(-np.exp(log_pdf)))
        all_below = log_cdf.sum(axis=1, keepdims=True)
        parts.append(logsumexp(log_w[at, None] + log_pdf - log_cdf + all_below, axis=0))
    chances[near] = np.exp(logsumexp(parts, axis=0))
    return chances


def magnitudes_of(magnitudes) -> np.ndarray:
    """Magnitudes as float64, (d,).

    ValueError if they are not 2 to 5,000 finite numbers, of at most 1e300.
    """
    vector = np.asarray(magnitudes, dtype=np.float64)
    if vector.ndim != 1 or not 2 <= vector.size <= 5_000 or not np.isfinite(vector).all():
        got = magnitudes if vector.size < 10 else f"shape {vector.shape}"
        raise ValueError(f"magnitudes must be a vector of 2 to 5,000 finite numbers, got {got}")
    largest = float(np.abs(vector).max())
    if largest > 1e300:
        raise ValueError(f"magnitudes must be at most 1e300, got {largest:g}")
    return vector


def empirical_epsilon(
    hits: int, trials: int, other_hits: int, other_trials: int, *, failure: float = 1e-6
) -> float:
    """Lower bound on epsilon (delta = 0) from counting one event in runs with and without the
    record.

    ln(lower(hits / trials) / upper(other_hits / other_trials)), one-sided Clopper-Pearson at
    failure / 2 each.
    hits, other_hits: 0 ... trials.  failure: in (0, 1), the chance that the bound is above the
    truth.
    Returns the bound, >= 0.  The event must be fixed before the runs.

    >>> empirical_epsilon(10, 1000, 12, 1000)
    0.0
    """
    must_be("a whole number >= 0", hits=hits, other_hits=other_hits)
    must_be("a whole number >= 1", trials=trials, other_trials=other_trials)
    must_be("in (0, 1)", failure=failure)
    if hits > trials or other_hits > other_trials:
        raise ValueError(
            f"hits and other_hits must be at most trials and other_trials, "
            f"got {hits} of {trials} and {other_hits} of {other_trials}"
        )
    lower = stats.beta.ppf(failure / 2, hits, trials - hits + 1) if hits else 0.0
    upper = (
        stats.beta.isf(failure / 2, other_hits + 1, other_trials - other_hits)
        if other_hits < other_trials
        else 1.0
    )
    return max(0.0, math.log(lower / upper)) if lower > 0 else 0.0


def told_apart(without, with_it, *, n_times: int, delta: float) -> float:
    """Epsilon that `n_times` independent outcomes attain at `delta`, each of one of two laws.

    without, with_it: (m,) the chances of the outcomes in the two worlds, > 0 at least in one; a
    chance `without` that is no more than rounding must be given as what it can be at most.
    n_times: from 1 to 10,000.  delta: from 1e-12 to below 1, for a float64 cannot tell less.
    Returns epsilon >= 0, at most .005 n_times below what is attained (the grid of the losses).
    ValueError if an argument is out of range.
    Source: dp_accounting's privacy loss distributions, rounded down.
    """
    must_be("a whole number >= 1", n_times=n_times)
    must_be("in (0, 1)", delta=delta)
    if n_times > 10_000 or delta < 1e-12:
        raise ValueError(
            f"n_times must be at most 10,000 and delta at least 1e-12, got {n_times} and {delta}"
        )
    low, high = (np.asarray(law, dtype=np.float64) for law in (without, with_it))
    chances = all(((0 <= law) & (law <= 1)).all() for law in (low, high))
    if low.ndim != 1 or low.shape != high.shape or not chances:
        raise ValueError(
            "without and with_it must be vectors of chances of one length, "
            f"got shapes {low.shape} and {high.shape}"
        )
    logs = (np.log(np.maximum(law, 1e-300)).tolist() for law in (low, high))
    one = privacy_loss_distribution.from_two_probability_mass_functions(
        *(dict(enumerate(law)) for law in logs),
        pessimistic_estimate=False,
        value_discretization_interval=0.005,
    )
    return float(one.self_compose(int(n_times)).get_epsilon_for_delta(delta))


def largest_sum(
    noise_multiplier: float, *, n_batches: int, n_epochs: int, delta: float, without: float = 0.0
) -> float:
    """Epsilon that the largest noisy sum of each epoch attains, where batches are shuffled.

    All other rows pull by -C along one direction, the row by +C: of n_batches sums, in units of C
    and counted from what the others give, the row moves one by 2. In the other world it moves the
    same one by `without`: 0 where the row is replaced by one like the others, 1 where its gradient
    is 0 and its place is kept. The attacker keeps the largest sum, in one of 501 cells:
        P(largest <= e) = Phi(e / s)^(n_batches - 1) Phi((e - moved) / s), s = noise_multiplier.
    noise_multiplier: from .05 to 1,000.  n_batches: >= 1, of an epoch.
    n_epochs: from 1 to 10,000, whole ones.  delta: from 1e-12 to below 1.  without: from 0 to 2.
    Returns the attained epsilon, >= 0.  ValueError if an argument is out of range.
    Source: the batches of Chua et al. 2024; the attack is ours.

    >>> round(largest_sum(1.1, n_batches=50, n_epochs=4, delta=1e-5), 2)
    7.85
    """
    must_be("a finite number > 0", noise_multiplier=noise_multiplier)
    if not 0.05 <= noise_multiplier <= 1_000:
        raise ValueError(f"noise_multiplier must be from 0.05 to 1,000, got {noise_multiplier}")
    must_be("a whole number >= 1", n_batches=n_batches, n_epochs=n_epochs)
    if n_epochs > 10_000:
        raise ValueError(f"n_epochs must be at most 10,000, got {n_epochs}")
    must_be("a finite number >= 0", without=without)
    if without > 2:
        raise ValueError(f"without must be from 0 to 2, got {without}")
    s = noise_multiplier
    edges = np.linspace(0, 2 + 8 * s, 500)
    laws = (
        _in_cells((n_batches - 1) * log_ndtr(edges / s) + log_ndtr((edges - moved) / s))
        for moved in (without, 2.0)
    )
    return told_apart(*laws, n_times=n_epochs, delta=delta)


def _in_cells(log_cdf):
    """The chances between the edges, from ln P(<= edge): by the lower tails up to the median, and
    by the upper ones from there, for near 1 the differences cancel."""
    below = np.r_[0.0, np.exp(log_cdf), 1.0]
    above = np.r_[1.0, -np.expm1(log_cdf), 0.0]
    return np.where(below[:-1] < 0.5, np.diff(below), -np.diff(above))


def _laplace_log_ratio(shift, n, d, epsilon):
    """ln of the event's chance over its chance without a shift: the first n are pushed by `shift`,
    the others, `height` deep, are moved down by it.

    Far below 0, P(noisy > t) = e^(shift - t) times a constant for t >= 0. The others' largest
    |noisy| has distribution F(t)^(d - n), so by parts
        P = e^(n shift) n int_0^inf e^(-n t) F(t)^(d - n) dt.
    The ratio is a mean of (F_shifted / F)^(d - n) under the integrand without a shift. The panels
    shrink towards every peak and kink of both, however narrow.
    """
    if n == d:
        return n * shift
    rest, m = d - n, max(60.0, 50.0 + epsilon / 2)
    moved = m - shift
    # n = rest coth(t) inside; e^(m - t) / 2 = n / d outside
    inside = [math.atanh(rest / n)] if rest < n else []
    outside = [max(depth, depth + math.log(d / (2 * n))) for depth in (m, moved)]
    centres = np.unique([t for t in [0.0, m, moved, *inside, *outside] if t >= 0])
    t, log_w = _graded(centres, max(centres) + 60.0 + 2 * math.log(d))
    log_chance = log_w - n * t + rest * _laplace_log_cdf(t, m)
    ratio = rest * _laplace_log_cdf_ratio(t, m, shift)
    return n * shift + _log_mean(log_chance, ratio)


def _laplace_log_cdf(t, m):
    """ln P(|noisy| <= t), at a depth of m: e^-m sinh t for t < m."""
    inside = np.log(-np.expm1(-2 * t)) + t - math.log(2) - m
    outside = np.log1p(-0.5 * np.exp(np.minimum(m - t, 0.0)))  # up to e^(-2 m)
    return np.where(t < m, inside, outside)


def _laplace_log_cdf_ratio(t, m, shift):
    """ln of F at a depth of m - shift over F at m, without a difference of logarithms: `shift`
    where t is below both depths."""
    moved = m - shift
    beyond = 0.5 * np.exp(np.minimum(m - t, 0.0))  # 1 - F where t is above m
    gained = -beyond * math.expm1(-shift) / (1 - beyond)
    above = np.log1p(np.maximum(gained, -0.5))  # at least that where t is above both
    if shift > 0:
        between = np.log1p(-np.expm1(np.minimum(moved - t, 0.0))) - (t - m)
    else:
        between = (t - moved) - np.log1p(-np.expm1(np.minimum(m - t, 0.0)))
    below = t < min(m, moved)
    return np.where(below, shift, np.where(t < max(m, moved), between, above))


def _log_mean(log_weights, logs):
    """ln of the weighted mean of e^logs, to the last digits of what it differs from 0."""
    if np.abs(logs).max() < 1:
        weights = np.exp(np.maximum(log_weights - log_weights.max(), -700.0))
        return math.log1p(float(weights @ np.expm1(logs)) / float(weights.sum()))
    return float(logsumexp(log_weights + logs) - logsumexp(log_weights))


def _gumbel_log_ratio(shift, n, d, epsilon):
    """The same: n signs of chance expit(2 (shift - depth)), ln of which is linear in `shift` up to
    e^(2 (shift - depth)). The chance that the first n come first stays as it was, up to as much:
    the weights of all move by the same factor."""
    depth = max(30.0, 20.0 + epsilon / 2)
    return n * (2 * shift - 2 * math.exp(2 * (shift - depth)))


_LOG_RATIOS = {"laplace": _laplace_log_ratio, "gumbel": _gumbel_log_ratio}


def _sampled(log_ratio, q):
    """ln(1 - q + q e^log_ratio), to the last digits of what it differs from 0."""
    change = q * math.expm1(min(log_ratio, 30.0))
    if log_ratio < 30 and change > -0.5:
        return math.log1p(change)
    return float(np.logaddexp(_log_rates(q)[0], _log_rates(q)[1] + log_ratio))


def _graded(centres, end):
    """Gauss-Legendre nodes and log-weights from 0 to `end`, on panels of at most 1 that shrink
    towards each centre in proportion to the distance from it."""
    away = 1e-8 * 1.25 ** np.arange(110)
    away = np.concatenate([-away, [0.0], away])
    edges = np.concatenate([np.arange(0.0, end), *(centre + away for centre in centres), [end]])
    return _panels(np.unique(edges[(edges >= 0) & (edges <= end)]), 1.0)


def _panels(edges, width):
    """Gauss-Legendre nodes and log-weights on panels of at most `width` between the edges."""
    pieces = [
        np.linspace(a, b, max(2, math.ceil((b - a) / width) + 1))
        for a, b in zip(edges[:-1], edges[1:])
    ]
    left = np.concatenate([piece[:-1] for piece in pieces])
    half = np.concatenate([np.diff(piece) for piece in pieces]) / 2
    return ((left + half)[:, None] + half[:, None] * NODES).ravel(), np.log(
        half[:, None] * WEIGHTS
    ).ravel()


def _log_rates(q):
    return (math.log1p(-q) if q < 1 else -math.inf), math.log(q)


def _check(
    epsilon,
    sizes: dict,
    sample_rate=1.0,
    mechanism="laplace",
    neighbouring="add_remove",
    largest=1e6,
) -> list[int]:
    """The sizes, n and d or d alone, as whole numbers; ValueError if any is out of range."""
    must_be("a finite number > 0", epsilon=epsilon)
    if not 1e-9 <= epsilon <= largest:
        raise ValueError(f"epsilon must be from 1e-9 to {largest:,.0f}, got {epsilon}")
    must_be("in (0, 1]", sample_rate=sample_rate)
    if sample_rate < 1e-12:
        raise ValueError(f"sample_rate must be at least 1e-12, got {sample_rate}")
    one_of(_LOG_RATIOS, mechanism=mechanism)
    one_of(("add_remove", "replace_one"), neighbouring=neighbouring)
    must_be("a whole number >= 1", **sizes)
    for (name, size), most in zip(sizes.items(), (MOST, 1_000 * MOST)[-len(sizes) :]):
        if size > most:
            raise ValueError(f"{name} must be at most {most:,}, got {size}")
    names, values = list(sizes), [int(size) for size in sizes.values()]
    if values[0] > values[-1]:
        raise ValueError(
            f"{names[0]} must be at most {names[-1]} = {values[-1]}, got {names[0]} = {values[0]}"
        )
    return values
