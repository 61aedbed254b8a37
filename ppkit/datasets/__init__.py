"""The data of the four papers: real files where they are, else an honest substitute."""

from ppkit.datasets.dataset import Dataset, standardise, train_test, undersample
from ppkit.datasets.loading import NAMES, load, status

__all__ = ["NAMES", "Dataset", "load", "standardise", "status", "train_test", "undersample"]
