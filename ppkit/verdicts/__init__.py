"""Claims of papers, and the verdicts that rules compute on what a notebook measured.

    from ppkit.verdicts import FORMULA, Ledger

    page = Ledger("micrograd", notebook="readme", profile="quick")
    page.record("forward", 24.7041, data=FORMULA)
    page.table()

A paper's claims stand in a TOML file, one table each, with the rule that decides it. This room
knows no paper and no method: it imports nothing of ppkit but what finds, reads and writes files.
"""

from ppkit.verdicts.ledger import FORMULA, Ledger, answer, reference, summary
from ppkit.verdicts.statements import claims, tables

__all__ = ["FORMULA", "Ledger", "answer", "claims", "reference", "summary", "tables"]
