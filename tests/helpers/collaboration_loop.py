"""Oracle of `ppkit.collaboration.training`: wu2020's algorithms one run after the other, as one
would write them."""

import math

import numpy as np


def mean_gradient(owner, loss, theta):
    """An owner's mean gradient of g2 at one theta (p,), wu2020 (5)."""
    if loss.kind == "squared":
        return -2 * (owner.y - owner.X @ theta) @ owner.X / owner.n_records
    margins = owner.y * (owner.X @ theta)
    hit = margins < 1
    return -(owner.y[hit] @ owner.X[hit]) / owner.n_records


def objective(owners, loss, theta):
    """f at one theta (p,), record by record."""
    total, n = 0.0, 0
    for owner in owners:
        for x, label in zip(owner.X, owner.y):
            m = float(x @ theta)
            total += (label - m) ** 2 if loss.kind == "squared" else max(0.0, 1 - label * m)
            n += 1
    return loss.regularisation / 2 * float(theta @ theta) + total / n


def run(
    owners,
    loss,
    *,
    theta_max,
    horizon,
    step,
    algorithm,
    scales,
    rng,
    start=None,
    all_answers=False,
    rounds=None,
):
    """One run: lists of theta[k] and of bar[k] for k = 1, 2, ...; weights n_l / n; Laplace noise.

    rounds: stop after so many questions, for timing.
    """
    theta = np.zeros(owners[0].X.shape[1]) if start is None else np.array(start, dtype=float)
    bar = theta
    thetas, bars = [theta], [bar]
    asked = horizon if all_answers else horizon - 1
    for k in range(1, 1 + (asked if rounds is None else rounds)):
        n = sum(owner.n_records for owner in owners)
        g = loss.regularisation * theta
        for owner, scale in zip(owners, scales):
            answer = mean_gradient(owner, loss, theta)
            if scale:
                answer = answer + rng.laplace(scale=scale, size=theta.size)
            g = g + owner.n_records / n * answer
        bar = (k - 1) / (1 / math.sqrt(horizon) + k) * bar + (1 / math.sqrt(horizon) + 1) / (
            1 / math.sqrt(horizon) + k
        ) * theta
        if algorithm == 2:
            theta = np.minimum(np.maximum(theta - step / math.sqrt(k) * g, -theta_max), theta_max)
        else:
            theta = theta - step / (horizon**2 * k) * g
        thetas.append(theta)
        bars.append(bar)
    return thetas, bars
