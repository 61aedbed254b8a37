"""Stand-ins: samplers fitted on the real rows, for everybody who has none.

`tools/standins` fits and measures them.
"""

import hashlib
import io
import json
from collections.abc import Callable
from importlib import resources

import numpy as np
import pandas as pd

from . import creditcard, distress, lending

SAMPLERS: dict[str, Callable] = {
    "creditcard": creditcard.sample,
    "distress": distress.sample,
    "lending": lending.sample,
}
FOLDER = resources.files("ppkit.datasets.standins").joinpath("parameters")


def sample(name: str, rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Rows of a stand-in, in the checked layout of the real file and in its order of time.

    name: a key of SAMPLERS.  rows: how many, >= 1.
    Returns a table of that many rows.  ValueError if rows is out of range or the parameters' file
    is damaged.
    """
    if rows < 1:
        raise ValueError(f"rows must be >= 1, got {rows}")
    return SAMPLERS[name](parameters(name), rows, rng)


def parameters(name: str) -> dict[str, np.ndarray]:
    """What was fitted, as it is shipped inside the package.

    ValueError, in one sentence, if the file is missing or not the one that was measured.
    """
    file = f"{name}.npz"
    try:
        content = FOLDER.joinpath(file).read_bytes()
        whole = hashlib.sha256(content).hexdigest() == measured(name)["parameters"]
    except (OSError, ValueError, KeyError):
        whole = False
    if not whole:
        raise ValueError(
            f"{file}, the parameters of the stand-in for {name}, is missing or damaged: "
            f"install ppkit again, or run `make fit-standins` where the real file is"
        )
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        return {key: stored[key] for key in stored.files}


def measured(name: str) -> dict:
    """How faithful the stand-in is, as `make fit-standins` measured it, and of which checksum.

    name: a key of SAMPLERS.  Returns the content of parameters/<name>.json.
    """
    return json.loads(FOLDER.joinpath(f"{name}.json").read_text("utf-8"))
