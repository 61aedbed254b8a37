"""Lower bounds on epsilon: what an upload gives away for certain, by quadrature, exact binomials
and counting runs.

Every value is attained by a named event and named gradients, so a smaller claimed budget is wrong.
Gradients are sums of clipped gradients in units of the noise scale 2 B / epsilon: one record moves
each coordinate by at most epsilon / 2.
"""

import functools
import math

import numpy as np
from scipy import optimize, stats
from scipy.special import expit, gammaln, log_expit, logsumexp

from ppkit.refusals import must_be, one_of

NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)


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

    epsilon: > 0.  sample_rate: q in (0, 1].  n, d: 1 <= n <= d.
    neighbouring: "add_remove" or "replace_one".
    mechanism: "laplace" or "gumbel".
    Returns the attained epsilon, > 0; the suprema are min(2 n, d) epsilon / 2 (Laplace) and
    n epsilon (Gumbel) for r.
    Source: counter-example to wang2018, Theorem 4.2, by one-dimensional quadrature (Laplace) or in
    closed form (Gumbel).

    >>> round(exact_top_n(1.0, sample_rate=0.1, n=3, d=8, neighbouring="add_remove"), 3)
    1.068
    """
    _check(epsilon, n, d, sample_rate, mechanism, neighbouring)
    log_chance = _LOG_CHANCES[mechanism]
    none, record, other = (log_chance(shift, n, d) for shift in (0.0, epsilon / 2, -epsilon / 2))
    stay, go = _log_rates(sample_rate)
    attained = np.logaddexp(stay, go + record - none)
    return float(
        attained - (np.logaddexp(stay, go + other - none) if neighbouring == "replace_one" else 0.0)
    )


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

    Arguments as in `accounting.valid_budget`; delta may be 0:
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
    _check(epsilon, n_uploads, n_parameters, sample_rate, mechanism, neighbouring)
    must_be("in [0, 1)", delta=delta)
    up, given_away = _sign_chances(epsilon, n_uploads, n_parameters, mechanism)
    k = np.arange(n_uploads + 1)
    choose = _log_choose(n_uploads, k)
    fair = choose - n_uploads * math.log(2)
    stay, go = _log_rates(sample_rate)
    record = np.logaddexp(
        stay + fair, go + choose + k * math.log(up) + (n_uploads - k) * math.log1p(-up)
    )
    other = (
        np.logaddexp(
            stay + fair, go + choose + (n_uploads - k) * math.log(up) + k * math.log1p(-up)
        )
        if neighbouring == "replace_one"
        else fair
    )
    if (
        delta == 0.0
    ):  # the event of the largest ratio, "all n signs are +", in logarithms: its chances are tiny
        log_up, log_down = n_uploads * math.log(up), n_uploads * math.log1p(-up)
        log_off = -math.inf
        if mechanism == "laplace" and n_uploads < n_parameters:
            log_off = float(
                stats.binom.logcdf(n_uploads - 1, n_parameters, 0.5 + 0.5 * math.exp(-epsilon))
            )
        seen = log_up + math.log1p(-math.exp(log_off - log_up)) if log_off < log_up else -math.inf
        against = np.logaddexp(log_down, log_off) if neighbouring == "replace_one" else fair[-1]
        return max(
            0.0,
            float(
                np.logaddexp(stay + fair[-1], go + seen)
                - np.logaddexp(stay + fair[-1], go + against)
            ),
        )
    loss = record - other

    def log_delta(total):
        above = loss > total
        if not above.any():
            return -math.inf
        return logsumexp(record[above] + np.log(-np.expm1(total - loss[above])))

    def excess(total):  # both laws may be off by sample_rate * given_away
        price = delta + sample_rate * given_away * (1 + math.exp(min(total, 700.0)))
        return max(log_delta(total), -1e4) - math.log(price)

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
    n_rounds: T >= 1.  pushed: 1 ... d, None for d; fewer than d for add_remove only.
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
    must_be("a whole number >= 1", n_rounds=n_rounds, pushed=pushed)
    if pushed > n_parameters or (pushed < n_parameters and neighbouring != "add_remove"):
        raise ValueError(
            f"pushed must be at most n_parameters = {n_parameters}, and less for add_remove only, "
            f"got {pushed}"
        )
    one = dict(sample_rate=sample_rate, n_uploads=n_uploads, n_parameters=n_parameters)
    one |= dict(neighbouring=neighbouring, mechanism=mechanism)
    pure = sign_count(epsilon, delta=0.0, **one)  # checks the arguments, too
    must_be("in [0, 1)", delta=delta)
    if delta == 0.0:
        if pushed < n_parameters:
            raise ValueError(f"delta must be > 0 where pushed is not all, got {pushed}")
        return n_rounds * pure
    by_luck, seen, against = _agree(epsilon, n_uploads, n_parameters, mechanism, pushed)
    if neighbouring == "add_remove":
        against = by_luck
    stay, go = _log_rates(sample_rate)
    least = np.log(np.maximum(by_luck, 1e-300))
    with_it = np.logaddexp(stay + least, go + np.log(np.maximum(seen, 1e-300)))
    without = np.logaddexp(stay + least, go + np.log(np.maximum(against, 1e-300)))
    chance, luck = _at_least(with_it, n_rounds), _at_least(without, n_rounds)
    enough = chance > math.log(delta) + 1e-9
    gained = chance[enough] + np.log(-np.expm1(math.log(delta) - chance[enough])) - luck[enough]
    return max(0.0, float(gained.max(initial=0.0)))


def _sign_chances(epsilon, n, d, mechanism):
    """The chance of + on a coordinate that was pushed, and what may be wrong with it: the chance
    that fewer than n coordinates lie beyond epsilon / 2."""
    if mechanism == "gumbel":
        return expit(epsilon), 0.0
    if n == d:
        return 1 - 0.5 * math.exp(-epsilon / 2), 0.0
    return expit(epsilon), stats.binom.cdf(n - 1, d, 0.5 + 0.5 * math.exp(-epsilon))


@functools.lru_cache(maxsize=64)
def _agree(epsilon, n, d, mechanism, pushed):
    """Chances that at least c more signs agree than not, c = 1 ... n in steps: without the record,
    with it, and with its opposite."""
    up, given_away = _sign_chances(epsilon, n, d, mechanism)
    k = np.arange(max(0, n - (d - pushed)), min(n, pushed) + 1)  # how many of the pushed are sent
    weight = np.exp(_log_choose(pushed, k) + _log_choose(d - pushed, n - k) - _log_choose(d, n))
    need = np.ceil((k[:, None] + np.arange(1, n + 1, 1 if len(k) == 1 else 1 + n // 256)) / 2)
    luck, seen, against = (stats.binom.sf(need - 1, k[:, None], p) for p in (0.5, up, 1 - up))
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
    terms = np.multiply.outer(log_chance, i) + np.multiply.outer(off, trials - i)
    terms += _log_choose(trials, i)
    return np.minimum(np.logaddexp.accumulate(terms[:, ::-1], axis=1)[:, ::-1][:, 1:], 0.0)


def returned_values(epsilon: float, *, n_parameters: int) -> float:
    """Epsilon that Algorithm 3 attains when it returns noisy VALUES, before sampling: d epsilon,
    whatever n is.

    Event: the largest noisy value is below 0, so all are. One record moves every value from 0 to
    lambda (replace-one).
    epsilon: > 0.  n_parameters: d >= 1.  Returns ln(P(Lap < 0)^d / P(epsilon + Lap < 0)^d).
    Source: counter-example to wang2018, Appendix B, first claim (2 n epsilon), at n = 1 and d = 3;
    under add/remove a value moves half as far (epsilon / 2), and d = 5 is one.

    >>> round(returned_values(1.0, n_parameters=3), 12)
    3.0
    """
    _check(epsilon, 1, n_parameters)
    return float(n_parameters * (stats.laplace.logcdf(0.0) - stats.laplace.logcdf(-epsilon)))


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
    _check(epsilon, 1, n_parameters)
    shift = epsilon / math.sqrt(n_parameters)  # in noise scales
    return float(n_parameters * (stats.laplace.logpdf(0.0) - stats.laplace.logpdf(-shift)))


def selection_probability(magnitudes) -> np.ndarray:
    """Exact chances that each |g_i| + Laplace noise is the largest:
    P_i = int f(t - v_i) prod_(j != i) F(t - v_j) dt.

    magnitudes: (d,) v_i = |g_i| epsilon / lambda, finite, d >= 2.  Returns (d,), summing to 1 up to
    quadrature error 1e-10.
    Source: the exact side of wang2018, Theorem 4.3;
    `dpstgd.selection_probability_product` is the paper's.

    >>> float(selection_probability([1.0] + [0.0] * 9)[0].round(3))
    0.257
    """
    values = np.asarray(magnitudes, dtype=np.float64)
    if values.ndim != 1 or values.size < 2 or not np.isfinite(values).all():
        raise ValueError(
            f"magnitudes must be a vector of at least 2 finite numbers, got {magnitudes}"
        )
    kinks = np.unique(values)
    far = 40.0 + math.log(values.size)
    t, log_w = _panels(np.concatenate([[kinks[0] - far], kinks, [kinks[-1] + far]]), 0.5)
    log_cdf = stats.laplace.logcdf(t[:, None] - values)
    log_pdf = stats.laplace.logpdf(t[:, None] - values)
    return np.exp(
        logsumexp(log_w[:, None] + log_pdf - log_cdf + log_cdf.sum(axis=1, keepdims=True), axis=0)
    )


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
    if not (
        0 <= hits <= trials
        and 0 <= other_hits <= other_trials
        and min(trials, other_trials) >= 1
        and 0 < failure < 1
    ):
        raise ValueError(
            f"need 0 <= hits <= trials and failure in (0, 1), got {hits} of {trials}, "
            f"{other_hits} of {other_trials}, {failure}"
        )
    lower = stats.beta.ppf(failure / 2, hits, trials - hits + 1) if hits else 0.0
    upper = (
        stats.beta.isf(failure / 2, other_hits + 1, other_trials - other_hits)
        if other_hits < other_trials
        else 1.0
    )
    return max(0.0, math.log(lower / upper)) if lower > 0 else 0.0


def _laplace_log_chance(shift, n, d, height=60.0):
    """ln P(event) up to a constant, the first n pushed by `shift`,
    the others from `height` down by it.

    Far below 0, P(noisy > t) = e^(shift - t) times a constant for t >= 0. The others' largest
    |noisy| has distribution F(t)^(d - n), so by parts
        P = e^(n shift) n int_0^inf e^(-n t) F(t)^(d - n) dt.
    """
    if n == d:
        return n * shift
    m = height - shift
    t, log_w = _panels(np.array([0.0, m, m + 60.0 + 2 * math.log(d)]), 0.05)
    inside = np.log(-np.expm1(-2 * t)) + t - math.log(2) - m  # ln(e^-m sinh t), |noisy| below t < m
    outside = np.log1p(-0.5 * np.exp(np.minimum(m - t, 0.0)) * (1 + math.exp(-2 * m)))
    log_cdf = np.where(t < m, inside, outside)
    return n * shift + float(logsumexp(log_w - n * t + (d - n) * log_cdf))


def _gumbel_log_chance(shift, n, d, depth=30.0, height=90.0):
    """ln P(event): n signs of chance expit(2 u), and prod i / (i + W / w), the chance that n equal
    clocks ring first."""
    u, others = shift - depth, height - shift
    signs = n * log_expit(2 * u)
    if n == d:
        return float(signs)
    # W = (d - n) 2 cosh(others) and w = 2 cosh(u)
    log_ratio = math.log(d - n) + np.logaddexp(others, -others) - np.logaddexp(u, -u)
    i = np.arange(1, n + 1)
    return float(signs + np.sum(np.log(i) - np.logaddexp(np.log(i), log_ratio)))


_LOG_CHANCES = {"laplace": _laplace_log_chance, "gumbel": _gumbel_log_chance}


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


def _check(epsilon, n, d, sample_rate=1.0, mechanism="laplace", neighbouring="add_remove"):
    must_be("a finite number > 0", epsilon=epsilon)
    must_be("in (0, 1]", sample_rate=sample_rate)
    one_of(_LOG_CHANCES, mechanism=mechanism)
    one_of(("add_remove", "replace_one"), neighbouring=neighbouring)
    if n != int(n) or d != int(d) or not 1 <= n <= d:
        raise ValueError(f"need whole numbers 1 <= n <= d, got n = {n} and d = {d}")
