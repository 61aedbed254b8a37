"""A holder's own file: its features, its row ids, and at one holder the labels; checked before
anything starts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ppkit.reading import read_rows
from spnn_system import columns
from spnn_system.config import Config
from spnn_system.run.role_folder import FEATURES

if TYPE_CHECKING:
    import torch

ID = "id"


def read(
    config: Config, holder: str, *, tell: Callable[[str], None] | None = None
) -> tuple[torch.Tensor, torch.Tensor | None, list[str]]:
    """What one holder has, from its own file alone: (X, y, ids).

    X: (N, d) float32, all columns but the ids and the labels, in the file's order, finite.  y: (N,)
    int64 in {0, ..., classes - 1} at the label holder, with two labels or more among the training
    and among the test rows; None at the others.  ids: N different texts;
    numbers in a parquet file and the same digits in a csv file are the same id.
    tell: called with each sentence about features that go on, such as constants
    (`columns.remarks`).
    FileNotFoundError or ValueError in one sentence that names the holder, and a column or a row
    (from 0), never a value.
    For a prediction: one row or more with the features that were trained on, by name, in whatever
    order; y is None everywhere, and a column of labels is left aside.
    """
    # here, so that the launcher checks files without it
    import torch

    X, y, ids = _columns(config, holder, tell)
    return torch.from_numpy(X), None if y is None else torch.from_numpy(y), ids


def check(
    config: Config,
    holders: Sequence[str] | None = None,
    *,
    tell: Callable[[str], None] | None = None,
) -> int:
    """Read the files of these holders, which must lie on this machine, and compare their rows;
    returns how many rows.

    holders: names; None for all.  tell: as for `read`.  Errors: as `read`, and ValueError that says
    which holder has other ids than the first, and from which row on.
    """
    ids = {
        name: _columns(config, name, tell)[2]
        for name in (config.names if holders is None else holders)
    }
    first = next(iter(ids), "")
    for name, theirs in ids.items():
        if theirs != ids[first]:
            pairs = enumerate(zip_longest(ids[first], theirs))
            row = next(i for i, (one, other) in pairs if one != other)
            raise ValueError(
                f"all holders must have the same rows in the same order: the {len(theirs):,} ids "
                f"of holder {name} differ from holder {first}'s {len(ids[first]):,} in row {row:,} "
                f"(from 0) first{_only_zeros(theirs, ids[first])}"
            )
    return len(ids.get(first, ()))


def _only_zeros(ids: Sequence[str], others: Sequence[str]) -> str:
    """A hint where ids differ in their leading zeros only."""
    if [one.lstrip("0") for one in ids] != [one.lstrip("0") for one in others]:
        return ""
    return ": they differ in leading zeros only, so one file lost them: write its ids as text"


def ids_digest(ids: Sequence[str]) -> str:
    """SHA-256 of the ids in order, by which holders find out whether they have the same rows.

    Whoever can guess all ids can check the guess: it is for holders, who have the ids, and not for
    the coordinator.
    """
    return hashlib.sha256(json.dumps(list(ids)).encode()).hexdigest()


def data_digest(X: torch.Tensor, y: torch.Tensor | None, ids: Sequence[str]) -> str:
    """SHA-256 of all a holder has, by which it finds out before a resumed run whether its own file
    is still the same.
    """
    digest = hashlib.sha256(f"{tuple(X.shape)} {y is not None} {ids_digest(ids)}".encode())
    for array in (X, y):
        if array is not None:
            digest.update(memoryview(np.ascontiguousarray(array.numpy())).cast("B"))
    return digest.hexdigest()


def _columns(
    config: Config, name: str, tell: Callable[[str], None] | None
) -> tuple[np.ndarray, np.ndarray | None, list[str]]:
    holder = config.holder(name)
    said = f"holder {name}'s file {holder.data.name}"
    table = _table(holder.data, said)
    columns.refuse_row_names(table, holder.data, ID, said)
    if not table.columns.is_unique:
        raise ValueError(
            f"{said} has two columns with the name {table.columns[table.columns.duplicated()][0]!r}"
        )
    for column, what in (
        (ID, "the row ids"),
        *([(holder.labels, "the labels")] if holder.labels and not config.trained else []),
    ):
        if column not in table:
            there = columns.listed(table.columns)
            raise ValueError(f"{said} has no column {column!r} for {what}: it has {there}")
    labels = config.holder(config.label_holder).labels
    if not holder.labels and labels in table:
        raise ValueError(
            f"{said} has a column {labels!r}, as holder {config.label_holder}'s labels are called: "
            "take it out or rename it"
        )
    if not len(table):
        raise ValueError(f"{said} is empty: it has columns and no row")
    n, features = (
        len(table),
        [column for column in table.columns if column not in (ID, holder.labels)],
    )
    trained = _trained(config.trained / name / FEATURES, said) if config.trained else None
    for column in features:
        if column not in (trained or ()):
            columns.refuse_index(table, column, table[ID], said)
    if trained is not None:
        features = _as_trained(trained, features, said)
    if not features:
        raise ValueError(
            f"{said} has no features: no column beside {', '.join(map(repr, table.columns))}"
        )
    if n <= config.training.train_rows:
        raise ValueError(
            f"{said} has {n:,} rows, and train_rows = {config.training.train_rows:,} leave none "
            "to test on"
        )
    X = np.empty((n, len(features)), dtype=np.float32)
    for j, column in enumerate(features):
        if not (
            pd.api.types.is_numeric_dtype(table[column])
            or pd.api.types.is_bool_dtype(table[column])
        ):
            raise ValueError(
                f"{said}: feature {column!r} must be numbers, got a column of type "
                f"{table[column].dtype}{_first_text(table[column])}"
            )
        # what is too large for float32 becomes infinite, and is refused
        with np.errstate(over="ignore"):
            X[:, j] = table[column].to_numpy(dtype=np.float64, na_value=np.nan)
        bad = ~np.isfinite(X[:, j])
        if bad.any():
            raise ValueError(
                f"{said}: feature {column!r} must be finite in float32, got {bad.sum():,} of {n:,} "
                f"values that are not, row {bad.argmax():,} (from 0) first"
            )
    y = None
    if holder.labels and not config.trained:
        y = _labels(table[holder.labels], config, said)
    ids = _ids(table[ID], said)
    if tell is not None:
        for sentence in _remarks(config, X, y, features, said):
            tell(sentence)
    return X, y, ids


def features(config: Config, name: str) -> list[str]:
    """The names of a holder's features, in the order of the columns of X."""
    holder = config.holder(name)
    said = f"holder {name}'s file {holder.data.name}"
    if config.trained:
        return _trained(config.trained / name / FEATURES, said)
    table = _table(holder.data, said)
    return [column for column in table.columns if column not in (ID, holder.labels)]


def _remarks(
    config: Config, X: np.ndarray, y: np.ndarray | None, names: list[str], said: str
) -> list[str]:
    """What there is to say of the training rows, or of those to predict."""
    if config.trained:
        return columns.remarks_on_new_rows(X, names, said)
    n = config.training.train_rows
    of_training = columns.remarks(X[:n], None if y is None else y[:n], names, said)
    return of_training + columns.remarks_on_order(X, names, said)


def _trained(kept: Path, said: str) -> list[str]:
    """The features that were trained on.  ValueError where nothing was."""
    if not kept.is_file():
        raise ValueError(f"{said}: there is no trained network in {kept.parent}: train it first")
    return json.loads(kept.read_text("utf-8"))


def _as_trained(trained: list[str], features: list[str], said: str) -> list[str]:
    """The features that were trained on, if these are the same.  ValueError for others."""
    for wrong, what in (
        ([column for column in trained if column not in features], "has no column"),
        ([column for column in features if column not in trained], "has a column too many,"),
    ):
        if wrong:
            raise ValueError(
                f"{said} {what} {columns.listed(wrong)}: new rows must have the features that "
                "were trained on"
            )
    return trained


def _table(path, said: str) -> pd.DataFrame:
    """The rows of a CSV or parquet file, as its first bytes tell; ids are texts as they stand."""
    if path.is_dir():
        raise ValueError(f"{said} is a folder: name one file, with all rows in it")
    if not path.is_file():
        raise FileNotFoundError(f"{said} is not there: looked in {path.parent}")
    return read_rows(path, said=said, texts=(ID,)).table


def _first_text(column: pd.Series) -> str:
    """Which row of a column of text is the first that is no number, and what to do."""
    if not pd.api.types.is_string_dtype(column):
        return ""
    is_text = (pd.to_numeric(column, errors="coerce").isna() & column.notna()).to_numpy()
    if not is_text.any():
        return ": write its numbers as numbers, not as text"
    return (
        f": row {is_text.argmax():,} (from 0) is the first that is no number; write digits with a "
        "decimal point, no per cent or currency sign, no separator of thousands, no error of a "
        "spreadsheet"
    )


def _ids(column: pd.Series, said: str) -> list[str]:
    if column.isna().any():
        raise ValueError(
            f"{said}: every row needs an id, row {int(column.isna().to_numpy().argmax()):,} (from "
            "0) has none"
        )
    if not (pd.api.types.is_integer_dtype(column) or pd.api.types.is_string_dtype(column)):
        raise ValueError(
            f"{said}: ids must be whole numbers or text, got a column of type {column.dtype}"
        )
    ids = column.astype(str)
    if ids.duplicated().any():
        row = int(ids.duplicated().to_numpy().argmax())
        raise ValueError(f"{said}: ids must differ, row {row:,} (from 0) has one that came before")
    return ids.tolist()


def _labels(column: pd.Series, config: Config, said: str) -> np.ndarray:
    classes, train_rows = config.model.classes, config.training.train_rows
    accepted = "0 or 1" if classes == 2 else f"0 to {classes - 1}"
    is_text = pd.api.types.is_string_dtype(column)
    numbers = pd.to_numeric(column, errors="coerce") if is_text else column
    right = numbers.isin(range(classes)).to_numpy()
    if is_text and right.all():
        raise ValueError(
            f"{said}: labels {column.name!r} must be {accepted} as numbers, they are text: write "
            "them as whole numbers"
        )
    if not right.all():
        raise ValueError(
            f"{said}: labels {column.name!r} must be {accepted}, row {int((~right).argmax()):,} "
            "(from 0) is not"
        )
    y = column.to_numpy(dtype=np.int64, copy=True)
    for rows, part in ((y[:train_rows], "training"), (y[train_rows:], "test")):
        if rows.min() == rows.max():
            raise ValueError(
                f"{said}: the {len(rows):,} {part} rows must have two labels or more, they have "
                "one only"
            )
    return y
