"""load: one door to every data set, and the rule that decides between the real rows and a substitute."""

import os

import numpy as np

from . import creditcard
from .dataset import Dataset, made
from .files import Found, find, places
from .transactions.sampling import PAPER_ROWS, paper_sample
from .transactions.schema import FEATURE_NAMES, IS_NUMERIC

NAMES = ("transactions", "creditcard")
SOURCES = ("auto", "real", "standin")


def load(name: str, source: str = "auto", rows: int | None = None, seed: int = 0,
         root: str | os.PathLike | None = None) -> Dataset:
    """The data set of that name, from the real file when it is there, with its source written on it.

    name: one of NAMES.  source: "auto" takes the real file when it lies under root (then only there is looked),
    $PPKIT_DATA or data/raw, and else the stand-in; "real" insists; "standin" takes no file.  $PPKIT_SOURCE=standin|real
    overrides "auto".  rows: how many; default all real rows, or the paper's 700,000 for transactions (simulated, whole
    accounts: within 1% or one pair of accounts).  seed: of the simulation, or of the choice of rows.
    Returns a frozen Dataset.  FileNotFoundError if no file is found, ValueError for unknown names, sources and files
    that are not what they should be.  "transactions" is always simulated: nobody can have wang2018's bank data.
    """
    if name not in NAMES:
        raise ValueError(f"unknown data set {name!r}, expected one of {', '.join(NAMES)}")
    if source not in SOURCES:
        raise ValueError(f"source must be one of {', '.join(SOURCES)}, got {source!r}")
    if rows is not None and (not isinstance(rows, (int, np.integer)) or isinstance(rows, bool) or rows < 1):
        raise ValueError(f"rows must be a whole number >= 1, got {rows!r}")
    if name == "transactions":
        return _transactions(source, rows, seed)
    found = None if decided(source) == "standin" else find(creditcard.STEMS, root)
    if found is None:
        raise FileNotFoundError(missing(name, root))
    return creditcard.real(found, rows, seed)


def decided(source: str) -> str:
    """What "auto" means now: $PPKIT_SOURCE where it is set.  ValueError if that is neither standin nor real."""
    wish = os.environ.get("PPKIT_SOURCE") or "auto"
    if wish not in SOURCES:
        raise ValueError(f"PPKIT_SOURCE must be one of {', '.join(SOURCES)}, got {wish!r}")
    return wish if source == "auto" else source


def missing(name: str, root: str | os.PathLike | None = None) -> str:
    """One sentence: which file is missing, where it was looked for, how to get it."""
    where = " and ".join(label for _, label in places(root))
    return (f"creditcard.csv (or .csv.gz, .zip, .parquet) is missing in {where}, and {name} has no stand-in yet: "
            f"{creditcard.HOW}")


def _transactions(source: str, rows: int | None, seed: int) -> Dataset:
    if source == "real":
        raise ValueError("transactions is simulated only, because wang2018's bank data cannot be had by anyone: "
                         "take source='auto', or creditcard for real rows")
    sample = paper_sample(PAPER_ROWS if rows is None else rows, np.random.default_rng(seed))
    return made(name="transactions", X=sample.X, y=sample.y, feature_names=FEATURE_NAMES,
                numeric=np.array(IS_NUMERIC), source="simulated", account=sample.account, category=sample.category,
                note="simulated card transactions in place of wang2018's bank data: all accounts with fraud, as many "
                     "others, all fraud, a fifth of the rest")


def real_file(name: str, root: str | os.PathLike | None = None) -> Found | None:
    """The real file that load would take for this name, or None."""
    return None if name == "transactions" else find(creditcard.STEMS, root)
