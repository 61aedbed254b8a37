"""The chance to name one of several: against closed forms, attackers and single pairs."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from ppkit import accounting
from ppkit.accounting import get_naming_bound


def gaussian(noise_multiplier, neighbouring="zero_out"):
    """The profile of one Gaussian."""
    return lambda delta: accounting.get_epsilon_epochs(
        noise_multiplier, delta=delta, n_epochs=1, neighbouring=neighbouring
    )


@pytest.mark.parametrize("n_candidates", [10, 100, 1_000, 10**6])
@pytest.mark.parametrize("noise_multiplier", [0.5, 1.1, 4.0])
def test_one_gaussian_has_its_trade_off_curve(n_candidates, noise_multiplier):
    bound = get_naming_bound(
        gaussian(noise_multiplier), n_candidates=n_candidates, neighbouring="zero_out"
    )
    curve = norm.cdf(norm.ppf(1 / n_candidates) + 1 / noise_multiplier)
    assert curve * (1 - 1e-9) <= bound
    if norm.ppf(1 - 1 / n_candidates) > 0.5 / noise_multiplier:  # the best epsilon is above 0
        assert bound == pytest.approx(curve, rel=1e-4)


@pytest.mark.parametrize("n_candidates", [2, 3, 100])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0, 50.0])
def test_randomised_response_among_all_attains_what_a_pure_profile_gives(n_candidates, epsilon):
    """It says the truth with chance e^epsilon / (e^epsilon + m - 1), all others are alike."""
    bound = get_naming_bound(
        lambda delta: epsilon, n_candidates=n_candidates, neighbouring="replace_one"
    )
    truth = 1 / (1 + (n_candidates - 1) * math.exp(-epsilon))
    assert bound == pytest.approx(truth, abs=1e-10) and bound >= truth


def test_a_mechanism_that_fails_openly():
    """It sends the candidate with chance delta, else nothing, and leaves a guess of 1 in m."""
    failing, m = 0.05, 20
    profile = lambda delta: 0.0 if delta >= failing else 60.0
    exact = failing + (1 - failing) / m
    replaced = get_naming_bound(profile, n_candidates=m, neighbouring="replace_one")
    removed = get_naming_bound(profile, n_candidates=m, neighbouring="add_remove")
    assert exact * (1 - 1e-12) <= replaced <= removed
    assert replaced == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize("noise_multiplier", [0.5, 1.0, 2.0])
def test_the_best_attacker_on_gaussians_stays_below(noise_multiplier):
    """Candidates are orthogonal, and each moves the sum by 1: replaced by another, by sqrt(2)."""
    n, rng = 50, np.random.default_rng(0)
    seen = np.eye(n) + noise_multiplier * rng.standard_normal((400, n, n))
    named = (seen.argmax(axis=2) == np.arange(n)).mean()
    slack = math.sqrt(math.log(2e9) / (2 * 400 * n))  # Hoeffding: 1e-9
    bounds = {
        relation: get_naming_bound(
            gaussian(noise_multiplier, relation), n_candidates=n, neighbouring=relation
        )
        for relation in ("zero_out", "replace_one")
    }
    assert named <= min(bounds.values()) + slack
    assert bounds["zero_out"] < bounds["replace_one"]
    assert named > 0.4 * bounds["zero_out"]  # the bound says something


@pytest.mark.slow
@pytest.mark.parametrize("n_rounds, printed", [(200, 0.0212), (1_000, 0.0279)])
def test_a_training_with_epsilon_2(n_rounds, printed):
    """What the record which_one prints: 2.1% and 2.8% of 100, where e^2 / 100 is 7.4%."""
    batches = dict(sample_rate=0.01, n_rounds=n_rounds)
    noise = accounting.calibrate_noise_multiplier(2.0, delta=1e-6, **batches)
    profile = lambda delta: accounting.get_epsilon_poisson(noise, delta=delta, **batches)
    bound = get_naming_bound(profile, n_candidates=100, neighbouring="add_remove")
    assert bound == pytest.approx(printed, abs=1e-4)


@pytest.mark.slow
@settings(max_examples=15)
@given(
    noise_multiplier=st.floats(0.2, 20),
    n_candidates=st.integers(2, 10_000),
    neighbouring=st.sampled_from(["zero_out", "replace_one"]),
    delta=st.floats(1e-10, 0.4),
)
def test_no_single_pair_gives_less(noise_multiplier, n_candidates, neighbouring, delta):
    profile = gaussian(noise_multiplier, neighbouring)
    how = dict(n_candidates=n_candidates, neighbouring=neighbouring)
    bound = get_naming_bound(profile, **how)
    assert 1 / n_candidates * (1 - 1e-12) <= bound <= 1
    odds = math.exp(profile(delta))
    pair = odds / n_candidates + delta
    if neighbouring == "replace_one":
        pair = (odds + (n_candidates - 1) * delta) / (odds + n_candidates - 1)
    assert bound <= pair * (1 + 1e-3)
    more = get_naming_bound(gaussian(noise_multiplier * 1.3, neighbouring), **how)
    assert more <= bound * 1.001


def test_a_profile_is_asked_up_to_its_last_delta():
    asked = []

    def profile(delta):
        asked.append(delta)
        return 1.0

    get_naming_bound(profile, n_candidates=9, neighbouring="add_remove", largest_delta=0.01)
    assert max(asked) == 0.01 and min(asked) < 1e-11


@pytest.mark.parametrize(
    "changed, sentence",
    [
        (dict(n_candidates=1), "n_candidates must be a whole number >= 2, got 1"),
        (
            dict(neighbouring="swap"),
            "neighbouring must be one of add_remove, zero_out, replace_one",
        ),
        (dict(largest_delta=1.0), r"largest_delta must be in \(0, 1\), got 1.0"),
    ],
)
def test_what_is_out_of_range_is_refused(changed, sentence):
    asked = dict(n_candidates=9, neighbouring="add_remove") | changed
    with pytest.raises(ValueError, match=sentence):
        get_naming_bound(lambda delta: 1.0, **asked)
