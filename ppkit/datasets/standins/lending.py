"""The stand-in of lending: a mixture of normals, columns' distributions, loans' arithmetic."""

from collections.abc import Iterator

import numpy as np
from numpy.random import Generator

from ppkit.datasets import lending
from ppkit.datasets.dataset import Dataset
from ppkit.datasets.lending import FEATURES
from ppkit.datasets.lending_layouts import LABELS, RANGES
from ppkit.datasets.standins.blocks import Block, in_order, streams
from ppkit.datasets.standins.distributions import (
    Arrays,
    Table,
    draw_mixture,
    from_uniform,
    looked_up,
    mixture_cdfs,
)

NOMINAL = (
    "homeownership",
    "verified_income",
    "loan_status",
    "purpose",
    "state",
    "application_type",
    "initial_listing_status",
)
DRAWN = (
    "interest_rate",
    "loan_amount",
    "term",
    "emp_length",
    "annual_income",
    "issue_month",
    "debt_to_income",
    "delinq_2y",
    "earliest_credit_line",
    "total_credit_lines",
    "open_credit_lines",
    "num_collections_last_12m",
    "current_accounts_delinq",
    "public_records",
    "stage",
    "lag",
    "late_fees",
)
AXES = ("place", *DRAWN, *NOMINAL)  # the axes of the mixture; place: in the file
DECIMALS = {"interest_rate": 2, "debt_to_income": 2, "stage": 2, "lag": 3}
CHARGED_OFF, PAID = (
    float(LABELS["loan_status"].index(label)) for label in ("Charged Off", "Fully Paid")
)
LATE_FEE, LATE_SHARE = 15.0, 0.05  # a fee is $15, or 5% of the instalment if that is more


def dataset(parameters: Arrays, rows: int, rng: Generator, variant: str = "") -> Dataset:
    """So many rows of the stand-in, in the file's order.

    parameters: as `tools/standins/lending.py` fits them.  rows: >= 1.  rng: of the draw.
    variant: "".
    Guarantee: as of `draw_blocks`, but for the rounding to float32.
    """
    drawn = draw_blocks(parameters, rows, rng)
    X, y = in_order(drawn, rows=rows, features=len(FEATURES), target=np.float32)
    issued = X[:, FEATURES.index("issue_month")]
    return lending.assembled(X, y, issued, kind="stand-in", of_rows=None, variant=variant)


def draw_blocks(parameters: Arrays, rows: int, rng: Generator) -> Iterator[Block]:
    """The same rows block by block, as float64.

    Guarantee: the instalment is the annuity of amount, term and rate;
    paid_principal + balance = loan_amount unless the loan is charged off (then the balance is 0, as
    in the files); paid_total is the sum of what was paid; grade is sub_grade // 5;
    all in the ranges of `lending_layouts.RANGES`.
    """
    kept = {name: value.astype(np.float64) for name, value in parameters.items()}
    cdfs = mixture_cdfs(kept)
    for size, stream in streams(rows, rng):
        yield _block(kept, cdfs, draw_mixture(kept, size, stream))


def _block(kept: Arrays, cdfs: list[Table], axes: np.ndarray) -> Block:
    """The loans of draws on AXES, axes (25, m)."""
    out = {}
    for axis, name in enumerate(AXES[1:], start=1):
        below = looked_up(axes[axis], cdfs[axis])
        if name in NOMINAL:
            ends = np.cumsum(kept[f"share_{name}"])
            out[name] = kept[f"order_{name}"][np.searchsorted(ends[:-1], below, side="right")]
        else:
            values = from_uniform(below, kept[f"atoms_{name}"]).round(DECIMALS.get(name, 0))
            out[name] = np.clip(values, *RANGES.get(name, (-np.inf, np.inf))) + 0.0  # no -0
    out["loan_amount"] = (out["loan_amount"] / 25).round() * 25
    out["debt_to_income"] = np.maximum(out["debt_to_income"], 0.0)
    out["term"] = np.where(out["term"] < 48, 36.0, 60.0)
    out["sub_grade"] = np.interp(
        out["interest_rate"], kept["atoms_interest_rate"][:, 1], kept["sub_grade"]
    ).round()
    out["grade"] = out["sub_grade"] // 5
    loans = _paid(out)
    return Block(
        np.column_stack([loans[name] for name in FEATURES]), loans["interest_rate"], axes[0]
    )


def _paid(out: Arrays) -> Arrays:
    """Instalment, balance and the paid amounts, in whole cents, from terms and course."""
    amount, term, r = out["loan_amount"], out["term"], out["interest_rate"] / 1200
    months = np.clip(out["stage"] - out["issue_month"], 0.0, term)
    instalments = np.where(
        out["loan_status"] == PAID, term, np.clip(months + out["lag"], 0.0, term)
    )
    out["installment"] = (amount * r / -np.expm1(-term * np.log1p(r))).round(2)
    out["paid_principal"] = (
        amount * np.expm1(instalments * np.log1p(r)) / np.expm1(term * np.log1p(r))
    ).round(2)
    out["paid_interest"] = (amount * r * months).round(2)
    out["paid_late_fees"] = (
        out["late_fees"] * np.maximum(LATE_FEE, LATE_SHARE * out["installment"])
    ).round(2)
    out["paid_total"] = (
        out["paid_principal"] + out["paid_interest"] + out["paid_late_fees"]
    ).round(2)
    out["balance"] = np.where(
        out["loan_status"] == CHARGED_OFF, 0.0, (amount - out["paid_principal"]).round(2)
    )
    return out
