"""What the label holder can do about gradients that tell its labels: noise shaped to them, or
labels randomised once.

Noise that is drawn anew in each step is averaged away by who can link records over steps
(`labels.averaged`); a label that is randomised once, before training, costs its epsilon once,
whatever is sent afterwards and to whom.
"""

import math

import torch
from scipy.optimize import minimize_scalar

from ppkit.validation import binary, must_be, same_rows


def randomised(y: torch.Tensor, *, epsilon: float, rng: torch.Generator) -> torch.Tensor:
    """Labels to train on in place of the true ones: each flipped once by a coin, then freed of the
    coin's bias.

    y~ = y, or 1 - y with chance q = 1 / (1 + e^epsilon);   y' = (y~ - q) / (1 - 2q),   E[y'] = y

    y: (N,) in {0, 1}.  epsilon: > 0.  rng: torch.Generator, for teaching (in earnest the
    operating system's); the flips must stay secret, and be drawn once for all epochs.
    Returns (N,) float64, of two values outside [0, 1]; binary cross-entropy takes them as they are
    (p - y' is its gradient).
    ValueError if epsilon is not > 0 or a label is not 0 or 1.
    Guarantee: epsilon-DP for each label (replace-one) over the whole training and against holders
    and server together; nothing for features. Nobody then separates labels by what is sent better
    than `auc_limit`, unless features tell them.
    Source: randomised response, Warner 1965.

    >>> randomised(torch.tensor([0, 1]), epsilon=50.0, rng=torch.Generator()).round().tolist()
    [-0.0, 1.0]
    """
    must_be("> 0", epsilon=epsilon)
    binary(labels=y)
    y = torch.as_tensor(y)
    q = math.exp(-epsilon) / (1 + math.exp(-epsilon))
    flipped = torch.rand(y.shape, generator=rng, dtype=torch.float64) < q
    labels = torch.where(flipped, 1 - y.double(), y.double())
    return (labels - q) / (1 - 2 * q)


def auc_limit(epsilon: float) -> float:
    """The AUC that no attack on labels can exceed of which each was randomised by itself:
    e^epsilon / (1 + e^epsilon).

    Local DP is what it takes: all that is sent is made from labels of which each was randomised
    alone, at epsilon, as `randomised` does. Central DP, where noise is put on a sum or a model,
    does not bound it; features may tell more, too.
    The ROC curve lies under min(e^epsilon a, 1 - e^-epsilon (1 - a)); its area is attained by the
    flipped label itself.
    epsilon: >= 0.  Returns a number in [.5, 1].  ValueError if epsilon is negative or not a number.

    >>> round(auc_limit(1.0), 4)
    0.7311
    """
    must_be(">= 0", epsilon=epsilon)
    return 1 / (1 + math.exp(-epsilon))


def shaped_noise(
    gradient: torch.Tensor, y: torch.Tensor, *, power: float, rng: torch.Generator
) -> torch.Tensor:
    """Gaussian noise along the gradients' common direction, its variance divided between the
    classes so as to hide them best.

    g_i <- g_i + sqrt(l_y) xi_i w / |w|,  p l_1 + (1 - p) l_0 = power D,  D = (m_1 - m_0)^2,
    (l_0, l_1) = argmin of KL(0|1) + KL(1|0) = (a/b + b/a + D/a + D/b)/2 - 1,
        a = s_0^2 + l_0, b = s_1^2 + l_1

    m_c, s_c^2: mean and variance of class c along w, the first singular direction: gradients of the
    last hidden layer are (p_i - y_i) w, so that noise across w would hide nothing.
    p: share of positives.
    gradient: (N, width).  y: (N,) in {0, 1}.  power: > 0, noise variance per record in units of D.
    rng: torch.Generator.
    Returns (N, width), unbiased; as given where the batch has one class only (nothing there to
    be told apart).
    ValueError if power is not > 0, a label is not 0 or 1, or rows do not fit.
    Guarantee: in one look, if each class is Gaussian, any attack's AUC is at most
    1/2 + sqrt(e)/2 - e/8 with e < 4 the sum of both divergences. None over several looks at the
    same record.
    Source: Marvell, Li et al. 2022, Theorem 2 in one dimension.
    """
    must_be("> 0", power=power)
    binary(labels=y)
    same_rows(gradient=gradient, labels=y)
    gradient, y = torch.as_tensor(gradient), torch.as_tensor(y)
    p = float((y == 1).double().mean())
    w = torch.linalg.svd(gradient, full_matrices=False).Vh[0]
    along = gradient @ w
    m0, m1 = float(along[y == 0].mean()), float(along[y == 1].mean())
    D = (m1 - m0) ** 2
    if not D > 0:  # alike, or of one class, whose other mean is NaN
        return gradient
    s0, s1 = (float(along[y == c].var(unbiased=False)) for c in (0, 1))

    def divergence(share: float) -> float:
        a, b = s0 + share * power * D / (1 - p), s1 + (1 - share) * power * D / p
        return a / b + b / a + D / a + D / b

    share = float(minimize_scalar(divergence, bounds=(1e-9, 1 - 1e-9), method="bounded").x)
    variance = torch.where(y == 1, (1 - share) * power * D / p, share * power * D / (1 - p))
    sizes = variance.to(gradient.dtype).sqrt()
    xi = torch.randn(len(gradient), generator=rng, dtype=gradient.dtype)
    return gradient + (sizes * xi)[:, None] * w
