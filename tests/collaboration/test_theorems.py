"""wu2020's theorems: exact fractions, loops written out, hand-derived values, and the
counter-examples attained."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from ppkit.collaboration import theorems

BANKS = dict(n_records=[1000] * 3, epsilons=[1.0] * 3)


def exact_zeta(n_averaged, h):
    """Equation 8 run on the identity, in fractions: the average as a vector of weights."""
    weights = []
    for k in range(1, n_averaged + 1):
        new = (h + 1) / (h + k)
        weights = [(k - 1) / (h + k) * w for w in weights] + [new]
    return weights


def exact_quadratic(horizon, step, noise):
    """E theta[k]^2/2 in fractions, from mean and variance apart (not the recursion of the
    module)."""
    mean, variance, values = Fraction(1), Fraction(0), []
    for k in range(1, horizon + 1):
        values.append((mean**2 + variance) / 2)
        rate = step / (horizon**2 * k)
        mean, variance = (1 - rate) * mean, (1 - rate) ** 2 * variance + rate**2 * noise
    return values


def test_the_noise_has_p_times_appendix_b():
    one = theorems.noise_energy(gradient_bound=1, horizon=100, **BANKS)
    assert one == pytest.approx(float(Fraction(8 * 100**2 * 3, 3000**2)), rel=1e-14)
    b = 2 * 1 * 100 / (1000 * 1.0)  # Theorem 1's scale; each coordinate of w_l has variance 2 b^2
    assert theorems.noise_energy(
        gradient_bound=1, horizon=100, dimension=30, **BANKS
    ) == pytest.approx(30 * 3 * 2 * b**2 / 9)
    reading = dict(gradient_bound=1, horizon=100, n_records=[1000], epsilons=[1])
    assert theorems.noise_energy(**reading) == pytest.approx(0.080)
    assert theorems.noise_energy(dimension=30, **reading) == pytest.approx(2.40)
    uneven = dict(n_records=[100, 900], epsilons=[0.5, np.inf])
    assert theorems.noise_energy(gradient_bound=3, horizon=7, kappa=2, **uneven) == pytest.approx(
        8 * 9 * 49 * 16 / 1e6
    )


def test_the_noise_of_the_code_that_runs():
    """Sampled: the mean of 20,000 squares, exponential-type tails, within 8 standard errors (a
    chance below 1e-6)."""
    rng, scales, n = (
        np.random.default_rng(7),
        np.array([0.2, 0.05, 0.4]),
        np.array([1000, 2000, 500]),
    )
    epsilons = 2 * 3.0 * 10 / (n * scales)
    energy = theorems.noise_energy(
        gradient_bound=3.0, n_records=n, epsilons=epsilons, horizon=10, dimension=4
    )
    w = (rng.laplace(size=(20_000, 3, 4)) * (n * scales)[:, None]).sum(axis=1) / n.sum()
    squares = (w**2).sum(axis=1)
    assert abs(squares.mean() - energy) < 8 * squares.std() / math.sqrt(20_000)
    assert 2 * stats.norm.sf(8) < 1e-6


def test_theorem_1_is_attained_and_what_is_not_asked_is_not_spent():
    scale = 2 * 5.0 * 100 / (1000 * 0.7)
    distance = 2 * 5.0 / 1000
    assert theorems.attained_epsilon(np.full(100, distance), scale) == pytest.approx(0.7, rel=1e-12)
    assert theorems.attained_epsilon(np.full(99, distance), scale) == pytest.approx(
        0.7 * 0.99, rel=1e-12
    )
    Q, Q2, y = (
        np.array([0.3, -0.1]),
        np.array([0.1, 0.2]),
        np.array([5.0, -4.0]),
    )  # an output beyond Q, away from Q2
    ratio = stats.laplace.logpdf(y, Q, scale).sum() - stats.laplace.logpdf(y, Q2, scale).sum()
    assert theorems.attained_epsilon([np.abs(Q - Q2).sum()], scale) == pytest.approx(
        ratio, rel=1e-12
    )


def test_a_record_of_two_owners_pays_the_mean_of_their_budgets():
    epsilons, n, T, kappa = np.array([0.1, 10.0]), np.array([1000, 500]), 50, 2
    scales = 2 * T * kappa / (n * epsilons)
    assert theorems.attained_epsilon(np.outer(2 / n, np.ones(T)), scales) == pytest.approx(5.05)


def test_chance_outside_by_integration_and_limits():
    settings = dict(start=0.4, gradient=-1.5, step=8.0, horizon=2, scale=0.3, radius=1.0)
    middle, spread = 0.4 + 2.0 * 1.5, 2.0 * 0.3
    outside = 1 - stats.laplace(middle, spread).cdf(1.0) + stats.laplace(middle, spread).cdf(-1.0)
    assert theorems.chance_outside(**settings) == pytest.approx(outside, rel=1e-12)
    assert theorems.chance_outside(**settings | {"gradient": 0.2}) == pytest.approx(
        math.exp(-1 / 0.6), rel=1e-12
    )  # middle 0
    assert theorems.chance_outside(**settings | {"scale": 1e-3, "gradient": 0.0}) < 1e-100


@pytest.mark.parametrize("horizon", [1, 2, 3, 10, 40])
@pytest.mark.parametrize("step", [1, 5, 1000])
def test_the_quadratic_in_fractions(horizon, step):
    noise = Fraction(3, 7)
    values = theorems.algorithm1_quadratic(horizon=horizon, step=step, noise=float(noise))
    np.testing.assert_allclose(
        values, [float(v) for v in exact_quadratic(horizon, step, noise)], rtol=1e-12
    )


def test_theorem_2_fails_at_every_horizon_for_rho_fixed_in_advance():
    for epsilon, at_most in ((1.0, 2.7e-6), (10.0, 2.7e-8)):
        banks = BANKS | {"epsilons": [epsilon] * 3}
        bound = theorems.theorem2_bound(gradient_bound=1, strong_convexity=1, step=1, **banks)
        assert bound < at_most
        least = {}
        for horizon in (*range(1, 60), 100, 1000, 10_000):
            noise = theorems.noise_energy(gradient_bound=1, horizon=horizon, **banks)
            least[horizon] = theorems.algorithm1_quadratic(
                horizon=horizon, step=1.0, noise=noise
            ).min()
        assert min(least.values()) >= 9 / 32 and min(least, key=least.get) == 2
        assert [round(least[T], 4) for T in (10, 100, 1000, 10_000)] == [0.4724, 0.4995, 0.5, 0.5]
    for T in range(2, 60):  # the inequality behind "at every horizon"
        assert sum(Fraction(1, k) for k in range(1, T)) / T**2 <= Fraction(1, 4)


def test_theorem_2_is_true_and_empty_where_rho_grows_like_the_square_of_the_horizon():
    for horizon in (10, 100, 1000):
        noise = theorems.noise_energy(gradient_bound=1, horizon=horizon, **BANKS)
        error = theorems.algorithm1_quadratic(horizon=horizon, step=horizon**2, noise=noise)[-1]
        bound = theorems.theorem2_bound(
            gradient_bound=1, strong_convexity=1, step=horizon**2, **BANKS
        )
        assert error == pytest.approx(
            noise / (2 * (horizon - 1)), rel=1e-9
        )  # theta[T] is the mean of T - 1 noises
        assert bound / error == pytest.approx(2 * (horizon - 1), rel=1e-9)
    thirty = theorems.noise_energy(gradient_bound=1, horizon=10, dimension=30, **BANKS)
    error = theorems.algorithm1_quadratic(horizon=10, step=100, noise=thirty).min()
    printed = theorems.theorem2_bound(gradient_bound=1, strong_convexity=1, step=100, **BANKS)
    assert printed < error < 30 * printed and error / printed == pytest.approx(30 / 18)


def algorithm1_bound(*, initial, strong_convexity, smoothness, step, horizon, noise):
    """The bound of `algorithm1_quadratic`'s docstring, and for rho_k > 2/lambda, where the fall of
    E f is a rise and |grad|^2 <= 2 lambda (f - f*), the factor (1 - lambda rho_k)^2."""
    error = [initial]
    for k in range(1, horizon):
        rate = step / (horizon**2 * k)
        slow = 1 - strong_convexity * rate * (2 - smoothness * rate)
        factor = slow if rate * smoothness <= 2 else (1 - smoothness * rate) ** 2
        error.append(factor * error[-1] + 0.5 * smoothness * rate**2 * noise)
    return np.array(error)


@pytest.mark.parametrize("step", [0.5, 10.0, 25.0, 60.0, 300.0])
def test_algorithm_1_stays_below_the_bound_that_holds(step):
    """f = theta' diag(1, 4) theta/2, so L = 1, lambda = 4: exact by mean and variance of each
    coordinate."""
    h, mean, variance, horizon, noise = (
        np.array([1.0, 4.0]),
        np.array([1.0, -0.5]),
        np.zeros(2),
        10,
        0.02,
    )
    bound = algorithm1_bound(
        initial=0.5 * (h * mean**2).sum(),
        strong_convexity=1,
        smoothness=4,
        step=step,
        horizon=horizon,
        noise=2 * noise,
    )
    for k in range(1, horizon + 1):
        exact = 0.5 * (h * (mean**2 + variance)).sum()
        assert exact <= bound[k - 1] * (1 + 1e-12)
        rate = step / (horizon**2 * k)
        mean, variance = (1 - rate * h) * mean, (1 - rate * h) ** 2 * variance + rate**2 * noise


def test_strong_convexity_and_smoothness_each_in_its_place():
    printed = theorems.theorem2_bound(gradient_bound=3, strong_convexity=4, step=5, **BANKS)
    assert printed == pytest.approx(8 * 9 * 5 * 3 / (4 * 3000**2), rel=1e-12)
    noisy = algorithm1_bound(
        initial=0, strong_convexity=1, smoothness=4, step=3, horizon=2, noise=0.5
    )
    assert noisy.tolist() == pytest.approx([0, 4 / 2 * (3 / 4) ** 2 * 0.5])
    falls = algorithm1_bound(
        initial=2, strong_convexity=1, smoothness=4, step=1, horizon=2, noise=0.0
    )
    assert falls.tolist() == pytest.approx(
        [2, 2 * (1 - 1 / 4)]
    )  # rho_1 = 1/lambda: the factor 1 - L/lambda


def test_the_bound_that_holds_is_attained_in_both_branches():
    for step in (50.0, 100.0, 900.0):
        ours = algorithm1_bound(
            initial=2.0, strong_convexity=3, smoothness=3, step=step, horizon=10, noise=0.1
        )
        error = [2.0]
        for k in range(1, 10):  # f = 3 theta^2/2: E f = (3/2) E theta^2
            rate = step / (100 * k)
            error.append((1 - 3 * rate) ** 2 * error[-1] + 1.5 * rate**2 * 0.1)
        np.testing.assert_allclose(ours, error, rtol=1e-12)


@pytest.mark.parametrize("horizon", [1, 2, 3, 4, 9, 100])
def test_weights_are_equation_8s(horizon):
    root, K = math.isqrt(horizon), max(horizon - 1, 1)
    h = Fraction(1, root) if root**2 == horizon else 1 / math.sqrt(horizon)
    expected = exact_zeta(K, h)
    assert sum(expected) == pytest.approx(1, rel=1e-12) and (
        sum(expected) == 1 or not isinstance(h, Fraction)
    )
    weights = theorems.averaging_weights(horizon)
    np.testing.assert_allclose(weights, [float(w) for w in expected], rtol=1e-12)
    assert (np.diff(weights) > 0).all() and (weights > 0).all()


def test_appendix_c_is_false_in_fractions():
    zeta = exact_zeta(100, Fraction(1, 10))
    assert sum(zeta) == 1
    step, claimed = theorems.zeta_step(100, 2)
    assert step == pytest.approx(float(zeta[1] - zeta[0]), rel=1e-9) and claimed == float(
        Fraction(2, 10 * 100 * 101)
    )
    assert zeta[1] - zeta[0] > 33 * Fraction(2, 10 * 100 * 101)
    false = sum(zeta[k - 1] - zeta[k - 2] > Fraction(2, 10 * 100 * 101) for k in range(2, 101))
    assert (
        false == sum(np.greater(*theorems.zeta_step(100, k)) for k in range(2, 101)) and false > 40
    )


def algorithm_2(slope, horizon, step, noise, theta_max=1.0, strong=0.0):
    """Algorithm 2 on f = strong theta^2/2 + slope theta from theta_max,
    noise (T,) given: bar[T]."""
    theta, bar, h = theta_max, 0.0, 1 / math.sqrt(horizon)
    for k in range(1, horizon):
        bar = (k - 1) / (h + k) * bar + (h + 1) / (h + k) * theta
        theta = min(
            max(theta - step / math.sqrt(k) * (strong * theta + slope + noise[k - 1]), -theta_max),
            theta_max,
        )
    return bar


@pytest.mark.parametrize("horizon", [2, 3, 10, 100])
@pytest.mark.parametrize("step", [1e-3, 1.0, 1e6])
def test_no_c1_gets_below_the_corner(horizon, step):
    rng = np.random.default_rng(horizon)
    floor = 0.5 * theorems.corner_excess(horizon, theta_max=2.0)
    for scale in (0.0, 0.1, 10.0):
        bar = algorithm_2(0.5, horizon, step, scale * rng.laplace(size=horizon), theta_max=2.0)
        assert 0.5 * (bar + 2.0) >= floor * (1 - 1e-9)
    attained = 0.5 * (algorithm_2(0.5, horizon, 1e6, np.zeros(horizon), theta_max=2.0) + 2.0)
    assert attained == pytest.approx(floor, rel=1e-9)
    assert floor == pytest.approx(
        2.0 * float(exact_zeta(max(horizon - 1, 1), 1 / math.sqrt(horizon))[0]), rel=1e-9
    )


def test_theorem_3_fails_for_any_constants_once_the_budget_is_large():
    """c2 = 1e9 and c1 = 1e6 at T = 100: beyond the budget that the docstring names, the corner is
    above the right side."""
    c2, n, N = 1e9, 3000, 3
    excess = theorems.corner_excess(100)
    budget = c2 * math.sqrt(N) / (n * excess)
    for factor, fails in ((1.01, True), (0.99, False)):
        bound = theorems.theorem3_bound(
            constant=c2, gradient_bound=1, n_records=[1000] * N, epsilons=[factor * budget] * N
        )
        assert (excess > bound) == fails
    strong = algorithm_2(
        2.0, 100, 1e6, np.zeros(100), strong=1.0
    )  # equation 12: theta* = -1 still, as 2 >= 1
    assert (strong + 1) ** 2 >= (2 * theorems.averaging_weights(100)[0]) ** 2 * (1 - 1e-9)


def algorithm2_bound(*, diameter, gradient_norm, step, horizon, noise):
    """The bound of `theorem3_constant`'s docstring: D^2 A/(2 c1) + (c1/2) G^2 B."""
    zeta, root = theorems.averaging_weights(horizon), np.sqrt(np.arange(1, horizon))
    A, B = zeta[-1] * root[-1], (zeta / root).sum()
    return diameter**2 * A / (2 * step) + step / 2 * (gradient_norm**2 + noise) * B


@pytest.mark.slow
def test_theorem_3s_constant_is_the_proofs_optimum():
    for horizon in (2, 10, 100):
        c2 = theorems.theorem3_constant(horizon=horizon, diameter=3.0, dimension=5)
        noise = theorems.noise_energy(gradient_bound=2, horizon=horizon, dimension=5, **BANKS)
        steps = np.geomspace(1e-4, 1e4, 4001)
        tiny = 1e-9  # a gradient that is next to nothing: the paper leaves it out
        best = min(
            algorithm2_bound(diameter=3.0, gradient_norm=tiny, step=c, horizon=horizon, noise=noise)
            for c in steps
        )
        bound = theorems.theorem3_bound(constant=c2, gradient_bound=2, **BANKS)
        assert bound <= best <= bound * 1.0001
    assert theorems.theorem3_constant(horizon=2, diameter=3.0, dimension=5) == pytest.approx(
        3 * 2 * math.sqrt(40)
    )
    large = theorems.theorem3_constant(horizon=100, diameter=1, dimension=1)
    assert large == pytest.approx(4 * math.sqrt(100), rel=0.03)


def test_algorithm_2s_bound_written_out_and_above_what_happens():
    """The bound from the proof's own sum, with d_k = D^2 throughout, and against |theta - .3| with
    noise, 2,000 runs.

    The mean of 2,000 excesses in [0, 1.3] exceeds its expectation by t with chance
    <= exp(-2 n t^2/1.3^2) (Hoeffding)."""
    D, G2, c1, T = 2.0, 1.0 + 0.5, 0.4, 30
    zeta = exact_zeta(T - 1, 1 / math.sqrt(T))
    rates = [c1 / math.sqrt(k) for k in range(1, T)]
    sums = zeta[0] / (2 * rates[0]) + sum(
        zeta[k] / (2 * rates[k]) - zeta[k - 1] / (2 * rates[k - 1]) for k in range(1, T - 1)
    )
    expected = D**2 * sums + sum(z * r for z, r in zip(zeta, rates)) / 2 * G2
    bound = algorithm2_bound(diameter=D, gradient_norm=1.0, step=c1, horizon=T, noise=0.5)
    assert bound == pytest.approx(expected, rel=1e-12)
    rng = np.random.default_rng(3)
    theta, bar = np.full(2000, -1.0), np.zeros(2000)
    for k in range(1, T):
        bar = (k - 1) / (1 / math.sqrt(T) + k) * bar + (1 / math.sqrt(T) + 1) / (
            1 / math.sqrt(T) + k
        ) * theta
        theta = np.clip(
            theta - rates[k - 1] * (np.sign(theta - 0.3) + 0.5 * rng.laplace(size=2000)), -1, 1
        )
    t = 0.1
    assert math.exp(-2 * 2000 * t**2 / 1.3**2) < 1e-6
    assert np.abs(bar - 0.3).mean() < bound + t


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda: theorems.noise_energy(gradient_bound=0, horizon=1, **BANKS),
            "gradient_bound must be a finite number > 0, got 0",
        ),
        (
            lambda: theorems.noise_energy(gradient_bound=1, horizon=1.5, **BANKS),
            "horizon must be a whole number >= 1, got 1.5",
        ),
        (
            lambda: theorems.noise_energy(gradient_bound=1, horizon=1, kappa=4, **BANKS),
            "kappa must be .*from 1 to 3.*got 4",
        ),
        (
            lambda: theorems.noise_energy(
                gradient_bound=1, horizon=1, n_records=[0, 5], epsilons=[1, 1]
            ),
            r"n_records must be numbers >= 1, got \[0.0, 5.0\]",
        ),
        (
            lambda: theorems.noise_energy(
                gradient_bound=1, horizon=1, n_records=[5], epsilons=[1, 1]
            ),
            r"one entry per owner.*\(1,\) and \(2,\)",
        ),
        (
            lambda: theorems.theorem3_bound(
                constant=1, gradient_bound=1, n_records=[5], epsilons=[-1.0]
            ),
            r"epsilons must be > 0, got .*-1.0",
        ),
        (
            lambda: theorems.theorem3_bound(constant=math.inf, gradient_bound=1, **BANKS),
            "constant must be .*got inf",
        ),
        (
            lambda: theorems.theorem2_bound(gradient_bound=1, strong_convexity=0, step=1, **BANKS),
            "strong_convexity must be .*got 0",
        ),
        (
            lambda: theorems.theorem3_constant(horizon=1, diameter=1, dimension=1),
            "horizon must be .* >= 2, got 1",
        ),
        (
            lambda: theorems.algorithm1_quadratic(horizon=2, step=1, noise=-1),
            "noise must be .*got -1",
        ),
        (lambda: theorems.averaging_weights(0), "horizon must be a whole number >= 1, got 0"),
        (
            lambda: theorems.averaging_weights(math.inf),
            "horizon must be a whole number >= 1, got inf",
        ),
        (
            lambda: theorems.chance_outside(
                start=math.nan, gradient=0, step=1, horizon=1, scale=1, radius=1
            ),
            "start must be finite, got 1 of 1 values",
        ),
        (
            lambda: theorems.chance_outside(
                start=0, gradient=math.inf, step=1, horizon=1, scale=1, radius=1
            ),
            "gradient must be finite, got 1 of 1 values",
        ),
        (
            lambda: theorems.noise_energy(gradient_bound=1, horizon=1, kappa=math.nan, **BANKS),
            "kappa must be .*got nan",
        ),
        (
            lambda: theorems.corner_excess(2, theta_max=-1),
            "theta_max must be a finite number > 0, got -1",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
