"""The public schema, as `schema.toml` has it: the raw attributes of a card transaction with their
levels, the merchants' codes, and the 264 features made of them.
"""

import tomllib
from importlib import resources

import numpy as np

Columns = dict[str, np.ndarray]  # of accounts or rows, by name


def table(name: str) -> dict:
    """What a TOML file beside this module says."""
    return tomllib.loads(resources.files(__package__).joinpath(name).read_text("utf-8"))


SCHEMA = table("schema.toml")
MERCHANT_CODES: dict[str, dict[str, float]] = SCHEMA["merchants"]
CODE_INDEX = {name: index for index, name in enumerate(MERCHANT_CODES)}
CATEGORICAL: dict[str, list[str]] = SCHEMA["categorical"] | {"merchant_code": list(MERCHANT_CODES)}
NUMERIC: dict[str, bool] = SCHEMA["numeric"]  # whether the feature is log(1 + value)
DERIVED: list[str] = SCHEMA["derived"]

_EFFECTS = [f"{name}={level}" for name, levels in CATEGORICAL.items() for level in levels[:-1]]
FEATURE_NAMES = (*_EFFECTS, *NUMERIC, *DERIVED)
IS_NUMERIC = [name not in _EFFECTS for name in FEATURE_NAMES]
