"""Looking back along each account: prefix sums, windows and earlier rows of the same kind.

All running sums are taken over whole numbers (cents, metres, seconds), so they are exact: cutting the table after a
row, or computing other accounts beside this one, changes no bit of what came before.
"""

import numpy as np

_SPAN = np.int64(1) << 26                    # seconds an account may occupy; eight months are 2.1e7


class History:
    """Questions about the past of each row: "past" means earlier rows of the same account, never the row itself."""

    def __init__(self, who: np.ndarray, time: np.ndarray):
        """who: account of each row, ascending.  time: whole seconds in [0, 2**26), ascending within an account."""
        self.n = len(who)
        self.who = np.asarray(who, np.int64)
        self._key = self.who * _SPAN + np.asarray(time, np.int64)
        if self.n and (np.diff(self._key) < 0).any():
            raise ValueError("rows must be sorted by account and time")
        new = np.ones(self.n, bool)
        new[1:] = self.who[1:] != self.who[:-1]
        self.first = np.maximum.accumulate(np.where(new, np.arange(self.n), 0))

    def since(self, seconds: int) -> np.ndarray:
        """(N,) index of the first row of the account that lies less than `seconds` before each row."""
        start = np.searchsorted(self._key, self._key - seconds, side="right")
        return np.maximum(start, self.first)

    def total(self, values: np.ndarray, since: np.ndarray | None = None) -> np.ndarray:
        """(N,) sum of whole numbers over the past rows from index `since` (default: the account's first row) on."""
        prefix = np.zeros(self.n + 1, np.int64)
        np.cumsum(values, dtype=np.int64, out=prefix[1:])
        return prefix[:-1] - prefix[self.first if since is None else since]

    def alike(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Past rows of the account with the same code: their number (N,) and the index of the last one, -1 if none."""
        order, first = self._grouped(codes)
        before = np.empty(self.n, np.int64)
        before[order] = np.arange(self.n) - first
        last = np.full(self.n, -1, np.int64)
        follows = np.arange(self.n) > first
        last[order[follows]] = order[np.flatnonzero(follows) - 1]
        return before, last

    def total_alike(self, codes: np.ndarray, values: np.ndarray) -> np.ndarray:
        """(N,) sum of whole numbers over the past rows of the account with the same code."""
        order, first = self._grouped(codes)
        prefix = np.zeros(self.n + 1, np.int64)
        np.cumsum(values[order], dtype=np.int64, out=prefix[1:])
        found = np.empty(self.n, np.int64)
        found[order] = prefix[:-1] - prefix[first]
        return found

    def _grouped(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        key = self.who * (np.int64(codes.max()) + 1 if self.n else 1) + codes
        order = np.argsort(key, kind="stable")
        key = key[order]
        new = np.ones(self.n, bool)
        new[1:] = key[1:] != key[:-1]
        return order, np.maximum.accumulate(np.where(new, np.arange(self.n), 0))
