"""What Gaussian noise leaves of the attack: the law of dW_j / db_j when both carry noise,
in closed form.

The ratio A = T / B of independent normal variables has no mean and no variance whatever the noise
(B comes close to 0 with a density above 0), so errors are told by their distribution function and
its quantiles, never by a mean square.

For one neuron T = dW_jf + noise, B = db_j + noise, both of standard deviation
    noise_scale = noise_multiplier * max_grad_norm / n_microbatches;
true value a = dW_jf / db_j.  The same law with ||db||_2 for db_j holds for an attacker who knows
the proportions of the delta_j and adds the neurons up by them; it is the best that many neurons
can give.
"""

import bisect
import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import owens_t

from ppkit.validation import finite, must_be

_LEAST = 1e-300  # standard deviation


def ratio_cdf(
    t: ArrayLike, *, mean_top: float, sd_top: float, mean_bottom: float, sd_bottom: float
) -> np.ndarray:
    """The chance that a ratio of two independent normal variables is at most t, exactly.

    P(T / B <= t) = P(T - t B <= 0, B > 0) + P(T - t B >= 0, B < 0)
                  = 2 [O(h, p) + O(k, q)], and 1 more where h and k differ in sign,
                    O being Owen's function,

    h = -(m_T - t m_B) / s,  k = -m_B / s_B,  p = (k - t m_T s_B / s_T^2) s_T / (s h),
    q = -m_T / (s_T k),  s^2 = s_T^2 + t^2 s_B^2.
    t: real, one or more.  mean_top, mean_bottom: finite.
    sd_top, sd_bottom: >= 1e-300.
    Returns chances in [0, 1], float64, within about 1e-15.
    ValueError if an argument is out of range.
    Source: Hinkley 1969, equation (4), for correlation 0, with the bivariate normal integral
    after Owen 1956.

    >>> float(ratio_cdf(1.0, mean_top=0, sd_top=1, mean_bottom=0, sd_bottom=1))  # Cauchy
    0.75
    """
    t = np.asarray(t, dtype=np.float64)
    finite(t=t, mean_top=mean_top, mean_bottom=mean_bottom)
    _check_deviations(sd_top=sd_top, sd_bottom=sd_bottom)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        slope = t * sd_bottom / sd_top  # of the line T = t B, in units of the deviations
        length = np.hypot(1.0, slope)
        x, k = mean_top / sd_top, -mean_bottom / sd_bottom
        h = -(x + slope * k) / length
        # (k - rho h) / (h sqrt(1 - rho^2)) with rho = -slope / length
        p = np.where(h == 0, np.copysign(np.inf, k), (k - slope * x) / (length * h))
        q = np.copysign(np.inf, h) if k == 0 else -x / k
        apart = (h * k < 0) | ((h * k == 0) & (h + k < 0))
        chance = 2 * (owens_t(h, p) + owens_t(k, q)) + apart
        if k == 0:
            chance = np.where(h == 0, 0.5 + np.arctan(slope) / np.pi, chance)
    return np.clip(chance, 0.0, 1.0)


def error_cdf(
    error: ArrayLike, *, value: float, bias_grad: float, noise_scale: float, n_rounds: float = 1
) -> np.ndarray:
    """The chance that an attacker who averages n_rounds noisy gradients and divides is off by at
    most `error`.

    P(|A - a| <= e) = F(a + e) - F(a - e),    A = (a db + N(0, s^2 / R)) / (db + N(0, s^2 / R))

    error: e >= 0, one or more, in the unit of the feature.  value: a, the true feature.
    bias_grad: db as it is shared, after clipping.
    noise_scale: s, finite, in the unit of the gradient, with s / sqrt(R) >= 1e-300.
    n_rounds: R >= 1 rounds with the same gradient and fresh noise.
    Returns chances.  ValueError if an argument is out of range.

    >>> round(float(error_cdf(0.1, value=1.0, bias_grad=0.5, noise_scale=0.01)), 4)
    0.9995
    """
    error = np.asarray(error, dtype=np.float64)
    finite(error=error, value=value, bias_grad=bias_grad)
    must_be("a finite number >= 0", error=float(error.min()))
    must_be("a whole number >= 1", n_rounds=n_rounds)
    scale = noise_scale / math.sqrt(n_rounds)
    _check_deviations(noise_scale=scale)
    law = dict(mean_top=value * bias_grad, sd_top=scale, mean_bottom=bias_grad, sd_bottom=scale)
    return ratio_cdf(value + error, **law) - ratio_cdf(value - error, **law)


def rounds_until(
    error: float, *, p: float, value: float, bias_grad: float, noise_scale: float
) -> int:
    """The least number of averaged rounds after which the error is at most `error` with chance p.

    error: > 0.  p: in (0, 1).  value, bias_grad (not 0), noise_scale: as in `error_cdf`, single
    numbers.
    Returns R, from 1 to 2^100.  ValueError if an argument is out of range, or no such R is enough.

    >>> rounds_until(0.1, p=0.9, value=1.0, bias_grad=0.1, noise_scale=1.1)
    65755
    """
    must_be("in (0, 1)", p=p)
    must_be("a finite number > 0", error=error)
    if bias_grad == 0:
        raise ValueError("bias_grad must not be 0: the attacker hears noise only")

    def reached(n_rounds: int) -> float:
        chance = error_cdf(
            error, value=value, bias_grad=bias_grad, noise_scale=noise_scale, n_rounds=n_rounds
        )
        return float(chance)

    high = 1
    while reached(high) < p:
        if high >= 2**100:
            raise ValueError(
                f"no n_rounds up to 2^100 brings the error to {error:g} with chance {p:g} "
                f"at bias_grad {bias_grad:g} and noise_scale {noise_scale:g}"
            )
        high *= 2
    return bisect.bisect_left(range(high), p, lo=high // 2 + 1, key=reached)


def _check_deviations(**deviations: float) -> None:
    for name, deviation in deviations.items():
        if not _LEAST <= deviation < math.inf:
            raise ValueError(f"{name} must be finite and at least 1e-300, got {deviation}")
