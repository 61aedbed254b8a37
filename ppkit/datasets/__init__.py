"""The data of the four papers: real files where they are, else an honest substitute."""

from .dataset import Dataset, standardise, undersample
from .loading import NAMES, load, status
from .splitting import train_test

__all__ = ["NAMES", "Dataset", "load", "standardise", "status", "train_test", "undersample"]
