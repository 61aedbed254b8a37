"""What `ppkit data status` shows: for every data set what load would take now."""

import os

from .files import sha256
from .loading import NAMES, REAL, decided, load, missing, real_file


def status(root: str | os.PathLike | None = None) -> list[dict]:
    """One row for each of NAMES, with name, source, where, rows, sha256 and note; a real file is
    read and checked.

    source: as on a Dataset, "unreadable", or "missing" where $PPKIT_SOURCE=real insists on a file.
    where and sha256 are of the real file, else "".
    """
    return [_row(name, root) for name in NAMES]


def _row(name: str, root: str | os.PathLike | None) -> dict:
    row = {
        "name": name,
        "source": "simulated",
        "where": "",
        "rows": "",
        "sha256": "",
        "note": "wang2018's bank data cannot be had by anyone",
    }
    if name == "transactions":
        return row
    substitute = row | {"source": "stand-in", "rows": f"{REAL[name].FULL_ROWS:,}"}
    wish = decided("auto")
    try:
        found = real_file(name, root)
        if found is None and wish == "real":
            return row | {"source": "missing", "note": missing(name, root)}
        if found is None:
            return substitute | {"note": missing(name, root)}
        dataset = load(name, source="real", root=root)
    except ValueError as error:
        return row | {"source": "unreadable", "note": str(error)}
    note = dataset.note
    if wish == "standin":
        note = "PPKIT_SOURCE=standin: the stand-in is taken all the same"
    source = dataset.source.removesuffix(" (paper)")
    return row | {
        "source": source,
        "where": found.label,
        "rows": f"{dataset.n_rows:,}",
        "sha256": sha256(found.path),
        "note": note,
    }
