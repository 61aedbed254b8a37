"""creditcard: rows that are not what they say are refused, honest parts of the file are not."""

import os

import numpy as np
import pandas as pd
import pytest

from ppkit import project
from ppkit.datasets import creditcard, loading
from ppkit.datasets.creditcard import FEATURES, FULL_FRAUDS, FULL_ROWS, checked_table
from ppkit.datasets.files import read_table

COMPONENTS = list(FEATURES[1:29])
WIDTHS = np.geomspace(2.0, 0.3, 28)  # of the components, in falling order as in the file
PLAIN_FRAUDS = 285  # of the 492 have V14 < -2, at least: so many were counted


def invented(n_rows, n_frauds, seed=0):
    """Rows in the layout of the real file; a fraud's V14 is low."""
    rng = np.random.default_rng(seed)
    made = pd.DataFrame(rng.normal(size=(n_rows, 30)), columns=FEATURES)
    made[COMPONENTS] *= WIDTHS
    made["Time"] = np.sort(rng.integers(0, 172_801, n_rows))
    made["Amount"] = np.round(rng.gamma(1, 80, n_rows), 2)
    made["Class"] = np.isin(np.arange(n_rows), rng.permutation(n_rows)[:n_frauds]).astype(int)
    return made.assign(V14=made["V14"] - 6 * made["Class"])


def permuted(table):
    return table.assign(Class=np.random.default_rng(1).permutation(table["Class"]))


def oversampled(table):
    return table.groupby("Class").sample(40_000, replace=True, random_state=1)


def inverted(table):
    return table.assign(Class=1 - table["Class"])


NO_FRAUD = r"column 'Class' counts no fraud in \d+,\d+ rows, expected about \d+$"
SCALED = ": these rows were scaled, put the file there as it was published$"
FOREIGN = (
    r"column 'Class' does not belong to these rows: \d+ of \d+ frauds have V14 below -2, "
    "expected at least a quarter$"
)
ALTERED = {
    "oversampled": (
        oversampled,
        "40,000 frauds in 80,000 rows, expected at most the 492 of the published file$",
    ),
    "inverted": (inverted, r"\d+,\d+ frauds in .*, expected at most the 492"),
    "inverted, as many of both": (lambda t: inverted(t.groupby("Class").head(300)), FOREIGN),
    "permuted": (permuted, FOREIGN),
    "one row": (
        lambda t: pd.concat([t[:1]] * 3_000),
        "2,999 of 3,000 rows repeat an earlier row exactly, expected at most 150: ",
    ),
    "one row, some others": (
        lambda t: pd.concat([t[:30_000], *[t[:1]] * 1_082]),
        "1,082 of 31,082 rows repeat an earlier .*, expected at most 1,081: ",
    ),
    "no fraud": (lambda t: t[t["Class"] == 0], NO_FRAUD),
    "labels wiped": (lambda t: t.assign(Class=0), NO_FRAUD),
}
INPUTS = [*COMPONENTS, "Amount", "Time"]


def changed(columns, change):
    """The table with these columns changed together."""
    return lambda table: table.assign(**change(table[list(columns)].astype(float)))


def minmax(part):
    return (part - part.min()) / (part.max() - part.min())


def standardised(part):
    return (part - part.mean()) / part.std(ddof=0)


def robust(part):
    return (part - part.median()) / (part.quantile(0.75) - part.quantile(0.25))


def of_largest(part):
    return part / part.abs().max()


SECOND = pd.Timedelta(1, "s")
SECONDS = r"column 'Time' must hold whole numbers, got \S+ in row"
CENTS = r"column 'Amount' must hold amounts with two decimals, got \S+ in row"
NARROW = "column 'V28' spreads like V1, expected components in falling order" + SCALED
RANGE = "column 'Time' must be between 0 and 172,800, got -"
ALTERED |= {
    "all, min-max": (changed(INPUTS, minmax), SECONDS),
    "all, by the largest": (changed(INPUTS, of_largest), SECONDS),
    "all, standardised": (changed(INPUTS, standardised), RANGE),
    "all, robust": (changed(INPUTS, robust), RANGE),
    "time, as dates": (
        changed(["Time"], lambda part: part.map(lambda t: pd.Timestamp("2013-09-01") + t * SECOND)),
        "column 'Time' must hold numbers, got '2013-09-0",
    ),
    "amount, min-max": (changed(["Amount"], minmax), CENTS),
    "amount, log": (changed(["Amount"], np.log1p), CENTS),
    "components, min-max": (changed(COMPONENTS, minmax), NARROW),
    "components, by the largest": (changed(COMPONENTS, of_largest), NARROW),
    "components, standardised": (changed(COMPONENTS, standardised), NARROW),
    "components, robust": (changed(COMPONENTS, robust), NARROW),
}
HONEST = {
    "as it is": lambda t: t,
    "another order": lambda t: t.sample(frac=1, random_state=2),
    "all frauds, as many others": lambda t: t.groupby("Class").head(329),
    "few genuine rows": lambda t: t[t["Class"] == 0][:7_999],
    "frauds only": lambda t: t[t["Class"] == 1],
    "some repeats": lambda t: pd.concat([t, t[:1_081]]),
    "early": lambda t: t[t["Time"] < 50_000],
    "late": lambda t: t[t["Time"] > 120_000],
    "too few frauds to judge": lambda t: permuted(t[:2_000]),
    **{
        f"{n:,} at random, {seed}": lambda t, n=n, seed=seed: t.sample(n, random_state=seed)
        for n in (100, 1_000, 5_000, 20_000)
        for seed in range(3)
    },
}


@pytest.fixture(scope="module")
def many():
    return invented(44_000, 329)


@pytest.mark.parametrize("change, sentence", ALTERED.values(), ids=ALTERED.keys())
def test_altered_rows_are_refused_in_one_sentence(change, sentence, many):
    with pytest.raises(ValueError, match=f"^x.csv: {sentence}") as caught:
        checked_table(change(many), "x.csv")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("choose", HONEST.values(), ids=HONEST.keys())
def test_a_part_of_honest_rows_is_taken(choose, many):
    chosen = choose(many)
    assert len(checked_table(chosen, "x.csv").table) == len(chosen) > 0


def test_an_honest_random_part_is_refused_with_a_chance_below_one_in_a_million():
    def divergence(a, p):
        return a * np.log(a / p) + (1 - a) * np.log((1 - a) / (1 - p))

    assert np.exp(-64 * divergence(1 / 4, PLAIN_FRAUDS / FULL_FRAUDS)) < 1e-6  # Hoeffding's bound
    assert (1 - FULL_FRAUDS / FULL_ROWS) ** 8_000 < 1e-6
    assert np.exp(-200 * divergence(1 / 20, creditcard.FULL_REPEATS / FULL_ROWS)) < 1e-7
    with pytest.raises(ValueError, match="Class"):  # and these are where they begin
        checked_table(invented(8_000, 0), "x.csv")
    judged, unjudged = invented(4_000, 64), invented(4_000, 63)
    checked_table(judged, "x.csv"), checked_table(permuted(unjudged), "x.csv")
    with pytest.raises(ValueError, match="Class"):
        checked_table(permuted(judged), "x.csv")
    few = invented(199, 0)
    checked_table(pd.concat([few[:100], few[:99]]), "x.csv")
    with pytest.raises(ValueError, match="100 of 200 rows repeat .*, expected at most 10: "):
        checked_table(pd.concat([few[:100], few[:100]]), "x.csv")


@pytest.mark.skipif(
    not os.environ.get("PPKIT_REAL_DATA"), reason="PPKIT_REAL_DATA names no folder of real rows"
)
def test_of_the_real_development_rows_honest_parts_pass_and_altered_ones_do_not():
    file = loading.real_file("creditcard", project.root() / os.environ["PPKIT_REAL_DATA"])
    real = checked_table(read_table(file, 10**8)[0], file.path.name).table
    assert (real.loc[real["Class"] == 1, "V14"] < -2).sum() == PLAIN_FRAUDS
    for name, choose in HONEST.items():
        assert len(checked_table(choose(real), name).table) > 0
    for name, (change, sentence) in ALTERED.items():
        with pytest.raises(ValueError, match=f"^{name}: {sentence}"):
            checked_table(change(real), name)


def test_the_first_night_is_thinned_in_a_subset_and_left_alone_in_the_full_file():
    rng = np.random.default_rng(8)
    time = np.r_[
        rng.uniform(0, 12_000, 5_000),
        rng.uniform(12_000, 86_400, 4_000),
        rng.uniform(86_400, 98_400, 400),
        rng.uniform(98_400, 172_800, 2_000),
    ]
    y, chance = (np.arange(len(time)) < 100).astype(np.int8), rng.random(len(time))
    kept = creditcard.typical(time, y, chance)
    assert kept[y == 1].all() and kept[time >= 12_000].all()  # frauds are never thinned
    # binomial of 4,900 at .163: 800 is its mean, 26 its spread, and 200 off has chance below 1e-13
    assert abs(int((kept & (time < 12_000) & (y == 0)).sum()) - 800) < 200
    np.testing.assert_array_equal(kept[:5_000][y[:5_000] == 0], chance[100:5_000] < 800 / 4_900)
    full = np.zeros(284_807)
    assert creditcard.typical(full, full, full + 0.99).all()
