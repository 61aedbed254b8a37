"""The stand-in of `lending`: a mixture of normals under the columns' own distributions, and the arithmetic of a loan."""

import math

import numpy as np
import pandas as pd

from ..lending import COLUMNS
from ..lending_layouts import LABELS, RANGES
from . import mixture
from .atoms import atoms, from_uniform, mixture_cdf
from .marginals import ROWS_A_KNOT
from .ranks import scores

COMPONENTS, ROWS_FITTED = 12, 100_000
NOMINAL = ("homeownership", "verified_income", "loan_status", "purpose", "state", "application_type",
           "initial_listing_status")
DRAWN = ("interest_rate", "loan_amount", "term", "emp_length", "annual_income", "issue_month", "debt_to_income", "delinq_2y",
         "earliest_credit_line", "total_credit_lines", "open_credit_lines", "num_collections_last_12m",
         "current_accounts_delinq", "public_records", "stage", "lag", "late_fees")
AXES = ("place", *DRAWN, *NOMINAL)                                 # the axes of the mixture; place: in the file
SIDES = ("term", "application_type")                               # columns of two values that divide the rows
DECIMALS = {"interest_rate": 2, "debt_to_income": 2, "stage": 2, "lag": 3}
CHARGED_OFF, PAID = (float(LABELS["loan_status"].index(label)) for label in ("Charged Off", "Fully Paid"))
PRICE_CHANGE = 0.25        # % a year: rates are ranked but for this, or a month's price list would look like a drift
LATE_FEE, LATE_SHARE = 15.0, 0.05                                  # a fee is $15, or 5% of the instalment if that is more


def fit(table: pd.DataFrame, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The parameters of the stand-in from canonical rows in the order of their file.

    Each of AXES becomes normal scores (see `ranks`): the place in the file, so that every drift over the file is an
    association like any other; the numbers, the rate but for PRICE_CHANGE; the course of the loan as three numbers (see
    `_course`); the categories in ascending order of their mean rate.  A mixture of about COMPONENTS normals holds how they
    hang together; per number the bins of `atoms`, per category the shares, hold how each is distributed; per bin of the
    rate its middle sub-grade.
    table: as `checked_table` gives it, at least 50 rows; of more than ROWS_FITTED every second, third, ... is taken.
    rng: spreads ties, starts the mixture.
    Returns float32 and int32 arrays.  ValueError for fewer rows.
    Guarantee: none that is formal; every number is over at least 50 rows.
    """
    if len(table) < ROWS_A_KNOT:
        raise ValueError(f"the stand-in of lending is fitted on at least {ROWS_A_KNOT} rows, got {len(table)}")
    table = table.iloc[::math.ceil(len(table) / ROWS_FITTED)]
    seen = {column: table[column].to_numpy(np.float64) for column in COLUMNS} | _course(table)
    seen["place"], out = np.arange(len(table), dtype=float), {}
    for column in DRAWN:
        known = seen[column][~np.isnan(seen[column])]
        out[f"atoms_{column}"] = atoms(known if len(known) >= ROWS_A_KNOT else np.zeros(ROWS_A_KNOT))
    for column in NOMINAL:
        order, share, key = _ordered(seen[column].astype(int), seen["interest_rate"], len(LABELS[column]))
        out[f"order_{column}"], out[f"share_{column}"], seen[column] = order, share, key
    out["sub_grade"] = _middle_sub_grades(out["atoms_interest_rate"], seen["interest_rate"], seen["sub_grade"])
    seen["interest_rate"] = seen["interest_rate"] + rng.uniform(-PRICE_CHANGE, PRICE_CHANGE, len(table))
    out |= _mixtures(np.column_stack([seen[axis] for axis in AXES]), rng)
    return {key: value.astype(np.int32 if key.startswith("order_") else np.float32) for key, value in out.items()}


def sample(parameters: dict[str, np.ndarray], rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """So many rows of the stand-in, in the canonical layout and in the file's order.

    parameters: as `fit` returns them.  rows: >= 1.  rng: of the draw.
    Returns float64 columns in the order of COLUMNS.  ValueError if rows < 1.
    Guarantee: the instalment is the annuity of amount, term and rate; paid_principal + balance = loan_amount unless the
    loan is charged off (then the balance is 0, as in the files); paid_total is the sum of what was paid; grade is
    sub_grade // 5; all in the ranges of `lending_layouts.RANGES`.
    """
    if rows < 1:
        raise ValueError(f"rows must be >= 1, got {rows}")
    Z = mixture.sample(parameters, rows, rng)
    Z = Z[np.argsort(Z[:, 0], kind="stable")]
    deviations = np.sqrt((np.asarray(parameters["factors"], np.float64) ** 2).sum(axis=2))
    out = {}
    for axis, name in enumerate(AXES[1:], start=1):
        p = mixture_cdf(Z[:, axis], parameters["weights"], parameters["means"][:, axis], deviations[:, axis])
        if name in NOMINAL:
            share = np.cumsum(parameters[f"share_{name}"], dtype=np.float64)
            place = np.minimum(np.searchsorted(share[:-1], p, side="right"), len(share) - 1)
            out[name] = parameters[f"order_{name}"][place].astype(np.float64)
        else:
            out[name] = from_uniform(p, parameters[f"atoms_{name}"]).round(DECIMALS.get(name, 0))
            out[name] = np.clip(out[name], *RANGES.get(name, (-np.inf, np.inf))) + 0.0         # no -0
    out["loan_amount"] = (out["loan_amount"] / 25).round() * 25
    out["debt_to_income"] = np.maximum(out["debt_to_income"], 0.0)
    out["term"] = np.where(out["term"] < 48, 36.0, 60.0)
    out["sub_grade"] = np.interp(out["interest_rate"], parameters["atoms_interest_rate"][:, 1],
                                 parameters["sub_grade"]).round()
    out["grade"] = out["sub_grade"] // 5
    return pd.DataFrame(_paid(out))[list(COLUMNS)]


def _mixtures(columns: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """One mixture per combination of SIDES that 50 rows have, put together as one; the columns of SIDES stand still in each.

    columns: (N, D), in the order of AXES.  Returns weights (K,), means (K, D), factors (K, D, D).
    """
    Z = scores(columns, rng, at_random=(AXES.index("issue_month"),))
    side = np.zeros(len(columns), int)
    for name in SIDES:
        axis = AXES.index(name)
        upper = columns[:, axis] > columns[:, axis].min()
        for rows in (upper, ~upper):
            Z[rows, axis] = Z[rows, axis].mean() if rows.any() else 0.0
        side = 2 * side + upper
    if np.bincount(side).max() < ROWS_A_KNOT:
        side[:] = 0
    parts = []
    for one in np.flatnonzero(np.bincount(side) >= ROWS_A_KNOT):
        rows = side == one
        part = mixture.fit(Z[rows], max(1, round(COMPONENTS * rows.mean())), rng)
        parts.append(part | {"weights": part["weights"] * rows.mean()})
    return {key: np.concatenate([part[key] for part in parts]) for key in ("weights", "means", "factors")}


def _course(table: pd.DataFrame) -> dict[str, np.ndarray]:
    """What happened to each loan, as three numbers that do not depend on its size.

    stage: issue_month + how many months' interest on the whole amount were paid: for a loan in order it is about the month
    of the report, whenever the loan was made.  lag: the instalments repaid, that is the n for which the schedule's
    principal, amount ((1+r)^n - 1) / ((1+r)^term - 1), is what has been repaid, less those months: about 0.2 in the first
    year, more where more than the instalments was paid; nan for a loan fully paid.  late_fees: how many.
    """
    r = table["interest_rate"].to_numpy() / 1200
    repaid = (table["paid_principal"] / table["loan_amount"]).to_numpy().clip(0, 1)
    instalments = np.log1p(repaid * np.expm1(table["term"].to_numpy() * np.log1p(r))) / np.log1p(r)
    months = table["paid_interest"].to_numpy() / (table["loan_amount"].to_numpy() * r)
    fee = np.maximum(LATE_FEE, LATE_SHARE * table["installment"].to_numpy())
    return {"stage": (table["issue_month"].to_numpy() + months).round(2),
            "lag": np.where(table["loan_status"] == PAID, np.nan, instalments - months),
            "late_fees": np.ceil(table["paid_late_fees"].to_numpy() / fee - 0.5).clip(0)}


def _paid(out: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Instalment, balance and the paid amounts, in whole cents, from the loan's terms and its course."""
    amount, term, r = out["loan_amount"], out["term"], out["interest_rate"] / 1200
    months = np.clip(out["stage"] - out["issue_month"], 0.0, term)
    instalments = np.where(out["loan_status"] == PAID, term, np.clip(months + out["lag"], 0.0, term))
    out["installment"] = (amount * r / -np.expm1(-term * np.log1p(r))).round(2)
    out["paid_principal"] = (amount * np.expm1(instalments * np.log1p(r)) / np.expm1(term * np.log1p(r))).round(2)
    out["paid_interest"] = (amount * r * months).round(2)
    out["paid_late_fees"] = (out["late_fees"] * np.maximum(LATE_FEE, LATE_SHARE * out["installment"])).round(2)
    out["paid_total"] = (out["paid_principal"] + out["paid_interest"] + out["paid_late_fees"]).round(2)
    out["balance"] = np.where(out["loan_status"] == CHARGED_OFF, 0.0, (amount - out["paid_principal"]).round(2))
    return out


def _ordered(codes: np.ndarray, rate: np.ndarray, labels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The codes seen, by ascending mean rate, with their shares.

    Codes of under 50 rows are one there and share evenly; if all of them together have under 50 rows, they stand for 25
    rows of the mean rate, so that neither says anything of a few rows but that there are such.
    codes: (N,) from 0 to labels - 1, N >= 50.  rate: (N,).
    Returns order (m,), share (m,), and for every row its code's mean rate.
    """
    counts = np.bincount(codes, minlength=labels)
    rare = (counts > 0) & (counts < ROWS_A_KNOT)
    group = np.where(rare, labels, np.arange(labels))              # the rare are one more group, the last
    rows = np.bincount(group[codes], minlength=labels + 1)
    means = np.bincount(group[codes], rate, labels + 1) / np.maximum(rows, 1)
    weight = counts.astype(float)
    if rows[-1] >= ROWS_A_KNOT:
        weight[rare] = rows[-1] / rare.sum()
    elif rows[-1]:
        means[-1], weight[rare] = rate.mean(), ROWS_A_KNOT / 2 / rare.sum()
    key, seen = means[group], np.flatnonzero(counts)
    order = seen[np.argsort(key[seen], kind="stable")]
    return order, weight[order] / weight.sum(), key[codes]


def _middle_sub_grades(bins: np.ndarray, rate: np.ndarray, sub_grade: np.ndarray) -> np.ndarray:
    """The median sub-grade of each bin's rows, the rows in ascending order of the rate; never falling."""
    ends = np.cumsum(bins[:, 0] * len(rate)).round().astype(int)
    parts = np.split(sub_grade[np.lexsort((sub_grade, rate))], ends[:-1])
    return np.maximum.accumulate([np.median(part) for part in parts])
