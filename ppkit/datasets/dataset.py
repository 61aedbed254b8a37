"""The Dataset that every notebook computes on, and the steps that come before learning: which rows
teach and which test, when a model is trained once and by nobody in particular; scaling; sampling.
"""

import hashlib
from dataclasses import dataclass, field, replace
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from ppkit.sources import Kind
from ppkit.validation import must_be, one_of

PER_ROW = ("account", "time", "category")  # what may stand beside X and y, one entry a row
WAYS = ("rows", "account")
BLOCK = 8192  # rows that are in float64 at once
FOLDS, HELD_OUT = 5, 0  # of `hashed`: no stand-in that is shipped was fitted to the held-out fold
_TOKEN = object()  # what load and the functions of this module hold, and nobody else


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows with a target and a true word on their source; only `ppkit.datasets.load` makes it.

    name: one of NAMES.  X: float32 (N, F), unscaled.  y: int8 (N,) in {0, 1}, or float32 (N,) where
    target is a quantity.
    feature_names: F strings.  numeric: bool (F,), False for effect-coded and one-hot columns.
    note: one sentence on what the rows are.  target: what y says, such as "fraud".
    account: int64 (N,) or None, whose row it is (account, company).
    time: float64 (N,) or None (seconds, period, month).  category: int16 (N,) or None, the
    merchant's group.  of_rows: rows of the full real file, None if kind is not "real".  variant:
    which form or file, "" where there is one only.  verified: whether the rows come from a file
    with the published checksum.  All arrays are read-only.
    TypeError when made anywhere else, `dataclasses.replace` included.
    """

    name: str
    X: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    feature_names: tuple[str, ...] = field(repr=False)
    numeric: np.ndarray = field(repr=False)
    kind: Kind
    note: str
    target: str = "fraud"
    account: np.ndarray | None = field(default=None, repr=False)
    time: np.ndarray | None = field(default=None, repr=False)
    category: np.ndarray | None = field(default=None, repr=False)
    of_rows: int | None = field(default=None, repr=False)
    variant: str = ""
    verified: bool = False
    token: object = field(default=None, repr=False)

    def __post_init__(self):
        if self.token is not _TOKEN:
            raise TypeError(
                "a Dataset is made by ppkit.datasets.load only, so that its source is true"
            )
        object.__setattr__(self, "token", None)
        for name in ("X", "y", "numeric", *PER_ROW):
            if (array := getattr(self, name)) is not None:
                array.flags.writeable = False

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.y)

    @property
    def source(self) -> str:
        """Where the rows come from and how many: the words under every figure and in every verdict.

        "real: 284,807 rows", "real subset: 1,000 of 284,807 rows", "stand-in: 3,672 rows (no_lag)",
        "simulated: 700,010 rows"; where the file does not have the published checksum,
        "real, unverified: 3,672 rows (paper)" or "real subset, unverified: 44,212 of 284,807 rows".
        """
        fewer = self.kind == "real" and self.n_rows != self.of_rows
        kind = f"{self.kind} subset" if fewer else self.kind
        doubt = ", unverified" if self.kind == "real" and not self.verified else ""
        rows = f"{self.n_rows:,} of {self.of_rows:,} rows" if fewer else f"{self.n_rows:,} rows"
        return f"{kind}{doubt}: {rows}" + (f" ({self.variant})" if self.variant else "")

    @property
    def standing(self) -> str:
        """What a verdict on these rows is worth: "complete" (all rows of the file that a paper
        used, which decide), "rerunnable" (sampled, by anyone again), or "partial" (real rows, of
        that file or, as OpenIntro's loans, of another one).
        """
        whole = self.n_rows == self.of_rows and self.variant != "OpenIntro"
        if self.kind != "real":
            return "rerunnable"
        return "complete" if whole else "partial"

    @property
    def is_classification(self) -> bool:
        """Whether y holds labels of {0, 1}; else it is a quantity."""
        return self.y.dtype == np.int8

    def __reduce__(self):
        raise TypeError(
            "a Dataset is not pickled: load it where it is needed, so that its source is true"
        )


def made(**fields) -> Dataset:
    """The loaders' one way to a Dataset; the note of a stand-in begins by saying that it is one."""
    if fields["kind"] == "stand-in":
        fields["note"] = f"invented rows in the likeness of: {fields['note']}"
    return Dataset(**fields, token=_TOKEN)


def verified(dataset: Dataset) -> Dataset:
    """The dataset, once the loader has found that its file has the published checksum."""
    return replace(dataset, verified=True, token=_TOKEN)


def noted(dataset: Dataset, *notes: str) -> Dataset:
    """The dataset with more to say on its rows, such as what was left out; "" says nothing."""
    said = "; ".join((dataset.note, *filter(None, notes)))
    return replace(dataset, note=said, token=_TOKEN)


def subset(dataset: Dataset, rows: np.ndarray) -> Dataset:
    """The dataset with only the rows of an ascending index array; its source says how many."""

    def picked(values: np.ndarray | None) -> np.ndarray | None:
        return None if values is None else values[rows]

    return replace(
        dataset,
        X=dataset.X[rows],
        y=dataset.y[rows],
        account=picked(dataset.account),
        time=picked(dataset.time),
        category=picked(dataset.category),
        token=_TOKEN,
    )


def standardise(dataset: Dataset, fit_on: np.ndarray) -> np.ndarray:
    """Features with every numeric column centred and scaled by the statistics of some rows.

    (x - mean) / standard deviation, both over the rows in fit_on; a column constant there is only
    centred, and effect-coded columns stay as they are.
    fit_on: index array or mask of the training rows, at least one.
    Returns float32 (N, F).  ValueError if fit_on is empty.
    Guarantee: none; the statistics are fitted on all training rows and no budget pays for them.
    Source: wang2018, section V.
    """
    fitted = np.arange(dataset.n_rows)[fit_on]
    n = len(fitted)
    if n == 0:
        raise ValueError("fit_on must name at least one row, got none")
    blocks = [fitted[first : first + BLOCK] for first in range(0, n, BLOCK)]
    mean = sum(dataset.X[block].sum(axis=0, dtype=np.float64) for block in blocks) / n
    deviation = np.sqrt(sum(((dataset.X[block] - mean) ** 2).sum(axis=0) for block in blocks) / n)
    is_constant = deviation <= 1e-6 * np.maximum(np.abs(mean), 1.0)
    mean = np.where(dataset.numeric, mean, 0.0)
    deviation = np.where(dataset.numeric & ~is_constant, deviation, 1.0)
    scaled = np.array(dataset.X)
    for first in range(0, dataset.n_rows, BLOCK):
        scaled[first : first + BLOCK] = (scaled[first : first + BLOCK] - mean) / deviation
    return scaled


def undersample(dataset: Dataset, share: float, seed: int) -> Dataset:
    """All positives and so many random negatives that the positives are `share` of the rows.

    share: in (0, 1), at least the share there is.  seed: of the draw.
    Returns a Dataset in the old order.  ValueError if share is out of range or there is no
    positive.
    Source: wang2018, section V (14%), where a fifth of the genuine rows is kept.
    """
    must_be("in (0, 1)", share=share)
    positives, negatives = np.flatnonzero(dataset.y == 1), np.flatnonzero(dataset.y == 0)
    if not dataset.is_classification or len(positives) == 0:
        raise ValueError(f"{dataset.name} has no positive row to under-sample around")
    wanted = round(len(positives) * (1 - share) / share)
    if wanted > len(negatives):
        raise ValueError(
            f"share must be at least {len(positives) / dataset.n_rows:.4f}, the share of positives "
            f"in {dataset.name}, got {share}"
        )
    kept = np.random.default_rng(seed).choice(negatives, wanted, replace=False)
    return subset(dataset, np.sort(np.concatenate([positives, kept])))


Rows = TypeVar("Rows", np.ndarray, Dataset)


class Parts(NamedTuple, Generic[Rows]):
    """Rows to learn from and rows to test on, as index arrays or masks, or as data sets of
    their own."""

    train: Rows
    test: Rows


def train_test(
    dataset: Dataset, *, by: str = "rows", test_share: float = 0.3, seed: int = 0
) -> Parts[np.ndarray]:
    """Rows for training and rows for testing, at random.

    by: "rows" takes single rows, of both labels in proportion; "account" takes whole accounts
    (companies).
    test_share: in (0, 1), met by "rows" to the nearest row of each label, by "account" to the
    nearest account.
    Returns ascending index arrays, disjoint, together all rows.
    ValueError if an argument is out of range, the data set has no accounts, or a part would be
    empty.
    """
    must_be("in (0, 1)", test_share=test_share)
    one_of(WAYS, by=by)
    rng = np.random.default_rng(seed)
    test = np.zeros(dataset.n_rows, bool)
    if by == "account":
        if dataset.account is None:
            raise ValueError(f"{dataset.name} cannot be split by account: its rows carry none")
        accounts = np.unique(dataset.account)
        held_out = rng.permutation(accounts)[: round(test_share * len(accounts))]
        test = np.isin(dataset.account, held_out)
    else:
        labels = dataset.y if dataset.is_classification else np.zeros(dataset.n_rows)
        for label in np.unique(labels):
            rows = rng.permutation(np.flatnonzero(labels == label))
            test[rows[len(rows) - round(test_share * len(rows)) :]] = True
    if test.all() or not test.any():
        raise ValueError(
            f"a part would hold no row: {dataset.n_rows:,} rows of {dataset.name}, "
            f"test_share {test_share}"
        )
    return Parts(np.flatnonzero(~test), np.flatnonzero(test))


def hashed(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A fold and a chance for each row, from its content alone.

    BLAKE2b of the row's numbers as float32 gives 64 bits; their rest modulo FOLDS is the fold, the
    upper 53 bits are the chance.  So everybody with the file has the same folds, whatever rows are
    beside a row, and equal rows are in one fold.
    rows: (N, F).
    Returns fold (N,), from 0 to FOLDS - 1, and chance (N,) in [0, 1), as good as independent of it.

    >>> hashed(np.arange(6).reshape(3, 2))[0]
    array([2, 4, 1])
    """
    content = np.ascontiguousarray(rows, dtype="<f4") + np.float32(0)  # no -0
    digests = [hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in content]
    drawn = np.frombuffer(b"".join(digests), "<u8")
    return (drawn % FOLDS).astype(int), (drawn >> np.uint64(11)) / 2.0**53
