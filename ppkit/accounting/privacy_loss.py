"""The privacy loss of a sampled Gaussian over many rounds, at any delta.

    P = (1 - q) N(0, s^2) + q N(1, s^2),    Q = (1 - q) N(0, s^2) + q N(away, s^2),
    L(x) = ln (P / Q)(x), which grows in x,
    delta(epsilon) = E_P (1 - e^(epsilon - L_1 - ... - L_T))+

One round's loss goes to the points of a grid: each cell between two points leaves its mass there,
so that both the mass under P and the mass under Q stay. That is the "connect the dots" of
Doroshenko et al. (2022), and never less than the truth. The rounds are added by a Fourier
transform.
dp_accounting's PLD does the same, and stops at a delta of about 1e-14: it cuts 1e-15 off the tails,
and a transform's rounding is as large. Here the masses are tilted by e^(tilt L) first, so that the
losses that decide delta are the likely ones. Rounding is then small beside delta, whatever delta.
dp_accounting also finds the masses as second differences of delta(epsilon), whose rounding grows as
the grid gets finer; here they are differences of normal cdfs, and add up to 1.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import fft, optimize
from scipy.special import log_ndtr, ndtr, ndtri_exp

MOST_POINTS = 2**21  # of a grid: 100 MB, one second
ACCURACY = 1e-4  # of epsilon, what the grid adds to it
REST = 1e-18  # share of the tilted sum that a stretch leaves out
CUT = 1e-4  # share of delta that is given away for the tails that are cut
FAR = 30.0  # losses beyond it are handled by logarithms


@dataclass(frozen=True)
class SampledGaussian:
    """One round of Gaussian noise on a sum that a record joins with chance q, by sensitivity 1.

    noise_multiplier: s > 0.  sample_rate: q in (0, 1].
    replaced: Q has the record at -1 in place of 0, "replace_one"; else it has none.
    """

    noise_multiplier: float
    sample_rate: float
    replaced: bool = False

    def loss(self, x: np.ndarray) -> np.ndarray:
        """L(x) = ln (P / Q)(x)."""
        y = (x - 0.5) / self.noise_multiplier**2
        if self.replaced:
            return self._log_mean(y) - self._log_mean(-y - 1 / self.noise_multiplier**2)
        return self._log_mean(y)

    def place(self, loss: np.ndarray) -> np.ndarray:
        """The x with L(x) = loss; -infinity where all losses are larger."""
        q, variance = self.sample_rate, self.noise_multiplier**2
        if self.replaced:
            odds = math.log1p(-q) - math.log(q) if q < 1 else -math.inf
            half = np.abs(loss) / 2
            with np.errstate(divide="ignore"):
                log_sinh = half + np.log(-np.expm1(-2 * half)) - math.log(2)
            z = odds + 1 / (2 * variance) + log_sinh
            arsinh = np.logaddexp(z, np.logaddexp(0, 2 * z) / 2)
            return variance * (loss / 2 + np.sign(loss) * arsinh)
        with np.errstate(divide="ignore"):
            near = np.log1p(np.maximum(np.expm1(np.minimum(loss, FAR)) / q, -1))
        far = loss - math.log(q) + np.log1p(-(1 - q) * np.exp(-np.maximum(loss, FAR)))
        return variance * np.where(loss < FAR, near, far) + 0.5

    def ends(self, log_tail: float) -> tuple[float, float]:
        """Two x: P has at most e^log_tail above the upper one, Q has at most as much below the
        lower one."""
        half = log_tail - math.log(2)
        reach = -self.noise_multiplier * float(ndtri_exp(half))
        rare = min(half - math.log(self.sample_rate), 0)
        seldom = -self.noise_multiplier * float(ndtri_exp(rare))
        upper = max(reach, 1 + seldom)
        return -(upper if self.replaced else reach), upper

    def masses(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Between successive x: the mass under P, under Q, and their difference."""
        q, s = self.sample_rate, self.noise_multiplier
        without, there = _between(x / s), _between((x - 1) / s)
        away = _between((x + 1) / s) if self.replaced else without
        p, other = without + q * (there - without), without + q * (away - without)
        return p, other, q * (there - away)

    def log_ratio(self, x: np.ndarray) -> np.ndarray:
        """ln(Q / P) of the masses between successive x > 0."""
        q, s = self.sample_rate, self.noise_multiplier
        without, there = _log_between(x / s), _log_between((x - 1) / s)
        away = _log_between((x + 1) / s) if self.replaced else without
        if q == 1:
            return away - there
        stay = math.log1p(-q) + without
        return np.logaddexp(stay, math.log(q) + away) - np.logaddexp(stay, math.log(q) + there)

    def _log_mean(self, y: np.ndarray) -> np.ndarray:
        """ln(1 - q + q e^y)."""
        q = self.sample_rate
        near = np.log1p(q * np.expm1(np.minimum(y, FAR)))
        far = y + math.log(q) + np.log1p((1 - q) / q * np.exp(-np.maximum(y, FAR)))
        return np.where(y < FAR, near, far)


@dataclass(frozen=True)
class Sketch:
    """The law of one round's loss in a few thousand cells: for choosing, never for answering."""

    values: np.ndarray
    masses: np.ndarray

    def log_moment(self, tilt: float) -> float:
        """ln E e^(tilt L)."""
        powers = tilt * self.values
        highest = float(powers.max())
        if highest < 1:
            return math.log1p(float(self.masses @ np.expm1(powers)))
        return highest + math.log(float(self.masses @ np.exp(powers - highest)))

    def tilted(self, tilt: float) -> np.ndarray:
        """The masses, tilted by e^(tilt L)."""
        return self.masses * np.exp(tilt * self.values - self.log_moment(tilt))


@dataclass(frozen=True)
class Losses:
    """One round's loss on the points (first, first + 1, ...) * step, and its chance of infinity."""

    step: float
    first: int
    masses: np.ndarray
    infinite: float

    def values(self) -> np.ndarray:
        return self.step * np.arange(self.first, self.first + len(self.masses))


@dataclass(frozen=True)
class Search:
    """Where the sum of the rounds decides delta: the tilt, a bound on epsilon, and a stretch that
    holds all of the tilted sum but about REST of it; `steeper` is the tilt that shows this above
    the stretch."""

    tilt: float
    epsilon: float
    low: float
    high: float
    step: float
    floor: float
    steeper: float


def both_ways(
    pair: SampledGaussian, *, delta: float, n_rounds: int, accuracy: float = ACCURACY
) -> float:
    """The larger epsilon of the two directions; arguments and guarantee as in `epsilon`.

    Replaced, the two are alike. Else Q / P is at most 1 / (1 - q) a round, which is often enough.
    """
    forth = epsilon(pair, "forth", delta=delta, n_rounds=n_rounds, accuracy=accuracy)
    if pair.replaced:
        return forth
    most = -n_rounds * math.log1p(-pair.sample_rate)
    if most <= forth:
        return forth
    back = epsilon(pair, "back", delta=delta, n_rounds=n_rounds, accuracy=accuracy)
    return max(forth, min(most, back))


def epsilon(
    pair: SampledGaussian,
    direction: str,
    *,
    delta: float,
    n_rounds: int,
    accuracy: float = ACCURACY,
) -> float:
    """The epsilon of n_rounds rounds at delta, from above.

    direction: "forth" (P to Q), "back" (Q to P), or "both": a pair whose delta is forth's at
    epsilon >= 0, and that is the same in both directions.
    delta: in (0, 1).  n_rounds: >= 1.  accuracy: > 0, what the grid may add, as a share of epsilon.
    Returns epsilon >= 0.
    Guarantee: at least the truth over the real numbers. Every mass that the grid moves goes to a
    larger loss, or is split with both masses kept; what is cut, or wrapped around by the transform,
    counts as infinite. Of the rounding of doubles, the most negative mass that it left is added to
    every mass, and delta is lowered by 1e-7 of itself, which is no
    proof. Above the truth by a few times accuracy, unless more than MOST_POINTS points were
    needed; infinite where the cuts alone cost delta.
    """
    log_tail = math.log(delta) + math.log(CUT) - math.log(n_rounds)
    sketch = _sketch(pair, direction, log_tail)
    search = _search(sketch, delta, n_rounds, accuracy)
    if search.epsilon <= 0:
        return 0.0
    low, high = _ends(pair, direction, log_tail, search.floor)
    finest = max(high - low, search.high - search.low) / MOST_POINTS

    def at(step):
        losses = _on_grid(pair, direction, max(step, finest), low, high)
        return _solve(losses, search, delta, n_rounds)

    found = at(search.step)
    if found < search.epsilon / 4:  # the step was chosen for a larger epsilon
        found = min(found, at(search.step * math.sqrt(max(found / search.epsilon, 1 / 16))))
    return found


def _sketch(pair: SampledGaussian, direction: str, log_tail: float) -> Sketch:
    x = np.linspace(*pair.ends(log_tail), 4_097)
    values = pair.loss((x[1:] + x[:-1]) / 2)
    p, q, _ = pair.masses(x)
    if direction == "back":
        values, p = -values[::-1], q[::-1]
    if direction == "both":
        above = values > 0
        p, q, values = p[above], q[above], values[above]
        p = np.r_[q[::-1], max(0.0, 1 - p.sum() - q.sum()), p]
        values = np.r_[-values[::-1], 0.0, values]
    return Sketch(values[p > 0], p[p > 0])


def _search(sketch: Sketch, delta: float, n_rounds: int, accuracy: float) -> Search:
    """Chernoff's bound, delta <= E e^(tilt (L_1 + ... + L_T - epsilon)), at its best tilt."""

    def bound(log_tilt):
        tilt = math.exp(log_tilt)
        return (n_rounds * sketch.log_moment(tilt) - math.log(delta)) / tilt

    found = optimize.minimize_scalar(bound, bounds=(-20, 35), method="bounded")
    tilt, most = math.exp(found.x), float(found.fun)
    if most > 0:  # beyond it the bound gets hardly better
        tilt = min(tilt, -math.log(delta) / (accuracy * most))
    law, moment = sketch.tilted(tilt), sketch.log_moment(tilt)
    mean = float(law @ sketch.values)
    variance = float(law @ (sketch.values - mean) ** 2)

    def reach(sign):
        if variance == 0:
            return 0.0, 2 * tilt
        wanted = -math.log(REST)
        slopes = math.sqrt(2 * wanted / (n_rounds * variance)) * 2.0 ** np.arange(-8, 9)
        grown = [n_rounds * (sketch.log_moment(tilt + sign * slope) - moment) for slope in slopes]
        reaches = (np.array(grown) + wanted) / slopes
        best = int(np.argmin(reaches))
        return float(reaches[best] - sign * n_rounds * mean), tilt + sign * float(slopes[best])

    def excess(log_step):
        step = math.exp(log_step)
        spread = float(law @ np.minimum(step**2 / 4, step * np.abs(sketch.values)))
        return n_rounds * spread * (tilt + 1) / 2 - accuracy * most

    step = math.sqrt(8 * accuracy * max(most, 1e-300) / (n_rounds * (tilt + 1)))
    if excess(math.log(step) + 10) > 0:
        step = math.exp(optimize.brentq(excess, math.log(step) - 0.01, math.log(step) + 10))
    middle = n_rounds * mean
    # losses below the floor may be rounded up to it: that is 1e-8 of the tilted sum
    with np.errstate(divide="ignore"):
        risen = np.log(np.cumsum(sketch.masses)) + tilt * sketch.values - moment
    floor = sketch.values[max(0, int((risen < math.log(1e-8 / n_rounds)).sum()) - 1)]
    below, _ = reach(-1)
    above, steeper = reach(1)
    step = min(step, 1 / tilt)
    return Search(tilt, most, middle - below, middle + above, step, float(floor), steeper)


def _ends(pair: SampledGaussian, direction: str, log_tail: float, floor: float):
    """The stretch of ln (P / Q) that a grid needs."""
    low, high = (float(end) for end in pair.loss(np.array(pair.ends(log_tail))))
    if direction == "back":
        return low, min(high, -floor)
    if direction == "both":
        return 0.0, high
    return max(low, floor), high


def _on_grid(pair: SampledGaussian, direction: str, step: float, low: float, high: float) -> Losses:
    """One round's loss on multiples of step, from above."""
    first = 0 if direction == "both" else math.floor(low / step)
    last = math.ceil(high / step)
    at = step * np.arange(first, last + 1)
    x = pair.place(at)
    p, q, difference = pair.masses(x)
    (p_below,), (q_below,), _ = pair.masses(np.array([-np.inf, x[0]]))
    (p_above,), (q_above,), _ = pair.masses(np.array([x[-1], np.inf]))
    forth, back = np.zeros(len(at)), np.zeros(len(at))
    upper = _upper_share(pair, at, x, p, q, difference)
    forth[1:] += upper
    forth[:-1] += p - upper
    near = np.clip(at, -FAR, FAR)
    upper = np.clip((-difference - p * np.expm1(-near[1:])) / -math.expm1(-step), 0, q)
    upper = np.where(np.abs(at[1:]) > FAR, q, upper)
    back[:-1] += upper  # of a loss -L the upper end is the lower of L
    back[1:] += q - upper
    if direction == "forth":
        forth[0] += p_below
        return Losses(step, first, forth, p_above)
    back[-1] += q_above
    if direction == "back":
        return Losses(step, -last, back[::-1], q_below)
    rest = max(0.0, 1 - forth.sum() - back.sum() - p_above)
    return Losses(step, -last, np.r_[back[:0:-1], back[0] + rest + forth[0], forth[1:]], p_above)


def _upper_share(pair, at, x, p, q, difference):
    """Of each cell's mass under P what its upper end gets: (p - q e^low) / (1 - e^-step)."""
    step = at[1] - at[0]
    low = at[:-1]
    whole = difference - q * np.expm1(np.clip(low, -FAR, FAR))
    if (far := low > FAR).any():
        start = int(np.argmax(far))
        ratio = pair.log_ratio(x[start:]) + low[start:]
        whole[start:] = p[start:] * -np.expm1(np.minimum(ratio, 0))
    whole = np.where(low < -FAR, p, whole)
    return np.clip(whole / -math.expm1(-step), 0, p)


def _solve(losses: Losses, search: Search, delta: float, n_rounds: int) -> float:
    """The smallest epsilon in the search's stretch at which the sum's delta is small enough."""
    tilted, log_moment = _tilted(losses, search.tilt)
    first = math.floor(search.low / losses.step)
    n_points = math.ceil(_highest(losses, search, log_moment, n_rounds) / losses.step) - first + 2
    n_points = fft.next_fast_len(max(n_points, 16), real=True)
    at = (losses.first + np.arange(len(tilted))) % n_points  # a circle of n_points holds the sum
    around = np.bincount(at, tilted / tilted.sum(), n_points)
    with np.errstate(under="ignore"):
        total = fft.irfft(fft.rfft(around) ** n_rounds, n_points)
    total = np.roll(total, -(first % n_points))
    values = losses.step * (first + np.arange(n_points))
    total = total.clip(0) + max(0.0, -total.min())  # rounding: as much as is seen below 0
    total *= np.exp(np.minimum(n_rounds * log_moment - search.tilt * values, 600))
    infinite = -math.expm1(n_rounds * math.log1p(-losses.infinite))
    if values[-1] < n_rounds * losses.values()[-1]:  # the rest wraps around to the lower end
        infinite += REST * math.exp(min(0.0, n_rounds * log_moment - search.tilt * values[-1]))
    end = n_points - int((np.cumsum(total[::-1]) < 1e-7 * delta).sum())
    wanted = delta * (1 - 1e-7) - infinite  # what lies beyond the end counts as infinite, too
    if wanted <= 0:
        return math.inf
    total, values = total[:end], values[:end]

    def delta_at(epsilon):
        start = max(0, math.floor(epsilon / losses.step) - first)
        above = values[start:] - epsilon
        return float(total[start:] @ -np.expm1(-np.maximum(above, 0)))

    low, high = max(0.0, values[0]), values[-1]
    if delta_at(low) <= wanted:
        return low
    excess = lambda epsilon: math.log((delta_at(epsilon) + wanted / 1e3) / wanted / 1.001)
    found = optimize.brentq(excess, low, high, xtol=1e-7 * search.epsilon)
    while delta_at(found) > wanted:
        found += 1e-7 * search.epsilon
    return found


def _highest(losses: Losses, search: Search, log_moment: float, n_rounds: int) -> float:
    """A value that the tilted sum of this very grid exceeds with a chance of at most REST.

    The grid rounds up, so its sum may go beyond the stretch of the sketch."""
    most = n_rounds * losses.step * (losses.first + len(losses.masses) - 1)
    _, steeper_moment = _tilted(losses, search.steeper)
    grown = n_rounds * (steeper_moment - log_moment)
    return min(most, (grown - math.log(REST)) / (search.steeper - search.tilt))


def _tilted(losses: Losses, tilt: float) -> tuple[np.ndarray, float]:
    """Multiples of the masses times e^(tilt L), the largest near 1, and ln E e^(tilt L)."""
    powers = tilt * losses.values()
    peak = float(powers[losses.masses > 0].max())
    tilted = losses.masses * np.exp(np.minimum(powers - peak, 0))
    return tilted, peak + math.log(tilted.sum())


def _between(z: np.ndarray) -> np.ndarray:
    """Mass of a standard normal between successive z, each from its nearer tail."""
    below, above = ndtr(z), ndtr(-z)
    return np.where(z[:-1] > 0, above[:-1] - above[1:], below[1:] - below[:-1])


def _log_between(z: np.ndarray) -> np.ndarray:
    """Its logarithm, also far to the right."""
    above = log_ndtr(-z)
    with np.errstate(divide="ignore"):
        return above[:-1] + np.log(-np.expm1(above[1:] - above[:-1]))
