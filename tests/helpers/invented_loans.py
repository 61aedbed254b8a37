"""Loans that nobody was lent, in Lending Club's two layouts, for tests of what reads them."""

import numpy as np
import pandas as pd

from ppkit.datasets.lending_layouts import LABELS


def invented(n, seed=3, drift=0.0):
    """Invented loans in words, in neither layout; `drift` moves the rate and the amount from the
    first row to the last."""
    rng = np.random.default_rng(seed)
    later = drift * np.linspace(-0.5, 0.5, n)
    taste = rng.normal(size=n)
    step = np.clip(np.round(9 + 5 * (taste + later)), 0, 34).astype(int)
    loans = pd.DataFrame(
        {"sub_grade": np.array(LABELS["sub_grade"])[step], "rate": np.round(5.5 + 0.7 * step, 2)}
    )
    loans["amount"] = np.clip(
        np.round(rng.gamma(3, 200, n) * np.exp(later / 2)) * 25, 1_000, 40_000
    )
    loans["term"] = np.where(rng.random(n) < np.where(taste > 0, 0.5, 0.15), 60, 36)
    r = loans["rate"] / 1200
    loans["installment"] = (loans["amount"] * r / (1 - (1 + r) ** -loans["term"])).round(2)
    loans["length"] = rng.integers(0, 11, n).astype(float)
    loans["home"] = rng.choice(["RENT", "MORTGAGE", "OWN"], n, p=[0.4, 0.5, 0.1])
    loans["income"] = np.round(rng.lognormal(11, 0.5, n), -2)
    loans["verified"] = rng.choice(LABELS["verified_income"], n)
    loans["month"] = pd.to_datetime("2018-01-01") + pd.to_timedelta(31 * rng.integers(0, 3, n), "D")
    loans["status"] = np.where(
        rng.random(n) < 0.85, "Current", rng.choice(["Fully Paid", "Charged Off"], n, p=[0.8, 0.2])
    )
    loans["purpose"] = rng.choice(
        ["credit_card", "debt_consolidation", "car", "other"], n, p=[0.3, 0.5, 0.1, 0.1]
    )
    loans["state"] = rng.choice(["CA", "TX", "NY", "WY"], n, p=[0.5, 0.3, 0.19, 0.01])
    loans["ratio"] = np.round(rng.gamma(3, 6, n), 2)
    loans["first_year"] = rng.integers(1970, 2015, n)
    loans["joint"] = rng.random(n) < np.where(loans["term"] == 60, 0.45, 0.08)
    loans["whole"] = rng.random(n) < 0.8
    for name, mean in (
        ("delinquencies", 0.2),
        ("lines", 22),
        ("open_lines", 11),
        ("collections", 0.02),
        ("late_accounts", 0.001),
        ("bankruptcies", 0.1),
        ("liens", 0.05),
    ):
        loans[name] = rng.poisson(mean, n)
    paid = rng.integers(1, 6, n)
    repaid = loans["amount"] * ((1 + r) ** paid - 1) / ((1 + r) ** loans["term"] - 1)
    loans["principal"] = np.where(loans["status"] == "Fully Paid", loans["amount"], repaid).round(2)
    loans["interest"] = (paid * loans["installment"] - repaid).round(2)
    loans["fees"] = np.where(rng.random(n) < 0.05, 15.0, 0.0)
    loans["balance"] = np.where(
        loans["status"] == "Charged Off", 0, loans["amount"] - loans["principal"]
    ).round(2)
    return loans


def as_openintro(loans):
    """The loans in the layout of OpenIntro's file, with columns that are dropped."""
    return pd.DataFrame(
        {
            "emp_title": "clerk",
            "emp_length": loans["length"],
            "state": loans["state"],
            "homeownership": loans["home"],
            "annual_income": loans["income"],
            "verified_income": loans["verified"],
            "debt_to_income": loans["ratio"],
            "debt_to_income_joint": np.where(loans["joint"], 12.5, np.nan),
            "delinq_2y": loans["delinquencies"],
            "earliest_credit_line": loans["first_year"],
            "total_credit_lines": loans["lines"],
            "open_credit_lines": loans["open_lines"],
            "num_collections_last_12m": loans["collections"],
            "current_accounts_delinq": loans["late_accounts"],
            "tax_liens": loans["liens"],
            "public_record_bankrupt": loans["bankruptcies"],
            "loan_purpose": loans["purpose"],
            "application_type": np.where(loans["joint"], "joint", "individual"),
            "loan_amount": loans["amount"].astype(int),
            "term": loans["term"],
            "interest_rate": loans["rate"],
            "installment": loans["installment"],
            "grade": loans["sub_grade"].str[0],
            "sub_grade": loans["sub_grade"],
            "issue_month": loans["month"].dt.strftime("%b-%Y"),
            "loan_status": loans["status"],
            "initial_listing_status": np.where(loans["whole"], "whole", "fractional"),
            "balance": loans["balance"],
            "paid_total": (loans["principal"] + loans["interest"] + loans["fees"]).round(2),
            "paid_principal": loans["principal"],
            "paid_interest": loans["interest"],
            "paid_late_fees": loans["fees"],
        }
    )


def as_kaggle(loans):
    """The same loans in the layout of Kaggle's file."""
    words = {0: "< 1 year", 1: "1 year", 10: "10+ years"} | {
        years: f"{years} years" for years in range(2, 10)
    }
    return pd.DataFrame(
        {
            "id": np.arange(len(loans)),
            "url": "nowhere",
            "zip_code": "860xx",
            "loan_amnt": loans["amount"] + 25,
            "funded_amnt": loans["amount"],
            "term": loans["term"].map(" {} months".format),
            "int_rate": loans["rate"],
            "installment": loans["installment"],
            "grade": loans["sub_grade"].str[0],
            "sub_grade": loans["sub_grade"],
            "emp_length": loans["length"].map(words),
            "home_ownership": loans["home"],
            "annual_inc": loans["income"],
            "verification_status": loans["verified"],
            "issue_d": loans["month"].dt.strftime("%b-%Y"),
            "loan_status": loans["status"],
            "purpose": loans["purpose"],
            "addr_state": loans["state"],
            "dti": loans["ratio"],
            "dti_joint": np.where(loans["joint"], 12.5, np.nan),
            "delinq_2yrs": loans["delinquencies"].astype(float),
            "earliest_cr_line": loans["first_year"].map("Jan-{}".format),
            "total_acc": loans["lines"].astype(float),
            "open_acc": loans["open_lines"].astype(float),
            "application_type": np.where(loans["joint"], "JOINT", "INDIVIDUAL"),
            "initial_list_status": np.where(loans["whole"], "w", "f"),
            "collections_12_mths_ex_med": loans["collections"].astype(float),
            "acc_now_delinq": loans["late_accounts"].astype(float),
            "pub_rec": (loans["bankruptcies"] + loans["liens"]).astype(float),
            "out_prncp": loans["balance"],
            "total_pymnt": (loans["principal"] + loans["interest"] + loans["fees"]).round(2),
            "total_rec_prncp": loans["principal"],
            "total_rec_int": loans["interest"],
            "total_rec_late_fee": loans["fees"],
        }
    )
