"""The Dataset that every notebook computes on, and the two steps that come before learning."""

from dataclasses import dataclass, field, replace

import numpy as np

_TOKEN = object()                # what load and the functions of this module hold, and nobody else


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows with labels and an honest word on where they come from; made by `ppkit.datasets.load` only.

    name: one of NAMES.  X: float32 (N, F), unscaled.  y: int8 (N,) in {0, 1}.  feature_names: F strings.
    numeric: bool (F,), False for effect-coded columns.  source: "simulated", "stand-in", "real: 284,807 rows" or
    "real subset: N of 284,807 rows".  note: one sentence on what the rows are.  account: int64 (N,) or None.
    category: int16 (N,) or None, the merchant's group.  All arrays are read-only.
    TypeError when made anywhere else, `dataclasses.replace` included; ValueError for NaN or infinite features, labels
    outside {0, 1}, lengths that do not fit.
    """
    name: str
    X: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    feature_names: tuple[str, ...] = field(repr=False)
    numeric: np.ndarray = field(repr=False)
    source: str
    note: str
    account: np.ndarray | None = field(default=None, repr=False)
    category: np.ndarray | None = field(default=None, repr=False)
    token: object = field(default=None, repr=False)
    of_rows: int | None = field(default=None, repr=False)      # rows of the full real file; None when nothing is real

    def __post_init__(self):
        if self.token is not _TOKEN:
            raise TypeError("a Dataset is made by ppkit.datasets.load only, so that its source is true")
        object.__setattr__(self, "token", None)
        checked(self.X, self.y, self.feature_names, name=self.name)
        for name in ("X", "y", "numeric", "account", "category"):
            object.__setattr__(self, name, _locked(getattr(self, name)))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.y)

    def __reduce__(self):
        raise TypeError("a Dataset is not pickled: load it where it is needed, so that its source is true")


def _locked(array: np.ndarray | None) -> np.ndarray | None:
    """A view that cannot be made writeable again, because what it looks at is not."""
    if array is None:
        return None
    if isinstance(array.base, np.ndarray):
        array.base.flags.writeable = False
    array.flags.writeable = False
    return array.view()


def checked(X: np.ndarray, y: np.ndarray, feature_names: tuple[str, ...], *, name: str) -> None:
    """Refuse features and labels that nothing should be learned from: ValueError with the column, row and value."""
    if X.ndim != 2 or X.shape != (len(y), len(feature_names)) or len(y) == 0:
        raise ValueError(f"{name}: X must have one row per label and one column per feature name, "
                         f"got {X.shape} for {len(y)} labels and {len(feature_names)} names")
    good = np.isin(y, (0, 1))
    if not good.all():
        row = int(np.argmin(good))
        raise ValueError(f"{name}: labels must be 0 or 1, got {y[row]} in row {row}")
    with np.errstate(invalid="ignore"):
        total = X.sum(dtype=np.float64)
    if not np.isfinite(total):
        row, column = np.argwhere(~np.isfinite(X))[0]
        raise ValueError(f"{name}: features must be finite numbers, got {X[row, column]} "
                         f"in column {feature_names[column]!r}, row {row}")


def made(**fields) -> Dataset:
    """The one way to a Dataset, for the loaders of this package."""
    return Dataset(**fields, token=_TOKEN)


def subset(dataset: Dataset, rows: np.ndarray) -> Dataset:
    """The dataset with only the rows of an ascending index array; a real one says so in its source."""
    source = dataset.source
    if dataset.of_rows is not None:
        source = real_source(len(rows), dataset.of_rows)
    picked = {name: None if getattr(dataset, name) is None else getattr(dataset, name)[rows]
              for name in ("X", "y", "account", "category")}
    return replace(dataset, **picked, source=source, token=_TOKEN)


def real_source(n_rows: int, of_rows: int) -> str:
    """The source of real rows.

    >>> real_source(284_807, 284_807), real_source(44_212, 284_807)
    ('real: 284,807 rows', 'real subset: 44,212 of 284,807 rows')
    """
    return f"real: {n_rows:,} rows" if n_rows == of_rows else f"real subset: {n_rows:,} of {of_rows:,} rows"


def standardise(dataset: Dataset, fit_on: np.ndarray) -> np.ndarray:
    """Features with every numeric column centred and scaled by the statistics of some rows.

    (x - mean) / standard deviation, both over the rows in fit_on; a column constant there is only centred, and
    effect-coded columns stay as they are.
    fit_on: index array or mask of the training rows, at least one.
    Returns float32 (N, F).  ValueError if fit_on is empty.
    Guarantee: none; the statistics are fitted on all training rows and no budget pays for them.
    Source: wang2018, section V.
    """
    fit_on = np.asarray(fit_on)
    n_fitted = int(fit_on.sum()) if fit_on.dtype == bool else len(fit_on)
    if n_fitted == 0:
        raise ValueError("fit_on must name at least one row, got none")
    fitted, scaled = np.arange(dataset.n_rows)[fit_on], np.array(dataset.X)
    blocks = [fitted[first:first + 8192] for first in range(0, n_fitted, 8192)]
    mean = sum(dataset.X[block].sum(axis=0, dtype=np.float64) for block in blocks) / n_fitted
    deviation = np.sqrt(sum(((dataset.X[block] - mean) ** 2).sum(axis=0) for block in blocks) / n_fitted)
    constant = deviation <= 1e-6 * np.maximum(np.abs(mean), 1.0)
    mean, deviation = np.where(dataset.numeric, mean, 0.0), np.where(dataset.numeric & ~constant, deviation, 1.0)
    for first in range(0, dataset.n_rows, 8192):
        scaled[first:first + 8192] = (scaled[first:first + 8192] - mean) / deviation
    return scaled


def undersample(dataset: Dataset, share: float, seed: int) -> Dataset:
    """All positives and so many random negatives that the positives are `share` of the rows.

    share: in (0, 1), at least the share there is.  seed: of the draw.
    Returns a Dataset in the old order.  ValueError if share is out of range or there is no positive.
    Source: wang2018, section V (14%), where a fifth of the genuine rows is kept.
    """
    if not 0 < share < 1:
        raise ValueError(f"share must be in (0, 1), got {share}")
    positives, negatives = np.flatnonzero(dataset.y == 1), np.flatnonzero(dataset.y == 0)
    if len(positives) == 0:
        raise ValueError(f"{dataset.name} has no positive row to under-sample around")
    wanted = round(len(positives) * (1 - share) / share)
    if wanted > len(negatives):
        raise ValueError(f"share must be at least {len(positives) / dataset.n_rows:.4f}, the share of positives "
                         f"in {dataset.name}, got {share}")
    kept = np.random.default_rng(seed).choice(negatives, wanted, replace=False)
    return subset(dataset, np.sort(np.concatenate([positives, kept])))
