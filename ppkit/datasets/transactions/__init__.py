"""A simulator of card transactions in place of wang2018's bank data, which nobody can have."""

from .population import simulate
from .sampling import paper_sample

__all__ = ["paper_sample", "simulate"]
