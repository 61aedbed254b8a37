import tracemalloc

import numpy as np
import pytest
import torch
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from ppkit.attacks.features import (
    ROUNDED_16,
    categories,
    inner_products,
    r_squared,
    reconstruct,
    whitened,
)


def linear(n=300, d=7, width=3, steps=4, seed=0, noise=0.0):
    """X, and its views through random thetas: no training, so that rank is d
    as soon as width * steps >= d."""
    rng = np.random.default_rng(seed)
    X, thetas = rng.normal(size=(n, d)), rng.normal(size=(steps, d, width))
    return X, [X @ theta + noise * rng.normal(size=(n, width)) for theta in thetas]


def trained(n=60, d=5, width=3, steps=8, lr=0.7, noise_variance=0.0, seed=0):
    """Oracle of the holders' rule: theta moves by torch's SGD on some loss, plus noise; views,
    gradients and X."""
    rng = torch.Generator().manual_seed(seed)
    X, target = (torch.randn(n, k, generator=rng, dtype=torch.float64) for k in (d, width))
    theta = torch.randn(d, width, generator=rng, dtype=torch.float64, requires_grad=True)
    optimiser, views, gradients = torch.optim.SGD([theta], lr=lr), [], []
    for _ in range(steps):
        h1 = X @ theta
        h1.retain_grad()
        optimiser.zero_grad()
        (torch.tanh(h1) - target).pow(2).mean().backward()
        views.append(h1.detach().clone())
        gradients.append(h1.grad.clone())
        optimiser.step()
        with torch.no_grad():
            theta += noise_variance**0.5 * torch.randn(
                theta.shape, generator=rng, dtype=torch.float64
            )
    return X.numpy(), views, gradients


def worst_product(X, got):
    return float(np.abs(got.X @ got.X.T - X @ X.T).max())


# ---- known records


def test_as_many_known_records_as_features_give_all_records_exactly():
    X, views = linear()
    known = [40, 3, 299, 17, 100, 8, 201]
    got = reconstruct(views, known, X[known])
    assert got.rank == 7 and got.why == "" and got.expected_r2 is None
    assert np.abs(got.X - X).max() < 1e-6


def test_known_records_may_lie_anywhere_and_in_any_order():
    X, views = linear()
    known = [250, 3, 77, 41, 100, 8, 201, 5, 299]
    got = reconstruct(views, known, X[known])
    assert np.abs(got.X - X).max() < 1e-6 and got.expected_r2 > 1 - 1e-9


def test_one_record_short_leaves_a_direction_open_and_says_so():
    X, views = linear()
    got = reconstruct(views, range(6), X[:6])
    assert got.why == "6 known records fix 6 of 7 directions"
    assert r_squared(X[6:], got.X[6:]) < 0.98


def test_views_of_low_rank_give_their_share_of_the_variance_and_no_more():
    X, views = linear(n=4000, steps=1)
    got = reconstruct(views, range(2000), X[:2000])
    assert got.rank == 3 and "hold 3 of 7 directions" in got.why
    seen = np.linalg.lstsq(views[0][2000:], X[2000:], rcond=None)[
        0
    ]  # nothing linear does better, even told all
    assert (
        r_squared(X[2000:], got.X[2000:])
        <= r_squared(X[2000:], views[0][2000:] @ seen)
        < 3 / 7 + 0.05
    )
    assert abs(r_squared(X[2000:], got.X[2000:]) - got.expected_r2) < 0.05


def test_a_theta_that_does_not_move_tells_nothing_new_however_often_it_is_seen():
    X, views = linear(steps=1)
    got = reconstruct(views * 20, range(50), X[:50])
    assert got.rank == 3 and "hold 3 of 7 directions" in got.why


@pytest.mark.parametrize("n_known", [8, 14])
def test_columns_that_depend_on_each_other_are_not_laid_on_theta(n_known):
    rng = np.random.default_rng(5)
    X = np.hstack([np.eye(6)[rng.integers(6, size=300)] for _ in range(3)])
    got = reconstruct(looks_at(X), range(n_known), X[:n_known])
    assert got.rank == np.linalg.matrix_rank(X) == 16
    assert got.why.startswith(
        "12 views of width 8 hold 16 of 18 directions above rounding and noise"
    )


def test_directions_under_the_noise_are_left_out():
    X, views = linear(steps=2, width=3)
    slowly = [views[0], views[0] + 1e-7 * views[1]]
    assert reconstruct(slowly, range(50), X[:50]).rank == 6
    assert reconstruct(slowly, range(50), X[:50], noise=ROUNDED_16).rank == 3


def test_rounding_to_16_bits_costs_as_much_as_it_should_and_the_server_knows():
    X, views = linear(n=1000, steps=6)
    got = reconstruct(
        [np.floor(view * 65536) / 65536 for view in views], range(40), X[:40], noise=ROUNDED_16
    )
    assert 1 - 1e-7 < r_squared(X[40:], got.X[40:]) < 1 and got.expected_r2 > 1 - 1e-7


def test_where_noise_drowns_the_steps_the_guess_is_no_worse_than_the_mean_by_much():
    X, views = linear(n=1000, steps=3, noise=30.0)
    got = reconstruct(views, range(60), X[:60], noise=30.0)
    assert got.X is None or -0.3 < r_squared(X[60:], got.X[60:]) < 0.2


def test_what_the_server_expects_is_leaving_one_out_by_hand():
    X, views = linear(n=200, steps=2, noise=0.5)
    U = np.linalg.svd(np.hstack(views), full_matrices=False)[0]
    Z, known, losses = U[:25] * 200**0.5, X[:25], []
    for q in (3, 6):
        for ridge in (1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 3e-2, 0.1, 0.3, 1, 3, 10):
            loss = 0.0
            for i in range(25):
                A, B = np.delete(Z[:, :q], i, axis=0), np.delete(known, i, axis=0)
                fitted = np.linalg.solve(A.T @ A + 25 * ridge * np.eye(q), A.T @ B)
                loss += float(((known[i] - Z[i, :q] @ fitted) ** 2).sum())
            losses.append(loss)
    spread = ((known - known.mean(axis=0)) ** 2).sum()
    assert reconstruct(views, range(25), known).expected_r2 == pytest.approx(
        1 - min(losses) / spread, abs=1e-9
    )


def test_what_the_server_expects_takes_no_credit_for_the_columns_means():
    """Far from 0 a guess near the mean is close in length and explains nothing."""
    X, _ = linear(n=4000)
    X = X + 10
    got = reconstruct([X @ np.random.default_rng(1).normal(size=(7, 1))], range(2000), X[:2000])
    truth = r_squared(X[2000:], got.X[2000:])
    assert truth < 0.2 and abs(got.expected_r2 - truth) < 0.1 * (1 - truth)


def test_views_that_are_not_clear_of_their_noise_are_fitted_and_nothing_is_called_exact():
    X, views = linear(n=1000, steps=6, noise=0.5)
    got = reconstruct(views, range(60), X[:60], noise=0.5)
    assert got.rank == 7 and got.exact is None
    assert abs(r_squared(X[60:], got.X[60:]) - got.expected_r2) < 0.1
    one = reconstruct(views[:1], [0], 0 * X[:1], noise=0.0)
    assert one.expected_r2 is None and not one.X.any()


def test_a_view_of_nothing_but_noise_gives_nothing():
    got = reconstruct(
        [np.random.default_rng(0).normal(size=(200, 3))], range(9), np.ones((9, 4)), noise=5.0
    )
    assert got.X is None and got.why == "nothing in the views is larger than the noise of 5"


def test_more_views_than_are_laid_side_by_side_at_once_span_the_same():
    X, views = linear(n=600, d=7, width=3, steps=300)
    still = [
        views[0] if t % 3 == 0 else view for t, view in enumerate(views)
    ]  # every third is looked at first
    got = reconstruct(still, range(7), X[:7])
    assert got.rank == 7 and np.abs(got.X - X).max() < 1e-6


# ---- no known record


@pytest.mark.slow
def test_plain_steps_give_every_inner_product():
    X, views, gradients = trained()
    got = inner_products(views, gradients, lr=0.7, n_features=5)
    assert got.why == "" and worst_product(X, got) < 1e-6


def test_inner_products_scale_with_one_over_the_learning_rate():
    X, views, gradients = trained()
    got = inner_products(views, gradients, lr=1.4, n_features=5)
    assert np.abs(got.X @ got.X.T - X @ X.T / 2).max() < 1e-6


def test_the_last_gradient_is_not_needed():
    X, views, gradients = trained()
    assert worst_product(X, inner_products(views, gradients[:-1], lr=0.7, n_features=5)) < 1e-6


def test_langevin_noise_defeats_least_squares_and_tells_the_inner_products_itself():
    """400 steps of width 3 are 1,200 draws of covariance 0.01 M:
    relative error about sqrt(5 / 1,200) = .065."""
    X, views, gradients = trained(steps=400, noise_variance=0.01, lr=0.05)
    upper = np.triu_indices(len(X), 1)

    def corr(got):
        return np.corrcoef((got.X @ got.X.T)[upper], (X @ X.T)[upper])[0, 1]

    assert corr(inner_products(views, gradients, lr=0.05, n_features=5)) < 0.9
    assert corr(inner_products(views, gradients, lr=0.05, n_features=5, noise_variance=0.01)) > 0.99


@pytest.mark.slow
def test_noise_of_the_views_is_not_taken_for_noise_of_the_steps():
    """Both differences' noise adds 2 noise^2 / N to every entry of D D^T: here about as much as the
    steps themselves do."""
    X, views, gradients = trained(n=300, steps=400, noise_variance=1e-4, lr=0.05)
    rng = np.random.default_rng(0)
    noisy = [np.asarray(view) + 0.12 * rng.normal(size=view.shape) for view in views]
    got = inner_products(noisy, gradients, lr=0.05, n_features=5, noise_variance=1e-4, noise=0.12)
    assert np.trace(got.X @ got.X.T) == pytest.approx(
        np.trace(X @ X.T), rel=0.15
    )  # twice as large where it is left in


def test_the_two_solutions_meet_where_noise_vanishes():
    X, views, gradients = trained(steps=30)
    assert (
        worst_product(
            X, inner_products(views, gradients, lr=0.7, n_features=5, noise_variance=1e-18)
        )
        < 1e-3
    )


def test_the_likeliest_matrix_solves_its_equation_and_nothing_nearby_is_likelier():
    from ppkit.attacks.features import _likeliest

    rng = np.random.default_rng(0)
    D, S, c, draws = rng.normal(size=(4, 30)), rng.normal(size=(4, 30)), 0.3, 30
    P, Q = D @ D.T, S @ S.T
    M = _likeliest(P, Q, c * draws)
    assert np.abs(M @ Q @ M + c * draws * M - P).max() < 1e-9

    def surprise(M):  # minus twice the log-likelihood of D - M S ~ N(0, c M)
        left = D - M @ S
        return draws * np.linalg.slogdet(M)[1] + np.trace(left.T @ np.linalg.solve(c * M, left))

    for _ in range(20):
        step = rng.normal(size=(4, 4)) * 1e-3
        assert surprise(M + step + step.T) > surprise(M)


def test_a_theta_that_moves_in_few_directions_gives_no_inner_products():
    X, views, gradients = trained(steps=2)
    got = inner_products(views, gradients, lr=0.7, n_features=5)
    assert got.X is None and got.why == "1 steps move theta in 3 of 5 directions"
    assert inner_products(views[:1] * 2, gradients[:1], lr=0.7, n_features=5).rank == 3


def test_uncorrelated_features_need_no_step_at_all():
    X, _ = linear(n=200, d=6)
    X = np.linalg.qr(X)[0] * 200**0.5
    views = [X @ np.random.default_rng(t).normal(size=(6, 3)) for t in range(2)]
    assert worst_product(X, whitened(views, n_features=6)) < 1e-9
    assert whitened(views[:1], n_features=6).X is None


def one_hot(n=600, k=60, numbers=5, seed=0):
    """Records of k categories and a few numbers, standardised, and who belongs to whom."""
    rng = np.random.default_rng(seed)
    of = rng.integers(k, size=n)
    X = np.hstack([np.eye(k)[of], rng.normal(size=(n, numbers))])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X, {tuple(np.flatnonzero(of == c)) for c in range(k) if (of == c).sum() > 1}


@pytest.mark.parametrize("noise", [0.0, ROUNDED_16])
def test_one_wide_look_groups_the_records_by_category(noise):
    X, truth = one_hot()
    theta = np.random.default_rng(1).normal(size=(65, 80)) / 8
    view = X @ theta + np.random.default_rng(2).normal(size=(600, 80)) * noise
    found = categories([view], noise=noise)
    named = {tuple(group) for group in found.groups}
    assert len(named & truth) >= 0.95 * len(truth) and named <= truth


def test_records_sorted_in_small_blocks_give_the_same_groups(monkeypatch):
    X, _ = one_hot(n=300, k=30)
    view = X @ np.random.default_rng(1).normal(size=(35, 80)) / 8
    at_once = categories([view]).groups
    monkeypatch.setattr("ppkit.attacks.features._BLOCK", 7)
    in_blocks = categories([view]).groups
    assert len(at_once) > 20
    assert {tuple(group) for group in at_once} == {tuple(group) for group in in_blocks}


def test_a_narrow_look_and_numbers_have_no_categories():
    X, truth = one_hot(numbers=40)
    theta = np.random.default_rng(1).normal(size=(100, 8))
    assert categories([X @ theta]).groups == []
    numbers = np.random.default_rng(3).normal(size=(600, 20))
    assert categories([numbers]).groups == []


# ---- one-hot rows: more columns than rank

LEVELS = (4, 5, 10, 5, 5, 4, 3, 4, 3, 3, 4, 2, 2)  # categories an attribute, as German credit has


def applicants(n, seed, sort=False):
    """13 attributes of 54 categories, some rare, and 7 numbers; in the order of the first ones."""
    rng = np.random.default_rng(seed)
    parts = [rng.choice(k, size=n, p=rng.dirichlet(np.ones(k))) for k in LEVELS]
    parts += [np.round(np.exp(rng.normal(3, 1, n))), *rng.integers(1, 5, size=(6, n))]
    table = np.column_stack(parts).astype(float)
    return table[np.lexsort(table.T[::-1])] if sort else table


def standardised(X):
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1)


def encoded(table, **settings):
    """By scikit-learn's encoder, numbers standardised."""
    encoder = OneHotEncoder(sparse_output=False, **settings)
    return np.hstack([encoder.fit_transform(table[:, :13]), standardised(table[:, 13:])])


EVERY_LEVEL = [np.arange(k, dtype=float) for k in LEVELS]
ENCODINGS = {
    "61 columns": lambda table: standardised(encoded(table, categories=EVERY_LEVEL)),
    "0 and 1 as they are": lambda table: encoded(table),
    "drop first": lambda table: standardised(encoded(table, drop="first")),
    "drop first, 0 and 1": lambda table: encoded(table, drop="first"),
    "rare ones together": lambda table: standardised(encoded(table, min_frequency=0.05)),
    "a column twice": lambda table: standardised(np.hstack([encoded(table), encoded(table)])),
    "a constant": lambda table: np.c_[standardised(encoded(table)), np.ones(len(table))],
    "codes": lambda table: standardised(OrdinalEncoder().fit_transform(table)),
}


def looks_at(X, steps=12, width=8, noise=0.0):
    rng = np.random.default_rng(1)
    theta = rng.normal(size=(steps, X.shape[1], width)).cumsum(axis=0) / 8
    views = [X @ now for now in theta]
    return [np.floor(view * 65536) / 65536 for view in views] if noise else views


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, ROUNDED_16])
@pytest.mark.parametrize("sort", [False, True])
@pytest.mark.parametrize("m", [50, 100, 250])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_server_expects_no_more_than_is_true_and_knows_which_rows_are_exact(
    encoding, m, sort, noise
):
    X = ENCODINGS[encoding](applicants(500, seed=2, sort=sort))
    got = reconstruct(looks_at(X, noise=noise), range(m), X[:m], noise=noise)
    truth = r_squared(X[m:], got.X[m:])
    assert got.expected_r2 <= truth + 0.01
    if got.exact is not None:
        assert np.abs(got.X - X)[got.exact].max() < (1e-2 if noise else 1e-7)
    if got.exact is not None and got.exact.all():
        assert truth > 1 - 1e-6 and ("of known ones" in got.why or got.why == "")
        assert got.expected_r2 > 0.9
    else:
        assert got.why


@pytest.mark.parametrize("noise", [0.0, ROUNDED_16])
def test_one_hot_rows_come_back_whole_where_known_rows_have_their_rank(noise):
    """The columns of an attribute add up to a constant: 54 + 7 columns of rank 54 - 13 + 7."""
    X = ENCODINGS["61 columns"](applicants(500, seed=1))
    rank = int(np.linalg.matrix_rank(X))
    got = reconstruct(looks_at(X, noise=noise), range(450), X[:450], noise=noise)
    assert X.shape[1] == 61 and rank <= 48 and got.exact.all()
    assert got.why == (
        f"the known rows have rank {rank} of 61, and so have the views: "
        "every row is a combination of known ones"
    )
    assert np.abs(got.X - X).max() < (1e-2 if noise else 1e-9)


def test_rows_with_a_category_that_no_known_row_has_are_counted_and_the_others_exact():
    """Oracle: a row is a combination of known rows if it adds nothing to their rank."""
    X = ENCODINGS["61 columns"](applicants(300, seed=6, sort=True))
    got = reconstruct(looks_at(X), range(150), X[:150])
    of_known = int(np.linalg.matrix_rank(X[:150]))
    oracle = [np.linalg.matrix_rank(np.vstack([X[:150], row])) == of_known for row in X]
    assert got.exact.tolist() == oracle and 150 < sum(oracle) < 300
    assert got.why == (
        f"the known rows have rank {of_known} of 61, and {got.rank - of_known} directions of the "
        f"views have no known row: {sum(oracle)} of 300 rows are exact"
    )
    assert got.expected_r2 < 0.99


def test_views_that_miss_a_direction_of_one_hot_rows_are_not_said_to_hold_all():
    X = ENCODINGS["61 columns"](applicants(400, seed=1))
    got = reconstruct(looks_at(X, steps=5), range(200), X[:200])
    assert got.rank == 40 and "hold 40 of 61 directions above rounding and noise" in got.why
    assert got.exact is None and got.expected_r2 <= r_squared(X[200:], got.X[200:]) + 0.05


def moved_by(X, steps, lr=0.7, width=8, noise_variance=0.0):
    """Views and gradients of holders who step on these rows."""
    rng = np.random.default_rng(4)
    theta, views, gradients = rng.normal(size=(X.shape[1], width)) / 8, [], []
    for _ in range(steps):
        views.append(X @ theta)
        gradients.append(rng.normal(size=(len(X), width)) / len(X))
        noise = noise_variance**0.5 * rng.normal(size=theta.shape)
        theta = theta - lr * X.T @ gradients[-1] - noise
    return views, gradients


@pytest.mark.parametrize("encoding", ["61 columns", "0 and 1 as they are", "a column twice"])
def test_inner_products_of_one_hot_rows_need_the_rank_and_not_the_width(encoding):
    X = ENCODINGS[encoding](applicants(300, seed=1))
    rank, d = int(np.linalg.matrix_rank(X)), X.shape[1]
    views, gradients = moved_by(X, steps=12)
    got = inner_products(views, gradients, lr=0.7, n_features=d)
    assert np.abs(got.X @ got.X.T - X @ X.T).max() < 1e-7 and got.rank == rank < d
    white = whitened(views, n_features=d)
    assert white.X is None and f"hold {rank} of {d} directions" in white.why


@pytest.mark.slow
def test_langevin_steps_on_one_hot_rows_tell_their_inner_products():
    X = ENCODINGS["61 columns"](applicants(300, seed=1))
    views, gradients = moved_by(X, steps=100, lr=0.05, noise_variance=0.01)
    got = inner_products(views, gradients, lr=0.05, n_features=61, noise_variance=0.01)
    upper = np.triu_indices(300, 1)
    assert np.corrcoef((got.X @ got.X.T)[upper], (X @ X.T)[upper])[0, 1] > 0.95


@pytest.mark.parametrize("encoding", ["61 columns", "0 and 1 as they are", "rare ones together"])
def test_categories_of_many_attributes_are_only_real_ones(encoding):
    X = ENCODINGS[encoding](applicants(500, seed=1))
    truth = {tuple(np.flatnonzero(column > 0)) for column in X.T if len(np.unique(column)) == 2}
    found = categories([X @ np.random.default_rng(1).normal(size=(X.shape[1], 80)) / 8])
    named = {tuple(group) for group in found.groups}
    assert named <= truth


def test_known_rows_that_repeat_each_other_are_no_singular_matrix():
    X, views = linear(n=60, d=4, steps=3)
    X = np.vstack([X[:4], X])
    views = [np.vstack([view[:4], view]) for view in views]
    got = reconstruct(views, [0, 1, 4, 5], X[[0, 1, 4, 5]])
    assert "the known rows have rank 2 of 4, and 2 directions of the views have no known" in got.why
    assert got.exact.sum() == 4 and np.abs(got.X - X)[got.exact].max() < 1e-9


# ---- bad input


@pytest.mark.parametrize(
    "change, message",
    [
        (
            lambda a: {**a, "views": [np.full((300, 3), np.nan)]},
            "views must be finite, got 900 of 900",
        ),
        (lambda a: {**a, "noise": -1.0}, "noise must be >= 0, got -1.0"),
        (lambda a: {**a, "X_known": np.ones(3)}, "X_known must be a matrix"),
    ],
)
def test_bad_known_records_are_refused(change, message):
    X, views = linear()
    with pytest.raises(ValueError, match=message):
        reconstruct(**change({"views": views, "known": [0, 1, 2], "X_known": X[:3]}))


@pytest.mark.parametrize(
    "setting, message",
    [
        ({"lr": 0}, "lr must be > 0, got 0"),
        ({"noise_variance": -1.0}, "noise_variance must be >= 0, got -1.0"),
    ],
)
def test_bad_settings_of_the_holders_are_refused(setting, message):
    X, views, gradients = trained()
    with pytest.raises(ValueError, match=message):
        inner_products(views, gradients, **{"lr": 0.7, "n_features": 5, **setting})


def test_r_squared_of_the_mean_is_0_and_of_worse_is_below():
    X = np.random.default_rng(0).normal(size=(50, 3))
    assert (
        r_squared(X, np.tile(X.mean(axis=0), (50, 1))) == pytest.approx(0)
        and r_squared(X, X) == 1
        and r_squared(X, -X) < 0
    )


def test_the_fits_that_are_not_taken_hold_no_guess_of_the_records():
    X, views = linear(n=1_000, d=200, width=5, steps=40, noise=1e-4)  # forty fits
    tracemalloc.start()
    try:
        reconstruct(views, range(60), X[:60], noise=1e-4)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20 * X.nbytes
