"""The same attacks on SPNN and on SplitNN: one split, one batch, one number of looks, the same
attackers, who know the same records.

What differs is what each party is given. SPNN's server gets h1, the sum over the holders, and the
gradient of h_L. SplitNN's server gets every holder's part of h1 (through the sigmoid, which it
undoes) and knows whose it is, and the labels. A holder gets the gradient of what it sent: of h1 in
SPNN, of its own neurons in SplitNN.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ppkit import optimisers
from ppkit.attacks import features, labels
from ppkit.attacks import property as pa
from ppkit.evaluation import auc
from ppkit.spnn import rivals, training
from ppkit.spnn.vertical import Vertical
from ppkit.validation import one_of

ARMS = ("SPNN, SGD", "SPNN, SGLD", "SplitNN, SGD")


@dataclass(frozen=True)
class Scale:
    """batch: records, of which the first batch is attacked.  lr: of SGD on the mean loss; SGLD gets
    equal drift.  n_epochs: looks at that batch.  n_known: records of it whose features the server
    knows.  n_known_bits: records of it whose property the server knows, for the linked looks, and
    rows of other batches for one look of the trained network."""

    batch: int = 5_000
    lr: float = 10.0
    n_epochs: int = 16
    n_known: int = 100
    n_known_bits: int = 1_000
    n_known_bits_one_look: int = 10_000
    n_attacked: int = 20_000
    hidden: tuple[int, int] = (8, 8)


def attacked(
    arm: str, split: Vertical, bits: np.ndarray, *, seed: int, scale: Scale = Scale()
) -> dict[str, float]:
    """What each attack finds in one training.

    arm: one of ARMS.  split: two holders, the labels with A, in the parts of `vertical.LEAKAGE`.
    bits: (n_rows,) of the whole data set, the property in {0, 1}.  seed: of start and noise.
    Returns, by name:
    task: test AUC.
    labels, B: AUC by the first direction of the gradient that B gets, first batch, first epoch.
    labels, server: the same by the gradient of h_L; 1 in SplitNN, whose server has the labels.
    one holder's part: R^2 of A's own X_A theta_A at the last look, by regression on what the server
    gets and the known records' parts; SplitNN's server is given it.
    features, one look; features, all looks: R^2 of the other records, `features.reconstruct`; where
    the server knows whose neurons it sees, also holder by holder: the better one counts.
    who resembles whom: correlation of inner products, no record known, `features.whitened`.
    amount, transfer; amount, one look; amount, 8 looks: AUC of the property by a shadow model of
    the same start, by known records of the trained network (the better of two attackers), and by 8
    looks at the first batch (the better of looks and their directions).
    Departs from the protocols in one thing: h1 is computed in the clear, and rounded to 16 bits
    where SPNN's protocol rounds it.
    """
    one_of(ARMS, arm=arm)
    of_split = arm.startswith("SplitNN")
    net, run = _trained(arm, split, "train", seed, seed, scale)
    looks = [one for one in run.looks if one.rows[0] == 0]
    own = net.theta[0].shape[1] if of_split else scale.hidden[0]
    y = split.y["train"][: scale.batch].numpy()
    X = torch.cat([part[: scale.batch] for part in split.parts["train"]], dim=1).double().numpy()
    views = [_rounded(one.h1, of_split) for one in looks]
    to_b = looks[0].h1_grad[:, own:] if of_split else looks[0].h1_grad
    by_b = _label_auc(y, to_b)
    by_server = 1.0 if of_split else _label_auc(y, looks[0].h_last_grad)
    shuffled = np.random.default_rng(seed).permutation(scale.batch)
    known, others = shuffled[: scale.n_known], shuffled[scale.batch // 2 :]
    holders = split.holders if of_split else None
    amounts = np.asarray(bits)[split.rows["train"]][: scale.batch]
    shadow, _ = _trained(arm, split, "shadow", seed, seed + 50, scale)
    return {
        "task": run.auc,
        "labels, B": by_b,
        "labels, server": by_server,
        "one holder's part": _own_part(net, views[-1], X, known, others, of_split),
        "features, one look": _features(views[:1], X, known, others, own, holders),
        "features, all looks": _features(views, X, known, others, own, holders),
        "who resembles whom": _likeness(views, X, own, holders, seed),
        **_property(net, shadow, split, bits, of_split, seed, scale),
        "amount, 8 looks": _linked(views, amounts, shuffled, seed, scale),
    }


def table(
    split: Vertical, bits: np.ndarray, *, seeds: Sequence[int], scale: Scale = Scale()
) -> dict[str, dict[str, list[float]]]:
    """`attacked` for every arm and start: by arm and attack, one number a start."""
    found: dict[str, dict[str, list[float]]] = {}
    for arm in ARMS:
        for seed in seeds:
            one = attacked(arm, split, bits, seed=seed, scale=scale)
            for name, value in one.items():
                found.setdefault(arm, {}).setdefault(name, []).append(value)
    return found


def _trained(arm, split: Vertical, key: str, start: int, seed: int, scale: Scale):
    """A net on as many rows as the target has, and its looks at the first batch."""
    kind = rivals.SplitNN if arm.startswith("SplitNN") else rivals.NN
    rng = torch.Generator().manual_seed(start)
    net = kind(split.holders, scale.hidden, rng=rng, dtype=torch.float64)
    n_rows = len(split.y["train"])
    parts = [part[:n_rows].double() for part in split.parts[key]]
    y = split.y[key][:n_rows]
    loss = "mean"
    optimiser: torch.optim.Optimizer = optimisers.SGD(net.parameters(), lr=scale.lr)
    if arm.endswith("SGLD"):
        loss, alpha = "sum", training.equal_drift_lr(scale.lr, batch=scale.batch)
        noise = torch.Generator().manual_seed(seed + 1_000)
        optimiser = training.SGLD(net.parameters(), lr=alpha, rng=noise)
    in_epoch = -(-n_rows // scale.batch)
    watched = range(0, scale.n_epochs * in_epoch, in_epoch) if key == "train" else ()
    test_parts, test_y = split["test"]
    run = training.train(
        net,
        parts,
        y,
        training.Schedule(scale.n_epochs, scale.batch, loss=loss),
        optimiser=optimiser,
        test=([part.double() for part in test_parts], test_y),
        every=10**9,
        look_at=watched,
    )
    return net, run


def _rounded(h1: torch.Tensor, of_split: bool) -> np.ndarray:
    """h1 as the server gets it: SplitNN's in floating point."""
    values = h1.detach().double().numpy()
    return values if of_split else np.round(values * 2**16) / 2**16


def _label_auc(y: np.ndarray, gradients: torch.Tensor) -> float:
    return auc(y, labels.first_direction(gradients.double().numpy()).scores)


def _own_part(net, view, X, known, others, of_split: bool) -> float:
    if of_split:
        return 1.0
    theta = net.theta[0].detach().double().numpy()
    part = X[:, : len(theta)] @ theta
    got = features.reconstruct([view], known, part[known], noise=features.ROUNDED_16)
    return 0.0 if got.X is None else features.r_squared(part[others], got.X[others])


def _features(views, X, known, others, own: int, holders) -> float:
    def rebuilt(seen, columns):
        got = features.reconstruct(seen, known, columns[known], noise=features.ROUNDED_16)
        return columns.mean(axis=0) + 0 * columns if got.X is None else got.X

    guesses = [rebuilt(views, X)]
    if holders is not None:
        parts = np.split(X, [holders[0]], axis=1)
        seen = [[view[:, :own] for view in views], [view[:, own:] for view in views]]
        guesses.append(np.hstack([rebuilt(*one) for one in zip(seen, parts)]))
    return max(features.r_squared(X[others], guess[others]) for guess in guesses)


def _likeness(views, X, own: int, holders, seed: int) -> float:
    """SplitNN's server adds up the inner products that it finds holder by holder."""
    i, j = np.random.default_rng(seed).choice(len(X), (2, 20_000))
    i, j = i[i != j], j[i != j]
    truth = (X[i] * X[j]).sum(axis=1)
    groups = [(views, X.shape[1])]
    if holders is not None:
        seen = [[view[:, :own] for view in views], [view[:, own:] for view in views]]
        groups = list(zip(seen, holders))
    told = np.zeros(len(i))
    for group, n_features in groups:
        rank = features.whitened(group, n_features=n_features, noise=features.ROUNDED_16).rank
        got = features.whitened(group, n_features=rank, noise=features.ROUNDED_16)
        if got.X is not None:
            told += (got.X[i] * got.X[j]).sum(axis=1)
    return float(np.corrcoef(truth, told)[0, 1])


@torch.no_grad()
def _hidden(net, parts, of_split: bool) -> np.ndarray:
    return _rounded(net.first([part.double() for part in parts]), of_split)


def _property(net, shadow, split, bits, of_split, seed, scale) -> dict[str, float]:
    """The attacker of Table 2, and one who knows records of the target itself."""
    n_of = {"test": scale.n_attacked, "train": scale.n_known_bits_one_look}
    n_of["shadow"] = scale.n_attacked
    hidden, told = {}, {}
    for key, model in (("test", net), ("train", net), ("shadow", shadow)):
        parts = [part[: n_of[key]] for part in split.parts[key]]
        hidden[key] = _hidden(model, parts, of_split)
        told[key] = np.asarray(bits)[split.rows[key]][: n_of[key]]
    scene = pa.Scene(
        hidden=hidden["test"],
        bits=told["test"],
        known=hidden["train"],
        known_bits=told["train"],
        shadow=hidden["shadow"],
        shadow_bits=told["shadow"],
    )
    rng = np.random.default_rng(seed)
    adaptive = [pa.attack("adaptive", scene, attacker=how, rng=rng).auc for how in pa.ATTACKERS]
    transfer = pa.attack("transfer", scene, rng=rng).auc
    return {"amount, transfer": transfer, "amount, one look": max(adaptive)}


def _linked(views, amounts, shuffled, seed: int, scale: Scale) -> float:
    at = np.unique(np.linspace(len(views) - 1, 0, 8).astype(int))
    H = np.hstack([views[k] for k in at])
    directions = np.linalg.svd(H - H.mean(axis=0), full_matrices=False)[0][:, :28]
    mine, rest = shuffled[: scale.n_known_bits], shuffled[scale.n_known_bits :]
    found = []
    for seen in (H, directions):
        scores = pa.infer(seen[mine], amounts[mine], seen[rest], rng=np.random.default_rng(seed))
        found.append(pa.leak(amounts[rest], scores).auc)
    return max(found)
