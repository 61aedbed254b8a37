"""wu2020: owners of records, a learner who asks them for noisy gradients, theorems, forecasts,
coalitions."""

from ppkit.collaboration.coalition import best_coalition
from ppkit.collaboration.training import train

__all__ = ["best_coalition", "train"]
