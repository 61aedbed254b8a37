"""Fixed digits: the same run prints the same text on every machine."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ppkit.validation import must_be, not_above

pd.set_option(
    "display.max_colwidth",
    None,
    "display.width",
    400,
    "display.max_columns",
    None,
    "display.max_rows",
    None,
)


def number(value, digits: int = 3) -> str:
    """`value` with so many decimals; integers and text as they are; nothing for None; a dash never
    stands for a number.

    >>> number(2862.4321, 1), number(14312), number(None), number(float("inf"))
    ('2,862.4', '14,312', '', 'infinite')
    """
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (int, np.integer)):
        return f"{value:,}"
    if np.isinf(value):
        return "infinite" if value > 0 else "minus infinite"
    text = f"{value:,.{digits}f}"
    return text.lstrip("-") if float(text.replace(",", "")) == 0 else text


def between(attained, holds, *, trials: int | None = None) -> dict:
    """What is attained and what holds, for a line of a table; a contradiction is not shown.

    attained: what an attack reaches; holds: what is proved for all attacks; numbers, or arrays of
    one shape.  trials: None where `attained` is exact; else it is how often something happened in
    so many trials, and may lie above by chance: up to where that chance is below 1e-9.
    Returns {"attained": ..., "holds": ...}.  ValueError if more is attained than holds.

    >>> between(7.85, 21.46)
    {'attained': 7.85, 'holds': 21.46}
    """
    from scipy import stats

    least = attained
    if trials is not None:  # the smallest chance for which so many hits are not a miracle
        must_be("a whole number >= 1", trials=trials)
        hits = np.rint(np.asarray(attained, dtype=float) * trials)
        least = np.where(hits > 0, stats.beta.ppf(1e-9, np.maximum(hits, 1), trials - hits + 1), 0)
    not_above(least, holds)
    return {"attained": attained, "holds": holds}


class Table(pd.DataFrame):
    """Text in rows and columns; a notebook shows the source of its numbers beneath."""

    def _repr_html_(self) -> str:
        return super()._repr_html_() + (self.said and f"<p>{self.said}</p>")


def sources(data) -> str:
    """The words for the source of a Dataset, of ledger.FORMULA, or of a tuple of Datasets, which
    are named."""
    return (
        ", ".join(f"{one.name} {one.source}" for one in data)
        if isinstance(data, tuple)
        else data.source
    )


def table(rows, *, data, digits: int = 3, index: str = "") -> Table:
    """A table of text with fixed digits, and the source of its numbers.

    rows: a dict from label to a value or to a dict of columns; a list of dicts; or a DataFrame.
    data: as `sources`, or None where no number comes from data.  digits: decimals of every float.
    index: heading of the labels' column.
    Returns a DataFrame of strings, which a notebook shows as a table.

    >>> print(table({"claimed": 0.9512, "attained": 1.0684}, data=None))
              value
    claimed   0.951
    attained  1.068
    """
    if isinstance(rows, dict):
        lines = {
            key: value if isinstance(value, dict) else {"value": value}
            for key, value in rows.items()
        }
        frame = pd.DataFrame.from_dict(lines, orient="index", dtype=object)
    else:
        frame = pd.DataFrame(rows, dtype=object)
    frame = frame.map(lambda value: number(value, digits))
    if index:
        frame = frame.rename_axis(index)
    elif not isinstance(rows, (dict, pd.DataFrame)):
        frame.index = [""] * len(frame)
    shown = Table(frame)
    shown.said = "" if data is None else f"Data: {sources(data)}."
    return shown


def keep(name: str, rows: list[dict[str, Any]]) -> None:
    """Leave a table with the run as CSV; a batch puts the tables of its points together.

    name: a file name without ending.  rows: a dict from column to number or text for each line.
    Writes $PPKIT_RUN/tables/<name>.csv, every digit of every number, where PPKIT_RUN is set, else
    nothing.
    """
    folder = os.environ.get("PPKIT_RUN")
    if folder:
        target = Path(folder, "tables", f"{name}.csv")
        target.parent.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(rows).to_csv(target, index=False)


def source(dataset) -> pd.DataFrame:
    """What a notebook runs on: name, source with its rows, features, what is predicted and how
    common it is, the note."""
    if dataset.is_classification:
        target = f"{dataset.target}, {dataset.y.mean():.2%} of the rows"
    else:
        mean, deviation = dataset.y.mean(), dataset.y.std()
        target = f"{dataset.target}; mean {mean:.2f}, standard deviation {deviation:.2f}"
    return table(
        {
            "data set": dataset.name,
            "source": dataset.source,
            "features": dataset.X.shape[1],
            "predicts": target,
            "note": dataset.note,
        },
        data=dataset,
    )
