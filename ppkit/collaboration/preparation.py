"""Lending Club's loans and the card transactions,
made into records that owners of Algorithm 2 can hold.

wu2020, section IV: categories become whole numbers, ids and addresses go (both done by
`ppkit.datasets`), a PCA fitted on the last 10,000 loans only makes ten components, owners take
consecutive blocks; for fraud V1..V28, the amount and a 1.
Our reading of what it leaves open, and why:
- columns are centred and divided by their standard deviation, both on those 10,000 rows: else
  annual income is nearly all of the variance and the curvatures of f lie a factor 1e7 to 1e8 apart
  (7 with both), so that no 100 steps can learn anything; "massively improves the numerical
  stability" is true of this reading only;
- y = theta.x has no intercept (level="none", the paper's words). Centred components cannot say what
  loans cost on average, then f is 160 where the rates' variance is 25, and "0 % for everybody" has
  a small psi. level="public" subtracts the mean rate of the public rows, as regression on principal
  components does (Hastie, Tibshirani and Friedman 2009, section 3.5.1); level="constant" appends a
  1, which the paper writes for its SVM only;
- the 10,000 rows are public and belong to no owner.  Records are scaled down to a public l1 bound,
  so that Xi is public.
"""

from dataclasses import dataclass, field

import numpy as np
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from ppkit.collaboration.owners import Bounds, clip_records
from ppkit.datasets import Dataset
from ppkit.validation import one_of

BOX = {"none": (3.0, 31.0), "constant": (13.0, 31.0), "public": (3.0, 20.0)}  # of theta and y
LEVELS = tuple(BOX)
AMOUNT = (88.35, 250.12)  # mean and standard deviation of Amount, as published with the data
N_COMPONENTS = 10
_BLOCK = 65_536


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """Records for `owners.blocks`, and what is public about them.

    X: float64 (n, p), every row within bounds.record_l1.  y: float64 (n,), within bounds.label
    (lending), -1/+1 (fraud).
    bounds: the public bounds.  public_X, public_y: the public rows, prepared alike, (0, p) and (0,)
    for fraud.
    clipped: share of the n records that were scaled down.  steps: what was done, one sentence each.
    """

    X: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    bounds: Bounds
    public_X: np.ndarray = field(repr=False)
    public_y: np.ndarray = field(repr=False)
    clipped: float
    steps: tuple[str, ...]


def lending(
    dataset: Dataset, *, n_public: int = 10_000, level: str = "none", record_l1: float = 15.0
) -> Prepared:
    """Loans as records of ten principal components, the interest rate in % a year as y.

    dataset: `load("lending", ...)`, with all columns, as the paper has it: grade and what is known
    only afterwards too.
    n_public: the last rows, >= 10, fewer than all: scaling, PCA and mean rate are fitted there, no
    owner holds them.
    level: "none" (the paper), "constant" (a 1 as last column) or "public"
    (y minus the public rows' mean rate).
    record_l1: every record is scaled down to this l1 norm, the 1 included;
    > 0, with a constant > 1.
    The public bounds on |theta|_inf and |y| are 3 and 31, with a constant 13 and 31, with level
    "public" 3 and 20; labels beyond are moved to the bound. The 3 and the 13 come
    from public rows: least squares on 10,000 of them alone has |theta|_inf of about 2.5, with a
    constant 12.5. The 31 is the platform's own highest rate, 30.99 %, rounded up: not the largest
    rate seen in these records.
    Returns Prepared with n_rows - n_public records.  ValueError for another level.
    Guarantee: none for the public rows; the other rows are used one by one, so that a record of X
    depends on no other.
    Source: wu2020, section IV-A.  Departures: the three readings above, the clipping,
    the bound on y.
    """
    one_of(LEVELS, level=level)
    first_public = dataset.n_rows - n_public
    components, explained = _components(dataset.X, first_public)
    mean_rate = float(dataset.y[first_public:].mean(dtype=np.float64)) if level == "public" else 0.0
    rate = dataset.y.astype(np.float64) - mean_rate
    bounds = Bounds(record_l1, *BOX[level])
    X = clip_records(components, l1_bound=record_l1, constant=level == "constant")
    y = np.clip(rate, -bounds.label, bounds.label)
    own = slice(0, first_public)
    room = record_l1 - (level == "constant")
    clipped = float(np.mean(np.abs(components[own]).sum(axis=1) > room))
    steps = (
        f"{len(dataset.feature_names)} columns, categories as whole numbers",
        f"centred and scaled to deviation 1 by the last {n_public:,} rows, which are public",
        f"{N_COMPONENTS} principal components of those rows, {explained:.0%} of their variance",
        {
            "none": "y = theta.x without a constant",
            "constant": "a 1 appended",
            "public": f"y is the rate less the public mean {mean_rate:.2f} %",
        }[level],
        f"records scaled down to l1 norm {record_l1:g}: {clipped:.1%} of them",
    )
    return Prepared(X[own], y[own], bounds, X[first_public:], y[first_public:], clipped, steps)


def _components(X: np.ndarray, first_public: int) -> tuple[np.ndarray, float]:
    """(x - mean)/deviation times the main directions, (N, N_COMPONENTS) float64, and their share of
    the variance: what owners are sent comes from the public rows only, and each uses it on its own.
    """
    public = X[first_public:]
    scaler = StandardScaler().fit(public.astype(np.float64))
    rows = (public - scaler.mean_) / scaler.scale_
    pca = PCA(n_components=N_COMPONENTS, svd_solver="full").fit(rows)
    parts = (X[first : first + _BLOCK] for first in range(0, len(X), _BLOCK))
    components = [(part - scaler.mean_) / scaler.scale_ @ pca.components_.T for part in parts]
    return np.concatenate(components), float(pca.explained_variance_ratio_.sum())


def fraud(
    dataset: Dataset, *, record_l1: float = 10.0, rng: np.random.Generator | None = None
) -> Prepared:
    """Card transactions as records of V1..V28, the amount and a 1, with labels -1 and +1 (fraud).

    dataset: `load("creditcard", ...)`; Time is left out, as in the paper.
    The amount is (amount - 88.35)/250.12, numbers published with the data: as it is, in euros, up
    to 25,691, it would be all of a clipped record.
    record_l1: every record is scaled down to this l1 norm, the 1 included; > 1.
    The box is |theta|_inf <= 2; with the hinge and its |theta|^2/2 the optimum has
    |theta|_2^2 <= 2 f(0) = 2, so that it is never active.
    rng: puts the rows in an order of its own, so that consecutive blocks are banks of the same two
    days; None keeps the file's order of time, in which the first owners hold the hours of one
    night. The paper does not say which it takes, and it matters: in the night V1 and V3 are not 0
    on average and serve as a second constant (psi of the constant .12, not .01).
    Returns Prepared with all rows; no row is public.
    Guarantee: this preparation is not covered by "replace one record": V1..V28 are a PCA over all
    the records, private ones too, and the amount's mean and deviation are statistics of all of
    them, published with the data. By the paper's own argument for lending (a PCA on the last 10,000
    rows only) it would not do; epsilon counts from the records as prepared.
    Source: wu2020, section IV-B.  Departures: the amount's scale, which the paper does not give,
    and the clipping.
    """
    names = [*(f"V{i}" for i in range(1, 29)), "Amount"]
    columns = [dataset.feature_names.index(name) for name in names]
    n = dataset.n_rows
    order = np.arange(n) if rng is None else rng.permutation(n)
    X, n_clipped = np.empty((n, len(columns) + 1)), 0
    for first in range(0, n, _BLOCK):
        block = slice(first, first + _BLOCK)
        rows = dataset.X[order[block]][:, columns].astype(np.float64)
        rows[:, -1] = (rows[:, -1] - AMOUNT[0]) / AMOUNT[1]
        X[block] = clip_records(rows, l1_bound=record_l1, constant=True)
        n_clipped += int(np.sum(np.abs(rows).sum(axis=1) > record_l1 - 1))
    clipped = n_clipped / n
    steps = (
        "V1 to V28 and the amount, the amount less 88.35 and over 250.12",
        "a 1 appended",
        f"records scaled down to l1 norm {record_l1:g}: {clipped:.1%} of them",
        "labels -1 (genuine) and +1 (fraud)",
        "rows in the order of the file" if rng is None else "rows in a random order",
    )
    return Prepared(
        X,
        np.where(dataset.y[order] == 1, 1.0, -1.0),
        Bounds(record_l1, theta_max=2.0),
        X[:0],
        np.empty(0),
        clipped,
        steps,
    )
