"""Which rows teach and which test, when a model is trained once and by nobody in particular."""

import hashlib
from typing import NamedTuple

import numpy as np

from ppkit.refusals import must_be, one_of

from .dataset import Dataset

WAYS = ("rows", "account", "time")
FOLDS, HELD_OUT = 5, 0  # of `hashed`: no stand-in that is shipped was fitted to the held-out fold


class Parts(NamedTuple):
    """train, test: ascending index arrays, disjoint, together all rows."""

    train: np.ndarray
    test: np.ndarray


def train_test(
    dataset: Dataset, *, by: str = "rows", test_share: float = 0.3, seed: int = 0
) -> Parts:
    """Rows for training and rows for testing.

    by: "rows" takes single rows at random, and of both labels in proportion; "account" takes whole
    accounts (companies); "time" takes the last rows of every account, or of the whole data set
    where it has no accounts, without chance.
    test_share: in (0, 1), met by "rows" to the nearest row of each label, by "account" to the
    nearest account, and by "time" to the nearest row of each account.  seed: of "rows" and
    "account".
    ValueError if an argument is out of range, the data set has no accounts or no time, or a part
    would be empty.
    """
    must_be("in (0, 1)", test_share=test_share)
    one_of(WAYS, by=by)
    missing = dataset.account if by == "account" else dataset.time if by == "time" else dataset.y
    if missing is None:
        raise ValueError(f"{dataset.name} cannot be split by {by}: its rows carry none")
    test = np.zeros(dataset.n_rows, bool)
    rng = np.random.default_rng(seed)
    if by == "account":
        accounts = np.unique(dataset.account)
        test = np.isin(
            dataset.account, rng.permutation(accounts)[: round(test_share * len(accounts))]
        )
    else:
        for rows in _groups(dataset, by):
            ordered = (
                rng.permutation(rows)
                if by == "rows"
                else rows[np.argsort(dataset.time[rows], kind="stable")]
            )
            test[ordered[len(rows) - round(test_share * len(rows)) :]] = True
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


def _groups(dataset: Dataset, by: str) -> list[np.ndarray]:
    """Rows that are split alike: those of one label, or of one account."""
    key = (dataset.y if dataset.is_classification else None) if by == "rows" else dataset.account
    if key is None:
        return [np.arange(dataset.n_rows)]
    order = np.argsort(key, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(key[order])) + 1)
