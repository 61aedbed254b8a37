import math
import re

import dp_accounting
import numpy as np
import pytest
from dp_accounting import rdp
from scipy import stats

from ppkit.accounting import (
    calibrate_noise_multiplier,
    get_epsilon_epochs,
    get_epsilon_fixed_batches,
    get_epsilon_poisson,
    get_epsilon_random_allocation,
)

DELTA = 2.0**-30


@pytest.mark.slow
@pytest.mark.parametrize(
    "noise_multiplier, n_rounds, pinned", [(1, 100, 1.854), (1, 1000, 2.999), (2, 1000, 0.973)]
)
def test_epsilon_is_the_pinned_value_and_below_the_rdp_bound(noise_multiplier, n_rounds, pinned):
    epsilon = get_epsilon_poisson(
        noise_multiplier, delta=DELTA, sample_rate=0.01, n_rounds=n_rounds
    )
    assert epsilon == pytest.approx(pinned, abs=1e-3)
    event = dp_accounting.PoissonSampledDpEvent(
        0.01, dp_accounting.GaussianDpEvent(noise_multiplier)
    )
    accountant = rdp.RdpAccountant().compose(dp_accounting.SelfComposedDpEvent(event, n_rounds))
    assert epsilon < accountant.get_epsilon(DELTA)


def test_without_sampling_it_is_the_exact_gaussian():
    exact = dp_accounting.get_epsilon_gaussian(3.0 / math.sqrt(10), DELTA)
    epsilon = get_epsilon_poisson(3.0, delta=DELTA, sample_rate=1.0, n_rounds=10)
    assert exact - 1e-9 <= epsilon <= exact + 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0, 20.0])
def test_the_calibrated_noise_meets_the_budget_and_hardly_more(epsilon):
    settings = dict(delta=DELTA, sample_rate=0.01, n_rounds=200)
    noise_multiplier = calibrate_noise_multiplier(epsilon, **settings)
    assert get_epsilon_poisson(noise_multiplier, **settings) <= epsilon
    assert get_epsilon_poisson(noise_multiplier * 0.98, **settings) > epsilon


@pytest.mark.parametrize(
    "change, message",
    [
        ({"delta": 0.0}, r"delta must be in \(0, 1\), got 0.0"),
        ({"sample_rate": 1.5}, r"sample_rate must be in \(0, 1\], got 1.5"),
        ({"sample_rate": math.nan}, r"sample_rate must be in \(0, 1\], got nan"),
        ({"n_rounds": 0}, "n_rounds must be a whole number >= 1, got 0"),
    ],
)
def test_bad_budgets_are_named(change, message):
    settings = {"delta": DELTA, "sample_rate": 0.01, "n_rounds": 10} | change
    for function in (get_epsilon_poisson, calibrate_noise_multiplier):
        with pytest.raises(ValueError, match=message):
            function(1.0, **settings)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_bad_noise_and_epsilon_are_named(value):
    settings = {"delta": DELTA, "sample_rate": 0.01, "n_rounds": 10}
    with pytest.raises(
        ValueError, match=f"noise_multiplier must be a finite number > 0, got {value}"
    ):
        get_epsilon_poisson(value, **settings)
    with pytest.raises(ValueError, match=f"epsilon must be a finite number > 0, got {value}"):
        calibrate_noise_multiplier(value, **settings)


def gaussian_delta(epsilon, noise_multiplier, sensitivity):
    """Oracle: Balle and Wang 2018, Theorem 8."""
    mu = sensitivity / noise_multiplier
    return stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(
        -mu / 2 - epsilon / mu
    )


def hockey_stick(p, q, epsilon):
    """Oracle: delta between two mixtures of unit-spread normals on the line, (weights, means) each,
    by a fine sum."""
    x = np.linspace(-40, 40, 400_001)
    density = [sum(w * stats.norm.pdf(x, m) for w, m in zip(*one)) for one in (p, q)]
    return float(np.maximum(density[0] - math.exp(epsilon) * density[1], 0).sum() * (x[1] - x[0]))


@pytest.mark.slow
@pytest.mark.parametrize("noise_multiplier, rate", [(2.0, 0.1), (1.0, 0.01), (4.0, 1.0)])
def test_one_fixed_batch_costs_what_the_closed_form_says_and_is_attained(noise_multiplier, rate):
    n_records, delta = 1000, 1e-5
    epsilon = get_epsilon_fixed_batches(
        noise_multiplier,
        delta=delta,
        n_records=n_records,
        batch_size=round(rate * n_records),
        n_rounds=1,
    )
    inner = math.log1p(math.expm1(epsilon) / rate)
    assert rate * gaussian_delta(inner, noise_multiplier, 2.0) == pytest.approx(delta, rel=2e-3)
    # every other record pulls to -C; the target to +C or -C: the drawn sum moves by 2C with
    # probability `rate`
    attained = hockey_stick(((1 - rate, rate), (0, 2 / noise_multiplier)), ((1,), (0,)), epsilon)
    assert attained == pytest.approx(delta, rel=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "noise_multiplier, batch_size, n_rounds, pinned",
    [(2.0, 10, 100, 0.999), (4.0, 1000, 10, 7.511), (8.0, 5, 2000, 0.239)],
)
def test_fixed_batches_lie_between_what_is_attained_and_the_rdp_bound(
    noise_multiplier, batch_size, n_rounds, pinned
):
    settings = dict(delta=1e-5 if batch_size == 1000 else 1e-6, n_rounds=n_rounds)
    epsilon = get_epsilon_fixed_batches(
        noise_multiplier, n_records=1000, batch_size=batch_size, **settings
    )
    # the pair above, round after round, is the removal of a record from Poisson batches at half the
    # noise
    assert (
        epsilon
        >= get_epsilon_poisson(noise_multiplier / 2, sample_rate=batch_size / 1000, **settings)
        - 1e-3
    )
    event = dp_accounting.SampledWithoutReplacementDpEvent(
        1000, batch_size, dp_accounting.GaussianDpEvent(noise_multiplier / 2)
    )
    accountant = rdp.RdpAccountant(
        neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE
    )
    accountant.compose(dp_accounting.SelfComposedDpEvent(event, n_rounds))
    assert epsilon < accountant.get_epsilon(settings["delta"])
    assert epsilon == pytest.approx(pinned, abs=1e-3)


@pytest.mark.slow
def test_the_rdp_accountant_would_take_a_replaced_record_s_sensitivity_for_half_of_what_it_is():
    event = dp_accounting.SampledWithoutReplacementDpEvent(
        1000, 1000, dp_accounting.GaussianDpEvent(2.0)
    )
    accountant = rdp.RdpAccountant(
        neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE
    ).compose(event)
    exact = get_epsilon_fixed_batches(2.0, delta=1e-5, n_records=1000, batch_size=1000, n_rounds=1)
    assert gaussian_delta(exact, 2.0, 2.0) == pytest.approx(1e-5, rel=1e-3)
    assert (
        accountant.get_epsilon(1e-5) < 0.6 * exact
    )  # an "upper bound" under the truth: why we halve, or use PLDs


@pytest.mark.slow
@pytest.mark.parametrize(
    "neighbouring, microbatch_size, moved",
    [("add_remove", 1, 1), ("replace_one", 1, 2), ("add_remove", 4, 2), ("replace_one", 4, 2)],
)
def test_a_record_moves_its_clip_or_twice_its_clip(neighbouring, microbatch_size, moved):
    settings = dict(delta=1e-6, neighbouring=neighbouring, microbatch_size=microbatch_size)
    poisson = get_epsilon_poisson(3.0, sample_rate=1.0, n_rounds=1, **settings)
    assert gaussian_delta(poisson, 3.0, moved) == pytest.approx(1e-6, rel=2e-3)
    settings["neighbouring"] = {"add_remove": "zero_out"}.get(neighbouring, neighbouring)
    assert gaussian_delta(
        get_epsilon_epochs(3.0, n_epochs=1, **settings), 3.0, moved
    ) == pytest.approx(1e-6, rel=1e-6)
    composed = get_epsilon_epochs(3.0, n_epochs=4, **settings)
    assert gaussian_delta(composed, 1.5, moved) == pytest.approx(1e-6, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("ends", [(1, -1), (1, 0), (0.5, -1), (-1, 1)])
def test_poisson_batches_of_microbatches_cover_every_move_within_the_ball(ends):
    epsilon = get_epsilon_poisson(1.5, delta=1e-4, sample_rate=0.2, n_rounds=1, microbatch_size=2)
    pair = [((0.8, 0.2), (0, end / 1.5)) for end in ends]
    delta = hockey_stick(*pair, epsilon)
    assert delta <= 1e-4 * (1 + 1e-6)
    if abs(ends[0] - ends[1]) == 2:
        assert delta == pytest.approx(1e-4, rel=2e-3)


def test_the_poisson_price_is_too_low_for_shuffled_batches():
    """Chua et al. 2024, one epoch of T batches: all others' gradients are -C, the target's is C or
    (zero-out) 0.

    Its batch stands out by 2C or by C among T that are alike, and the event "some batch lies above
    c" attains a delta.
    """
    n_batches, noise_multiplier, delta = 10_000, 0.5, 1e-6
    priced = get_epsilon_poisson(
        noise_multiplier, delta=delta, sample_rate=1 / n_batches, n_rounds=n_batches
    )
    held = get_epsilon_epochs(noise_multiplier, delta=delta, n_epochs=1, neighbouring="zero_out")

    def attained(epsilon):
        c = np.linspace(0, 6, 6001)
        others = (n_batches - 1) * stats.norm.logcdf(c / noise_multiplier)
        above = [
            -np.expm1(others + stats.norm.logcdf((c - by) / noise_multiplier)) for by in (2, 1)
        ]
        return float(np.max(above[0] - math.exp(epsilon) * above[1]))

    assert priced == pytest.approx(1.96, abs=0.01)  # both as in their paper
    assert attained(10.99) > delta >= attained(held) and held < 11
    assert attained(priced) > 0.01  # ten thousand times the delta that was promised


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda: get_epsilon_poisson(
                1.0, delta=1e-5, sample_rate=0.1, n_rounds=1, neighbouring="zero_out"
            ),
            r"neighbouring must be one of add_remove, replace_one, got 'zero_out'",
        ),
        (
            lambda: get_epsilon_epochs(1.0, delta=1e-5, n_epochs=1, neighbouring="add_remove"),
            r"neighbouring must be one of replace_one, zero_out, got 'add_remove'",
        ),
        (
            lambda: get_epsilon_epochs(1.0, delta=1e-5, n_epochs=1.5),
            "n_epochs must be a whole number >= 1, got 1.5",
        ),
        (
            lambda: get_epsilon_epochs(1.0, delta=1e-5, n_epochs=1, microbatch_size=0),
            "microbatch_size must be a whole number >= 1, got 0",
        ),
        (
            lambda: get_epsilon_fixed_batches(
                0.0, delta=1e-5, n_records=10, batch_size=1, n_rounds=1
            ),
            "noise_multiplier must be a finite number > 0, got 0.0",
        ),
        (
            lambda: get_epsilon_fixed_batches(
                1.0, delta=1e-5, n_records=10, batch_size=11, n_rounds=1
            ),
            "batch_size must be a whole number from 1 to n_records 10, got 11",
        ),
    ],
)
def test_bad_sampling_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


PRICED = dict(noise_multiplier=1.0, delta=1e-5, sample_rate=0.01, n_rounds=100)
FIXED = dict(noise_multiplier=1.0, delta=1e-5, n_records=100, batch_size=10, n_rounds=10)
EPOCHS = dict(noise_multiplier=1.0, delta=1e-5, n_epochs=10)
SOUGHT = dict(epsilon=1.0, delta=1e-5, sample_rate=0.5, n_rounds=10)


@pytest.mark.parametrize(
    "function, settings, name, values",
    [
        (get_epsilon_poisson, PRICED, "noise_multiplier", [9e-4, 1.1e9, 1e-100, 1e308, "a", None]),
        (get_epsilon_poisson, PRICED, "delta", [9e-101, 5e-324, 1, math.nan]),
        (get_epsilon_poisson, PRICED, "sample_rate", [9e-13, 1e-300, 0, 2]),
        (get_epsilon_poisson, PRICED, "n_rounds", [10**7 + 1, 10**18, 0, 1.5]),
        (get_epsilon_fixed_batches, FIXED, "batch_size", ["a", None, math.nan, "100", 101]),
        (get_epsilon_fixed_batches, FIXED, "n_records", [10**9 + 1, "100", 0, 9.5]),
        (get_epsilon_epochs, EPOCHS, "noise_multiplier", [1e100]),
        (get_epsilon_epochs, EPOCHS, "n_epochs", [10**7 + 1]),
        (get_epsilon_random_allocation, EPOCHS | dict(n_batches=2), "n_batches", [10**7 + 1]),
        (calibrate_noise_multiplier, SOUGHT, "epsilon", [1e300, 1.1e5, 9e-5, 1e-300, "1"]),
        (calibrate_noise_multiplier, SOUGHT, "n_rounds", [10**9]),
    ],
)
def test_a_setting_far_off_is_refused_by_its_name(function, settings, name, values):
    for value in values:
        with pytest.raises(ValueError, match=f"^{name} must be .*got {re.escape(repr(value))}$"):
            function(**settings | {name: value})


@pytest.mark.parametrize("noise_multiplier", [1e-3, 1e9])
@pytest.mark.parametrize("delta", [1e-100, 0.9])
@pytest.mark.parametrize("sample_rate, n_rounds", [(1e-12, 1), (1e-12, 10**7), (1.0, 10**7)])
def test_the_ends_of_what_is_priced_are_priced(noise_multiplier, delta, sample_rate, n_rounds):
    settings = dict(delta=delta, sample_rate=sample_rate, n_rounds=n_rounds)
    sure = get_epsilon_poisson(noise_multiplier, **settings | dict(sample_rate=1.0))
    assert 0 <= get_epsilon_poisson(noise_multiplier, **settings) <= sure < math.inf
