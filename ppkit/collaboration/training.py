"""Algorithms 1 and 2 of wu2020: a learner asks owners for gradients, they answer with noise; all
runs at once."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import DTypeLike

from ppkit.collaboration.losses import Loss, Queries, queries
from ppkit.collaboration.owners import Bounds, Owner, check_bounds
from ppkit.collaboration.privacy import Privacy
from ppkit.validation import must_be, one_of


@dataclass(frozen=True, slots=True, eq=False)
class Learning:
    """How the learner asks the owners, and what it makes of their answers.

    horizon: T >= 1 rounds, all of them paid.  step: c1 (algorithm 2) or rho (algorithm 1), > 0.
    algorithm: 1 or 2, see `train`.
    weights: "records" for v_l = n_l / n; "inverse_variance" for v_l in proportion to 1 / scale_l^2,
    so that the noise of the sum is least: another objective where owners differ, psi is still that
    of f. Owners without noise share all of it.
    start: theta[1] (p,), within theta_max; default 0.
    all_answers: the loop as printed leaves the T-th answer unused, and bar[T] ends with theta[T-1];
    True asks it too and returns k up to T + 1. bar[T+1] ends with theta[T]; the T-th answer is seen
    in `iterate` (and in algorithm 1).
    ValueError if an argument is out of range.
    """

    horizon: int
    step: float
    algorithm: int = 2
    weights: str = "records"
    start: Sequence[float] | None = None
    all_answers: bool = False

    def __post_init__(self):
        must_be("a whole number >= 1", horizon=self.horizon)
        must_be("a finite number > 0", step=self.step)
        one_of((1, 2), algorithm=self.algorithm)
        one_of(("records", "inverse_variance"), weights=self.weights)

    def first_theta(self, p: int, theta_max: float) -> np.ndarray:
        """theta[1] as (p,); ValueError if its shape is another or it lies outside the box."""
        theta = np.zeros(p) if self.start is None else np.array(self.start, dtype=float)
        if theta.shape != (p,) or not np.abs(theta).max() <= theta_max:
            raise ValueError(f"start must be ({p},) within theta_max = {theta_max}, got {theta}")
        return theta


@dataclass(frozen=True, slots=True, eq=False)
class Trajectories:
    """What the learner has after its rounds; the axis S of settings is there where epsilons had it.

    psi: (S, n_runs, K) f / f* - 1 of the average bar[k] (algorithm 2) or of theta[k] (algorithm 1),
    k in rounds (K,).
    theta: (S, n_runs, p) the last average (or the last theta[k]).  iterate: (S, n_runs, p) the last
    theta[k].
    scales: (S, N) noise scale of each owner; 0 for no noise.
    """

    psi: np.ndarray
    rounds: np.ndarray
    theta: np.ndarray
    iterate: np.ndarray
    scales: np.ndarray


def train(
    owners: Sequence[Owner],
    *,
    loss: Loss,
    bounds: Bounds,
    privacy: Privacy,
    learning: Learning,
    n_runs: int,
    optimum: float,
    rng: np.random.Generator,
    at: str = "all",
    dtype: DTypeLike = np.float64,
) -> Trajectories:
    """Run the algorithm `n_runs` times for each setting of the privacy budgets, all of them as one
    matrix product a round.

    algorithm 2: theta[k+1] = P(theta[k] - c1 / sqrt(k) g[k]),
        P the projection on |theta|_inf <= theta_max, and
        bar[k+1] = (k - 1) / (1/sqrt(T) + k) bar[k]
                   + (1/sqrt(T) + 1) / (1/sqrt(T) + k) theta[k]  (8)
    algorithm 1: theta[k+1] = theta[k] - rho / (T^2 k) g[k], without projection and average
    g[k] = grad g1(theta[k]) + sum_l v_l (owner l's mean gradient + noise), v_l = n_l / n,
        for k = 1 ... T - 1.

    owners: N owners within the bounds.  privacy: their promises, for one setting or for S of them.
    learning: the rounds.  n_runs: >= 1.  optimum: f(theta*) > 0.
    rng: every setting gets a child generator of its own,
    so that its noise does not depend on the other settings.
    at: "all" for psi at k = 1 ... T, "last" for the last only, which spares the hinge a product
    a round.
    dtype: numpy.float32 for products that are rounded, 1.5 times as fast for the hinge; it
    moves psi by about 1e-7 f / f* (measured, up to 1e-6 on small data);
    squared loss is always float64.
    Returns Trajectories; bar[1] is taken as theta[1], which (8) never uses, and which is bar[2].
    With one thread two runs give equal bytes.  ValueError for what does not fit, in one sentence
    with the value.
    Guarantee: owner l's answers are epsilon_l-DP (or (epsilon_l, delta)-DP) for replace-one
    neighbours, n_l being public.
    It belongs to the mechanism, not to a run: algorithm 1 with squared loss, whose questions no
    projection keeps where Xi holds, has no pure epsilon at all, whatever a run asked.
    Source: wu2020, Algorithms 1 and 2, (6) and (8), Theorem 1; settings, inverse variance, delta
    are ours.
    """
    check_bounds(owners, bounds, signs=loss.signs)
    must_be("a whole number >= 1", n_runs=n_runs)
    must_be("a finite number > 0", optimum=optimum)
    one_of(("all", "last"), at=at)
    horizon = int(learning.horizon)
    sizes = [owner.n_records for owner in owners]
    longest = loss.gradient_bound(bounds, privacy.mechanism)
    scales = privacy.scales(longest, sizes, horizon)
    children = rng.spawn(len(scales))
    gaussian = privacy.mechanism == "gaussian"
    noises = [child.standard_normal if gaussian else partial(_laplace, child) for child in children]
    learner = _Learner(
        asked=queries(loss, owners, together=n_runs, dtype=dtype),
        regularisation=loss.regularisation,
        shares=_shares(np.array(sizes, float), scales, learning.weights),
        scales=scales,
        noises=noises,
    )
    first = learning.first_theta(owners[0].X.shape[1], bounds.theta_max)
    theta = np.repeat(first[:, None], len(scales) * n_runs, axis=1)
    bar = theta.copy()
    shown = bar if learning.algorithm == 2 else theta
    last = horizon + learning.all_answers
    rounds = np.arange(1, last + 1) if at == "all" else np.array([last])
    values = []
    root = 1 / math.sqrt(horizon)
    for k in range(1, last + 1):
        if k >= rounds[0]:
            values.append(learner.asked.values(shown))
        if k == last:
            break
        g = learner.gradient(theta)
        if learning.algorithm == 2:
            bar *= (k - 1) / (root + k)
            bar += (root + 1) / (root + k) * theta
            theta -= learning.step / math.sqrt(k) * g
            np.clip(theta, -bounds.theta_max, bounds.theta_max, out=theta)
        else:
            theta -= learning.step / (horizon**2 * k) * g
    single = np.ndim(privacy.epsilons) == 1
    shape = (n_runs,) if single else (len(scales), n_runs)
    return Trajectories(
        psi=(np.array(values) / optimum - 1).T.reshape(*shape, -1),
        rounds=rounds,
        theta=shown.T.reshape(*shape, -1),
        iterate=theta.T.reshape(*shape, -1),
        scales=scales[0] if single else scales,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Learner:
    """What the learner makes of the owners' answers.

    shares: (S, N) weight of each owner's answer.  scales: (S, N) of its noise.  noises: S draws of
    scale 1.
    """

    asked: Queries
    regularisation: float
    shares: np.ndarray
    scales: np.ndarray
    noises: Sequence[Callable[[tuple[int, ...]], np.ndarray]]

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """The noisy gradient of f at every model, (p, S n_runs)."""
        g = self.regularisation * theta
        by_setting = g.reshape(len(g), len(self.shares), -1)
        for owner in np.flatnonzero(self.shares.any(axis=0)):
            mean = self.asked.gradient(int(owner), theta).reshape(by_setting.shape)
            by_setting += self.shares[:, owner, None] * mean
        for setting, draw in enumerate(self.noises):
            factors = self.shares[setting] * self.scales[setting]
            factors = factors[factors > 0]
            if factors.size:
                drawn = draw((factors.size, *by_setting[:, setting].shape))
                by_setting[:, setting] += np.tensordot(factors, drawn, axes=1)
        return g


def _laplace(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Laplace noise of scale 1, as a difference of exponentials."""
    noise = rng.standard_exponential(shape)
    noise -= rng.standard_exponential(shape)
    return noise


def _shares(sizes: np.ndarray, scales: np.ndarray, weights: str) -> np.ndarray:
    """(S, N) weights of the owners' answers, each row with sum 1."""
    raw = np.broadcast_to(sizes, scales.shape)
    if weights == "inverse_variance":
        silent = scales == 0
        precision = np.where(silent, 0.0, 1 / np.where(silent, 1.0, scales) ** 2)
        raw = np.where(silent.any(axis=1, keepdims=True), sizes * silent, precision)
    return raw / raw.sum(axis=1, keepdims=True)
