"""A simulator of card transactions in place of wang2018's bank data, which nobody can have."""

from ppkit.datasets.transactions.population import simulate
from ppkit.datasets.transactions.sampling import rows_touched

__all__ = ["rows_touched", "simulate"]
