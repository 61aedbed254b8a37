"""How a stand-in is measured: the same rows meet every bar, torn ones miss those they should, and a
row that counts twice is a row that stands twice."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression
from sklearn.metrics import average_precision_score, r2_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ppkit import datasets
from ppkit.collaboration import losses, optimum, owners, preparation
from ppkit.datasets import creditcard, lending, train_test
from ppkit.datasets.dataset import subset
from tools.standins import fidelity
from tools.standins.fidelity import Halves


def cards(seed: int, n: int = 2_000):
    """Invented cards: a tenth frauds, far off in V1 to V3; a straight line in V gives the amount;
    extremes come together."""
    rng = np.random.default_rng(seed)
    y = (np.arange(n) % 10 == 0).astype(int)
    V = rng.normal(size=(n, 28)) * np.sqrt(5 / rng.chisquare(5, n))[:, None]
    V[:, 4] = V[:, 5] + 0.3 * V[:, 4]
    V[:, :3] += 2.0 * y[:, None]
    amount = np.round(np.maximum(100 + 20 * V[:, 6] - 30 * V[:, 7] + rng.normal(size=n), 0), 2)
    amount[y == 1] = np.where(rng.random(int(y.sum())) < 0.3, 1.0, amount[y == 1])
    rows = np.column_stack([np.arange(n) * 80.0, V, amount, y])
    return creditcard.arranged(
        pd.DataFrame(rows, columns=list(creditcard.COLUMNS)), kind="real", of_rows=n
    )


@pytest.fixture(scope="module")
def halves():
    return Halves(cards(1), cards(2))


def shuffled(dataset, seed):
    """The rows in another order."""
    return subset(dataset, np.random.default_rng(seed).permutation(dataset.n_rows))


def torn(dataset, seed):
    """Each column in an order of its own within its class."""
    rng, X = np.random.default_rng(seed), dataset.X.copy()
    for label in (0, 1):
        own = np.flatnonzero(dataset.y == label)
        for column in range(X.shape[1]):
            X[own, column] = X[rng.permutation(own), column]
    table = pd.DataFrame(np.column_stack([X, dataset.y]), columns=list(creditcard.COLUMNS))
    return creditcard.arranged(table, kind="stand-in", of_rows=None)


# the table


@pytest.mark.slow
def test_the_same_rows_meet_every_bar_and_torn_ones_miss_what_columns_have_in_common(
    halves, monkeypatch
):
    monkeypatch.setattr(fidelity, "TIMES", 1)

    def drawn(change):
        return lambda seed: Halves(*(change(part, seed) for part in halves))

    same, other = (
        fidelity.compared(halves, drawn(change), fidelity.cards) for change in (shuffled, torn)
    )
    # boosting and the solvers see sums in another order, which moves no measure by half its bar
    assert all(row["met"] and abs(row["gap"]) <= row["number"] / 2 for row in same)
    missed = {row["measure"] for row in other if not row["met"]}
    assert {
        "R² of Amount",
        "amount above median, logistic: AUC",
        "amount above median, boosted: AUC",
        "l2 norm, 99%",
    } <= missed
    [worst] = [row for row in other if row["measure"].endswith("from the rest")]
    assert worst["measure"] in ("R² of V5 from the rest", "R² of V6 from the rest")
    assert not worst["met"] and worst["real"] > 0.8 and abs(worst["standin"]) < 0.1
    # what is of one column each stays as it is
    kept = {row["measure"]: row for row in other}
    for name in ("trimmed kurtosis, median", "frauds of exactly 1.00"):
        assert kept[name]["gap"] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("deviation", "found", "allowed", "met"),
    [(0.001, 0.909, 0.01, True), (0.001, 0.911, 0.01, False), (0.03, 0.85, 0.06, True)],
)
def test_allowed_is_the_larger_of_the_bar_and_two_deviations(deviation, found, allowed, met):
    row = fidelity._row("fraud, boosted: AUC", 0.9, deviation, found)
    assert row["allowed"] == pytest.approx(allowed) and row["met"] is met
    assert row["number"] == 0.01 and row["gap"] == pytest.approx(found - 0.9)


def test_every_measure_has_the_bar_of_the_issue():
    bars = {
        "fraud, boosted: average precision": 0.05,
        "fraud, boosted: average precision" + fidelity.TRANSFER: 0.03,
        "fraud, logistic: AUC" + fidelity.TRANSFER: 0.01,
        "best model of wu2020 at clip 40: average precision": 0.08,
        "amount above median, logistic: AUC": 0.02,
        "R² of Amount": 0.1,
        "R² of V7 from the rest": 0.15,
        "l1 norm, 90%": 2.0,
        "trimmed kurtosis, median": 5.0,
        "frauds of exactly 1.00": 0.05,
        "R² of the rate before the price is set": 0.05,
        "psi of the mean rate": 2.0,
    }
    for name, bar in bars.items():
        assert fidelity._row(name, 20.0, 0.0, 0.0)["number"] == pytest.approx(bar), name


@pytest.mark.slow
def test_a_row_that_counts_twice_is_a_row_that_stands_twice(halves):
    """What the bootstrap rests on, for all measures of the cards."""
    judged = fidelity.cards(subset(halves.train, np.arange(800)))
    few = subset(halves.test, np.arange(600))
    counts = next(fidelity._bootstrap(few, np.random.default_rng(3)))
    assert counts.sum() == 600 and counts[few.y == 1].sum() == few.y.sum() and counts.max() > 2
    repeated = subset(few, np.repeat(np.arange(600), counts))
    again = judged(repeated)
    for name, measure in judged(few).items():
        value = measure(counts * fidelity.row_weights(few))
        twice = again[name](fidelity.row_weights(repeated))
        assert value == pytest.approx(twice, rel=1e-9, abs=1e-9), name


@pytest.mark.slow
def test_the_measures_of_cards_are_what_plain_functions_give(halves):
    measures = fidelity.cards(halves.train)(halves.test)
    X, Z = (half.X[:, 1:].astype(np.float64) for half in halves)
    w, v = (fidelity.row_weights(half) for half in halves)
    found = {name: measure(v) for name, measure in measures.items()}
    rate = creditcard.FULL_FRAUDS / creditcard.FULL_ROWS
    assert v[halves.test.y == 1].sum() / v.sum() == pytest.approx(rate)
    others = np.delete(np.arange(29), 4)
    line = LinearRegression().fit(X[:, others], X[:, 4], w)
    assert found["R² of V5 from the rest"] == pytest.approx(
        r2_score(Z[:, 4], line.predict(Z[:, others]), sample_weight=v)
    )
    for name, make in fidelity.LEARNERS.items():
        score = make().fit(X, halves.train.y).predict_proba(Z)[:, 1]
        assert found[f"fraud, {name}: AUC"] == pytest.approx(roc_auc_score(halves.test.y, score))
        assert found[f"fraud, {name}: average precision"] == pytest.approx(
            average_precision_score(halves.test.y, score, sample_weight=v)
        )
    ones = (halves.test.X[halves.test.y == 1, -1] == 1).mean()
    assert found["frauds of exactly 1.00"] == pytest.approx(ones) and 0.1 < ones < 0.5
    values = np.sort(Z[:, 0])
    assert fidelity.kurtosis(values, np.ones(2_000)) == pytest.approx(stats.kurtosis(values[2:-2]))


def test_as_many_sampled_rows_of_each_class_as_the_real_parts_have(halves):
    small = Halves(subset(halves.train, np.arange(300)), subset(halves.test, np.arange(500, 700)))
    ours = fidelity.like(small, cards(3), 0)
    for got, like in zip(ours, small, strict=True):
        assert np.bincount(got.y).tolist() == np.bincount(like.y).tolist()
    assert not set(ours.train.time) & set(ours.test.time)


def halved(dataset, by):
    return fidelity._halves(dataset, *train_test(dataset, by=by))


@pytest.mark.slow
def test_companies_are_ranked_by_plain_scores():
    firms = datasets.load("distress", source="standin", variant="forecast", rows=1_500)
    halves = halved(firms, "account")
    measures = fidelity.companies(halves.train)(halves.test)
    weights = fidelity.row_weights(halves.test)
    for name, make in fidelity.OF_COMPANIES.items():
        score = make().fit(halves.train.X, halves.train.y).predict_proba(halves.test.X)[:, 1]
        auc = measures[f"distress, {name}: AUC"](weights)
        assert auc == pytest.approx(roc_auc_score(halves.test.y, score))


def test_of_loans_r_squared_with_and_without_the_price_and_psi_of_the_mean_rate():
    halves = halved(datasets.load("lending", source="standin", rows=3_000), "rows")
    measures = fidelity.loans(halves.train)(halves.test)
    found = {name: measure(np.ones(halves.test.n_rows)) for name, measure in measures.items()}
    for about, names in (
        ("", lending.FEATURES),
        (" before the price is set", lending.BEFORE_THE_PRICE),
    ):
        own = [lending.FEATURES.index(name) for name in names]
        line = make_pipeline(StandardScaler(), LinearRegression())
        line.fit(halves.train.X[:, own], halves.train.y)
        assert found[f"R² of the rate{about}"] == pytest.approx(
            r2_score(halves.test.y, line.predict(halves.test.X[:, own])), abs=1e-4
        )
    paid = preparation.lending(halves.test, n_public=halves.test.n_rows // 5, level="public")
    bank = owners.blocks(paid.X, paid.y, (len(paid.y),))
    loss = losses.squared()
    best = optimum.optimum(bank, loss=loss, bounds=paid.bounds)
    nothing = loss.value(np.zeros(paid.X.shape[1]), bank)
    assert found["psi of the mean rate"] == pytest.approx(nothing / best.value - 1, rel=1e-3)
