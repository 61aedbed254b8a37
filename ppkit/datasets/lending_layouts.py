"""The two layouts in which Lending Club's loans are passed on, and the one table of numbers that
both are turned into.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ppkit.datasets.checks import numbers, refuse

if TYPE_CHECKING:
    import pandas as pd

_STATES = (
    "AK AL AR AZ CA CO CT DC DE FL GA HI IA ID IL IN KS KY LA MA MD ME MI MN MO MS MT NC ND NE NH "
    "NJ NM NV NY OH OK OR PA RI SC SD TN TX UT VA VT WA WI WV WY"
)

LABELS: dict[str, tuple[str, ...]] = {  # the code of a label is its place
    "grade": tuple("ABCDEFG"),
    "sub_grade": tuple(f"{grade}{step}" for grade in "ABCDEFG" for step in range(1, 6)),
    "homeownership": ("RENT", "OWN", "MORTGAGE", "OTHER", "NONE", "ANY"),
    "verified_income": ("Not Verified", "Source Verified", "Verified"),
    "loan_status": (
        "Issued",
        "Current",
        "In Grace Period",
        "Late (16-30 days)",
        "Late (31-120 days)",
        "Default",
        "Charged Off",
        "Fully Paid",
    ),
    "purpose": (
        "car",
        "credit_card",
        "debt_consolidation",
        "educational",
        "home_improvement",
        "house",
        "major_purchase",
        "medical",
        "moving",
        "other",
        "renewable_energy",
        "small_business",
        "vacation",
        "wedding",
    ),
    "state": tuple(_STATES.split()),
    "application_type": ("individual", "joint"),
    "initial_listing_status": ("whole", "fractional"),
}
_ALIASES = {
    "joint app": "joint",
    "w": "whole",
    "f": "fractional",
    "false": "fractional",  # DuckDB takes a column of "f" for truth values
    "does not meet the credit policy. status:fully paid": "fully paid",
    "does not meet the credit policy. status:charged off": "charged off",
}

MISSING = {
    "emp_length": 0.0,
    "annual_income": 0.0,
    "debt_to_income": 0.0,
    "delinq_2y": 0.0,
    "earliest_credit_line": 2007.0,
    "total_credit_lines": 0.0,
    "open_credit_lines": 0.0,
    "num_collections_last_12m": 0.0,
    # what stands where the file has a gap
    "current_accounts_delinq": 0.0,
    "public_records": 0.0,
}

RANGES = {
    "loan_amount": (500, 50_000),
    "term": (36, 60),
    "interest_rate": (4, 36),
    "installment": (1, 3_000),
    "emp_length": (0, 10),
    "annual_income": (0, 2e8),
    "issue_month": (0, 240),
    "debt_to_income": (-1, 10_000),
    "delinq_2y": (0, 100),
    "earliest_credit_line": (1900, 2030),
    "total_credit_lines": (0, 300),
    "open_credit_lines": (0, 200),
    "num_collections_last_12m": (0, 50),
    "current_accounts_delinq": (0, 50),
    "public_records": (0, 150),
    "balance": (0, 50_000),
    "paid_total": (0, 150_000),
    "paid_principal": (0, 50_001),
    "paid_interest": (0, 100_000),
    "paid_late_fees": (-0.01, 5_000),
}

KAGGLE = {
    "interest_rate": "int_rate",
    "loan_amount": "funded_amnt",
    "term": "term",
    "installment": "installment",
    "grade": "grade",
    "sub_grade": "sub_grade",
    "emp_length": "emp_length",
    "homeownership": "home_ownership",
    "annual_income": "annual_inc",
    "verified_income": "verification_status",
    "issue_month": "issue_d",
    "loan_status": "loan_status",
    "purpose": "purpose",
    "state": "addr_state",
    "debt_to_income": "dti",
    "delinq_2y": "delinq_2yrs",
    "earliest_credit_line": "earliest_cr_line",
    "total_credit_lines": "total_acc",
    "open_credit_lines": "open_acc",
    "application_type": "application_type",
    "initial_listing_status": "initial_list_status",
    "num_collections_last_12m": "collections_12_mths_ex_med",
    "current_accounts_delinq": "acc_now_delinq",
    "public_records": "pub_rec",
    "balance": "out_prncp",
    "paid_total": "total_pymnt",
    "paid_principal": "total_rec_prncp",
    "paid_interest": "total_rec_int",
    # canonical column -> column of the Kaggle file
    "paid_late_fees": "total_rec_late_fee",
}
WHOLE = (  # how many, or which year
    "emp_length",
    "delinq_2y",
    "earliest_credit_line",
    "total_credit_lines",
    "open_credit_lines",
    "num_collections_last_12m",
    "current_accounts_delinq",
    "public_records",
)
OPENINTRO = {column: column for column in KAGGLE} | {
    "purpose": "loan_purpose",
    "public_records": "public_record_bankrupt",
}
_UNIT = r"\+?( months| years?|%)$"
JOINT_RATIO = {"OpenIntro": "debt_to_income_joint", "Kaggle": "dti_joint"}
# added to the bankruptcies, OpenIntro only
LIENS = "tax_liens"


def canonical(table: pd.DataFrame, names: dict[str, str], layout: str, file: str) -> pd.DataFrame:
    """The rows of either layout as the same 29 columns of numbers.

    table: holds every column that `names` names.  names: KAGGLE or OPENINTRO.  layout: "Kaggle" or
    "OpenIntro".
    Categories become their place in LABELS; months count from January 2007; a gap becomes the
    constant of MISSING, and a missing debt_to_income first the joint one.
    Returns float64 columns in the order of KAGGLE.  ValueError with file, column, row, value and
    expectation.
    """
    import pandas as pd

    out = {column: _column(table, column, names[column], layout, file) for column in KAGGLE}
    if layout == "OpenIntro":
        liens = _filled(table[LIENS], 0.0, file)
        n_liens = numbers(liens, file, *RANGES["public_records"], whole=True)
        out["public_records"] = out["public_records"] + n_liens
    return pd.DataFrame(out, copy=False)


def _column(table: pd.DataFrame, column: str, name: str, layout: str, file: str) -> np.ndarray:
    values = table[name].replace("n/a", np.nan)
    if column in LABELS:
        return _codes(values, LABELS[column], file)
    if column in ("issue_month", "earliest_credit_line"):
        values = _of_dates(values, column, file)
    else:
        values = _of_texts(values, file)
    if column == "debt_to_income":
        values = _joint_where_missing(table, values, JOINT_RATIO[layout], file)
    if column in MISSING:
        values = _filled(values, MISSING[column], file)
    held = numbers(values, file, *RANGES[column], whole=column in WHOLE)
    if column == "term":
        refuse(~np.isin(held, (36, 60)), values, file, "be 36 or 60 months")
    return np.maximum(held, 0.0) if column == "paid_late_fees" else held


def _codes(values: pd.Series, labels: tuple[str, ...], file: str) -> np.ndarray:
    """The place of each label; the case of its letters says nothing."""
    places = {label.lower(): float(code) for code, label in enumerate(labels)}
    for alias, label in _ALIASES.items():
        if label in places:
            places[alias] = places[label]
    codes = values.astype(str).str.strip().str.lower().map(places)
    shown = ", ".join(labels[:6]) + (f" or another of {len(labels)}" if len(labels) > 6 else "")
    refuse(codes.isna(), values, file, f"be one of {shown}")
    return codes.to_numpy()


def _of_dates(values: pd.Series, column: str, file: str) -> pd.Series:
    """Texts such as Dec-2011 as months from January 2007, or as years; years stay as they are."""
    import pandas as pd

    if column == "earliest_credit_line" and pd.api.types.is_numeric_dtype(values):
        return values
    dates = pd.to_datetime(values.astype(str).str.strip(), format="%b-%Y", errors="coerce")
    refuse(dates.isna() & values.notna(), values, file, "be a month such as Dec-2011")
    if column == "earliest_credit_line":
        return dates.dt.year.rename(values.name)
    months = (dates.dt.year - 2007) * 12 + dates.dt.month - 1
    return months.rename(values.name)


def _of_texts(values: pd.Series, file: str) -> pd.Series:
    """Numbers out of texts such as " 36 months", "10+ years", "< 1 year" and " 10.65%"."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(values):
        return values
    bare = values.astype(str).str.strip().str.replace(_UNIT, "", regex=True).replace("< 1", "0")
    read = pd.to_numeric(bare, errors="coerce")
    refuse(read.isna() & values.notna(), values, file, "hold numbers")
    return read


def _filled(values: pd.Series, constant: float, file: str) -> pd.Series:
    gaps = int(values.isna().sum())
    if 2 * gaps > len(values):
        raise ValueError(
            f"{file}: column {values.name!r} is empty in {gaps:,} of {len(values):,} "
            "rows, expected at most half"
        )
    return values.fillna(constant) if gaps else values


def _joint_where_missing(table: pd.DataFrame, own: pd.Series, joint: str, file: str) -> pd.Series:
    """The borrower's own ratio; where it is missing (or -1, Kaggle's mark for that), the two
    borrowers' ratio.
    """
    import pandas as pd

    own = own.replace(-1, np.nan)
    if joint not in table.columns or not own.isna().any() or table[joint].isna().all():
        return own
    both = numbers(table[joint].fillna(0.0), file, 0, 10_000)
    return own.fillna(pd.Series(both, index=own.index))
