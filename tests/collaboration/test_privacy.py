"""Noise scales: Theorem 1 attained by formula and by counting, and (epsilon, delta) against
dp_accounting."""

import math

import dp_accounting
import numpy as np
import pytest
from collaboration_settings import flat
from dp_accounting import pld, rdp
from scipy import optimize, stats

from ppkit.accounting import laplace_curve
from ppkit.audit import empirical_epsilon
from ppkit.collaboration.losses import hinge, queries, squared
from ppkit.collaboration.owners import Bounds, Owner
from ppkit.collaboration.privacy import gaussian_scale, laplace_scale, zcdp_budget
from ppkit.collaboration.theorems import attained_epsilon
from ppkit.collaboration.training import train

BASE = {"gradient_bound": 3.0, "n_records": 50, "horizon": 20}
N, BOUNDS = 50, Bounds(3.0, 2.0, 5.0)
RECORD = {
    "hinge": ((3.0, 0.0), 1.0),
    "squared": ((3.0, 0.0), 5.0),
}  # x and y whose gradient is Xi long at CORNER
OTHER = {
    "hinge": ((-3.0, 0.0), 1.0),
    "squared": ((0.0, 3.0), 5.0),
}  # the same, and as far from the first as can be
CORNER = np.array([[-2.0], [-2.0]])


def neighbours(loss):
    """Two owners of N records, all but one of them (0, 0), that differ in one record: gradients 2
    Xi / N apart."""

    def owner(x, label):
        X, y = np.zeros((N, 2)), np.full(N, label)
        X[0] = x
        return Owner("one", X, y)

    return owner(*RECORD[loss.kind]), owner(*OTHER[loss.kind])


@pytest.mark.parametrize("loss", [hinge(0.0), squared()], ids=str)
def test_theorem_1_is_attained_exactly_over_all_answers(loss):
    """All T answers lie beyond both means in every coordinate that moves:
    log-likelihood ratio T (2 Xi / n) / b = epsilon."""
    epsilon, T, xi = 0.7, 20, loss.gradient_bound(BOUNDS)
    theta = (
        CORNER if loss.kind == "squared" else np.zeros((2, 1))
    )  # for the hinge the two need the same margin
    g, h = (queries(loss, (owner,)).gradient(0, theta)[:, 0] for owner in neighbours(loss))
    assert np.abs(g - h).sum() == pytest.approx(2 * xi / N, rel=1e-14)
    b = laplace_scale(gradient_bound=xi, n_records=N, horizon=T, epsilon=epsilon)
    answer = g + np.sign(g - h) * 2 * b
    ratio = T * (stats.laplace.logpdf(answer, g, b) - stats.laplace.logpdf(answer, h, b)).sum()
    assert ratio == pytest.approx(epsilon, rel=1e-12)


@pytest.mark.slow
def test_empirical_epsilon_is_below_the_promise_and_above_half_of_it():
    """One answer of `train` (T = 1), event "theta[2] at or beyond what it is without noise":
    1/2 against e^-epsilon / 2.

    200,000 runs a side. The bound exceeds the truth with chance <= 1e-8 (Clopper-Pearson), and is
    below .8 epsilon only if a count is off by 5%: binomial tails, asserted < 1e-6. A halved
    sensitivity gives about 2 epsilon, a doubled one epsilon / 2.
    """
    epsilon, loss, trials = 1.0, hinge(0.0), 200_000
    hits = []
    for owner, seed in zip(neighbours(loss), (1, 2)):
        made = flat(train)(
            (owner,),
            loss=loss,
            bounds=BOUNDS,
            epsilons=(epsilon,),
            horizon=1,
            n_runs=trials,
            step=0.5,
            optimum=1.0,
            rng=np.random.default_rng(seed),
            algorithm=1,
            all_answers=True,
            at="last",
        )
        hits.append(int((made.iterate[:, 0] >= 0.5 * 3.0 / N).sum()))
    low, high = int(0.95 * 0.5 * trials), int(1.05 * 0.5 * math.exp(-epsilon) * trials)
    failure = (
        stats.binom.cdf(low, trials, 0.5)
        + stats.binom.sf(high, trials, 0.5 * math.exp(-epsilon))
        + 1e-8
    )
    assert failure < 1e-6
    assert empirical_epsilon(low, trials, high, trials, failure=1e-8) > 0.8 * epsilon
    assert (
        0.8 * epsilon < empirical_epsilon(hits[0], trials, hits[1], trials, failure=1e-8) <= epsilon
    )


def test_scales_move_as_the_formula_says():
    b = laplace_scale(**BASE, epsilon=1.0)
    assert b == 2 * 3.0 * 20 / 50
    assert (
        laplace_scale(**BASE, epsilon=1.0, kappa=2) == laplace_scale(**BASE, epsilon=0.5) == 2 * b
    )
    assert (
        laplace_scale(**BASE, epsilon=math.inf)
        == gaussian_scale(**BASE, epsilon=math.inf, delta=1e-6)
        == 0.0
    )
    assert laplace_scale(**BASE, epsilon=1.0, delta=1e-6, kappa=2) == laplace_scale(
        **BASE, epsilon=0.5, delta=5e-7
    )
    sigma = gaussian_scale(**BASE, epsilon=1.0, delta=1e-6)
    assert gaussian_scale(**{**BASE, "n_records": 100}, epsilon=1.0, delta=1e-6) == pytest.approx(
        sigma / 2, rel=1e-12
    )
    assert gaussian_scale(**{**BASE, "horizon": 80}, epsilon=1.0, delta=1e-6) == pytest.approx(
        2 * sigma, rel=1e-12
    )
    assert gaussian_scale(**BASE, epsilon=1.0, delta=1e-6, kappa=2) == gaussian_scale(
        **BASE, epsilon=0.5, delta=5e-7
    )


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5])
def test_gaussian_scale_against_dp_accounting(epsilon, delta):
    """T Gaussians of noise multiplier sigma / (2 Xi / n): never more than promised, and what
    dp_accounting's RDP says too."""
    sigma = gaussian_scale(**BASE, epsilon=epsilon, delta=delta)
    event = dp_accounting.SelfComposedDpEvent(
        dp_accounting.GaussianDpEvent(sigma / (2 * 3.0 / 50)), 20
    )
    exact = pld.PLDAccountant(value_discretization_interval=1e-4).compose(event).get_epsilon(delta)
    assert 0.8 * epsilon < exact <= epsilon * (1 + 1e-3)
    by_renyi = (
        rdp.RdpAccountant(np.r_[1 + np.logspace(-3, 4, 4_000)]).compose(event).get_epsilon(delta)
    )
    assert by_renyi == pytest.approx(epsilon, rel=2e-3)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.1])
def test_gaussian_scale_at_small_epsilon_against_the_exact_curve(epsilon, delta):
    """T Gaussians are one, mu = sqrt(T) (2 Xi / n) / sigma:
    delta = F(mu/2 - e/mu) - exp(e) F(-mu/2 - e/mu) (Balle, Wang)."""

    def exact_delta(log_mu):
        mu = math.exp(log_mu)
        return stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(
            -mu / 2 - epsilon / mu
        )

    largest = math.exp(optimize.brentq(lambda log_mu: exact_delta(log_mu) / delta - 1, -34, 3))
    sigma = gaussian_scale(
        gradient_bound=1.0, n_records=1_000, horizon=100, epsilon=epsilon, delta=delta
    )
    assert (
        1 <= sigma / (math.sqrt(100) * 2 / 1_000 / largest) < 1.55
    )  # never below the exact one, and not far above


def test_a_budget_below_the_orders_is_refused_and_one_above_the_bracket_holds():
    with pytest.raises(
        ValueError,
        match="no noise is proved to give epsilon = 1e-160 at delta = 1e-200: too small$",
    ):
        zcdp_budget(1e-160, 1e-200)
    shift = (
        2.0
        / 1_000
        / laplace_scale(gradient_bound=1.0, n_records=1_000, horizon=1, epsilon=1e-12, delta=0.1)
    )
    assert (
        1e-4 < shift <= -2 * math.log(0.9)
    )  # one Laplace answer at shift s has delta(0) = 1 - exp(-s/2) <= .1


@pytest.mark.parametrize("kappa", [1, 2])
def test_with_kappa_a_shared_record_pays_the_mean_of_the_promises(kappa):
    """Owners of .1 and 10: with kappa 2 the record that both hold costs 5.05, not .1; alike owners
    keep their promise."""

    def paid(promises):
        scales = [
            laplace_scale(gradient_bound=3.0, n_records=50, horizon=20, epsilon=e, kappa=kappa)
            for e in promises
        ]
        return attained_epsilon(np.full((2, 20), 2 * 3.0 / 50), scales)

    assert paid((0.1, 10.0)) == pytest.approx(10.1 / kappa, rel=1e-12)
    assert paid((0.1, 0.1)) == pytest.approx(0.2 / kappa, rel=1e-12)
    assert kappa == 1 or paid((0.1, 10.0)) > 0.1 and paid((0.05, 0.1)) <= 0.1


def test_zcdp_budget_by_the_textbook_conversion():
    """rho + 2 sqrt(rho ln(1 / delta)) is a looser conversion, so its rho is smaller, by less than a
    half at delta = 1e-6."""
    for epsilon in (0.1, 1.0, 5.0):
        textbook = optimize.brentq(
            lambda rho: rho + 2 * math.sqrt(rho * math.log(1e6)) - epsilon, 1e-9, 10
        )
        assert textbook < zcdp_budget(epsilon, 1e-6) < 2 * textbook


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("horizon", [1, 10, 100, 1_000])
@pytest.mark.parametrize("delta", [1e-9, 1e-4])
def test_laplace_scale_with_delta_is_never_above_the_pure_one_and_holds(epsilon, horizon, delta):
    setting = {**BASE, "horizon": horizon}
    pure, approximate = (
        laplace_scale(**setting, epsilon=epsilon),
        laplace_scale(**setting, epsilon=epsilon, delta=delta),
    )
    assert approximate <= pure * (1 + 1e-12)
    event = dp_accounting.SelfComposedDpEvent(
        dp_accounting.LaplaceDpEvent(approximate / (2 * 3.0 / 50)), horizon
    )
    if horizon <= 100:  # privacy loss distributions of one coordinate that takes the whole shift
        exact = (
            pld.PLDAccountant(value_discretization_interval=1e-3).compose(event).get_epsilon(delta)
        )
        assert exact <= epsilon * (1 + 1e-6) + 1e-3 * horizon**0.5
    if horizon >= 100 and epsilon <= 1:
        assert approximate < 0.6 * pure


def test_an_l1_shift_is_worst_in_one_coordinate():
    """What `laplace_scale` rests on:
    (alpha - 1) D_alpha(s) + (alpha - 1) D_alpha(t) <= (alpha - 1) D_alpha(s + t)."""
    orders = 1 + np.logspace(-3, 3, 60)
    for s in np.logspace(-3, 1, 12):
        for t in np.logspace(-3, 1, 12):
            assert (
                laplace_curve(s, 1)(orders) + laplace_curve(t, 1)(orders)
                <= laplace_curve(s + t, 1)(orders) * (1 + 1e-9)
            ).all()


@pytest.mark.parametrize(
    "change, message",
    [
        ({"epsilon": 0.0}, "epsilon must be > 0, got 0.0"),
        ({"epsilon": -1.0}, "epsilon must be > 0, got -1.0"),
        ({"epsilon": math.nan}, "epsilon must be > 0, got nan"),
        ({"gradient_bound": 0.0}, "gradient_bound must be a finite number > 0, got 0.0"),
        ({"gradient_bound": math.inf}, "gradient_bound .* got inf"),
        ({"n_records": 0}, "n_records must be a whole number >= 1, got 0"),
        ({"horizon": 0}, "horizon must be a whole number >= 1, got 0"),
        ({"horizon": 2.5}, "horizon .* got 2.5"),
        ({"horizon": True}, "horizon .* got True"),
        ({"kappa": 0}, "kappa must be a whole number >= 1, got 0"),
        ({"epsilon": "1"}, "epsilon must be > 0, got '1'"),
        ({"delta": "x"}, "delta must be in .* got 'x'"),
        ({"epsilon": 1e-320}, "asks for more noise than a float64 can hold"),
        ({"delta": 1.0}, "delta must be in .* got 1.0"),
    ],
)
def test_refusals_name_the_value(change, message):
    for scale_of in (laplace_scale, gaussian_scale):
        with pytest.raises(ValueError, match=message):
            scale_of(**{**BASE, "epsilon": 1.0, "delta": 1e-6, **change})


@pytest.mark.parametrize(
    "epsilon, delta, message",
    [
        (-1.0, 0.1, "epsilon must be"),
        ("1", 0.1, "epsilon must be"),
        (1.0, 2.0, r"delta must be in \(0, 1\), got 2.0"),
    ],
)
def test_a_zcdp_budget_is_for_a_promise_that_there_is(epsilon, delta, message):
    with pytest.raises(ValueError, match=message):
        zcdp_budget(epsilon, delta)


def test_gaussian_noise_needs_a_delta():
    with pytest.raises(ValueError, match=r"delta must be in \(0, 1\), got None"):
        gaussian_scale(**BASE, epsilon=1.0, delta=None)
