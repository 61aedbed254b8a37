"""The two layouts in which Lending Club's loans are passed on, and the one table of numbers that
both are turned into.
"""

from collections.abc import Callable
from datetime import datetime

import numpy as np
import pandas as pd

from .checks import numbers, refuse

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
    out = {column: _column(table, column, names[column], layout, file) for column in KAGGLE}
    if layout == "OpenIntro":
        out["public_records"] = out["public_records"] + numbers(
            _filled(table[LIENS], 0.0, file), file, *RANGES["public_records"], whole=True
        )
    return pd.DataFrame(out, copy=False)


def _column(table: pd.DataFrame, column: str, name: str, layout: str, file: str) -> np.ndarray:
    values = table[name]
    if column in LABELS:
        return _codes(values, LABELS[column], file)
    if column == "debt_to_income":
        values = _joint_where_missing(table, values, JOINT_RATIO[layout], file)
    if column == "issue_month" or column in _TEXTS and not _is_number(values):
        values = _read(values, *_TEXTS[column], file)
    if column == "interest_rate" and not _is_number(values):
        values = _without_percent(values)
    if column in MISSING:
        values = _filled(values, MISSING[column], file)
    held = numbers(values, file, *RANGES[column], whole=column in WHOLE)
    wrong = ~np.isin(held, (36, 60)) & (column == "term")
    refuse(wrong, file, name, "be 36 or 60 months", lambda row: f"{held[row]:g}")
    return np.maximum(held, 0.0) if column == "paid_late_fees" else held


def _without_percent(values: pd.Series) -> pd.Series:
    """Rates such as " 10.65%", as the platform writes them, as numbers; another text stays text."""
    texts = values.astype(str).str.strip().str.removesuffix("%").where(values.notna())
    read = pd.to_numeric(texts, errors="coerce")
    return texts if (read.isna() & values.notna()).any() else read


def _is_number(values: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)


def _refuse(wrong: np.ndarray, values: pd.Series, expected: str, file: str) -> None:
    """One sentence on the first wrong row, if there is one."""

    def got(row: int) -> str:
        return "nothing" if pd.isna(values.iloc[row]) else repr(str(values.iloc[row]))

    refuse(wrong, file, values.name, f"be {expected}", got)


def _read(values: pd.Series, read: Callable[[str], float], expected: str, file: str) -> pd.Series:
    """Each different text of a column read once; gaps stay gaps, a ValueError of `read` is said."""
    known = {}
    for value in values.dropna().unique():
        try:
            known[value] = read(str(value).strip())
        except (ValueError, KeyError):
            known[value] = np.inf
    found = pd.Series(values.map(known).to_numpy(np.float64, na_value=np.nan), name=values.name)
    _refuse(np.isinf(found.to_numpy()), values, expected, file)
    return found


def _codes(values: pd.Series, labels: tuple[str, ...], file: str) -> np.ndarray:
    places = {label.lower(): float(code) for code, label in enumerate(labels)}
    places = {also: places[label] for also, label in _ALIASES.items() if label in places} | places
    shown = ", ".join(labels[:6]) + (f" or another of {len(labels)}" if len(labels) > 6 else "")
    codes = _read(values, lambda text: places[text.lower()], f"one of {shown}", file)
    _refuse(codes.isna().to_numpy(), values, f"one of {shown}", file)
    return codes.to_numpy()


def _month(text: str) -> float:
    """Months from January 2007 to a text such as Dec-2011."""
    date = datetime.strptime(text, "%b-%Y")
    return (date.year - 2007) * 12.0 + date.month - 1


def _years(text: str) -> float:
    texts = {"< 1 year": "0", "10+ years": "10", " years": "", " year": "", "n/a": "nan"}
    for old, new in texts.items():
        text = text.replace(old, new)
    return float(text)


_TEXTS: dict[str, tuple[Callable[[str], float], str]] = {  # how a text is read, and what it may be
    "term": (lambda text: float(text.replace(" months", "")), "36 or 60 months"),
    "emp_length": (_years, "a length such as '3 years'"),
    "issue_month": (_month, "a month such as Dec-2011"),
    "earliest_credit_line": (lambda text: _month(text) // 12 + 2007, "a month such as Dec-2011"),
}


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
    if not _is_number(own):
        return own  # refused as text a step later
    own = own.where(own != -1)
    if joint not in table.columns or not own.isna().any() or table[joint].isna().all():
        return own
    return own.fillna(
        pd.Series(numbers(table[joint].fillna(0.0), file, 0, 10_000), index=own.index)
    )
