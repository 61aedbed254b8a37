"""How the loss goes from epoch to epoch, for Figs 6 and 7 of zhou2021.

The paper draws average losses. We read them as averages of its five repetitions (6.1). With small
batches one epoch moves a loss by more than its trend. So every measure is of means of five epochs
in a row: a loss counts as falling where it is lower five epochs later.
"""

from collections.abc import Sequence

import numpy as np

from ppkit.spnn.training import Record

REPETITIONS = 5  # 6.1: "We repeat experiments five times and report their average results"
EPOCHS = 5


def means(by_split: Sequence[Sequence[Record]], what: str) -> np.ndarray:
    """The curves that are judged: each is the mean of five splits, start by start.

    by_split: the records of the starts of each split, (splits, starts), with one look an epoch.
    what: "train_loss" or "test_loss".
    Returns (experiments, starts, epochs + 1), nats; before the first epoch comes first. Where the
    splits are no multiple of five, the experiments share them as evenly as can be.
    ValueError if a curve is shorter than another one, or there is no split.
    """
    curves = np.array([[record.curve[what] for record in starts] for starts in by_split])
    experiments = np.array_split(curves, -(-len(curves) // REPETITIONS))
    return np.array([splits.mean(axis=0) for splits in experiments])


def smooth(curve: np.ndarray) -> np.ndarray:
    """Means of five epochs in a row, without the loss before the first epoch.

    curve: (..., epochs + 1).  Returns (..., epochs - 4).
    ValueError if there are fewer than five epochs.

    >>> smooth(np.array([9.0, 5, 4, 3, 2, 1, 6])).tolist()
    [3.0, 3.2]
    """
    after = np.asarray(curve)[..., 1:]
    return np.lib.stride_tricks.sliding_window_view(after, EPOCHS, axis=-1).mean(axis=-1)


def falling(curve: np.ndarray) -> np.ndarray:
    """The share of epochs after which the smooth loss is lower than before.

    curve: (..., epochs + 1).  Returns (...), from 0 to 1.
    ValueError if there are fewer than six epochs.

    >>> falling(np.array([9.0, 5, 4, 3, 2, 1, 6, 0])).tolist()
    0.5
    """
    steps = np.diff(smooth(curve), axis=-1)
    if not steps.shape[-1]:
        raise ValueError("whether a loss falls is seen after six epochs or more")
    return np.mean(steps < 0, axis=-1)


def rise(curve: np.ndarray) -> np.ndarray:
    """How far the smooth loss at the end lies above its lowest: the last over the lowest, minus 1.

    curve: (..., epochs + 1), losses > 0.  Returns (...), >= 0.
    ValueError if there are fewer than five epochs.

    >>> rise(np.array([9.0, 5, 4, 3, 2, 1, 6])).round(3).tolist()
    0.067
    """
    of_five = smooth(curve)
    return of_five[..., -1] / of_five.min(axis=-1) - 1
