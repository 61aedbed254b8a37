"""Hinge sums of many models at once: for each model,
the sum of the records whose margin is below 1.

A record's line is r = [y x, -1, 0 ...], a model's is t = [theta, 1, 0 ...]: the margin is below 1
where r.t < 0, and the sum of those r holds the gradient and the value of the hinge. Two things make
it fast, and neither changes a sum:
- Runs of one setting lie close together. Where |r.c| > |r|_2 max |t - c|_2, c their mean, all of
  them are on the same side (Cauchy-Schwarz), and one product with c stands for all; only the other
  records are multiplied with every model.
- For those, r.t is a float32 product, and what lies so near to 0 that rounding could have turned it
  is computed again in float64, as the exact predicates of geometry do.
"""

import os

import numba
import numpy as np

_REGISTER = 8  # a line has a multiple of so many numbers
_LOOK = 4096  # records that are looked at together
_COLUMNS = 128  # models that are multiplied together, at most
_PRODUCTS = 128 * _COLUMNS  # numbers r.t that stay in the cache


class Lines:
    """The records of one owner, ready to be summed.

    signed: (n, p) y x.  dtype: float64, or float32 for sums that are rounded
    (and no second look).
    """

    def __init__(self, signed, dtype):
        n, p = signed.shape
        lines = np.zeros((n, -(-(p + 1) // _REGISTER) * _REGISTER))
        lines[:, :p], lines[:, p] = signed, -1.0
        self.norms = np.sqrt(np.einsum("ij,ij->i", lines, lines))
        self.rough = lines.astype(np.float32)
        self.lines = lines if dtype == np.float64 else self.rough

    def sums(self, columns, together):
        """Over the records below margin 1 of each model: sum y x (p, C), and their number (C,).

        columns: (p, C) float64, C models.  together: so many consecutive models are close to each
        other.
        """
        p, n_models = columns.shape
        models = np.zeros((n_models, self.lines.shape[1]))
        models[:, :p] = columns.T
        models[:, p] = 1.0
        total = np.empty(models.shape)
        width = min(_COLUMNS, together * max(1, 64 // together))
        for left in range(0, n_models, width):
            total[left : left + width] = self._sums(models[left : left + width])
        return total[:, :p].T, -total[:, p]

    def _sums(self, models):
        centre = models.mean(axis=0)
        largest = float(np.sqrt(np.einsum("ij,ij->i", models, models).max()))
        spread = models - centre
        radius = float(np.sqrt(np.einsum("ij,ij->i", spread, spread).max())) + 1e-12 * largest
        coarse = self.rough if largest < 1e6 else self.lines
        # a product of w float32 numbers is within (w + 4) half units of |r|_2 |t|_2, in any order
        # of additions
        reach = (models.shape[1] + 4) * 2.0**-24 * largest if coarse is not self.lines else 0.0
        coarse_models = np.ascontiguousarray(models.T, dtype=coarse.dtype)
        centre, rows = centre.astype(self.lines.dtype), _PRODUCTS // len(models)
        weights = np.empty((rows, len(models)), self.lines.dtype)
        total, common = np.zeros(models.shape), np.zeros(models.shape[1])
        for first in range(0, len(self.lines), _LOOK):
            look = slice(first, first + _LOOK)
            lines, rough, norms = self.lines[look], coarse[look], self.norms[look]
            middle = lines @ centre
            split = np.flatnonzero(np.abs(middle) <= norms * radius)
            if len(split) < 0.9 * len(lines):  # else a copy costs more than it saves
                agreed = (middle < 0).astype(lines.dtype)
                agreed[split] = 0
                common += agreed @ lines
                lines, rough, norms = lines[split], rough[split], norms[split]
            for start in range(0, len(lines), rows):
                block = slice(start, start + rows)
                hit = weights[: len(lines[block])]
                _below(
                    rough[block] @ coarse_models, lines[block], models, norms[block] * reach, hit
                )
                total += hit.T @ lines[block]
        return total + common


@numba.njit(nogil=True, cache="NUMBA_CACHE_DIR" in os.environ)
def _below(found, lines, models, reach, hit):
    """hit (rows, C) = 1 where line.model < 0, else 0; found holds the products within reach (rows,)
    of them."""
    for row in range(len(found)):
        near, limit = 0, reach[row]
        for c in range(found.shape[1]):
            value = found[row, c]
            hit[row, c] = 1 if value < 0 else 0
            near += 1 if abs(value) <= limit else 0
        if near and limit > 0:
            for c in range(found.shape[1]):
                if abs(found[row, c]) <= limit:
                    product = 0.0
                    for j in range(lines.shape[1]):
                        product += lines[row, j] * models[c, j]
                    hit[row, c] = 1 if product < 0 else 0
