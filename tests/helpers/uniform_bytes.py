"""Are words uniform?  The one test of it that all tests of shares and masks use, with its failure
chance."""

import numpy as np
import torch
from scipy.stats import binom


def unusual_bytes(words: torch.Tensor, chance: float = 1e-9) -> int:
    """How many byte values are too rare or too common in one of the eight places of int64 words; 0
    if they look uniform.

    The count of one value in one place is Binomial(n, 1/256) if the words are uniform and
    independent: exact tails, and a union bound over two sides, eight places and 256 values. Uniform
    words give 0 but for the stated chance.
    """
    columns = np.ascontiguousarray(words.numpy().reshape(-1)).view(np.uint8).reshape(-1, 8)
    counts = np.stack([np.bincount(columns[:, place], minlength=256) for place in range(8)])
    each, n = chance / counts.size / 2, len(columns)
    low, high = binom.ppf(each, n, 1 / 256) - 1, binom.isf(each, n, 1 / 256)
    assert binom.cdf(low, n, 1 / 256) <= each and binom.sf(high, n, 1 / 256) <= each and low >= 0
    return int(((counts <= low) | (counts > high)).sum())
