"""`get_upload_budget` over the whole range of its arguments: finite, growing, above an enumeration;
and its tails where scipy's inverses end."""

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import gammaln, log_expit, logsumexp

from ppkit.accounting import (
    MECHANISMS,
    NEIGHBOURING,
    get_upload_budget,
    get_upload_budgets,
    uploads,
)

EPSILONS, DELTAS = (1e-4, 1.0, 1e3), (1e-1, 2.0**-30, 2.0**-128)
RATES, ROUNDS = (1e-5, 0.01, 1.0), (1, 200, 10**6)
CORNERS = [
    (epsilon, min(delta, rate / 10), rate, rounds)
    for epsilon, delta, rate, rounds in itertools.product(EPSILONS, DELTAS, RATES, ROUNDS)
]


def drawn(count):
    rng = np.random.default_rng(20)
    for _ in range(count):
        rate = float(10 ** rng.uniform(-5, 0))
        delta = min(float(10 ** rng.uniform(-38.5, -1)), rate / 10)
        yield float(10 ** rng.uniform(-4, 3)), delta, rate, int(10 ** rng.uniform(0, 6))


POINTS = [*CORNERS, *drawn(100)]  # 81 and 100


def settings_of(i):
    """One of the mechanisms, relations and sizes for the i-th point, and so many rows."""
    d = (1, 7, 300, 14_312)[i % 4]
    n = max(1, d // (1, 2, 10)[i % 3])
    rows = (1, 1, 3, 40)[i // 6 % 4]
    return dict(
        mechanism=MECHANISMS[i % 3],
        neighbouring=NEIGHBOURING[i % 2],
        n_uploads=n,
        n_parameters=d,
        rows_per_unit=rows,
    )


@pytest.mark.slow
def test_the_budget_is_finite_and_grows_everywhere():
    for i, (epsilon, delta, rate, rounds) in enumerate(POINTS):
        sizes = settings_of(i)
        at = sizes | dict(epsilon=epsilon, delta=delta, sample_rate=rate, n_rounds=rounds)
        here = get_upload_budget(**at).epsilon
        assert 0 <= here < math.inf, at
        n, d, rows = sizes["n_uploads"], sizes["n_parameters"], sizes["rows_per_unit"]
        pure_limit = rounds * rows * 2 * max(n, d) * epsilon
        assert here <= pure_limit * (1 + 1e-9), at
        steps = (
            dict(epsilon=1.3 * epsilon),
            dict(n_uploads=min(d, n + 1)),
            dict(sample_rate=min(1.0, 1.3 * rate)),
            dict(rows_per_unit=rows + 1),
            dict(n_rounds=rounds + 1 + rounds // 4),
            dict(delta=delta / 1.5),
        )
        for more in steps[i % 2 :: 2]:
            assert get_upload_budget(**at | more).epsilon >= 0.99 * here, (at, more)


# ---- an oracle: one sign (n = d = 1) in each round, enumerated


@functools.lru_cache(maxsize=2)
def counts(n):
    """0 ... n, and ln of the binomial coefficients."""
    k = np.arange(n + 1)
    return k, gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)


def log_binomial(n, log_yes, log_no):
    k, choose = counts(n)
    return choose + k * log_yes + (n - k) * log_no


def log_sign(epsilon, base, rate, rows):
    """ln P(+), ln P(-) of Gumbel's sign: each sampled row pushes by epsilon / 2."""
    j = np.arange(rows + 1)
    if rate == 1:
        taken = np.where(j == rows, 0.0, -math.inf)
    else:
        taken = log_binomial(rows, math.log(rate), math.log1p(-rate))
    push = 2 * base + j * epsilon
    return logsumexp(taken + log_expit(push)), logsumexp(taken + log_expit(-push))


def log_delta(total, one, other, rounds):
    """ln of sum_k (P(k) - e^total Q(k))_+, k the number of + in all rounds."""
    p, q = (log_binomial(rounds, *sign) for sign in (one, other))
    above = p > q + total
    gaps = p[above] + np.log(-np.expm1(q[above] + total - p[above]))
    return logsumexp(gaps) if gaps.size else -math.inf


def assert_sign_is_dearer_nowhere(epsilon, delta, rate, rounds, rows, neighbouring):
    proved = get_upload_budget(
        epsilon,
        neighbouring=neighbouring,
        sample_rate=rate,
        n_uploads=1,
        n_parameters=1,
        delta=delta,
        n_rounds=rounds,
        rows_per_unit=rows,
    ).epsilon
    for base in (-epsilon, -epsilon / 2, 0.0):
        pushed = log_sign(epsilon, base, rate, rows)
        other = log_sign(0.0 if neighbouring == "add_remove" else -epsilon, base, rate, rows)
        for pair in ((pushed, other), (other, pushed)):
            # gammaln(1e6) is 1e7: its last digit is 1e-9
            assert log_delta(proved, *pair, rounds) <= math.log(delta) + 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("neighbouring", NEIGHBOURING)
def test_one_sign_a_round_enumerated_lies_below_the_budget(neighbouring):
    for i, (epsilon, delta, rate, rounds) in enumerate(POINTS[::5]):
        rows = (1, 3)[i % 2]
        assert_sign_is_dearer_nowhere(epsilon, delta, rate, rounds, rows, neighbouring)


def test_the_oracle_itself_against_fractions():
    """Three rounds, e^epsilon = 3 / 2, q = 1/4: the hockey stick of all 8 answers."""
    plus = Fraction(1, 4) * Fraction(3, 5) + Fraction(3, 4) * Fraction(1, 2)
    total = Fraction(11, 10)  # e^total
    exact = Fraction(0)
    for answer in itertools.product((0, 1), repeat=3):
        p = math.prod((plus if bit else 1 - plus for bit in answer), start=Fraction(1))
        exact += max(p - total * Fraction(1, 8), Fraction(0))
    one = log_sign(math.log(1.5), 0.0, 0.25, 1)
    ours = log_delta(math.log(1.1), one, (math.log(0.5),) * 2, 3)
    assert math.exp(ours) == pytest.approx(float(exact), rel=1e-12)


# ---- tails


@pytest.mark.parametrize("chance", [0.3, 1e-9, 2.0**-60, 2.0**-128])
@pytest.mark.parametrize("rows, q", [(1, 0.5), (40, 0.01), (300, 0.2)])
def test_rare_numbers_of_rows_where_scipys_inverse_ends(chance, rows, q):
    """Oracle: exact fractions; scipy's isf gives all rows for a chance below 1.1e-16."""
    found = uploads._exceeded_rarely(chance, rows, q)
    exact = Fraction(q)
    pmf = [math.comb(rows, k) * exact**k * (1 - exact) ** (rows - k) for k in range(rows + 1)]
    assert sum(pmf[found + 1 :]) <= chance * (1 + 1e-9)
    assert found == 0 or sum(pmf[found:]) > chance * (1 - 1e-9)


def test_a_tiny_delta_keeps_the_bound_for_few_of_many_rows():
    found = get_upload_budgets(
        0.1,
        mechanism="gumbel",
        neighbouring="add_remove",
        sample_rate=0.001,
        n_uploads=1431,
        n_parameters=14_312,
        delta=2.0**-60,
        rows_per_unit=40,
    )
    few = [one for one in found if "of the rows sampled" in one.bound]
    whole = [one for one in found if one.bound == "Renyi"]
    assert few and min(one.epsilon for one in few) < 0.7 * whole[0].epsilon


@pytest.mark.parametrize(
    "rows, n_rounds, q", [(1, 30, 0.1), (2, 12, 0.3), (5, 6, 0.05), (3, 9, 0.01)]
)
def test_chances_of_few_samples_bound_the_exact_law(rows, n_rounds, q):
    """Oracle: sum_t j_t^2 by adding up one round after the other, in fractions."""
    exact = Fraction(q)
    one = {
        j * j: math.comb(rows, j) * exact**j * (1 - exact) ** (rows - j) for j in range(rows + 1)
    }
    law = {0: Fraction(1)}
    for _ in range(n_rounds):
        following = {}
        for (so_far, p), (more, chance) in itertools.product(law.items(), one.items()):
            following[so_far + more] = following.get(so_far + more, 0) + p * chance
        law = following
    bound = uploads._chance_above(q, n_rounds, rows)
    for at in range(rows**2 * n_rounds):
        tail = float(sum(p for total, p in law.items() if total > at))
        assert tail <= bound(at) * (1 + 1e-12)
        assert bound(at) <= max(40 * tail, 2e-12)  # Chernoff's loss, or the transform's rounding


@pytest.mark.slow
@pytest.mark.parametrize("rows, rounds", [(1_000, 200), (10_000, 1), (10**9, 10**6), (200, 200)])
def test_many_rows_need_little_memory(rows, rounds):
    """Before: rows^2 x rounds numbers, 10^8 and more."""
    settings = dict(sample_rate=1e-4, n_uploads=10, n_parameters=100, delta=2.0**-60)
    many = get_upload_budget(0.01, rows_per_unit=rows, n_rounds=rounds, **settings).epsilon
    assert get_upload_budget(0.01, n_rounds=rounds, **settings).epsilon < many < math.inf
    assert many <= rows * rounds * 10 * 0.01


def test_huge_uploads_leave_out_what_grows_with_them():
    settings = dict(sample_rate=0.01, n_uploads=10**9, n_parameters=10**9)
    found = get_upload_budgets(
        1e-4, mechanism="gumbel", neighbouring="add_remove", delta=1e-9, n_rounds=3, **settings
    )
    assert all(one.epsilon < math.inf for one in found)
    assert not any(one.bound.startswith("KOV") for one in found)
    assert min(one.epsilon for one in found) < 1e-4 * 10**9
