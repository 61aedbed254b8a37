"""The records of wu2020's two experiments: what is fitted where, what is clipped, and that no
record depends on another."""

import numpy as np
import pytest

from ppkit.collaboration import preparation
from ppkit.collaboration.losses import hinge, squared
from ppkit.collaboration.optimum import constant_model, optimum
from ppkit.collaboration.owners import blocks
from ppkit.collaboration.preparation import AMOUNT, fraud, lending
from ppkit.datasets import load
from ppkit.datasets.dataset import subset
from ppkit.datasets.lending import FEATURES


@pytest.fixture(scope="module")
def loans():
    return load("lending", source="standin", rows=12_000)


@pytest.fixture(scope="module")
def cards():
    return load("creditcard", source="standin", rows=40_000)


def with_one_row_changed(dataset, row, other):
    """The same data with another record in one place: what a neighbour looks like."""
    rows = np.arange(dataset.n_rows)
    rows[row] = other
    return subset(dataset, rows)


def slow_components(dataset, n_public, n_components):
    """Standardise by the public rows and rotate by the eigenvectors of their covariance, signs
    aside; in plain loops."""
    X = np.asarray(dataset.X, dtype=np.float64)
    public = X[len(X) - n_public :]
    columns = []
    for j in range(X.shape[1]):
        mean = sum(public[:, j]) / n_public
        deviation = (sum((v - mean) ** 2 for v in public[:, j]) / n_public) ** 0.5
        columns.append((X[:, j] - mean) / (deviation if deviation > 0 else 1.0))
    Z = np.array(columns).T
    covariance = Z[len(X) - n_public :].T @ Z[len(X) - n_public :] / n_public
    values, vectors = np.linalg.eigh(covariance)
    return Z @ vectors[:, np.argsort(values)[::-1][:n_components]]


def test_ten_components_as_the_textbook_makes_them(loans):
    made = lending(loans, n_public=2_000, record_l1=1e6)
    slow = slow_components(loans, 2_000, 10)
    np.testing.assert_allclose(np.abs(np.r_[made.X, made.public_X]), np.abs(slow), atol=1e-6)
    assert (loans.y[:10_000] > 31.0).any()
    assert made.X.shape == (10_000, 10) and made.public_X.shape == (2_000, 10) and made.clipped == 0
    np.testing.assert_allclose(made.public_X.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_array_equal(made.y, np.minimum(loans.y[:10_000].astype(float), 31.0))
    spread = made.public_X.var(axis=0)
    assert (np.diff(spread) < 0).all()  # in the order of their variance


@pytest.mark.parametrize("level", ["none", "constant", "public"])
def test_a_record_of_an_owner_changes_its_own_row_only(loans, level):
    before = lending(loans, n_public=2_000, level=level)
    after = lending(with_one_row_changed(loans, 17, 11_000), n_public=2_000, level=level)
    others = np.arange(10_000) != 17
    np.testing.assert_array_equal(before.X[others], after.X[others])
    np.testing.assert_array_equal(before.y[others], after.y[others])
    assert (
        (before.X[17] != after.X[17]).any()
        and before.bounds == after.bounds
        and (before.public_y == after.public_y).all()
    )


def test_the_basis_comes_from_the_last_rows(loans):
    before = lending(loans, n_public=2_000)
    moved = lending(with_one_row_changed(loans, 11_990, 3), n_public=2_000)
    assert not np.array_equal(before.X, moved.X)


def test_everything_lies_within_the_public_bounds(loans):
    for level, width, label in (("none", 10, 31.0), ("constant", 11, 31.0), ("public", 10, 20.0)):
        made = lending(loans, n_public=2_000, level=level, record_l1=12.0)
        norms = np.abs(made.X).sum(axis=1)
        assert made.X.shape[1] == width and norms.max() <= 12.0 * (1 + 1e-12)
        assert np.abs(made.y).max() <= label == made.bounds.label and made.bounds.record_l1 == 12.0
        full = lending(loans, n_public=2_000, level=level, record_l1=1e6)
        untouched = np.abs(full.X).sum(axis=1) <= 12.0
        np.testing.assert_array_equal(made.X[untouched], full.X[untouched])
        assert made.clipped == pytest.approx(1 - untouched.mean()) and 0.05 < made.clipped < 0.3
        best = optimum(blocks(made.X, made.y, [10_000]), loss=squared(), bounds=made.bounds)
        assert np.abs(best.theta).max() < made.bounds.theta_max  # the default box holds nothing


@pytest.mark.slow
@pytest.mark.parametrize(
    "level, size", [("none", (1.5, 2.9)), ("constant", (12.2, 12.9)), ("public", (1.5, 2.9))]
)
def test_the_box_is_chosen_from_public_rows(level, size):
    """The public rows' own least squares, which no owner's record enters, lies inside the default
    box with room to spare."""
    for rows, n_public in ((12_000, 2_000), (30_000, 10_000)):
        made = lending(load("lending", source="standin", rows=rows), n_public=n_public, level=level)
        largest = np.abs(np.linalg.lstsq(made.public_X, made.public_y, rcond=None)[0]).max()
        assert size[0] < largest < size[1] < made.bounds.theta_max


def test_zero_per_cent_for_everybody_is_nearly_as_good_as_the_papers_model(loans):
    """Centred components and no constant: f(0) = E y^2, and at most var y of it can be
    explained."""
    made = lending(loans, n_public=2_000)
    owners = blocks(made.X, made.y, [10_000])
    best = optimum(owners, loss=squared(), bounds=made.bounds).value
    assert 0.05 < (made.y @ made.y / len(made.y)) / best - 1 < 0.2
    assert best > 4 * made.y.var()  # worse than quoting the mean rate
    level = lending(loans, n_public=2_000, level="public")
    public = optimum(blocks(level.X, level.y, [10_000]), loss=squared(), bounds=level.bounds).value
    assert (level.y @ level.y / len(level.y)) / public - 1 > 5
    with_one = lending(loans, n_public=2_000, level="constant")
    constant = optimum(
        blocks(with_one.X, with_one.y, [10_000]), loss=squared(), bounds=with_one.bounds
    ).value
    assert constant == pytest.approx(public, rel=0.1)
    np.testing.assert_array_equal(with_one.X[:, -1], 1.0)
    mean_rate = np.mean(loans.y[10_000:].astype(float))
    np.testing.assert_allclose(level.y, np.clip(loans.y[:10_000] - mean_rate, -20, 20), atol=1e-6)


def test_without_scaling_the_income_is_everything(loans):
    made = lending(loans, n_public=2_000, record_l1=1e9)
    centred = loans.X.astype(float) - loans.X[10_000:].astype(float).mean(axis=0)
    axes = np.linalg.svd(centred[10_000:], full_matrices=False)[2][:10].T
    condition = []
    for X in (made.X, centred[:10_000] @ axes):
        strong, smooth = squared().curvature(blocks(X, made.y, [10_000]))
        condition.append(smooth / strong)
    assert condition[0] < 10 and condition[1] > 1e6
    assert abs(axes[FEATURES.index("annual_income"), 0]) > 0.99


@pytest.mark.slow
def test_cards_row_by_row(cards):
    made = fraud(cards, record_l1=40.0)
    for i in (0, 7, 39_999):
        row = [float(v) for v in cards.X[i, 1:29]] + [(float(cards.X[i, 29]) - 88.35) / 250.12]
        size = sum(abs(v) for v in row)
        expected = [v * min(1.0, 39.0 / size) for v in row] + [1.0]
        np.testing.assert_allclose(made.X[i], expected, rtol=1e-12)
    np.testing.assert_array_equal(made.y == 1, cards.y == 1)
    assert (
        set(np.unique(made.y)) == {-1.0, 1.0}
        and made.X.shape == (40_000, 30)
        and len(made.public_y) == 0
    )
    norms = np.abs(made.X).sum(axis=1)
    assert norms.max() <= 40.0 * (1 + 1e-12) and made.clipped == pytest.approx(
        (norms > 40 - 1e-9).mean(), abs=1e-4
    )
    assert (
        made.bounds.record_l1 == 40.0 and made.bounds.theta_max == 2.0 and AMOUNT == (88.35, 250.12)
    )


def test_cards_in_blocks_are_cards_at_once(cards, monkeypatch):
    some, rng = subset(cards, np.arange(1_000)), np.random.default_rng
    at_once = fraud(some, rng=rng(5))
    monkeypatch.setattr(preparation, "_BLOCK", 300)
    in_blocks = fraud(some, rng=rng(5))
    np.testing.assert_array_equal(in_blocks.X, at_once.X)
    assert in_blocks.clipped == at_once.clipped > 0


def test_a_random_order_moves_rows_with_their_labels(cards):
    still, mixed = fraud(cards), fraud(cards, rng=np.random.default_rng(5))
    order = np.random.default_rng(5).permutation(cards.n_rows)
    np.testing.assert_array_equal(mixed.X, still.X[order])
    np.testing.assert_array_equal(mixed.y, still.y[order])
    assert "random order" in mixed.steps[-1] and "order of the file" in still.steps[-1]


@pytest.mark.slow
def test_psi_of_the_constant_depends_on_whose_hours_they_are():
    cards = load("creditcard", source="standin")  # all of it: the first rows are one night
    psi = {}
    for name, rng in (("file", None), ("random", np.random.default_rng(0))):
        made = fraud(cards, rng=rng)
        owners = blocks(made.X, made.y, [10_000] * 3)
        best = optimum(owners, loss=hinge(), bounds=made.bounds)
        psi[name] = constant_model(owners, loss=hinge(), bounds=made.bounds).value / best.value - 1
        scores = np.concatenate([owner.X for owner in owners]) @ best.theta
        assert (scores > 0).sum() == 0  # the best model by f flags nothing
        assert np.abs(best.theta).max() < 2.0
    assert 0.005 < psi["random"] < 0.02 and psi["file"] > 0.06


def test_bad_input_is_refused_in_one_sentence(loans, cards):
    for wrong, sentence in (
        ({"level": "mean"}, r"level must be one of none, constant, public, got 'mean'"),
        ({"record_l1": 0.0}, "l1_bound|record_l1"),
        ({"record_l1": 1.0, "level": "constant"}, "must be a finite number > 0, got 0"),
    ):
        with pytest.raises(ValueError, match=sentence):
            lending(loans, **({"n_public": 2_000} | wrong))
    with pytest.raises(ValueError, match="must be a finite number > 0, got -0.5"):
        fraud(cards, record_l1=0.5)
