"""Networks with two private layers that a seed draws, for the attack on the second layer: what is
drawn was written down before the first was tried."""

from dataclasses import dataclass

import numpy as np
import torch

from ppkit.attacks import features, second_layer
from ppkit.datasets import Dataset
from ppkit.evaluation import auc
from ppkit.spnn import vertical
from ppkit.spnn.messages import Transcript
from ppkit.spnn.randomness import Stream
from ppkit.spnn.rivals import PiecewiseNet
from ppkit.spnn.secureml import SecureML

SEEDS = range(47_000, 47_020)
DIGITS = {"float": 0.0, "fixed": 2.0**-16}  # and the noise of an entry that the server expects
HIDDEN = (8, 8)


@dataclass(frozen=True)
class Size:
    """Of one trial: rows to train on at most (whole batches), records of a batch, epochs, learning
    rate on the mean loss, records that the server knows."""

    n_rows: int = 20_000
    batch: int = 5_000
    n_epochs: int = 30
    lr: float = 10.0
    n_known: int = 250


@dataclass(frozen=True, eq=False)
class Seen:
    """views: h_2 of the first batch, once an epoch.  X: (batch, d), its features.  known: rows.
    task_auc: on the test rows, after training."""

    views: list[np.ndarray]
    X: np.ndarray
    known: np.ndarray
    task_auc: float


@dataclass(frozen=True)
class Outcome:
    """recovered: whether the server takes the first look's layers for found.  n_fits: that it took.
    h2_r2: of the others' h_2 at the first look.  r2: of the others' features, nan without any.
    expected_r2: what the server expects.  looks: that were used.  one_look_r2: r2 of the first
    look alone.  why: as in `second_layer.Columns`."""

    seed: int
    digits: str
    task_auc: float
    recovered: bool
    n_fits: int
    h2_r2: float
    r2: float | None
    expected_r2: float | None
    looks: int
    why: str


def trial(
    seed: int,
    dataset: Dataset,
    digits: str,
    *,
    size: Size = Size(),
    effort: second_layer.Effort = second_layer.Effort(),
) -> Outcome:
    """The attack on the network, the rows and the known records of a seed.

    dataset: creditcard.  digits: a key of DIGITS.  Returns an Outcome.
    """
    seen = drawn(seed, dataset, digits, size=size)
    X_known = seen.X[seen.known]
    others = np.setdiff1d(np.arange(len(seen.X)), seen.known)
    got = second_layer.columns(
        seen.views,
        seen.known,
        X_known,
        width=HIDDEN[0],
        noise=DIGITS[digits],
        effort=effort,
        rng=np.random.default_rng([seed, 2]),
    )
    h2, first = seen.views[0][others], got.first
    return Outcome(
        seed,
        digits,
        seen.task_auc,
        first.recovered,
        first.n_fits,
        features.r_squared(h2, first.layers.predicted(seen.X[others])),
        None if got.X is None else features.r_squared(seen.X[others], got.X[others]),
        got.expected_r2,
        len(got.used),
        got.why,
    )


def drawn(seed: int, dataset: Dataset, digits: str, *, size: Size = Size()) -> Seen:
    """What a seed draws: the split of the rows, the start of the network, the known records.

    The network trains in the clear. "fixed": at each look its weights are shared out and the server
    gets h_2 by the protocol, of two private layers.
    """
    split = vertical.fraud(dataset, fractions=vertical.LEAKAGE, seed=seed, dtype=torch.float64)
    n_rows = min(size.n_rows, len(split.y["train"]) // size.batch * size.batch)
    parts, y = [part[:n_rows] for part in split.parts["train"]], split.y["train"][:n_rows]
    net = PiecewiseNet(split.holders, HIDDEN, rng=torch.Generator().manual_seed(seed))
    net.prepare(parts)
    first = [part[: size.batch] for part in parts]
    views = []
    for _ in range(size.n_epochs):
        views.append(_view(net, first, digits, seed))
        for rows in torch.arange(n_rows).split(size.batch):
            net.step(rows, y[rows], lr=size.lr)
    test_parts, test_y = split["test"]
    task_auc = auc(test_y.numpy(), net.logits(test_parts)[:, 0].numpy())
    known = np.random.default_rng([seed, 1]).choice(size.batch, size.n_known, replace=False)
    return Seen(views, torch.cat(first, dim=1).numpy(), known, task_auc)


def _view(net: PiecewiseNet, parts: list[torch.Tensor], digits: str, seed: int) -> np.ndarray:
    """h_2 of these rows, as the server gets it."""
    if digits == "float":
        with torch.no_grad():
            return net.hidden[:2](net.first(parts)).numpy()
    transcript = Transcript()
    stream = Stream.seeded_for_teaching(seed)
    shared = SecureML(net, private=2, truncation="secureml", transcript=transcript, stream=stream)
    shared.logits(parts)
    sent = [np.asarray(one.payload) for one in transcript.messages if one.name == "share of z"]
    return (sent[0] + sent[1]) * 2.0**-16
