"""load and status: which file is taken, what is said of it, and one sentence for a wrong one."""

import csv
import gzip
import hashlib
import os
import re
import zipfile
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ppkit import datasets, project
from ppkit.datasets import creditcard, distress, fetching, lending
from ppkit.datasets.creditcard import (
    FEATURES,
    FULL_FRAUDS,
    FULL_ROWS,
    PUBLISHED_MEANS,
    checked_table,
)

COMPONENTS = list(FEATURES[1:29])
WIDTHS = np.geomspace(2.0, 0.3, 28)  # of the components, in falling order as in the file


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
        ("lending", "lending.csv", "loans_full_schema.csv"),
        ("distress", "Distress (1).csv", "Financial Distress.csv"),
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
