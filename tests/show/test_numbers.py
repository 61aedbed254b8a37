"""Shown digits are the same everywhere, and a table says where its numbers come from."""

import numpy as np
import pytest

from ppkit import show
from ppkit.verdicts.ledger import FORMULA


def test_digits_are_fixed_and_minus_zero_is_zero():
    assert [show.number(x, 2) for x in (1.005, -0.001, np.float32(2.5), None, "text", True)] == [
        "1.00",
        "0.00",
        "2.50",
        "",
        "text",
        "yes",
    ]


def test_tables_from_dicts_and_lists():
    frame = show.table({"a": {"x": 1.0, "y": 2}}, digits=1, data=FORMULA)
    assert frame.loc["a"].tolist() == ["1.0", "2"]
    frame = show.table([{"x": 0.5}, {"x": 0.25}], digits=2, data=FORMULA)
    assert frame["x"].tolist() == ["0.50", "0.25"]


def test_a_table_says_its_source_beneath_and_one_of_words_says_none():
    from ppkit.datasets import load

    loans, cards = (load(name, "standin", rows=40) for name in ("lending", "creditcard"))
    shown = show.table({"a": 1.0}, data=cards)
    assert shown._repr_html_().endswith("<p>Data: stand-in: 40 rows.</p>")
    both = show.table({"a": 1.0}, data=(loans, cards))
    said = f"Data: lending {loans.source}, creditcard {cards.source}."
    assert both._repr_html_().endswith(f"<p>{said}</p>")
    words = show.table({"a": "x"}, data=None)
    assert "Data" not in words._repr_html_()
    with pytest.raises(TypeError, match="data"):
        show.table({"a": 1.0})
