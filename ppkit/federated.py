"""How the rows of a data set lie with several participants, and how their models become one."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from ppkit.datasets import Dataset
from ppkit.validation import finite, must_be, one_of

TEST_SHARE = 0.2


class Split(NamedTuple):
    """participants: K ascending index arrays, disjoint.  test: ascending index array, disjoint from
    all of them."""

    participants: tuple[np.ndarray, ...]
    test: np.ndarray


def split(
    dataset: Dataset,
    *,
    n_participants: int,
    by: str = "account",
    seed: int = 0,
    test_share: float = TEST_SHARE,
) -> Split:
    """Give rows to n_participants, and a part of all to a test set that depends on neither
    n_participants nor seed.

    n_participants: K >= 1.  seed: of everything but the test set.
    by: "account" lays whole accounts evenly over the participants; "category" gives every
    participant merchant categories of its own (the same test accounts; training rows differ in
    kind, not only in number); "rows" lays single rows.  A data set without accounts takes "account"
    as "rows", one row being one customer there.
    test_share: of the accounts, in (0, 1); 1 / (K + 1) makes the test set as large as a part.
    Returns index arrays whose union is all rows.  ValueError if an argument is out of range,
    categories are missing, or a participant or the test set would hold no row.
    Source: wang2018, section V (20% test, accounts evenly over 5 or 30 participants).
    """
    must_be("a whole number >= 1", n_participants=n_participants)
    must_be("in (0, 1)", test_share=test_share)
    one_of(("account", "category", "rows"), by=by)
    category = dataset.category if by == "category" else None
    if by == "category" and category is None:
        raise ValueError(f"{dataset.name} has no merchant categories to split by: use by='rows'")
    rows = np.arange(dataset.n_rows)
    whole = rows if by == "rows" or dataset.account is None else dataset.account
    _, unit = np.unique(whole, return_inverse=True)
    shuffled = np.random.default_rng(0).permutation(int(unit.max()) + 1)
    n_test = round(test_share * len(shuffled))
    in_test = np.isin(unit, shuffled[:n_test])
    rng = np.random.default_rng(seed)
    if category is not None:
        owner = _categories(category, n_participants, rng)[category]
    else:
        of_unit = np.full(len(shuffled), -1)
        training = rng.permutation(np.sort(shuffled[n_test:]))
        of_unit[training] = np.arange(len(training)) % n_participants
        owner = of_unit[unit]
    participants = [np.flatnonzero(~in_test & (owner == k)) for k in range(n_participants)]
    test = np.flatnonzero(in_test)
    if min(len(rows) for rows in (*participants, test)) == 0:
        raise ValueError(
            f"a participant or the test set would hold no row of {dataset.name} "
            f"({dataset.n_rows:,} rows, split by {by}): take fewer than {n_participants}"
        )
    return Split(tuple(participants), test)


def _categories(category: np.ndarray, n_participants: int, rng: np.random.Generator) -> np.ndarray:
    """The owner of each category: the largest goes to whoever has fewest rows, ties to a random
    participant."""
    sizes = np.bincount(category)
    owner, load = np.full(len(sizes), -1), np.zeros(n_participants)
    tie = rng.permutation(n_participants)
    for one in np.argsort(-sizes, kind="stable"):
        if sizes[one]:
            owner[one] = tie[np.argmin(load[tie])]
            load[owner[one]] += sizes[one]
    return owner


def average(parameters: Sequence[torch.Tensor], weights: Sequence[float]) -> torch.Tensor:
    """The weighted mean of the participants' parameter vectors: the server's step in federated
    averaging.

    sum_k w_k theta_k / sum_k w_k

    parameters: K >= 1 flat float tensors (P,), as torch.nn.utils.parameters_to_vector makes them;
    what a model keeps in buffers (the running statistics of a batch norm) is not among them.
    weights: K finite numbers >= 0, shares or row counts alike: only their ratios matter.
    Returns a new tensor (P,) of the vectors' type.  ValueError if a vector holds NaN or whole
    numbers, or the weights are not K such numbers, some of them above 0.
    Guarantee: none; the server sees every vector, unless a secure aggregation adds them up first.
    Source: McMahan et al. 2017, Algorithm 1 (w_k = rows of participant k); kanodia2020, section
    4.2.3.

    >>> average([torch.tensor([1.0, 2.0]), torch.tensor([5.0, 2.0])], [3, 1])
    tensor([2., 2.])
    """
    shares = torch.tensor([float(weight) for weight in weights], dtype=torch.float64)
    if len(shares) != len(parameters) or not (shares >= 0).all() or not 0 < shares.sum() < math.inf:
        raise ValueError(
            f"weights must be {len(parameters)} numbers >= 0, one a vector, and not all 0, "
            f"got {weights}"
        )
    vectors = torch.stack(list(parameters)).detach()
    if not vectors.is_floating_point():
        raise ValueError(f"parameters must be vectors of floats, got {vectors.dtype}")
    finite(parameters=vectors)
    return (shares / shares.sum()).to(vectors.dtype) @ vectors
