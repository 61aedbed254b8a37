"""What is attained lies below the exact price, and what is proved above it: on instances small
enough to be enumerated, Gumbel noise, one round and two."""

import functools
import itertools
import math

import numpy as np
import pytest
from scipy import optimize, stats

from ppkit import accounting, audit
from ppkit.accounting import uploads

DELTA = 2.0**-10


@functools.cache
def subsets(n: int, d: int) -> list:
    return [
        (chosen, signs)
        for chosen in itertools.permutations(range(d), n)
        for signs in itertools.product((1, -1), repeat=n)
    ]


def law(g: np.ndarray, n: int) -> np.ndarray:
    """Chances of all ordered uploads of n exponential mechanisms in turn; the upload forgets the
    order, so uploads of one set are added up."""
    weights, chances = 2 * np.cosh(g), {}
    for chosen, signs in subsets(n, g.size):
        left, chance = weights.sum(), 1.0
        for j, sign in zip(chosen, signs):
            chance *= math.exp(sign * g[j]) / left
            left -= weights[j]
        key = tuple(sorted(zip(chosen, signs)))
        chances[key] = chances.get(key, 0.0) + chance
    return np.array([chances[key] for key in sorted(chances)])


def sampled(rows: np.ndarray, base: np.ndarray, n: int, q: float) -> np.ndarray:
    """The upload's law on a Poisson sample of `rows`, on top of `base`."""
    total = 0.0
    for drawn in itertools.product((0, 1), repeat=len(rows)):
        chance = math.prod(q if one else 1 - q for one in drawn)
        total = total + chance * law(base + np.array(drawn) @ rows, n)
    return total


def exact_epsilon(p: np.ndarray, other: np.ndarray, delta: float) -> float:
    """The smallest epsilon at delta, in both directions."""

    def excess(epsilon):
        return (
            max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in ((p, other), (other, p)))
            - delta
        )

    return optimize.brentq(excess, 0.0, 60.0) if excess(0.0) > 0 else 0.0


def settings() -> list[tuple]:
    rng = np.random.default_rng(19)
    drawn = []
    for k in range(25):
        d = int(rng.integers(2, 4))
        n, q = int(rng.integers(1, d + 1)), float(rng.uniform(0.05, 0.6))
        relation = accounting.NEIGHBOURING[k % 2]
        drawn.append((float(rng.uniform(0.1, 3.0)), q, n, d, relation, 1 + k // 2 % 2))
    return drawn


@pytest.mark.slow
@pytest.mark.parametrize("epsilon, q, n, d, relation, n_rounds", settings())
def test_attained_below_exact_below_proved(epsilon, q, n, d, relation, n_rounds):
    rng = np.random.default_rng([n, d, n_rounds, int(1e6 * epsilon)])
    where = dict(sample_rate=q, n_uploads=n, n_parameters=d, neighbouring=relation)
    where |= dict(mechanism="gumbel", delta=DELTA, n_rounds=n_rounds)
    proved = accounting.get_upload_budget(epsilon, **where).epsilon
    attained = audit.rounds_attained(epsilon, **where)
    largest = 0.0
    for draw in range(40):
        base, row, other = rng.uniform(-1, 1, (3, d)) * epsilon / 2
        if draw == 0:  # the pair of `rounds_attained`
            base, row, other = np.zeros(d), np.full(d, epsilon / 2), np.full(d, -epsilon / 2)
        elif draw % 2:
            base, row = 3 * base, epsilon / 2 * np.sign(row)
            other = -row
        more = np.array([row]) if relation == "add_remove" else np.array([other])
        less = np.empty((0, d)) if relation == "add_remove" else np.array([row])
        p, without = (sampled(rows, base, n, q) for rows in (more, less))
        if n_rounds == 2:
            p, without = np.outer(p, p).ravel(), np.outer(without, without).ravel()
        exact = exact_epsilon(p, without, DELTA)
        largest = max(largest, exact)
        assert exact <= proved + 1e-9
        if draw == 0:
            assert attained <= exact + 1e-9
    assert largest > 0


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_few_samples_is_above_the_exact_mixture(rows):
    """Randomised answers in the place of uploads: rows that push d = n = 1, T = 4, enumerated."""
    epsilon, q, n_rounds = 3.0, 0.05, 4
    release = uploads.Release(epsilon, "gumbel", "add_remove", q, 1, 1, n_rounds)
    total = uploads._few_samples(release, rows, DELTA).epsilon
    hit = stats.binom.pmf(np.arange(rows + 1), rows, q)
    yes = 1 / (1 + np.exp(-epsilon * np.arange(rows + 1)))
    p, fair = np.array([hit @ yes, 1 - hit @ yes]), np.array([0.5, 0.5])
    for _ in range(n_rounds - 1):
        p, fair = (
            np.outer(p, [hit @ yes, 1 - hit @ yes]).ravel(),
            np.outer(fair, [0.5, 0.5]).ravel(),
        )
    assert exact_epsilon(p, fair, DELTA) <= total < math.inf


def test_pins_and_limits_of_many_rounds():
    where = dict(sample_rate=0.01, n_uploads=1431, n_parameters=14312)
    budget = accounting.get_upload_budget(0.5, n_rounds=200, **where)
    assert budget.bound == "few samples" and budget.epsilon == pytest.approx(906.37, abs=0.01)
    # by hand: in at most 15 of 200 samples but for 2^-31, and rho + 2 sqrt(rho ln(2^31))
    rho = 15 * 1431 * 0.25 / 8
    assert budget.epsilon < rho + 2 * math.sqrt(rho * 31 * math.log(2))
    assert stats.binom.sf(15, 200, 0.01) < 2.0**-31 < stats.binom.sf(14, 200, 0.01)
    eight = accounting.get_upload_budget(0.086, n_rounds=60, rows_per_unit=8, **where).epsilon
    one = accounting.get_upload_budget(0.086, n_rounds=60, **where).epsilon
    assert one < eight < 200  # 3,337 by one row after the other
    by_rounds = [
        accounting.get_upload_budget(0.5, n_rounds=T, **where).epsilon for T in (1, 5, 40, 200)
    ]
    assert by_rounds == sorted(by_rounds)


@pytest.mark.parametrize("relation", accounting.NEIGHBOURING)
@pytest.mark.parametrize(
    "epsilon, n_rounds", [(0.1, 1), (0.1, 200), (0.5, 1), (0.5, 200), (1.0, 40)]
)
def test_rounds_attain_less_than_holds_and_more_in_more_rounds(relation, epsilon, n_rounds):
    where = dict(sample_rate=0.01, n_uploads=1431, n_parameters=14312, neighbouring=relation)
    for mechanism in ("laplace", "gumbel"):
        about = where | dict(mechanism=mechanism)
        attained = audit.rounds_attained(epsilon, n_rounds=n_rounds, **about)
        holds = accounting.get_upload_budget(epsilon, n_rounds=n_rounds, **about).epsilon
        assert 0 < attained < holds
        assert attained <= audit.rounds_attained(epsilon, n_rounds=2 * n_rounds, **about) + 1e-9
        if n_rounds == 1:
            assert attained == pytest.approx(audit.sign_count(epsilon, **about), rel=0.01)


@pytest.mark.parametrize("n, d, pushed", [(5, 12, 7), (40, 300, 90), (9, 10, 4)])
def test_pushed_entries_attain_what_scipys_hypergeometric_counts(n, d, pushed):
    """Oracle: j and c by loops, the number of pushed entries that are sent by scipy's law."""
    epsilon, q, n_rounds = 2.0, 0.2, 3
    sent = np.arange(max(0, n - (d - pushed)), min(n, pushed) + 1)
    weight, up = stats.hypergeom.pmf(sent, d, pushed, n), 1 / (1 + math.exp(-epsilon))
    largest = 0.0
    for c in range(1, n + 1):
        need = [math.ceil((k + c) / 2) for k in sent]
        luck = weight @ [stats.binom.sf(m - 1, k, 0.5) for m, k in zip(need, sent)]
        seen = [stats.binom.sf(m - 1, k, up) for m, k in zip(need, sent)]
        record = (1 - q) * luck + q * (weight @ [min(seen[i:]) for i in range(len(seen))])
        for j in range(1, n_rounds + 1):
            chance = stats.binom.sf(j - 1, n_rounds, record) - DELTA
            if chance > 0:
                largest = max(largest, math.log(chance / stats.binom.sf(j - 1, n_rounds, luck)))
    where = dict(sample_rate=q, n_uploads=n, n_parameters=d, neighbouring="add_remove")
    where |= dict(mechanism="gumbel", delta=DELTA, n_rounds=n_rounds, pushed=pushed)
    assert audit.rounds_attained(epsilon, **where) == pytest.approx(largest, rel=1e-9)
    assert largest > 0.1


@pytest.mark.parametrize(
    "n, d, pushed, epsilon, misses", [(60, 200, 20, 6.0, True), (30, 200, 60, 2.0, False)]
)
def test_entries_that_are_not_pushed_lie_less_often_beyond_the_bound(n, d, pushed, epsilon, misses):
    """P(+) of a pushed entry that is sent, drawn some 400,000 times; off by .002 with a chance
    below 1e-4.  misses: as if all were pushed, it would be promised too much."""
    rng, trials = np.random.default_rng(0), 20_000
    noisy = rng.laplace(size=(trials, d))
    noisy[:, :pushed] += epsilon / 2
    least = np.partition(np.abs(noisy), d - n, axis=1)[:, d - n, None]
    sent = (np.abs(noisy) >= least)[:, :pushed]
    plus = (sent & (noisy[:, :pushed] > 0)).sum() / sent.sum()
    up, _, off = (math.exp(one) for one in audit._sign_chances(epsilon, n, d, "laplace", pushed))
    assert up - off <= plus + 0.002
    as_if_all = math.exp(audit._sign_chances(epsilon, n, d, "laplace")[2])
    assert (up - as_if_all > plus + 0.002) == misses


def test_fewer_pushed_entries_attain_less_and_wrong_numbers_are_refused():
    where = dict(sample_rate=0.01, n_uploads=1431, n_parameters=14312, neighbouring="add_remove")
    by_pushed = [
        audit.rounds_attained(0.5, n_rounds=1, pushed=m, **where) for m in (500, 5_000, 14_312)
    ]
    assert by_pushed == sorted(by_pushed) and by_pushed[0] < 0.5 * by_pushed[-1]
    assert audit.rounds_attained(0.5, n_rounds=200, pushed=0, **where) == 0.0
    with pytest.raises(ValueError, match="pushed must be a whole number >= 0, got -1"):
        audit.rounds_attained(0.5, n_rounds=1, pushed=-1, **where)
    pure = audit.sign_count(0.5, delta=0.0, **where)
    assert audit.rounds_attained(0.5, n_rounds=7, delta=0.0, **where) == 7 * pure
    with pytest.raises(ValueError, match="pushed must be at most n_parameters = 14312"):
        audit.rounds_attained(0.5, n_rounds=1, pushed=14_313, **where)
    with pytest.raises(ValueError, match="less for add_remove only, got 10"):
        audit.rounds_attained(
            0.5, n_rounds=1, pushed=10, **where | dict(neighbouring="replace_one")
        )
    with pytest.raises(ValueError, match="n_rounds must be a whole number >= 1, got 0"):
        audit.rounds_attained(0.5, n_rounds=0, **where)
    with pytest.raises(ValueError, match="delta must be > 0 where pushed is not all, got 10"):
        audit.rounds_attained(0.5, n_rounds=1, pushed=10, delta=0.0, **where)


def test_statistical_bounds_miss_in_at_most_their_stated_share():
    """20,000 bounds at failure .05: more than 1,150 misses have a chance below 1e-6."""
    rng, failure, trials = np.random.default_rng(5), 0.05, 400
    p, other = 0.3, 0.12
    assert stats.binom.sf(1_150, 20_000, failure) < 1e-6
    hits, others = rng.binomial(trials, p, 20_000), rng.binomial(trials, other, 20_000)
    pairs, counts = np.unique(np.c_[hits, others], axis=0, return_counts=True)
    misses = sum(
        count
        for (a, b), count in zip(pairs.tolist(), counts)
        if audit.empirical_epsilon(a, trials, b, trials, failure=failure) > math.log(p / other)
    )
    assert misses <= 1_150
