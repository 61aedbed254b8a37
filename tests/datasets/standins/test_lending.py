"""The stand-in of lending: its loans obey a loan's arithmetic."""

import numpy as np
import pytest
import standin_tables

from ppkit.datasets import standins
from ppkit.datasets.lending import COLUMNS, arranged
from ppkit.datasets.lending_layouts import LABELS, RANGES


@pytest.fixture(scope="module")
def drawn():
    return standin_tables.loans(standins.parameters("lending"), 10_000, np.random.default_rng(1))


@pytest.mark.slow
def test_a_sampled_loan_obeys_the_arithmetic_of_a_loan(drawn):
    amount, term, r = drawn["loan_amount"], drawn["term"], drawn["interest_rate"] / 1200
    np.testing.assert_allclose(
        drawn["installment"], amount * r / (1 - (1 + r) ** -term), atol=0.00501
    )
    np.testing.assert_array_equal(drawn["grade"], drawn["sub_grade"] // 5)
    assert 0.002 < (drawn["paid_late_fees"] > 0).mean() < 0.01
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
