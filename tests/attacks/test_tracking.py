"""Landmarks: every theta of a noisy training from known records, and all looks at unknown ones."""

import numpy as np
import pytest
from scipy import stats

from ppkit.attacks import features, tracking

N, D, WIDTH, EPOCHS, BATCHES, STEP = 1_200, 12, 5, 5, 3, 0.06


def training(seed):
    """Records, a random walk of theta, and every batch's rows and h1, in a new order each epoch."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(5, (N, D))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    theta, thetas, rows, views = rng.standard_normal((D, WIDTH)) / 3, [], [], []
    for _ in range(EPOCHS):
        order = np.array_split(rng.permutation(N), BATCHES)
        walk = [theta := theta + STEP * rng.standard_normal(theta.shape) for _ in order]
        thetas.append(walk)
        rows.append(order)
        views.append([np.round((X[o] @ t) * 2**16) / 2**16 for o, t in zip(order, walk)])
    return X, thetas, rows, views


@pytest.fixture(scope="module", params=[0, 1])
def trained(request):
    return training(request.param)


@pytest.mark.slow
def test_theta_is_tracked_from_batch_to_batch(trained):
    X, thetas, _, views = trained
    known = np.random.default_rng(9).choice(N, 150, replace=False)
    about = dict(spread=STEP, share=1 / BATCHES, rng=np.random.default_rng(0))
    last, flat = thetas[0][0], [t for epoch in thetas for t in epoch]
    for theta, view in zip(flat[1:], [v for epoch in views for v in epoch][1:]):
        last = tracking.track(last, view, X[known], **about).theta
        assert np.abs(last - theta).max() < 1e-3


def test_chances_are_bayes_rule_on_the_normal_density_of_each_row():
    """More known records than one block holds, some of them far from every row."""
    rng = np.random.default_rng(4)
    d, width, n, m, spread = 4, 3, 40, tracking._BLOCK + 6, 0.4
    known, theta = rng.standard_normal((m, d)), rng.standard_normal((d, width))
    known[:7] *= 20
    S, against = np.cov(rng.standard_normal((d, 9))), rng.normal(-2, 1, n)
    view = known[rng.permutation(m)[:n]] @ theta + spread * rng.standard_normal((n, width))
    chance, mean, likeliest = tracking._expected(known, theta, S, view, against, spread=spread)
    for k, x in enumerate(known):
        density = stats.multivariate_normal(x @ theta, (x @ S @ x + spread**2) * np.eye(width))
        odds = density.pdf(view) / np.exp(against)
        each = odds / (1 + odds.sum())
        assert chance[k] == pytest.approx(each.sum(), rel=1e-9, abs=1e-12)
        assert mean[k] == pytest.approx(each @ view, rel=1e-9, abs=1e-12)
        assert likeliest[k] == odds.argmax()
    assert chance.min() < 0.1 and chance.max() > 0.7


def test_without_landmarks_in_the_batch_theta_is_lost(trained):
    X, thetas, rows, views = trained
    absent = np.setdiff1d(np.arange(N), rows[0][1])[:150]
    about = dict(spread=STEP, share=0.3, rng=np.random.default_rng(0))
    lost = tracking.track(thetas[0][0], views[0][1], X[absent], **about)
    assert lost.theta is None
    few = tracking.track(thetas[0][0], views[0][1], X[rows[0][1][: D - 2]], **about)
    assert few.theta is None


@pytest.mark.slow
def test_known_thetas_join_the_looks_at_a_record_and_who_is_sure_is_right(trained):
    X, thetas, rows, views = trained
    order = [np.concatenate(epoch) for epoch in rows]
    some = np.random.default_rng(3).choice(N, 120, replace=False)
    found = tracking.rejoin(thetas, views, some, noise=1e-4)
    right = np.all([o[p] == order[0][some] for o, p in zip(order, found.positions.T)], axis=0)
    assert found.sure.mean() > 0.5 and right[found.sure].all()
    theirs = X[order[0][some]][found.sure]
    assert features.r_squared(theirs, found.X[found.sure]) > 0.999


def test_too_few_looks_are_never_sure_of_a_wrong_record(trained):
    X, thetas, rows, views = trained
    few = tracking.rejoin(thetas[:2], views[:2], range(50), noise=1e-4)  # 10 numbers for 12
    assert few.positions.shape == (50, 2) and few.X.shape == (50, D)
    other = [[view[:, ::-1] for view in epoch] for epoch in views]
    none = tracking.rejoin(thetas, [*views[:3], *other[3:]], range(20), noise=1e-4)
    assert not none.sure.any()
