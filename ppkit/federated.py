"""How the rows of a data set lie with several participants, and how their models become one."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from ppkit.datasets import Dataset
from ppkit.refusals import finite, must_be, one_of

TEST_SHARE = 0.2


class Split(NamedTuple):
    """participants: K ascending index arrays, disjoint.  test: ascending index array, disjoint from
    all of them."""

    participants: tuple[np.ndarray, ...]
    test: np.ndarray


def split(dataset: Dataset, *, n_participants: int, by: str = "account", seed: int = 0) -> Split:
    """Give rows to n_participants, and a fifth of all to a test set that depends on neither
    n_participants nor seed.

    n_participants: K >= 1.  seed: of everything but the test set.
    by: "account" lays whole accounts evenly over the participants; "category" gives every
    participant merchant categories of its own (the same test accounts; training rows differ in
    kind, not only in number); "rows" lays single rows.  A data set without accounts takes "account"
    as "rows", one row being one customer there.
    Returns index arrays whose union is all rows.  ValueError if an argument is out of range,
    categories are missing, or a participant or the test set would hold no row.
    Source: wang2018, section V (20% test, accounts evenly over 5 or 30 participants).
    """
    must_be("a whole number >= 1", n_participants=n_participants)
    one_of(("account", "category", "rows"), by=by)
    if by == "category" and dataset.category is None:
        raise ValueError(f"{dataset.name} has no merchant categories to split by: use by='rows'")
    whole = (
        np.arange(dataset.n_rows) if by == "rows" or dataset.account is None else dataset.account
    )
    _, unit = np.unique(whole, return_inverse=True)
    n_units = int(unit.max()) + 1
    shuffled = np.random.default_rng(0).permutation(n_units)
    n_test = round(TEST_SHARE * n_units)
    in_test = np.isin(unit, shuffled[:n_test])
    rng = np.random.default_rng(seed)
    if by == "category":
        owner = _categories(dataset.category, n_participants, rng)[dataset.category]
    else:
        turn = np.full(n_units, -1)
        training = np.sort(shuffled[n_test:])
        turn[rng.permutation(training)] = np.arange(len(training)) % n_participants
        owner = turn[unit]
    owner = np.where(in_test, -1, owner)
    *parts, test = (np.flatnonzero(owner == k) for k in (*range(n_participants), -1))
    if empty := [k for k, part in enumerate((*parts, test)) if len(part) == 0]:
        who = f"participant {empty[0]} of {n_participants}"
        raise ValueError(
            f"{who if empty[0] < n_participants else 'the test set'} would hold no row of "
            f"{dataset.name} ({dataset.n_rows:,} rows, split by {by}): take fewer participants"
        )
    return Split(tuple(parts), test)


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
    Returns a new tensor (P,) of the vectors' type.  ValueError if a vector holds NaN, or the
    weights are not K such numbers, some of them above 0.
    Guarantee: none; the server sees every vector, unless a secure aggregation adds them up first.
    Source: McMahan et al. 2017, Algorithm 1 (w_k = rows of participant k); kanodia2020, section
    4.2.3.

    >>> average([torch.tensor([1.0, 2.0]), torch.tensor([5.0, 2.0])], [3, 1])
    tensor([2., 2.])
    """
    shares = torch.tensor([float(weight) for weight in weights], dtype=torch.float64)
    must_be("a finite number >= 0", **{f"weight {k}": w for k, w in enumerate(shares.tolist())})
    if len(shares) != len(parameters) or not shares.any():
        raise ValueError(
            f"weights must be {len(parameters)} numbers, one a vector, and not all 0, got {weights}"
        )
    for k, vector in enumerate(parameters):
        finite(**{f"vector {k}": vector})
    return (shares / shares.sum()).to(parameters[0].dtype) @ torch.stack(list(parameters))
