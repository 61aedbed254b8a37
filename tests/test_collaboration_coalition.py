"""Who should be invited: the sorted shortcut against all subsets, the price of a cautious owner,
weights and schedules."""

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
    schedule,
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
@pytest.mark.parametrize("method", ["exact", "sorted"])
def test_the_best_coalition_is_the_best_of_all_subsets(method, estimation):
    rng = np.random.default_rng(1)
    for _ in range(60):
        n, epsilons = some_owners(rng, int(rng.integers(1, 8)))
        epsilons[rng.random(n.size) < 0.1] = np.inf
        values = every_value(n.tolist(), epsilons.tolist(), noise=2, estimation=estimation)
        best = best_coalition(n, epsilons, method=method, noise=2, estimation=estimation)
        least = min(values.values())
        assert values[best.members] <= least * (1 + Fraction(1, 10**9))
        assert best.value == pytest.approx(float(least), rel=1e-9)
        assert best.everybody == pytest.approx(float(values[tuple(range(n.size))]), rel=1e-9)


@pytest.mark.parametrize("estimation", [0.0, 1e-3])
def test_sorted_is_exact_on_larger_problems(estimation):
    rng = np.random.default_rng(2)
    for _ in range(100):
        n, epsilons = some_owners(rng, 12)
        exact, quick = (
            best_coalition(n, epsilons, method=method, estimation=estimation)
            for method in ("exact", "sorted")
        )
        assert exact.members == quick.members and exact.value == pytest.approx(
            quick.value, rel=1e-12
        )


def test_a_member_brings_more_than_half_as_many_records_for_its_noise_as_the_coalition():
    rng = np.random.default_rng(4)
    for _ in range(100):
        n, epsilons = some_owners(rng, 9)
        members = np.array(best_coalition(n, epsilons).members)
        half = n[members].sum() / (2 * np.sum(1 / epsilons[members] ** 2))
        inside = np.isin(np.arange(9), members)
        assert (n * epsilons**2)[inside].min() > half > (n * epsilons**2)[~inside].max(initial=0)


@pytest.mark.parametrize("method", ["exact", "sorted"])
def test_of_equal_coalitions_the_one_with_the_most_records_is_taken(method):
    assert best_coalition([5, 7, 9], [np.inf, 1, np.inf], method=method).members == (
        0,
        2,
    )  # both without noise: value 0
    assert best_coalition([5], [0.1], method=method).members == (0,)
    # 4 records at 1/eps^2 = 4, twice 1 at 17/8: 4/16 = 1/4 and (4 + 17/4)/36 = .2292, together
    # better
    assert best_coalition(
        [4, 1, 1], [0.5, math.sqrt(8 / 17), math.sqrt(8 / 17)], method=method
    ).members == (0, 1, 2)
    # 4/16 = 1/4 = (4 + 5)/36: exactly as good, in whatever unit budgets are and however the sums
    # are rounded
    for scale in np.random.default_rng(9).uniform(0.1, 10, 50):
        assert best_coalition(
            [4, 1, 1], scale * np.sqrt([1 / 4, 2 / 5, 2 / 5]), method=method
        ).members == (0, 1, 2)


def test_all_coalitions_once():
    found = list(coalitions(5))
    assert len(found) == len(set(found)) == 31 and all(
        list(s) == sorted(set(s)) and s for s in found
    )
    assert list(coalitions(3)) == [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]


@pytest.mark.parametrize("estimation", [0.0, 50.0])
def test_at_its_price_a_newcomer_changes_nothing(estimation):
    n, epsilons = [3_000, 500], [1.0, 0.7]
    before = best_coalition(n, epsilons, noise=1e6, estimation=estimation).everybody
    for epsilon in (0.01, 0.3, 1.0, 20.0):
        price = price_in_records(n, epsilons, epsilon=epsilon, noise=1e6, estimation=estimation)
        assert price > 1.1
        same, more, fewer = (
            best_coalition(
                [*n, records], [*epsilons, epsilon], noise=1e6, estimation=estimation
            ).everybody
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
        assert (
            0
            <= price_in_records(n, epsilons, epsilon=math.inf, noise=1e6, estimation=50.0)
            < 1e-9 * n.sum()
        )


def test_the_price_of_the_paper_s_formula():
    n, epsilons, epsilon = [1_000, 2_000], [0.5, 2.0], 0.25
    expected = 3_000 * (math.sqrt(1 + 16 / (4 + 0.25)) - 1)
    assert price_in_records(n, epsilons, epsilon=epsilon) == pytest.approx(expected, rel=1e-12)
    assert price_in_records(n, epsilons, epsilon=math.inf) == 0
    assert price_in_records(n, [math.inf] * 2, epsilon=1.0) == math.inf
    assert price_in_records(n, [math.inf] * 2, epsilon=math.inf) == 0


def test_noise_of_the_weighted_mean_of_laplace_answers():
    n, epsilons = np.array([1_000, 4_000, 500]), np.array([0.5, 0.2, 3.0])
    scale = 1 / (n * epsilons)
    for name, weights in (
        ("records", n / n.sum()),
        ("inverse_variance", scale**-2 / np.sum(scale**-2)),
    ):
        assert noise_level(n, epsilons, weights=name) == pytest.approx(
            float(np.sum((weights * scale) ** 2)), rel=1e-12
        )


def test_the_noise_is_that_of_train_and_of_the_forecast():
    n, epsilons, bounds = [40, 10, 25], [0.5, 2.0, np.inf], Bounds(record_l1=1.5, theta_max=2.0)
    rng = np.random.default_rng(11)
    owners = blocks(rng.uniform(-0.5, 0.5, (75, 2)), np.where(rng.random(75) < 0.5, 1.0, -1.0), n)
    answers = schedule(8, 3, share=0.5, rng=rng)
    for asked in (None, answers):
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
            answers=asked,
        ).scales
        weights = (answers if asked is not None else np.ones((1, 3))) * n
        weights = weights / weights.sum(axis=1, keepdims=True)
        per_round = np.sum((weights * scales) ** 2, axis=1) / (2 * 1.5 * 8) ** 2
        assert noise_level(n, epsilons, answers=asked) == pytest.approx(per_round.mean(), rel=1e-12)
    assert noise_level(n, epsilons) == pytest.approx(spread(n, epsilons) ** 2, rel=1e-12)


def test_inverse_variance_is_never_noisier_and_no_owner_makes_it_noisier():
    rng = np.random.default_rng(6)
    for _ in range(50):
        n, epsilons = some_owners(rng, 5)
        least = noise_level(n, epsilons, weights="inverse_variance")
        assert least <= noise_level(n, epsilons) * (1 + 1e-12)
        assert least < noise_level(n[:4], epsilons[:4], weights="inverse_variance") * (1 + 1e-12)
        weights = rng.dirichlet(np.ones(5))
        assert least <= np.sum((weights / (n * epsilons)) ** 2) * (1 + 1e-12)
    assert noise_level([10, 10], [1, np.inf], weights="inverse_variance") == 0
    assert noise_level([10, 10], [2, 2], weights="inverse_variance") == pytest.approx(
        noise_level([10, 10], [2, 2])
    )


@pytest.mark.parametrize("weights", ["records", "inverse_variance"])
def test_noise_of_a_schedule_round_by_round(weights):
    n, epsilons = np.array([100.0, 300.0, 50.0]), np.array([1.0, 0.5, np.inf])
    answers = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 0], [1, 1, 1]], bool)
    expected = []
    for asked in answers:
        scales = [answers[:, i].sum() / 4 / (n[i] * epsilons[i]) for i in range(3)]
        wish = n if weights == "records" else [1 / scale**2 if scale else 1e30 for scale in scales]
        raw = [wish[i] if asked[i] else 0.0 for i in range(3)]
        expected.append(sum((r / sum(raw) * s) ** 2 for r, s in zip(raw, scales)))
    assert noise_level(n, epsilons, weights=weights, answers=answers) == pytest.approx(
        np.mean(expected), rel=1e-12
    )
    everybody = np.ones((7, 3), bool)
    assert noise_level(n, epsilons, weights=weights, answers=everybody) == noise_level(
        n, epsilons, weights=weights
    )


def test_a_share_of_the_answers_leaves_that_share_of_the_noise():
    rng = np.random.default_rng(7)
    for share in (0.25, 0.5, 0.75):
        answers = schedule(100, 4, share=share, rng=rng)
        assert noise_level([10] * 4, [1.0] * 4, answers=answers) == pytest.approx(
            share * noise_level([10] * 4, [1.0] * 4)
        )


@pytest.mark.parametrize(
    ("horizon", "n_owners", "share"),
    [
        (100, 3, 0.5),
        (100, 3, 1.0),
        (10, 12, 0.1),
        (1, 1, 1.0),
        (13, 5, 0.3),
        (100, 3, 0.34),
        (100, 3, 1 / 3),
        (99, 3, 1 / 3),
        (10, 10, 0.1),
        (7, 2, 0.57),
    ],
)
def test_a_schedule_is_even(horizon, n_owners, share):
    answers = schedule(horizon, n_owners, share=share, rng=np.random.default_rng(8))
    each = math.ceil(round(share * horizon, 6))
    assert answers.shape == (horizon, n_owners) and answers.dtype == bool
    assert (answers.sum(axis=0) == each).all()
    per_round = answers.sum(axis=1)
    assert per_round.min() == each * n_owners // horizon >= 1 and per_round.max() == -(
        -each * n_owners // horizon
    )


def test_a_schedule_is_drawn():
    one, again, other = (
        schedule(50, 3, share=0.5, rng=np.random.default_rng(seed)) for seed in (0, 0, 1)
    )
    assert (one == again).all() and (one != other).any()
    firsts = np.mean(
        [
            schedule(20, 2, share=0.5, rng=np.random.default_rng(seed))[:, 0]
            for seed in range(2_000)
        ],
        axis=0,
    )
    # each a binomial share of chance 1/2: |share - .5| > .08 has chance 2 exp(-2 * 2000 * .08^2) =
    # 1.5e-11, 20 rounds 3e-10
    assert np.abs(firsts - 0.5).max() < 0.08


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
        (lambda: best_coalition([], []), "one entry per owner"),
        (
            lambda: best_coalition([1, 0], [1.0, 1.0]),
            r"n_records must be numbers >= 1, got \[1.0, 0.0\]",
        ),
        (
            lambda: best_coalition([1, np.nan], [1.0, 1.0]),
            r"n_records must be numbers >= 1, got \[1.0, nan\]",
        ),
        (lambda: best_coalition([1, 2], [1.0, 0.0]), "epsilons must be > 0, got 0"),
        (lambda: best_coalition([1, 2], [1.0, np.nan]), "epsilons must be > 0, got nan"),
        (
            lambda: best_coalition([1, 2], [1.0, 1.0], method="greedy"),
            "exact, sorted, got 'greedy'",
        ),
        (lambda: best_coalition([1] * 21, [1.0] * 21, method="exact"), "at most 20 owners, got 21"),
        (lambda: coalitions(2.5), "n_owners must be a whole number >= 1, got 2.5"),
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
        (lambda: best_coalition([1, 2], [1.0, 1.0], noise=0), "not both be 0"),
        (lambda: price_in_records([1], [1.0], epsilon=-2), "epsilons must be > 0, got -2"),
        (lambda: own_view([1], [1.0], 0), "number >= 2, got 1"),
        (lambda: own_view([1, 1], [1.0, 1.0], -1), "owner must be a whole number >= 0, got -1"),
        (lambda: own_view([1, 1], [1.0, 1.0], 2), "owner must be below 2, .* got 2"),
        (
            lambda: noise_level([1], [1.0], weights="equal"),
            "records, inverse_variance, got 'equal'",
        ),
        (
            lambda: noise_level([1, 2], [1.0, 1.0], answers=np.ones((3, 3), bool)),
            r"answers must be \(T, 2\) of bool, .* got \(3, 3\) of bool",
        ),
        (lambda: noise_level([1, 2], [1.0, 1.0], answers=np.ones((3, 2))), "of float64"),
        (
            lambda: noise_level([1, 2], [1.0, 1.0], answers=np.eye(3, 2, dtype=bool)),
            "nobody does in round 3",
        ),
        (
            lambda: schedule(0, 1, share=1, rng=np.random.default_rng(0)),
            "horizon must be a whole number >= 1, got 0",
        ),
        (
            lambda: schedule(10, 1.5, share=1, rng=np.random.default_rng(0)),
            "n_owners must be a whole number >= 1, got 1.5",
        ),
        (
            lambda: schedule(10, 2, share=0, rng=np.random.default_rng(0)),
            r"share must be in \(0, 1\], got 0",
        ),
        (lambda: schedule(10, 2, share=0.3, rng=np.random.default_rng(0)), "at least 1/2, got 0.3"),
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
