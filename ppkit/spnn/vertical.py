"""The two data sets of zhou2021 as k holders have them: columns cut between holders, rows into
train and test."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from ppkit.datasets import Dataset, standardise, train_test
from ppkit.datasets.dataset import subset
from ppkit.spnn.rivals import even_widths
from ppkit.validation import one_of

ACCURACY = {"train": 0.8, "test": 0.2}  # section 6.1, fraud; distress: .7 and .3
LEAKAGE = {"shadow": 0.5, "train": 0.25, "test": 0.25}  # section 6.3, Table 2


@dataclass(frozen=True, eq=False)
class Vertical:
    """Rows that lie with several holders.  All dictionaries have the same keys, such as "train" and
    "test".

    parts: for each key one tensor (N, holders[i]) a holder.  y: (N,) int64 in {0, 1}, which only
    the label holder has.
    rows: int64 (N,), where they stand in the data set.  holders: columns of each.  feature_names:
    in the order of the columns.  source: as the Dataset says.
    """

    parts: dict[str, list[Tensor]] = field(repr=False)
    y: dict[str, Tensor] = field(repr=False)
    rows: dict[str, np.ndarray] = field(repr=False)
    holders: list[int]
    feature_names: tuple[str, ...] = field(repr=False)
    source: str

    def __getitem__(self, key: str) -> tuple[list[Tensor], Tensor]:
        """(parts, y) of one key, as `training.train` takes them."""
        return self.parts[key], self.y[key]


def fraud(
    dataset: Dataset,
    *,
    holders: int = 2,
    with_amount: bool = False,
    fractions: Mapping[str, float] = ACCURACY,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
) -> Vertical:
    """creditcard for k holders: V1 to V28 in order, 14 columns each for two, and the amount with
    the last one if asked.

    holders: k, 1 to the number of columns; widths differ by at most 1.  with_amount: 29 columns;
    section 6.1 counts 28 features, section 6.3 attacks the amount and does not say whether the
    network has it.
    fractions: of the rows by key, in order; ACCURACY or LEAKAGE.  seed: of the choice of rows, by
    label in proportion.
    Returns a Vertical, standardised by its "train" rows only.  ValueError for another data set or
    wrong fractions.
    """
    one_of(("creditcard",), dataset=dataset.name)
    wanted = [f"V{i}" for i in range(1, 29)] + ["Amount"] * with_amount
    return vertical(dataset, wanted, holders, fractions=fractions, seed=seed, dtype=dtype)


def distress(dataset: Dataset, *, holders: int = 2, seed: int = 0) -> Vertical:
    """distress for k holders: all inputs of its variant, one-hot ones as they are, in order and cut
    between the file's own columns.

    Equal widths would give the first of two holders nothing but codes of the company, and the
    second every number.
    holders, seed: as for `fraud`; three tenths of the rows are for the test.
    Returns a Vertical with "train" and "test".  ValueError for another data set or an argument out
    of range.
    """
    one_of(("distress",), dataset=dataset.name)
    return vertical(
        dataset, dataset.feature_names, holders, fractions={"train": 0.7, "test": 0.3}, seed=seed
    )


def vertical(
    dataset: Dataset,
    names: Sequence[str],
    holders: int,
    *,
    fractions: Mapping[str, float],
    seed: int,
    dtype: torch.dtype = torch.float32,
) -> Vertical:
    """Split any data set for k holders: its columns among them, its rows by fractions.

    names: the columns, in this order. Several that code one column of the file ("x80 = 1",
    "x80 = 2") must be neighbours, and stay with one holder; holders get nearly equal numbers of the
    file's columns.
    fractions: shares of the rows, such as {"train": 0.6, "valid": 0.2, "test": 0.2}: positive, with
    sum 1; the rows of "train" give mean and deviation of numeric columns.
    seed: of the choice of rows.  ValueError if the fractions do not sum to 1.
    """
    if abs(sum(fractions.values()) - 1) > 1e-9:
        raise ValueError(f"fractions must sum to 1, got {dict(fractions)}")
    columns = [_column(dataset, name) for name in names]
    widths = _widths(names, holders)
    rows = _split_rows(dataset, fractions, seed)
    scaled = standardise(dataset, rows["train"])
    of_holders = np.split(columns, np.cumsum(widths)[:-1])
    parts, y = {}, {}
    for key in fractions:
        blocks = [scaled[np.ix_(rows[key], own)] for own in of_holders]
        parts[key] = [torch.from_numpy(block).to(dtype) for block in blocks]
        y[key] = torch.from_numpy(dataset.y[rows[key]].astype(np.int64))
    return Vertical(parts, y, rows, widths, tuple(names), dataset.source)


def _widths(names: Sequence[str], holders: int) -> list[int]:
    """How many of the columns each holder has."""
    codes_per_column = list(Counter(name.split(" = ")[0] for name in names).values())
    ends = np.cumsum(even_widths(len(codes_per_column), holders))
    return [int(codes.sum()) for codes in np.split(codes_per_column, ends[:-1])]


def _split_rows(
    dataset: Dataset, fractions: Mapping[str, float], seed: int
) -> dict[str, np.ndarray]:
    """The rows of each key, none twice. The last key is cut off first; the first key keeps the
    rows that remain."""
    first, *others = fractions
    remaining = np.arange(dataset.n_rows)
    remaining_share = 1.0
    cut_off = {}
    for key in reversed(others):
        share = fractions[key] / remaining_share  # of what remains
        split = train_test(subset(dataset, remaining), by="rows", test_share=share, seed=seed)
        cut_off[key] = remaining[np.asarray(split.test)]
        remaining = remaining[np.asarray(split.train)]
        remaining_share -= fractions[key]
    return {first: remaining, **cut_off}


def above_median(dataset: Dataset) -> Tensor:
    """The property of section 6.3: 1 where the amount is above its median over all rows, else 0;
    (n_rows,) int64.

    Ties with the median are 0, so the property may be rarer than one half.  ValueError if there is
    no such column.
    """
    column = dataset.X[:, _column(dataset, "Amount")]
    return torch.from_numpy((column > np.median(column)).astype(np.int64))


def _column(dataset: Dataset, name: str) -> int:
    if name not in dataset.feature_names:
        raise ValueError(f"{dataset.name} has no column {name!r}")
    return dataset.feature_names.index(name)
