"""distress: three variants, and bad files refused in one sentence."""

import os

import numpy as np
import pandas as pd
import pytest
from invented_companies import follows, invented

from ppkit import project
from ppkit.datasets import distress
from ppkit.datasets.distress import COLUMNS, TARGET, arranged, checked_table
from ppkit.datasets.files import find, read_table


@pytest.fixture(scope="module")
def table():
    return checked_table(invented(), "invented.csv").table


# the reader and its variants


def test_the_three_variants_have_the_promised_inputs(table):
    widths = {"paper": (555, 473), "no_lag": (132, 51), "forecast": (133, 51)}
    for variant, (width, coded) in widths.items():
        data = arranged(table, kind="real", of_rows=distress.FULL_ROWS, variant=variant)
        assert (
            data.X.shape == (len(table), width)
            and data.X.dtype == np.float32
            and len(set(data.feature_names)) == width
        )
        assert (~data.numeric).sum() == coded and not data.numeric[:coded].any()
        np.testing.assert_array_equal(data.X[:, :coded].sum(axis=1), 3 if variant == "paper" else 2)
        assert ("x81" in data.feature_names) == (
            variant != "no_lag"
        ) and "x80" not in data.feature_names
        assert data.source == f"real subset, unverified: {len(table):,} of 3,672 rows ({variant})"
        assert data.variant == variant and data.target == "distress" and data.name == "distress"


def test_one_hot_columns_numbers_labels_company_and_period_are_those_of_the_row(table):
    shuffled = table.sample(frac=1, random_state=3)
    data = arranged(shuffled, kind="real", of_rows=distress.FULL_ROWS, variant="paper")
    for row in (0, 11, 500):  # the oracle: one row at a time, by name
        one, names = shuffled.iloc[row], np.array(data.feature_names)
        ones = set(names[:473][data.X[row, :473] == 1])
        assert ones == {
            f"Company = {one['Company']:.0f}",
            f"Time = {one['Time']:.0f}",
            f"x80 = {one['x80']:.0f}",
        }
        for name in ("x1", "x79", "x81", "x83"):
            assert data.X[row, names == name] == np.float32(one[name])
    np.testing.assert_array_equal(data.y, shuffled[TARGET] <= -0.5)
    np.testing.assert_array_equal(data.account, shuffled["Company"])
    np.testing.assert_array_equal(data.time, shuffled["Time"])


def test_a_target_of_exactly_minus_a_half_is_distressed(table):
    edge = table[:3].assign(**{TARGET: [-0.5, -0.4999, -0.5001]})
    assert arranged(edge, kind="stand-in", of_rows=None, variant="no_lag").y.tolist() == [1, 0, 1]


def test_columns_are_taken_by_name_and_given_back_in_order():
    raw = invented(5)
    checked = checked_table(raw[list(reversed(COLUMNS))], "f.csv")
    assert (
        checked.of_rows == 3_672
        and checked.layout == ""
        and tuple(checked.table.columns) == (*COLUMNS, "account")
    )
    pd.testing.assert_frame_equal(checked.table[list(COLUMNS)], raw, check_dtype=False)
    np.testing.assert_array_equal(checked.table["account"], raw["Company"])


def _with(column, value, row=2):
    def change(table):
        values = table[column].astype(object if isinstance(value, str) else float)
        values.iloc[row] = value
        return table.assign(**{column: values})

    return change


BAD = {
    "renamed": (
        lambda t: t.rename(columns={"x7": "X7"}),
        r"column 'x7' is missing \(found 'X7' instead\), expected Company, Time",
    ),
    "dropped": (
        lambda t: t.drop(columns=TARGET),
        "column 'Financial Distress' is missing, expected",
    ),
    "no rows": (lambda t: t[:0], "no rows below the header, expected up to 3,672"),
    "text": (_with("x3", "many"), "column 'x3' must hold numbers, got 'many' in row 3"),
    "NaN": (_with("x3", np.nan), "column 'x3' must hold finite numbers, got nan in row 3"),
    "infinite": (
        _with(TARGET, np.inf),
        "column 'Financial Distress' must hold finite numbers, got inf in row 3",
    ),
    "company 0": (
        _with("Company", 0),
        "column 'Company' must be between 1 and 422, got 0 in row 3",
    ),
    "company 423": (
        _with("Company", 423),
        "column 'Company' must be between 1 and 422, got 423 in row 3",
    ),
    "period 15": (_with("Time", 15), "column 'Time' must be between 1 and 14, got 15 in row 3"),
    "company 1.5": (
        _with("Company", 1.5),
        "column 'Company' must hold whole numbers, got 1.5 in row 3",
    ),
    "period 1.5": (_with("Time", 1.5), "column 'Time' must hold whole numbers, got 1.5 in row 3"),
    "industry 2.25": (_with("x80", 2.25), "column 'x80' must hold whole numbers, got 2.25 in row"),
    "industry 38": (_with("x80", 38), "column 'x80' must be between 1 and 37, got 38 in row 3"),
}


@pytest.mark.parametrize("change, sentence", BAD.values(), ids=BAD.keys())
def test_a_wrong_table_is_refused_with_file_column_and_expectation(change, sentence):
    start = invented(5)
    start["Time"] = start.groupby("Company").cumcount() + 1
    with pytest.raises(ValueError, match=f"^f.csv: {sentence}") as caught:
        checked_table(change(start), "f.csv")
    assert "\n" not in str(caught.value)


def test_the_full_file_must_have_136_distressed_rows_and_no_more_rows_than_there_are():
    full = pd.DataFrame(0.0, index=range(3_672), columns=COLUMNS)
    full["Company"], full["Time"], full["x80"] = (
        np.arange(3_672) % 422 + 1,
        np.arange(3_672) // 422 + 1,
        1,
    )
    full.loc[:135, TARGET] = -0.5
    for column, mean in distress.PUBLISHED_MEANS.items():
        full[column] += (mean * 3_672 - full[column].sum()) / 3_536 * (np.arange(3_672) > 135)
    full["x3"] = np.arange(3_672)
    full["x48"] = 600.0
    full["x81"] = full.groupby("Company")[TARGET].shift(fill_value=0.0)
    assert checked_table(full, "f.csv").of_rows == len(checked_table(full, "f.csv").table)
    with pytest.raises(ValueError, match="^f.csv: 135 distressed in 3,672 rows, expected 136"):
        checked_table(full.assign(**{TARGET: np.r_[0, full[TARGET][1:]]}), "f.csv")
    with pytest.raises(
        ValueError,
        match="^f.csv: column 'x1' has mean 0.000000 over all 3,672 rows, expected 1.387820",
    ):
        checked_table(full.assign(x1=0.0), "f.csv")
    with pytest.raises(ValueError, match="^f.csv: 3,673 rows, expected at most 3,672"):
        checked_table(pd.concat([full, full[:1].assign(Time=14)]), "f.csv")
    checked_table(full[1:].assign(**{TARGET: 1.0, "x81": 1.0}), "f.csv")  # a subset may hold fewer
    with pytest.raises(
        ValueError, match="^f.csv: 3,671 distressed in 3,671 rows, expected at most the 136 of"
    ):
        checked_table(full[1:].assign(**{TARGET: -1.0, "x81": -1.0}), "f.csv")


# files that are not what they say


def renumbered(table, rows):
    """The first rows once more, under numbers of companies that are free."""
    free = sorted(set(range(1, 423)) - set(table["Company"]))
    again = table[:rows].reset_index(drop=True)
    return pd.concat(
        [
            table,
            again.assign(
                Company=np.array(free)[again.index % len(free)],
                Time=1 + 2 * (again.index // len(free)),
            ),
        ]
    )


LAG = (
    r"column 'Financial Distress' does not belong to these rows: x81 is \S+ for company \d+ in "
    r"period \d+, expected its target of the period before, \S+$"
)
ALTERED = {
    "permuted": (
        lambda t: t.assign(**{TARGET: t[TARGET].sample(frac=1, random_state=1).array}),
        LAG,
    ),
    "inverted": (lambda t: t[t[TARGET] < 0.4].assign(**{TARGET: -t[TARGET]}), LAG),
    "one target changed": (
        lambda t: t.assign(**{TARGET: t[TARGET] + 0.01 * (t.index == t.index[:-1][follows(t)][7])}),
        LAG,
    ),
    "all distressed": (
        lambda t: t.assign(**{TARGET: -1.0, "x81": -1.0}),
        "[0-9,]+ distressed in .*, expected at most the 136 of",
    ),
    "repeats": (
        lambda t: renumbered(t, 3),
        r"3 of \d+,\d+ rows repeat an earlier row exactly, expected at most 2: this is a",
    ),
}
SCALED = "expected .*: these rows were scaled, put the file there as it was published$"
FIGURES = [f"x{i}" for i in range(1, 80)]


def minmax(part):
    return (part - part.min()) / (part.max() - part.min())


def standardised(part):
    return (part - part.mean()) / part.std(ddof=0)


ALTERED |= {
    "figures, min-max": (
        lambda t: t.assign(**minmax(t[FIGURES])),
        r"column 'x48' has median 0\.\S+, " + SCALED,
    ),
    "figures, standardised": (
        lambda t: t.assign(**standardised(t[FIGURES])),
        r"column 'x48' has median -?0\.\S+, " + SCALED,
    ),
    "an age, min-max": (
        lambda t: t.assign(x82=minmax(t["x82"])),
        "column 'x82' must hold whole numbers, got 0",
    ),
    "an age, standardised": (
        lambda t: t.assign(x83=standardised(t["x83"])),
        "column 'x83' must be between 0 and 200, got -",
    ),
}
HONEST = {
    "as it is": lambda t: t,
    "another order": lambda t: t.sample(frac=1, random_state=2),
    "two repeats": lambda t: renumbered(t, 2),
    "distressed only": lambda t: t[t[TARGET] <= -0.5],
    "healthy only": lambda t: t[t[TARGET] > -0.5],
    "some years": lambda t: t[t["Time"] < 6],
    "some companies": lambda t: t[t["Company"] < 100],
    "as float32": lambda t: t.astype(dict.fromkeys((*distress.NUMBERS, TARGET), "float32")),
    **{
        f"{n:,} at random, {seed}": lambda t, n=n, seed=seed: t.sample(n, random_state=seed)
        for n in (1, 100, 1_000, 2_000)
        for seed in range(3)
    },
}


@pytest.fixture(scope="module")
def few(table):
    """Rows of 270 companies: fewer distressed than in the file, and some numbers are free."""
    return table.loc[table["account"] <= 270, list(COLUMNS)]


@pytest.mark.parametrize("change, sentence", ALTERED.values(), ids=ALTERED.keys())
def test_altered_rows_are_refused_in_one_sentence(change, sentence, few):
    assert 50 < (few[TARGET] <= -0.5).sum() < 136
    with pytest.raises(ValueError, match=f"^f.csv: {sentence}") as caught:
        checked_table(change(few.assign(account=few["Company"]))[list(COLUMNS)], "f.csv")
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("choose", HONEST.values(), ids=HONEST.keys())
def test_a_part_of_honest_rows_is_taken(choose, few):
    chosen = choose(few)
    assert len(checked_table(chosen, "f.csv").table) == len(chosen) > 0


# the real rows


@pytest.mark.skipif(
    not os.environ.get("PPKIT_REAL_DATA"), reason="PPKIT_REAL_DATA names no folder of real rows"
)
def test_the_real_development_rows_pass_the_checks():
    found = find(distress.STEMS, project.root() / os.environ["PPKIT_REAL_DATA"])
    checked = checked_table(read_table(found, 10**8)[0], found.path.name)
    table, next_year = checked.table, follows(checked.table)
    data = arranged(table, kind="real", of_rows=checked.of_rows, variant="paper")
    assert data.source == "real, unverified: 3,672 rows (paper)"
    assert data.X.shape == (3_672, 555) and int(data.y.sum()) == 136
    assert next_year.sum() == 3_250  # the lag, and distress as the end of a company
    np.testing.assert_array_equal(
        table["x81"].to_numpy()[1:][next_year], table[TARGET].to_numpy()[:-1][next_year]
    )
    assert not data.y[:-1][np.diff(data.account) == 0].any()
    rows = table[list(COLUMNS)]
    assert rows.duplicated(list(COLUMNS[2:])).sum() == distress.FULL_REPEATS
    for name, choose in HONEST.items():
        if name != "two repeats":  # the file has these already
            assert len(checked_table(choose(rows), name).table) > 0
    for name, (change, sentence) in ALTERED.items():
        if name != "repeats":  # no number of a company is free
            with pytest.raises(ValueError, match=f"^{name}: {sentence}"):
                checked_table(change(table[table["account"] <= 400])[list(COLUMNS)], name)
