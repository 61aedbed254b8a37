"""Records found again in secret orders, and solved for through weights that move."""

import numpy as np
import pytest

from ppkit.attacks.features import ROUNDED_16, r_squared
from ppkit.attacks.linking import follow, reconstruct_moved


def reshuffled(n=400, d=4, width=2, looks=4, n_batches=2, seed=0, move=0.02):
    """X; views in a secret order each, first in the records' own; where each record stood; batch
    numbers by position."""
    rng = np.random.default_rng(seed)
    X, theta, views, places = rng.normal(size=(n, d)), rng.normal(size=(d, width)), [], []
    batch = np.arange(n) * n_batches // n
    for t in range(looks):
        place = rng.permutation(n) if t else np.arange(n)
        thetas = theta + move * rng.normal(size=(n_batches, d, width)) * (1 + t)
        view = np.empty((n, width))
        for i in range(n):
            view[place[i]] = X[i] @ thetas[batch[place[i]]]
        views.append(view)
        places.append(place)
    return X, views, places, batch


def test_known_orders_and_moving_weights_give_all_records_exactly():
    X, views, places, batch = reshuffled(move=0.5)
    got = reconstruct_moved(
        [v[p] for v, p in zip(views, places)],
        [batch[p] for p in places],
        range(40),
        X[:40],
        noise=1e-8,
    )
    assert got.consistent.all() and got.expected_r2 > 1 - 1e-6
    assert np.abs(got.X - X).max() < 1e-6


def test_equations_solved_in_small_blocks_give_the_same_records(monkeypatch):
    X, views, places, batch = reshuffled(move=0.5)
    seen = [v[p] for v, p in zip(views, places)], [batch[p] for p in places]
    at_once = reconstruct_moved(*seen, range(40), X[:40], noise=1e-8)
    monkeypatch.setattr("ppkit.attacks.linking._BLOCK", 33)
    in_blocks = reconstruct_moved(*seen, range(40), X[:40], noise=1e-8)
    assert (at_once.X == in_blocks.X).all() and at_once.expected_r2 == in_blocks.expected_r2


@pytest.mark.parametrize("move, looks", [(3e-6, 4), (3e-5, 4), (3e-4, 3), (0.5, 1)])
def test_consistent_equations_may_tell_little_and_the_server_knows_how_little(move, looks):
    X, views, places, batch = reshuffled(n=2000, move=move, looks=looks)
    rounded = [np.floor(v * 65536) / 65536 for v in views]
    got = reconstruct_moved(
        [v[p] for v, p in zip(rounded, places)],
        [batch[p] for p in places],
        range(0, 2000, 20),
        X[::20],
        noise=ROUNDED_16,
    )
    assert abs(r_squared(X, got.X) - got.expected_r2) < 0.08


def test_a_wrong_link_shows_and_does_not_spoil_the_others():
    X, views, places, batch = reshuffled(move=0.5)
    linked, batches = [v[p] for v, p in zip(views, places)], [batch[p] for p in places]
    wrong = [3, 7, 300, 301]  # two of them among the known records
    for values in (linked[2], batches[2]):
        values[wrong] = values[np.roll(wrong, 1)]
    got = reconstruct_moved(linked, batches, range(60), X[:60], noise=1e-8)
    assert not got.consistent[wrong].any() and got.consistent.sum() == len(X) - 4
    assert np.abs(got.X - X)[got.consistent].max() < 1e-6


def test_without_enough_known_records_in_a_batch_no_weights_are_found():
    X, views, places, batch = reshuffled()
    with pytest.raises(ValueError, match="no batch has 6 known records, which its weights take"):
        reconstruct_moved(views, [batch] * 4, range(5), X[:5], noise=1e-8)


def test_too_few_looks_leave_directions_open():
    X, views, places, batch = reshuffled()
    got = reconstruct_moved(views[:1], [batch], range(0, 400, 4), X[::4], noise=ROUNDED_16)
    assert not got.consistent.any() and got.expected_r2 < 0.6


def test_records_that_move_little_are_followed_through_secret_orders():
    X, views, places, batch = reshuffled(move=1e-4)
    got = follow(views)
    assert all((found == place).mean() > 0.99 for found, place in zip(got.positions, places))
    assert (
        all((found == place)[got.sure].all() for found, place in zip(got.positions, places))
        and got.sure.mean() > 0.97
    )


def test_who_was_lost_once_is_not_sure_again():
    X, views, places, batch = reshuffled(move=1.0, looks=2)
    assert follow([*views, views[-1]]).sure.mean() < 0.3 and follow([views[-1]] * 3).sure.all()


def test_a_move_that_all_records_share_is_taken_out():
    rng = np.random.default_rng(0)
    points, order = rng.normal(size=(500, 3)), rng.permutation(500)
    turned = points @ (np.eye(3) + 0.04 * rng.normal(size=(3, 3))) + 0.05
    after = np.empty_like(turned)
    after[order] = turned
    assert (follow([points, after]).positions[1] == order).all()


def test_records_that_move_far_are_lost_and_the_server_can_tell():
    X, views, places, batch = reshuffled(move=1.0)
    got = follow(views)
    assert (got.positions[-1] == places[-1]).mean() < 0.1 and got.sure.mean() < 0.3
