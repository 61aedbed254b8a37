"""Algorithms 1 to 3 of wang2018: a server, participants that answer in turn, and what an answer may
be.

The loop is one for all methods; what a participant uploads is an object that it calls:

    DPSTGD    Algorithm 2: clip every coordinate, average, Report-Noisy-Top-N, send {-B, 0, +B}
    PlainSGD  the non-private baseline: the mean gradient of the same Poisson sample
    DPSGD     Gaussian noise on the clipped sum (`ppkit.dpsgd`)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from ppkit import gradients
from ppkit.dpstgd.formulas import dense_bits, upload_bits
from ppkit.evaluation import auc
from ppkit.mechanisms import SELECTIONS
from ppkit.models import mlp, n_parameters
from ppkit.refusals import binary, finite, must_be, one_of


class Upload(Protocol):
    """What a participant sends: called with a model and a Poisson sample, returns a flat direction
    (P,)."""

    def __call__(
        self,
        model: nn.Sequential,
        X: torch.Tensor,
        y: torch.Tensor,
        *,
        expected_batch: float,
        rng: np.random.Generator,
    ) -> torch.Tensor: ...

    def bits(self, size: int) -> int: ...


@dataclass(frozen=True)
class DPSTGD:
    """Algorithm 2: n coordinates chosen under noise, each sent as B times a noisy sign.

    G = mean_i clip(g_i, -B, B),  lambda = 2 B / |D_q|,
    I, s = selection(G, n, scale = lambda / epsilon),  upload_j = B s_j for j in I, else 0

    epsilon: per selection, > 0; math.inf sends the true top n (no noise, no privacy).
    n_uploads: n >= 1, at most the number of parameters.  clip_bound: B > 0, finite.
    selection: a name in `mechanisms.SELECTIONS`.
    The realised |D_q| in lambda is private, yet harmless: noise of scale 2 B / (|D_q| epsilon) on
    the mean is noise of scale 2 B / epsilon on the sum, divided by |D_q|, and dividing by a
    positive number changes neither an order nor a sign. The upload is a function of
    (sum + noise) alone.
    An empty sample is answered the same way: its sum is 0, so noise alone chooses coordinates and
    signs. To stay silent instead would publish the event "nobody was sampled", whose probability
    (1-q)^N depends on N, and at q = 1 tells an empty data set from one record with certainty; no
    noise would cover it.
    Returns, when called, a flat tensor (P,) with values in {-B, 0, +B}.  ValueError if a setting is
    out of range.
    Guarantee: `accounting.valid_budget`.  Source: wang2018, Algorithms 2 and 3.
    """

    epsilon: float
    n_uploads: int
    clip_bound: float
    selection: str = "gumbel"

    def __post_init__(self) -> None:
        must_be("> 0", epsilon=self.epsilon)
        must_be("a whole number >= 1", n_uploads=self.n_uploads)
        must_be("a finite number > 0", clip_bound=self.clip_bound)
        one_of(SELECTIONS, selection=self.selection)

    def __call__(
        self,
        model: nn.Sequential,
        X: torch.Tensor,
        y: torch.Tensor,
        *,
        expected_batch: float,
        rng: np.random.Generator,
    ) -> torch.Tensor:
        mean = torch.zeros(n_parameters(model), dtype=X.dtype)
        if len(X):
            mean = gradients.mean_clipped(model, X, y, clip_bound=self.clip_bound)
        sensitivity = 2 * self.clip_bound / max(len(X), 1)
        select = SELECTIONS[self.selection]
        indices, signs = select(
            mean.numpy(), n=self.n_uploads, scale=sensitivity / self.epsilon, rng=rng
        )
        upload = torch.zeros_like(mean)
        upload.numpy()[indices] = self.clip_bound * signs
        return upload

    def bits(self, size: int) -> int:
        """Bits of one upload of a model of `size` parameters: n indices and n signs."""
        return upload_bits(self.n_uploads, size)


@dataclass(frozen=True)
class PlainSGD:
    """The non-private baseline: the mean gradient of the same Poisson sample, 0 if it is empty."""

    def __call__(
        self,
        model: nn.Sequential,
        X: torch.Tensor,
        y: torch.Tensor,
        *,
        expected_batch: float,
        rng: np.random.Generator,
    ) -> torch.Tensor:
        return (
            gradients.mean_plain(model, X, y)
            if len(X)
            else torch.zeros(n_parameters(model), dtype=X.dtype)
        )

    def bits(self, size: int) -> int:
        """Bits of one upload of a model of `size` parameters: every coordinate as a float32."""
        return dense_bits(size)


@dataclass
class Participant:
    """One bank: its rows, its own randomness, and how often it may still answer.

    X: (N, F) float, N >= 1, finite.  y: (N,) labels in {0, 1}.  rng: draws its samples and its
    noise.
    ValueError if the data are empty, not finite, or labelled otherwise.
    """

    X: torch.Tensor
    y: torch.Tensor
    rng: np.random.Generator
    answered: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.X, self.y = _tensor(self.X), _tensor(self.y)
        if len(self.X) == 0:
            raise ValueError("a participant has no data: X has 0 rows")
        if self.y.shape != (len(self.X),):
            raise ValueError(
                f"y must be ({len(self.X)},), one label a row, got {tuple(self.y.shape)}"
            )
        finite(X=self.X)
        binary(labels=self.y)
        self.y = self.y.long()

    def sample(self, sample_rate: float) -> np.ndarray:
        """Indices of a Poisson sample: each row with probability sample_rate, independently; may be
        empty.

        Drawn as a binomial size and then a uniform subset of that size, which is the same law and
        costs q N, not N.
        """
        size = self.rng.binomial(len(self.X), sample_rate)
        return self.rng.choice(len(self.X), size=size, replace=False, shuffle=False)

    def answer(self, model: nn.Sequential, *, upload: Upload, sample_rate: float) -> torch.Tensor:
        """Algorithm 2: sample, compute, upload; a flat tensor (P,)."""
        rows = torch.from_numpy(self.sample(sample_rate))
        self.answered += 1
        return upload(
            model,
            self.X[rows],
            self.y[rows],
            expected_batch=sample_rate * len(self.X),
            rng=self.rng,
        )


@dataclass(frozen=True)
class History:
    """What a training left behind: `values[i]` was evaluated after round `rounds[i]`; 0 is the
    start.

    uploads, bits: sent by all participants together.  answered: uploads of each participant.
    """

    rounds: tuple[int, ...]
    values: tuple[Any, ...]
    uploads: int
    bits: int
    answered: tuple[int, ...]


def train(
    model: nn.Sequential,
    participants: Sequence[tuple[Any, Any]],
    *,
    upload: Upload,
    sample_rate: float,
    n_rounds: int,
    lr: float | Callable[[int], float],
    rng: np.random.Generator,
    evaluate: Callable[[nn.Sequential], Any] | None = None,
    every: int = 1,
) -> History:
    """Algorithm 1: n_rounds rounds in which the server asks every participant in turn and steps
    after each answer.

    W := W - r_t * upload, for t = 1..n_rounds and k = 1..K

    model: changed in place.
    participants: K pairs (X (N_k, F), y (N_k,)), arrays or tensors of the model's dtype.
    upload: DPSTGD, PlainSGD, DPSGD, or anything that is called like them.
    sample_rate: q in (0, 1].
    n_rounds: T >= 1.  lr: r_t > 0, a number or a function of t = 1, 2, ...
    rng: one child of it per participant.
    evaluate: called with the model after rounds 0, every, 2 every, ... and the last.
    Returns a History.  ValueError if an argument is out of range; a participant is named by its
    place, from 0.
    Guarantee: of the uploads together, `accounting.valid_budget`
    with n_rounds = a participant's uploads.
    Source: wang2018, Algorithm 1.
    """
    _check_settings(participants, upload, sample_rate, n_rounds, every, size=n_parameters(model))
    members = []
    for k, ((X, y), child) in enumerate(zip(participants, rng.spawn(len(participants)))):
        try:
            members.append(Participant(X, y, child))
        except ValueError as error:
            raise ValueError(f"participant {k}: {error}") from None
    schedule = lr if callable(lr) else lambda t: lr
    flat = nn.utils.parameters_to_vector(model.parameters()).detach()
    nn.utils.vector_to_parameters(
        flat, model.parameters()
    )  # the parameters are views of `flat` from here on
    rounds, values = [], []

    def look(t: int) -> None:
        if evaluate is not None:
            rounds.append(t)
            values.append(evaluate(model))

    look(0)
    for t in range(1, n_rounds + 1):
        rate = schedule(t)
        must_be("> 0", **{f"lr in round {t}": rate})
        for member in members:
            flat.add_(member.answer(model, upload=upload, sample_rate=sample_rate), alpha=-rate)
        if t == n_rounds or t % every == 0:
            look(t)
    answered = tuple(member.answered for member in members)
    return History(
        tuple(rounds),
        tuple(values),
        sum(answered),
        sum(answered) * upload.bits(n_parameters(model)),
        answered,
    )


def run_arm(
    X: np.ndarray,
    y: np.ndarray,
    split: Any,
    *,
    seed: int,
    hidden: Sequence[int] = (50, 20),
    start: str = "random",
    **training: Any,
) -> History:
    """One curve of Figs 3 to 6: a fresh network, trained on a split, with its test AUC by round.

    X: (N, F) float32 or float64, standardised on training rows; its type is the network's.  y: (N,)
    labels in {0, 1}.
    split: has `participants`, a sequence of index arrays, and `test`, an index array.  hidden:
    widths of the hidden layers.  start: as in `mlp`.
    seed: of the start, the samples and the noise; two arms with one seed start from one network.
    training: upload, sample_rate, n_rounds, lr and every, as in `train`.
    Returns a History whose values are test AUCs.
    Plain arguments, so that joblib can run seeds side by side.
    """
    start_seed, training_seed = np.random.SeedSequence(seed).spawn(2)
    start_rng = torch.Generator().manual_seed(int(start_seed.generate_state(1)[0]))
    X_test, y_test = torch.from_numpy(X[split.test]), y[split.test]
    model = mlp((X.shape[1], *hidden, 2), rng=start_rng, start=start, dtype=X_test.dtype)

    def test_auc(network: nn.Sequential) -> float:
        with torch.no_grad():
            logits = network(X_test)
        return auc(y_test, (logits[:, 1] - logits[:, 0]).numpy())

    data = [(X[rows], y[rows]) for rows in split.participants]
    rng = np.random.default_rng(training_seed)
    return train(model, data, rng=rng, evaluate=test_auc, **training)


def _tensor(values) -> torch.Tensor:
    return (
        values
        if isinstance(values, torch.Tensor)
        else torch.from_numpy(np.require(values, requirements="CW"))
    )


def _check_settings(participants, upload, sample_rate, n_rounds, every, *, size: int) -> None:
    if len(participants) == 0:
        raise ValueError("participants must not be empty")
    must_be("in (0, 1]", sample_rate=sample_rate)
    must_be("a whole number >= 1", n_rounds=n_rounds, every=every)
    n_uploads = getattr(upload, "n_uploads", 1)
    if n_uploads > size:
        raise ValueError(
            f"n_uploads must be at most the {size} parameters of the model, got {n_uploads}"
        )
