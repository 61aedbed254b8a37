"""Budgets that hold for the top-n uploads of wang2018: composed on the shared sample first,
then amplified.

Every number is an upper bound, "a budget that holds", not "the cost"; `ppkit.audit` has lower
bounds beside it.

Renyi divergences are in nats. A curve is a function of orders alpha > 1 that bounds D_alpha in both
directions. Log-moments are K(alpha) = (alpha - 1) D_alpha = ln E_Q[(P / Q)^alpha]:
convex in alpha, 0 at alpha = 1, and they add up over rounds.
"""

import bisect
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats
from scipy.special import gammaln, logsumexp

from ppkit.refusals import must_be, one_of

NEIGHBOURING = ("add_remove", "replace_one")
Curve = Callable[[np.ndarray], np.ndarray]
ORDERS = np.r_[1:65, 68:129:4, 144:257:16, 288:513:32, 576:1025:64]
FINE_ORDERS = 1 + np.logspace(-4, 5, 2_000)
MECHANISMS = ("gumbel", "laplace", "laplace_signed_values")
EPSILONS = (1e-9, 1e6)  # of one selection: what is priced, and where the inverse looks
MOST = 10**9  # rounds, rows, uploads, parameters
MOST_KOV = 2_000_000  # mechanisms composed by `kov_epsilon`: its memory grows with them
LEAST_DELTA = 1e-300
LEAST_RATE = 1e-12  # a smaller one is priced as this


@dataclass(frozen=True)
class Budget:
    """A proved (epsilon, delta), and the bound that proves it."""

    epsilon: float
    delta: float  # 0.0 where the bound is pure
    bound: str


def valid_budget(
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
    Source: corrects wang2018, Theorem 4.2; the bounds and their proofs are in `budgets`.

    >>> round(valid_budget(0.1, sample_rate=0.01, n_uploads=1431, n_parameters=14312).epsilon, 1)
    7.2
    """
    return min(
        budgets(
            epsilon,
            mechanism=mechanism,
            neighbouring=neighbouring,
            sample_rate=sample_rate,
            n_uploads=n_uploads,
            n_parameters=n_parameters,
            delta=delta,
            n_rounds=n_rounds,
            rows_per_unit=rows_per_unit,
        ),
        key=lambda budget: budget.epsilon,
    )


def budgets(
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
    """Every bound that we can prove, for the table in the notebook; arguments as in `valid_budget`.

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
    n_rounds, rows_per_unit, n_uploads, n_parameters = _counts(
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
    sample_rate = max(sample_rate, LEAST_RATE)
    rate, settings = sample_rate, (mechanism, neighbouring, n_uploads, n_parameters, n_rounds)
    if rows_per_unit > 1 and sample_rate < 1:
        rate = -math.expm1(rows_per_unit * math.log1p(-sample_rate))
    found = _bounds(rows_per_unit * epsilon, rate, delta, *settings)
    at_most = max(1, _exceeded_rarely(delta / (2 * n_rounds), rows_per_unit, sample_rate))
    if at_most < rows_per_unit:
        tau = float(stats.binom.sf(at_most, rows_per_unit, sample_rate))
        found += [
            (
                total - n_rounds * math.log1p(-tau),
                delta,
                f"{bound}, at most {at_most} of the rows sampled",
            )
            for total, _, bound in _bounds(
                at_most * epsilon, rate, delta - n_rounds * tau, *settings
            )
        ]
    if sample_rate < 1:
        found.append(_few_samples(epsilon, sample_rate, delta, *settings, rows_per_unit))
    if rows_per_unit > 1:
        found.append(
            _row_by_row(
                lambda at: min(_bounds(epsilon, sample_rate, at, *settings)), rows_per_unit, delta
            )
        )
    return [Budget(*one) for one in found if one[0] < math.inf]


def _counts(**counts) -> list[int]:
    """The counts as whole numbers; ValueError for one that is none, or is above MOST."""
    must_be("a whole number >= 1", **counts)
    for name, count in counts.items():
        if count > MOST:
            raise ValueError(f"{name} must be at most 1,000,000,000, got {count}")
    return [int(count) for count in counts.values()]


def _exceeded_rarely(chance: float, rows: int, q: float) -> int:
    """The least m that is exceeded by Binomial(rows, q) with at most this chance.

    scipy's binom.isf takes 1 - chance, which is 1 below 1.1e-16: so the tail itself is searched."""
    return bisect.bisect_left(
        range(rows + 1), -chance, key=lambda m: -float(stats.binom.sf(m, rows, q))
    )


def _bounds(
    epsilon, sample_rate, delta, mechanism, neighbouring, n_uploads, n_parameters, n_rounds
):
    """(epsilon, delta, name) of every bound for one record."""
    one = functools.partial(
        _one_upload, epsilon, mechanism, neighbouring, sample_rate, n_uploads, n_parameters
    )
    each = one("pure", None)
    found = [(n_rounds * each, 0.0, "pure")]
    if 1 < n_rounds <= 20_000:
        found.append((kov_epsilon(each, n_rounds, delta), delta, "pure, rounds KOV"))
    basic = ", rounds basic" if n_rounds > 1 else ""
    for bound in ("KOV", "Renyi"):
        found.append((n_rounds * one(bound, delta / n_rounds), delta, f"{bound}{basic}"))
        each = one(bound, delta / (2 * n_rounds))
        if 1 < n_rounds <= 20_000 and each < math.inf:
            found.append((kov_epsilon(each, n_rounds, delta / 2), delta, f"{bound}, rounds KOV"))
    whole = _curve(epsilon, mechanism, neighbouring, n_uploads, n_parameters)
    found.append((curve_epsilon(whole, delta, n_rounds), delta, "Renyi, sampling ignored"))
    if sample_rate < 1:
        moments = _moments(epsilon, mechanism, neighbouring, sample_rate, n_uploads, n_parameters)
        found.append(
            (sampled_epsilon(moments, delta, n_rounds), delta, "Renyi of the sampled upload")
        )
    return found


def _few_samples(epsilon, q, delta, mechanism, neighbouring, n, d, n_rounds, rows):
    """(total, delta, name) by how often the rows are sampled: `budgets` has the proof."""
    width = epsilon * (2 if neighbouring == "replace_one" else 1)
    rho = (n if mechanism == "gumbel" else d) * width**2 / 8

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
    if neighbouring == "add_remove":
        best = max(best, -rows * n_rounds * math.log1p(-q))
    return best, delta, "few samples"


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


def kov_epsilon(epsilon: float, k: int, delta: float) -> float:
    """Smallest E such that k adaptive epsilon-DP mechanisms are together (E, delta)-DP:
    the optimal composition.

    delta(E) = sum over l with (k - 2 l) epsilon > E of
               C(k, l) (e^((k - l) epsilon) - e^(E + l epsilon)) / (1 + e^epsilon)^k
    epsilon: >= 0, finite.  k: from 1 to 10^7, a whole number.  delta: in (0, 1).  The sum is linear
    in e^E between its corners and is solved there: no grid.
    Source: Kairouz, Oh and Viswanath (2015), Theorem 3.3.

    >>> kov_epsilon(1.0, 1, 1e-9) < 1.0 and kov_epsilon(1.0, 1, 0.5) == 0.0
    True
    """
    must_be("a finite number >= 0", epsilon=epsilon)
    must_be("a whole number >= 1", k=k)
    must_be("in (0, 1)", delta=delta)
    if k > 10**7:
        raise ValueError(f"k must be at most 10,000,000, got {k}")
    k = int(k)
    l = np.arange(k // 2 + 1)  # the other half has a loss below 0
    loss = (k - 2 * l) * epsilon
    log_p = (
        gammaln(k + 1)
        - gammaln(l + 1)
        - gammaln(k - l + 1)
        - l * epsilon
        - k * math.log1p(math.exp(-epsilon))
    )
    below = np.logaddexp.accumulate(log_p)
    above = np.logaddexp.accumulate(log_p - loss)
    corner = np.append(loss[1:], 0.0)  # the sum of l + 1 terms holds for E in [corner_l, loss_l)
    with np.errstate(divide="ignore"):
        at_corner = below + np.log(-np.expm1(np.minimum(corner + above - below, 0.0)))
    enough = np.flatnonzero(at_corner >= math.log(delta))
    if enough.size == 0:
        return 0.0
    first = enough[0]
    return max(
        0.0,
        float(below[first] + math.log(-math.expm1(math.log(delta) - below[first])) - above[first]),
    )


def epsilon_for(total: float, **settings) -> float:
    """The epsilon for the noise scale with which `valid_budget` is `total`: its inverse.

    total: > 0, the budget wanted.  settings: all other arguments of `valid_budget`.  Returns
    epsilon > 0, with valid_budget <= total, and hardly any larger one has it.
    ValueError if no epsilon in [1e-9, 1e6] does it.

    >>> round(epsilon_for(0.37, sample_rate=0.01, n_uploads=1431, n_parameters=14312), 3)
    0.037
    """
    must_be("a finite number > 0", total=total)

    def excess(log_epsilon):
        return valid_budget(math.exp(log_epsilon), **settings).epsilon - total

    low, high = map(math.log, EPSILONS)
    low, high = low + 1e-12, high - 1e-12  # exp may round to outside
    if excess(low) > 0 or excess(high) < 0:
        raise ValueError(f"no epsilon between 1e-9 and 1e6 gives a total of {total}")
    root, step = optimize.brentq(excess, low, high, xtol=1e-9), 2e-9
    while excess(root) > 0:  # a bound may jump there
        root, step = max(root - step, low), 2 * step
    return math.exp(root)


def rounds_within(total: float, *, epsilon: float, at_most: int = 10**6, **settings) -> int:
    """How many uploads a participant may make before `total` is spent: the largest n_rounds with
    valid_budget <= total.

    total: > 0.  at_most: from 1 to 10^9, a whole number, where the search ends.
    epsilon, settings: the arguments of `valid_budget`, but for n_rounds.  Returns 0 ... at_most.
    Fixed before the first round, so the budget of all rounds together holds (no adaptive choice of
    its size is needed).
    """
    must_be("a finite number > 0", total=total)
    (at_most,) = _counts(at_most=at_most)

    def spent(n_rounds):
        return valid_budget(epsilon, n_rounds=n_rounds, **settings).epsilon

    return bisect.bisect_right(range(1, at_most + 1), total, key=spent)


def bounded_range_curve(width: float, n_selections: int) -> Curve:
    """D_alpha <= alpha n width^2 / 8 for n adaptive selections whose log-ratios lie in an interval
    of length `width`.

    width: > 0, finite.  n_selections: n >= 1.  ValueError if an argument is out of range.
    Source: Cesar and Rogers (2021): bounded range is (width^2 / 8)-zCDP.
    """
    must_be("a finite number > 0", width=width)
    must_be("a whole number >= 1", n_selections=n_selections)
    return lambda orders: orders * (n_selections * (width * width) / 8)


def laplace_curve(shift: float, n_values: int) -> Curve:
    """D_alpha of n Laplace releases whose values each move by at most `shift` noise scales; exact
    where all do.

    D_alpha = n / (alpha - 1) ln(alpha / (2 alpha - 1) e^((alpha - 1) shift)
                                 + (alpha - 1) / (2 alpha - 1) e^(-alpha shift))
    shift: > 0, finite.  n_values: n >= 1.  ValueError if an argument is out of range.
    Source: Mironov (2017), Table II.
    """
    must_be("a finite number > 0", shift=shift)
    must_be("a whole number >= 1", n_values=n_values)

    def curve(orders):
        up = np.log(orders / (2 * orders - 1)) + (orders - 1) * shift
        down = np.log((orders - 1) / (2 * orders - 1)) - orders * shift
        rounding = 4 * np.finfo(float).eps
        exact = (np.maximum(np.logaddexp(up, down), 0.0) + rounding) / (orders - 1)
        return n_values * np.minimum(
            exact, orders * (shift * shift) / 2
        )  # a shift-DP release is (shift^2 / 2)-zCDP

    return curve


def to_epsilon(orders: np.ndarray, log_moments: np.ndarray, delta: float) -> float:
    """Smallest epsilon that the log-moments give at `delta`.

    min over alpha of (K(alpha) - ln delta - ln alpha) / (alpha - 1) + ln(1 - 1 / alpha),
    and at least 0
    orders, log_moments: (m,), alpha > 1.  delta: in (0, 1).  Every order is valid, so a coarse grid
    is only looser.  ValueError if delta is out of range, or no log-moment is finite.
    Source: Canonne, Kamath and Steinke (2020), Proposition 12.
    """
    must_be("in (0, 1)", delta=delta)
    orders, log_moments = np.asarray(orders, float), np.asarray(log_moments, float)
    if not ((orders > 1) & (orders < math.inf)).all():
        raise ValueError(f"orders must be finite and above 1, got {orders.min()} to {orders.max()}")
    if orders.shape != log_moments.shape or np.isnan(log_moments).any():
        raise ValueError(
            "orders and log_moments must be as many numbers, "
            f"got {orders.shape} and {log_moments.shape}"
        )
    if not (log_moments < math.inf).any():
        raise ValueError("log_moments must be finite at one order at least, got infinite ones")
    values = (log_moments - np.log(delta) - np.log(orders)) / (orders - 1) + np.log1p(-1 / orders)
    return max(0.0, float(np.min(values)))


def curve_epsilon(curve: Curve, delta: float, n_rounds: int = 1) -> float:
    """Epsilon at `delta` of `n_rounds` uploads of this curve, without any gain from sampling.

    delta: in (0, 1).  n_rounds: from 1 to 10^9.  ValueError if an argument is out of range.
    """
    _counts(n_rounds=n_rounds)
    return to_epsilon(FINE_ORDERS, n_rounds * (FINE_ORDERS - 1) * curve(FINE_ORDERS), delta)


def sampled_log_moments(curve: Curve, sample_rate: float, neighbouring: str) -> np.ndarray:
    """Upper bounds on K(alpha) at ORDERS for an upload computed on ONE Poisson sample.

    curve: add/remove curve of the upload before sampling.  sample_rate: q in (0, 1), priced as
    1e-12 below that.  neighbouring: "add_remove" or "replace_one".
    Returns (len(ORDERS),), >= 0.  ValueError if an argument is out of range.
    Guarantee: for any mechanism with that curve, both directions,
    neighbouring "add_remove" or "replace_one".
    Proof. Write M0 for the upload without the record, a = M1 / M0 for its ratio with it (x in,
    given the rest of the sample); by joint convexity one sample of the rest is enough.
    Let c(alpha) = (1 - q)^(1 - alpha) - 1 - (alpha - 1) q.
    (1) With the record against without: E[(1 - q + q a)^alpha], expanded by the binomial theorem:
        `forth`, exact.
    (2) Without against with: E[f(a)], f(a) = (1 - q + q a)^(1 - alpha). Its second-order remainder
        at a = 1, divided by (a - 1)^2, falls in a, so is at most its value at a = 0:
        E f <= 1 + c(alpha) chi2, chi2 = E(a - 1)^2; also f <= (1 - q)^(1 - alpha): `back`.
    (3) Replace-one, ratios a and b: E[(1 - q + q a)^alpha f(b)] is at most
        forth * (1 - q)^(1 - alpha), and at most
        forth * back + sqrt(Var (1 - q + q a)^alpha  Var f(b)) by Cauchy-Schwarz; both means are
        >= 1, so the variances are at most forth(2 alpha) - 1 and back(2 alpha - 1) - 1.
    Source: (1) as in Mironov, Talwar and Zhang (2019); (2) and (3) are ours, checked against
    enumeration in the tests.
    """
    must_be("in (0, 1)", sample_rate=sample_rate)
    one_of(NEIGHBOURING, neighbouring=neighbouring)
    q = max(sample_rate, LEAST_RATE)
    whole = np.arange(2.0, 2 * ORDERS[-1] + 1)
    pieces = np.append([-np.inf, -np.inf], _log_expm1((whole - 1) * curve(whole)))  # ln(E[a^l] - 1)
    orders = ORDERS[1:]

    def back_excess(alpha):  # ln(back - 1)
        ceiling = (1 - alpha) * np.log1p(-q)
        with np.errstate(over="ignore"):
            c = np.maximum(np.expm1(ceiling) - (alpha - 1) * q, alpha * (alpha - 1) / 2 * q * q)
        return np.minimum(np.log(c) + pieces[2], _log_expm1(ceiling))

    forth = np.logaddexp(0.0, _binomial_excess(pieces, q, 1))
    back = np.logaddexp(0.0, back_excess(orders))
    if neighbouring == "add_remove":
        return np.append(0.0, np.maximum(forth, back))
    spread = 0.5 * (_binomial_excess(pieces, q, 2) + back_excess(2 * orders - 1))
    return np.append(
        0.0, np.minimum(forth - (orders - 1) * np.log1p(-q), np.logaddexp(forth + back, spread))
    )


def sampled_epsilon(log_moments: np.ndarray, delta: float, n_rounds: int) -> float:
    """Epsilon at `delta` of `n_rounds` rounds of these log-moments at ORDERS; chords between orders
    are valid bounds.

    delta: in (0, 1).  n_rounds: from 1 to 10^9.  ValueError if an argument is out of range.
    """
    _counts(n_rounds=n_rounds)
    log_moments = np.asarray(log_moments, float)
    if log_moments.shape != ORDERS.shape:
        raise ValueError(
            f"log_moments must be {ORDERS.shape}, one for each of ORDERS, got {log_moments.shape}"
        )
    orders = np.unique(np.r_[np.arange(1.02, 12, 0.02), ORDERS[1:]])
    return to_epsilon(orders, n_rounds * np.interp(orders, ORDERS, log_moments), delta)


def _row_by_row(one_row, rows, delta):
    """(total, delta, name) of group privacy: one row's epsilon at the delta' that its own epsilon
    asks for, times rows."""
    epsilon, at = 0.0, delta / rows
    while at > 1e-290:
        reached, _, bound = one_row(at)
        if reached <= epsilon:
            return rows * epsilon, delta, f"{bound}, row by row"
        epsilon = 1.01 * reached
        at = (
            delta * math.expm1(epsilon) / math.expm1(rows * epsilon)
            if rows * epsilon < 600
            else 0.0
        )
    return math.inf, delta, "row by row"


def _one_upload(epsilon, mechanism, neighbouring, q, n, d, bound, delta):
    """Budget of one sampled upload: `bound` before sampling at delta / q, then the best
    amplification."""

    def before(relation):
        width = epsilon * (2 if relation == "replace_one" else 1)
        if bound == "pure":
            moved = d if mechanism == "laplace_signed_values" else min(2 * n, d)
            return n * width if mechanism == "gumbel" else moved * width / 2
        if bound == "KOV":
            times = 2 * n if mechanism == "gumbel" else d
            return kov_epsilon(width / 2, times, delta / q) if times <= MOST_KOV else math.inf
        return curve_epsilon(_curve(epsilon, mechanism, relation, n, d), delta / q)

    joint = amplified(before(neighbouring), q)
    if neighbouring == "add_remove" or q == 1:
        return joint
    add = before("add_remove")
    stay = math.log1p(-q)
    if bound == "pure":
        return float(np.logaddexp(stay, math.log(q) + add) - np.logaddexp(stay, math.log(q) - add))
    return min(joint, float(np.logaddexp(0.0, math.log(q) - stay + add)))


def amplified(epsilon: float, q: float) -> float:
    """ln(1 + q (e^epsilon - 1)): an epsilon-DP mechanism on a Poisson sample of rate q, add/remove.

    epsilon: >= 0, infinity included.  q: in (0, 1].  ValueError if an argument is out of range.
    """
    must_be(">= 0", epsilon=epsilon)
    must_be("in (0, 1]", q=q)
    if epsilon < 30:
        return math.log1p(q * math.expm1(epsilon))
    return float(np.logaddexp(math.log1p(-q) if q < 1 else -math.inf, math.log(q) + epsilon))


def _curve(epsilon, mechanism, neighbouring, n, d):
    width = epsilon * (2 if neighbouring == "replace_one" else 1)
    return bounded_range_curve(width, n) if mechanism == "gumbel" else laplace_curve(width / 2, d)


@functools.lru_cache(maxsize=64)
def _moments(epsilon, mechanism, neighbouring, q, n, d):
    return sampled_log_moments(_curve(epsilon, mechanism, "add_remove", n, d), q, neighbouring)


def _log_expm1(values):
    return values + np.log(-np.expm1(-values))


def _binomial_excess(pieces, q, factor):
    """ln(E[(1 - q + q a)^alpha] - 1) at alpha = factor * ORDERS[1:]:
    binomial weights times E[a^l] - 1, no cancellation."""
    rows, columns, binomial, starts = _binomials(factor)
    terms = binomial + (rows - columns) * np.log1p(-q) + columns * np.log(q) + pieces[columns]
    peak = np.maximum.reduceat(terms, starts)
    lengths = np.diff(np.append(starts, terms.size))
    return peak + np.log(np.add.reduceat(np.exp(terms - np.repeat(peak, lengths)), starts))


@functools.cache
def _binomials(factor):
    """For every alpha = factor * ORDERS[1:], one after the other:
    alpha, l = 2 ... alpha, ln C(alpha, l), and the starts."""
    orders = factor * ORDERS[1:]
    rows = np.repeat(orders, orders - 1)
    columns = np.concatenate([np.arange(2, order + 1) for order in orders])
    starts = np.append(0, np.cumsum(orders - 1)[:-1])
    return (
        rows,
        columns,
        gammaln(rows + 1) - gammaln(columns + 1) - gammaln(rows - columns + 1),
        starts,
    )
