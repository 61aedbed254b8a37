"""Algorithms 1 and 2 against a loop, their limits, the law of their noise, and what is refused."""

import math

import numpy as np
import pytest
from collaboration_loop import objective, run
from collaboration_settings import flat
from scipy import stats

from ppkit.collaboration.losses import hinge, squared
from ppkit.collaboration.owners import Bounds, Owner, blocks, clip_records
from ppkit.collaboration.training import train

BOUNDS = Bounds(record_l1=4.0, theta_max=0.4)
LOSSES = [squared(), squared(0.3), hinge(), hinge(0.2)]
INF = math.inf


def problem(loss, sizes=(40, 90, 60), seed=0):
    rng = np.random.default_rng(seed)
    X = clip_records(2 * rng.standard_normal((sum(sizes), 4)), l1_bound=4.0, constant=True)
    z = X @ rng.standard_normal(5)
    return blocks(X, np.where(z > 0, 1.0, -1.0) if loss.signs else np.clip(z / 2, -1, 1), sizes)


def trained(owners, loss, epsilons, **changes):
    setting = {
        "bounds": BOUNDS,
        "horizon": 15,
        "n_runs": 3,
        "step": 0.5,
        "optimum": 0.25,
        "rng": np.random.default_rng(0),
    }
    return flat(train)(owners, loss=loss, epsilons=epsilons, **{**setting, **changes})


def same(one, other, tolerance=1e-13):
    for name in ("psi", "theta", "iterate", "scales", "rounds"):
        np.testing.assert_allclose(
            getattr(one, name), getattr(other, name), rtol=tolerance, atol=tolerance, err_msg=name
        )


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("algorithm, step", [(1, 300.0), (2, 0.5)])
@pytest.mark.parametrize("all_answers", [False, True])
def test_without_noise_it_is_the_loop(loss, algorithm, step, all_answers):
    """epsilon = infinity is projected subgradient descent; to 1e-12, through the same code as with
    noise."""
    owners, start = problem(loss), np.array([0.1, -0.2, 0.3, 0.0, 0.4])
    got = trained(
        owners,
        loss,
        (INF,) * 3,
        algorithm=algorithm,
        step=step,
        start=start,
        all_answers=all_answers,
    )
    thetas, bars = run(
        owners,
        loss,
        theta_max=0.4,
        horizon=15,
        step=step,
        algorithm=algorithm,
        scales=(0, 0, 0),
        rng=None,
        start=start,
        all_answers=all_answers,
    )
    assert got.rounds.tolist() == list(range(1, 16 + all_answers)) and got.psi.shape == (
        3,
        15 + all_answers,
    )
    shown = bars if algorithm == 2 else thetas
    np.testing.assert_allclose(got.theta, [shown[-1]] * 3, rtol=0, atol=1e-12)
    np.testing.assert_allclose(got.iterate, [thetas[-1]] * 3, rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        got.psi,
        [[objective(owners, loss, theta) / 0.25 - 1 for theta in shown]] * 3,
        rtol=0,
        atol=1e-12,
    )
    moved = np.abs(np.array(thetas)).max()
    assert (
        moved == 0.4
        if algorithm == 2 and loss.kind == "squared" and not loss.regularisation
        else moved >= 0.4
    )


@pytest.mark.parametrize("algorithm, step", [(1, 300.0), (2, 0.5)])
def test_with_noise_too_given_the_same_draws(algorithm, step):
    """The loop fed with this module's own draws: exponentials of the setting's child generator,
    (owners, p, runs) a round."""
    loss, epsilons = hinge(0.2), (0.5, 1.0, 30.0)
    owners = problem(loss)
    got = trained(owners, loss, epsilons, algorithm=algorithm, step=step)
    (child,) = np.random.default_rng(0).spawn(1)
    draws = np.array(
        [
            child.standard_exponential((3, 5, 3)) - child.standard_exponential((3, 5, 3))
            for _ in range(14)
        ]
    )
    for one in range(3):

        class Replay:
            def __init__(self):
                self.left = iter(draws[:, :, :, one].reshape(-1, 5))

            def laplace(self, scale, size):
                return scale * next(self.left)

        thetas, bars = run(
            owners,
            loss,
            theta_max=0.4,
            horizon=15,
            step=step,
            algorithm=algorithm,
            scales=got.scales,
            rng=Replay(),
        )
        np.testing.assert_allclose(got.iterate[one], thetas[-1], rtol=0, atol=1e-12)
        np.testing.assert_allclose(
            got.theta[one], (bars if algorithm == 2 else thetas)[-1], rtol=0, atol=1e-12
        )
    xi = loss.gradient_bound(BOUNDS)
    assert xi == 4.0
    np.testing.assert_allclose(
        got.scales, [2 * xi * 15 / (n * e) for n, e in zip((40, 90, 60), epsilons)], rtol=1e-15
    )


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_three_owners_without_noise_are_one_who_holds_all_rows(loss):
    owners = problem(loss)
    whole = Owner(
        "all", np.concatenate([o.X for o in owners]), np.concatenate([o.y for o in owners])
    )
    one, three = trained((whole,), loss, (INF,)), trained(owners, loss, (INF,) * 3)
    for name in ("psi", "theta", "iterate"):
        np.testing.assert_allclose(getattr(one, name), getattr(three, name), rtol=0, atol=1e-12)


def test_t_is_1():
    loss = hinge()
    owners = problem(loss)
    none = trained(owners, loss, (1.0,) * 3, horizon=1)
    assert none.rounds.tolist() == [1] and (none.theta == 0).all() and (none.iterate == 0).all()
    np.testing.assert_allclose(none.psi, 1 / 0.25 - 1)
    one = trained(owners, loss, (1.0,) * 3, horizon=1, all_answers=True)
    assert one.rounds.tolist() == [1, 2] and (one.theta == 0).all() and (one.iterate != 0).all()
    np.testing.assert_allclose(one.scales, [2 * 4.0 / n for n in (40, 90, 60)])


def test_kappa_2_is_half_the_budget():
    loss = squared()
    owners = problem(loss)
    same(trained(owners, loss, (1.0, 2.0, 4.0), kappa=2), trained(owners, loss, (0.5, 1.0, 2.0)), 0)


def test_inverse_variance_is_records_where_all_are_alike():
    loss = hinge()
    owners = problem(loss, (50, 50, 50))
    same(
        trained(owners, loss, (1.0,) * 3, weights="inverse_variance"),
        trained(owners, loss, (1.0,) * 3),
    )
    same(
        trained(owners, loss, (INF,) * 3, weights="inverse_variance"),
        trained(owners, loss, (INF,) * 3),
    )


@pytest.mark.slow
def test_inverse_variance_listens_to_those_with_little_noise():
    """Shares go as (n epsilon)^2: three owners, no gradient (x = 0), so theta[2] is the weighted
    noise alone."""
    owners = tuple(Owner(str(n), np.zeros((n, 2)), np.ones(n)) for n in (40, 80, 100))
    runs = 100_000
    made = trained(
        owners,
        hinge(0.0),
        (1.0, 1.0, 0.1),
        weights="inverse_variance",
        mechanism="gaussian",
        delta=1e-6,
        horizon=1,
        all_answers=True,
        n_runs=runs,
        bounds=Bounds(4.0, 1e6),
        at="last",
    )
    deviation = 0.5 / math.sqrt((1 / made.scales**2).sum())  # the least that any weights give
    limit = math.sqrt(math.log(2 / 1e-7) / (2 * runs))  # DKW: fails with chance 1e-7 a coordinate
    for coordinate in range(2):
        assert stats.kstest(made.iterate[:, coordinate] / deviation, "norm").statistic < limit
    shares = (1 / made.scales**2) / (1 / made.scales**2).sum()
    assert shares.sum() == pytest.approx(1) and shares[2] < shares[0] < shares[1]
    some = trained(
        owners, hinge(0.0), (1.0, INF, INF), weights="inverse_variance", horizon=1, all_answers=True
    )
    assert (some.iterate == 0).all() and some.scales[
        0
    ] > 0  # those without noise share all of the weight


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism, delta, law",
    [("laplace", 0.0, "laplace"), ("laplace", 1e-6, "laplace"), ("gaussian", 1e-6, "norm")],
)
def test_the_noise_has_the_promised_law(mechanism, delta, law):
    """x = 0, one owner with noise of share 1/4, one answer: theta[2] = -c1 (share) noise. DKW:
    chance 1e-7 a coordinate."""
    owners, runs = (
        (Owner("a", np.zeros((30, 3)), np.ones(30)), Owner("b", np.zeros((90, 3)), np.ones(90))),
        100_000,
    )
    made = trained(
        owners,
        hinge(0.0),
        (2.0, INF),
        horizon=1,
        all_answers=True,
        n_runs=runs,
        bounds=Bounds(4.0, 1e6),
        at="last",
        mechanism=mechanism,
        delta=delta,
    )
    limit = math.sqrt(math.log(2 / 1e-7) / (2 * runs))
    for coordinate in range(3):
        assert (
            stats.kstest(made.iterate[:, coordinate] / (0.5 / 4 * made.scales[0]), law).statistic
            < limit
        )
    pairs = np.corrcoef(made.iterate.T)[np.triu_indices(3, 1)]
    assert (
        np.abs(pairs).max() < 0.025
    )  # correlations of 100,000 independent pairs: 7.9 standard deviations, chance < 1e-13


@pytest.mark.slow
def test_noise_of_different_rounds_and_owners_adds_up():
    """Gaussian noise, x = 0: theta[T + 1] is normal with variance
    c1^2 sum 1/k sum (n_l / n)^2 sigma_l^2. DKW, 1e-7."""
    owners, runs, T = (
        (Owner("a", np.zeros((30, 1)), np.ones(30)), Owner("b", np.zeros((90, 1)), np.ones(90))),
        100_000,
        4,
    )
    made = trained(
        owners,
        hinge(0.0),
        (2.0, 1.0),
        horizon=T,
        all_answers=True,
        n_runs=runs,
        bounds=Bounds(4.0, 1e6),
        at="last",
        mechanism="gaussian",
        delta=1e-6,
    )
    variance = 0.25 * (1 + 1 / 2 + 1 / 3 + 1 / 4) * ((made.scales * [0.25, 0.75]) ** 2).sum()
    assert stats.kstest(made.iterate[:, 0] / math.sqrt(variance), "norm").statistic < math.sqrt(
        math.log(2 / 1e-7) / (2 * runs)
    )


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_settings_do_not_depend_on_each_other(loss):
    owners, table = problem(loss), [(1.0, 2.0, 3.0), (0.5, INF, 1.0), (INF,) * 3]
    many = trained(owners, loss, table, n_runs=5)
    assert (
        many.psi.shape == (3, 5, 15)
        and many.theta.shape == many.iterate.shape == (3, 5, 5)
        and many.scales.shape == (3, 3)
    )
    first = trained(owners, loss, table[0], n_runs=5)  # the first child of the same generator
    for name in ("psi", "theta", "iterate", "scales"):
        np.testing.assert_allclose(getattr(many, name)[0], getattr(first, name), rtol=0, atol=1e-12)
    other = trained(owners, loss, [(7.0, 7.0, 7.0), table[1], table[2]], n_runs=5)
    np.testing.assert_allclose(many.psi[1:], other.psi[1:], rtol=0, atol=1e-12)
    assert (
        not np.allclose(many.theta[0], many.theta[1]) and len(np.unique(many.theta[0], axis=0)) == 5
    )


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_two_runs_give_equal_bytes_and_last_is_the_last_of_all(loss):
    owners = problem(loss)
    one, two = (trained(owners, loss, (1.0,) * 3, n_runs=150) for _ in range(2))
    assert one.psi.tobytes() == two.psi.tobytes() and one.theta.tobytes() == two.theta.tobytes()
    last = trained(owners, loss, (1.0,) * 3, n_runs=150, at="last")
    assert last.rounds.tolist() == [15] and last.psi.tobytes() == one.psi[:, -1:].tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("loss", [hinge(), hinge(0.2)], ids=str)
def test_float32_moves_psi_by_less_than_1e_5(loss):
    owners = problem(loss, (400, 900, 600))
    exact, rough = (
        trained(owners, loss, (5.0,) * 3, dtype=dtype, n_runs=40)
        for dtype in (np.float64, np.float32)
    )
    assert 0 < np.abs(exact.psi - rough.psi).max() < 1e-5


def call(**changes):
    loss = changes.pop("loss", hinge())
    return lambda: trained(
        changes.pop("owners", problem(loss)), loss, changes.pop("epsilons", (1.0,) * 3), **changes
    )


@pytest.mark.parametrize(
    "refused, message",
    [
        (call(epsilons=(1.0, 0.0, 1.0)), "epsilon must be > 0, got 0.0"),
        (call(epsilons=(1.0, -1.0, 1.0)), "epsilon must be > 0, got -1.0"),
        (call(epsilons=(1.0, math.nan, 1.0)), "epsilon must be > 0, got nan"),
        (
            call(epsilons=(1.0, 1.0)),
            r"epsilons must be \(3,\) or \(S, 3\) for 3 owners, got shape \(2,\)",
        ),
        (call(horizon=0), "horizon must be a whole number >= 1, got 0"),
        (call(horizon=2.5), "horizon must be a whole number >= 1, got 2.5"),
        (call(horizon=True), "horizon must be a whole number >= 1, got True"),
        (call(n_runs=0), "n_runs must be a whole number >= 1, got 0"),
        (call(step=0.0), "step must be a finite number > 0, got 0.0"),
        (call(step=math.nan), "step must be a finite number > 0, got nan"),
        (call(optimum=0.0), "optimum must be a finite number > 0, got 0.0"),
        (call(optimum=-1.0), "optimum must be a finite number > 0, got -1.0"),
        (call(kappa=0), "kappa must be a whole number >= 1, got 0"),
        (call(kappa=4), "kappa must be at most the number of owners, 3, got 4"),
        (call(algorithm=3), "algorithm must be one of 1, 2, got 3"),
        (call(weights="equal"), "weights must be one of records, inverse_variance, got 'equal'"),
        (call(mechanism="uniform"), "mechanism must be one of laplace, gaussian, got 'uniform'"),
        (call(mechanism="gaussian"), r"delta must be in \(0, 1\), got 0.0"),
        (call(mechanism="gaussian", delta=1.5), r"delta must be in \(0, 1\), got 1.5"),
        (call(at="first"), "at must be one of all, last, got 'first'"),
        (call(start=np.ones(5)), r"start must be \(5,\) within theta_max = 0.4, got"),
        (call(start=np.zeros(4)), r"start must be \(5,\)"),
        (call(bounds=Bounds(3.9, 1.0)), "owner 1: a record is beyond record_l1 = 3.9: 4"),
        (
            call(loss=squared(), bounds=Bounds(4.0, 1.0, 0.5)),
            "owner 1: a record is beyond label = 0.5",
        ),
        (call(owners=problem(squared())), "owner 1: labels must be -1 or .1 for this loss"),
        (call(horizon="5"), "horizon must be a whole number >= 1, got '5'"),
        (call(horizon=None), "horizon must be a whole number >= 1, got None"),
        (call(step="x"), "step must be a finite number > 0, got 'x'"),
        (call(algorithm=True), "algorithm must be one of 1, 2, got True"),
    ],
)
def test_refusals_name_the_value(refused, message):
    with pytest.raises(ValueError, match=message):
        refused()


@pytest.mark.parametrize("loss", LOSSES)
def test_gaussian_noise_hides_the_l2_length_and_laplace_noise_the_l1_length(loss):
    """The gradient of one record, the longest of 2,000 models of the box, keeps to both bounds."""
    owners = problem(loss)
    longest = max(float(np.linalg.norm(owner.X, axis=1).max()) for owner in owners)
    both = Bounds(4.0, 0.4, record_l2=longest)
    for mechanism, delta, shorter in (("laplace", 0.0, 1.0), ("gaussian", 1e-5, longest / 4.0)):
        how = dict(mechanism=mechanism, delta=delta)
        scales = [trained(owners, loss, [1.0] * 3, bounds=b, **how).scales for b in (BOUNDS, both)]
        np.testing.assert_allclose(scales[1], shorter * scales[0], rtol=1e-12)
    rng = np.random.default_rng(1)
    for theta in rng.uniform(-0.4, 0.4, (2_000, 5)):
        x, y = owners[0].X, owners[0].y
        residual = x @ theta - y if not loss.signs else None
        slope = 2 * np.abs(residual) if not loss.signs else 1.0
        gradient = slope * np.linalg.norm(x, axis=1)
        assert gradient.max() <= loss.gradient_bound(both, "gaussian") * (1 + 1e-12)
