"""Stand-ins: samplers fitted on the real rows, for everybody who has none."""

import hashlib
import io
import json
from importlib import resources
from types import ModuleType

import numpy as np
import pandas as pd

from . import creditcard, distress, lending

FITTED: dict[str, ModuleType] = {"creditcard": creditcard, "distress": distress, "lending": lending}
LARGEST = 300_000                # bytes of parameters a data set
FOLDER = resources.files("ppkit.datasets.standins").joinpath("parameters")


def sample(name: str, rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Rows of a stand-in, in the checked layout of the real file and in its order of time.

    name: a key of FITTED.  rows: how many, >= 1.
    Returns a table of that many rows.  ValueError if rows is out of range or the parameters' file is damaged.
    """
    if rows < 1:
        raise ValueError(f"rows must be >= 1, got {rows}")
    return FITTED[name].sample(parameters(name), rows, rng)


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
        raise ValueError(f"{file}, the parameters of the stand-in for {name}, is missing or damaged: "
                         f"install ppkit again, or run `make fit-standins` where the real file is")
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        return {key: stored[key] for key in stored.files}


def measured(name: str) -> dict:
    """How faithful the stand-in is, as `make fit-standins` measured it, and the checksum of what it measured.

    name: a key of FITTED.  Returns the content of parameters/<name>.json.
    """
    return json.loads(FOLDER.joinpath(f"{name}.json").read_text("utf-8"))


def packed(fitted: dict[str, np.ndarray]) -> bytes:
    """The bytes of a parameters' file: the same arrays give the same bytes.

    ValueError if they are more than LARGEST, or a number is not finite.
    """
    for key, array in fitted.items():
        if not np.isfinite(array).all():
            raise ValueError(f"parameter {key!r} is not finite")
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **fitted)
    if buffer.tell() > LARGEST:
        raise ValueError(f"parameters take {buffer.tell():,} bytes, expected at most {LARGEST:,}")
    return buffer.getvalue()
