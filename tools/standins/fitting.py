"""Fit a stand-in to the real file that is here, measure it on held-back rows, and keep both."""

import hashlib
import io
import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from ppkit import fidelity as held_out
from ppkit import project
from ppkit.datasets import distress, lending
from ppkit.datasets.files import read_table, sha256
from ppkit.datasets.loading import REAL, load, missing, real_file
from ppkit.datasets.standins import FOLDER, SAMPLERS
from ppkit.writing import whole

from . import card, fidelity
from . import creditcard as of_creditcard
from .distress import fit as fit_distress
from .fidelity import SPLITS, Stand, Task
from .lending import fit as fit_lending

SEED = 2018
LARGEST = 300_000  # bytes of parameters a data set
FITS = {"creditcard": of_creditcard.fit, "distress": fit_distress, "lending": fit_lending}


class Plan(NamedTuple):
    """What is measured of a stand-in beside its marginals: tasks, what is near, what drifts.

    creditcard is measured on a held-out fold instead.
    """

    tasks: tuple[Task, ...]
    score: str  # what the tasks' scores are
    by: str  # how rows are held back for the distances
    near: tuple[str, ...]  # the columns that distances are over
    among: dict[str, Callable]  # the kinds of rows that are compared within themselves
    drift_of: dict[str, str]  # column that drifts over the file to what it is called


def _all(rows: pd.DataFrame) -> np.ndarray:
    return np.ones(len(rows), bool)


_TWO = ("logistic regression", "MLP, 32 hidden")
_WEAK = ("logistic regression, C = .1",)
PLANS = {
    "distress": Plan(
        (
            Task("paper, random rows", _TWO, 0.04, "paper"),
            Task("no_lag, random rows", _TWO, 0.04, "no_lag"),
            Task("forecast, other companies", _TWO, 0.04, "forecast", "account"),
            Task("forecast, later periods", _TWO, 0.04, "forecast", "time"),
            Task("no_lag; for information", _WEAK, None, "no_lag"),
            Task("forecast, other companies; for information", _WEAK, None, "forecast", "account"),
            Task("forecast, later periods; for information", _WEAK, None, "forecast", "time"),
        ),
        "AUC",
        "account",
        distress.NUMBERS,
        {"all rows": _all, "distressed": lambda rows: rows[distress.TARGET] <= distress.THRESHOLD},
        {},
    ),
    "lending": Plan(
        (
            Task("all columns", ("linear regression",), 0.05),
            Task(
                "before the price is set",
                ("linear regression",),
                0.05,
                columns=lending.BEFORE_THE_PRICE,
            ),
            Task(
                "all columns, as the paper does",
                (
                    "linear regression on ten components",
                    "linear regression on ten components, scaled",
                ),
                0.05,
            ),
            Task(
                "before the price is set; for information",
                ("gradient boosting (regression)",),
                None,
                columns=lending.BEFORE_THE_PRICE,
            ),
        ),
        "R²",
        "rows",
        lending.COLUMNS,
        {"all rows": _all},
        {"interest_rate": "interest rate", "loan_amount": "amount"},
    ),
}


def fit(name: str, *, splits: int = SPLITS) -> dict:
    """Fit a stand-in to its real file; write its parameters, its measurement and its data card.

    name: a key of FITS.  splits: of the measurement by splits, >= 2.
    Returns what was measured; `missed(...)` says which bars it is below.
    FileNotFoundError if the real file is not here, ValueError if it is not what it should be.
    """
    known(name)
    if splits < 2:
        raise ValueError(f"splits must be >= 2, got {splits}")
    rng, file = np.random.default_rng(SEED), real_file(name)
    if file is None:
        raise FileNotFoundError(missing(name))
    checked = REAL[name].checked_table(
        read_table(file, REAL[name].LARGEST[file.stem]), file.path.name
    )
    table = checked.table
    if name == "creditcard":
        table = of_creditcard.four_folds(table)
    fitted = FITS[name](table, rng)
    content = packed(fitted)
    found = _on_fold(table, fitted) if name == "creditcard" else _by_splits(name, table, splits)
    about = {
        "fitted_on": f"{len(checked.table):,} of {checked.of_rows:,} real "
        f"rows{checked.layout and f' ({checked.layout})'}",
        "rows_used": len(table),
        "file": sha256(file.path),
        "parameters": hashlib.sha256(content).hexdigest(),
        "bytes": len(content),
        **_rounded(found),
    }
    folder, page = Path(str(FOLDER)), project.root() / "data" / "cards" / f"{name}.md"
    text = page.read_text("utf-8")
    for block, written in card.blocks(about).items():
        text = project.with_block(text, block, written)
    _all_or_none(
        {
            folder / f"{name}.npz": content,
            folder / f"{name}.json": f"{json.dumps(about, indent=1)}\n".encode(),
            page: text.encode(),
        }
    )
    return about


def _on_fold(table: pd.DataFrame, fitted: dict[str, np.ndarray]) -> dict:
    """creditcard beside the fold that it was not fitted to, and what its parameters give away."""
    parts = held_out.parted(load("creditcard", source="real"))
    draw = SAMPLERS["creditcard"]
    rows = held_out.compared(
        parts,
        lambda seed: REAL["creditcard"].arranged(
            draw(fitted, REAL["creditcard"].FULL_ROWS, np.random.default_rng(seed)),
            kind="stand-in",
            of_rows=None,
        ),
    )
    return {
        "held_out": [parts.test.n_rows, int(parts.test.y.sum())],
        "fidelity": rows,
        "membership": of_creditcard.given_away(table, SEED),
    }


def _by_splits(name: str, table: pd.DataFrame, splits: int) -> dict:
    plan, rng = PLANS[name], np.random.default_rng(SEED)
    stand = Stand(FITS[name], SAMPLERS[name], REAL[name].arranged, plan.tasks)
    found = {
        "splits": splits,
        "score": plan.score,
        "losses": fidelity.losses(stand, table, splits=splits, seed=SEED),
        "distances": fidelity.distances(
            stand, table, by=plan.by, columns=plan.near, among=plan.among, seed=SEED
        ),
    }
    drawn = stand.sample(stand.fit(table, rng), REAL[name].FULL_ROWS, rng)
    found["marginals"] = fidelity.marginals(table, drawn)
    if plan.drift_of:
        real, ours = (
            rows.assign(place=np.arange(len(rows)) / len(rows)) for rows in (table, drawn)
        )
        found["drift"] = fidelity.drift("place", plan.drift_of, real, ours)
    return found


def known(name: str) -> None:
    """Refuse a name that has no stand-in: ValueError with those that have."""
    if name not in FITS:
        raise ValueError(f"{name} has no stand-in to fit, expected one of {', '.join(FITS)}")


def missed(about: dict) -> list[str]:
    """What of a measurement is below its bar, one sentence each."""
    sentences = [
        f"{row['task']}, {row['model']}: loses up to {row['upper']:.3f}, at most {row['bar']} "
        "wanted"
        for row in about.get("losses", ())
        if row["bar"] is not None and row["upper"] > row["bar"]
    ]
    sentences += [
        f"{row['measure']}: real {row['real']:.3f}, stand-in {row['standin']:.3f}, "
        f"at most {row['allowed']:.3f} off wanted"
        for row in about.get("fidelity", ())
        if not row["met"]
    ]
    return sentences + [
        f"{row['among']}: {row['quantile']:.0%} of the sampled ones are within "
        f"{row['sampled']:.3f} of a fitting row, of the held-back ones within {row['limit']:.3f} "
        "or more"
        for row in about.get("distances", ())
        if row["sampled"] < row["limit"]
    ]


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


def _all_or_none(files: dict[Path, bytes]) -> None:
    """Write all files before one takes its name: a full disk or Ctrl-C leaves the old ones."""
    with ExitStack() as stack:
        for path, content in files.items():
            stack.enter_context(whole(path)).write_bytes(content)


def _rounded(found):
    """Numbers to five decimals, so that the file says no more than was measured."""
    if isinstance(found, dict):
        return {key: _rounded(value) for key, value in found.items()}
    if isinstance(found, list):
        return [_rounded(value) for value in found]
    return round(found, 5) + 0.0 if isinstance(found, float) else found
