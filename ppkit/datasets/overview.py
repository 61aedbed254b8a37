"""What `ppkit data status` shows: for every data set what load would take now."""

import os
from typing import NamedTuple

from .files import sha256
from .loading import NAMES, load, missing, real_file


class Status(NamedTuple):
    """source: as on a Dataset, or "missing", or "unreadable".  where, rows and sha256: of the real file, else None."""
    name: str
    source: str
    where: str | None
    rows: int | None
    sha256: str | None
    note: str


def status(root: str | os.PathLike | None = None) -> tuple[Status, ...]:
    """One Status for each of NAMES; a real file is read and checked in full."""
    return tuple(_status(name, root) for name in NAMES)


def _status(name: str, root: str | os.PathLike | None) -> Status:
    if name == "transactions":
        return Status(name, "simulated", None, None, None, "wang2018's bank data cannot be had by anyone")
    try:
        found = real_file(name, root)
        if found is None:
            return Status(name, "missing", None, None, None, missing(name, root))
        dataset = load(name, source="real", root=root)
    except ValueError as error:
        return Status(name, "unreadable", None, None, None, str(error))
    return Status(name, dataset.source, found.label, dataset.n_rows, sha256(found.path), dataset.note)
