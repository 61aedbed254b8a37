"""The exponent of a power law, y = c x^slope: fitted to means of runs, with its interval."""

import numpy as np
from scipy import stats


def fitted(x, y_runs, *, confidence: float = 0.95) -> tuple[float, float, float]:
    """The slope of log(mean of runs) over log(x), least squares, and Student's interval over the
    points' residuals.

    x: (S,) > 0, S >= 3.  y_runs: (S,) or (S, n_runs), each mean > 0.  confidence: in (0, 1).
    Returns (slope, low, high). A line that bends has a wide interval; so has a noisy one.
    ValueError if an argument is out of range.

    >>> [round(value, 9) for value in fitted([1, 10, 100], [5.0, 0.05, 0.0005])]
    [-2.0, -2.0, -2.0]
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y_runs, dtype=float)
    means = y.reshape(len(y), -1).mean(axis=1) if y.size else y
    if x.ndim != 1 or x.size < 3 or means.shape != x.shape:
        raise ValueError(
            f"a slope needs three points or more and as many rows of runs, got {x.shape} and {y.shape}"
        )
    if not (
        (x > 0).all()
        and np.isfinite(x).all()
        and np.ptp(x) > 0
        and np.isfinite(means).all()
        and (means > 0).all()
    ):
        raise ValueError(
            f"points (not all equal) and means of runs must be > 0, got points {x} and means {means}"
        )
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be in (0, 1), got {confidence}")
    line = stats.linregress(np.log(x), np.log(means))
    error = line.stderr if np.ptp(means) > 0 else 0.0  # of a flat line scipy says nan
    half = stats.t.ppf((1 + confidence) / 2, x.size - 2) * error
    return float(line.slope), float(line.slope - half), float(line.slope + half)
