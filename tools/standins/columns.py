"""What is kept of a column's distribution: means over at least 50 rows each."""

import numpy as np

ROWS_A_KNOT = 50  # what is kept of real rows is never an average over fewer


def knots(values: np.ndarray, *, at_most: int = 128) -> np.ndarray:
    """Means of bins of equally many rows, ascending: what is kept of a column's distribution.

    values: (N,), N >= 1.  at_most: bins, >= 1.
    Returns (m,), m = min(at_most, N // 50), at least 1.
    Knot i stands for the probability (i + 1/2) / m.
    Guarantee: none that is formal; each number is a mean over at least 50 rows (over all of them if
    there are fewer).

    >>> knots(np.arange(100.0))
    array([24.5, 74.5])
    """
    bins = max(1, min(at_most, len(values) // ROWS_A_KNOT))
    ordered = np.sort(np.asarray(values, np.float64))
    edges = np.linspace(0, len(ordered), bins + 1).round().astype(int)
    return np.add.reduceat(ordered, edges[:-1]) / np.diff(edges)


def atoms(values: np.ndarray, *, at_most: int = 200) -> np.ndarray:
    """What is kept of a column with ties: ascending bins, each one repeated value or a stretch of
    rarer ones.

    A value held by at least max(50, N / at_most) rows is a bin of its own; the values between two
    such ones are gathered into stretches of so many rows.  What is left over under 50 rows joins a
    neighbouring bin without moving its numbers; at the upper end it makes one stretch with that
    bin.
    values: (N,), N >= 1.  at_most: about how many bins, >= 1.
    Returns (m, 3): share of the rows, mean, standard deviation (0 for one value).
    Guarantee: none that is formal; each number is over at least 50 rows (over all of them if there
    are fewer).

    >>> atoms(np.r_[np.zeros(60), 2.0, np.full(139, 3.0)]).round(3).tolist()
    [[0.305, 0.0, 0.0], [0.695, 3.0, 0.0]]
    """
    levels, counts = np.unique(np.asarray(values, np.float64), return_counts=True)
    wanted = max(ROWS_A_KNOT, -(-len(values) // at_most))
    groups, is_open = [], False  # [first level, behind the last level, a stretch?]
    for place, count in enumerate(counts):
        if count >= wanted:
            groups.append([place, place + 1, False])
            is_open = False
        elif is_open and counts[groups[-1][0] : groups[-1][1]].sum() < wanted:
            groups[-1][1] = place + 1
        else:
            groups.append([place, place + 1, True])
            is_open = True
    while (
        len(groups) > 1 and counts[groups[-1][0] :].sum() < ROWS_A_KNOT
    ):  # the upper tail keeps its rows
        groups[-2:] = [[groups[-2][0], groups[-1][1], True]]
    bins, waiting = [], 0
    for first, end, stretch in groups:
        rows, held = counts[first:end].sum(), levels[first:end]
        if rows < ROWS_A_KNOT and len(groups) > 1:
            waiting += rows
            if bins:
                bins[-1][0], waiting = bins[-1][0] + waiting, 0
            continue
        mean = np.average(held, weights=counts[first:end])
        spread = (
            np.sqrt(np.average((held - mean) ** 2, weights=counts[first:end])) if stretch else 0.0
        )
        bins.append([rows + waiting, mean, spread])
        waiting = 0
    table = np.array(bins)
    table[:, 0] /= len(values)
    return table
