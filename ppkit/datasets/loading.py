"""One door to every data set, and the rule that decides between real rows and a substitute."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ppkit.checksum import sha256
from ppkit.datasets import creditcard, distress, lending
from ppkit.datasets.checks import Checked
from ppkit.datasets.dataset import Dataset, made, noted, subset, verified
from ppkit.datasets.files import Found, alike, find, places, read_table
from ppkit.sources import Kind, decided
from ppkit.validation import must_be, one_of

if TYPE_CHECKING:
    import pandas as pd


class Published(Protocol):
    """What a module says of a published file: how it is called and got, and what it must hold."""

    BEGINNINGS: dict[str, str]
    HOW: str
    FULL_ROWS: int
    LARGEST: int

    @property
    def STEMS(self) -> tuple[str, ...]:
        """The file's names without endings."""

    @property
    def FULL_SHA256(self) -> str | None:
        """The published checksum, if one is known."""

    def checked_table(self, table: pd.DataFrame, file: str) -> Checked:
        """The table in canonical columns; ValueError for the first thing that is wrong."""

    def arranged(
        self, table: pd.DataFrame, *, kind: Kind, of_rows: int | None, variant: str
    ) -> Dataset:
        """The Dataset of a checked table."""


REAL: dict[str, Published] = {"creditcard": creditcard, "distress": distress, "lending": lending}
NAMES = ("transactions", *REAL)


def load(
    name: str,
    source: str = "auto",
    rows: int | None = None,
    seed: int = 0,
    root: str | os.PathLike | None = None,
    variant: str = "",
) -> Dataset:
    """The data set of that name, from the real file when it is there, and its source on it.

    name: one of NAMES.  source: "auto" takes the real file when it lies under root (then only there
    is looked), $PPKIT_DATA or data/raw, and else the stand-in; "real" insists; "standin" takes no
    file.  $PPKIT_SOURCE=standin|real overrides "auto".  rows: how many; default all real rows, as
    many from a stand-in as the real file has, or the paper's 700,000 for transactions (simulated,
    whole accounts: within 1% or one pair of accounts).  Fewer real rows are drawn with the labels
    in proportion, in file order.  seed: of the sampler, or of the choice of rows.
    variant: of distress: "paper" (default), "no_lag" or "forecast".
    Returns a frozen Dataset.  Its source says "unverified" of a real file without the published
    checksum, which is that of the CSV itself, also in a zip; no parquet file has it, and for
    distress and Kaggle's loans none is known.
    FileNotFoundError if source is "real" and no file is found, ValueError for unknown names,
    sources and variants and for files that are not what they should be.  "transactions" is
    always simulated: nobody can have wang2018's bank data.
    """
    from ppkit.datasets import standins

    one_of(NAMES, name=name)
    asked = decided(source)
    if rows is not None:
        must_be("a whole number >= 1", rows=rows)
    variant = _variant(name, variant)
    rng = np.random.default_rng(seed)
    if name == "transactions":
        if source == "real":
            raise ValueError(
                "transactions is simulated only, because wang2018's bank data cannot be had by "
                "anyone: take source='auto', or creditcard for real rows"
            )
        return _transactions(rows, rng)
    found = None if asked == "standin" else real_file(name, root)
    if found is not None:
        return _real(REAL[name], found, rows, rng, variant)
    if asked == "real":
        raise FileNotFoundError(missing(name, root))
    wanted = REAL[name].FULL_ROWS if rows is None else rows
    dataset = standins.sample(name, wanted, rng, variant)
    return dataset if asked == "standin" else noted(dataset, almost(name, root))


def missing(name: str, root: str | os.PathLike | None = None) -> str:
    """One sentence: which file is missing, where it was looked for, how to get it."""
    where = " and ".join(label for _, label in places(root))
    kinds = f"{REAL[name].STEMS[0]}.csv (or .csv.gz, .zip, .parquet)"
    near = almost(name, root)
    hint = f" ({near})" if near else ""
    return f"{kinds} is missing in {where}{hint}: {REAL[name].HOW}"


def almost(name: str, root: str | os.PathLike | None = None) -> str:
    """Which file lies there under almost the real one's name, in half a sentence, "" if none."""
    return alike(REAL[name].STEMS, root, REAL[name].BEGINNINGS, name)


def real_file(name: str, root: str | os.PathLike | None = None) -> Found | None:
    """The real file that load would take for this name, or None."""
    return find(REAL[name].STEMS, root) if name in REAL else None


def rows_at_hand(source: str | None) -> dict[str, str | None]:
    """The checksum of the real file that load would take for each of NAMES, None where it takes
    none; `source` as a run has it: "standin" takes no file."""
    checksums: dict[str, str | None] = {}
    for name in NAMES:
        found = None if source == "standin" else real_file(name)
        checksums[name] = None if found is None else sha256(found.path)
    return checksums


def status() -> list[dict[str, str]]:
    """One row for each of NAMES, with name, source, where, rows, sha256 and note; a real file is
    read and checked.

    source: as on a Dataset, "unreadable", or "missing" where $PPKIT_SOURCE=real insists on a file.
    where and sha256 are of the real file, else "".
    """
    return [_row(name) for name in NAMES]


def _row(name: str) -> dict[str, str]:
    row = dict(name=name, source="simulated", where="", rows="", sha256="")
    if name == "transactions":
        return row | {"note": "wang2018's bank data cannot be had by anyone"}
    asked = decided("auto")
    try:
        found = real_file(name)
        if found is None:
            row["note"] = missing(name)
            if asked == "real":
                return row | {"source": "missing"}
            return row | {"source": "stand-in", "rows": f"{REAL[name].FULL_ROWS:,}"}
        dataset = load(name, source="real")
    except ValueError as error:
        return row | {"source": "unreadable", "note": str(error)}
    all_the_same = "PPKIT_SOURCE=standin: the stand-in is taken all the same"
    return row | {
        "source": dataset.source.removesuffix(" (paper)"),
        "where": found.label,
        "rows": f"{dataset.n_rows:,}",
        "sha256": sha256(found.path),
        "note": all_the_same if asked == "standin" else dataset.note,
    }


def _variant(name: str, variant: str) -> str:
    """The variant of distress that is meant; "" for other names."""
    if name == "distress":
        variant = variant or distress.VARIANTS[0]
        one_of(distress.VARIANTS, variant=variant)
        return variant
    if variant:
        raise ValueError(f"{name} has one form only, got variant {variant!r}")
    return ""


def _real(
    published: Published, found: Found, rows: int | None, rng: np.random.Generator, variant: str
) -> Dataset:
    read = read_table(found, published.LARGEST)
    checked = published.checked_table(read.table, found.path.name)
    dataset = published.arranged(
        checked.table, kind="real", of_rows=checked.of_rows, variant=variant or checked.layout
    )
    dataset = noted(dataset, *read.notes, checked.note)
    if read.sha256 == published.FULL_SHA256:
        dataset = verified(dataset)
    if rows is None:
        return dataset
    if rows > dataset.n_rows:
        raise ValueError(
            f"rows must be between 1 and the {dataset.n_rows:,} of {found.path.name}, got {rows}"
        )
    return subset(dataset, _drawn(dataset, rows, rng))


def _drawn(dataset: Dataset, rows: int, rng: np.random.Generator) -> np.ndarray:
    """So many rows, with the labels in proportion, in file order."""
    if not dataset.is_classification:
        return np.sort(rng.choice(dataset.n_rows, rows, replace=False))
    positives = np.flatnonzero(dataset.y == 1)
    n_positives = min(round(rows * len(positives) / dataset.n_rows), rows)
    others = rng.choice(np.flatnonzero(dataset.y == 0), rows - n_positives, replace=False)
    return np.sort(np.concatenate([rng.choice(positives, n_positives, replace=False), others]))


def _transactions(rows: int | None, rng: np.random.Generator) -> Dataset:
    from ppkit.datasets.transactions.sampling import PAPER_ROWS, paper_sample
    from ppkit.datasets.transactions.schema import FEATURE_NAMES, IS_NUMERIC

    sample = paper_sample(PAPER_ROWS if rows is None else rows, rng)
    return made(
        name="transactions",
        **sample,
        feature_names=FEATURE_NAMES,
        numeric=np.array(IS_NUMERIC),
        kind="simulated",
        note="simulated card transactions in place of wang2018's bank data: all accounts "
        "with fraud, as many others, all fraud, a fifth of the rest",
    )
