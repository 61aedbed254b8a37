"""lending: two layouts that give one table, bad files refused in one sentence, a stand-in that
obeys a loan's arithmetic."""

import gzip
import os

import numpy as np
import pandas as pd
import pytest
import standin_tables
from invented_loans import as_kaggle, as_openintro, invented
from scipy import stats

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
from ppkit.datasets.lending_layouts import LABELS, MISSING, RANGES
from ppkit.datasets.standins import lending as standin
from ppkit.datasets.standins.distributions import from_uniform, looked_up, mixture_cdfs
from tools.standins import lending as fitting
from tools.standins.distributions import atoms, scores

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


@pytest.fixture(scope="module")
def fitted(table):
    return fitting.fit(table, np.random.default_rng(0))


@pytest.fixture(scope="module")
def drawn(fitted):
    return standin_tables.loans(fitted, 10_000, np.random.default_rng(1))


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


# the columns' distributions


def test_every_bin_holds_fifty_rows_and_together_they_keep_mean_and_shares(
    rng=np.random.default_rng(5),
):
    values = np.r_[np.repeat([3.0, 7.0], [400, 900]), np.round(rng.gamma(2, 5, 2_000), 2)]
    bins = atoms(values)
    assert (
        bins[:, 0].sum() == pytest.approx(1)
        and (bins[:, 0] * len(values) > 49.9).all()
        and (np.diff(bins[:, 1]) > 0).all()
    )
    assert {3.0, 7.0} <= set(bins[bins[:, 2] == 0, 1])
    assert bins[:, 0] @ bins[:, 1] == pytest.approx(values.mean(), rel=5e-3)
    assert (bins[bins[:, 1] == 7.0, 0] * len(values)).item() == pytest.approx(900, abs=49)
    rare = np.r_[np.zeros(5_000), 9_999.0]
    assert (
        atoms(rare).shape == (1, 3) and 0 < atoms(rare)[0, 1] < 3
    )  # one row's value is in a mean over all


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


def test_the_mixtures_own_distribution_is_the_sum_over_components():
    mixture = {
        "weights": np.array([0.2, 0.8]),
        "means": np.array([[-1.0], [0.5]]),
        "factors": np.array([[[0.05]], [[1.5]]]),
    }
    z = np.linspace(-7, 7, 333)
    slow = [
        0.2 * stats.norm(-1.0, 0.05).cdf(one) + 0.8 * stats.norm(0.5, 1.5).cdf(one) for one in z
    ]
    [table] = mixture_cdfs(mixture)
    np.testing.assert_allclose(looked_up(z, table), slow, atol=2e-5)


def test_scores_keep_the_order_and_the_association_that_ties_hide():
    rng, n = np.random.default_rng(1), 8_000
    a, b = rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], n).T
    columns = np.column_stack(
        [a, b > 0.8, np.where(rng.random(n) < 0.3, np.nan, a), np.full(n, 5.0)]
    )
    Z = scores(columns, np.random.default_rng(2))
    assert (
        np.isfinite(Z).all()
        and (np.abs(Z.mean(axis=0)) < 0.05).all()
        and (np.abs(Z.std(axis=0) - 1) < 0.05).all()
    )
    assert Z[columns[:, 1] == 0, 1].max() <= Z[columns[:, 1] == 1, 1].min()
    np.testing.assert_array_equal(np.argsort(Z[:, 0]), np.argsort(a))
    # the standard error of a correlation of 8,000 rows is under .012, of one seen through a tie
    # under .03: six of them
    assert (
        abs(np.corrcoef(Z.T)[0, 1] - 0.6)
        < 0.1
        < 0.6 - np.corrcoef(scores(columns, rng, sweeps=0).T)[0, 1]
    )
    assert abs(np.corrcoef(Z.T)[0, 3]) < 0.07 and np.corrcoef(Z.T)[0, 2] > 0.9
    left = scores(columns, np.random.default_rng(2), at_random=(1,))
    np.testing.assert_array_equal(
        left[:, 1], scores(columns, np.random.default_rng(2), sweeps=0)[:, 1]
    )


# the stand-in


@pytest.mark.slow
def test_the_same_seed_gives_the_same_rows_and_any_number_can_be_had(fitted, drawn):
    for rows in (1, 7, 10_000):
        one = standin_tables.loans(fitted, rows, np.random.default_rng(1))
        assert len(one) == rows and tuple(one.columns) == COLUMNS
    pd.testing.assert_frame_equal(one, drawn)
    assert not standin_tables.loans(fitted, 10_000, np.random.default_rng(2)).equals(drawn)


@pytest.mark.slow
def test_fitting_is_seeded_small_and_made_of_plain_numbers(table, fitted):
    again = fitting.fit(table, np.random.default_rng(0))
    assert fitted.keys() == again.keys() and all(
        (fitted[key] == again[key]).all() for key in fitted
    )
    assert sum(value.nbytes for value in fitted.values()) < 150_000
    assert all(
        value.dtype in (np.float32, np.int32) and np.isfinite(value).all()
        for value in fitted.values()
    )
    assert (fitted["weights"] * len(table) >= 49).all()
    for key in fitted:
        if key.startswith("atoms_"):
            assert (fitted[key][:, 0] * len(table) > 49).all() or len(fitted[key]) == 1
    with pytest.raises(ValueError, match="at least 50 rows, got 49"):
        fitting.fit(table[:49], np.random.default_rng(0))


@pytest.mark.slow
def test_no_value_of_one_row_is_kept_and_none_moves_a_parameter_by_more_than_a_fiftieth(
    table, fitted
):
    extreme = {"annual_income": 9e7, "public_records": 52, "debt_to_income": 469.09}
    moved = table.copy()
    moved.loc[1_500, list(extreme)] = list(extreme.values())
    other = fitting.fit(moved, np.random.default_rng(0))
    for column, value in extreme.items():
        before, after = fitted[f"atoms_{column}"][:, 1], other[f"atoms_{column}"][:, 1]
        assert before.max() < after.max() < before.max() + value / 50


@pytest.mark.slow
def test_a_side_of_fewer_than_fifty_rows_gets_no_mixture_of_its_own(table):
    columns = np.random.default_rng(3).normal(size=(1_000, len(standin.AXES)))
    term, two = (standin.AXES.index(name) for name in fitting.SIDES)
    columns[:, term], columns[:, two] = np.where(np.arange(1_000) < 500, 36, 60), 0
    for joint, sides in ((0, 2), (49, 2), (50, 3)):
        columns[:, two] = np.arange(1_000) < joint
        parts = fitting._mixtures(columns, np.random.default_rng(0))
        assert len({(round(a, 6), round(b, 6)) for a, b in parts["means"][:, [term, two]]}) == sides
        assert (parts["weights"] * 1_000 >= 49.99).all()


def test_rare_labels_are_counted_together_or_not_at_all():
    codes = np.repeat([0, 1, 2, 3, 5], [500, 400, 30, 25, 45])
    rate = codes + 10.0
    order, share, key = fitting._ordered(codes, rate, 7)
    assert (
        set(order) == {0, 1, 2, 3, 5}
        and list(order[:2]) == [0, 1]
        and share.sum() == pytest.approx(1)
    )
    np.testing.assert_allclose(share[2:], 0.1 / 3)
    assert len(set(key)) == 3 and key[-1] == pytest.approx(np.mean(rate[900:]))
    few = np.repeat([4, 1, 0], [500, 470, 30])
    order, share, key = fitting._ordered(few, few + 10.0, 7)
    assert (
        list(order) == [1, 0, 4]
        and share[1] == pytest.approx(25 / 995)
        and key[-1] == pytest.approx(np.mean(few + 10.0))
    )


@pytest.mark.slow
def test_a_sampled_loan_obeys_the_arithmetic_of_a_loan(drawn):
    amount, term, r = drawn["loan_amount"], drawn["term"], drawn["interest_rate"] / 1200
    np.testing.assert_allclose(
        drawn["installment"], amount * r / (1 - (1 + r) ** -term), atol=0.00501
    )
    np.testing.assert_array_equal(drawn["grade"], drawn["sub_grade"] // 5)
    assert 0.02 < (drawn["paid_late_fees"] > 0).mean() < 0.08
    np.testing.assert_allclose(
        drawn["paid_total"],
        drawn["paid_principal"] + drawn["paid_interest"] + drawn["paid_late_fees"],
        atol=1e-6,
    )
    written_off = drawn["loan_status"] == LABELS["loan_status"].index("Charged Off")
    paid = drawn["loan_status"] == LABELS["loan_status"].index("Fully Paid")
    assert written_off.any() and paid.any()
    np.testing.assert_allclose(
        drawn["paid_principal"] + drawn["balance"],
        np.where(written_off, drawn["paid_principal"], amount),
        atol=1e-6,
    )
    assert (drawn.loc[written_off | paid, "balance"] == 0).all() and (
        drawn.loc[~(written_off | paid), "balance"] > 0
    ).mean() > 0.99


@pytest.mark.slow
def test_a_sampled_table_is_one_that_the_checks_would_pass(drawn):
    for column in COLUMNS:
        if column in LABELS:
            assert drawn[column].isin(range(len(LABELS[column]))).all()
        else:
            assert (
                drawn[column].between(*RANGES[column]).all() and not np.signbit(drawn[column]).any()
            )
    assert drawn["term"].isin((36, 60)).all() and (drawn["loan_amount"] % 25 == 0).all()
    for column in (
        "emp_length",
        "delinq_2y",
        "total_credit_lines",
        "earliest_credit_line",
        "issue_month",
        "public_records",
    ):
        assert (drawn[column] % 1 == 0).all()
    data = arranged(drawn, kind="stand-in", of_rows=None, variant="")
    assert data.source == "stand-in: 10,000 rows"


def test_shares_and_distributions_are_the_fitted_tables(table, drawn):
    # by the DKW bound 10,000 draws are .03 or more off with chance 2 exp(-2 * 10,000 * .03^2) =
    # 3e-8; a bin adds .017
    for column in COLUMNS:
        assert stats.ks_2samp(table[column], drawn[column]).statistic < 0.05, column
    for column in (
        "homeownership",
        "verified_income",
        "application_type",
        "initial_listing_status",
        "term",
    ):
        want, got = (one[column].value_counts(normalize=True) for one in (table, drawn))
        assert (want - got.reindex(want.index, fill_value=0)).abs().max() < 0.05
    cells, ours = (
        pd.crosstab(one["term"], one["application_type"], normalize=True) for one in (table, drawn)
    )
    np.testing.assert_allclose(ours, cells, atol=0.03)  # six standard errors of a share of 10,000
    assert drawn["state"].nunique() == 4  # also the state of one row in a hundred


def test_a_columns_distribution_does_not_depend_on_where_the_mixture_stands(fitted, drawn):
    moved = fitted | {
        "means": fitted["means"] + np.arange(fitted["means"].shape[1], dtype=np.float32) / 16
    }
    assert (
        standin_tables.loans(moved, 10_000, np.random.default_rng(1)) == drawn
    ).mean().min() > 0.95  # the rest: rounding


def test_associations_are_kept(table, drawn):
    # six standard errors of a difference of two correlations of 3,000 and 10,000 rows are .125
    want, got = table.corr("spearman"), drawn.corr("spearman")
    for one, other in (
        ("interest_rate", "term"),
        ("interest_rate", "application_type"),
        ("interest_rate", "loan_amount"),
        ("loan_amount", "issue_month"),
        ("homeownership", "interest_rate"),
    ):
        assert abs(want.loc[one, other] - got.loc[one, other]) < 0.125
    assert want.loc["interest_rate", "term"] > 0.25  # there is something to keep


@pytest.mark.parametrize("column", ["interest_rate", "loan_amount"])
def test_the_drift_over_the_file_is_kept(column, table, drawn):
    """wu2020 gives each owner consecutive rows: the thirds of the stand-in differ as the thirds of
    the file do."""
    want, got = (
        [part.mean() for part in np.array_split(one[column].to_numpy(), 3)]
        for one in (table, drawn)
    )
    spread = table[column].std()
    assert want[0] < want[1] < want[2] and (want[2] - want[0]) / spread > 0.5
    # a third's mean has a standard error of .032 deviations in the table and .017 in the draw: .22
    # is six of both
    np.testing.assert_allclose(np.array(got) / spread, np.array(want) / spread, atol=0.22)


@pytest.mark.slow
def test_the_drift_over_the_months_is_kept_and_a_price_changed_by_a_hundredth_is_none(table):
    month = table["issue_month"] - 133
    coarse = (
        table["interest_rate"] / 5
    ).round() * 5 - 0.01 * month  # few prices, a little lower each month
    for rate in (coarse, coarse + month):
        changed = table.assign(interest_rate=rate)
        got = standin_tables.loans(
            fitting.fit(changed, np.random.default_rng(0)), 20_000, np.random.default_rng(1)
        )
        # six standard errors of a correlation of 20,000 rows are .042; ranks alone would make -.26
        # of the hundredths
        want = np.corrcoef(rate, month)[0, 1]
        assert np.corrcoef(got["interest_rate"], got["issue_month"])[0, 1] == pytest.approx(
            want, abs=0.1
        )
    assert want > 0.15


@pytest.mark.slow
def test_without_drift_the_thirds_are_alike():
    flat = checked_table(as_openintro(invented(3_000)), "x.csv").table
    got = standin_tables.loans(
        fitting.fit(flat, np.random.default_rng(0)), 10_000, np.random.default_rng(1)
    )
    thirds = [part.mean() for part in np.array_split(got["interest_rate"].to_numpy(), 3)]
    assert max(thirds) - min(thirds) < 0.3 * got["interest_rate"].std()


@pytest.mark.slow
@pytest.mark.parametrize("rows", [60, 700])
def test_few_rows_and_the_kaggle_layout_can_be_fitted_too(rows):
    table = checked_table(as_kaggle(invented(rows)), "loan.csv").table
    table = table.assign(application_type=0.0, issue_month=59.0)
    got = standin_tables.loans(
        fitting.fit(table, np.random.default_rng(0)), 500, np.random.default_rng(0)
    )
    assert (
        len(got) == 500 and np.isfinite(got.to_numpy()).all() and (got["issue_month"] == 59).all()
    )
    assert (got["application_type"] == 0).all()


@pytest.mark.slow
def test_a_big_file_is_thinned_before_it_is_fitted(table, monkeypatch):
    monkeypatch.setattr(fitting, "ROWS_FITTED", 1_600)
    thinned, halved = (
        fitting.fit(one, np.random.default_rng(0)) for one in (table, table.iloc[::2])
    )
    assert all((thinned[key] == halved[key]).all() for key in thinned)


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
        got = standin_tables.loans(
            fitting.fit(table, np.random.default_rng(0)), 2_000, np.random.default_rng(1)
        )
        assert abs(got["interest_rate"].mean() - table["interest_rate"].mean()) < 0.5
    for name, rate in (("loans_full_schema.csv", "interest_rate"), ("loan.csv", "int_rate")):
        rows = pd.read_csv(folder / name, low_memory=False)
        for choose in HONEST.values():
            assert len(checked_table(choose(rows), name).table) > 0
        with pytest.raises(ValueError, match=f"^{name}: {NO_FIT}".replace(r"\d+", r"[\d,]+")):
            permuted = rows[rate].sample(frac=1, random_state=1).array
            checked_table(rows.assign(**{rate: permuted})[:-1], name)
        with pytest.raises(ValueError, match=f"^{name}: .* rows repeat an earlier row exactly, "):
            checked_table(pd.concat([rows[:900], rows[:60]]), name)
