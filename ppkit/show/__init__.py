"""How results look: digits and tables, figures, and controls with a still picture beneath them."""

from ppkit.show.controls import control, progress
from ppkit.show.figures import COLOURS, band, finish, new, paper_marks
from ppkit.show.numbers import number, source, sources, table

__all__ = [
    "COLOURS",
    "band",
    "control",
    "finish",
    "new",
    "number",
    "paper_marks",
    "progress",
    "source",
    "sources",
    "table",
]
