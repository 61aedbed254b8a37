"""The simulated population against the paper's figures, its two routes to a sample, and how hard
the sample is."""

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from ppkit import datasets, federated
from ppkit.datasets.transactions import simulate
from ppkit.datasets.transactions.cardholders import N_DAYS
from ppkit.datasets.transactions.features import features
from ppkit.datasets.transactions.fraud import KINDS
from ppkit.datasets.transactions.merchants import world
from ppkit.datasets.transactions.population import FRAUD_ACCOUNTS, Population
from ppkit.datasets.transactions.sampling import (
    PAIRS_AT_A_TIME,
    kept_rows,
    pairs_of_accounts,
    paper_sample,
)
from ppkit.datasets.transactions.schema import CATEGORICAL, CODE_INDEX, FEATURE_NAMES

pytestmark = pytest.mark.slow

FAILURE = 1e-6


def frauds_per_account() -> float:
    """Expected number of frauds of an account that meets fraud: exact, from KINDS."""
    return sum(
        kind.share * sum((i + 1) * chance for i, chance in enumerate(kind.lengths))
        for kind in KINDS
    )


def chosen_rows(population: Population, rng: np.random.Generator) -> np.ndarray:
    """The paper's own route out of a whole population: ascending indices of the rows that its
    sample takes.

    All accounts that meet fraud and as many drawn from the others; of these all frauds and a fifth
    of the rest.
    """
    chosen = population.accounts["has_fraud"].copy()
    others = np.flatnonzero(~chosen)
    chosen[rng.choice(others, min(int(chosen.sum()), len(others)), replace=False)] = True
    keep = kept_rows(population, rng)
    return keep[chosen[population.rows["who"][keep]]]


@pytest.fixture(scope="module")
def nation():
    return simulate(50_000, np.random.default_rng(50_000))


@pytest.fixture(scope="module")
def pairs():
    return pairs_of_accounts(3_000, np.random.default_rng(6))


@pytest.fixture(scope="module")
def sample():
    return datasets.load("transactions", rows=60_000, seed=4)


# the paper's figures


def test_the_fraud_rate_of_a_population_is_the_papers(nation):
    """Binomial tail for the accounts, Bernstein for the frauds, CLT over accounts for the rate:
    each below 1e-6."""
    n = 50_000
    has_fraud = nation.accounts["has_fraud"]
    low, high = stats.binom.ppf([FAILURE / 2, 1 - FAILURE / 2], n, FRAUD_ACCOUNTS)
    assert low <= has_fraud.sum() <= high
    frauds = np.bincount(nation.rows["who"][nation.fraud], minlength=n)
    rows = np.bincount(nation.rows["who"], minlength=n)
    expected, largest = (
        n * FRAUD_ACCOUNTS * frauds_per_account(),
        max(len(kind.lengths) for kind in KINDS),
    )
    second = FRAUD_ACCOUNTS * sum(
        k.share * sum((i + 1) ** 2 * p for i, p in enumerate(k.lengths)) for k in KINDS
    )
    log_term = math.log(2 / FAILURE)
    reach = largest * log_term / 3 + math.sqrt(
        (largest * log_term / 3) ** 2 + 2 * n * second * log_term
    )
    assert abs(frauds.sum() - expected) <= reach < 0.25 * expected
    rate = frauds.sum() / rows.sum()
    deviation = math.sqrt(((frauds - rate * rows) ** 2).sum()) / rows.sum()
    assert abs(rate - 0.00136) <= stats.norm.isf(FAILURE / 2) * deviation
    # the law's own rate, known far better than one draw of it
    assert FRAUD_ACCOUNTS * frauds_per_account() / rows.mean() == pytest.approx(0.00136, rel=0.03)
    assert rows.mean() == pytest.approx(39, abs=0.9) and rows.min() >= 1


def test_an_account_meets_fraud_exactly_when_it_says_so(nation):
    victims = np.unique(nation.rows["who"][nation.fraud])
    np.testing.assert_array_equal(victims, np.flatnonzero(nation.accounts["has_fraud"]))


def test_rows_are_sorted_inside_eight_months_and_within_their_levels(nation):
    rows = nation.rows
    key = rows["who"].astype(np.int64) * 10**9 + rows["time"]
    assert (
        (np.diff(key) >= 0).all()
        and rows["time"].min() >= 0
        and rows["time"].max() < N_DAYS * 86_400
    )
    for name in set(CATEGORICAL) & set(rows):
        assert set(np.unique(rows[name])) <= set(range(len(CATEGORICAL[name]))), name
    assert rows["cents"].min() >= 50 and rows["cents"].max() <= 2_000_000


def test_the_six_kinds_of_fraud_do_what_they_say(pairs):
    rows, accounts = pairs.rows, pairs.accounts
    victims = accounts["has_fraud"].sum()
    level = FAILURE / len(KINDS)
    for index, kind in enumerate(KINDS):
        mine = np.flatnonzero(rows["kind"] == index)
        who = rows["who"][mine]
        low, high = stats.binom.ppf([level / 2, 1 - level / 2], victims, kind.share)
        assert low <= len(np.unique(who)) <= high, kind.name
        lengths = np.bincount(
            np.unique(who, return_counts=True)[1], minlength=len(kind.lengths) + 1
        )
        assert (
            lengths[np.flatnonzero(np.array((0.0, *kind.lengths)) == 0)].sum() == 0
            and len(lengths) == len(kind.lengths) + 1
        )
        first = mine[np.r_[True, np.diff(who) > 0]]
        if kind.tests:
            assert (rows["code"][first] == CODE_INDEX["digital goods"]).all()
            assert (
                np.median(rows["cents"][first])
                < 800
                < 3_000
                < np.median(np.delete(rows["cents"][mine], np.searchsorted(mine, first)))
            )
        if kind.web in (0, 1):
            assert (rows["web"][mine] == kind.web).mean() > 0.95, kind.name
        if kind.place == "near":
            km = np.hypot(
                *(
                    getattr(world(), axis)[rows["city"][mine]]
                    - getattr(world(), axis)[accounts["home"][who]]
                    for axis in ("east", "north")
                )
            )
            assert np.median(km[~rows["web"][mine]]) < 200
        if kind.changes:
            assert (
                rows["time"][first] / 86_400
                >= accounts["contact_changes_again"][rows["who"][first]] - 1e-6
            ).all()
    assert set(np.unique(rows["kind"])) == {-1, *range(len(KINDS))} and sum(
        k.share for k in KINDS
    ) == pytest.approx(1)


def test_the_message_fits_the_purchase(pairs):
    rows = pairs.rows
    level = {name: np.array(CATEGORICAL[name])[rows[name]] for name in set(CATEGORICAL) & set(rows)}
    present = ~rows["web"]
    assert ((level["card_present"] == "yes") == present).all()
    assert (np.isin(level["channel"], ["counter", "unattended"]) == present).all()
    assert (np.isin(level["entry_mode"], ["swipe", "chip", "contactless"]) <= present).all()
    online = level["channel"] == "online"
    for name in ("security_level", "ip_country", "device"):
        assert ((level[name] != "not online") == online).all(), name
    assert (
        present[level["cashback"] == "yes"].all()
        and ((rows["cashback_amount"] > 0) == (level["cashback"] == "yes")).all()
    )
    assert ((level["channel"] == "recurring") == rows["repeating"]).all()
    assert ((rows["pin_tries"] > 0) == (level["verification"] == "pin")).all()
    abroad = world().country[rows["city"]] > 0
    assert ((level["currency"] != "usd") == abroad).all()
    np.testing.assert_allclose(
        rows["local_amount"][~abroad], rows["cents"][~abroad] / 100, rtol=1e-6
    )
    # the thief's device is new more often than the customer's: both happen, neither always
    new = level["device"] == "new"
    theirs, own = (new[online & mask].mean() for mask in (pairs.fraud, ~pairs.fraud))
    assert 0.1 < own < 0.4 < theirs < 0.8


# two routes to the same sample


def account_statistics(people, keep, rng):
    """One line per account with a kept row, independent over accounts: counts, and one of its kept
    rows at random."""
    X, who = features(people, keep), people.rows["who"][keep]
    accounts, first, count = np.unique(who, return_index=True, return_counts=True)
    one = first + (rng.random(len(accounts)) * count).astype(np.int64)
    frauds = np.add.reduceat(people.fraud[keep].astype(int), first)
    named = {
        name: X[one, FEATURE_NAMES.index(name)]
        for name in (
            "amount",
            "distance_home_km",
            "time_since_last",
            "count_24h",
            "sum_7d",
            "merchant_visits",
            "amount_score",
            "card_present=no",
            "account_age_days",
            "hour_band=0-3",
        )
    }
    return people.accounts["has_fraud"][accounts], {"rows": count, "frauds": frauds, **named}


def test_conditioning_on_the_class_gives_the_papers_sample(nation, pairs):
    """Two-sample Dvoretzky-Kiefer-Wolfowitz: two one-sample bands each, all bands together fail
    below 1e-6."""
    rng = np.random.default_rng(12)
    class_a, by_choice = account_statistics(nation, chosen_rows(nation, rng), rng)
    class_b, by_law = account_statistics(pairs, kept_rows(pairs, rng), rng)
    each = FAILURE / (len(by_law) * 2 * 2)
    for fraud in (False, True):
        a, b = class_a == fraud, class_b == fraud
        reach = sum(math.sqrt(math.log(2 / each) / (2 * mask.sum())) for mask in (a, b))
        assert reach < 0.17  # strong enough to see a habit that moves
        for name in by_law:
            gap = stats.ks_2samp(by_choice[name][a], by_law[name][b]).statistic
            assert gap < reach, (name, fraud)
    gap = stats.ks_2samp(by_law["frauds"][class_b], by_law["frauds"][~class_b]).statistic
    assert gap == 1  # and it does tell the two classes apart


# the sample


def test_the_sample_has_the_papers_rates(sample):
    assert sample.source == f"simulated: {sample.n_rows:,} rows" and sample.X.shape[1] == 264
    assert sample.y.mean() == pytest.approx(0.14, abs=0.01)
    per_account = np.bincount(np.unique(sample.account, return_inverse=True)[1], weights=sample.y)
    assert (per_account > 0).mean() == pytest.approx(0.5, abs=0.02)
    assert len(np.unique(sample.category)) == 10


@pytest.mark.parametrize("rows", [100, 777, 9_000, 20_000])
def test_the_number_of_rows_is_what_was_asked_for_within_a_pair_of_accounts_or_one_percent(rows):
    taken = paper_sample(rows, np.random.default_rng(1))
    pair = np.bincount(taken["account"] // 2).max()
    assert abs(len(taken["y"]) - rows) <= max(0.01 * rows, pair)
    assert (np.diff(taken["account"]) >= 0).all()
    with pytest.raises(ValueError, match="rows must be >= 100 for transactions, got 99"):
        paper_sample(99, np.random.default_rng(1))


def test_the_sample_is_all_frauds_and_some_of_the_rest_with_features_of_the_whole_account():
    taken = paper_sample(3_000, np.random.default_rng(9))
    rng = np.random.default_rng(9)
    people = pairs_of_accounts(PAIRS_AT_A_TIME, rng)
    keep = kept_rows(people, rng)[: len(taken["y"])]
    whole = people.rows["who"] < taken["account"].max() + 1
    np.testing.assert_array_equal(taken["X"], features(people, keep))
    np.testing.assert_array_equal(taken["y"], people.fraud[keep])
    assert people.fraud[whole].sum() == taken["y"].sum()
    np.testing.assert_array_equal(taken["category"], world().group[people.rows["code"][keep]])


def test_seeds_decide_and_fewer_rows_are_the_first_of_more():
    many, few, other = (
        datasets.load("transactions", rows=rows, seed=seed)
        for rows, seed in ((12_000, 3), (2_000, 3), (2_000, 4))
    )
    np.testing.assert_array_equal(many.X[: few.n_rows], few.X)
    np.testing.assert_array_equal(many.account[: few.n_rows], few.account)
    assert other.X.shape != few.X.shape or (other.X != few.X).any()


# how hard it is


def test_difficulty_comes_from_overlap(sample):
    parts = federated.split(sample, n_participants=1)
    train, test = parts.participants[0], parts.test
    y = sample.y[test]
    trees = HistGradientBoostingClassifier(max_iter=50, learning_rate=0.2, random_state=0).fit(
        sample.X[train], sample.y[train]
    )
    assert 0.93 <= roc_auc_score(y, trees.predict_proba(sample.X[test])[:, 1]) <= 0.985
    scaled = datasets.standardise(sample, train)
    line = LogisticRegression(C=0.01, max_iter=60, tol=1e-2).fit(scaled[train], sample.y[train])
    assert 0.85 <= roc_auc_score(y, line.decision_function(scaled[test])) <= 0.95
    positive, rank = sample.y[::3] == 1, stats.rankdata(sample.X[::3], axis=0)
    n = positive.sum()
    single = (rank[positive].sum(axis=0) - n * (n + 1) / 2) / (n * (len(rank) - n))
    assert 0.6 < np.maximum(single, 1 - single).max() < 0.85
