"""A simulator of card transactions in place of wang2018's bank data, which nobody can have."""

from .population import simulate
from .sampling import rows_touched

__all__ = ["rows_touched", "simulate"]
