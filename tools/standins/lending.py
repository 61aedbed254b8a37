"""Fits the stand-in of `lending`."""

import numpy as np
import pandas as pd
from numpy.random import Generator

from ppkit.datasets.lending import COLUMNS
from ppkit.datasets.lending_layouts import LABELS
from ppkit.datasets.standins.distributions import Arrays
from ppkit.datasets.standins.lending import AXES, DRAWN, LATE_FEE, LATE_SHARE, NOMINAL, PAID
from tools.standins.distributions import ROWS_A_KNOT, atoms, mixture, scores

COMPONENTS = 12
SIDES = ("term", "application_type")  # columns of two values that divide the rows
# % a year: rates are ranked but for this, or a month's price list would look like a drift
PRICE_CHANGE = 0.25


def fit(table: pd.DataFrame, rng: Generator) -> Arrays:
    """The parameters of the stand-in from canonical rows in the order of their file.

    Each of AXES becomes normal scores (see `scores`): the place in the file, so that every drift
    over the file is an association like any other; the numbers, the rate but for PRICE_CHANGE; the
    course of the loan as three numbers (see `_course`); the categories in ascending order of their
    mean rate.  A mixture of about COMPONENTS normals holds how they hang together; per number the
    bins of `atoms`, per category the shares, hold how each is distributed; per bin of the rate its
    middle sub-grade.
    table: as `checked_table` gives it.
    rng: spreads ties, starts the mixture.
    Returns float32 and int32 arrays.  ValueError for fewer than 50 rows.
    Guarantee: none that is formal; every number is over at least 50 rows.
    """
    seen = {column: table[column].to_numpy(np.float64) for column in COLUMNS} | _course(table)
    seen["place"] = np.arange(len(table), dtype=float)
    fitted = {}
    for column in DRAWN:
        fitted[f"atoms_{column}"] = atoms(seen[column][~np.isnan(seen[column])])
    fitted["sub_grade"] = _middle_sub_grades(
        fitted["atoms_interest_rate"], seen["interest_rate"], seen["sub_grade"]
    )
    for column in NOMINAL:
        order, share, key = _ordered(
            seen[column].astype(int), seen["interest_rate"], len(LABELS[column])
        )
        fitted[f"order_{column}"], fitted[f"share_{column}"] = order, share
        seen[column] = key
    moved = rng.uniform(-PRICE_CHANGE, PRICE_CHANGE, len(table))
    seen["interest_rate"] = seen["interest_rate"] + moved
    fitted |= _mixtures(np.column_stack([seen[axis] for axis in AXES]), rng)
    return {
        key: value.astype(np.int32 if key.startswith("order_") else np.float32)
        for key, value in fitted.items()
    }


def _mixtures(columns: np.ndarray, rng: Generator) -> Arrays:
    """One mixture per combination of SIDES that 50 rows have, put together as one; the columns of
    SIDES stand still in each.

    columns: (N, D), in the order of AXES.  Returns weights (K,), means (K, D), factors (K, D, D).
    """
    Z = scores(columns, rng, at_random=(AXES.index("issue_month"),))
    side = np.zeros(len(columns), int)
    for name in SIDES:
        axis = AXES.index(name)
        upper = columns[:, axis] > columns[:, axis].min()
        for rows in (upper, ~upper):
            Z[rows, axis] = Z[rows, axis].mean()
        side = 2 * side + upper
    parts = []
    for one in np.flatnonzero(np.bincount(side) >= ROWS_A_KNOT):
        rows = side == one
        part = mixture(Z[rows], max(1, round(COMPONENTS * rows.mean())), rng)
        parts.append(part | {"weights": part["weights"] * rows.mean()})
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def _course(table: pd.DataFrame) -> Arrays:
    """What happened to each loan, as three numbers that do not depend on its size.

    stage: issue_month + how many months' interest on the whole amount were paid: for a loan in
    order it is about the month of the report, whenever the loan was made.  lag: the instalments
    repaid, that is the n for which the schedule's principal,
    amount ((1+r)^n - 1) / ((1+r)^term - 1), is what has been repaid, less those months: about 0.2
    in the first year, more where more than the instalments was paid; nan for a loan fully paid.
    late_fees: how many.
    """
    amount, r = table["loan_amount"], table["interest_rate"] / 1200
    repaid = (table["paid_principal"] / amount).clip(0, 1)
    instalments = np.log1p(repaid * np.expm1(table["term"] * np.log1p(r))) / np.log1p(r)
    months = table["paid_interest"] / (amount * r)
    fee = np.maximum(LATE_FEE, LATE_SHARE * table["installment"])
    course = {
        "stage": (table["issue_month"] + months).round(2),
        "lag": (instalments - months).where(table["loan_status"] != PAID),
        "late_fees": np.ceil(table["paid_late_fees"] / fee - 0.5).clip(0),
    }
    return {name: values.to_numpy() for name, values in course.items()}


def _ordered(
    codes: np.ndarray, rate: np.ndarray, labels: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The codes seen, by ascending mean rate, with their shares.

    Codes of under 50 rows are one there and share evenly; if all of them together have under 50
    rows, they stand for 25 rows of the mean rate, so that neither says anything of a few rows but
    that there are such.
    codes: (N,) from 0 to labels - 1, N >= 50.  rate: (N,).
    Returns order (m,), share (m,), and for every row its code's mean rate.
    """
    counts = np.bincount(codes, minlength=labels)
    rare = (counts > 0) & (counts < ROWS_A_KNOT)
    group = np.where(rare, labels, np.arange(labels))  # the rare are one more group, the last
    rows = np.bincount(group[codes], minlength=labels + 1)
    means = np.bincount(group[codes], rate, labels + 1) / np.maximum(rows, 1)
    weight = counts.astype(float)
    if rare.any():
        weight[rare] = (rows[-1] if rows[-1] >= ROWS_A_KNOT else ROWS_A_KNOT / 2) / rare.sum()
    if rows[-1] < ROWS_A_KNOT:
        means[-1] = rate.mean()
    key, seen = means[group], np.flatnonzero(counts)
    order = seen[np.argsort(key[seen], kind="stable")]
    return order, weight[order] / weight.sum(), key[codes]


def _middle_sub_grades(bins: np.ndarray, rate: np.ndarray, sub_grade: np.ndarray) -> np.ndarray:
    """The median sub-grade of each bin's rows, in ascending order of the rate; never falling."""
    ends = np.cumsum(bins[:, 0] * len(rate)).round().astype(int)
    parts = np.split(sub_grade[np.lexsort((sub_grade, rate))], ends[:-1])
    return np.maximum.accumulate([np.median(part) for part in parts])
