"""Oracle of `ppkit.collaboration.training`: wu2020's algorithms one run after the other, as one
would write them."""

import math

import numpy as np


def mean_gradient(owner, loss, theta):
    """An owner's mean gradient of g2 at one theta (p,), wu2020 (5)."""
    weight = np.where(owner.y > 0, loss.positive_weight, 1.0)
    if loss.kind == "squared":
        return -2 * (owner.y - owner.X @ theta) @ owner.X / owner.n_records
    margins = owner.y * (owner.X @ theta)
    if loss.kind == "hinge":
        hit = margins < 1
        return -((weight[hit] * owner.y[hit]) @ owner.X[hit]) / owner.n_records
    return -(weight * owner.y / (1 + np.exp(margins))) @ owner.X / owner.n_records


def objective(owners, loss, theta):
    """f at one theta (p,), record by record."""
    total, n = 0.0, 0
    for owner in owners:
        for x, label in zip(owner.X, owner.y):
            m = float(x @ theta)
            g2 = {
                "squared": lambda: (label - m) ** 2,
                "hinge": lambda: max(0.0, 1 - label * m),
                "logistic": lambda: math.log1p(math.exp(-label * m)),
            }[loss.kind]()
            total += g2 * (loss.positive_weight if label > 0 else 1.0)
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
    answers=None,
    rounds=None,
):
    """One run: lists of theta[k] and of bar[k] for k = 1, 2, ...; weights n_l / n of those who
    answer; Laplace noise.

    rounds: stop after so many questions, for timing.
    """
    theta = np.zeros(owners[0].X.shape[1]) if start is None else np.array(start, dtype=float)
    bar = theta
    thetas, bars = [theta], [bar]
    asked = horizon if all_answers else horizon - 1
    for k in range(1, 1 + (asked if rounds is None else rounds)):
        present = [i for i in range(len(owners)) if answers is None or answers[k - 1][i]]
        n = sum(owners[i].n_records for i in present)
        g = loss.regularisation * theta
        for i in present:
            answer = mean_gradient(owners[i], loss, theta)
            if scales[i]:
                answer = answer + rng.laplace(scale=scales[i], size=theta.size)
            g = g + owners[i].n_records / n * answer
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
