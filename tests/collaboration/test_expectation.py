"""The forecast without a fit against train itself: exactly, by unit impulses in the place of its
noise."""

import numpy as np
import pytest
from collaboration_settings import flat

from ppkit.collaboration import expectation, training
from ppkit.collaboration.expectation import quadratic_excess, reach
from ppkit.collaboration.losses import hinge, squared
from ppkit.collaboration.owners import Bounds, Owner

expected_psi, noise_psi = flat(expectation.expected_psi), flat(expectation.noise_psi)
train = flat(training.train)
WIDE = Bounds(record_l1=2.0, theta_max=1e6, label=2.0)


def banks(sizes=(5, 8, 3), p=3, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    rows = [scale * rng.uniform(-0.6, 0.6, size=(n, p)) for n in sizes]
    return tuple(Owner(str(i), X, rng.uniform(-2, 2, size=len(X))) for i, X in enumerate(rows))


def by_impulses(monkeypatch, owners, hessian, *, horizon, optimum, **settings):
    """E psi at k = T: train is linear in its noise, each draw has variance 2, so the squares of all
    responses add up.

    Run r has one draw of 1, at one round, owner and coordinate, and 0 elsewhere; the last run has 0
    only.
    """
    p, rounds = owners[0].X.shape[1], horizon - 1
    places = list(np.ndindex(rounds, len(owners), p))
    draws = np.zeros((rounds, len(owners), p, len(places) + 1))
    for run, place in enumerate(places):
        draws[(*place, run)] = 1.0
    sent = iter(draws)
    monkeypatch.setattr(training, "_laplace", lambda rng, size: next(sent))
    run = train(
        owners,
        horizon=horizon,
        n_runs=len(places) + 1,
        optimum=optimum,
        rng=np.random.default_rng(0),
        **settings,
    )
    monkeypatch.undo()
    assert next(sent, None) is None
    moved = run.theta[:-1] - run.theta[-1]
    return run.psi[-1, -1] + 2 * 0.5 * np.einsum("ri,ij,rj->", moved, hessian, moved) / optimum


@pytest.mark.parametrize("algorithm, step", [(2, 0.3), (2, 2.0), (1, 4.0)])
@pytest.mark.parametrize("horizon", [1, 2, 3, 7])
def test_squared_loss_exactly(monkeypatch, algorithm, step, horizon):
    owners, loss = banks(), squared(0.2)
    X = np.concatenate([owner.X for owner in owners])
    settings = dict(
        loss=loss,
        bounds=Bounds(2.0, 1e3, 2.0),
        epsilons=[1e3, 2e3, 5e2],
        horizon=horizon,
        step=step,
        optimum=1.3,
        algorithm=algorithm,
        start=[0.5, -1.0, 2.0],
        kappa=2,
    )
    expected = by_impulses(monkeypatch, owners, 2 * X.T @ X / len(X) + 0.2 * np.eye(3), **settings)
    shift = (
        loss.value(best_theta(owners, 0.2), owners) / 1.3 - 1
    )  # psi counts from `optimum`, the forecast from the least f
    assert expected_psi(owners, **settings)[-1] + shift == pytest.approx(expected, rel=1e-9)


def best_theta(owners, regularisation):
    X, y = (
        np.concatenate([owner.X for owner in owners]),
        np.concatenate([owner.y for owner in owners]),
    )
    return np.linalg.solve(
        X.T @ X / len(X) + regularisation / 2 * np.eye(X.shape[1]), X.T @ y / len(X)
    )


def test_without_noise_it_is_the_run_without_noise_at_every_round():
    owners = banks(p=2)
    best = squared().value(best_theta(owners, 0.0), owners)
    for algorithm, step in ((2, 0.5), (1, 30.0)):
        settings = dict(
            loss=squared(),
            bounds=WIDE,
            epsilons=[np.inf] * 3,
            horizon=12,
            step=step,
            optimum=best,
            algorithm=algorithm,
        )
        run = train(owners, n_runs=1, rng=np.random.default_rng(0), **settings)
        np.testing.assert_allclose(expected_psi(owners, **settings), run.psi[0], atol=1e-12)


def test_directions_that_no_record_has_cost_nothing():
    owners = banks(p=2)
    padded = tuple(
        Owner(owner.name, np.c_[owner.X, np.zeros(owner.n_records)], owner.y) for owner in owners
    )
    best = squared().value(best_theta(owners, 0.0), owners)
    settings = dict(
        loss=squared(), bounds=WIDE, epsilons=[5.0] * 3, horizon=9, step=0.5, optimum=best
    )
    np.testing.assert_allclose(
        expected_psi(padded, **settings), expected_psi(owners, **settings), rtol=1e-12
    )


@pytest.mark.parametrize("seed", range(6))
def test_dependent_columns_and_curvatures_far_apart(seed):
    """Rank 2 of 4, eigenvalues of 0 that rounding may turn negative: without noise, the run; with
    noise, finite and more."""
    owners = tuple(
        Owner(o.name, o.X @ np.array([[1, 0, 0.1, 0.3], [0, 0.1, 0.07, 0.0]]), o.y)
        for o in banks(p=2, seed=seed)
    )
    X, y = (np.concatenate([getattr(owner, name) for owner in owners]) for name in "Xy")
    best = squared().value(np.linalg.lstsq(X, y, rcond=None)[0], owners)
    settings = dict(
        loss=squared(), bounds=WIDE, epsilons=[np.inf] * 3, horizon=200, step=2.0, optimum=best
    )
    run = train(owners, n_runs=1, rng=np.random.default_rng(0), **settings)
    floor = expected_psi(owners, **settings)
    np.testing.assert_allclose(floor, run.psi[0], atol=1e-12)
    assert (
        np.isfinite(noisy := expected_psi(owners, **settings | {"epsilons": [1.0] * 3})).all()
        and noisy[-1] > floor[-1]
    )


def test_the_noise_is_squared_spread_and_the_floor_stays():
    owners = banks()
    best = squared().value(best_theta(owners, 0.0), owners)
    settings = dict(loss=squared(), bounds=WIDE, horizon=20, step=0.5, optimum=best)
    floor, one, two = (
        expected_psi(owners, epsilons=[e] * 3, **settings)[-1] for e in (np.inf, 1.0, 2.0)
    )
    assert (one - floor) / (two - floor) == pytest.approx(4.0, rel=1e-9) and floor > 0
    assert expected_psi(owners, epsilons=[1.0] * 3, kappa=2, **settings)[
        -1
    ] - floor == pytest.approx(4 * (one - floor), rel=1e-9)


def test_the_hinge_exactly_where_no_record_reaches_its_margin(monkeypatch):
    """Records so small that y theta.x < 1 for every theta in the box: the hinge is linear there."""
    owners = tuple(
        Owner(o.name, o.X, np.where(np.arange(o.n_records) % 2, 1.0, -1.0))
        for o in banks(scale=1e-3)
    )
    settings = dict(
        loss=hinge(0.7),
        bounds=Bounds(0.01, 50.0),
        epsilons=[20.0, 30.0, 5.0],
        horizon=6,
        step=0.4,
        optimum=0.9,
        algorithm=2,
    )
    expected = by_impulses(monkeypatch, owners, 0.7 * np.eye(3), **settings)
    floor = train(
        owners, n_runs=1, rng=np.random.default_rng(0), **settings | {"epsilons": [np.inf] * 3}
    ).psi[0, -1]
    assert floor + noise_psi(owners, **settings)[-1] == pytest.approx(expected, rel=1e-9)


def test_quadratic_excess_by_hand():
    first = quadratic_excess(
        [2.0, 0.5], [1.0, -2.0], variance=0.3, horizon=3, step=0.4, algorithm=1
    )
    assert first[0] == pytest.approx(0.5 * (2 * 1 + 0.5 * 4))
    rate = 0.4 / 9
    means, var = (1 - rate * 2) * 1.0, rate**2 * 0.3
    assert first[1] == pytest.approx(
        0.5 * (2 * (means**2 + var) + 0.5 * ((1 - rate / 2) ** 2 * 4 + var))
    )
    assert (quadratic_excess([1.0], [1.0], variance=1.0, horizon=5, step=1e-9) <= 0.5).all()
    two = quadratic_excess([1.0], [3.0], variance=9.0, horizon=2, step=0.7)
    assert two.tolist() == [4.5, 4.5]  # bar[2] is theta[1]


def test_reach_by_hand_and_against_the_recursion():
    settings = dict(
        gradient_bound=4.0,
        n_records=[10, 30],
        epsilons=[0.5, np.inf],
        horizon=3,
        step=0.3,
        theta_max=2.0,
    )
    one = 2 * (2 * 4.0 * 3 / (10 * 0.5) / 4) ** 2  # b_1 = 4.8, weight 1/4, variance 2 b^2
    assert reach(**settings) == pytest.approx(0.3 * np.sqrt(one * (1 + 1 / 2)) / 2)
    second = (1 - 0.3 * 2.0 / np.sqrt(2)) ** 2 * 0.09 * one + 0.045 * one
    assert reach(curvature=2.0, **settings) == pytest.approx(np.sqrt(max(second, 0.09 * one)) / 2)
    assert reach(**settings | {"epsilons": [np.inf] * 2}) == 0.0


def test_far_from_the_box_the_law_holds_and_at_the_box_it_does_not():
    """The mean of 20,000 runs; the margins are 8 of its standard errors and more, which the test
    asserts (a chance < 1e-6)."""
    owners = banks((40, 40), p=2)
    best = squared().value(best_theta(owners, 0.0), owners)
    for epsilons, at_least, at_most in (([300.0] * 2, 0.9, 1.1), ([3.0] * 2, 0.0, 0.6)):
        settings = dict(
            loss=squared(),
            bounds=Bounds(2.0, 5.0, 2.0),
            epsilons=epsilons,
            horizon=20,
            step=0.3,
            optimum=best,
        )
        runs = train(
            owners, n_runs=20_000, rng=np.random.default_rng(1), at="last", **settings
        ).psi[:, 0]
        psi, expected = runs.mean(), expected_psi(owners, **settings)[-1]
        error = runs.std() / np.sqrt(runs.size) / expected
        assert at_least < psi / expected < at_most
        assert (
            8 * error < min(at_most - 1, 1 - at_least)
            if at_most > 1
            else 8 * error < at_most - psi / expected
        )
        felt = reach(
            gradient_bound=48.0,
            n_records=[40, 40],
            epsilons=epsilons,
            horizon=20,
            step=0.3,
            theta_max=5.0,
        )
        assert (felt > 1) == (at_most < 1)


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda o: expected_psi(
                o, loss=hinge(), bounds=WIDE, epsilons=[1.0] * 3, horizon=3, step=1, optimum=1
            ),
            "squared loss, got hinge",
        ),
        (
            lambda o: expected_psi(
                o, loss=squared(), bounds=WIDE, epsilons=[1.0], horizon=3, step=1, optimum=1
            ),
            r"per owner, got shapes \(3,\) and \(1,\)",
        ),
        (
            lambda o: expected_psi(
                o, loss=squared(), bounds=WIDE, epsilons=[1.0, -1, 1], horizon=3, step=1, optimum=1
            ),
            r"epsilons must be > 0, got .*-1.0",
        ),
        (
            lambda o: expected_psi(
                o,
                loss=squared(),
                bounds=WIDE,
                epsilons=[1.0] * 3,
                delta=1e-6,
                horizon=3,
                step=1,
                optimum=1,
            ),
            "one setting of Laplace noise without delta",
        ),
        (
            lambda o: noise_psi(
                o, loss=hinge(0.0), bounds=WIDE, epsilons=[1.0] * 3, horizon=3, step=1, optimum=1
            ),
            "regularisation > 0, got 0.0",
        ),
        (
            lambda o: expected_psi(
                o,
                loss=squared(),
                bounds=WIDE,
                epsilons=[1.0] * 3,
                horizon=3,
                step=1,
                optimum=1,
                start=[1.0],
            ),
            r"start must be \(3,\) within theta_max = .*, got",
        ),
        (
            lambda o: expected_psi(
                o,
                loss=squared(),
                bounds=WIDE,
                epsilons=[1.0] * 3,
                horizon=3,
                step=1,
                optimum=1,
                start=[0.0, 0.0, -2e6],
            ),
            "within theta_max = 1000000.0",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(banks())


def test_a_horizon_of_a_whole_float_is_that_horizon():
    kept = dict(gradient_bound=1.0, n_records=[10], epsilons=[1.0], step=1.0, theta_max=1.0)
    assert reach(**kept, horizon=3.0) == reach(**kept, horizon=3)
    assert (
        quadratic_excess([1.0], [1.0], variance=0.0, horizon=3.0, step=1.0)
        == quadratic_excess([1.0], [1.0], variance=0.0, horizon=3, step=1.0)
    ).all()


def slope_at(epsilon, noise, floor, by=1e-5):
    """Of log psi over log epsilon, by a finite difference."""
    low, high = (floor + noise / (epsilon * np.exp(at)) ** 2 for at in (-by, by))
    return np.log(high / low) / (2 * by)


@pytest.mark.parametrize("tolerance", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("noise, floor", [(0.02, 5e-4), (3.0, 0.05), (1e-3, 0.2)])
def test_the_range_of_the_square_law_ends_where_the_slope_leaves_it(noise, floor, tolerance):
    first, last = expectation.square_law_range(
        reach=0.1, noise=noise, floor=floor, tolerance=tolerance
    )
    assert first == pytest.approx(0.3)  # there the reach is a third of the box
    assert slope_at(last, noise, floor) == pytest.approx(-2 + tolerance, abs=1e-6)
    assert (
        slope_at(0.99 * last, noise, floor) < -2 + tolerance < slope_at(1.01 * last, noise, floor)
    )


def test_without_a_floor_the_square_law_has_no_end():
    assert expectation.square_law_range(reach=0.0, noise=1.0, floor=0.0) == (0.0, np.inf)


@pytest.mark.parametrize(
    "wrong", [{"noise": 0.0}, {"floor": -1.0}, {"reach": -0.1}, {"tolerance": 1.0}]
)
def test_the_range_refuses(wrong):
    name, value = next(iter(wrong.items()))
    with pytest.raises(ValueError, match=f"{name} must be .*{value}"):
        expectation.square_law_range(**({"reach": 0.1, "noise": 1.0, "floor": 0.1} | wrong))
