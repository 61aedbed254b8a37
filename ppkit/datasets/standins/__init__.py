"""Stand-ins: samplers fitted on the real rows, for everybody who has none.

`tools/standins` fits and measures them.
"""

from collections.abc import Callable
from importlib import resources

import numpy as np
from numpy.random import Generator

from ppkit.datasets.dataset import Dataset
from ppkit.datasets.standins import creditcard, distress, lending
from ppkit.datasets.standins.distributions import Arrays

SAMPLERS: dict[str, Callable[..., Dataset]] = {
    "creditcard": creditcard.dataset,
    "distress": distress.dataset,
    "lending": lending.dataset,
}
FOLDER = resources.files("ppkit.datasets.standins").joinpath("parameters")


def sample(name: str, rows: int, rng: Generator, variant: str = "") -> Dataset:
    """Rows of a stand-in, in the real file's order of time.

    name: a key of SAMPLERS.  rows: how many, >= 1.  variant: as of `load`, of distress not "".
    Guarantee: the same rng and rows give the same rows; fewer rows are not the first of more.
    """
    return SAMPLERS[name](parameters(name), rows, rng, variant)


def parameters(name: str) -> Arrays:
    """What was fitted, as it is shipped inside the package."""
    with FOLDER.joinpath(f"{name}.npz").open("rb") as file, np.load(file) as stored:
        return dict(stored)
