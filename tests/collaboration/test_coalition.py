"""Who should be invited: the sorted shortcut against all subsets, the price of a cautious owner,
and the noise of a coalition."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from collaboration_settings import flat

from ppkit.collaboration.coalition import (
    best_coalition,
    coalitions,
    noise_level,
    own_view,
    price_in_records,
)
from ppkit.collaboration.forecast import spread
from ppkit.collaboration.losses import hinge
from ppkit.collaboration.owners import Bounds, blocks
from ppkit.collaboration.training import train


def every_value(n_records, epsilons, *, noise=1, estimation=0):
    """The oracle: every nonempty subset, one after the other, in exact fractions (inf: no
    noise)."""
    cost = [Fraction(0) if e == math.inf else 1 / Fraction(e) ** 2 for e in epsilons]
    found = {}
    for size in range(1, len(cost) + 1):
        for members in itertools.combinations(range(len(cost)), size):
            n = sum(Fraction(n_records[i]) for i in members)
            found[members] = (
                Fraction(noise) * sum(cost[i] for i in members) / n**2 + Fraction(estimation) / n
            )
    return found


def some_owners(rng, n_owners):
    n = rng.integers(1, 10, n_owners) * 10 ** rng.integers(0, 5, n_owners)
    return n, 10 ** rng.uniform(-2, 2, n_owners)


@pytest.mark.parametrize("estimation", [0, 3.0])
def test_the_best_coalition_is_the_best_of_all_subsets(estimation):
    rng = np.random.default_rng(1)
    for _ in range(60):
        n, epsilons = some_owners(rng, int(rng.integers(1, 8)))
        epsilons[rng.random(n.size) < 0.1] = np.inf
        values = every_value(n.tolist(), epsilons.tolist(), noise=2, estimation=estimation)
        best = best_coalition(n, epsilons, noise=2, estimation=estimation)
        least = min(values.values())
        assert values[best.members] <= least * (1 + Fraction(1, 10**9))
        assert best.value == pytest.approx(float(least), rel=1e-9)


@pytest.mark.parametrize("estimation", [0.0, 1e-3])
def test_sorted_is_exact_on_larger_problems(estimation):
    rng = np.random.default_rng(2)
    subsets = (np.arange(1, 2**12)[:, None] >> np.arange(12)) & 1
    for _ in range(100):
        n, epsilons = some_owners(rng, 12)
        records = subsets @ n
        values = subsets @ epsilons**-2.0 / records**2 + estimation / records
        equal = np.flatnonzero(values <= values.min() * (1 + 1e-12))
        exact = subsets[equal[np.argmax(records[equal])]]
        quick = best_coalition(n, epsilons, estimation=estimation)
        assert tuple(np.flatnonzero(exact)) == quick.members
        assert values.min() == pytest.approx(quick.value, rel=1e-12)


def test_a_member_brings_more_than_half_as_many_records_for_its_noise_as_the_coalition():
    rng = np.random.default_rng(4)
    for _ in range(100):
        n, epsilons = some_owners(rng, 9)
        members = np.array(best_coalition(n, epsilons).members)
        half = n[members].sum() / (2 * np.sum(1 / epsilons[members] ** 2))
        inside = np.isin(np.arange(9), members)
        assert (n * epsilons**2)[inside].min() > half > (n * epsilons**2)[~inside].max(initial=0)


def test_of_equal_coalitions_the_one_with_the_most_records_is_taken():
    assert best_coalition([5, 7, 9], [np.inf, 1, np.inf]).members == (
        0,
        2,
    )  # both without noise: value 0
    assert best_coalition([5], [0.1]).members == (0,)
    # 4 records at 1/eps^2 = 4, twice 1 at 17/8: 4/16 = 1/4 and (4 + 17/4)/36 = .2292, together
    # better
    assert best_coalition([4, 1, 1], [0.5, math.sqrt(8 / 17), math.sqrt(8 / 17)]).members == (
        0,
        1,
        2,
    )
    # 4/16 = 1/4 = (4 + 5)/36: exactly as good, in whatever unit budgets are and however the sums
    # are rounded
    for scale in np.random.default_rng(9).uniform(0.1, 10, 50):
        assert best_coalition([4, 1, 1], scale * np.sqrt([1 / 4, 2 / 5, 2 / 5])).members == (
            0,
            1,
            2,
        )


def test_all_coalitions_once():
    found = list(coalitions(5))
    assert len(found) == len(set(found)) == 31 and all(
        list(s) == sorted(set(s)) and s for s in found
    )
    assert list(coalitions(3)) == [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]


def test_at_its_price_a_newcomer_changes_nothing():
    n, epsilons = [3_000, 500], [1.0, 0.7]
    before = noise_level(n, epsilons)
    for epsilon in (0.01, 0.3, 1.0, 20.0):
        price = price_in_records(n, epsilons, epsilon=epsilon)
        assert price > 1.1
        same, more, fewer = (
            noise_level([*n, records], [*epsilons, epsilon])
            for records in (price, 1.01 * price, 0.99 * price)
        )
        assert (
            same == pytest.approx(before, rel=1e-12)
            and more < before * (1 - 1e-7)
            and fewer > before * (1 + 1e-7)
        )


def test_a_newcomer_without_noise_is_worth_having_at_any_size():
    rng = np.random.default_rng(10)
    for _ in range(50):  # rounding must not make a price negative
        n, epsilons = some_owners(rng, 3)
        assert 0 <= price_in_records(n, epsilons, epsilon=math.inf) < 1e-9 * n.sum()


def test_the_price_of_the_paper_s_formula():
    n, epsilons, epsilon = [1_000, 2_000], [0.5, 2.0], 0.25
    expected = 3_000 * (math.sqrt(1 + 16 / (4 + 0.25)) - 1)
    assert price_in_records(n, epsilons, epsilon=epsilon) == pytest.approx(expected, rel=1e-12)
    assert price_in_records(n, epsilons, epsilon=math.inf) == 0
    assert price_in_records(n, [math.inf] * 2, epsilon=1.0) == math.inf
    assert price_in_records(n, [math.inf] * 2, epsilon=math.inf) == 0


def test_noise_of_the_weighted_mean_of_laplace_answers():
    n, epsilons = np.array([1_000, 4_000, 500]), np.array([0.5, 0.2, 3.0])
    scale, weights = 1 / (n * epsilons), n / n.sum()
    assert noise_level(n, epsilons) == pytest.approx(
        float(np.sum((weights * scale) ** 2)), rel=1e-12
    )


def test_the_noise_is_that_of_train_and_of_the_forecast():
    n, epsilons, bounds = [40, 10, 25], [0.5, 2.0, np.inf], Bounds(record_l1=1.5, theta_max=2.0)
    rng = np.random.default_rng(11)
    owners = blocks(rng.uniform(-0.5, 0.5, (75, 2)), np.where(rng.random(75) < 0.5, 1.0, -1.0), n)
    scales = flat(train)(
        owners,
        loss=hinge(),
        bounds=bounds,
        epsilons=epsilons,
        horizon=8,
        n_runs=1,
        step=0.1,
        optimum=1.0,
        rng=rng,
    ).scales
    mean = np.sum((n / np.sum(n) * scales) ** 2) / (2 * 1.5 * 8) ** 2
    assert noise_level(n, epsilons) == pytest.approx(mean, rel=1e-12)
    assert noise_level(n, epsilons) == pytest.approx(spread(n, epsilons) ** 2, rel=1e-12)


def test_an_owner_s_four_ways():
    n, epsilons, noise, estimation = [1_000, 30_000, 30_000], [1.0, 2.0, 0.01], 1e6, 100.0
    view = own_view(n, epsilons, 0, noise=noise, estimation=estimation)
    assert view.alone == pytest.approx(0.1)
    assert view.joined == pytest.approx(1e6 * (1 + 0.25 + 1e4) / 61_000**2 + 100 / 61_000)
    assert view.learner == pytest.approx(1e6 * (0.25 + 1e4) / 61_000**2 + 100 / 61_000)
    assert view.invited == (1,) and view.inviting == pytest.approx(
        1e6 * 0.25 / 31_000**2 + 100 / 31_000
    )
    assert view.inviting <= min(view.alone, view.learner)


def test_by_noise_alone_nothing_beats_training_alone():
    view = own_view([1_000, 30_000], [1.0, 10.0], 0)
    assert view.alone == view.inviting == 0 < view.learner < view.joined and view.invited == ()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: best_coalition([1, 2], [1.0]), "one entry per owner"),
        (
            lambda: best_coalition([1, 0], [1.0, 1.0]),
            r"n_records must be numbers >= 1, got \[1.0, 0.0\]",
        ),
        (
            lambda: best_coalition([1, np.nan], [1.0, 1.0]),
            r"n_records must be numbers >= 1, got \[1.0, nan\]",
        ),
        (lambda: best_coalition([1, 2], [1.0, 0.0]), "epsilons must be > 0, got .*0.0"),
        (lambda: best_coalition([1, 2], [1.0, np.nan]), "epsilons must be > 0, got .*nan"),
        (
            lambda: best_coalition([1, 2], [1.0, 1.0], noise="1"),
            "noise must be a finite number >= 0, got '1'",
        ),
        (
            lambda: best_coalition([1, 2], [1.0, 1.0], noise=-1),
            "noise must be a finite number >= 0, got -1",
        ),
        (
            lambda: best_coalition([1, 2], [1.0, 1.0], estimation=np.inf),
            "estimation must be a finite number >= 0, got inf",
        ),
        (lambda: price_in_records([1], [1.0], epsilon=-2), "epsilon must be > 0, got -2"),
        (lambda: own_view([1, 2], [1.0, 1.0], 2), "owner must be one of 0, 1, got 2"),
        (lambda: own_view([1, 2], [1.0, 1.0], -1), "owner must be one of 0, 1, got -1"),
        (lambda: best_coalition(["a"], [1.0]), "n_records must be numbers, with text as codes"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_forecast_along_the_prefixes_may_rise_and_fall_again():
    n, epsilons = [100_000, 1_000, 1_000_000], [1.0, 6.7, 0.21]  # in the order of n eps^2
    values = [noise_level(n[:k], epsilons[:k]) for k in (1, 2, 3)]
    assert values[0] < values[1] and values[2] < values[0] / 5
    assert best_coalition(n, epsilons).members == (0, 1, 2)
