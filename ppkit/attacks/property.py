"""zhou2021's property attack: from the hidden features that a server sees, one hidden property of
each record.

The attacker fits a classifier on hidden features whose property he knows and applies it to those
whose property he wants.
Where the known ones come from is the threat model, and it decides what comes out;
`property_defences` has what may help.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike
from scipy.stats import norm, rankdata
from sklearn.linear_model import LogisticRegression

from ppkit import optimisers
from ppkit.attacks.arrays import bits_of, deviations, matrix, scores_of
from ppkit.models import classification_loss, mlp
from ppkit.validation import one_of, same_rows

ATTACKERS = ("logistic", "mlp")
THREATS = {
    "nothing": "only how common the property is",
    "transfer": "rows of his own, through a shadow model of the target's own initialisation",
    "transfer_own_start": "rows of his own, through a shadow model of an initialisation of its own",
    "adaptive": "the property of m records whose hidden features the target's server sees",
    "ceiling": "the same m records, and the raw features themselves in place of the hidden ones",
}
_NEEDS = {
    "transfer": ("shadow", "shadow_bits"),
    "transfer_own_start": ("shadow_own_start", "shadow_bits"),
    "adaptive": ("known", "known_bits"),
    "ceiling": ("raw_known", "known_bits"),
}


class Leak(NamedTuple):
    """auc: .5 says nothing; under .5 the attacker is wrong more often than right, which is of no
    use to who cannot know it.
    low, high: DeLong's 95% interval over the attacked records."""

    auc: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Scene:
    """Who could know what about one layer of one trained network: arrays (rows, width), those
    that the threats need.

    hidden, bits: (N, H) hidden features of the attacked records, and (N,) their property in {0, 1},
    for scoring only.
    known, known_bits: the same of other records of the target, for "adaptive" and "ceiling".
    shadow, shadow_own_start, shadow_bits: of the attacker's own records through his shadow models.
    raw, raw_known: (N, F) and (M, F) raw features of the attacked and the known records.
    Arrays or tensors.  Each attack checks what it uses.
    """

    hidden: ArrayLike
    bits: ArrayLike
    known: ArrayLike = ()
    known_bits: ArrayLike = ()
    shadow: ArrayLike = ()
    shadow_own_start: ArrayLike = ()
    shadow_bits: ArrayLike = ()
    raw: ArrayLike = ()
    raw_known: ArrayLike = ()


def infer(
    hidden_known: ArrayLike,
    property_known: ArrayLike,
    hidden_target: ArrayLike,
    *,
    attacker: str = "logistic",
    rng: np.random.Generator,
) -> np.ndarray:
    """Log-odds of the property for every target record, by a classifier fitted on the known ones.

    Columns are standardised by the known records.  "logistic": ridge 1, to its optimum.
    "mlp": H-16-1 with ReLU, Adam.
    hidden_known: (M, H) finite, any features.  property_known: (M,) in {0, 1}.
    hidden_target: (N, H).
    rng: draws the start and the batches of "mlp"; "logistic" has no chance in it.
    Returns (N,) float64; where the known records all have one value of the property, 0 for all:
    nothing can be learnt.  ValueError if a value is not finite or not 0 or 1, shapes do not fit, or
    attacker is unknown.
    Source: zhou2021, section 6.3 (logistic regression); the perceptron is ours.

    >>> infer(
    ...     [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], [[0.0], [3.0]], rng=np.random.default_rng(0)
    ... ).round(2)
    array([-1.27,  1.27])
    """
    one_of(ATTACKERS, attacker=attacker)
    known, target = matrix("hidden_known", hidden_known), matrix("hidden_target", hidden_target)
    bits = bits_of("property_known", property_known)
    same_rows(hidden_known=known, property_known=bits)
    if known.shape[1] != target.shape[1]:
        raise ValueError(
            "hidden_known and hidden_target must have the same columns, got "
            f"{known.shape[1]} and {target.shape[1]}"
        )
    if bits.min() == bits.max():
        return np.zeros(len(target))
    mean, spread = known.mean(axis=0), deviations(known)
    spread[spread == 0] = np.inf  # a column that is constant tells nothing
    known, target = (known - mean) / spread, (target - mean) / spread
    if attacker == "mlp":
        return _perceptron(known, bits, target, rng)
    fitted = LogisticRegression(solver="newton-cholesky", tol=1e-8, max_iter=200).fit(known, bits)
    return fitted.decision_function(target)


def leak(bits: ArrayLike, scores: ArrayLike) -> Leak:
    """What an attacker's scores give away, with DeLong's 95% interval of the AUC.

    bits: (N,) in {0, 1}, two of each at least.  scores: (N,) log-odds.  ValueError for others.
    The interval is the normal one; AUC 0 or 1 has width 0.
    Source: DeLong, DeLong and Clarke-Pearson 1988; by ranks, Sun and Xu 2014.

    >>> [round(v, 3) for v in leak([0, 0, 0, 1, 1, 1], [-2, -1, 1, -1.5, 2, 3])[:3]]
    [0.778, 0.291, 1.0]
    """
    placements = _placements(bits, scores)
    value = float(placements[0].mean())
    half = float(norm.ppf(0.975) * np.sqrt(sum(p.var(ddof=1) / len(p) for p in placements)))
    return Leak(value, max(0.0, value - half), min(1.0, value + half))


def difference(
    bits: ArrayLike, scores: ArrayLike, other_scores: ArrayLike
) -> tuple[float, float, float]:
    """AUC of the first scores minus AUC of the second on the same records, with DeLong's paired 95%
    interval.

    bits: (N,) in {0, 1}.  Both scores: (N,).  Returns (difference, low, high): an optimiser or
    defence protects, against this attacker on these nets, as far as the interval is above 0.  It
    covers the choice of records, not of seeds.

    >>> [
    ...     float(round(v, 3))
    ...     for v in difference([0, 0, 0, 1, 1, 1], [0, 1, 2, 3, 4, 5], [0, 1, 3, 2, 4, 5])
    ... ]
    [0.111, -0.197, 0.419]
    """
    apart = [
        one - other
        for one, other in zip(_placements(bits, scores), _placements(bits, other_scores))
    ]
    value = float(apart[0].mean())
    half = float(norm.ppf(0.975) * np.sqrt(sum(d.var(ddof=1) / len(d) for d in apart)))
    return value, value - half, value + half


def attack(
    threat: str, scene: Scene, *, attacker: str = "logistic", rng: np.random.Generator
) -> Leak:
    """One attack under a named threat model.

    threat: one of THREATS, whose sentence says what the attacker has.  scene: the arrays; those
    that the threat needs.
    Returns a Leak.  ValueError if the threat is unknown or the scene lacks its arrays.
    Source: zhou2021, section 6.3, whose "somehow gets the amount and the corresponding hidden
    features" can be read as "transfer" and as "adaptive".
    """
    one_of(THREATS, threat=threat)
    if threat == "nothing":
        return leak(scene.bits, np.zeros(np.shape(scene.bits)))
    known, bits = (getattr(scene, name) for name in _NEEDS[threat])
    lacking = [name for name in _NEEDS[threat] if not np.size(getattr(scene, name))]
    lacking += ["raw"] * (threat == "ceiling" and not np.size(scene.raw))
    if lacking:
        raise ValueError(f"threat {threat!r} needs {' and '.join(lacking)} of the scene")
    target = scene.raw if threat == "ceiling" else scene.hidden
    return leak(scene.bits, infer(known, bits, target, attacker=attacker, rng=rng))


def sweep(
    scene: Scene, *, sizes: Sequence[int], repeats: int, rng: np.random.Generator
) -> pd.DataFrame:
    """The adaptive attack by the number m of records that the attacker knows.

    sizes: each from 2 to the known records of the scene.  repeats: draws of the known records for
    each size, >= 1.
    Returns a DataFrame, one row a size: n_known, and auc, the mean over the draws.
    ValueError for a size that is out of range.
    """
    known, bits = matrix("known", scene.known), bits_of("known_bits", scene.known_bits)
    same_rows(known=known, known_bits=bits)
    if not all(2 <= size <= len(known) for size in sizes):
        raise ValueError(f"sizes must be of 2 to the {len(known)} known records, got {list(sizes)}")
    means = []
    for size in sizes:
        values = []
        for _ in range(repeats):
            rows = rng.permutation(len(known))[:size]
            fewer = replace(scene, known=known[rows], known_bits=bits[rows])
            values.append(attack("adaptive", fewer, rng=rng).auc)
        means.append(np.mean(values))
    return pd.DataFrame({"n_known": sizes, "auc": means})


def _perceptron(
    known: np.ndarray, bits: np.ndarray, target: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    steps, batch = 600, 512
    draws = torch.Generator().manual_seed(int(rng.integers(2**62)))
    model = mlp((known.shape[1], 16, 1), rng=draws, dtype=torch.float64)
    optimiser = optimisers.Adam(model.parameters(), lr=1e-2, weight_decay=1e-3, fused=True)
    X, y = torch.from_numpy(known), torch.from_numpy(bits)
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = 1e-2 * (1 - step / steps)
        rows = torch.randint(len(X), (batch,), generator=draws) if len(X) > batch else slice(None)
        optimiser.zero_grad()
        classification_loss(model(X[rows]), y[rows]).backward()
        optimiser.step()
    with torch.no_grad():
        return model(torch.from_numpy(target))[:, 0].numpy()


def _placements(bits: ArrayLike, scores: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Each positive's share of negatives below it, whose mean is the AUC; each negative's share of
    positives above it (ties half)."""
    positive, scores = bits_of("bits", bits) == 1, scores_of("scores", scores)
    same_rows(bits=positive, scores=scores)
    m, n = int(positive.sum()), int((~positive).sum())
    if min(m, n) < 2:
        raise ValueError(f"bits must have two of each at least, got {m} of 1 and {n} of 0")
    ranks = rankdata(scores)
    below = (ranks[positive] - rankdata(scores[positive])) / n
    above = 1 - (ranks[~positive] - rankdata(scores[~positive])) / m
    return below, above
