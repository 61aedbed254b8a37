"""zhou2021's property attack: from the hidden features that a server sees, one hidden property of
each record.

The attacker fits a classifier on hidden features whose property he knows and applies it to those
whose property he wants.
Where the known ones come from is the threat model, and it decides what comes out;
`property_defences` has what may help.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy.stats import norm, rankdata
from sklearn.linear_model import LogisticRegression

from ppkit.attacks.arrays import bits_of, matrix
from ppkit.evaluation import auc
from ppkit.models import classification_loss, mlp
from ppkit.refusals import must_be, one_of

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
    low, high: DeLong's 95% interval over the attacked records.  why: "" unless the attacker could
    learn nothing, then one sentence."""

    auc: float
    low: float
    high: float
    why: str = ""


@dataclass(frozen=True, eq=False)
class Scene:
    """Who could know what about one layer of one trained network: arrays (rows, width), or None
    where it is not given.

    hidden, bits: (N, H) hidden features of the attacked records, and (N,) their property in {0, 1},
    for scoring only.
    known, known_bits: the same of other records of the target, for "adaptive" and "ceiling".
    shadow, shadow_own_start, shadow_bits: of the attacker's own records through his shadow models.
    raw, raw_known: (N, F) and (M, F) raw features of the attacked and the known records.
    Arrays or tensors.  Each attack checks what it uses.
    """

    hidden: np.ndarray
    bits: np.ndarray
    known: np.ndarray | None = None
    known_bits: np.ndarray | None = None
    shadow: np.ndarray | None = None
    shadow_own_start: np.ndarray | None = None
    shadow_bits: np.ndarray | None = None
    raw: np.ndarray | None = None
    raw_known: np.ndarray | None = None


def infer(
    hidden_known,
    property_known,
    hidden_target,
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
    Returns (N,) float64; where the known records all have one value of the property, the same
    number for all: nothing can be learnt.  ValueError if shapes do not match, a value is not finite
    or not 0 or 1, or attacker is unknown.
    Source: zhou2021, section 6.3 (logistic regression); the perceptron is ours.

    >>> infer(
    ...     [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], [[0.0], [3.0]], rng=np.random.default_rng(0)
    ... ).round(2)
    array([-1.27,  1.27])
    """
    one_of(ATTACKERS, attacker=attacker)
    known, bits = (
        matrix("hidden_known", hidden_known),
        bits_of(property_known, "property_known", hidden_known),
    )
    target = matrix("hidden_target", hidden_target)
    if known.shape[1] != target.shape[1]:
        raise ValueError(
            "known and target records must have the same features, "
            f"got {known.shape[1]} and {target.shape[1]}"
        )
    if bits.min() == bits.max():
        return np.full(len(target), _log_odds(bits))
    mean, spread = known.mean(axis=0), known.std(axis=0)
    spread[spread <= 1e-12 * np.maximum(np.abs(mean), 1e-300)] = (
        np.inf
    )  # a column that is constant tells nothing
    known, target = (known - mean) / spread, (target - mean) / spread
    if attacker == "mlp":
        return _perceptron(known, bits, target, rng)
    fitted = LogisticRegression(solver="newton-cholesky", tol=1e-8, max_iter=200).fit(known, bits)
    return target @ fitted.coef_[0] + fitted.intercept_[0]


def leak(bits, scores) -> Leak:
    """What an attacker's scores give away, with DeLong's 95% interval of the AUC.

    bits: (N,) in {0, 1}, two of each at least.  scores: (N,) log-odds.
    The interval is the normal one; AUC 0 or 1 has width 0.  ValueError as in `evaluation.auc`.
    Source: DeLong, DeLong and Clarke-Pearson 1988; by ranks, Sun and Xu 2014.

    >>> [round(v, 3) for v in leak([0, 0, 0, 1, 1, 1], [-2, -1, 1, -1.5, 2, 3])[:3]]
    [0.778, 0.291, 1.0]
    """
    value, placements = _placements(bits, scores)
    half = float(norm.ppf(0.975) * np.sqrt(sum(p.var(ddof=1) / len(p) for p in placements)))
    return Leak(value, max(0.0, value - half), min(1.0, value + half))


def difference(bits, scores, other_scores) -> tuple[float, float, float]:
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
    (one, first), (two, second) = _placements(bits, scores), _placements(bits, other_scores)
    half = norm.ppf(0.975) * np.sqrt(
        sum((a - b).var(ddof=1) / len(a) for a, b in zip(first, second))
    )
    return one - two, float(one - two - half), float(one - two + half)


def attack(
    threat: str,
    scene: Scene,
    *,
    attacker: str = "logistic",
    n_known: int | None = None,
    rng: np.random.Generator,
) -> Leak:
    """One attack under a named threat model.

    threat: one of THREATS, whose sentence says what the attacker has.  scene: the arrays; those
    that the threat needs.
    n_known: of "adaptive" and "ceiling", how many of the known records he has, drawn by rng;
    default all of them.
    Returns a Leak; `why` says if the known records are all alike.  ValueError if the threat is
    unknown, the scene lacks its arrays, or n_known is out of range.
    Source: zhou2021, section 6.3, whose "somehow gets the amount and the corresponding hidden
    features" can be read as "transfer" and as "adaptive".
    """
    one_of(THREATS, threat=threat)
    truth = bits_of(scene.bits, "bits", scene.hidden)
    if threat == "nothing":
        return leak(truth, np.full(len(truth), _log_odds(truth)))
    wanted = [*_NEEDS[threat], *["raw"] * (threat == "ceiling")]
    if lacking := [name for name in wanted if getattr(scene, name) is None]:
        raise ValueError(f"threat {threat!r} needs {' and '.join(lacking)} in the scene")
    known = matrix(wanted[0], getattr(scene, wanted[0]))
    bits = bits_of(getattr(scene, wanted[1]), wanted[1], known)
    if n_known is not None and not threat.startswith("transfer"):
        rows = _drawn(len(known), n_known, rng)
        known, bits = known[rows], bits[rows]
    target = scene.raw if threat == "ceiling" else scene.hidden
    found = leak(truth, infer(known, bits, target, attacker=attacker, rng=rng))
    if bits.min() < bits.max():
        return found
    return found._replace(why=f"all {len(bits)} known records have the property {bits[0]}")


def sweep(
    scene: Scene, *, sizes: Sequence[int], repeats: int, rng: np.random.Generator
) -> pd.DataFrame:
    """The adaptive attack by the number m of records that the attacker knows.

    sizes: each from 2 to the known records of the scene.  repeats: draws of the known records for
    each size, >= 1.
    Returns a DataFrame, one row a size: n_known, and auc, the mean over the draws.
    ValueError as in `attack`.
    """
    must_be("a whole number >= 1", repeats=repeats)
    mean = [
        np.mean([attack("adaptive", scene, n_known=m, rng=rng).auc for _ in range(repeats)])
        for m in sizes
    ]
    return pd.DataFrame({"n_known": sizes, "auc": mean})


def _perceptron(known, bits, target, rng, *, steps: int = 600, batch: int = 512) -> np.ndarray:
    draws = torch.Generator().manual_seed(int(rng.integers(2**62)))
    model = mlp((known.shape[1], 16, 1), rng=draws, dtype=torch.float64)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-3, fused=True)
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


def _placements(bits, scores) -> tuple[float, tuple[np.ndarray, np.ndarray]]:
    """AUC, and each positive's share of negatives below it, each negative's share of positives
    above it (ties half)."""
    value = auc(bits, scores)
    positive, scores = np.asarray(bits) == 1, np.asarray(scores, float)
    m, n = int(positive.sum()), int((~positive).sum())
    if min(m, n) < 2:
        raise ValueError(
            f"an interval needs two records of each kind, got {m} with the property and {n} without"
        )
    ranks = rankdata(scores)
    return value, (
        (ranks[positive] - rankdata(scores[positive])) / n,
        1 - (ranks[~positive] - rankdata(scores[~positive])) / m,
    )


def _drawn(n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    if size != int(size) or not 2 <= size <= n:
        raise ValueError(
            f"n_known must be a whole number from 2 to the {n} known records, got {size}"
        )
    return rng.permutation(n)[: int(size)]


def _log_odds(bits) -> float:
    """Of the share of ones, with one record of each kind added so that it stays finite."""
    bits = np.asarray(bits)
    return float(np.log((bits.sum() + 1) / (len(bits) - bits.sum() + 1)))
