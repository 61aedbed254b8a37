"""How a stand-in is measured: a copy, a good and a bad sampler get what they deserve, and the cards
say what was measured."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from ppkit import project
from ppkit.datasets import creditcard, standins
from tools.standins import card, fidelity, fitting
from tools.standins.__main__ import main
from tools.standins.fidelity import Stand, Task

TASK = Task("fraud", ("logistic regression",), 0.02)


@pytest.fixture(scope="module")
def table():
    """Invented rows: V1 to V3 tell fraud, time runs, the amount rises over it."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(1_500, 30)), columns=list(creditcard.FEATURES))
    rows["Class"] = (rng.random(1_500) < 0.2).astype(int)
    rows[["V1", "V2", "V3"]] += 1.2 * rows[["Class"]].to_numpy()
    rows["Time"] = np.arange(1_500) * 100.0
    rows["Amount"] = 10 + rows["Time"] / 1_000
    return rows


def keep(table, rng):
    return {"rows": table[list(creditcard.COLUMNS)].to_numpy()}


def copies(parameters, rows, rng):
    """The worst stand-in for privacy: rows of customers, drawn again."""
    held = parameters["rows"]
    return pd.DataFrame(held[rng.integers(len(held), size=rows)], columns=list(creditcard.COLUMNS))


def shuffled(parameters, rows, rng):
    """The worst stand-in for learning: labels without their rows."""
    drawn = copies(parameters, rows, rng)
    return drawn.assign(Class=rng.permutation(drawn["Class"].to_numpy()))


def blurred(parameters, rows, rng):
    drawn = copies(parameters, rows, rng)
    features = drawn[list(creditcard.FEATURES)] + rng.normal(0, 0.4, (rows, 30))
    return features.assign(
        Time=features["Time"].abs(), Amount=features["Amount"].abs(), Class=drawn["Class"]
    )


@pytest.mark.slow
def test_a_copy_loses_nothing_and_a_shuffle_everything(table):
    [good] = fidelity.losses(Stand(keep, copies, creditcard.arranged, (TASK,)), table, splits=4)
    [bad] = fidelity.losses(Stand(keep, shuffled, creditcard.arranged, (TASK,)), table, splits=4)
    assert good["real"] == bad["real"] > 0.9 and abs(good["loss"]) < 0.02
    assert abs(bad["standin"] - 0.5) < 0.15 and bad["loss"] > 0.3
    assert good["itself"] > 0.9 and abs(bad["itself"] - 0.5) < 0.15
    assert bad["lower"] < bad["loss"] < bad["upper"]
    again = fidelity.losses(Stand(keep, copies, creditcard.arranged, (TASK,)), table, splits=4)
    assert again == [good]


@pytest.mark.slow
def test_no_row_that_is_tested_on_was_fitted_to(table, monkeypatch):
    """The stand-in sees the training part only, and held-back rows are those it did not see."""
    seen, tested, near = [], [], []

    def spied(rows, rng):
        seen.append(set(rows["Time"]))
        return keep(rows, rng)

    def scored(model, given, tests, columns, seed):
        tested.append((set(given.time), set(tests[0].time), given.kind))
        assert [test.kind for test in tests] == ["real", "stand-in"][: len(tests)]
        return [0.5] * len(tests)

    monkeypatch.setattr(fidelity, "_scores_of", scored)
    stand, everything = Stand(spied, copies, creditcard.arranged, (TASK,)), set(table["Time"])
    fidelity.losses(stand, table, splits=3)
    assert len(seen) == 3 and len(tested) == 6
    for fitted, (real, ours) in zip(seen, zip(tested[::2], tested[1::2], strict=True), strict=True):
        assert (real[2], ours[2]) == ("real", "stand-in") and real[1] == ours[1]
        assert real[0] == fitted and fitted.isdisjoint(real[1]) and fitted | real[1] == everything
        assert ours[0] <= fitted
    seen.clear()
    whole = fidelity._nearest
    monkeypatch.setattr(
        fidelity,
        "_nearest",
        lambda rows, fitted_on, *rest: (
            near.append((set(rows["Time"]), set(fitted_on["Time"])))
            or whole(rows, fitted_on, *rest)
        ),
    )
    fidelity.distances(
        stand,
        table,
        by="rows",
        columns=creditcard.FEATURES[1:],
        among={"all": lambda rows: rows["Class"] >= 0},
        splits=2,
    )
    for fitted, (drawn, held) in zip(seen, zip(near[::2], near[1::2], strict=True), strict=True):
        assert (
            drawn[1] == held[1] == fitted
            and held[0].isdisjoint(fitted)
            and held[0] | fitted == everything
        )


def test_a_stand_in_without_positives_is_refused(table):
    none = keep(table[table["Class"] == 0], None)
    real = creditcard.arranged(table, kind="real", of_rows=1_500)
    stand = Stand(keep, copies, creditcard.arranged, (TASK,))
    with pytest.raises(
        ValueError,
        match="the stand-in of creditcard gives 0 rows of a label in .* rows, too few to train on",
    ):
        fidelity._as_many(stand, none, real, "", np.random.default_rng(1))


def test_the_limit_is_student_s_of_the_paired_differences():
    pairs = np.array([[0.9, 0.88, 1], [0.8, 0.79, 1], [0.85, 0.86, 1], [0.95, 0.9, 1]])
    row = fidelity._summed_up(TASK, "logistic regression", pairs)
    lost = pairs[:, 0] - pairs[:, 1]
    low, high = stats.t.interval(
        0.9, 3, loc=lost.mean(), scale=lost.std(ddof=1) * np.sqrt(1 / 4 + 0.3 / 0.7)
    )
    assert (row["lower"], row["upper"]) == (pytest.approx(low), pytest.approx(high))
    assert row["loss"] == pytest.approx(0.0175) and row["itself"] == 1


def test_as_many_rows_of_each_label_train_either_side(table):
    stand = Stand(keep, copies, creditcard.arranged, (TASK,))
    rare = keep(
        table[(table["Class"] == 0) | (np.arange(1_500) % 20 == 0)], None
    )  # far fewer frauds to draw from
    real = creditcard.arranged(table, kind="real", of_rows=1_500)
    ours = fidelity._as_many(stand, rare, real, "", np.random.default_rng(1))
    assert ours.kind == "stand-in" and np.bincount(ours.y).tolist() == np.bincount(real.y).tolist()


@pytest.mark.slow
def test_a_copy_of_customers_is_found_out_by_its_distances_and_a_blur_is_not(table):
    near = creditcard.FEATURES[1:-1]
    rows = {}
    for sampler in (copies, blurred):
        stand = Stand(keep, sampler, creditcard.arranged, (TASK,))
        rows[sampler] = fidelity.distances(
            stand,
            table,
            by="rows",
            columns=near,
            splits=2,
            among={
                "all": lambda rows: rows["Class"] >= 0,
                "frauds": lambda rows: rows["Class"] == 1,
            },
        )
        assert [row["quantile"] for row in rows[sampler]] == 2 * [0.01, 0.05, 0.25, 0.5]
        assert [row["among"] for row in rows[sampler]] == 4 * ["all"] + 4 * ["frauds"]
        assert all(0 < row["limit"] <= row["held_back"] for row in rows[sampler])
    assert all(row["sampled"] < 1e-6 for row in rows[copies])
    said = fitting.missed({"losses": [], "distances": rows[copies]})
    assert (
        len(said) == 8
        and "frauds: 1% of the sampled ones are within 0.000 of a fitting row" in said[4]
    )
    median = rows[blurred][3]
    assert 0.2 * median["held_back"] < median["sampled"] < 2 * median["held_back"]


def test_marginals_and_drift_see_what_was_moved(table):
    moved = table.assign(V7=table["V7"] + 1.0, V9=table["V8"])
    same, other = fidelity.marginals(table, table), fidelity.marginals(table, moved)
    assert same["ks_largest"] == 0 and same["correlation_largest"] == 0
    assert other["ks_column"] == "V7" and other["ks_largest"] == pytest.approx(
        stats.ks_2samp(table["V7"], moved["V7"]).statistic
    )
    assert other["correlation_largest"] > 0.9
    backwards = table.assign(Amount=table["Amount"].to_numpy()[::-1])
    doubled = table.assign(Amount=2 * table["Amount"])
    for drawn, turned in ((table, 1), (backwards, -1), (doubled, 1)):
        [row] = fidelity.drift("Time", {"Amount": "amount"}, table, drawn)
        np.testing.assert_allclose(row["standin"], row["real"][::turned], rtol=0.01)
        assert len(row["real"]) == 8 and np.mean(row["real"]) == pytest.approx(1, abs=0.01)


def test_a_bar_is_missed_by_its_upper_limit_not_by_its_mean():
    row = {"task": "t", "model": "m", "loss": 0.01, "upper": 0.03, "bar": 0.02}
    assert fitting.missed({"losses": [row], "distances": []}) == [
        "t, m: loses up to 0.030, at most 0.02 wanted"
    ]
    assert fitting.missed({"losses": [row | {"upper": 0.02}], "distances": []}) == []


# what is shipped


@pytest.mark.parametrize("name", fitting.PLANS)
def test_what_is_shipped_meets_the_bars_and_the_card_says_what_was_measured(name):
    about = standins.measured(name)
    assert about["splits"] == 20 and fitting.missed(about) == []
    assert {(row["task"], row["model"]) for row in about["losses"]} == {
        (task.about, model) for task in fitting.PLANS[name].tasks for model in task.models
    }
    page, block = (
        (project.root() / "data" / "cards" / f"{name}.md").read_text("utf-8"),
        card.fidelity(about),
    )
    assert project.with_block(page, "fidelity", block) == page and block in page


def test_a_fit_that_cannot_be_written_whole_leaves_the_old_one(tmp_path, monkeypatch):
    old = {tmp_path / name: name.encode() for name in ("a.npz", "a.json", "a.md")}
    for path, content in old.items():
        path.write_bytes(content)
    new = dict(zip(old, (b"1", b"2", None), strict=True))  # the third cannot be written
    with pytest.raises(TypeError):
        fitting._all_or_none(new)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == old
    fitting._all_or_none(dict.fromkeys(old, b"new"))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == dict.fromkeys(old, b"new")


def test_a_misspelt_name_is_refused_before_anything_is_fitted(capsys, monkeypatch):
    monkeypatch.setattr(fitting, "fit", lambda *_, **__: pytest.fail("something was fitted"))
    assert main(["creditcard", "cards"]) == 2
    assert capsys.readouterr() == (
        "",
        "fit-standins: cards has no stand-in to fit, "
        "expected one of creditcard, distress, lending\n",
    )


def test_every_stand_in_is_fitted_and_one_below_its_bar_gives_exit_code_1(capsys, monkeypatch):
    row = {"task": "t", "model": "m", "upper": 0.03, "bar": 0.02}
    about = {"bytes": 1_000, "fitted_on": "50 of 100 real rows", "losses": [row], "distances": []}
    monkeypatch.setattr(
        fitting, "fit", lambda name, splits: about | {"losses": [row] if name == "lending" else []}
    )
    assert main(["distress"]) == 0 and main([]) == 1
    said, below = capsys.readouterr()
    assert said.splitlines() == [
        f"{name}: 1,000 bytes from 50 of 100 real rows, data/cards/{name}.md renewed"
        for name in ("distress", "creditcard", "distress", "lending")
    ]
    assert below == "lending, t, m: loses up to 0.030, at most 0.02 wanted\n"


def test_fitting_is_refused_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("PPKIT_DATA", str(tmp_path))
    with pytest.raises(
        ValueError,
        match="transactions has no stand-in to fit, expected one of creditcard, distress, lending",
    ):
        fitting.fit("transactions")
    with pytest.raises(ValueError, match="splits must be >= 2, got 1"):
        fitting.fit("creditcard", splits=1)
