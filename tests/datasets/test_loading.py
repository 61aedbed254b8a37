"""load, Dataset and the steps before learning: sources that cannot be forged, bad tables refused in
one sentence."""

import copy
import csv
import dataclasses
import gzip
import hashlib
import os
import pickle
import re
import zipfile
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ppkit import datasets, project
from ppkit.datasets import creditcard, distress, fetching, lending, loading
from ppkit.datasets import dataset as making
from ppkit.datasets.creditcard import (
    FEATURES,
    FULL_FRAUDS,
    FULL_ROWS,
    PUBLISHED_MEANS,
    checked_table,
)
from ppkit.datasets.files import read_table

COMPONENTS = list(FEATURES[1:29])
WIDTHS = np.geomspace(2.0, 0.3, 28)  # of the components, in falling order as in the file
PLAIN_FRAUDS = 285  # of the 492 have V14 < -2, at least: so many were counted


@pytest.fixture(autouse=True)
def no_files_by_chance(monkeypatch):
    monkeypatch.delenv("PPKIT_DATA", raising=False)
    monkeypatch.delenv("PPKIT_SOURCE", raising=False)


@pytest.fixture(scope="module")
def table():
    """Invented rows in the layout of the real file: 400 rows, 20 frauds."""
    rng = np.random.default_rng(7)
    made = pd.DataFrame({name: rng.normal(size=400) for name in FEATURES})
    made[COMPONENTS] *= WIDTHS
    made["Time"] = np.arange(400) * 3.0
    made["Amount"] = np.round(rng.gamma(1, 80, 400), 2)
    made["Class"] = (np.arange(400) % 20 == 5).astype(int)
    return made


@pytest.fixture(scope="module")
def small():
    return datasets.load("transactions", rows=1_000)


def written(table, folder, name="creditcard.csv"):
    path = Path(folder) / name
    if name.endswith(".parquet"):
        table.to_parquet(path, index=False)
    elif name.endswith(".gz"):
        with gzip.open(path, "wt") as file:
            table.to_csv(file, index=False)
    elif name.endswith(".zip"):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("creditcard.csv", table.to_csv(index=False))
    else:
        table.to_csv(path, index=False)
    return path


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty project of its own, so that data/raw is this test's."""
    for name in ("notebooks", "ppkit", "data/raw"):
        (tmp_path / "home" / name).mkdir(parents=True)
    monkeypatch.setenv("PPKIT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


# finding and reading


@pytest.mark.parametrize(
    "name",
    [
        "creditcard.csv",
        "creditcard.csv.gz",
        "creditcard.csv.zip",
        "creditcardfraud.zip",
        "creditcard.parquet",
    ],
)
def test_every_packing_gives_the_same_rows(name, table, home, tmp_path):
    written(table, tmp_path, name)
    data = datasets.load("creditcard", root=tmp_path)
    assert data.source == "real subset, unverified: 400 of 284,807 rows"
    assert data.feature_names == FEATURES and data.X.dtype == np.float32 and data.y.dtype == np.int8
    assert data.account is None and data.category is None and data.numeric.all()
    np.testing.assert_array_equal(data.X, table[list(FEATURES)].to_numpy(np.float32))
    np.testing.assert_array_equal(data.y, table["Class"])


def test_columns_are_taken_by_name_not_by_place(table, home, tmp_path):
    written(table[list(reversed(table.columns))], tmp_path)
    data = datasets.load("creditcard", root=tmp_path)
    np.testing.assert_array_equal(data.X[:, -1], table["Amount"].astype(np.float32))


def test_a_file_is_looked_for_under_root_then_ppkit_data_then_data_raw(
    table, home, tmp_path, monkeypatch
):
    given, variable, raw = tmp_path / "given", home / "elsewhere", home / "data" / "raw"
    given.mkdir(), variable.mkdir()
    written(table[:100], given), written(table[:200], variable), written(table[:300], raw)
    assert datasets.load("creditcard").n_rows == 300
    monkeypatch.setenv("PPKIT_DATA", "elsewhere")  # relative to the project, wherever one stands
    monkeypatch.chdir(tmp_path)
    assert datasets.load("creditcard").n_rows == 200
    assert datasets.load("creditcard", root=given).n_rows == 100
    (variable / "creditcard.csv").unlink()
    assert datasets.load("creditcard").n_rows == 300


def of_two(mean, step, n):
    """n multiples of the step, the two next to the mean, which they have to half a step / n."""
    low = np.floor(mean / step)
    return (low + (np.arange(n) < round((mean / step - low) * n))) * step


@pytest.mark.slow
def test_the_full_file_is_called_full_and_must_have_492_frauds(home, tmp_path):
    full = pd.DataFrame(0.0, index=range(FULL_ROWS), columns=[*FEATURES, "Class"])
    full["Time"] = of_two(PUBLISHED_MEANS["Time"], 1, FULL_ROWS)
    full["Amount"] = of_two(PUBLISHED_MEANS["Amount"], 0.01, FULL_ROWS)
    full["V1"] = np.linspace(-100, 100, FULL_ROWS)
    full["Class"] = (np.arange(FULL_ROWS) < FULL_FRAUDS) * 1.0
    full["V14"] = -5 * full["Class"]
    written(full, tmp_path, "creditcard.parquet")
    assert datasets.load("creditcard", root=tmp_path).source == "real, unverified: 284,807 rows"
    with pytest.raises(ValueError, match="x.csv: 491 frauds in 284,807 rows, expected 492"):
        checked_table(full.assign(Class=np.r_[0, full["Class"][1:]]), "x.csv")
    with pytest.raises(
        ValueError,
        match="x.csv: column 'Amount' has mean 1.000000 over all 284,807 rows, expected 88.349619: "
        "this is not the published file",
    ):
        checked_table(full.assign(Amount=1.0), "x.csv")
    with pytest.raises(ValueError, match="x.csv: 284,808 rows, expected at most 284,807"):
        checked_table(pd.concat([full, full[:1]]), "x.csv")


# which source


def test_a_missing_file_is_one_sentence_with_place_and_remedy(home, tmp_path, monkeypatch):
    with pytest.raises(
        FileNotFoundError,
        match=r"^creditcard\.csv .* is missing in data/raw: .*ppkit data fetch creditcard",
    ) as caught:
        datasets.load("creditcard", "real")
    assert str(home) not in str(caught.value)
    monkeypatch.setenv("PPKIT_DATA", str(home / "nowhere"))
    with pytest.raises(ValueError, match="^PPKIT_DATA names no folder: set it") as caught:
        datasets.load("creditcard")
    assert str(home) not in str(caught.value)
    (home / "nowhere").mkdir()
    with pytest.raises(FileNotFoundError, match=r"is missing in \$PPKIT_DATA and data/raw"):
        datasets.load("creditcard", "real")
    with pytest.raises(FileNotFoundError, match="is missing in the folder given as root: "):
        datasets.load("creditcard", "real", root=tmp_path)


@pytest.mark.parametrize("name", ["creditcard", "distress", "lending"])
def test_without_a_file_the_stand_in_comes_and_says_so(name, home, tmp_path):
    for settings in ({}, {"source": "standin"}, {"root": tmp_path}):
        data = datasets.load(name, rows=1_000, **settings)
        assert (
            data.kind == "stand-in"
            and data.source.startswith("stand-in: 1,000 rows")
            and data.of_rows is None
        )


def test_ppkit_source_overrides_auto_and_nothing_else(table, home, monkeypatch):
    written(table, home / "data" / "raw")
    monkeypatch.setenv("PPKIT_SOURCE", "standin")
    assert datasets.load("creditcard", rows=100).source == "stand-in: 100 rows"
    assert datasets.load("creditcard", "real").n_rows == 400
    monkeypatch.setenv("PPKIT_SOURCE", "real")
    assert datasets.load("creditcard").n_rows == 400
    assert datasets.load("creditcard", "standin", rows=100).source == "stand-in: 100 rows"
    assert datasets.load("transactions", rows=200).kind == "simulated"
    with pytest.raises(FileNotFoundError, match="is missing in data/raw"):
        datasets.load("distress")
    monkeypatch.setenv("PPKIT_SOURCE", "fake")
    with pytest.raises(
        ValueError, match="PPKIT_SOURCE must be one of auto, real, standin, got 'fake'"
    ):
        datasets.load("creditcard")


def test_unknown_words_are_refused_with_the_list():
    with pytest.raises(
        ValueError,
        match="name must be one of transactions, creditcard, distress, lending, got 'credit'",
    ):
        datasets.load("credit")
    with pytest.raises(ValueError, match="source must be one of auto, real, standin, got 'true'"):
        datasets.load("creditcard", "true")
    with pytest.raises(ValueError, match="transactions is simulated only"):
        datasets.load("transactions", "real")
    for name in datasets.NAMES:
        for rows in (0, -5, 2.5, True):
            with pytest.raises(ValueError, match="rows must be a whole number >= 1, got"):
                datasets.load(name, rows=rows)
    with pytest.raises(
        ValueError, match="variant must be one of paper, no_lag, forecast, got 'lagged'"
    ):
        datasets.load("distress", variant="lagged")
    with pytest.raises(ValueError, match="creditcard has one form only, got variant 'paper'"):
        datasets.load("creditcard", variant="paper")


# bad files


BAD = {
    "renamed": (
        lambda t: t.rename(columns={"V7": "v7"}),
        "column 'V7' is missing \\(found 'v7' instead\\)",
    ),
    "dropped": (lambda t: t.drop(columns="Amount"), "column 'Amount' is missing, expected Time"),
    "no rows": (lambda t: t[:0], "no rows below the header"),
    "label 2": (
        lambda t: t.assign(Class=[2] + [0] * 399),
        "column 'Class' must be between 0 and 1, got 2 in row 1",
    ),
    "NaN": (
        lambda t: t.assign(V3=t["V3"].where(t.index != 8)),
        "column 'V3' must hold finite numbers, got nan in row 9",
    ),
    "infinite": (
        lambda t: t.assign(V3=t["V3"].where(t.index != 8, np.inf)),
        "column 'V3' must hold finite numbers, got inf",
    ),
    "text": (
        lambda t: t.assign(V9=["many"] + [1.0] * 399),
        "column 'V9' must hold numbers, got 'many' in row 1",
    ),
    "negative amount": (
        lambda t: t.assign(Amount=-1.0),
        "column 'Amount' must be between 0 and 100,000, got -1 in row 1",
    ),
    "negative time": (
        lambda t: t.assign(Time=t["Time"] - 3),
        "column 'Time' must be between 0 and 172,800, got -3 in row 1",
    ),
    "huge component": (lambda t: t.assign(V28=1e6), "column 'V28' must be between -200 and 200"),
}


@pytest.mark.parametrize("change, sentence", BAD.values(), ids=BAD.keys())
def test_a_wrong_table_is_refused_with_file_column_and_expectation(
    change, sentence, table, home, tmp_path
):
    written(change(table), tmp_path)
    with pytest.raises(ValueError, match=f"^creditcard.csv: {sentence}") as caught:
        datasets.load("creditcard", root=tmp_path)
    assert "\n" not in str(caught.value) and str(tmp_path) not in str(caught.value)


# what others write: read, or one sentence


def lines_of(table, **settings):
    return table.to_csv(index=False, **settings).splitlines()


def below(lines, change):
    """The header, and each other line changed."""
    return "\n".join([lines[0], *map(change, lines[1:])]) + "\n"


TAKEN = {
    "pandas' index": lambda t: t.to_csv(),
    "R's write.csv": lambda t: t.set_index(t.index + 1).to_csv(quoting=csv.QUOTE_NONNUMERIC),
    "R's write.table": lambda t: "\n".join(
        [lines_of(t)[0], *(f'"{i}",{line}' for i, line in enumerate(lines_of(t)[1:], start=1))]
    ),
    "every field quoted": lambda t: t.to_csv(index=False, quoting=csv.QUOTE_ALL),
    "semicolons and decimal commas": lambda t: t.to_csv(index=False, sep=";", decimal=","),
    "tabs": lambda t: t.to_csv(index=False, sep="\t"),
    "more columns": lambda t: t.assign(split="train", row=7).to_csv(index=False),
    "labels 0.0 and 1.0": lambda t: t.astype({"Class": float}).to_csv(index=False),
    "True and False": lambda t: t.assign(Class=t["Class"] == 1).to_csv(index=False),
    "quoted labels": lambda t: below(lines_of(t), lambda line: f'{line[:-1]}"{line[-1]}"'),
    "empty lines at the end": lambda t: t.to_csv(index=False) + "\n" + "," * 30 + "\n\n",
    "a comma at the end of all lines": lambda t: "".join(f"{line},\n" for line in lines_of(t)),
    "a mark of UTF-8": lambda t: "\ufeff" + t.to_csv(index=False),
    "Windows' line ends": lambda t: t.to_csv(index=False, lineterminator="\r\n"),
}
NOT_TAKEN = {
    "a header only": (lambda t: t[:0].to_csv(index=False), ": no rows below the header"),
    "no header": (lambda t: t.to_csv(index=False, header=False), " has no header: its first line"),
    "an unknown separator": (
        lambda t: t.to_csv(index=False, sep="~"),
        ": column 'Time' is missing \\(found 'Time~V1~",
    ),
    "thousands": (
        lambda t: t.assign(Amount=t["Amount"].map("{:,.2f}".format)).to_csv(index=False),
        ": column 'Amount' must hold numbers, got '1,[0-9]{3}[.][0-9]{2}' in row ",
    ),
    "a comma at the end of each row": (
        lambda t: below(lines_of(t), "{},".format),
        " has one field more in its rows than names in its header: write it without a comma",
    ),
    "another case": (
        lambda t: t.rename(columns=str.lower).to_csv(index=False),
        ": column 'Time' is missing \\(found 'amount', 'class', 'time' instead\\)",
    ),
    "a blank before a name": (
        lambda t: t.rename(columns={"V9": " V9"}).to_csv(index=False),
        ": column 'V9' is missing \\(found ' V9' instead\\)",
    ),
    "a column twice": (
        lambda t: pd.concat([t, t["V7"]], axis=1).to_csv(index=False),
        " has two columns with the name 'V7': take one out or rename it",
    ),
    "JSON": (lambda t: t.to_json(orient="records"), " is JSON, expected a CSV or parquet file: "),
    "a page": (lambda t: "<!doctype html><html>", " is a web page, expected a CSV or parquet"),
}


@pytest.fixture(scope="module")
def dear(table):
    """One amount above a thousand."""
    return table.assign(Amount=table["Amount"] + 1_000.0 * (table.index == 17))


@pytest.mark.parametrize("write", TAKEN.values(), ids=TAKEN.keys())
def test_what_other_programs_write_gives_the_same_rows(write, dear, home, tmp_path):
    (tmp_path / "creditcard.csv").write_text(write(dear), "utf-8")
    data = datasets.load("creditcard", root=tmp_path)
    np.testing.assert_array_equal(data.X, dear[list(FEATURES)].to_numpy(np.float32))
    np.testing.assert_array_equal(data.y, dear["Class"])


@pytest.mark.parametrize("write, sentence", NOT_TAKEN.values(), ids=NOT_TAKEN.keys())
def test_what_is_not_certain_is_refused_in_one_sentence(write, sentence, dear, ppkit, project):
    raw = project.folder / "data" / "raw"
    raw.mkdir(parents=True)
    (raw / "creditcard.csv").write_text(write(dear), "utf-8")
    with pytest.raises(ValueError, match=f"^creditcard.csv{sentence}") as caught:
        datasets.load("creditcard", "real", root=raw)
    assert "\n" not in str(caught.value) and str(project.folder) not in str(caught.value)
    code, out, _ = ppkit("data", "status")
    assert code == 0 and "unreadable" in out


def test_a_decimal_column_of_parquet_is_numbers(table, home, tmp_path):
    """As DuckDB, Spark and Snowflake write what is DECIMAL there."""
    exact = table.assign(
        Amount=[Decimal(f"{amount:.2f}") for amount in table["Amount"]],
        Class=[Decimal(int(label)) for label in table["Class"]],
    )
    written(exact, tmp_path, "creditcard.parquet")
    data = datasets.load("creditcard", root=tmp_path)
    np.testing.assert_array_equal(data.X, table[list(FEATURES)].to_numpy(np.float32))
    np.testing.assert_array_equal(data.y, table["Class"])


def test_how_a_file_was_read_is_in_the_note(table, home, tmp_path):
    lines = table.to_csv(index=False, sep=";", decimal=",") + ";" * 30 + "\n"
    (tmp_path / "creditcard.csv").write_bytes(lines.encode("utf-16"))
    assert datasets.load("creditcard", root=tmp_path).note.endswith(
        "; read as UTF-16; ';' stands between its columns; its decimal mark is a comma; lines "
        "without a value, left out: 1"
    )


@pytest.mark.parametrize(
    "name, file, called",
    [
        ("creditcard", "creditcard (1).csv", "creditcard.csv"),
        ("creditcard", "creditcard.CSV", "creditcard.csv"),
        ("distress", "Financial_Distress.csv", "Financial Distress.csv"),
        ("lending", "loans_full_schema(1).csv", "loans_full_schema.csv"),
        ("lending", "LoanStats3a.csv", "loan.csv"),
        ("lending", "Loan.CSV", "loan.csv"),
    ],
)
def test_a_name_that_is_almost_right_is_told_wherever_the_stand_in_is_taken(
    name, file, called, home, monkeypatch
):
    (home / "data" / "raw" / file).write_text("a\n1\n")
    sentence = f"a file like it lies there: data/raw/{file}, call it {called} to have it taken"
    data = datasets.load(name, rows=500)
    assert data.kind == "stand-in" and data.note.endswith(f"; {sentence}")
    assert sentence not in datasets.load(name, "standin", rows=500).note  # nobody looked
    row = next(row for row in datasets.status() if row["name"] == name)
    assert row["source"] == "stand-in" and f"({sentence})" in row["note"]
    with pytest.raises(FileNotFoundError, match=re.escape(f"({sentence})")):
        datasets.load(name, "real")


@pytest.mark.parametrize("cut", [0.3, 0.5, 0.77, 0.9])
def test_a_csv_cut_in_the_middle_of_a_row_is_refused(cut, table, home, tmp_path):
    text = table.to_csv(index=False)
    end = int(len(text) * cut)
    while text[end - 1] == "\n" or text[end:].split("\n")[0].count(",") < 2:
        end += 1
    (tmp_path / "creditcard.csv").write_text(text[:end])
    with pytest.raises(
        ValueError,
        match="^creditcard.csv: column '.*' must hold finite numbers, got nan .*cut short",
    ):
        datasets.load("creditcard", root=tmp_path)


@pytest.mark.parametrize("name", ["creditcard.csv.gz", "creditcardfraud.zip", "creditcard.parquet"])
def test_a_packed_file_cut_short_is_refused(name, table, home, tmp_path):
    path = written(table, tmp_path, name)
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(ValueError, match=f"^{name} cannot be read to its end") as caught:
        datasets.load("creditcard", root=tmp_path)
    assert "\n" not in str(caught.value)


def test_files_of_another_kind_are_refused(table, home, tmp_path):
    path = tmp_path / "creditcard.csv"
    path.write_text("")
    with pytest.raises(ValueError, match="^creditcard.csv is empty, expected a CSV or parquet"):
        datasets.load("creditcard", root=tmp_path)
    path.unlink()
    (tmp_path / "creditcard.zip").write_bytes(b"PK\x03\x04 half of a zip")
    with pytest.raises(ValueError, match="^creditcard.zip cannot be read to its end"):
        datasets.load("creditcard", root=tmp_path)


# files that are not what they say


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


SECONDS = r"column 'Time' must hold whole numbers, got \S+ in row"
CENTS = r"column 'Amount' must hold amounts with two decimals, got \S+ in row"
NARROW = "column 'V28' spreads like V1, expected components in falling order" + SCALED
RANGE = "column 'Time' must be between 0 and 172,800, got -"
ALTERED |= {
    "all, min-max": (changed(INPUTS, minmax), SECONDS),
    "all, by the largest": (changed(INPUTS, of_largest), SECONDS),
    "all, standardised": (changed(INPUTS, standardised), RANGE),
    "all, robust": (changed(INPUTS, robust), RANGE),
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


# verified, or not


@pytest.fixture
def published(table, monkeypatch):
    """The invented table is the published file now."""
    checksum = hashlib.sha256(table.to_csv(index=False).encode()).hexdigest()
    for name, value in (("SHA256", checksum), ("ROWS", 400), ("FRAUDS", 20)):
        monkeypatch.setattr(creditcard, f"FULL_{name}", value)
    monkeypatch.setattr(creditcard, "PUBLISHED_MEANS", {})
    return table


@pytest.mark.slow
@pytest.mark.parametrize("name", ["creditcard.csv", "creditcard.csv.gz", "creditcard.zip", "a.zip"])
def test_a_file_with_the_published_checksum_is_real_beyond_doubt(name, published, home, tmp_path):
    written(published, tmp_path, name)
    data = datasets.load("creditcard", root=tmp_path)
    assert data.source == "real: 400 rows" and data.verified and data.kind == "real"
    fewer = datasets.load("creditcard", rows=100, root=tmp_path)
    assert fewer.source == "real subset: 100 of 400 rows"
    assert datasets.undersample(data, 0.5, 0).source == "real subset: 40 of 400 rows"
    written(published.assign(V1=published["V1"].round(3)), tmp_path, name)
    data = datasets.load("creditcard", root=tmp_path)
    assert data.source == "real, unverified: 400 rows" and not data.verified
    fewer = datasets.load("creditcard", rows=100, root=tmp_path)
    assert fewer.source == "real subset, unverified: 100 of 400 rows"


def test_the_checksums_are_those_that_fetch_compares_with_and_of_distress_there_is_none():
    for name, module in (("creditcard", creditcard), ("lending", lending)):
        assert fetching.PUBLIC[name].sha256 == module.FULL_SHA256 and len(module.FULL_SHA256) == 64
    assert distress.FULL_SHA256 is None and "distress" in fetching.BY_HAND


# a Dataset cannot be forged


def test_no_other_way_to_a_dataset(small):
    fields = {one.name: getattr(small, one.name) for one in dataclasses.fields(small) if one.init}
    for attempt in (
        lambda: datasets.Dataset(**fields),
        lambda: dataclasses.replace(small, kind="real", of_rows=284_807),
        lambda: dataclasses.replace(small, verified=True),
        lambda: copy.copy(small),
        lambda: copy.deepcopy(small),
        lambda: pickle.dumps(small),
    ):
        with pytest.raises(TypeError, match="source is true"):
            attempt()
    for name, value in (
        ("source", "real: 284,807 rows"),
        ("kind", "real"),
        ("of_rows", 284_807),
        ("verified", True),
    ):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(small, name, value)
    assert small.source == f"simulated: {small.n_rows:,} rows"


def test_arrays_are_read_only(small):
    for array in (small.X, small.y, small.numeric, small.account, small.category):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


# the steps before learning


def test_standardise_uses_the_named_rows_only_and_leaves_coded_columns(small):
    fit_on = np.flatnonzero(small.account % 2 == 0)
    scaled = datasets.standardise(small, fit_on)
    assert scaled.dtype == np.float32 and scaled.shape == small.X.shape
    np.testing.assert_array_equal(scaled[:, ~small.numeric], small.X[:, ~small.numeric])
    for column in np.flatnonzero(small.numeric):  # the oracle: one column at a time
        fitted = small.X[fit_on, column].astype(np.float64)
        deviation = fitted.std() if fitted.std() > 1e-6 * max(abs(fitted.mean()), 1) else 1.0
        np.testing.assert_allclose(
            scaled[:, column],
            (small.X[:, column] - fitted.mean()) / deviation,
            rtol=1e-5,
            atol=1e-5,
        )
    as_mask = np.zeros(small.n_rows, bool)
    as_mask[fit_on] = True
    np.testing.assert_array_equal(datasets.standardise(small, as_mask), scaled)
    with pytest.raises(ValueError, match="fit_on must name at least one row"):
        datasets.standardise(small, np.array([], int))


def test_a_constant_column_is_only_centred():
    X = np.c_[np.full(50, 3e5), np.arange(50)].astype(np.float32)
    data = making.made(
        name="t",
        X=X,
        y=np.zeros(50, np.int8),
        feature_names=("a", "b"),
        numeric=np.ones(2, bool),
        kind="simulated",
        note="",
    )
    scaled = datasets.standardise(data, np.arange(40))
    np.testing.assert_array_equal(scaled[:, 0], 0)
    assert scaled[:40, 1].std() == pytest.approx(1, abs=1e-6)


def test_undersampling_keeps_every_positive_and_says_how_many_real_rows_are_left(
    table, home, tmp_path
):
    written(table, tmp_path)
    data = datasets.load("creditcard", root=tmp_path)
    fewer = datasets.undersample(data, 0.14, 3)
    assert fewer.y.sum() == 20 and fewer.n_rows == 20 + round(20 * 0.86 / 0.14)
    assert fewer.source == f"real subset, unverified: {fewer.n_rows} of 284,807 rows"
    assert (np.diff(fewer.X[:, 0]) > 0).all()  # still in file order
    again = datasets.undersample(data, 0.14, 3)
    np.testing.assert_array_equal(again.X, fewer.X)
    assert (datasets.undersample(data, 0.14, 4).X[:, 0] != fewer.X[:, 0]).any()
    for share in (0, 1, -1, np.nan):
        with pytest.raises(ValueError, match=r"share must be in \(0, 1\), got"):
            datasets.undersample(data, share, 0)
    with pytest.raises(
        ValueError,
        match="share must be at least 0.0500, the share of positives in creditcard, got 0.01",
    ):
        datasets.undersample(data, 0.01, 0)


def test_undersampled_simulation_stays_simulated_and_keeps_its_accounts(small):
    fewer = datasets.undersample(small, 0.3, 0)
    assert fewer.source == f"simulated: {fewer.n_rows:,} rows" and fewer.y.sum() == small.y.sum()
    assert len(fewer.account) == len(fewer.category) == fewer.n_rows


def test_fewer_rows_are_drawn_by_seed_in_file_order_with_the_classes_in_proportion(
    table, home, tmp_path
):
    written(table, tmp_path)
    data = datasets.load("creditcard", rows=100, seed=1, root=tmp_path)
    assert data.source == "real subset, unverified: 100 of 284,807 rows" and data.y.sum() == 5
    assert (np.diff(data.X[:, 0]) > 0).all()
    np.testing.assert_array_equal(
        datasets.load("creditcard", rows=100, seed=1, root=tmp_path).X, data.X
    )
    assert (
        datasets.load("creditcard", rows=100, seed=2, root=tmp_path).X[:, 0] != data.X[:, 0]
    ).any()
    with pytest.raises(
        ValueError, match="rows must be between 1 and the 400 of creditcard.csv, got 401"
    ):
        datasets.load("creditcard", rows=401, root=tmp_path)


# status


def test_status_says_stand_in_real_and_unreadable_without_a_machine_path(table, home, monkeypatch):
    before = {row["name"]: row for row in datasets.status()}
    assert list(before) == list(datasets.NAMES)
    assert before["transactions"]["source"] == "simulated"
    for name in ("creditcard", "distress", "lending"):
        assert (
            before[name]["source"] == "stand-in"
            and "is missing in data/raw: " in before[name]["note"]
        )
    path = written(table, home / "data" / "raw", "creditcard.csv.gz")
    real = datasets.status()[1]
    assert real["source"] == "real subset, unverified: 400 of 284,807 rows"
    assert real["rows"] == "400"
    assert real["where"] == "data/raw/creditcard.csv.gz" and len(real["sha256"]) == 64
    monkeypatch.setenv("PPKIT_SOURCE", "standin")
    assert "the stand-in is taken all the same" in datasets.status()[1]["note"]
    path.write_bytes(path.read_bytes()[:200])
    broken = datasets.status()[1]
    assert broken["source"] == "unreadable" and "creditcard.csv.gz cannot be read" in broken["note"]
    assert not any(
        str(home) in str(value)
        for row in (*before.values(), real, broken)
        for value in row.values()
    )


# the real development rows

REAL_ROWS = pytest.mark.skipif(
    not os.environ.get("PPKIT_REAL_DATA"), reason="PPKIT_REAL_DATA names no folder of real rows"
)


@REAL_ROWS
def test_the_real_development_rows_pass_the_checks():
    data = datasets.load("creditcard", "real", root=project.root() / os.environ["PPKIT_REAL_DATA"])
    assert data.source == "real subset, unverified: 44,212 of 284,807 rows"
    assert int(data.y.sum()) == 329
    fewer = datasets.undersample(data, 0.14, 0)
    assert fewer.y.mean() == pytest.approx(0.14, abs=1e-3) and fewer.y.sum() == 329


@REAL_ROWS
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
