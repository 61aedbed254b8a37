"""An example to start from: the config file of a run, and one parquet file a holder, made from rows
that are split already, creditcard's or one's own.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.preprocessing import StandardScaler

from ppkit import datasets
from ppkit.spnn.messages import holder_names
from ppkit.spnn.vertical import Vertical, fraud
from spnn_system import columns
from spnn_system import config as configs
from spnn_system.data import ID
from spnn_system.run.role_folder import private
from spnn_system.transport.addresses import free_addresses

LABELS = "label"
# shown where the protocol, or the form, has them
KEY = {"key_bits": configs.SECURE_KEY_BITS}
OWN: dict[str, dict[str, Any]] = {"ss": {"form": "lean"}, "he": KEY, "dealerless": KEY}
# of creditcard, so that 20 frauds are tested on: fewer measure no AUC
FEWEST_ROWS = 56_441


def creditcard(rows: int | None = None, *, holders: int = 2, source: str = "standin") -> Vertical:
    """Rows of creditcard for an example, cut between holders; frauds are as rare in fewer rows as
    in all.

    rows: at least FEWEST_ROWS, None for all.  source: as for `datasets.load`.  ValueError for fewer
    rows, or more than there are.
    """
    if rows is not None and rows < FEWEST_ROWS:
        raise ValueError(
            f"{rows:,} rows of creditcard have too few frauds to test on: take at least "
            f"{FEWEST_ROWS:,}, which "
            "have 20 among the test rows, or all"
        )
    return fraud(datasets.load("creditcard", source=source, rows=rows), holders=holders)


def own_rows(
    tables: Sequence[pd.DataFrame],
    y: Sequence[int],
    *,
    train_rows: int,
    source: str = "rows of one's own",
) -> Vertical:
    """Rows of one's own for a run: the features of each holder, standardised by the training rows.

    tables: one a holder, with the same rows in the same order, finite numbers only.  y: their
    labels, whole numbers from 0.  train_rows: so many rows from the first on are trained on, and
    the others tested on; at least one each.  source: what the results call these rows.
    A column with one value among the training rows has its mean subtracted only.
    ValueError for tables that do not fit together or have one index in two orders, for values that
    are no finite numbers, for labels that are no whole ones, with a column called id or label, with
    two columns of one name, with a column of dates, or with one that only numbers the rows
    (`columns.refuse_index`): they are looked at before they are scaled.

    >>> shop = pd.DataFrame({"age": [20.0, 40.0, 60.0], "visits": [1.0, 3.0, 8.0]})
    >>> bank = pd.DataFrame({"income": [30e3, 10e3, 20e3]})
    >>> rows = own_rows([shop, bank], [0, 1, 1], train_rows=2)
    >>> rows.parts["train"][1].flatten().tolist(), rows.parts["test"][1].item()
    ([1.0, -1.0], 0.0)
    """
    if not len(tables):
        raise ValueError("tables must be one table of a holder or more, got none")
    for place, table in enumerate(tables):
        if not isinstance(table, pd.DataFrame) or not table.shape[1]:
            raise ValueError(
                f"tables[{place}] must be a pandas DataFrame of one column or more, got "
                f"{type(table).__name__} of shape {np.shape(table)}"
            )
    labels, n = _labels(y), len(y)
    _refuse_orders({f"tables[{place}]": table for place, table in enumerate(tables)} | {"y": y})
    if any(len(table) != n for table in tables) or not 1 <= train_rows < n:
        raise ValueError(
            f"all tables must have the {n:,} rows of y, and train_rows leave one or more to test "
            f"on, got tables of {[len(table) for table in tables]} rows and {train_rows:,}"
        )
    names = [str(name) for table in tables for name in table.columns]
    if taken := [name for name in (ID, LABELS) if name in names]:
        raise ValueError(f"{taken[0]!r} is what the holders' files call something else: rename it")
    for place, table in enumerate(tables):
        _refuse_columns(table.rename(columns=str), f"tables[{place}]")
    parts: dict[str, list[torch.Tensor]] = {"train": [], "test": []}
    for place, table in enumerate(tables):
        said = f"tables[{place}]"
        features = [columns.as_numbers(table[name], said, np.float64) for name in table]
        numbers = np.column_stack(features)
        scaler = StandardScaler().fit(numbers[:train_rows])
        X = torch.from_numpy(scaler.transform(numbers)).float()
        parts["train"].append(X[:train_rows])
        parts["test"].append(X[train_rows:])
    return Vertical(
        parts=parts,
        y={"train": labels[:train_rows], "test": labels[train_rows:]},
        rows={"train": np.arange(train_rows), "test": np.arange(train_rows, n)},
        holders=[table.shape[1] for table in tables],
        feature_names=tuple(names),
        source=source,
    )


def _labels(y: Sequence[int]) -> torch.Tensor:
    """y as int64 (N,).  ValueError for what is no whole number from 0."""
    if np.ndim(y) != 1:
        raise ValueError(f"y must be one label for each row, got shape {np.shape(y)}")
    numbers = pd.to_numeric(pd.Series(np.asarray(y)), errors="coerce")
    numbers = numbers.to_numpy(np.float64, na_value=np.nan)
    is_right = (numbers >= 0) & (numbers % 1 == 0)
    if not is_right.all():
        raise ValueError(
            f"y must be labels that are whole numbers from 0, row {(~is_right).argmax():,} (from "
            "0) is not: pandas.factorize numbers classes, and a row without a label is left out"
        )
    return torch.from_numpy(numbers.astype(np.int64))


def _refuse_orders(rows: dict[str, Any]) -> None:
    """Refuse tables or columns of pandas whose indexes are the same rows in another order."""
    indexed = {
        said: own.index for said, own in rows.items() if isinstance(own, pd.DataFrame | pd.Series)
    }
    first, *others = indexed
    one = indexed[first]
    for said in others:
        other = indexed[said]
        are_same = one.is_unique and other.is_unique and len(one) == len(other)
        if are_same and not other.equals(one) and other.isin(one).all():
            raise ValueError(
                f"{said} has the index of {first} in another order: put them in one order (.loc), "
                "or where their rows are in one already, drop both (reset_index(drop=True))"
            )


def _refuse_columns(table: pd.DataFrame, said: str) -> None:
    """Refuse a table with a column that only numbers the rows, one of dates, or two of one name."""
    if not table.columns.is_unique:
        twin = table.columns[table.columns.duplicated()][0]
        raise ValueError(f"{said} has two columns with the name {twin!r}: rename one")
    ids = pd.Series(np.arange(len(table)))
    for column in table.columns:
        columns.refuse_index(table, column, ids, said)
        columns.refuse_dates(table[column], said)


def write(
    folder: str | Path,
    vertical: Vertical,
    *,
    names: Sequence[str] | None = None,
    label_holder: int = 0,
    run: str = "first-try",
    protocol: str = "masked",
    n_new: int = 0,
    layers: str | Path | None = None,
    **settings: Any,
) -> Path:
    """Write config.toml and one parquet file a holder into a folder; returns the path of the
    config.

    The holders' files are their user's alone (0600), and so is the folder if it is new (0700).

    vertical: its "train" rows come first in every file, then its "test" rows; ids are the rows'
    numbers in the data set.
    names: of the holders, default A, B, ...  label_holder: which of them gets the labels, from 0.
    run: the run id.
    n_new: so many of the "test" rows go, without labels, into one more file a holder, as new rows
    for `ppkit spnn predict`.  layers: the file of the server's own layers; hidden= are then the
    widths that they lead from and to.  settings: any key of [network],
    [protocol] (its name is protocol=), [model] and [training], such as epochs=2, bandwidth="100
    Mbps", form="published"; others stay at the default.
    All roles listen on this machine, at ports that are free now.
    ValueError, before anything is written, for an unknown setting or a value out of range, or if
    the folder has a file that would be written over.
    """
    folder, names = Path(folder), list(names or holder_names(len(vertical.holders)))
    if len(names) != len(vertical.holders):
        raise ValueError(f"there must be {len(vertical.holders)} names of holders, got {names}")
    target = folder / "config.toml"
    new = {name: folder / f"new-{name}.parquet" for name in names if n_new}
    files = {name: folder / f"{name}.parquet" for name in names}
    for path in (target, *files.values(), *new.values()):
        if path.exists():
            raise ValueError(f"there is a {path.name} in {folder} already: name a new folder")
    given: dict[str, Any] = {"name": protocol, **OWN.get(settings.get("form") or protocol, {})}
    given |= {key: value for key, value in settings.items() if value is not None}
    given["train_rows"] = len(vertical.y["train"])
    roles: list[tuple[str, dict[str, Any]]] = [("[coordinator]", {}), ("[server]", {})]
    if layers is not None:
        given["layers_sha256"] = hashlib.sha256(Path(layers).read_bytes()).hexdigest()
        roles[1][1]["layers"] = Path(layers).resolve()
    if configs.Protocol(name=protocol, form=settings.get("form")).has_dealer:
        roles.append(("[dealer]", {}))
    for i, name in enumerate(names):
        holder = {"name": name, "address": None, "data": files[name].name}
        if i == label_holder:
            holder["labels"] = LABELS
        if name in new:
            holder["predict"] = new[name].name
        roles.append(("[[holder]]", holder))
    lines = [f"run = {_value(run)}", f"source = {_value(vertical.source)}", *_sections(given)]
    for (title, keys), address in zip(roles, free_addresses(len(roles))):
        keys["address"] = address
        lines += ["", title, *(f"{key} = {_value(value)}" for key, value in keys.items())]
    text = "\n".join(lines) + "\n"
    configs.parse(text, target)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    start = 0
    for i, (name, width) in enumerate(zip(names, vertical.holders)):
        X = torch.cat([vertical.parts[key][i] for key in ("train", "test")]).float().numpy()
        table = pd.DataFrame(X, columns=list(vertical.feature_names[start : start + width]))
        table.insert(0, ID, np.concatenate([vertical.rows[key] for key in ("train", "test")]))
        if name in new:
            rows = table.iloc[len(vertical.y["train"]) :].head(n_new)
            rows.to_parquet(private(new[name]), index=False)
        if i == label_holder:
            table[LABELS] = torch.cat([vertical.y[key] for key in ("train", "test")]).numpy()
        table.to_parquet(private(files[name]), index=False)
        start += width
    target.write_text(text, "utf-8")
    return target


def _sections(given: dict[str, Any]) -> list[str]:
    """The lines of all settings, each with what it accepts.  ValueError for an unknown one."""
    lines, known = [], []
    for name, kind in configs.SECTIONS.items():
        lines += ["", f"[{name}]"]
        for setting in fields(kind):
            known.append(setting.name)
            value = given.get(setting.name, setting.default)
            # None: form or key_bits of another protocol
            if value is not None:
                accepts, note = setting.metadata["kind"].accepted, setting.metadata["note"]
                words = f"{accepts}; {note}" if note else accepts
                lines.append(f"{f'{setting.name} = {_value(value)}':<32}# {words}")
    for key in given:
        if key not in known:
            raise ValueError(f"unknown setting {key!r}: there are {', '.join(known)}")
    return lines


def _value(value: Any) -> str:
    """A TOML value: JSON writes text, numbers, truth values and lists the same way."""
    return json.dumps(value, ensure_ascii=False, default=str)
