"""Attained epsilons against nested quadrature, enumeration, runs of the real mechanisms, and the
proved upper bounds."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import log_expit, logsumexp

from ppkit import accounting, audit, mechanisms
from ppkit.dpstgd import formulas
from ppkit.dpstgd.formulas import TABLE_1

FAILURE = 1e-7
D = 14_312


def density(z):
    return 0.5 * math.exp(-abs(z))


def within(r, at):
    """P(|at + Laplace| <= r)."""

    def cdf(z):
        return 0.5 * math.exp(z) if z < 0 else 1 - 0.5 * math.exp(-z)

    return cdf(r - at) - cdf(-r - at)


def event_chance(g, n):
    """Oracle: P(the first n are chosen, all +) for n = 1 or 2, Laplace noise of scale 1, by
    (nested) quadrature."""

    def others(r):
        return math.prod(within(r, at) for at in g[n:])

    corners = sorted({abs(v) for v in g})
    if n == 1:
        return integrate.quad(
            lambda z: density(z - g[0]) * others(z), 0, 60, points=corners, limit=500
        )[0]

    def smaller(z):  # the smaller of the two chosen values is z
        beyond = [
            1 - integrate.quad(lambda y: density(y - at), -60, z, points=[at], limit=200)[0]
            for at in g[:2]
        ]
        return (density(z - g[0]) * beyond[1] + density(z - g[1]) * beyond[0]) * others(z)

    return integrate.quad(smaller, 0, 50, points=corners, limit=200)[0]


def laplace_log_chance(shift, n, d, height=60.0):
    """ln P(event) up to a constant, the first n pushed by `shift`,
    the others from `height` down by it.

    Far below 0, P(noisy > t) = e^(shift - t) times a constant for t >= 0. The others' largest
    |noisy| has distribution F(t)^(d - n), so by parts
        P = e^(n shift) n int_0^inf e^(-n t) F(t)^(d - n) dt.
    """
    if n == d:
        return n * shift
    m = height - shift
    width = 0.05 if n <= 20_000 else 1_000 / n
    t, log_w = audit._panels(np.array([0.0, m, m + 60.0 + 2 * math.log(d)]), width)
    inside = np.log(-np.expm1(-2 * t)) + t - math.log(2) - m  # ln(e^-m sinh t), |noisy| below t < m
    outside = np.log1p(-0.5 * np.exp(np.minimum(m - t, 0.0)) * (1 + math.exp(-2 * m)))
    log_cdf = np.where(t < m, inside, outside)
    return n * shift + float(logsumexp(log_w - n * t + (d - n) * log_cdf))


def gumbel_log_chance(shift, n, d, depth=30.0, height=90.0):
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


def plausible(hits, trials, chance):
    """True unless `hits` is an event of chance < FAILURE (two binomial tails)."""
    return (
        min(stats.binom.cdf(hits, trials, chance), stats.binom.sf(hits - 1, trials, chance))
        > FAILURE / 2
    )


@pytest.mark.parametrize("n, d", [(1, 1), (1, 2), (3, 8), (40, 60), (8, 1_000), (500, 2_000)])
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 5.0, 100.0])
def test_the_ratios_are_those_of_the_chances(epsilon, n, d):
    height = max(60.0, 50.0 + epsilon / 2)
    depth = max(30.0, 20.0 + epsilon / 2)
    limits = {"laplace": dict(height=height), "gumbel": dict(depth=depth, height=3 * depth)}
    for mechanism, chance in dict(laplace=laplace_log_chance, gumbel=gumbel_log_chance).items():
        for shift in (epsilon / 2, -epsilon / 2):
            with_it, without = (chance(by, n, d, **limits[mechanism]) for by in (shift, 0.0))
            ratio = audit._LOG_RATIOS[mechanism](shift, n, d, epsilon)
            assert ratio == pytest.approx(with_it - without, rel=1e-7, abs=1e-8)


# ---- the small counter-examples


@pytest.mark.parametrize("n, d", [(1, 2), (1, 4), (2, 3)])
@pytest.mark.parametrize("shift", [-0.5, 0.0, 0.3])
def test_laplace_event_against_nested_quadrature(n, d, shift):
    depth, height = 1.0, 2.0
    g = [shift - depth] * n + [height - shift] * (d - n)
    ours = (
        laplace_log_chance(shift, n, d, height=height) - n * depth - n * math.log(2) + math.log(n)
    )
    assert math.exp(ours) == pytest.approx(event_chance(g, n), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism, chance",
    [
        (
            "laplace",
            lambda n, d: (
                laplace_log_chance(0.2, n, d, height=0.4) - 0.3 * n - n * math.log(2) + math.log(n)
            ),
        ),
        ("gumbel", lambda n, d: gumbel_log_chance(0.2, n, d, depth=0.3, height=0.4)),
    ],
)
def test_events_happen_as_often_in_the_real_mechanism(mechanism, chance):
    n, d, trials = 2, 4, 30_000
    g = np.array([0.2 - 0.3] * n + [0.4 - 0.2] * (d - n))
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(trials):
        indices, signs = mechanisms.SELECTIONS[mechanism](g, n, scale=1.0, rng=rng)
        hits += indices.tolist() == [0, 1] and signs.tolist() == [1, 1]
    assert plausible(hits, trials, math.exp(chance(n, d)))


def test_gumbel_event_against_enumeration():
    n, d, shift, depth, height = 2, 4, 0.4, 1.0, 0.7
    weights = [2 * math.cosh(shift - depth)] * n + [2 * math.cosh(height - shift)] * (d - n)
    exact = 0.0
    for order in itertools.permutations(range(n)):
        left, chance = sum(weights), 1.0
        for j in order:
            chance *= math.exp(shift - depth) / left
            left -= weights[j]
        exact += chance
    assert gumbel_log_chance(shift, n, d, depth, height) == pytest.approx(
        math.log(exact), rel=1e-12
    )


def test_the_small_counter_examples_of_the_reading():
    claimed = formulas.basic_budget(1.0, sample_rate=0.1, n_uploads=3)
    assert claimed == pytest.approx(0.951, abs=5e-4)
    attained = audit.exact_top_n(1.0, sample_rate=0.1, n=3, d=8, neighbouring="add_remove")
    assert attained == pytest.approx(1.068, abs=5e-4) and attained > claimed
    assert audit.exact_top_n(
        1.0, sample_rate=0.1, n=3, d=8, neighbouring="replace_one"
    ) == pytest.approx(1.1675, abs=5e-4)
    for n in (1, 2):  # Poisson samples: not until n = 3, for both relations
        for relation in accounting.NEIGHBOURING:
            small = audit.exact_top_n(1.0, sample_rate=0.1, n=n, d=8, neighbouring=relation)
            assert small < formulas.basic_budget(1.0, sample_rate=0.1, n_uploads=n)
    one = dict(sample_rate=0.1, n=1, d=4, neighbouring="replace_one")
    assert audit.exact_top_n(1.0, **one) == pytest.approx(
        math.log((0.9 + 0.1 * math.e) / (0.9 + 0.1 / math.e)), rel=1e-9
    )


@pytest.mark.parametrize("mechanism", ["laplace", "gumbel"])
@pytest.mark.parametrize("neighbouring", accounting.NEIGHBOURING)
@pytest.mark.parametrize("q", [0.1, 1.0])
@pytest.mark.parametrize("n, d", [(1, 1), (1, 4), (3, 4), (3, 8), (4, 4)])
def test_pure_bounds_are_attained_and_never_passed(mechanism, neighbouring, q, n, d):
    attained = audit.exact_top_n(
        1.0, sample_rate=q, n=n, d=d, neighbouring=neighbouring, mechanism=mechanism
    )
    proved = accounting.get_upload_budgets(
        1.0,
        mechanism=mechanism,
        neighbouring=neighbouring,
        sample_rate=q,
        n_uploads=n,
        n_parameters=d,
        delta=1e-9,
    )[0].epsilon
    assert attained <= proved * (1 + 1e-9)
    assert attained == pytest.approx(proved, rel=1e-6)


# ---- Table I

READING = {0: 6.5, 1: 12.3, 2: 8.7, 4: 85, 5: 148, 6: 89}


@pytest.mark.parametrize("i", range(8))
@pytest.mark.parametrize("mechanism", ["laplace", "gumbel"])
def test_table_1_is_passed_where_a_sample_was_shared_and_our_budgets_are_not(i, mechanism):
    row = TABLE_1[i]
    settings = dict(sample_rate=row.sample_rate, n_uploads=row.n_uploads, n_parameters=D)
    for relation in accounting.NEIGHBOURING:
        attained = audit.sign_count(
            row.epsilon, mechanism=mechanism, neighbouring=relation, **settings
        )
        proved = accounting.get_upload_budget(
            row.epsilon, mechanism=mechanism, neighbouring=relation, **settings
        ).epsilon
        assert attained <= proved
        assert (attained > float(row.printed_advanced)) == (row.sample_rate < 1)
        if relation == "add_remove" and i in READING:
            assert attained == pytest.approx(
                READING[i], abs=0.5 if isinstance(READING[i], int) else 0.05
            )
    pure = audit.exact_top_n(
        row.epsilon, sample_rate=row.sample_rate, n=row.n_uploads, d=D, neighbouring="add_remove"
    )
    assert (pure > float(row.printed_basic)) == (row.sample_rate < 1)


def test_row_1_without_delta():
    pure = audit.exact_top_n(0.1, sample_rate=0.01, n=1431, d=D, neighbouring="add_remove")
    chosen_only = math.log1p(
        0.01 * math.expm1(1431 * 0.1 / 2)
    )  # the reading's 66.9: nobody else is pushed down
    assert chosen_only == pytest.approx(66.9, abs=0.05)
    assert pure == pytest.approx(math.log1p(0.01 * math.expm1(1431 * 0.1)), rel=1e-9)


@pytest.mark.parametrize("neighbouring", accounting.NEIGHBOURING)
@pytest.mark.parametrize(
    "n, q, delta", [(4, Fraction(1, 4), 1e-3), (7, Fraction(1, 2), 1e-2), (3, Fraction(1), 0.05)]
)
def test_sign_count_against_exact_fractions(neighbouring, n, q, delta):
    plus = Fraction(3, 5)  # e^epsilon = 3 / 2

    def law(up):
        return [
            (1 - q) * Fraction(math.comb(n, k), 2**n)
            + q * math.comb(n, k) * up**k * (1 - up) ** (n - k)
            for k in range(n + 1)
        ]

    record, other = law(plus), law(Fraction(1, 2) if neighbouring == "add_remove" else 1 - plus)
    attained = audit.sign_count(
        math.log(1.5),
        sample_rate=float(q),
        n_uploads=n,
        n_parameters=50,
        mechanism="gumbel",
        neighbouring=neighbouring,
        delta=delta,
    )
    assert attained > 0
    exact = sum(max(p - Fraction(math.exp(attained)) * r, 0) for p, r in zip(record, other))
    assert float(exact) == pytest.approx(delta, rel=1e-7)


@pytest.mark.parametrize("mechanism", ["laplace", "gumbel"])
def test_signs_are_as_often_plus_as_sign_count_says(mechanism):
    n, d, epsilon, runs = 20, 400, 0.8, 1_500
    rng = np.random.default_rng(2)
    plus = sum(
        int(
            (
                mechanisms.SELECTIONS[mechanism](np.full(d, epsilon / 2), n, scale=1.0, rng=rng)[1]
                == 1
            ).sum()
        )
        for _ in range(runs)
    )
    assert plausible(plus, n * runs, 1 / (1 + math.exp(-epsilon)))


def test_sign_count_gives_laplace_less_where_small_values_are_chosen():
    settings = dict(sample_rate=0.5, n_parameters=40, neighbouring="add_remove", delta=1e-4)
    at = {n: audit.sign_count(1.0, mechanism="laplace", n_uploads=n, **settings) for n in (10, 30)}
    gumbel = {
        n: audit.sign_count(1.0, mechanism="gumbel", n_uploads=n, **settings) for n in (10, 30)
    }
    assert 0 < at[10] <= gumbel[10] and at[30] == 0.0 < gumbel[30]


# ---- values, l2, the true sign


def test_returned_values_attain_d_epsilon_also_in_runs():
    runs, d = 200_000, 3
    rng = np.random.default_rng(3)
    low, high = (
        mechanisms.laplace(np.full((runs, d), at), scale=1.0, rng=rng).max(axis=1) < 0
        for at in (0.0, 1.0)
    )
    counted = audit.empirical_epsilon(int(low.sum()), runs, int(high.sum()), runs, failure=FAILURE)
    assert (
        2.0 < counted <= audit.returned_values(1.0, n_parameters=d) == pytest.approx(3.0)
    )  # 2 n epsilon = 2 is claimed


def test_l2_calibration_by_density_ratio():
    d, epsilon = 16, 0.7
    mean = np.full(d, 1 / math.sqrt(d))  # l2 norm 1
    scale = 1.0 / epsilon
    point = np.full(d, -3.0)
    ratio = (np.abs(point - mean) - np.abs(point)).sum() / scale
    assert (
        audit.laplace_l2(epsilon, n_parameters=d)
        == pytest.approx(ratio)
        == pytest.approx(4 * epsilon)
    )


def test_the_true_sign_is_seen_with_certainty():
    rng, runs = np.random.default_rng(4), 400

    def minus_seen(g):
        return sum(
            int((mechanisms.laplace_true_sign(g, 3, scale=1e3, rng=rng)[1] < 0).any())
            for _ in range(runs)
        )

    hits, other = (
        minus_seen(np.full(50, -0.5)),
        minus_seen(np.full(50, 0.5)),
    )  # one record apart, 0.001 epsilon of noise
    assert (hits, other) == (runs, 0)
    assert audit.empirical_epsilon(hits, runs, other, runs) > 3.0


# ---- Theorem 4.3


def test_selection_probability_of_two_in_closed_form():
    for gap in (0.0, 0.3, 2.0, 9.0):
        top, second = audit.selection_probability([gap + 5, 5])
        assert second == pytest.approx(math.exp(-gap) * (gap / 4 + 0.5), rel=1e-9)
        assert top / second == pytest.approx(formulas.selection_ratio_bound(gap), rel=1e-9)


def test_selection_probability_against_runs():
    values, runs = np.array([1.5, 1.0, 0.2, 0.0]), 200_000
    exact = audit.selection_probability(values)
    rng = np.random.default_rng(5)
    chosen = mechanisms.laplace(np.tile(values, (runs, 1)), scale=1.0, rng=rng).argmax(axis=1)
    for i, p in enumerate(exact):
        assert plausible(int((chosen == i).sum()), runs, p)


@pytest.mark.slow
def test_theorem_4_3_holds_and_its_proof_does_not():
    rng = np.random.default_rng(6)
    for d in (2, 3, 10, 40, 100):
        for spread in (0.05, 1.0, 6.0):
            values = np.sort(rng.exponential(spread, d))[::-1]
            exact = audit.selection_probability(values)
            assert exact.sum() == pytest.approx(1, abs=1e-10)
            assert exact[0] / exact[1] >= formulas.selection_ratio_bound(values[0] - values[1]) * (
                1 - 1e-9
            )
    product = formulas.selection_probability_product([1.0] + [0.0] * 9)[0]
    exact = audit.selection_probability([1.0] + [0.0] * 9)[0]
    assert (product, exact) == (pytest.approx(0.055, abs=5e-4), pytest.approx(0.257, abs=5e-4))


# ---- counting


@pytest.mark.slow
def test_empirical_epsilon_is_too_high_at_most_as_often_as_it_says():
    trials, p, other, failure = 60, 0.3, 0.1, 0.05
    k = np.arange(trials + 1)
    wrong = sum(
        stats.binom.pmf(i, trials, p) * stats.binom.pmf(j, trials, other)
        for i in k
        for j in k
        if audit.empirical_epsilon(i, trials, j, trials, failure=failure) > math.log(p / other)
    )
    assert 0 < wrong <= failure
    assert audit.empirical_epsilon(0, 5, 5, 5) == 0.0


SMALL = dict(sample_rate=0.1, n=1, d=2, neighbouring="add_remove")
COUNT = dict(sample_rate=0.1, n_uploads=1, n_parameters=2, neighbouring="add_remove")


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: audit.exact_top_n(0, **SMALL), "epsilon must be .*got 0"),
        (
            lambda: audit.exact_top_n(1, **SMALL | dict(sample_rate=2)),
            "sample_rate must be .*got 2",
        ),
        (lambda: audit.exact_top_n(1, **SMALL | dict(n=3)), "n must be at most d = 2, got n = 3"),
        (
            lambda: audit.exact_top_n(1, **SMALL | dict(neighbouring="swap")),
            "neighbouring must be .*got 'swap'",
        ),
        (
            lambda: audit.exact_top_n(1, mechanism="x", **SMALL),
            "mechanism must be one of laplace, gumbel, got 'x'",
        ),
        (lambda: audit.sign_count(1, delta=1, **COUNT), "delta must be .*got 1"),
        (lambda: audit.selection_probability([1.0]), "magnitudes must be"),
        (lambda: audit.empirical_epsilon(5, 4, 0, 4), "got 5 of 4"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("mechanism", ["laplace", "gumbel"])
def test_at_delta_0_all_signs_up_attains_what_a_tiny_delta_tends_to(mechanism):
    """n = d = 5: the count's largest loss by exact fractions of the sign's chance, and the limit of
    small deltas."""
    where = dict(
        sample_rate=0.1, n_uploads=5, n_parameters=5, neighbouring="add_remove", mechanism=mechanism
    )
    up = 1 - 0.5 * math.exp(-0.5) if mechanism == "laplace" else 1 / (1 + math.exp(-1.0))
    exact = math.log(0.9 + 0.1 * (2 * up) ** 5)
    assert audit.sign_count(1.0, delta=0.0, **where) == pytest.approx(exact, rel=1e-12)
    assert audit.sign_count(1.0, delta=1e-13, **where) == pytest.approx(exact, rel=1e-8)


def test_table_1_s_pure_prints_are_exceeded_by_counting_signs():
    """Rows 1, 2, 3, 5, 6, 7 by ln(1 - q + q (2 expit(eps))^n), n selected far from 0 (READING: 66.9
    by exact_top_n's sign law)."""
    for row, expected in zip(
        np.array(TABLE_1, dtype=object)[[0, 1, 2, 4, 5, 6]],
        (65.2, 134.9, 66.8, 308.9, 622.4, 310.5),
        strict=True,
    ):
        attained = audit.sign_count(
            row.epsilon,
            sample_rate=row.sample_rate,
            n_uploads=row.n_uploads,
            n_parameters=14_312,
            neighbouring="add_remove",
            delta=0.0,
        )
        by_hand = math.log(row.sample_rate) + row.n_uploads * math.log(
            2 / (1 + math.exp(-row.epsilon))
        )
        assert attained == pytest.approx(expected, abs=0.06) and attained == pytest.approx(
            by_hand, rel=1e-9
        )
        assert attained > float(row.printed_basic)


NEAR_A_PROOF = [  # epsilon, sample rate, n, d; a coarse quadrature once came out above the proof
    (0.00037624515171148951, 0.007234642165750664, 2942, 2970),
    (0.0010351465977476056, 0.0012189466457232481, 5772, 6250),
]


def drawn_near_d(seed):
    rng = np.random.default_rng(seed)
    d = int(10 ** rng.uniform(0, 5))
    n = max(1, int(d * (1 - 10 ** rng.uniform(-4, 0))))
    return 10 ** rng.uniform(-9, 1), 10 ** rng.uniform(-6, 0), n, d


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["laplace", "gumbel"])
@pytest.mark.parametrize("neighbouring", ["add_remove", "replace_one"])
def test_the_upload_attains_no_more_than_its_supremum(neighbouring, mechanism):
    for epsilon, rate, n, d in NEAR_A_PROOF + [drawn_near_d(seed) for seed in range(60)]:
        where = dict(sample_rate=rate, neighbouring=neighbouring, mechanism=mechanism)
        attained = audit.exact_top_n(epsilon, n=n, d=d, **where)
        ratio = epsilon * (min(2 * n, d) / 2 if mechanism == "laplace" else n)
        supremum = np.log1p(rate * np.expm1(ratio)) if ratio < 600 else ratio + np.log(rate)
        if neighbouring == "replace_one":
            supremum -= np.log1p(rate * np.expm1(-ratio))
        assert 0 < attained <= supremum + 1e-15 * n, (epsilon, rate, n, d)


@pytest.mark.parametrize("epsilon, rate, n, d", NEAR_A_PROOF)
def test_the_upload_attains_no_more_than_is_proved(epsilon, rate, n, d):
    where = dict(sample_rate=rate, neighbouring="replace_one", mechanism="laplace")
    found = accounting.get_upload_budgets(
        epsilon, n_uploads=n, n_parameters=d, delta=7e-14, **where
    )
    proved = min(budget.epsilon for budget in found if budget.delta == 0)
    assert 0.999999 * proved < audit.exact_top_n(epsilon, n=n, d=d, **where) <= proved


@pytest.mark.parametrize("neighbouring", ["add_remove", "replace_one"])
def test_without_sampling_half_of_many_entries_cost_as_many_epsilons(neighbouring):
    """At q = 1 a rare output's ratio may underflow, its logarithm does not: row 4 of Table I."""
    attained = audit.exact_top_n(0.1, sample_rate=1.0, n=7_156, d=14_312, neighbouring=neighbouring)
    pure = {"add_remove": 715.6, "replace_one": 1431.2}[neighbouring]
    assert 0.9 * pure < attained <= pure * (1 + 1e-9)
