"""Budgets that hold for the top-n uploads of wang2018: composed on the shared sample first,
then amplified.

Every number is an upper bound, "a budget that holds", not "the cost"; `ppkit.audit` has lower
bounds beside it.

    get_upload_budget     epsilon of one selection -> the smallest budget that we can prove
    get_upload_budgets    the same by every proof
    calibrate_upload      a budget -> the epsilon of one selection that keeps it
    rounds_within         a budget and an epsilon -> how many uploads
"""

import bisect
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import optimize, stats
from scipy.special import logsumexp

from ppkit.accounting.budget import LEAST_RATE, NEIGHBOURING, Budget, counts, smallest
from ppkit.accounting.composition import amplified, kov_epsilon
from ppkit.accounting.renyi import (
    Curve,
    bounded_range_curve,
    curve_epsilon,
    laplace_curve,
    sampled_epsilon,
    sampled_log_moments,
)
from ppkit.validation import must_be, one_of

MECHANISMS = ("gumbel", "laplace", "laplace_signed_values")
EPSILONS = (1e-9, 1e6)  # of one selection: what is priced, and where the inverse looks
MOST_KOV = 2_000_000  # mechanisms composed by `kov_epsilon`: its memory grows with them
LEAST_DELTA = 1e-300


@dataclass(frozen=True)
class Release:
    """The uploads of one participant, and who its neighbours are.

    epsilon: of one selection, the noise scale is sensitivity / epsilon.
    """

    epsilon: float
    mechanism: str
    neighbouring: str
    sample_rate: float
    n_uploads: int
    n_parameters: int
    n_rounds: int

    def width(self) -> float:
        """The length of the interval in which the log-ratios of one selection lie."""
        return self.epsilon * (2 if self.neighbouring == "replace_one" else 1)

    def pure(self) -> float:
        """The epsilon of one upload before sampling, at delta 0."""
        if self.mechanism == "gumbel":
            return self.n_uploads * self.width()
        moved = self.n_parameters
        if self.mechanism == "laplace":
            moved = min(2 * self.n_uploads, self.n_parameters)
        return moved * self.width() / 2

    def kov(self, delta: float) -> float:
        """The epsilon of one upload before sampling, by optimal composition."""
        times = 2 * self.n_uploads if self.mechanism == "gumbel" else self.n_parameters
        return kov_epsilon(self.width() / 2, times, delta) if times <= MOST_KOV else math.inf

    def curve(self) -> Curve:
        """Its Renyi divergences before sampling."""
        if self.mechanism == "gumbel":
            return bounded_range_curve(self.width(), self.n_uploads)
        return laplace_curve(self.width() / 2, self.n_parameters)

    def renyi(self, delta: float) -> float:
        """The epsilon of one upload before sampling, by its curve."""
        return curve_epsilon(self.curve(), delta)

    def zcdp(self) -> float:
        """The rho of one upload before sampling."""
        releases = self.n_uploads if self.mechanism == "gumbel" else self.n_parameters
        return releases * self.width() ** 2 / 8


def get_upload_budget(
    epsilon: float,
    *,
    mechanism: str = "gumbel",
    neighbouring: str = "add_remove",
    sample_rate: float,
    n_uploads: int,
    n_parameters: int,
    delta: float = 2.0**-30,
    n_rounds: int = 1,
    rows_per_unit: int = 1,
) -> Budget:
    """The smallest budget that we can prove for `n_rounds` uploads of one participant.

    epsilon: from 1e-9 to 1e6; the noise scale is sensitivity / epsilon
    (sensitivity 2 B on the sum of clipped gradients).
    mechanism: "gumbel", "laplace" or "laplace_signed_values" (ppkit.mechanisms).
    neighbouring: "add_remove" or "replace_one".  sample_rate: q in (0, 1], Poisson, a fresh sample
    each round, ONE sample for the n selections; below 1e-12 it is priced as 1e-12.
    n_uploads: n, n_parameters: d, 1 <= n <= d.  delta: from 1e-300 to below q.
    n_rounds: >= 1, this participant's uploads.
    rows_per_unit: k >= 1, the rows that the protected thing touches (one transaction, one account).
    n, d, n_rounds and k are at most 10^9.
    Returns a Budget, finite; its delta is 0 where the pure bound is the best.  It grows with
    epsilon, q, n, n_rounds and k, up to one part in a hundred.  ValueError if an argument is out of
    range.
    Guarantee: (epsilon, delta)-DP over the real numbers for k rows of the participant's data,
    adaptive rounds included.
    Source: corrects wang2018, Theorem 4.2; the bounds and their proofs are in `get_upload_budgets`.

    >>> round(
    ...     get_upload_budget(0.1, sample_rate=0.01, n_uploads=1431, n_parameters=14312).epsilon, 1
    ... )
    7.2
    """
    return smallest(
        get_upload_budgets(
            epsilon,
            mechanism=mechanism,
            neighbouring=neighbouring,
            sample_rate=sample_rate,
            n_uploads=n_uploads,
            n_parameters=n_parameters,
            delta=delta,
            n_rounds=n_rounds,
            rows_per_unit=rows_per_unit,
        )
    )


def get_upload_budgets(
    epsilon: float,
    *,
    mechanism: str,
    neighbouring: str,
    sample_rate: float,
    n_uploads: int,
    n_parameters: int,
    delta: float,
    n_rounds: int = 1,
    rows_per_unit: int = 1,
) -> list[Budget]:
    """Every bound that we can prove, finite ones only; arguments as in `get_upload_budget`.

    One upload before sampling, w = 2 epsilon under replace-one and epsilon under add/remove (the
    range of a score):
    - pure: Gumbel n w; Laplace min(2 n, d) w / 2, by moving the noise of the chosen coordinates or
      all of it; laplace_signed_values d w / 2.
    - KOV (Kairouz, Oh, Viswanath): Gumbel as 2 n mechanisms of w / 2. A selection whose log-ratios
      lie in an interval of length w is dominated by a response with log-ratios t and t - w; that
      one has
          delta(E) = (e^w - e^t)(1 - e^(E - t)) / (e^w - 1)
                   <= (e^w - e^E) / (1 + e^(w/2))^2,
      which is two (w/2)-randomised responses: put W = e^(w - E), the claim is
          (sqrt(W) - 1) / (sqrt(W) + 1) = tanh((w - E) / 4) <= tanh(w / 4).
      Laplace as post-processing of d releases of w / 2.
    - Renyi: Gumbel n w^2 / 8-zCDP, Laplace d releases, `bounded_range_curve` and `laplace_curve`.
    Then sampling, M(S) the upload on the sample, x the record:
    - add/remove: (E, delta / q) becomes (ln(1 + q (e^E - 1)), delta).
    - replace-one x -> x', "joint convexity": the same formula with the replace-one E.
      With e^E' = 1 + q (e^E - 1) and beta = e^(E' - E),
          H_E'((1-q) M(S) + q M(S+x), (1-q) M(S) + q M(S+x'))
          = q H_E(M(S+x), (1-beta) M(S) + beta M(S+x'))
      (Balle, Barthe, Gaboardi 2018), and M(S+x) is within (E, delta / q) of both, adding being no
      dearer than replacing.
    - replace-one, "floor": the other side is at least (1 - q) M(S). So
          P(O) - e^E' P'(O) <= q M(S+x)(O) - (e^E' - 1)(1 - q) M(S)(O) <= q delta'
      if e^E' = 1 + q / (1 - q) e^E with the ADD/REMOVE (E, delta').
      For small q replacing costs hardly more than adding,
      a quarter of the zCDP and not four times of it.
    - pure replace-one: the ratio is at most (1 - q + q e^E) / (1 - q + q e^-E), E of add/remove;
      it is attained.
    Then rounds: basic, KOV over rounds with half of delta, or log-moments of the sampled upload
    (sampled_log_moments) added up, or Renyi without any gain from sampling.
    Or "few samples": let j_t of the k rows be in the sample of round t. By joint convexity over
    these patterns, H_E is at most P(sum_t j_t^2 > s) plus H_E given a pattern with
    sum_t j_t^2 <= s. Given a pattern, round t moves the scores j_t times as far, rho j_t^2 in
    zCDP, and a round with j_t = 0 is the same on both sides: s rho together, adaptive rounds
    included. (Gumbel rho = n w^2 / 8, Laplace d w^2 / 8.) Under add/remove the other direction
    holds at delta 0 from E = -k n_rounds ln(1 - q) on: e^-E is the chance that no row is sampled.
    k rows at once are one record that moves a score k times as far and is sampled, in part or
    whole, with chance 1 - (1 - q)^k: all of the above holds for k epsilon and that rate.
    Or: more than m of them are sampled with chance tau a round; given not, m epsilon will do; then
    delta grows by n_rounds tau, epsilon by -n_rounds ln(1 - tau).
    Or one row after the other:
    (E, delta') for one is (k E, delta' (e^(k E) - 1) / (e^E - 1)) for k.
    """
    must_be("a finite number > 0", epsilon=epsilon)
    if not EPSILONS[0] <= epsilon <= EPSILONS[1]:
        raise ValueError(f"epsilon must be from 1e-9 to 1e6, got {epsilon}")
    one_of(MECHANISMS, mechanism=mechanism)
    one_of(NEIGHBOURING, neighbouring=neighbouring)
    must_be("in (0, 1]", sample_rate=sample_rate)
    n_rounds, rows_per_unit, n_uploads, n_parameters = counts(
        n_rounds=n_rounds,
        rows_per_unit=rows_per_unit,
        n_uploads=n_uploads,
        n_parameters=n_parameters,
    )
    if n_uploads > n_parameters:
        raise ValueError(
            f"n_uploads must be at most n_parameters = {n_parameters}, got {n_uploads}"
        )
    must_be("> 0", delta=delta)
    if not LEAST_DELTA <= delta < sample_rate:
        raise ValueError(
            f"delta must be at least 1e-300 and below sample_rate = {sample_rate:g}, got {delta}"
        )
    rate = max(sample_rate, LEAST_RATE)
    release = Release(epsilon, mechanism, neighbouring, rate, n_uploads, n_parameters, n_rounds)
    if rows_per_unit == 1:
        bounds = _one_record(release, delta)
    else:
        bounds = _rows(release, rows_per_unit, delta)
    if rate < 1:
        bounds.append(_few_samples(release, rows_per_unit, delta))
    return [bound for bound in bounds if bound.epsilon < math.inf]


def calibrate_upload(
    total: float,
    *,
    mechanism: str = "gumbel",
    neighbouring: str = "add_remove",
    sample_rate: float,
    n_uploads: int,
    n_parameters: int,
    delta: float = 2.0**-30,
    n_rounds: int = 1,
    rows_per_unit: int = 1,
) -> float:
    """The epsilon for the noise scale with which `get_upload_budget` is `total`: its inverse.

    total: > 0, the budget wanted.  All others as in `get_upload_budget`.  Returns epsilon > 0,
    with get_upload_budget <= total, and hardly any larger one has it.
    ValueError if no epsilon in [1e-9, 1e6] does it.

    >>> round(calibrate_upload(0.37, sample_rate=0.01, n_uploads=1431, n_parameters=14312), 3)
    0.037
    """
    must_be("a finite number > 0", total=total)

    def excess(log_epsilon):
        budget = get_upload_budget(
            math.exp(log_epsilon),
            mechanism=mechanism,
            neighbouring=neighbouring,
            sample_rate=sample_rate,
            n_uploads=n_uploads,
            n_parameters=n_parameters,
            delta=delta,
            n_rounds=n_rounds,
            rows_per_unit=rows_per_unit,
        )
        return budget.epsilon - total

    low, high = map(math.log, EPSILONS)
    low, high = low + 1e-12, high - 1e-12  # exp may round to outside
    if excess(low) > 0 or excess(high) < 0:
        raise ValueError(f"no epsilon between 1e-9 and 1e6 gives a total of {total}")
    root, step = optimize.brentq(excess, low, high, xtol=1e-9), 2e-9
    while excess(root) > 0:  # a bound may jump there
        root, step = max(root - step, low), 2 * step
    return math.exp(root)


def rounds_within(
    total: float,
    *,
    epsilon: float,
    mechanism: str = "gumbel",
    neighbouring: str = "add_remove",
    sample_rate: float,
    n_uploads: int,
    n_parameters: int,
    delta: float = 2.0**-30,
    rows_per_unit: int = 1,
    at_most: int = 10**6,
) -> int:
    """How many uploads a participant may make before `total` is spent: the largest n_rounds with
    get_upload_budget <= total.

    total: > 0.  at_most: from 1 to 10^9, a whole number, where the search ends.
    All others as in `get_upload_budget`.
    Returns 0 ... at_most.
    Fixed before the first round, so the budget of all rounds together holds (no adaptive choice of
    its size is needed).
    """
    must_be("a finite number > 0", total=total)
    (at_most,) = counts(at_most=at_most)

    def spent(n_rounds):
        budget = get_upload_budget(
            epsilon,
            mechanism=mechanism,
            neighbouring=neighbouring,
            sample_rate=sample_rate,
            n_uploads=n_uploads,
            n_parameters=n_parameters,
            delta=delta,
            n_rounds=n_rounds,
            rows_per_unit=rows_per_unit,
        )
        return budget.epsilon

    return bisect.bisect_right(range(1, at_most + 1), total, key=spent)


def _one_record(release: Release, delta: float) -> list[Budget]:
    """Every bound for one record but "few samples"."""
    n_rounds = release.n_rounds
    pure = _pure(release)
    bounds = [Budget(n_rounds * pure, 0.0, "pure")]
    over_rounds = 1 < n_rounds <= 20_000
    if over_rounds:
        bounds.append(Budget(kov_epsilon(pure, n_rounds, delta), delta, "pure, rounds KOV"))
    basic = ", rounds basic" if n_rounds > 1 else ""
    for name, before in (("KOV", Release.kov), ("Renyi", Release.renyi)):
        each = _amplified(release, before, delta / n_rounds)
        bounds.append(Budget(n_rounds * each, delta, f"{name}{basic}"))
        each = _amplified(release, before, delta / (2 * n_rounds))
        if over_rounds and each < math.inf:
            composed = kov_epsilon(each, n_rounds, delta / 2)
            bounds.append(Budget(composed, delta, f"{name}, rounds KOV"))
    whole = curve_epsilon(release.curve(), delta, n_rounds)
    bounds.append(Budget(whole, delta, "Renyi, sampling ignored"))
    if release.sample_rate < 1:
        moments = _moments(replace(release, n_rounds=1))
        sampled = sampled_epsilon(moments, delta, n_rounds)
        bounds.append(Budget(sampled, delta, "Renyi of the sampled upload"))
    return bounds


def _pure(release: Release) -> float:
    """The epsilon of one sampled upload at delta 0."""
    q = release.sample_rate
    if release.neighbouring == "add_remove" or q == 1:
        return amplified(release.pure(), q)
    added = replace(release, neighbouring="add_remove").pure()
    stay, there = math.log1p(-q), math.log(q)
    return float(np.logaddexp(stay, there + added) - np.logaddexp(stay, there - added))


def _amplified(release: Release, before: Callable[[Release, float], float], delta: float) -> float:
    """The epsilon of one sampled upload: `before` sampling at delta / q, then the best
    amplification."""
    q = release.sample_rate
    joint = amplified(before(release, delta / q), q)
    if release.neighbouring == "add_remove" or q == 1:
        return joint
    added = before(replace(release, neighbouring="add_remove"), delta / q)
    floor = float(np.logaddexp(0.0, math.log(q) - math.log1p(-q) + added))
    return min(joint, floor)


@functools.lru_cache(maxsize=64)
def _moments(release: Release) -> np.ndarray:
    before = replace(release, neighbouring="add_remove").curve()
    return sampled_log_moments(before, release.sample_rate, release.neighbouring)


def _rows(release: Release, rows: int, delta: float) -> list[Budget]:
    """Every bound for several rows of one unit but "few samples"."""
    q, n_rounds = release.sample_rate, release.n_rounds
    any_of_them = -math.expm1(rows * math.log1p(-q)) if q < 1 else q
    together = replace(release, epsilon=rows * release.epsilon, sample_rate=any_of_them)
    bounds = _one_record(together, delta)
    at_most = max(1, _exceeded_rarely(delta / (2 * n_rounds), rows, q))
    if at_most < rows:
        chance = float(stats.binom.sf(at_most, rows, q))
        fewer = replace(together, epsilon=at_most * release.epsilon)
        for bound in _one_record(fewer, delta - n_rounds * chance):
            total = bound.epsilon - n_rounds * math.log1p(-chance)
            name = f"{bound.bound}, at most {at_most} of the rows sampled"
            bounds.append(Budget(total, delta, name))
    bounds.append(_row_by_row(release, rows, delta))
    return bounds


def _exceeded_rarely(chance: float, rows: int, q: float) -> int:
    """The least m that is exceeded by Binomial(rows, q) with at most this chance.

    scipy's binom.isf takes 1 - chance, which is 1 below 1.1e-16: so the tail itself is searched."""
    return bisect.bisect_left(
        range(rows + 1), -chance, key=lambda m: -float(stats.binom.sf(m, rows, q))
    )


def _few_samples(release: Release, rows: int, delta: float) -> Budget:
    """By how often the rows are sampled: `get_upload_budgets` has the proof."""
    q, n_rounds, rho = release.sample_rate, release.n_rounds, release.zcdp()

    def total(sum_of_squares, delta):
        return curve_epsilon(lambda orders: orders * rho * sum_of_squares, delta)

    largest = rows**2 * n_rounds
    sums = [*range(min(largest, 10_000))]
    if largest > 10_000:  # in steps of 1%
        sums += map(int, np.geomspace(1e4, float(largest), 3_000))
    chance_above = _chance_above(q, n_rounds, rows)
    first = bisect.bisect_right(sums, -delta, key=lambda at: -chance_above(at))
    best = total(largest, delta)
    for at in sums[first:]:
        if total(at, delta) >= best:  # and all that come after cost no less
            break
        best = min(best, total(at, delta - chance_above(at)))
    if release.neighbouring == "add_remove":
        best = max(best, -rows * n_rounds * math.log1p(-q))
    return Budget(best, delta, "few samples")


def _chance_above(q: float, n_rounds: int, rows: int) -> Callable[[int], float]:
    """An upper bound on P(sum_t j_t^2 > s) as a function of s, j_t of Binomial(rows, q),
    t = 1 ... n_rounds.

    One row: a binomial tail. More rows: Chernoff, min over h of E[e^(h j^2)]^n_rounds / e^(h s),
    and by Fourier transform where that is small enough; 1 where there are too many rows for both.
    """
    if rows == 1:
        return lambda at: float(stats.binom.sf(at, n_rounds, q)) * (1 + 1e-9)
    if rows > 10_000:
        return lambda at: 1.0
    j, h = np.arange(rows + 1), np.geomspace(1e-12, 100.0, 400)
    moments = logsumexp(stats.binom.logpmf(j, rows, q) + h[:, None] * j**2, axis=1)
    above = None
    if rows**2 * n_rounds <= 2**18:
        one_round = np.zeros(rows**2 * n_rounds + 1)
        one_round[j**2] = stats.binom.pmf(j, rows, q)
        law = np.fft.irfft(np.fft.rfft(one_round) ** n_rounds, one_round.size)
        rounding = 1e-12 + 1e-15 * n_rounds  # of the transform
        above = np.append(np.cumsum(law[:0:-1])[::-1], 0.0) + rounding

    def chance_above(at):
        chernoff = math.exp(min(0.0, float(np.min(n_rounds * moments - h * at))))
        return chernoff if above is None else min(chernoff, float(above[at]))

    return chance_above


def _row_by_row(release: Release, rows: int, delta: float) -> Budget:
    """Group privacy: one row's epsilon at the delta' that its own epsilon asks for, times rows."""
    epsilon, at = 0.0, delta / rows
    while at > 1e-290:
        one = smallest(_one_record(release, at))
        if one.epsilon <= epsilon:
            return Budget(rows * epsilon, delta, f"{one.bound}, row by row")
        epsilon = 1.01 * one.epsilon
        if rows * epsilon >= 600:
            break
        at = delta * math.expm1(epsilon) / math.expm1(rows * epsilon)
    return Budget(math.inf, delta, "row by row")
