"""The stand-in for creditcard: times by class, a mixture of genuine rows, frauds in grades."""

import numpy as np
import pandas as pd

from ..creditcard import COLUMNS, FEATURES, FULL_FRAUDS, FULL_ROWS, RANGES
from .distributions import draw_mixture, from_normal, to_normal

BLOCKS, BLOCK = 16, 10_800  # three hours each, in seconds
LARGEST_AMOUNT = 26_000  # the published maximum is 25,691.16
KEYS = {
    0: ("weights", "means", "factors", "marginals", "knots", "shares", "drift"),
    1: ("weights", "means", "factors", "knots", "shares"),
}


def sample(parameters: dict[str, np.ndarray], rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Rows in order of time, fraud at the full file's rate of 492 in 284,807 (rounded), amounts in
    whole cents.

    parameters: as `tools/standins/creditcard.py` fits them.  rows: >= 1.
    Returns a table in the checked layout.
    """
    labels = np.zeros(rows, np.int8)
    labels[: round(rows * FULL_FRAUDS / FULL_ROWS)] = 1
    drawn = np.empty((rows, len(FEATURES)))
    for label, keys in KEYS.items():
        own = {key: parameters[f"{key}_{label}"].astype(np.float64) for key in keys}
        drawn[labels == label] = _of_one_class(own, int((labels == label).sum()), rng)
    order = np.argsort(drawn[:, 0], kind="stable")
    return pd.DataFrame(drawn[order], columns=list(FEATURES)).assign(Class=labels[order])[
        list(COLUMNS)
    ]


def _of_one_class(own: dict[str, np.ndarray], n: int, rng: np.random.Generator) -> np.ndarray:
    block = rng.choice(BLOCKS, n, p=own["shares"] / own["shares"].sum())
    time = np.floor((block + rng.random(n)) * BLOCK)
    scores = draw_mixture(own, n, rng)
    if "drift" in own:
        for j, mixed in enumerate(own["marginals"]):
            # over all blocks the marginal stays what it is
            moved = own["drift"][:, j] - own["shares"] @ own["drift"][:, j]
            spread = np.sqrt(max(1 - own["shares"] @ moved**2, 0.1))
            scores[:, j] = to_normal(scores[:, j], mixed) * spread + moved[block]
    values = np.column_stack(
        [from_normal(*one) for one in zip(scores.T, own["knots"], strict=True)]
    )
    values[:, -1] = np.round(np.minimum(np.expm1(values[:, -1]), LARGEST_AMOUNT), 2)
    low, high = np.array([RANGES[column] for column in FEATURES[1:]], float).T
    return np.column_stack([time, np.clip(values, low, high)])
