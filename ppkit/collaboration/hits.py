"""Hinge sums of many models at once: for each model,
the sum of the records whose margin is below 1.

A record's line is r = [y x, -1], a model's is t = [theta, 1]: the margin is below 1 where r.t < 0,
and the sum of those r holds the gradient and the value of the hinge. Runs of one setting lie close
together. Where |r.c| > |r|_2 max |t - c|_2, c their mean, all of them are on the same side
(Cauchy-Schwarz), and one product with c stands for all; only the other records are multiplied with
every model. No sum is changed by that.
"""

import numpy as np
from numpy.typing import DTypeLike

_LOOK = 4096  # records that are looked at together
_COLUMNS = 128  # models that are multiplied together, at most
_PRODUCTS = 128 * _COLUMNS  # numbers r.t that stay in the cache


class Lines:
    """The records of one owner, ready to be summed.

    signed: (n, p) y x.  dtype: float64, or float32 for products and sums that are rounded.
    """

    def __init__(self, signed: np.ndarray, dtype: DTypeLike):
        self.lines = np.c_[signed, -np.ones(len(signed))].astype(dtype)
        self.norms = np.linalg.norm(self.lines, axis=1)

    def sums(self, columns: np.ndarray, together: int) -> tuple[np.ndarray, np.ndarray]:
        """Over the records below margin 1 of each model: sum y x (p, C), and their number (C,).

        columns: (p, C) float64, C models.  together: so many consecutive models are close to each
        other.
        """
        models = np.vstack([columns, np.ones(columns.shape[1])]).T
        width = min(_COLUMNS, together * max(1, 64 // together))
        starts = range(0, len(models), width)
        total = np.concatenate([self._sums(models[left : left + width]) for left in starts])
        return total[:, :-1].T, -total[:, -1]

    def _sums(self, models: np.ndarray) -> np.ndarray:
        centre = models.mean(axis=0)
        radius = np.linalg.norm(models - centre, axis=1).max()
        margin = radius + 1e-12 * np.linalg.norm(models, axis=1).max()  # of rounding
        models = models.astype(self.lines.dtype)
        centre = centre.astype(self.lines.dtype)
        rows = _PRODUCTS // len(models)
        total = np.zeros(models.shape)
        for first in range(0, len(self.lines), _LOOK):
            lines = self.lines[first : first + _LOOK]
            norms = self.norms[first : first + _LOOK]
            middle = lines @ centre
            split = np.flatnonzero(np.abs(middle) <= norms * margin)
            if len(split) < 0.9 * len(lines):  # else a copy costs more than it saves
                agreed = (middle < 0).astype(lines.dtype)
                agreed[split] = 0
                total += agreed @ lines
                lines = lines[split]
            for start in range(0, len(lines), rows):
                block = lines[start : start + rows]
                total += (models @ block.T < 0).astype(lines.dtype) @ block
        return total
