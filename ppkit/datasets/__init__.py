"""The data of the four papers: real files where they are, an honest substitute where they are
not.
"""

from .dataset import Dataset, standardise, undersample
from .loading import NAMES, load
from .overview import status
from .splitting import train_test

__all__ = ["NAMES", "Dataset", "load", "standardise", "status", "train_test", "undersample"]
