"""Hinge sums of many models at once: for each model,
the sum of the records whose margin is below 1.

A record's line is r = [y x, -1, 0 ...], a model's is t = [theta, 1, 0 ...]: the margin is below 1
where r.t < 0, and the sum of those r holds the gradient and the value of the hinge. Runs of one
setting lie close together. Where |r.c| > |r|_2 max |t - c|_2, c their mean, all of them are on the
same side (Cauchy-Schwarz), and one product with c stands for all; only the other records are
multiplied with every model. No sum is changed by that.
"""

import numpy as np
from numpy.typing import DTypeLike

_REGISTER = 8  # a line has a multiple of so many numbers
_LOOK = 4096  # records that are looked at together
_COLUMNS = 128  # models that are multiplied together, at most
_PRODUCTS = 128 * _COLUMNS  # numbers r.t that stay in the cache


class Lines:
    """The records of one owner, ready to be summed.

    signed: (n, p) y x.  dtype: float64, or float32 for products and sums that are rounded.
    """

    def __init__(self, signed: np.ndarray, dtype: DTypeLike):
        n, p = signed.shape
        lines = np.zeros((n, p + _REGISTER - p % _REGISTER))
        lines[:, :p], lines[:, p] = signed, -1.0
        self.norms = np.linalg.norm(lines, axis=1)
        self.lines = lines.astype(dtype)

    def sums(self, columns: np.ndarray, together: int) -> tuple[np.ndarray, np.ndarray]:
        """Over the records below margin 1 of each model: sum y x (p, C), and their number (C,).

        columns: (p, C) float64, C models.  together: so many consecutive models are close to each
        other.
        """
        p, n_models = columns.shape
        models = np.zeros((n_models, self.lines.shape[1]))
        models[:, :p], models[:, p] = columns.T, 1.0
        width = min(_COLUMNS, together * max(1, 64 // together))
        starts = range(0, len(models), width)
        total = np.concatenate([self._sums(models[left : left + width]) for left in starts])
        return total[:, :p].T, -total[:, p]

    def _sums(self, models: np.ndarray) -> np.ndarray:
        centre = models.mean(axis=0)
        radius = np.linalg.norm(models - centre, axis=1).max()
        margin = radius + 1e-12 * np.linalg.norm(models, axis=1).max()  # of rounding
        across = np.ascontiguousarray(models.T, dtype=self.lines.dtype)
        centre = centre.astype(self.lines.dtype)
        rows = _PRODUCTS // len(models)
        total, common = np.zeros(models.shape), np.zeros(models.shape[1])
        for first in range(0, len(self.lines), _LOOK):
            lines = self.lines[first : first + _LOOK]
            norms = self.norms[first : first + _LOOK]
            middle = lines @ centre
            split = np.flatnonzero(np.abs(middle) <= norms * margin)
            if len(split) < 0.9 * len(lines):  # else a copy costs more than it saves
                agreed = (middle < 0).astype(lines.dtype)
                agreed[split] = 0
                common += agreed @ lines
                lines = lines[split]
            for start in range(0, len(lines), rows):
                block = lines[start : start + rows]
                total += (block @ across < 0).astype(lines.dtype).T @ block
        return total + common
