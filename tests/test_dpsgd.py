import math

import dp_accounting
import numpy as np
import pytest
import torch
from dp_accounting import rdp
from scipy import stats

from ppkit.dpsgd import DPSGD, epsilon_for, noise_multiplier_for
from ppkit.gradients import clipped_sum, mean_plain
from ppkit.models import mlp

DELTA = 2.0**-30


def problem(n_records=40, dtype=torch.float64):
    rng = torch.Generator().manual_seed(0)
    model = mlp((12, 8, 2), rng=rng, dtype=dtype)
    X = torch.randn(n_records, 12, generator=rng, dtype=dtype)
    return model, X, torch.randint(0, 2, (n_records,), generator=rng)


def test_without_noise_and_bound_it_is_plain_sgd():
    model, X, y = problem()
    upload = DPSGD(0.0, math.inf)(model, X, y, expected_batch=40, rng=np.random.default_rng(0))
    assert (upload - mean_plain(model, X, y)).abs().max() < 1e-12


@pytest.mark.parametrize("n_records", [0, 40])
def test_the_noise_has_the_stated_spread_and_leaves_an_empty_sample_too(n_records):
    model, X, y = problem(n_records)
    upload = DPSGD(2.0, 0.5)(model, X, y, expected_batch=10.0, rng=np.random.default_rng(1))
    signal = clipped_sum(model, X, y, max_grad_norm=0.5) if n_records else 0.0
    noise = (upload * 10.0 - signal).numpy()
    # sum of (noise / scale)^2 is chi-squared with P degrees of freedom
    low, high = stats.chi2.ppf([2.5e-7, 1 - 2.5e-7], df=noise.size)
    assert stats.chi2.cdf(low, noise.size) + stats.chi2.sf(high, noise.size) < 1e-6
    assert low < ((noise / (2.0 * 0.5)) ** 2).sum() < high


def test_float32_stays_float32():
    model, X, y = problem(dtype=torch.float32)
    assert DPSGD(1.0, 1.0)(model, X, y, expected_batch=40, rng=np.random.default_rng(0)).dtype == torch.float32


@pytest.mark.parametrize("noise_multiplier, n_rounds, pinned", [(1, 100, 1.854), (1, 1000, 2.999), (2, 1000, 0.973)])
def test_epsilon_is_the_pinned_value_and_below_the_rdp_bound(noise_multiplier, n_rounds, pinned):
    epsilon = epsilon_for(noise_multiplier, delta=DELTA, sample_rate=0.01, n_rounds=n_rounds)
    assert epsilon == pytest.approx(pinned, abs=1e-3)
    event = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(noise_multiplier))
    accountant = rdp.RdpAccountant().compose(dp_accounting.SelfComposedDpEvent(event, n_rounds))
    assert epsilon < accountant.get_epsilon(DELTA)


def test_without_sampling_it_is_the_exact_gaussian():
    exact = dp_accounting.get_epsilon_gaussian(3.0 / math.sqrt(10), DELTA)
    epsilon = epsilon_for(3.0, delta=DELTA, sample_rate=1.0, n_rounds=10)
    assert exact - 1e-9 <= epsilon <= exact + 1e-3


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0, 20.0])
def test_the_calibrated_noise_meets_the_budget_and_hardly_more(epsilon):
    settings = dict(delta=DELTA, sample_rate=0.01, n_rounds=200)
    noise_multiplier = noise_multiplier_for(epsilon, **settings)
    assert epsilon_for(noise_multiplier, **settings) <= epsilon
    assert epsilon_for(noise_multiplier * 0.98, **settings) > epsilon


@pytest.mark.parametrize("change, message", [
    ({"delta": 0.0}, r"delta must be in \(0, 1\), got 0.0"),
    ({"sample_rate": 1.5}, r"sample_rate must be in \(0, 1\], got 1.5"),
    ({"sample_rate": math.nan}, r"sample_rate must be in \(0, 1\], got nan"),
    ({"n_rounds": 0}, "n_rounds must be a whole number >= 1, got 0"),
])
def test_bad_budgets_are_named(change, message):
    settings = {"delta": DELTA, "sample_rate": 0.01, "n_rounds": 10} | change
    for function in (epsilon_for, noise_multiplier_for):
        with pytest.raises(ValueError, match=message):
            function(1.0, **settings)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_bad_noise_and_epsilon_are_named(value):
    settings = {"delta": DELTA, "sample_rate": 0.01, "n_rounds": 10}
    with pytest.raises(ValueError, match=f"noise_multiplier must be a finite number > 0, got {value}"):
        epsilon_for(value, **settings)
    with pytest.raises(ValueError, match=f"epsilon must be a finite number > 0, got {value}"):
        noise_multiplier_for(value, **settings)


def test_bad_uploads_are_named():
    with pytest.raises(ValueError, match="noise_multiplier must be a finite number >= 0, got -1"):
        DPSGD(-1, 1.0)
    with pytest.raises(ValueError, match="max_grad_norm must be > 0, got 0"):
        DPSGD(1.0, 0)
