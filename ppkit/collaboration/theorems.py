"""wu2020's theorems with their constants computed, the bounds that do hold beside them, and the
exact counter-examples.

S = kappa^2 sum 1/epsilon_l^2, n = sum n_l, p the dimension, Xi = gradient_bound (l1, one record),
L = strong_convexity, lambda = smoothness, rho or c1 = step, T = horizon;
the noise of the mean answer, w = (1/n) sum n_l w_l, has E|w|_2^2 = p 8 Xi^2 T^2 S/n^2.
Nothing here is fitted and nothing is sampled.
"""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import laplace

from ppkit.collaboration.forecast import spread
from ppkit.collaboration.owners import records_and_budgets
from ppkit.validation import finite, must_be


def noise_energy(
    *,
    gradient_bound: float,
    n_records: ArrayLike,
    epsilons: ArrayLike,
    horizon: int,
    dimension: int = 1,
    kappa: int = 1,
) -> float:
    """E|w[k]|_2^2 of the noise in the owners' weighted mean answer:
    p 8 Xi^2 T^2/n^2 sum (kappa/epsilon_l)^2.

    gradient_bound: Xi > 0.  n_records: (N,) >= 1.  epsilons: (N,) > 0, inf for no noise.
    horizon: T >= 1, answers paid for.
    dimension: p >= 1; 1 gives Appendix B's formula, which is the noise of one coordinate.
    kappa: 1..N.
    Returns a number >= 0.  ValueError if an argument is out of range.
    Source: wu2020, Appendix B, with the p restored that it drops: w_l has p coordinates of variance
    2 b_l^2 each. That is not all that is missing there: (14) also loses the lambda/2 before this
    term, see `algorithm1_quadratic`.

    >>> round(
    ...     noise_energy(
    ...         gradient_bound=1, n_records=[1000] * 3, epsilons=[1] * 3, horizon=100, dimension=30
    ...     ),
    ...     6,
    ... )
    0.8
    """
    must_be("a finite number > 0", gradient_bound=gradient_bound)
    must_be("a whole number >= 1", horizon=horizon, dimension=dimension)
    n, budgets = records_and_budgets(n_records, epsilons, kappa)
    S = float(((kappa / budgets) ** 2).sum())
    return dimension * 8 * gradient_bound**2 * horizon**2 * S / float(n.sum()) ** 2


def attained_epsilon(distances: ArrayLike, scales: ArrayLike) -> float:
    """The largest log-likelihood ratio of all answers that touch one record: sum over owners and
    rounds of |Q - Q'|_1/b.

    It is attained: by every output that lies, in each coordinate, beyond Q on the side away from
    Q'. A set of positive probability, where Q and Q' do not depend on the outputs (g2 linear) or
    hardly do; so no smaller epsilon holds.

    distances: (T,) or (N, T): l1 distances between the answers on two neighbours, >= 0.
    scales: b > 0, one or (N,).
    Returns epsilon >= 0: Theorem 1's epsilon where all T distances are 2 Xi/n_l; (T - 1)/T of it
    after T - 1 answers; and sum_l epsilon_l/kappa for a record that kappa owners hold: their mean,
    more than the most cautious of them promised.
    Source: wu2020, Theorem 1 and section II.A.

    >>> round(
    ...     attained_epsilon([2 / 1000] * 99, 2 * 100 / 1000), 9
    ... )  # Xi 1, n 1,000, T 100, epsilon 1
    0.99
    """
    each = np.atleast_2d(np.asarray(distances, float))
    return float((each / np.reshape(scales, (-1, 1))).sum())


def chance_outside(
    *, start: float, gradient: float, step: float, horizon: int, scale: float, radius: float
) -> float:
    """The chance that |theta[2]| > radius in Algorithm 1 with one owner and p = 1: two Laplace
    tails, exactly.

    theta[2] = m - (rho/T^2) w,  m = start - (rho/T^2) gradient,  w Laplace of scale b

    For squared loss the gradient bound grows with |theta|: where Xi was set for |theta| <= radius,
    this is the chance that already the second answer may need more noise than it gets. Strong
    convexity keeps no noisy iterate in a box.
    start, gradient: numbers.  step: rho > 0.  horizon: T >= 1.  scale: b > 0.  radius: > 0.
    Returns a chance in (0, 1].
    ValueError if an argument is out of range.  Source: counter-example to wu2020, the remark after
    Assumption 3.

    >>> chance_outside(start=0, gradient=0, step=1, horizon=1, scale=1, radius=math.log(4))
    0.25
    """
    must_be("a finite number > 0", step=step, scale=scale, radius=radius)
    must_be("a whole number >= 1", horizon=horizon)
    finite(start=start, gradient=gradient)
    rate = step / horizon**2
    after = laplace(start - rate * gradient, rate * scale)
    return float(after.sf(radius) + after.cdf(-radius))


def theorem2_bound(
    *,
    gradient_bound: float,
    strong_convexity: float,
    step: float,
    n_records: ArrayLike,
    epsilons: ArrayLike,
) -> float:
    """The right side of equation 9 without its small number:
    8 Xi^2 rho/(L n^2) sum 1/epsilon^2.

    Arguments as in `noise_energy`; strong_convexity: L > 0.  step: rho > 0.
    Returns a number >= 0, in units of f; 4/L times it is equation 10.
    ValueError if an argument is out of range.
    Guarantee: none. `algorithm1_quadratic` is above it, wherever it is itself below 9/32 of the
    start's square: at every T >= 2 for rho = 1, and at every large T for any rho fixed in advance.
    For rho growing like T^2 it exceeds f(theta[1]) - f* sooner or later, and then it is true and
    says nothing.  Source: wu2020, Theorem 2.

    >>> bound = theorem2_bound(
    ...     gradient_bound=1, strong_convexity=1, step=1, n_records=[1000] * 3, epsilons=[1] * 3
    ... )
    >>> f"{bound:.1e}"
    '2.7e-06'
    """
    must_be("a finite number > 0", strong_convexity=strong_convexity, step=step)
    once = noise_energy(
        gradient_bound=gradient_bound, n_records=n_records, epsilons=epsilons, horizon=1
    )
    return once * step / strong_convexity


def algorithm1_quadratic(*, horizon: int, step: float, noise: float) -> np.ndarray:
    """E f(theta[k]) - f* of Algorithm 1 for f = |theta|^2/2 and |theta[1]|_2 = 1, exactly, for
    k = 1..T: the counter-example to Theorem 2.

    e[k+1] = (1 - rho_k)^2 e[k] + rho_k^2 noise/2,   rho_k = rho/(T^2 k),   e[1] = 1/2

    The problem is the paper's own kind: g1 = |theta|^2/2, g2 = a_i.theta with |a_i|_1 <= Xi of
    mean 0; so L = lambda = 1, f* = 0, and the gradients of records are bounded for every theta.
    For rho = 1 no T helps: e[k] >= (1 - H_(T-1)/T^2)^2/2 >= 9/32, as H_(T-1)/T^2 <= 1/4 (equality
    at T = 2).
    For any L-strongly convex f with a lambda-Lipschitz gradient what does hold is the bound
        e[k+1] = (1 - L rho_k (2 - lambda rho_k)) e[k] + (lambda/2) rho_k^2 noise, rho_k <= 2/lambda
    of which this is the case of equality.
    Proof: f(theta - rho_k (grad + w))
        <= f - rho_k grad.(grad + w) + (lambda/2) rho_k^2 |grad + w|^2;
    w has mean 0 and is independent of theta[k], so E f falls by
    rho_k (1 - lambda rho_k/2) E|grad|^2; and |grad|^2 >= 2 L (f - f*).
    horizon: T >= 1.  step: rho > 0.  noise: E|w|^2 >= 0 with all p coordinates, from
    `noise_energy`.
    Returns (T,); twice it is E|theta[k] - theta*|^2.  ValueError if an argument is out of range.
    Source: wu2020, equation 14 and Theorem 2, whose proof lets k grow without end for a fixed T.
    (14) has lost the lambda/2 of its last term (and the p in the noise); the display before (15)
    has a wrong sign: -(L/2) t(t - 1) should be -(L/2) t(1 - t), and as printed it is only weaker
    than convexity. (15) itself is true, with 2/L in the place of 4/L too.

    >>> algorithm1_quadratic(horizon=2, step=1.0, noise=0.0).tolist()
    [0.5, 0.28125]
    """
    must_be("a finite number > 0", step=step)
    must_be("a whole number >= 1", horizon=horizon)
    must_be("a finite number >= 0", noise=noise)
    error = np.full(int(horizon), 0.5)
    for k in range(1, len(error)):
        rate = step / (horizon**2 * k)
        error[k] = (1 - rate * (2 - rate)) * error[k - 1] + 0.5 * rate**2 * noise
    return error


def averaging_weights(horizon: int, *, n_averaged: int = 0) -> np.ndarray:
    """The weights zeta_k of theta[1], theta[2], ... in Algorithm 2's average, in closed form.

    zeta_k = (h + 1)/(h + k) prod_(m = k+1)^K (m - 1)/(h + m),   h = 1/sqrt(T)

    horizon: T >= 1.  n_averaged: K; 0 is T - 1, the K of bar[T] (at least 1); Appendix C's
    zeta has K = T.
    Returns (K,), rising, of sum 1, all > 0: theta[1] never leaves the average.
    ValueError if an argument is out of range.  Source: wu2020, equation 8 and Appendix C.

    >>> averaging_weights(4).round(6).tolist()
    [0.228571, 0.342857, 0.428571]
    """
    must_be("a whole number >= 1", horizon=horizon)
    K = n_averaged or max(horizon - 1, 1)
    h, k = 1 / math.sqrt(horizon), np.arange(1, int(K) + 1)
    after = np.append(np.cumprod(((k[1:] - 1) / (h + k[1:]))[::-1])[::-1], 1.0)
    return (h + 1) / (h + k) * after


def zeta_step(horizon: int, k: int) -> tuple[float, float]:
    """zeta_k - zeta_(k-1) and what Appendix C says that it is at most, 2/(sqrt(T) T (T + 1)).

    horizon: T >= 2.  k: 2..T.  Returns (the difference, the claimed bound).
    The appendix bounds a product of factors m/(m - 1 + h) by 1; each is above 1 (h < 1).
    Source: wu2020, Appendix C.

    >>> [f"{value:.1e}" for value in zeta_step(100, 2)]
    ['6.6e-04', '2.0e-05']
    """
    zeta = averaging_weights(horizon, n_averaged=horizon)
    return float(zeta[k - 1] - zeta[k - 2]), 2 / (math.sqrt(horizon) * horizon * (horizon + 1))


def theorem3_constant(*, horizon: int, diameter: float, dimension: int) -> float:
    """A c2 for Theorem 3 by our repair of the proof, with the gradient left out and c1 at its best.

    c2 = D T sqrt(8 p A B),   A = sqrt(K) zeta_K,   B = sum zeta_k/sqrt(k),   K = T - 1
        (about 4 D sqrt(p T))

    What does hold, for f convex, is E f(bar[T]) - f* <= D^2 A/(2 c1) + (c1/2) G^2 B, G^2 a bound on
    |xi_f|_2^2 plus the noise's E|w|^2.  Proof: |theta[k+1] - theta*|^2
        <= |theta[k] - theta*|^2 - 2 rho_k (xi + w).(theta[k] - theta*) + rho_k^2 |xi + w|^2, so
    E f(theta[k]) - f* <= (d_k - d_(k+1))/(2 rho_k) + rho_k G^2/2 with
    d_k = E|theta[k] - theta*|^2 <= D^2. Weigh with zeta_k (Jensen) and sum by parts: zeta_k/rho_k
    rises, so that all d_k have coefficients >= 0 that add up to A/(2 c1).

    c1 = D sqrt(A/B)/G is best; the paper's "optimal selection of c", too, depends on G, so on n and
    epsilon, which the theorem says c1 does not. The paper gives no c2: this one is ours. If c2 too
    may depend on n and epsilon, (11) is empty: any number is below c2 Xi/n sqrt(sum 1/epsilon^2)
    for a c2 that is chosen afterwards.
    horizon: T >= 2.  diameter: D > 0, of Theta: 2 theta_max sqrt(p) for the box, or any bound on
    |theta[k] - theta*|_2.  dimension: p.  Returns c2 > 0.  ValueError if an argument is out of
    range.
    Source: repairs wu2020, Theorem 3, after Shamir and Zhang (2013);
    for that average sharper than their constants.
    """
    must_be("a finite number > 0", diameter=diameter)
    must_be("a whole number >= 1", dimension=dimension)
    must_be("a whole number >= 2", horizon=horizon)
    zeta, root = averaging_weights(horizon), np.sqrt(np.arange(1, horizon))
    A, B = float(zeta[-1] * root[-1]), float((zeta / root).sum())
    return diameter * horizon * math.sqrt(8 * dimension * A * B)


def theorem3_bound(
    *, constant: float, gradient_bound: float, n_records: ArrayLike, epsilons: ArrayLike
) -> float:
    """The right side of equation 11: c2 Xi/n sqrt(sum 1/epsilon^2).

    constant: c2 > 0, for example `theorem3_constant`.  The others as in `noise_energy`.  Returns a
    number >= 0.
    Guarantee: none: it goes to 0 as epsilon grows, and the error does not, see `corner_excess`.
    Source: wu2020, Theorem 3.
    """
    must_be("a finite number > 0", constant=constant, gradient_bound=gradient_bound)
    return float(constant * gradient_bound * spread(n_records, epsilons))


def corner_excess(horizon: int, *, theta_max: float = 1.0) -> float:
    """An error of Algorithm 2 that no c1, n or epsilon undercuts: 2 theta_max zeta_1 > 0.

    f = theta on [-theta_max, theta_max] (g1 = 0, g2 = a_i theta with |a_i| <= Xi of mean 1), and
    theta[1] = theta_max. Then theta* = -theta_max, and as no theta[k] lies below it and theta[1]
    keeps its weight, bar[T] >= theta* + 2 theta_max zeta_1, in every run, whatever the noise.
    Equality for large c1 and no noise.
    So for any T, c1 and c2 equation 11 fails once epsilon > c2 Xi sqrt(N)/(n corner_excess);
    at T = 2 bar[2] is theta[1].
    With g1 = L theta^2/2 and a slope >= L theta_max theta* stays in the corner, f - f* stays above
        (slope - L theta_max) 2 theta_max zeta_1 + (L/2)(2 theta_max zeta_1)^2,
    and equation 12 fails the same way.

    horizon: T >= 1.  theta_max: > 0.  Returns a number > 0, in units of f.

    >>> corner_excess(2)
    2.0
    """
    must_be("a finite number > 0", theta_max=theta_max)
    return 2 * theta_max * float(averaging_weights(horizon)[0])
