"""A simulator of card transactions in place of wang2018's bank data, which nobody can have."""

from .population import simulate
from .sampling import paper_sample
from .schema import GROUPS
from .unit import Touched, rows_touched

__all__ = ["GROUPS", "Touched", "paper_sample", "rows_touched", "simulate"]
