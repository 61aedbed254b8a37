"""What is kept of real rows is over at least 50 of them."""

import numpy as np
import pytest

from ppkit.datasets.standins.distributions import draw_mixture
from tools.standins.distributions import atoms, knots, mixture, scores


def test_every_bin_holds_fifty_rows_and_together_they_keep_mean_and_shares(
    rng=np.random.default_rng(5),
):
    values = np.r_[np.repeat([3.0, 7.0], [400, 900]), np.round(rng.gamma(2, 5, 2_000), 2)]
    bins = atoms(values)
    assert (
        bins[:, 0].sum() == pytest.approx(1)
        and (bins[:, 0] * len(values) > 49.9).all()
        and (np.diff(bins[:, 1]) > 0).all()
    )
    assert {3.0, 7.0} <= set(bins[bins[:, 2] == 0, 1])
    assert bins[:, 0] @ bins[:, 1] == pytest.approx(values.mean(), rel=5e-3)
    assert (bins[bins[:, 1] == 7.0, 0] * len(values)).item() == pytest.approx(900, abs=49)
    rare = np.r_[np.zeros(5_000), 9_999.0]
    assert (
        atoms(rare).shape == (1, 3) and 0 < atoms(rare)[0, 1] < 3
    )  # one row's value is in a mean over all


def test_scores_keep_the_order_and_the_association_that_ties_hide():
    rng, n = np.random.default_rng(1), 8_000
    a, b = rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], n).T
    columns = np.column_stack(
        [a, b > 0.8, np.where(rng.random(n) < 0.3, np.nan, a), np.full(n, 5.0)]
    )
    Z = scores(columns, np.random.default_rng(2))
    assert (
        np.isfinite(Z).all()
        and (np.abs(Z.mean(axis=0)) < 0.05).all()
        and (np.abs(Z.std(axis=0) - 1) < 0.05).all()
    )
    assert Z[columns[:, 1] == 0, 1].max() <= Z[columns[:, 1] == 1, 1].min()
    np.testing.assert_array_equal(np.argsort(Z[:, 0]), np.argsort(a))
    # the standard error of a correlation of 8,000 rows is under .012, of one seen through a tie
    # under .03: six of them
    assert (
        abs(np.corrcoef(Z.T)[0, 1] - 0.6)
        < 0.1
        < 0.6 - np.corrcoef(scores(columns, rng, sweeps=0).T)[0, 1]
    )
    assert abs(np.corrcoef(Z.T)[0, 3]) < 0.07 and np.corrcoef(Z.T)[0, 2] > 0.9
    left = scores(columns, np.random.default_rng(2), at_random=(1,))
    np.testing.assert_array_equal(
        left[:, 1], scores(columns, np.random.default_rng(2), sweeps=0)[:, 1]
    )


def test_a_knot_is_a_mean_over_at_least_fifty_rows(rng=np.random.default_rng(0)):
    values = rng.standard_t(2, 1_234)
    kept = knots(values)
    assert len(kept) == 24 and np.all(np.diff(kept) > 0)
    ordered = np.sort(values)
    sizes = [len(part) for part in np.array_split(ordered, 24)]
    assert min(sizes) >= 50
    edges = np.linspace(0, 1_234, 25).round().astype(int)
    np.testing.assert_allclose(
        kept, [ordered[a:b].mean() for a, b in zip(edges, edges[1:], strict=False)]
    )
    assert not np.isin(kept, values).any()
    assert len(knots(values, at_most=5)) == 5 and len(knots(values[:99])) == 1


@pytest.mark.parametrize("keep", [knots, atoms])
def test_nothing_is_kept_of_fewer_than_fifty_rows(keep):
    assert len(keep(np.zeros(50))) == 1
    with pytest.raises(ValueError, match="means over 50 rows or more, got 49"):
        keep(np.zeros(49))


def test_a_mixture_finds_two_clouds_and_samples_them():
    rng = np.random.default_rng(3)
    Z = np.vstack([rng.normal(-3, 1, (600, 2)), rng.normal(3, 0.5, (400, 2))])
    fitted = mixture(Z, 2, rng)
    order = np.argsort(fitted["means"][:, 0])
    np.testing.assert_allclose(fitted["weights"][order], [0.6, 0.4], atol=0.02)
    np.testing.assert_allclose(fitted["means"][order], [[-3, -3], [3, 3]], atol=0.2)
    drawn = draw_mixture(fitted, 50_000, rng)
    np.testing.assert_allclose(np.cov(drawn), np.cov(Z.T), rtol=0.05, atol=0.05)


def test_no_component_leans_on_fewer_than_fifty_rows():
    rng = np.random.default_rng(4)
    Z = np.vstack(
        [rng.normal(0, 1, (400, 3)), rng.normal(30, 0.01, (10, 3))]
    )  # ten customers far from all others
    fitted = mixture(Z, 6, rng)
    assert (fitted["weights"] * len(Z)).min() >= 50
    assert np.abs(fitted["means"] - 30).max(axis=1).min() > 5
    assert len(mixture(Z[:60], 6, rng)["weights"]) == 1


def test_a_mixture_that_goes_on_from_a_fit_stays_there():
    rng = np.random.default_rng(9)
    Z = np.vstack([rng.normal(-3, 1, (600, 2)), rng.normal(3, 0.5, (400, 2))])
    first = mixture(Z, 2, rng)
    again = mixture(Z, 2, rng, start=first)
    for key, value in first.items():
        np.testing.assert_allclose(again[key], value, atol=0.01)
