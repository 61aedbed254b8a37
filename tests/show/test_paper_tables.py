"""A paper's table beside ours keeps the paper's layout, and its differences are right."""

from types import SimpleNamespace

import pytest

from ppkit import show
from ppkit.verdicts.ledger import FORMULA

TABLE = SimpleNamespace(
    name="Table I",
    columns=["q", "basic", "advanced"],
    rows={"row 1": ["0.01", "3.01", "0.37"], "row 8": ["1", "14,312.4", "n/a"]},
)


def test_three_lines_a_row_in_the_papers_order():
    ours = {("row 1", "basic"): 3.0141, ("row 8", "basic"): 14312.0, ("row 8", "advanced"): 2.0}
    shown = show.beside(TABLE, ours, data=FORMULA)
    assert list(shown.columns) == TABLE.columns
    assert [(row, line) for row, line in shown.index] == [
        (row, line) for row in TABLE.rows for line in ("printed", "ours", "difference")
    ]
    assert shown["q"].tolist() == ["0.01", "", "", "1", "", ""]
    assert shown["basic"].tolist() == ["3.01", "3.01", "+0.00", "14,312.4", "14,312.0", "-0.4"]
    assert shown["advanced"].tolist() == ["0.37", "", "", "n/a", "2", ""]
    assert "Data: formula." in shown._repr_html_()


def test_more_digits_on_request():
    shown = show.beside(TABLE, {("row 1", "basic"): 3.0141}, data=FORMULA, digits=4)
    assert shown["basic"].tolist()[:3] == ["3.01", "3.0141", "+0.0041"]


def test_a_cell_that_the_paper_does_not_have_is_named():
    with pytest.raises(KeyError, match=r"Table I has no cell \('row 1', 'delta'\)"):
        show.beside(TABLE, {("row 1", "delta"): 1.0}, data=FORMULA)
