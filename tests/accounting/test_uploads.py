"""Budgets of uploads against enumeration, hand-made bounds, pins from the reading of wang2018, and
their own inverses."""

import itertools
import math

import numpy as np
import pytest
from scipy import optimize, stats

from ppkit import accounting
from ppkit.accounting import (
    calibrate_upload,
    get_upload_budget,
    get_upload_budgets,
    kov_epsilon,
    rounds_within,
)
from ppkit.dpstgd.formulas import TABLE_1

DELTA = 2.0**-30
D = 14_312
SMALL = dict(sample_rate=0.01, n_uploads=1431, n_parameters=D, delta=DELTA)


def table_budget(row, **settings):
    return get_upload_budget(
        row.epsilon,
        sample_rate=row.sample_rate,
        n_uploads=row.n_uploads,
        n_parameters=D,
        delta=DELTA,
        **settings,
    )


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


# ---- Kairouz, Oh, Viswanath


def test_a_bounded_range_response_is_dominated_by_two_randomised_responses():
    for width in (0.05, 0.2, 1.0, 4.0):
        heads = 1 / (1 + math.exp(-width / 2))
        pair = np.array([heads**2, 2 * heads * (1 - heads), (1 - heads) ** 2])
        for t, e in itertools.product(
            np.linspace(0.02, 0.98, 25) * width, np.linspace(0, 1, 25) * width
        ):
            high = (math.exp(width) - math.exp(t)) / math.expm1(width)
            response = np.array([high, 1 - high])
            other = response * np.exp([-t, width - t])
            assert other.sum() == pytest.approx(1)
            assert hockey_stick(response, other, e) <= hockey_stick(pair, pair[::-1], e) + 1e-12
            assert hockey_stick(other, response, e) <= hockey_stick(pair, pair[::-1], e) + 1e-12


# ---- amplification, on random mechanisms given by three laws: without the record, with x, with x'


def random_laws(rng, outcomes=6):
    base = rng.dirichlet(np.ones(outcomes))
    laws = [base] + [base * np.exp(rng.uniform(-1.5, 1.5, outcomes)) for _ in range(2)]
    return [law / law.sum() for law in laws]


@pytest.mark.parametrize("seed", range(40))
def test_amplification_on_random_mechanisms(seed):
    rng = np.random.default_rng(seed)
    without, with_x, with_other = random_laws(rng)
    q = rng.choice([0.02, 0.3, 0.9])
    sampled, other = ((1 - q) * without + q * law for law in (with_x, with_other))
    for epsilon in (0.1, 0.6, 1.5):
        delta = hockey_stick(with_x, without, epsilon)
        after = math.log1p(q * math.expm1(epsilon))
        assert hockey_stick(sampled, without, after) <= q * delta + 1e-12
        back = hockey_stick(without, with_x, epsilon)
        assert hockey_stick(without, sampled, after) <= q * back + 1e-12
        floor = math.log1p(q / (1 - q) * math.exp(epsilon))
        assert hockey_stick(sampled, other, floor) <= q * delta + 1e-12
        joint = max(delta, hockey_stick(with_x, with_other, epsilon))
        assert hockey_stick(sampled, other, after) <= q * joint + 1e-12


# ---- the reading's values, and bounds by hand

READING = {  # one upload, Gumbel, delta = 2^-30
    "replace_one": (
        22.9,
        38.8,
        25.6,
        146.9,
        280,
        503,
        286,
        2171,
    ),  # joint convexity on the replace-one cost
    "add_remove": (7.2, 13.3, 9.3, 55.1, 92, 159, 96, 637),
}


def half_digit(printed):
    return 0.5 if isinstance(printed, int) else 0.05


@pytest.mark.parametrize("i", range(8))
def test_gumbel_rows_of_table_1(i):
    row = TABLE_1[i]
    added, replaced = (
        table_budget(row, neighbouring=relation) for relation in ("add_remove", "replace_one")
    )
    assert added.epsilon == pytest.approx(
        READING["add_remove"][i], abs=half_digit(READING["add_remove"][i])
    )
    rho = row.n_uploads * row.epsilon**2 / 2
    whole = accounting.curve_epsilon(lambda alpha: alpha * rho, DELTA / row.sample_rate)
    convexity = accounting.amplified(whole, row.sample_rate)
    assert convexity == pytest.approx(
        READING["replace_one"][i], abs=half_digit(READING["replace_one"][i])
    )
    if row.sample_rate == 1:
        assert replaced.epsilon == pytest.approx(convexity, rel=1e-12)
    else:  # the floor (1 - q) M(S) makes replacing hardly dearer than adding
        assert added.epsilon < replaced.epsilon < added.epsilon - 1.1 * math.log1p(-row.sample_rate)
    for budget, quarter in ((added, 4), (replaced, 4 if row.sample_rate < 1 else 1)):
        at = DELTA / row.sample_rate
        by_hand = (
            rho / quarter
            + 2 * math.sqrt(rho / quarter * math.log(1 / at))
            + math.log(row.sample_rate)
        )
        assert budget.epsilon < max(by_hand, 0) + 1.0 and budget.delta == DELTA


def test_other_values_of_the_reading():
    assert accounting.amplified(kov_epsilon(0.1, 2862, DELTA / 0.01), 0.01) == pytest.approx(
        36.8, abs=0.05
    )
    assert accounting.amplified(kov_epsilon(0.2, 1431, DELTA / 0.01), 0.01) == pytest.approx(
        62.2, abs=0.05
    )
    assert table_budget(TABLE_1[0], mechanism="laplace").epsilon == pytest.approx(43.7, abs=0.05)
    assert calibrate_upload(0.37, **SMALL) == pytest.approx(0.037, abs=5e-4)
    assert calibrate_upload(0.37, neighbouring="replace_one", **SMALL) == pytest.approx(
        0.0367, abs=5e-5
    )  # .0185 by convexity
    rho = 1431 * 0.0185**2 / 2
    by_convexity = accounting.amplified(
        accounting.curve_epsilon(lambda alpha: alpha * rho, DELTA / 0.01), 0.01
    )
    assert by_convexity == pytest.approx(0.37, abs=5e-3)


@pytest.mark.parametrize(
    "mechanism, n, added",
    [
        ("gumbel", 3, 3.0),
        ("gumbel", 8, 8.0),
        ("laplace", 3, 3.0),
        ("laplace", 8, 4.0),
        ("laplace_signed_values", 1, 4.0),
    ],
)
def test_pure_bounds_by_hand(mechanism, n, added):
    def pure(neighbouring, q):
        return get_upload_budgets(
            1.0,
            mechanism=mechanism,
            neighbouring=neighbouring,
            sample_rate=q,
            n_uploads=n,
            n_parameters=8,
            delta=1e-9,
        )[0].epsilon

    assert pure("add_remove", 1.0) == pytest.approx(added)
    assert pure("replace_one", 1.0) == pytest.approx(2 * added)
    assert pure("add_remove", 0.1) == pytest.approx(math.log(0.9 + 0.1 * math.exp(added)))
    assert pure("replace_one", 0.1) == pytest.approx(
        math.log(0.9 + 0.1 * math.exp(added)) - math.log(0.9 + 0.1 * math.exp(-added))
    )


@pytest.mark.parametrize("mechanism", accounting.MECHANISMS)
@pytest.mark.parametrize("neighbouring", accounting.NEIGHBOURING)
def test_budgets_grow_with_epsilon_rate_and_rounds_and_replacing_is_not_cheaper(
    mechanism, neighbouring
):
    settings = dict(mechanism=mechanism, n_uploads=30, n_parameters=200, delta=1e-8)

    def at(epsilon, q, rounds, relation=neighbouring):
        return get_upload_budget(
            epsilon, sample_rate=q, n_rounds=rounds, neighbouring=relation, **settings
        ).epsilon

    for grid in (
        [at(e, 0.02, 5) for e in (0.01, 0.1, 1.0, 10.0)],
        [at(0.3, q, 5) for q in (0.001, 0.01, 0.1, 0.9, 1.0)],
        [at(0.3, 0.02, t) for t in (1, 2, 10, 100, 3000, 30_000)],
    ):
        assert all(low <= high for low, high in itertools.pairwise(grid))
    assert at(0.3, 0.02, 7, "add_remove") <= at(0.3, 0.02, 7, "replace_one")


def test_many_rounds_cost_far_less_than_the_sum():
    one, many = (get_upload_budget(0.01, n_rounds=t, **SMALL).epsilon for t in (1, 1000))
    rho = 1431 * 0.01**2 / 8
    second_order = (
        1000 * 0.01**2 * math.expm1(2 * rho) / 2
    )  # alpha times this bounds the early log-moments
    assert many < 0.05 * 1000 * one
    assert many < 1.5 * (second_order + 2 * math.sqrt(second_order * math.log(1 / DELTA)))
    assert many == pytest.approx(0.35, abs=0.05)


def test_sampling_rate_one_is_composition_without_sampling():
    ours = get_upload_budget(
        0.05, mechanism="gumbel", sample_rate=1.0, n_uploads=40, n_parameters=100, n_rounds=25
    )
    assert ours.epsilon == pytest.approx(
        accounting.curve_epsilon(lambda alpha: alpha * 25 * 40 * 0.05**2 / 8, DELTA), rel=1e-9
    )


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["gumbel", "laplace"])
@pytest.mark.parametrize("neighbouring", accounting.NEIGHBOURING)
@pytest.mark.parametrize("total, rounds", [(0.05, 1), (1.0, 1), (1.0, 60), (30.0, 200)])
def test_epsilon_for_inverts_valid_budget(mechanism, neighbouring, total, rounds):
    settings = dict(SMALL, mechanism=mechanism, neighbouring=neighbouring, n_rounds=rounds)
    epsilon = calibrate_upload(total, **settings)
    reached = get_upload_budget(epsilon, **settings).epsilon
    assert reached <= total and reached == pytest.approx(total, rel=1e-6)


def test_rounds_within_is_the_last_round_that_fits():
    for total, epsilon in ((0.3, 0.01), (3.0, 0.05), (0.001, 1.0)):
        rounds = rounds_within(total, epsilon=epsilon, **SMALL)
        assert get_upload_budget(epsilon, n_rounds=rounds + 1, **SMALL).epsilon > total
        assert rounds == 0 or get_upload_budget(epsilon, n_rounds=rounds, **SMALL).epsilon <= total
    assert rounds == 0
    assert rounds_within(1e6, epsilon=0.01, at_most=37, **SMALL) == 37


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(epsilon=0.0), "epsilon must be a finite number > 0, got 0.0"),
        (dict(epsilon=float("nan")), "epsilon must be .*got nan"),
        (dict(mechanism="laplace_true_sign"), "mechanism must be one of gumbel, laplace"),
        (
            dict(mechanism="gauss"),
            "mechanism must be one of gumbel, laplace, laplace_signed_values, got 'gauss'",
        ),
        (
            dict(neighbouring="swap"),
            "neighbouring must be one of add_remove, replace_one, got 'swap'",
        ),
        (dict(sample_rate=0.0), r"sample_rate must be in \(0, 1\], got 0.0"),
        (dict(n_uploads=0), "n_uploads must be a whole number >= 1, got 0"),
        (dict(n_uploads=20_000), "n_uploads must be at most n_parameters = 14312, got 20000"),
        (dict(n_rounds=1.5), "n_rounds must be .*got 1.5"),
        (dict(rows_per_unit=0), "rows_per_unit must be .*got 0"),
        (dict(delta=0.01), "delta must be at least 1e-300 and below sample_rate = 0.01, got 0.01"),
        (dict(delta=0.0), "delta must be > 0, got 0.0"),
    ],
)
def test_bad_input_is_named(change, message):
    settings = dict(SMALL, epsilon=0.1) | change
    with pytest.raises(ValueError, match=message):
        get_upload_budget(settings.pop("epsilon"), **settings)


@pytest.mark.parametrize(
    "call",
    [
        lambda total: calibrate_upload(total, **SMALL),
        lambda total: rounds_within(total, epsilon=0.1, **SMALL),
    ],
)
def test_bad_totals_are_named(call):
    with pytest.raises(ValueError, match="total must be a finite number > 0, got -1"):
        call(-1)


def attained_over_rounds(epsilon, n, q, rounds, delta, step):
    """Oracle: what counting + signs in every round attains, by convolving the round's loss, rounded
    down to a grid."""
    k = np.arange(n + 1)
    up = 1 / (1 + math.exp(-epsilon))
    fair, pushed = stats.binom.logpmf(k, n, 0.5), stats.binom.logpmf(k, n, up)
    record = np.logaddexp(math.log1p(-q) + fair, math.log(q) + pushed)
    cells = np.floor((record - fair) / step).astype(int)
    size = 2**18
    keep = np.abs(cells) < size // 8
    pmf = np.zeros(size)
    np.add.at(pmf, cells[keep] % size, np.exp(record[keep]))
    total = np.fft.irfft(np.fft.rfft(pmf) ** rounds, size).clip(0)
    loss = np.fft.fftfreq(size, 1 / size) * step
    assert total[np.abs(loss) > 0.9 * loss.max()].sum() < delta / 100  # no wrap-around that matters
    return optimize.brentq(
        lambda e: (total * np.maximum(0, -np.expm1(e - loss))).sum() - delta, 0, loss.max()
    )


def test_the_budget_over_rounds_lies_above_what_is_attained_and_near_it():
    attained = attained_over_rounds(0.1, 1431, 0.01, 100, 1e-6, step=1e-4)
    proved = get_upload_budget(
        0.1, sample_rate=0.01, n_uploads=1431, n_parameters=D, delta=1e-6, n_rounds=100
    ).epsilon
    assert attained < proved < 1.5 * attained


@pytest.mark.parametrize("neighbouring", accounting.NEIGHBOURING)
def test_several_rows_at_once_against_their_exact_law(neighbouring):
    rows, q, n, epsilon, delta = 4, 0.03, 60, 0.2, 1e-5
    settings = dict(
        neighbouring=neighbouring, sample_rate=q, n_uploads=n, n_parameters=60, delta=delta
    )
    one_row, budget = (
        get_upload_budget(epsilon, **settings),
        get_upload_budget(epsilon, rows_per_unit=rows, **settings),
    )
    k = np.arange(n + 1)

    def signs(
        direction,
    ):  # j of the rows are sampled, and each pushes every coordinate by epsilon / 2
        return sum(
            stats.binom.pmf(j, rows, q)
            * stats.binom.pmf(k, n, 1 / (1 + math.exp(-direction * j * epsilon)))
            for j in range(rows + 1)
        )

    other = signs(0) if neighbouring == "add_remove" else signs(-1)
    assert (
        hockey_stick(signs(1), other, budget.epsilon)
        < delta
        < hockey_stick(signs(1), other, one_row.epsilon)
    )
    assert budget.bound == "Renyi, row by row"


def test_several_rows_cost_about_that_many_times_as_much_where_epsilon_is_small():
    one, four = (get_upload_budget(0.01, n_rounds=100, rows_per_unit=k, **SMALL) for k in (1, 4))
    assert 2 * one.epsilon < four.epsilon < 5 * one.epsilon
    at = DELTA * math.expm1(four.epsilon / 4) / math.expm1(four.epsilon)  # group privacy, by hand
    assert (
        get_upload_budget(0.01, n_rounds=100, **SMALL | dict(delta=at)).epsilon <= four.epsilon / 4
    )


def test_many_rows_of_a_loud_upload_are_priced_by_how_many_are_sampled():
    many = get_upload_budget(0.1, rows_per_unit=40, **SMALL | dict(delta=1e-6))
    chance = stats.binom.sf(6, 40, 0.01)
    assert many.bound == "Renyi, at most 6 of the rows sampled" and chance < 1e-6 / 2
    rho = 1431 * 0.6**2 / 8  # by hand: six rows at once, sampled or not, and the rest of delta
    by_hand = accounting.curve_epsilon(lambda alpha: alpha * rho, (1e-6 - chance)) - math.log1p(
        -chance
    )
    assert 0.8 * by_hand < many.epsilon < by_hand


# ---- Renyi
