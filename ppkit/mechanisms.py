"""Noise, and the choice of the n largest coordinates under noise: what leaves a participant.

A selection takes a vector g and `scale` = sensitivity / epsilon, in the unit of g. For wang2018 the
sensitivity is lambda = 2 B / |D_q| when g is the mean of the clipped gradients, or 2 B when g is
their sum: the upload is the same.
The guarantees hold for real numbers; floating-point noise is not hardened.
`accounting.get_upload_budget` has the prices.
"""

import numpy as np

from ppkit.ordering import smallest
from ppkit.validation import finite, must_be


def laplace(values, *, scale: float, rng: np.random.Generator) -> np.ndarray:
    """`values` plus independent Laplace noise of density exp(-|z| / scale) / (2 scale).

    values: (...,) finite floats.  scale: l1 sensitivity / epsilon, >= 0, in the unit of values.
    rng: Generator.
    Returns a float64 array of the same shape.  ValueError on NaN or infinite values, or a scale out
    of range.
    Guarantee: epsilon-DP when scale = (l1 sensitivity) / epsilon, for the neighbouring relation of
    that sensitivity.
    Source: wang2018, Definition 2.3, which takes the l2 sensitivity: that costs sqrt(d) epsilon
    (see audit.laplace_l2).
    """
    values = _checked(values, scale)
    # the draws of rng.laplace, to the last bits of a logarithm, in a third of its time
    u = rng.random(values.size)
    tail = (2 - u) - u
    np.maximum(np.minimum(u + u, tail, out=tail), 2.0**-53, out=tail)
    noise = np.copysign(np.log(tail, out=tail), u - 0.5, out=tail)
    return values + scale * noise.reshape(values.shape)


def gaussian(values, *, scale: float, rng: np.random.Generator) -> np.ndarray:
    """`values` plus independent Gaussian noise of standard deviation `scale`.

    values: (...,) finite floats.  scale: noise_multiplier * (l2 sensitivity), >= 0, in the unit of
    values.
    Returns a float64 array of the same shape.  ValueError on NaN or infinite values, or a scale out
    of range.
    Guarantee: 1 / (2 noise_multiplier^2)-zCDP, for the neighbouring relation of that sensitivity.
    """
    values = _checked(values, scale)
    return values + scale * rng.standard_normal(values.shape)


def gumbel_top_n(
    g, n: int, *, scale: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The n coordinates whose signed value wins under Gumbel noise, and the winning sign of each.

    Candidates (j, +) and (j, -) score +g_j and -g_j; each gets Gumbel noise of `scale`; the better
    of a coordinate's two competes; the n best coordinates are taken. The better of the two is one
    Gumbel at scale * logaddexp(g_j / scale, -g_j / scale), and its sign is + with probability
    1 / (1 + exp(-2 g_j / scale)), independently of the selection: so one draw a coordinate and one
    a selected sign are enough.

    g: (P,) finite floats.  n: 1 <= n <= P.  scale: sensitivity / epsilon, >= 0; 0 means no noise.
    Returns indices (n,) int64, ascending, and signs (n,) int8 in {-1, 0, 1}; 0 only for g_j = 0
    with scale = 0.  Of equal scores, which only scale = 0 leaves, the first are taken.
    Guarantee: the law of n exponential mechanisms in turn, each with log-ratios inside an interval
    of length 2 epsilon (replace-one) or epsilon (add/remove): n epsilon^2 / 2-zCDP or
    n epsilon^2 / 8-zCDP, before sampling.
    Source: not in wang2018: the repair of its Algorithms 2 and 3.
    Durfee and Rogers (2019), one-shot Gumbel.

    >>> gumbel_top_n([0.1, -3.0, 2.0], 2, scale=0.0, rng=np.random.default_rng(0))
    (array([1, 2]), array([-1,  1], dtype=int8))
    """
    g, n = _checked_selection(g, n, scale)
    size = np.abs(g)
    with np.errstate(over="ignore"):  # scale 0 is the limit: exp(-infinity) = 0
        twin = np.exp(-2.0 * size / max(scale, np.finfo(float).tiny))
    noisy = size + scale * (np.log1p(twin) - np.log(rng.standard_exponential(g.size)))
    indices = _largest(noisy, n)
    return indices, _sign(g[indices] + 0.5 * scale * rng.logistic(size=n))


def laplace_top_n(
    g, n: int, *, scale: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The n coordinates of largest |g_j + Laplace noise|, and the signs of the noisy values.

    g: (P,) finite floats.  n: 1 <= n <= P.  scale: sensitivity / epsilon, >= 0; 0 means no noise.
    Returns indices (n,) int64, ascending, and signs (n,) int8 in {-1, 0, 1}.
    Guarantee: min(2 n, P) epsilon under replace-one, exactly, and half of it under add/remove,
    before sampling.
    Source: wang2018, Algorithms 2 and 3, with the noise on the signed gradient.
    """
    g, n = _checked_selection(g, n, scale)
    noisy = laplace(g, scale=scale, rng=rng)
    indices = _largest(np.abs(noisy), n)
    return indices, _sign(noisy[indices])


def laplace_signed_values(
    g, n: int, *, scale: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The n coordinates of largest g_j + Laplace noise, negative ones last, and the signs of the
    noisy values.

    Arguments and results as in `laplace_top_n`.  Guarantee: P epsilon under replace-one, half of it
    under add/remove (post-processing of P Laplace releases).  Source: wang2018, Algorithm 3 to the
    letter; it hardly sends a minus.
    """
    g, n = _checked_selection(g, n, scale)
    noisy = laplace(g, scale=scale, rng=rng)
    indices = _largest(noisy, n)
    return indices, _sign(noisy[indices])


def laplace_true_sign(
    g, n: int, *, scale: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The n coordinates of largest |g_j| + Laplace noise, and the signs of the TRUE gradient.

    Arguments and results as in `laplace_top_n`.  Guarantee: none. One record can turn a sign, and
    the turned sign is seen with certainty: no epsilon holds at any delta below the chance that the
    record is sampled.
    Source: wang2018, lambda of Algorithm 2 ("of the absolute value of each gradient") and a literal
    sign(G).
    """
    g, n = _checked_selection(g, n, scale)
    indices = _largest(laplace(np.abs(g), scale=scale, rng=rng), n)
    return indices, _sign(g[indices])


SELECTIONS = {
    "gumbel": gumbel_top_n,
    "laplace": laplace_top_n,
    "laplace_signed_values": laplace_signed_values,
    "laplace_true_sign": laplace_true_sign,
}


def _checked(values, scale) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64)
    finite(values=values)
    must_be("a finite number >= 0", scale=scale)
    return values


def _checked_selection(g, n, scale) -> tuple[np.ndarray, int]:
    g = _checked(g, scale)
    must_be("a whole number >= 1", n=n)
    if g.ndim != 1 or n > g.size:
        raise ValueError(
            f"g must be a vector and n a whole number from 1 to its length, got shape {g.shape} "
            f"and n = {n}"
        )
    return g, int(n)


def _largest(score: np.ndarray, n: int) -> np.ndarray:
    return smallest(-score, n)


def _sign(values: np.ndarray) -> np.ndarray:
    return np.sign(values).astype(np.int8)
