"""The expected psi of wu2020's algorithms without a fit and without a run:
where the exponent -2 comes from.

On a quadratic f both algorithms are linear maps of the noise, so mean and variance of every iterate
follow from a recursion: E psi is a floor, which no budget moves, plus the noise's variance,
(1/n^2) sum 1/epsilon^2 times a number.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ppkit.collaboration.losses import Loss
from ppkit.collaboration.owners import Bounds, Owner, pooled_moments
from ppkit.collaboration.privacy import Privacy
from ppkit.collaboration.theorems import noise_energy
from ppkit.collaboration.training import Learning
from ppkit.validation import must_be


def quadratic_excess(
    curvatures: ArrayLike,
    offsets: ArrayLike,
    *,
    variance: float,
    horizon: int,
    step: float,
    algorithm: int = 2,
) -> np.ndarray:
    """E f - f* of every round on a quadratic f whose projection is not active, exactly,
    by mean and variance.

    In the eigenvectors of the Hessian each coordinate has its own curvature h and error
    e = theta - theta*:
        e[k+1] = (1 - rho_k h) e[k] - rho_k w[k],
        bar[k+1] = (1 - g_k) bar[k] + g_k e[k],  g_k = (q + 1)/(q + k),  q = 1/sqrt(T)
    and E f - f* = (1/2) sum h (mean^2 + variance) of bar[k] (algorithm 2) or of e[k] (1).

    curvatures: (p,) >= 0.  offsets: (p,) theta[1] - theta*, in those eigenvectors;
    0 leaves the noise alone.
    variance: of each coordinate of w, >= 0.  horizon: T >= 1.
    step: c1 (rho_k = c1/sqrt(k)) or rho (rho/(T^2 k)), > 0.
    Returns (T,) for k = 1..T.
    Guarantee: exact for w of mean 0, independent over rounds, of that variance; the kind of noise
    does not matter.
    """
    h, mean = np.asarray(curvatures, dtype=float), np.asarray(offsets, dtype=float)
    mean_bar, var_bar = mean, np.zeros(h.size)  # bar[1] is theta[1]
    var, cov = np.zeros(h.size), np.zeros(h.size)  # cov between e[k] and bar[k]
    q = 1 / np.sqrt(horizon)
    excess = []
    for k in range(1, int(horizon) + 1):
        m, v = (mean_bar, var_bar) if algorithm == 2 else (mean, var)
        excess.append(0.5 * (h * (m**2 + v)).sum())
        rate = step / np.sqrt(k) if algorithm == 2 else step / (horizon**2 * k)
        g = (q + 1) / (q + k)
        shrink = 1 - rate * h
        mean_bar = (1 - g) * mean_bar + g * mean
        var_bar = (1 - g) ** 2 * var_bar + 2 * g * (1 - g) * cov + g**2 * var
        cov = shrink * ((1 - g) * cov + g * var)
        mean = shrink * mean
        var = shrink**2 * var + rate**2 * variance
    return np.array(excess)


def reach(
    *,
    gradient_bound: float,
    n_records: ArrayLike,
    epsilons: ArrayLike,
    horizon: int,
    step: float,
    theta_max: float,
    curvature: float = 0.0,
) -> float:
    """How far the noise drives Algorithm 2 towards the box: the largest standard deviation of a
    coordinate, over theta_max.

    v[k+1] = (1 - rho_k h)^2 v[k] + rho_k^2 E w_i^2,  rho_k = c1/sqrt(k),  v[1] = 0;
    reach = max_k sqrt(v[k])/theta_max

    Arguments as in `theorems.noise_energy`; step: c1 > 0.  theta_max: > 0.  curvature: h >= 0, of f
    in that direction; for the hinge its regularisation, and 0 is the cautious choice.  Returns a
    number >= 0, from public numbers alone.
    The path of the mean, which also takes room in the box, is ignored,
    and so is the box in the recursion.
    Well below 1 the box is not felt and psi follows the law; from about 1/3 on it flattens, and
    beyond 1 psi says nothing about n and epsilon: the iterates jump between the walls, and more
    noise can even mean a smaller psi.
    """
    each_round = noise_energy(
        gradient_bound=gradient_bound, n_records=n_records, epsilons=epsilons, horizon=horizon
    )
    variance = largest = 0.0
    for k in range(1, int(horizon)):
        rate = step / np.sqrt(k)
        variance = (1 - rate * curvature) ** 2 * variance + rate**2 * each_round
        largest = max(largest, variance)
    return float(np.sqrt(largest) / theta_max)


def square_law_range(
    *, reach: float, noise: float, floor: float, tolerance: float = 0.1
) -> tuple[float, float]:
    """From and up to which budget psi goes with epsilon^-2, for owners of one budget epsilon.

    psi(epsilon) = floor + noise/epsilon^2 has the slope -2 noise/(noise + floor epsilon^2) on axes
    that count factors: -2 to within `tolerance` up to
        last = sqrt(noise tolerance/(floor (2 - tolerance))).
    The noise stays away from the walls of the box, reach/epsilon <= 1/3, from
        first = 3 reach.

    reach: of `reach` at epsilon = 1, >= 0.  noise: psi's part from the noise at epsilon = 1, > 0.
    floor: psi without noise, >= 0; 0 gives last = inf.  tolerance: in (0, 1).
    Returns (first, last); where last < first there is no such budget.  ValueError if an argument is
    out of range.

    >>> square_law_range(reach=0.125, noise=0.019, floor=0.001)
    (0.375, 1.0)
    """
    must_be("a finite number >= 0", reach=reach, floor=floor)
    must_be("a finite number > 0", noise=noise)
    must_be("in (0, 1)", tolerance=tolerance)
    last = np.inf if floor == 0 else np.sqrt(noise * tolerance / (floor * (2 - tolerance)))
    return 3 * reach, float(last)


def expected_psi(
    owners: Sequence[Owner],
    *,
    loss: Loss,
    bounds: Bounds,
    privacy: Privacy,
    learning: Learning,
    optimum: float,
) -> np.ndarray:
    """E psi of every round for squared loss, exactly, with nothing fitted and nothing run: floor
    and noise together.

    f is a quadratic: Hessian H = 2 X'X/n + r I, least at H^-1 2 X'y/n; `quadratic_excess` in the
    eigenvectors of H, over f*.

    Arguments as in `training.train`: squared loss, one setting, Laplace noise, weights by records,
    the loop as printed.
    Returns (T,): psi of bar[k] (algorithm 2) or theta[k] (1), k = 1..T.  ValueError for anything
    else.
    Guarantee: exact up to the box, that is for the same algorithm without projection. Laplace noise
    leaves any box with some chance, so with the projection it is near, not exact; where iterates
    often meet the box it is too high, see `reach`.
    Departs from the paper, whose forecast has an unknown constant.
    """
    if loss.kind != "squared":
        raise ValueError(f"the exact forecast is for squared loss, got {loss.kind}; see noise_psi")
    A, b, _ = pooled_moments(owners)
    h, axes = np.linalg.eigh(2 * A + loss.regularisation * np.eye(len(b)))
    h = np.maximum(h, 0.0)
    along = axes.T @ (2 * b)
    best = np.divide(along, h, out=np.zeros_like(h), where=h > 1e-12 * h[-1])
    first = axes.T @ learning.first_theta(len(b), bounds.theta_max)
    return _psi(h, first - best, owners, loss, bounds, privacy, learning, optimum)


def noise_psi(
    owners: Sequence[Owner],
    *,
    loss: Loss,
    bounds: Bounds,
    privacy: Privacy,
    learning: Learning,
    optimum: float,
) -> np.ndarray:
    """The noise's part of E psi of every round where f is its regulariser and a linear rest,
    with nothing fitted.

    `quadratic_excess` with curvature r = loss.regularisation in all p directions
    and no offset, over f*.

    Arguments as in `expected_psi`, any loss with regularisation > 0.  Returns (T,).  Add psi
    without noise for all of psi.
    The hinge is such an f where the noise moves no record across its margin. Elsewhere the hinge's
    own curvature counts: it pulls iterates back, and costs more per variance: not bounded, but
    measured .7 to 2 times this on card data. Beside f* only public numbers go in.
    """
    if not loss.regularisation > 0:
        raise ValueError(f"noise_psi needs regularisation > 0, got {loss.regularisation}")
    p = owners[0].X.shape[1]
    h = np.full(p, loss.regularisation)
    return _psi(h, np.zeros(p), owners, loss, bounds, privacy, learning, optimum)


def _psi(
    curvatures: np.ndarray,
    offsets: np.ndarray,
    owners: Sequence[Owner],
    loss: Loss,
    bounds: Bounds,
    privacy: Privacy,
    learning: Learning,
    optimum: float,
) -> np.ndarray:
    noise = (np.ndim(privacy.epsilons), privacy.mechanism, privacy.delta)
    if noise != (1, "laplace", 0) or learning.weights != "records" or learning.all_answers:
        raise ValueError(
            "the forecast is for one setting of Laplace noise without delta, weights by records "
            f"and the loop as printed, got {privacy} and {learning}"
        )
    variance = noise_energy(
        gradient_bound=loss.gradient_bound(bounds),
        n_records=[owner.n_records for owner in owners],
        epsilons=privacy.epsilons,
        horizon=learning.horizon,
        kappa=privacy.kappa,
    )
    excess = quadratic_excess(
        curvatures,
        offsets,
        variance=variance,
        horizon=learning.horizon,
        step=learning.step,
        algorithm=learning.algorithm,
    )
    return excess / optimum
