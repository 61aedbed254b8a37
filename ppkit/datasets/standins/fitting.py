"""`make fit-standins`: fit each stand-in to the real file that is here, measure it on held-back rows, and keep both."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from ppkit import project

from .. import creditcard, distress, lending
from ..files import sha256
from ..loading import REAL, real_file, real_table
from . import FITTED, FOLDER, fidelity, packed
from .creditcard import typical
from .fidelity import SPLITS, Stand, Task

SEED = 2018


class Plan(NamedTuple):
    """What is measured of one stand-in beside its marginals: tasks, what counts as near, what drifts."""
    tasks: tuple[Task, ...]
    score: str                           # what the tasks' scores are
    by: str                              # how rows are held back for the distances
    near: tuple[str, ...]                # the columns that distances are over
    among: dict[str, Callable]           # the kinds of rows that are compared within themselves
    time: str                            # the column of time, "" where order does not matter
    drift_of: dict[str, str]             # column to what it is called


def _all(rows: pd.DataFrame) -> np.ndarray:
    return np.ones(len(rows), bool)


_TWO = ("logistic regression", "MLP, 32 hidden")
_WEAK = ("logistic regression, C = .1",)
PLANS = {
    "creditcard": Plan((Task("fraud", (*_TWO, "gradient boosting"), 0.02),), "AUC", "rows", creditcard.FEATURES,
                       {"all rows": _all, "frauds": lambda rows: rows["Class"] == 1}, "Time",
                       {"Class": "fraud rate", "Amount": "amount"}),
    "distress": Plan((Task("paper, random rows", _TWO, 0.04, "paper"), Task("no_lag, random rows", _TWO, 0.04, "no_lag"),
                      Task("forecast, other companies", _TWO, 0.04, "forecast", "account"),
                      Task("forecast, later periods", _TWO, 0.04, "forecast", "time"),
                      Task("no_lag; for information", _WEAK, None, "no_lag"),
                      Task("forecast, other companies; for information", _WEAK, None, "forecast", "account"),
                      Task("forecast, later periods; for information", _WEAK, None, "forecast", "time")),
                     "AUC", "account", distress.NUMBERS,
                     {"all rows": _all, "distressed": lambda rows: rows[distress.TARGET] <= distress.THRESHOLD}, "", {}),
    "lending": Plan((Task("all columns", ("linear regression",), 0.05),
                     Task("before the price is set", ("linear regression",), 0.05, columns=lending.BEFORE_THE_PRICE),
                     Task("all columns, as the paper does", ("linear regression on ten components",
                                                            "linear regression on ten components, scaled"), 0.05),
                     Task("before the price is set; for information", ("gradient boosting (regression)",), None,
                          columns=lending.BEFORE_THE_PRICE)),
                    "R²", "rows", lending.COLUMNS, {"all rows": _all}, "place", {"interest_rate": "interest rate", "loan_amount": "amount"}),
}


def fit(name: str, *, splits: int = SPLITS) -> dict:
    """Fit the stand-in of that name to its real file and write its parameters, its measurement and its data card.

    name: a key of PLANS.  splits: of the measurement, >= 2.
    Returns what was measured; `missed(...)` says which bars it is below.
    FileNotFoundError if the real file is not here, ValueError if it is not what it should be.
    """
    known(name)
    if splits < 2:
        raise ValueError(f"splits must be >= 2, got {splits}")
    plan, rng = PLANS[name], np.random.default_rng(SEED)
    checked, file = real_table(name), real_file(name)
    table = typical(checked.table, rng) if name == "creditcard" else checked.table
    stand = Stand(FITTED[name].fit, FITTED[name].sample, REAL[name].arranged, plan.tasks)
    found = {"losses": fidelity.losses(stand, table, splits=splits, seed=SEED),
             "distances": fidelity.distances(stand, table, by=plan.by, columns=plan.near, among=plan.among, seed=SEED)}
    fitted = stand.fit(table, rng)
    drawn = stand.sample(fitted, REAL[name].FULL_ROWS, rng)
    found["marginals"] = fidelity.marginals(table, drawn)
    if plan.time:
        found["drift_by"] = plan.time
        found["drift"] = fidelity.drift(plan.time, plan.drift_of, _placed(table, plan.time), _placed(drawn, plan.time))
    content = packed(fitted)
    about = {"fitted_on": f"{len(checked.table):,} of {checked.of_rows:,} real rows{checked.layout and f' ({checked.layout})'}",
             "rows_used": len(table), "file": sha256(file.path), "splits": splits, "score": plan.score,
             "parameters": hashlib.sha256(content).hexdigest(), "bytes": len(content), **_rounded(found)}
    card = project.root() / "data" / "cards" / f"{name}.md"
    text = project.with_block(card.read_text("utf-8"), "fidelity", block(about))
    _all_or_none({Path(str(FOLDER.joinpath(f"{name}.npz"))): content,
                  Path(str(FOLDER.joinpath(f"{name}.json"))): f"{json.dumps(about, indent=1)}\n".encode(),
                  card: text.encode()})
    return about


def known(name: str) -> None:
    """Refuse a name that has no stand-in: ValueError with those that have."""
    if name not in PLANS:
        raise ValueError(f"{name} has no stand-in to fit, expected one of {', '.join(PLANS)}")


def missed(about: dict) -> list[str]:
    """What of a measurement is below its bar, one sentence each."""
    sentences = [f"{row['task']}, {row['model']}: loses up to {row['upper']:.3f}, at most {row['bar']} wanted"
                 for row in about["losses"] if row["bar"] is not None and row["upper"] > row["bar"]]
    return sentences + [f"{row['among']}: {row['quantile']:.0%} of the sampled ones are within {row['sampled']:.3f} of a fitting row, "
                        f"of the held-back ones within {row['limit']:.3f} or more" for row in about["distances"] if row["sampled"] < row["limit"]]


def block(about: dict) -> str:
    """The measurement as Markdown, for the data card."""
    score = about["score"]
    lines = [f"Written by `make fit-standins`, fitted on {about['fitted_on']} ({about['rows_used']:,} used; parameters: "
             f"{about['bytes']:,} bytes).", "",
             f"**Trained on the stand-in, tested on held-back real rows** ({about['splits']} splits, 70/30; the stand-in is fitted "
             f"on the 70%; {score}; the interval allows for splits that share rows).", "", "| task | model | trained on real rows | "
             "on the stand-in | loss (90% interval of the mean) | bar for its upper end | the stand-in's on further stand-in rows |",
             "|---|---|---|---|---|---|---|"]
    lines += [f"| {row['task']} | {row['model']} | {row['real']:.3f} | {row['standin']:.3f} | {row['loss']:.3f} ({row['lower']:.3f} to "
              f"{row['upper']:.3f}) | {'' if row['bar'] is None else row['bar']} | {row['itself']:.3f} |" for row in about["losses"]]
    lines += ["", "**Nearest row that it was fitted on** (distance over normal scores).", "",
              "| among | quantile | sampled rows | held-back real rows | lower 99% bootstrap limit of these |", "|---|---|---|---|---|"]
    lines += [f"| {row['among']} | {row['quantile']:.0%} | {row['sampled']:.3f} | {row['held_back']:.3f} | {row['limit']:.3f} |" for row in about["distances"]]
    of = about["marginals"]
    lines += ["", f"**Marginals and correlations**, against the rows it was fitted on. Largest Kolmogorov-Smirnov distance of a column {of['ks_largest']:.3f} "
              f"(`{of['ks_column']}`), median {of['ks_median']:.3f}; rank correlations differ by {of['correlation_mean']:.3f} on average, "
              f"by {of['correlation_largest']:.3f} at most."]
    if "drift" in about:
        lines += ["", f"**Drift**: mean in eight blocks of {'the file' if about['drift_by'] == 'place' else 'time'}, as a ratio to the mean over all.", "",
                  "| | " + " | ".join(map(str, range(1, 9))) + " |", "|---|" + "---|" * 8]
        for row in about["drift"]:
            lines += [f"| {row['about']}, {which} | " + " | ".join(f"{value:.2f}" for value in row[key]) + " |"
                      for which, key in (("real", "real"), ("stand-in", "standin"))]
    return "\n".join(lines)


def _all_or_none(files: dict[Path, bytes]) -> None:
    """Write all files beside their places first and name them then, so that a full disk or Ctrl-C leaves the old ones."""
    parts = {path: path.with_name(f"{path.name}.part") for path in files}
    try:
        for path, content in files.items():
            parts[path].write_bytes(content)
        for path, part in parts.items():
            os.replace(part, path)
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)


def _placed(rows: pd.DataFrame, time: str) -> pd.DataFrame:
    return rows.assign(place=np.arange(len(rows)) / len(rows)) if time == "place" else rows


def _rounded(found):
    """Numbers to five decimals, so that the file says no more than was measured."""
    if isinstance(found, dict):
        return {key: _rounded(value) for key, value in found.items()}
    if isinstance(found, list):
        return [_rounded(value) for value in found]
    return round(found, 5) + 0.0 if isinstance(found, float) else found
