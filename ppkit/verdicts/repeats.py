"""A number that was measured on several splits of one file's rows, from several starts each, and
the interval that decides a claim on its mean."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a page that shows what was decided needs no arithmetic
    import numpy as np

NO_WIDTH = 1e-12  # of an interval whose splits all agree: 0 would read as "not known"


@dataclass(frozen=True, eq=False)
class Repeats:
    """One number a split and start, of the balanced mixed model with both of them random.

    y_ij = mu + split_i + start_ij,    i = 1..n, j = 1..m

    values: (n, m), n >= 2 splits with m >= 1 starts each; of a difference, one difference a split
    and start, taken on the same rows and from paired starts.
    `ledger.record` takes it in the place of values by seed, and then the interval decides.
    ValueError for other shapes or numbers that are not finite.
    Guarantee: in this model, normal, the mean of the n split means has Student's distribution with
    n - 1 degrees of freedom around mu, whatever the two variances are. mu is the mean over all
    splits and starts of *this* file: the interval says nothing of other rows, since every split
    draws from the same ones.

    >>> Repeats([[1.0, 3.0], [2.0, 4.0], [4.0, 4.0]]).mean
    3.0
    """

    values: np.ndarray = field(repr=False)

    def __post_init__(self):
        import numpy as np

        table = np.asarray(self.values, dtype=float)
        if table.ndim != 2 or len(table) < 2 or not table.size or not np.isfinite(table).all():
            raise ValueError(
                "values must be finite numbers, (splits, starts), of two splits or more, "
                f"got shape {table.shape}"
            )
        object.__setattr__(self, "values", table)

    def __str__(self) -> str:
        n, m = self.values.shape
        return f"{n} splits with {m} start{'s' * (m > 1)} each"

    @property
    def by_split(self) -> np.ndarray:
        """(n,): the mean over the starts of each split."""
        return self.values.mean(axis=1)

    @property
    def mean(self) -> float:
        return float(self.values.mean())

    @property
    def spread(self) -> float:
        """Standard deviation of the split means."""
        return float(self.by_split.std(ddof=1))

    @property
    def halfwidth(self) -> float:
        """Of the 95% interval of the mean: t(.975, n - 1) spread / sqrt(n), at least `NO_WIDTH`."""
        from scipy import special  # slow to import

        n = len(self.values)
        return max(float(special.stdtrit(n - 1, 0.975)) * self.spread / n**0.5, NO_WIDTH)

    @property
    def deviations(self) -> tuple[float, float]:
        """Standard deviations of a split and of a start, by the analysis of variance; that of a
        split is 0 where its estimate of a variance is negative.  (nan for a start where each split
        has one.)"""
        m = self.values.shape[1]
        if m == 1:
            return self.spread, float("nan")
        within = float(self.values.var(axis=1, ddof=1).mean())
        between = max(self.spread**2 - within / m, 0.0)
        return between**0.5, within**0.5
