"""theta* and its certificate: against other solvers, at the edges of the box, and refused where
there is none."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

from ppkit.collaboration.losses import Loss, hinge, squared
from ppkit.collaboration.optimum import constant_model, optimum
from ppkit.collaboration.owners import Bounds, Owner, blocks, clip_records

WIDE = Bounds(record_l1=12.0, theta_max=50.0, label=100.0)
LOSSES = [squared(), squared(0.3), hinge(), hinge(0.05)]


def some_owners(loss, *, sizes=(60, 150), p=4, seed=3):
    rng = np.random.default_rng(seed)
    X = clip_records(rng.normal(size=(sum(sizes), p)) + 0.2, l1_bound=12.0, constant=True)
    noisy = X @ np.r_[1.5, -1.0, 0.5, np.zeros(p - 3), 0.7] + rng.normal(size=len(X))
    return blocks(X, np.where(noisy > 0.8, 1.0, -1.0) if loss.signs else 3 * noisy, sizes)


def plain_value(theta, loss: Loss, owners) -> float:
    """f, record by record."""
    total, n = 0.0, 0
    for owner in owners:
        for x, y in zip(owner.X, owner.y):
            score = float(sum(a * b for a, b in zip(x, theta)))
            total += {"squared": (y - score) ** 2, "hinge": max(0.0, 1 - y * score)}[loss.kind]
            n += 1
    return loss.regularisation / 2 * sum(t * t for t in theta) + total / n


def by_scipy(loss, owners, theta_max):
    """The least f of squared loss over the box, by L-BFGS-B."""
    X, y = np.concatenate([o.X for o in owners]), np.concatenate([o.y for o in owners])
    box = [(-theta_max, theta_max)] * X.shape[1]

    def both(t):
        left = X @ t - y
        return (
            left @ left / len(y) + loss.regularisation / 2 * t @ t,
            2 * X.T @ left / len(y) + loss.regularisation * t,
        )

    return minimize(
        both,
        np.zeros(X.shape[1]),
        jac=True,
        bounds=box,
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000},
    )


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("theta_max", [50.0, 0.3])
def test_the_certificate_holds_at_every_point_that_was_tried(loss, theta_max):
    owners, bounds = some_owners(loss), Bounds(12.0, theta_max, 100.0)
    best = optimum(owners, loss=loss, bounds=bounds)
    assert best.value == pytest.approx(plain_value(best.theta, loss, owners), rel=1e-12)
    assert np.abs(best.theta).max() <= theta_max and 0 <= best.gap <= 1e-8 * best.value
    assert (np.abs(best.theta).max() == theta_max) == (
        theta_max == 0.3
    )  # the small box holds, the large does not
    rng = np.random.default_rng(0)
    for size in (1e-8, 1e-6, 1e-4, 1e-2, 1.0):
        near = np.clip(
            best.theta + size * rng.normal(size=(200, len(best.theta))), -theta_max, theta_max
        )
        assert loss.value(near, owners).min() >= best.value - best.gap - 1e-13 * best.value


@pytest.mark.parametrize("theta_max", [50.0, 0.3])
@pytest.mark.parametrize("repeated", [False, True])
def test_a_bad_solution_is_found_out(monkeypatch, theta_max, repeated):
    """The certificate does not trust the steps: moved away from theta*, the gap covers what was
    lost."""
    owners, bounds = some_owners(squared()), Bounds(24.0, theta_max, 100.0)
    if repeated:
        owners = tuple(
            Owner(owner.name, np.c_[owner.X, owner.X[:, 0]], owner.y) for owner in owners
        )
    truth = optimum(owners, loss=squared(), bounds=bounds)
    wrong = np.clip(truth.theta - 0.01, -theta_max, theta_max)
    monkeypatch.setattr("ppkit.collaboration.optimum._descend", lambda *args: wrong)
    found = optimum(owners, loss=squared(), bounds=bounds, rel_gap=1e6)
    assert found.value > truth.value * (1 + 1e-7)
    assert found.value - found.gap <= truth.value * (1 + 1e-12)
    with pytest.raises(ValueError, match="no certificate"):
        optimum(owners, loss=squared(), bounds=bounds)


@pytest.mark.parametrize("loss", [hinge(), hinge(0.05), hinge(0.0)], ids=str)
def test_a_rough_answer_says_how_rough_it_is(loss):
    owners, bounds = some_owners(loss), Bounds(12.0, 1.0)
    fine, rough = (optimum(owners, loss=loss, bounds=bounds, rel_gap=gap) for gap in (1e-8, 0.3))
    assert rough.gap > 1e-4 * rough.value and rough.value - rough.gap <= fine.value <= rough.value


@pytest.mark.parametrize("loss", [squared(), squared(0.3)], ids=str)
@pytest.mark.parametrize("theta_max", [50.0, 0.3])
def test_squared_losses_agree_with_scipy(loss, theta_max):
    owners = some_owners(loss)
    best = optimum(owners, loss=loss, bounds=Bounds(12.0, theta_max, 100.0))
    other = by_scipy(loss, owners, theta_max)
    assert best.value <= other.fun * (1 + 1e-12)
    assert other.fun == pytest.approx(best.value, rel=1e-9)
    np.testing.assert_allclose(best.theta, other.x, atol=2e-4)


@pytest.mark.parametrize("loss", [hinge(), hinge(0.05)], ids=str)
def test_the_hinge_agrees_with_liblinear(loss):
    owners = some_owners(loss)
    X, y = np.concatenate([o.X for o in owners]), np.concatenate([o.y for o in owners])
    machine = LinearSVC(
        loss="hinge",
        fit_intercept=False,
        C=1 / (len(y) * loss.regularisation),
        tol=1e-9,
        max_iter=1_000_000,
        random_state=0,
    ).fit(X, y)
    best = optimum(owners, loss=loss, bounds=WIDE)
    assert best.value <= plain_value(machine.coef_[0], loss, owners) * (1 + 1e-8)
    np.testing.assert_allclose(best.theta, machine.coef_[0], atol=2e-3)


def test_without_a_regulariser_the_box_holds_the_hinge_as_a_linear_program():
    """One feature of 1 and labels of +1: f = max(0, 1 - t), least at the edge of a box of 1/2."""
    owners = (Owner("a", np.ones((5, 1)), np.ones(5)),)
    best = optimum(owners, loss=hinge(0.0), bounds=Bounds(1.0, 0.5))
    assert best.value == pytest.approx(0.5, rel=1e-8) and best.theta[0] == pytest.approx(
        0.5, rel=1e-7
    )


@pytest.mark.slow
def test_a_kink_where_all_records_stand_is_certified():
    """f = r/2 b^2 + (1 - pi)(1 + b)_+ + pi (1 - b)_+:
    for a few frauds b = -1 is best, and f = r/2 + 2 pi there."""
    n, frauds = 4000, 8
    y = np.r_[np.ones(frauds), -np.ones(n - frauds)]
    for regularisation in (1e-3, 0.01, 0.5):
        best = optimum(
            (Owner("a", np.ones((n, 1)), y),), loss=hinge(regularisation), bounds=Bounds(1.0, 2.0)
        )
        assert best.value == pytest.approx(regularisation / 2 + 2 * frauds / n, rel=1e-8)


def test_columns_that_repeat_leave_many_models_and_one_value():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 2))
    y = X @ [1.0, -2.0] + rng.normal(size=80)
    once = optimum((Owner("a", X, y),), loss=squared(), bounds=WIDE)
    twice = optimum((Owner("a", np.c_[X, X[:, 0]], y),), loss=squared(), bounds=WIDE)
    assert twice.value == pytest.approx(once.value, rel=1e-12) and twice.gap <= 1e-9 * twice.value


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_owners_together_are_one_owner(loss):
    several = some_owners(loss)
    one = blocks(
        np.concatenate([o.X for o in several]), np.concatenate([o.y for o in several]), [210]
    )
    assert optimum(several, loss=loss, bounds=WIDE).value == pytest.approx(
        optimum(one, loss=loss, bounds=WIDE).value, rel=1e-8
    )


def test_the_constant_model_of_each_loss_is_the_one_from_the_textbook():
    owners = some_owners(squared())
    y = np.concatenate([o.y for o in owners])
    alone = constant_model(owners, loss=squared(), bounds=WIDE)
    assert alone.value == pytest.approx(y.var(), rel=1e-12) and alone.theta[-1] == pytest.approx(
        y.mean(), rel=1e-12
    )
    assert not alone.theta[:-1].any() and len(alone.theta) == owners[0].X.shape[1]


@pytest.mark.slow
def test_a_perfect_fit_is_certified_up_to_rounding():
    rng = np.random.default_rng(2)
    for _ in range(100):
        n, p = int(rng.integers(1, 200)), int(rng.integers(1, 20))
        X = rng.normal(size=(n, p)) * 10 ** rng.uniform(-3, 3)
        best = optimum(
            (Owner("a", X, X @ rng.normal(size=p)),), loss=squared(), bounds=Bounds(1e9, 10.0, 1e9)
        )
        zero = squared().value(np.zeros(p), (Owner("a", X, X @ np.ones(p)),))
        assert abs(best.value) < 1e-12 * zero and 0 <= best.gap <= max(best.value, 0.0)
    flat = optimum(
        (Owner("a", np.ones((3, 1)), np.zeros(3)),), loss=squared(), bounds=Bounds(1.0, 1.0)
    )
    assert flat.value == flat.gap == 0.0


def test_a_sentence_where_it_cannot_be_done():
    owners = some_owners(hinge())
    with pytest.raises(ValueError, match=r"the last column must be the constant, got .* to "):
        constant_model(blocks(owners[0].X[:, :-1], owners[0].y, [60]), loss=hinge(), bounds=WIDE)
    for bad in (0, -1e-9, float("nan")):
        with pytest.raises(ValueError, match=f"rel_gap must be > 0, got {bad}"):
            optimum(owners, loss=hinge(), bounds=WIDE, rel_gap=bad)
    with pytest.raises(ValueError, match="-1 or \\+1"):
        optimum(some_owners(squared()), loss=hinge(), bounds=WIDE)
    with pytest.raises(ValueError, match="a record is beyond record_l1"):
        optimum(owners, loss=hinge(), bounds=Bounds(1.5, 2.0))


def test_the_constant_must_be_the_same_with_every_owner():
    banks = [
        Owner(name, np.full((2, 1), c), np.array([-1.0, 1.0]))
        for name, c in (("a", 1.0), ("b", 2.0))
    ]
    with pytest.raises(ValueError, match="must be the constant"):
        constant_model(banks, loss=hinge(), bounds=WIDE)
