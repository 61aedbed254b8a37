"""No lower bound above an upper one: over wide ranges, and where a table would print one."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from ppkit import accounting, audit, show
from ppkit.validation import not_above
from ppkit.verdicts.ledger import FORMULA, Ledger


@pytest.mark.parametrize("neighbouring, without", [("replace_one", 0.0), ("zero_out", 1.0)])
@pytest.mark.parametrize("n_batches, n_epochs", [(50, 4), (2, 1), (400, 3)])
def test_the_largest_sum_attains_less_than_holds(neighbouring, without, n_batches, n_epochs):
    before = math.inf
    for s in np.geomspace(0.2, 10, 25):
        epochs = dict(n_epochs=n_epochs, delta=1e-5)
        attained = audit.largest_sum(s, n_batches=n_batches, without=without, **epochs)
        holds = accounting.get_epsilon_epochs(s, neighbouring=neighbouring, **epochs)
        assert 0 <= attained <= holds
        assert attained <= before + 0.01 * n_epochs  # more noise, less attained: up to the grid
        before = attained


def exact_delta(s, n_batches, epsilon):
    """Oracle: one epoch's hockey stick over the 501 cells of the largest sum, by mpmath at 60
    digits."""
    with mpmath.workdps(60):
        edges = [mpmath.mpf(float(e)) for e in np.linspace(0, 2 + 8 * s, 500)]

        def law(moved):
            cdf = [
                mpmath.ncdf(e / s) ** (n_batches - 1) * mpmath.ncdf((e - moved) / s) for e in edges
            ]
            return [b - a for a, b in itertools.pairwise([mpmath.mpf(0), *cdf, mpmath.mpf(1)])]

        pairs = zip(law(2), law(0))
        return float(sum(max(p - mpmath.exp(epsilon) * q, mpmath.mpf(0)) for p, q in pairs))


@pytest.mark.slow
@pytest.mark.parametrize("s", [0.2, 0.5, 1.1])
def test_the_largest_sum_against_sixty_digits(s):
    attained = audit.largest_sum(s, n_batches=50, n_epochs=1, delta=1e-5)
    assert exact_delta(s, 50, attained) >= 1e-5 * (1 - 1e-6)
    assert exact_delta(s, 50, attained + 0.011) <= 1e-5  # two cells of the losses' grid


def test_the_largest_sum_where_a_lesson_went_wrong():
    """Differences of a cdf near 1 gave 696.4 at noise .5, where 65.3 is proved."""
    at = {s: audit.largest_sum(s, n_batches=50, n_epochs=4, delta=1e-5) for s in (0.5, 0.55, 1.1)}
    assert at == pytest.approx({0.5: 49.65, 0.55: 41.0, 1.1: 7.85}, abs=0.05)


POINTS = list(
    itertools.product((0.01, 0.5, 3.0, 40.0, 900.0), (1e-4, 0.01, 1.0), (1e-3, 2.0**-30, 1e-60))
)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["laplace", "gumbel"])
@pytest.mark.parametrize("neighbouring", accounting.NEIGHBOURING)
@pytest.mark.parametrize("n, d", [(1, 1), (3, 8), (40, 40), (30, 400)])
def test_signs_attain_less_than_holds_everywhere(mechanism, neighbouring, n, d):
    where = dict(n_uploads=n, n_parameters=d, mechanism=mechanism, neighbouring=neighbouring)
    for i, (epsilon, rate, delta) in enumerate(POINTS[(n + d) % 4 :: 4]):
        rounds = (1, 12, 300)[i % 3]
        more = where | dict(sample_rate=rate, delta=min(delta, rate / 10))
        one = accounting.get_upload_budget(epsilon, **more).epsilon
        all_rounds = accounting.get_upload_budget(epsilon, n_rounds=rounds, **more).epsilon
        not_above(audit.sign_count(epsilon, **more), one)
        not_above(audit.rounds_attained(epsilon, n_rounds=rounds, **more), all_rounds)
        pure = [b.epsilon for b in accounting.get_upload_budgets(epsilon, **more) if b.delta == 0.0]
        sizes = dict(sample_rate=rate, n=n, d=d, neighbouring=neighbouring, mechanism=mechanism)
        not_above(audit.exact_top_n(epsilon, **sizes), min(pure))
        not_above(audit.sign_count(epsilon, **more | dict(delta=0.0)), min(pure))


@pytest.mark.parametrize("mechanism", ["laplace", "gumbel"])
def test_large_epsilons_attain_almost_all_that_holds(mechanism):
    """Before: a math domain error from 37 on, nan at 800."""
    for epsilon in (36.0, 37.0, 100.0, 800.0):
        sizes = dict(sample_rate=0.1, n=3, d=8, neighbouring="add_remove", mechanism=mechanism)
        pure = 3 * epsilon
        assert audit.exact_top_n(epsilon, **sizes) == pytest.approx(pure + math.log(0.1), rel=1e-6)
        signs = audit.sign_count(
            epsilon,
            sample_rate=1.0,
            n_uploads=5,
            n_parameters=5,
            neighbouring="replace_one",
            mechanism="gumbel",
            delta=0.0,
        )
        assert signs == pytest.approx(5 * epsilon)


def test_chances_of_far_apart_magnitudes():
    """Before: nan after 103 s."""
    np.testing.assert_allclose(audit.selection_probability([1e6, 0, 0]), [1, 0, 0])
    np.testing.assert_allclose(audit.selection_probability([1e6, 1e6, 0]), [0.5, 0.5, 0])
    np.testing.assert_allclose(audit.selection_probability([1e20, 1e20, 0]), [0.5, 0.5, 0])
    np.testing.assert_allclose(audit.selection_probability([1e300, 0, 0]), [1, 0, 0])
    with pytest.raises(ValueError, match=r"^magnitudes must be at most 1e300, got 1e\+308$"):
        audit.selection_probability([1e308, 0, 0])
    gap = 300.0  # by hand, as for two: e^-gap (gap / 4 + 1 / 2)
    far = audit.selection_probability([gap, 0.0])[1]
    assert far == pytest.approx(math.exp(-gap) * (gap / 4 + 0.5), rel=1e-9)


@pytest.mark.parametrize("k, n, p", [(3, 40, 0.9), (100, 3_000, 0.7), (1_430, 14_312, 0.95)])
def test_a_binomial_tail_that_scipy_gives_as_0_is_bounded_from_above(k, n, p):
    with mpmath.workdps(30):
        exact = mpmath.log(
            mpmath.fsum(
                mpmath.binomial(n, i) * mpmath.mpf(p) ** i * (1 - mpmath.mpf(p)) ** (n - i)
                for i in range(k - 60 if k > 60 else 0, k + 1)
            )
        )
    ours = audit._log_binomial_cdf(k, n, p)
    assert exact <= ours + 1e-9 and ours <= 0.99 * exact


# ---- where a table would print both


def test_a_contradiction_is_not_shown():
    assert show.between(7.8, 21.5) == {"attained": 7.8, "holds": 21.5}
    rates = np.array([1.0, 2.0])
    assert show.between(rates, rates)["holds"] is rates  # equal is no contradiction
    with pytest.raises(ValueError, match="^696.4 is attained, but 65.3 is proved to hold: one of"):
        show.between(696.4, 65.3)
    with pytest.raises(ValueError, match="^3 is attained, but 2 is proved"):
        show.between(np.array([1.0, 3.0]), np.array([5.0, 2.0]))
    for odd in ((math.nan, 1.0), (1.0, math.nan)):
        with pytest.raises(ValueError, match="nan"):
            show.between(*odd)


def test_a_frequency_may_lie_above_by_chance_only():
    show.between(0.012, 0.010, trials=20_000)
    assert stats.binom.sf(239, 20_000, 0.010) > 1e-9  # 240 hits
    with pytest.raises(ValueError, match="is attained, but 0.01 is proved to hold"):
        show.between(0.016, 0.010, trials=20_000)
    show.between(0.0, 0.0, trials=10)
    with pytest.raises(ValueError, match="trials must be a whole number >= 1, got 0"):
        show.between(0.1, 0.2, trials=0)


def test_the_ledger_refuses_more_attained_than_proved():
    page = Ledger("wang2018", notebook=None, profile="quick")
    page.record("appB.index_and_sign", 6.0, against=6.0, proven=6.0, data=FORMULA)
    with pytest.raises(ValueError, match="^appB.index_and_sign: 6.5 is attained, but 6 is proved"):
        page.record("appB.index_and_sign", 6.5, against=7.0, proven=6.0, data=FORMULA)
