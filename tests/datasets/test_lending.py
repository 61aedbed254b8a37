"""lending: two layouts that give one table, and bad files refused in one sentence."""

import gzip
import os

import numpy as np
import pandas as pd
import pytest
from invented_loans import as_kaggle, as_openintro, invented

from ppkit import datasets, project
from ppkit.datasets import lending
from ppkit.datasets.lending import (
    AFTERWARDS,
    BEFORE_THE_PRICE,
    COLUMNS,
    FEATURES,
    PRICE,
    arranged,
    checked_table,
)
from ppkit.datasets.lending_layouts import LABELS, MISSING

NEEDS_ROWS = pytest.mark.skipif(
    not os.environ.get("PPKIT_REAL_DATA"), reason="PPKIT_REAL_DATA names no folder of real rows"
)


LAYOUTS = {"OpenIntro": as_openintro, "Kaggle": as_kaggle}


@pytest.fixture(scope="module")
def loans():
    return invented(400)


@pytest.fixture(scope="module")
def table():
    """3,000 invented loans, checked, whose rate and amount rise over the file."""
    return checked_table(as_openintro(invented(3_000, drift=2.0)), "x.csv").table


# one table of two layouts


def test_the_same_loans_in_both_layouts_give_the_same_table(loans):
    ours, theirs = (checked_table(make(loans), "loans.csv") for make in LAYOUTS.values())
    pd.testing.assert_frame_equal(ours.table, theirs.table)
    assert (ours.layout, ours.of_rows, theirs.layout, theirs.of_rows) == (
        "OpenIntro",
        10_000,
        "Kaggle",
        887_379,
    )
    assert (
        tuple(ours.table.columns) == COLUMNS
        and len(COLUMNS) == 29
        and (ours.table.dtypes == np.float64).all()
    )
    for column, words in (
        ("sub_grade", "sub_grade"),
        ("homeownership", "home"),
        ("loan_status", "status"),
        ("state", "state"),
        ("purpose", "purpose"),
        ("verified_income", "verified"),
    ):
        assert [LABELS[column][int(code)] for code in ours.table[column]] == list(loans[words])
    np.testing.assert_array_equal(
        ours.table["loan_amount"], loans["amount"]
    )  # what was paid out, not asked for
    np.testing.assert_array_equal(ours.table["issue_month"], 132 + loans["month"].dt.month - 1)
    np.testing.assert_array_equal(
        ours.table["public_records"], loans["bankruptcies"] + loans["liens"]
    )
    np.testing.assert_array_equal(ours.table["earliest_credit_line"], loans["first_year"])
    np.testing.assert_array_equal(ours.table["emp_length"], loans["length"])


def test_a_later_edition_of_the_kaggle_file_is_known_by_its_columns(loans):
    assert (
        checked_table(as_kaggle(loans).assign(hardship_flag="N"), "loan.csv").of_rows == 2_260_668
    )


@pytest.mark.parametrize(
    "column, name, spelling, label",
    [
        (
            "loan_status",
            "loan_status",
            "Does not meet the credit policy. Status:Charged Off",
            "Charged Off",
        ),
        (
            "loan_status",
            "loan_status",
            "Does not meet the credit policy. Status:Fully Paid",
            "Fully Paid",
        ),
        ("loan_status", "loan_status", "Issued", "Issued"),
        ("loan_status", "loan_status", "Default", "Default"),
        ("application_type", "application_type", "Joint App", "joint"),
        ("application_type", "application_type", "Individual", "individual"),
        ("initial_listing_status", "initial_list_status", False, "fractional"),  # DuckDB's
        ("initial_listing_status", "initial_list_status", "false", "fractional"),
        ("homeownership", "home_ownership", "ANY", "ANY"),
        ("purpose", "purpose", "educational", "educational"),
    ],
)
def test_old_and_new_spellings_mean_the_same_code(column, name, spelling, label, loans):
    got = checked_table(as_kaggle(loans).assign(**{name: spelling}), "loan.csv").table[column]
    assert (got == LABELS[column].index(label)).all()


def test_labels_stand_once_and_sub_grades_in_order():
    assert all(len(set(labels)) == len(labels) for labels in LABELS.values())
    assert len(LABELS["state"]) == 51 and list(LABELS["state"]) == sorted(LABELS["state"])
    assert (
        LABELS["sub_grade"][0] == "A1"
        and LABELS["sub_grade"][-1] == "G5"
        and len(LABELS["sub_grade"]) == 35
    )
    assert not set(AFTERWARDS) & set(PRICE) and set(BEFORE_THE_PRICE) == set(FEATURES) - set(
        AFTERWARDS
    ) - set(PRICE)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_missing_values_become_the_stated_constants(layout, loans):
    raw, names = (
        LAYOUTS[layout](loans),
        {"OpenIntro": lending.OPENINTRO, "Kaggle": lending.KAGGLE}[layout],
    )
    alone = int(np.argmin(loans["joint"]))
    for column, constant in MISSING.items():
        got = checked_table(
            raw.assign(**{names[column]: raw[names[column]].where(raw.index != alone)}), "x.csv"
        ).table[column]
        others = loans["liens"][alone] if (layout, column) == ("OpenIntro", "public_records") else 0
        assert got[alone] == constant + others
    ratio, joint = names["debt_to_income"], int(np.argmax(loans["joint"]))
    got = checked_table(raw.assign(**{ratio: raw[ratio].where(raw.index != joint)}), "x.csv").table[
        "debt_to_income"
    ]
    assert got[joint] == 12.5
    if layout == "Kaggle":  # that file's own marks for a gap
        got = checked_table(
            raw.assign(
                dti=raw["dti"].where(raw.index != joint, -1),
                emp_length=raw["emp_length"].where(raw.index != joint, "n/a"),
            ),
            "x.csv",
        ).table
        assert got["debt_to_income"][joint] == 12.5 and got["emp_length"][joint] == 0


# bad files


def minmax(values):
    return (values - values.min()) / (values.max() - values.min())


def at(row, value, column):
    def change(table):
        values = table[column].astype(object)
        values[row] = value
        return table.assign(**{column: values.infer_objects()})

    return change


PERCENT = " {:.2f}%".format
NO_FIT = (
    "the interest rate does not belong to these rows: amount, term and rate give the "
    r"instalment of \d+ of \d+ rows to 1%, expected at least half$"
)
BAD = {
    "renamed": (
        "OpenIntro",
        lambda t: t.rename(columns={"balance": "Balance"}),
        "column 'balance' is missing \\(found ",
    ),
    "dropped": (
        "Kaggle",
        lambda t: t.drop(columns="funded_amnt"),
        "column 'funded_amnt' is missing .*Kaggle's loan.csv",
    ),
    "no liens": (
        "OpenIntro",
        lambda t: t.drop(columns="tax_liens"),
        "column 'tax_liens' is missing .*loans_full_schema.csv",
    ),
    "neither": (
        "Kaggle",
        lambda t: t.drop(columns="int_rate"),
        "column 'interest_rate' is missing .*or int_rate and the others",
    ),
    "no rows": ("OpenIntro", lambda t: t[:0], "no rows below the header"),
    "text": (
        "Kaggle",
        at(2, "much", "int_rate"),
        "column 'int_rate' must hold numbers, got 'much' in row 3",
    ),
    "text ratio": (
        "Kaggle",
        at(2, "high", "dti"),
        "column 'dti' must hold numbers, got 'high' in row 3",
    ),
    "NaN": (
        "OpenIntro",
        lambda t: t.assign(loan_amount=t["loan_amount"].where(t.index != 4)),
        "column 'loan_amount' must hold finite numbers, got nan in row 5",
    ),
    "infinite": (
        "OpenIntro",
        at(1, np.inf, "annual_income"),
        "column 'annual_income' must hold finite numbers, got inf",
    ),
    "no status": (
        "Kaggle",
        at(0, None, "loan_status"),
        "column 'loan_status' must be one of Issued, .*, got nan in row 1",
    ),
    "label": (
        "OpenIntro",
        at(7, "XX", "state"),
        "column 'state' must be one of AK, .* or another of 51, got 'XX' in row 8",
    ),
    "purpose": (
        "Kaggle",
        at(7, "a boat", "purpose"),
        "column 'purpose' must be one of car, .*, got 'a boat' in row 8",
    ),
    "listing": (
        "Kaggle",
        at(0, "x", "initial_list_status"),
        "column 'initial_list_status' must be one of whole, fractional, got 'x'",
    ),
    "label as a number": (
        "Kaggle",
        lambda t: t.assign(grade=1),
        "column 'grade' must be one of A, B, .*, got 1 in row 1",
    ),
    "month": (
        "Kaggle",
        at(3, "2011-12", "issue_d"),
        "column 'issue_d' must be a month such as Dec-2011, got '2011-12' in row 4",
    ),
    "no month": (
        "OpenIntro",
        at(3, None, "issue_month"),
        "column 'issue_month' must hold finite numbers, got nan in row 4",
    ),
    "too early": (
        "OpenIntro",
        at(3, "Dec-2006", "issue_month"),
        "column 'issue_month' must be between 0 and 240, got -1 in row 4",
    ),
    "first line": (
        "Kaggle",
        at(3, "1985", "earliest_cr_line"),
        "column 'earliest_cr_line' must be a month such as Dec-2011, got '1985'",
    ),
    "term": (
        "Kaggle",
        at(5, " 48 months", "term"),
        "column 'term' must be 36 or 60 months, got 48 in row 6",
    ),
    "term in words": (
        "Kaggle",
        at(5, "long", "term"),
        "column 'term' must hold numbers, got 'long' in row 6",
    ),
    "employment": (
        "Kaggle",
        at(5, "long", "emp_length"),
        "column 'emp_length' must hold numbers, got 'long'",
    ),
    "employed too long": (
        "OpenIntro",
        at(5, 11.0, "emp_length"),
        "column 'emp_length' must be between 0 and 10, got 11 in row 6",
    ),
    "rate as a share": (
        "OpenIntro",
        lambda t: t.assign(interest_rate=t["interest_rate"] / 100),
        "column 'interest_rate' must be between 4 and 36, got 0\\.\\d+ in row 1",
    ),
    "negative balance": (
        "Kaggle",
        at(9, -1.0, "out_prncp"),
        "column 'out_prncp' must be between 0 and 50,000, got -1 in row 10",
    ),
    "negative ratio": (
        "OpenIntro",
        at(9, -7.0, "debt_to_income"),
        "column 'debt_to_income' must be between -1 and 10,000, got -7",
    ),
    "half a delinquency": (
        "Kaggle",
        at(9, 0.5, "delinq_2yrs"),
        "column 'delinq_2yrs' must hold whole numbers, got 0.5 in row 10",
    ),
    "half a lien": (
        "OpenIntro",
        at(9, 0.5, "tax_liens"),
        "column 'tax_liens' must hold whole numbers, got 0.5 in row 10",
    ),
    "half a year": (
        "OpenIntro",
        at(9, 2.5, "emp_length"),
        "column 'emp_length' must hold whole numbers, got 2.5 in row 10",
    ),
    "per cent in words": (
        "Kaggle",
        lambda t: at(2, "10.65 percent", "int_rate")(t.assign(int_rate=t["int_rate"].map(PERCENT))),
        "column 'int_rate' must hold numbers, got '10.65 percent' in row 3",
    ),
    "two sentences": (
        "Kaggle",
        at(3, "Total amount funded in policy code 1: 5", "loan_status"),
        "column 'loan_status' must be one of Issued, .*, got 'Total amount funded in policy",
    ),
    "a loan cut short": (
        "Kaggle",
        lambda t: pd.concat([t, pd.DataFrame({"id": [10775]})]),
        "column 'int_rate' must hold finite numbers, got nan in row 401 of 401 .a file cut short",
    ),
    "a sentence below OpenIntro's loans": (
        "OpenIntro",
        lambda t: pd.concat([t, pd.DataFrame({"emp_title": ["registered nurse of a hospital"]})]),
        "column .* must hold finite numbers, got nan in row 401 of 401 .a file cut short",
    ),
    "empty column": (
        "OpenIntro",
        lambda t: t.assign(emp_length=t["emp_length"].where(t.index < 100)),
        "column 'emp_length' is empty in 300 of 400 rows, expected at most half",
    ),
    "too many rows": (
        "OpenIntro",
        lambda t: pd.concat([t] * 26),
        "10,400 rows, expected at most 10,000",
    ),
    "one row twice": (
        "OpenIntro",
        lambda t: pd.concat([t, t[5:6]]),
        "1 of 401 rows repeat an earlier row exactly, expected at most 0: this is a",
    ),
    "oversampled": (
        "Kaggle",
        lambda t: pd.concat([t, t[:22]]),
        "22 of 422 rows repeat an earlier row exactly, expected at most 21: this is a",
    ),
    "rates permuted": (
        "OpenIntro",
        lambda t: t.assign(interest_rate=t["interest_rate"].sample(frac=1, random_state=1).array),
        NO_FIT,
    ),
    "rates as shares": (
        "Kaggle",
        lambda t: t.assign(int_rate=t["int_rate"] / 100),
        "column 'int_rate' must be between 4 and 36, got 0",
    ),
    "amounts, min-max": (
        "Kaggle",
        lambda t: t.assign(funded_amnt=minmax(t["funded_amnt"])),
        r"column 'funded_amnt' must be between 500 and 50,000, got \S+ in row",
    ),
    "incomes, min-max": (
        "OpenIntro",
        lambda t: t.assign(annual_income=minmax(t["annual_income"])),
        r"column 'annual_income' has median 0\.\S+, expected at least 1000: these rows were ",
    ),
    "incomes in thousands": (
        "Kaggle",
        lambda t: t[:100].assign(annual_inc=t["annual_inc"] / 1_000),
        r"column 'annual_income' has median \S+, expected at least 1000: these rows were ",
    ),
    "debts as shares": (
        "Kaggle",
        lambda t: t.assign(dti=t["dti"] / 100),
        r"column 'debt_to_income' has median 0\.\S+, expected at least 1: these rows were ",
    ),
    "rates inverted": ("Kaggle", lambda t: t.assign(int_rate=36 - t["int_rate"]), NO_FIT),
    "rates invented": ("Kaggle", lambda t: t[:20].assign(int_rate=np.linspace(5, 30, 20)), NO_FIT),
}
HONEST = {
    "as they are": lambda t: t,
    "another order": lambda t: t.sample(frac=1, random_state=2),
    "too few to judge": lambda t: t[:19].assign(**{t.filter(regex="int.*_rate").columns[0]: 11.0}),
    **{
        f"{n} at random, {seed}": lambda t, n=n, seed=seed: t.sample(n, random_state=seed)
        for n in (20, 100, 300)
        for seed in range(3)
    },
}


@pytest.mark.parametrize("layout, change, sentence", BAD.values(), ids=BAD.keys())
def test_a_wrong_table_is_refused_with_file_column_and_expectation(layout, change, sentence, loans):
    with pytest.raises(ValueError, match=f"^some.csv: {sentence}") as caught:
        checked_table(change(LAYOUTS[layout](loans)), "some.csv")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("choose", HONEST.values(), ids=HONEST.keys())
def test_a_part_of_honest_rows_is_taken(layout, choose, loans):
    chosen = choose(LAYOUTS[layout](loans))
    assert len(checked_table(chosen, "some.csv").table) == len(chosen) > 0


# the platform's own files

PROLOGUE = "Notes offered by Prospectus (https://www.lendingclub.com/info/prospectus.action)"
POLICY = "Loans that do not meet the credit policy"
FUNDED = "Total amount funded in policy code {}: {}"


def as_the_platform_writes(loans, sentences):
    """Lending Club's own CSV: a prologue, rates with %, Latin-1, sentences between and below the
    loans, empty lines.

    sentences: by the number of loans above each.
    """
    table = as_kaggle(loans).drop(columns="url")
    table = table.assign(int_rate=table["int_rate"].map(PERCENT), emp_title="caf\xe9, \xabchef\xbb")
    header, *lines = table.to_csv(index=False).splitlines()
    text = [PROLOGUE, header]
    for n, line in enumerate(lines + [""]):
        text += [f'"{sentence}"' for sentence in sentences.get(n, [])]
        text += [line] * bool(line)
    return ("\n".join(text) + "\n\n\n").encode("latin-1")


@pytest.mark.parametrize("name", ["loan.csv", "accepted_2007_to_2018Q4.csv.gz"])
def test_the_platforms_own_files_give_the_same_loans(name, loans, tmp_path, monkeypatch):
    monkeypatch.delenv("PPKIT_SOURCE", raising=False)
    sentences = {100: [POLICY], 250: ["", ""], 400: [FUNDED.format(1, 460296150)]}
    sentences[400].append(FUNDED.format(2, 0))
    content = as_the_platform_writes(loans, sentences)
    content = gzip.compress(content) if name.endswith("gz") else content
    (tmp_path / name).write_bytes(content)
    data = datasets.load("lending", root=tmp_path)
    plain = checked_table(as_kaggle(loans), "x.csv").table
    np.testing.assert_array_equal(data.y, plain["interest_rate"].to_numpy(np.float32))
    np.testing.assert_array_equal(data.X, plain[list(FEATURES)].to_numpy(np.float32))
    assert data.source == "real subset, unverified: 400 of 887,379 rows (Kaggle)"
    assert data.note.endswith(
        f"; left out above the header: {PROLOGUE[:60]!r}; not in UTF-8, read as Latin-1; lines "
        f"without a value, left out: 2; lines that are no loans, left out: 3, such as {POLICY!r}"
    )


@pytest.mark.parametrize("column", ["id", "member_id", "loan_amnt"])
def test_the_sentences_of_a_compilation_are_left_out_wherever_they_stand(column, loans):
    """As in the file of 2007 to 2018: 33 of them, in the first column, all else empty."""
    table = as_kaggle(loans).assign(**{column: None})
    here = np.linspace(0, 400, 33).astype(int)
    lines = pd.DataFrame({column: [FUNDED.format(n % 2 + 1, 100 * n) for n in range(33)]})
    order = np.argsort(np.r_[np.arange(400), here - 0.5], kind="stable")
    mixed = pd.concat([table, lines], ignore_index=True).iloc[order]
    checked, plain = checked_table(mixed, "x.csv"), checked_table(as_kaggle(loans), "x.csv")
    pd.testing.assert_frame_equal(checked.table, plain.table)
    assert checked.note == (
        f"lines that are no loans, left out: 33, such as {FUNDED.format(1, 0)!r}"
    )
    assert plain.note == "" and checked.of_rows == plain.of_rows


def test_a_loan_that_was_cut_short_is_no_sentence(loans):
    """Beside sentences, pandas reads the ids as texts."""
    table = as_kaggle(loans)
    table["id"] = table["id"].astype(str)
    lines = pd.DataFrame({"id": [POLICY, "1077501"]})
    with pytest.raises(ValueError, match="got nan in row 401 of 401 .a file cut short"):
        checked_table(pd.concat([table, lines]), "x.csv")


# the Dataset


def test_rows_are_arranged_in_file_order_with_the_month_as_time(table):
    data = arranged(table, kind="real", of_rows=10_000, variant="OpenIntro")
    assert data.source == "real subset, unverified: 3,000 of 10,000 rows (OpenIntro)"
    assert data.target == "interest rate, % a year"
    assert (
        data.feature_names == FEATURES
        and data.X.shape == (3_000, 28)
        and data.X.dtype == data.y.dtype == np.float32
    )
    assert data.account is None and data.numeric.all() and data.time.dtype == np.float64
    assert data.time.base is None  # no view that would hold the whole table as long as it lives
    np.testing.assert_array_equal(data.X, table[list(FEATURES)].astype(np.float32))
    np.testing.assert_array_equal(data.y, table["interest_rate"].astype(np.float32))
    np.testing.assert_array_equal(data.time, table["issue_month"])
    assert (
        arranged(table, kind="stand-in", of_rows=None, variant="").source == "stand-in: 3,000 rows"
    )


def test_load_takes_either_file_whatever_its_name_and_openintro_first(loans, tmp_path, monkeypatch):
    monkeypatch.delenv("PPKIT_SOURCE", raising=False)
    monkeypatch.setenv("PPKIT_HOME", str(tmp_path / "home"))
    for folder in ("home/notebooks", "home/ppkit", "one"):
        (tmp_path / folder).mkdir(parents=True)
    with gzip.open(tmp_path / "one" / "loan.csv.gz", "wt") as file:
        as_openintro(loans).to_csv(file, index=False)
    data = datasets.load("lending", root=tmp_path / "one")
    assert data.source == "real subset, unverified: 400 of 10,000 rows (OpenIntro)"
    as_kaggle(loans[:300]).to_csv(tmp_path / "one" / "loans_full_schema.csv", index=False)
    data = datasets.load("lending", root=tmp_path / "one")
    assert data.source == "real subset, unverified: 300 of 887,379 rows (Kaggle)"
    assert data.name == "lending"


# the real development rows


@NEEDS_ROWS
def test_the_real_development_files_pass_the_checks():
    folder = project.root() / os.environ["PPKIT_REAL_DATA"]
    data = datasets.load("lending", "real", root=folder)
    assert data.source == "real: 10,000 rows (OpenIntro)" and data.y.mean() == pytest.approx(
        12.4275, abs=1e-3
    )
    other = checked_table(pd.read_csv(folder / "loan.csv", low_memory=False), "loan.csv")
    assert other.layout == "Kaggle" and other.table.shape == (999, 29)
    for table in (
        other.table,
        checked_table(pd.read_csv(folder / "loans_full_schema.csv"), "loans_full_schema.csv").table,
    ):
        r = table["interest_rate"] / 1200
        annuity = table["loan_amount"] * r / (1 - (1 + r) ** -table["term"])
        assert (abs(annuity - table["installment"]) < 0.011).mean() > 0.99
    for name, rate in (("loans_full_schema.csv", "interest_rate"), ("loan.csv", "int_rate")):
        rows = pd.read_csv(folder / name, low_memory=False)
        for choose in HONEST.values():
            assert len(checked_table(choose(rows), name).table) > 0
        with pytest.raises(ValueError, match=f"^{name}: {NO_FIT}".replace(r"\d+", r"[\d,]+")):
            permuted = rows[rate].sample(frac=1, random_state=1).array
            checked_table(rows.assign(**{rate: permuted})[:-1], name)
        with pytest.raises(ValueError, match=f"^{name}: .* rows repeat an earlier row exactly, "):
            checked_table(pd.concat([rows[:900], rows[:60]]), name)
