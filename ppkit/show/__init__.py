"""How results look: digits and tables, figures, controls with a still picture beneath them; and how
a lesson asks and answers."""

from ppkit.show.controls import control, progress
from ppkit.show.figures import COLOURS, band, finish, new, paper_marks
from ppkit.show.lesson import check, judge, predict
from ppkit.show.numbers import between, keep, number, source, sources, table
from ppkit.show.paper_tables import beside
from ppkit.show.parties import Sent, sent

__all__ = [
    "COLOURS",
    "Sent",
    "band",
    "beside",
    "between",
    "check",
    "control",
    "finish",
    "judge",
    "keep",
    "new",
    "number",
    "paper_marks",
    "predict",
    "progress",
    "sent",
    "source",
    "sources",
    "table",
]
