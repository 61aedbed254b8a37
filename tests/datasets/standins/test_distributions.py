"""What a stand-in draws from: columns kept as a few numbers, and mixtures of normals."""

import numpy as np
import pytest
import standin_tables
from scipy import stats

from ppkit.datasets import standins
from ppkit.datasets.standins import creditcard as of_cards
from ppkit.datasets.standins.distributions import (
    draw_mixture,
    from_normal,
    from_uniform,
    looked_up,
    mixture_cdfs,
)
from tools.standins.distributions import atoms, knots


@pytest.mark.parametrize(
    "tail",
    [stats.expon(), stats.lognorm(1.0), stats.uniform(), stats.genpareto(0.3)],
    ids=["exponential", "lognormal", "uniform", "Pareto"],
)
def test_values_drawn_from_the_bins_have_the_columns_mean_deviation_and_quantiles(tail):
    values = tail.rvs(10_000, random_state=2)
    p = (np.arange(1_000_000) + 0.5) / 1_000_000
    drawn = from_uniform(p, atoms(values))
    assert (np.diff(drawn) >= -0.5 * values.std()).all()
    assert drawn.mean() == pytest.approx(values.mean(), rel=5e-3) and drawn.std() == pytest.approx(
        values.std(), rel=0.05
    )
    at = np.array([0.05, 0.5, 0.95])
    np.testing.assert_allclose(
        np.quantile(drawn, at), np.quantile(values, at), atol=0.02 * values.std()
    )


@pytest.mark.parametrize("spread", [0.4, 1.0, 2.5, 6.0])
def test_the_last_stretch_has_its_mean_and_deviation_whether_it_ends_or_not(spread):
    p = 0.5 + (np.arange(1_000_000) + 0.5) / 2_000_000
    drawn = from_uniform(p, np.array([[0.5, 1.0, 0.0], [0.5, 3.0, spread]]))
    assert drawn.min() >= 1 - 1e-6 and (np.diff(drawn) >= 0).all()
    assert drawn.mean() == pytest.approx(3, rel=0.02) and drawn.std() == pytest.approx(
        spread, rel=0.02 if spread < 2 else 0.25
    )


@pytest.mark.parametrize(
    "law",
    [stats.norm(), stats.t(3), stats.lognorm(1.0), stats.uniform()],
    ids=["normal", "t3", "lognormal", "uniform"],
)
def test_normal_scores_become_values_of_the_column(law):
    values = law.rvs(20_000, random_state=1)
    kept = knots(values)
    drawn = from_normal(np.random.default_rng(2).standard_normal(20_000), kept)
    # two samples of 20,000 from one law exceed .03 with chance 2 exp(-2 * 10,000 * .03^2) = 3e-8;
    # the knots add what they add
    assert stats.ks_2samp(drawn, values).statistic < 0.03
    assert 0.5 < np.abs(drawn).mean() / np.abs(values).mean() < 2


def test_values_rise_with_the_scores_and_a_constant_stays_one():
    values = np.r_[np.zeros(600), np.arange(1, 401)].astype(float)
    drawn = from_normal(np.linspace(-6, 6, 1_001), knots(values))
    assert np.all(np.diff(drawn) >= 0) and drawn[500] == 0 and 400 < drawn[-1] < 1_000
    np.testing.assert_array_equal(from_normal(np.array([-1.0, 2.0]), knots(np.full(200, 7.0))), 7)


@pytest.mark.parametrize("name", ["creditcard_0", "creditcard_1", "lending"])
def test_a_table_of_a_distribution_is_the_sum_over_the_components(name):
    """Within 4e-4, and a chance that is small is off by a tenth of itself at most."""
    data, _, label = name.partition("_")
    suffix = f"_{label}" if label else ""
    kept = standins.parameters(data)
    mixture = {key: kept[key + suffix].astype(float) for key in of_cards.MIXTURE}
    z = draw_mixture(mixture, 5_000, np.random.default_rng(2))
    tables = mixture_cdfs(mixture)
    below = np.array([looked_up(own, table) for own, table in zip(z, tables, strict=True)])
    exact = standin_tables.exact_cdfs(mixture, z.T).T
    np.testing.assert_allclose(below, exact, atol=4e-4)
    rare = exact < 0.01
    np.testing.assert_allclose(below[rare], exact[rare], rtol=0.1)
    rare = exact > 0.99
    np.testing.assert_allclose(1 - below[rare], 1 - exact[rare], rtol=0.1)


def test_components_come_as_often_as_they_weigh_and_where_they_are():
    mixture = {
        "weights": np.array([2.0, 6.0]),
        "means": np.array([[-50.0, 0.0], [50.0, 10.0]]),
        "factors": np.array([[[1.0, 0.0], [0.8, 0.6]], [[2.0, 0.0], [0.0, 1.0]]]),
    }
    first, second = draw_mixture(mixture, 40_000, np.random.default_rng(0))
    # of 40,000 a share of one quarter has a binomial spread of .0022: .015 off is below 1e-9
    assert (first < 0).mean() == pytest.approx(0.25, abs=0.015)
    low = first < 0
    assert np.corrcoef(first[low], second[low])[0, 1] == pytest.approx(0.8, abs=0.03)
    # six standard errors of the mean of 30,000: .07 and .035
    assert first[~low].mean() == pytest.approx(50, abs=0.07)
    assert second[~low].mean() == pytest.approx(10, abs=0.035)
