"""A holder's own file: its features, its row ids, and at one holder the labels; checked before
anything starts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from ppkit.reading import read_rows
from spnn_system import columns
from spnn_system.config import Config
from spnn_system.run.role_folder import FEATURES

if TYPE_CHECKING:
    import torch

ID = "id"


class _OwnRows(NamedTuple):
    """A holder's file as arrays; `features` names the columns of X."""

    X: np.ndarray
    y: np.ndarray | None
    ids: list[str]
    features: list[str]


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
    order; y is None everywhere, and all other columns are left aside.
    """
    # here, so that the launcher checks files without it
    import torch

    own = _own_rows(config, holder, tell)
    y = None if own.y is None else torch.from_numpy(own.y)
    return torch.from_numpy(own.X), y, own.ids


def features(config: Config, holder: str) -> list[str]:
    """The names of a holder's features, in the order of the columns of X."""
    return _own_rows(config, holder).features


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
        name: _own_rows(config, name, tell).ids
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
                "(from 0) first"
            )
    return len(ids.get(first, ()))


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
            digest.update(array.numpy().tobytes())
    return digest.hexdigest()


def _own_rows(config: Config, name: str, tell: Callable[[str], None] | None = None) -> _OwnRows:
    holder = config.holder(name)
    said = f"holder {name}'s file {holder.data.name}"
    if not holder.data.exists():
        raise FileNotFoundError(f"{said} is not there: looked in {holder.data.parent}")
    table = read_rows(holder.data, said=said, texts=(ID,)).table
    n_train = config.training.train_rows
    if len(table) <= n_train:
        raise ValueError(
            f"{said} has {len(table):,} rows, and train_rows = {n_train:,} leave none to test on"
        )
    _need(table, ID, "the row ids", said)
    labels = config.holder(config.label_holder).labels
    if holder.labels is None and labels in table:
        raise ValueError(
            f"{said} has a column {labels!r}, as holder {config.label_holder}'s labels are called: "
            "take it out or rename it"
        )
    if config.trained:
        names = _trained(config.trained / name / FEATURES, said)
        for column in names:
            _need(table, column, "a feature that was trained on", said)
    else:
        names = [column for column in table.columns if column not in (ID, holder.labels)]
        for column in names:
            columns.refuse_index(table, column, table[ID], said)
    if not names:
        raise ValueError(f"{said} has no features: it has {columns.listed(table.columns)}")
    X = np.column_stack([columns.as_numbers(table[column], said, np.float32) for column in names])
    ids = _ids(table[ID], said)
    y = None
    if holder.labels and not config.trained:
        _need(table, holder.labels, "the labels", said)
        y = _labels(table[holder.labels], config, said)
    if config.trained:
        remarks = columns.remarks_on_new_rows(X, names, said)
    else:
        remarks = columns.remarks(X, y, names, said, n_train=n_train)
    if tell is not None:
        for sentence in remarks:
            tell(sentence)
    return _OwnRows(X, y, ids, names)


def _need(table: pd.DataFrame, column: str, what: str, said: str) -> None:
    if column not in table:
        there = columns.listed(table.columns)
        raise ValueError(f"{said} has no column {column!r} for {what}: it has {there}")


def _trained(kept: Path, said: str) -> list[str]:
    """The features that were trained on.  ValueError where nothing was."""
    if not kept.is_file():
        raise ValueError(f"{said}: there is no trained network in {kept.parent}: train it first")
    return json.loads(kept.read_text("utf-8"))


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
    classes, n_train = config.model.classes, config.training.train_rows
    numbers = pd.to_numeric(column, errors="coerce")
    is_right = numbers.isin(range(classes)).to_numpy()
    if not is_right.all():
        accepted = "0 or 1" if classes == 2 else f"0 to {classes - 1}"
        raise ValueError(
            f"{said}: labels {column.name!r} must be {accepted}, row {(~is_right).argmax():,} "
            "(from 0) is not: number the labels from 0, and say in [model] how many classes there "
            "are"
        )
    y = numbers.to_numpy(dtype=np.int64, copy=True)
    for rows, part in ((y[:n_train], "training"), (y[n_train:], "test")):
        if rows.min() == rows.max():
            raise ValueError(
                f"{said}: the {len(rows):,} {part} rows must have two labels or more, they have "
                "one only"
            )
    return y
