"""Algorithm 1 of wang2018: a server, and participants that answer in turn.

The loop is one for all methods; what a participant uploads is an object that it calls
(`dpstgd.uploads`).
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from ppkit.dpstgd.uploads import Upload
from ppkit.evaluation import auc
from ppkit.models import mlp, n_parameters, refuse_frozen
from ppkit.validation import binary, finite, must_be

ARM = ("upload", "lr", "start")  # what an arm has of its own


class Split(Protocol):
    """Which rows are whose: as many index arrays as participants, and one for the test."""

    @property
    def participants(self) -> Sequence[np.ndarray]: ...

    @property
    def test(self) -> np.ndarray: ...


@dataclass
class Participant:
    """One bank: its rows, and its own randomness.

    X: (N, F) float, N >= 1, finite.  y: (N,) labels in {0, 1}.
    rng: one child of it draws the samples, and copies of another the noise of every arm.
    ValueError if the data are empty, not finite, or labelled otherwise.
    """

    X: torch.Tensor
    y: torch.Tensor
    rng: np.random.Generator

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
        self._samples, self.noise = self.rng.spawn(2)

    def sample(self, sample_rate: float) -> np.ndarray:
        """Indices of a Poisson sample: each row with probability sample_rate, independently; may be
        empty.

        Drawn as a binomial size and then a uniform subset of that size, which is the same law and
        costs q N, not N.
        """
        size = self._samples.binomial(len(self.X), sample_rate)
        return self._samples.choice(len(self.X), size=size, replace=False, shuffle=False)


@dataclass(frozen=True)
class Arm:
    """One of several trainings that see the same samples.

    model: changed in place; a frozen parameter is refused.
    upload: DPSTGD, PlainSGD, DPSGD, or anything that is called like them.
    lr: r_t > 0, a number or a function of t = 1, 2, ...
    """

    model: nn.Sequential
    upload: Upload
    lr: float | Callable[[int], float]

    def rate(self, t: int) -> float:
        rate = self.lr(t) if callable(self.lr) else self.lr
        must_be("> 0", **{f"lr in round {t}": rate})
        return rate


@dataclass(frozen=True)
class History:
    """What a training left behind: `values[i]` was evaluated after round `rounds[i]`; 0 is the
    start.

    bits: sent by all participants together.
    model: the arm's own, after the last round.  It does not count when two histories are compared.
    """

    rounds: tuple[int, ...]
    values: tuple[Any, ...]
    bits: int
    model: nn.Sequential = field(compare=False)


def train(
    model: nn.Sequential,
    participants: Sequence[tuple[Any, Any]],
    *,
    upload: Upload,
    lr: float | Callable[[int], float],
    sample_rate: float,
    n_rounds: int,
    rng: np.random.Generator,
    evaluate: Callable[[nn.Sequential], Any] | None = None,
    every: int = 1,
) -> History:
    """Algorithm 1: n_rounds rounds in which the server asks every participant in turn and steps
    after each answer.

    W := W - r_t * upload, for t = 1..n_rounds and k = 1..K

    model, upload, lr: as in `Arm`.  All others as in `train_together`, as are the result, for the
    one arm, the errors and the source.
    """
    [history] = train_together(
        [Arm(model, upload, lr)],
        participants,
        sample_rate=sample_rate,
        n_rounds=n_rounds,
        rng=rng,
        evaluate=evaluate,
        every=every,
    )
    return history


def train_together(
    arms: Sequence[Arm],
    participants: Sequence[tuple[Any, Any]],
    *,
    sample_rate: float,
    n_rounds: int,
    rng: np.random.Generator,
    evaluate: Callable[[nn.Sequential], Any] | None = None,
    every: int = 1,
) -> list[History]:
    """Several trainings by Algorithm 1, each to the bit what `train` gives alone with such an rng;
    their rows are kept, drawn, copied and checked once.

    participants: K pairs (X (N_k, F), y (N_k,)), arrays or tensors of the models' dtype.
    sample_rate: q in (0, 1].
    n_rounds: T >= 1.
    rng: one child of it per participant.
    evaluate: called with each model after rounds 0, every, 2 every, ... and the last.
    Returns a History for each arm.  ValueError if an argument is out of range; a participant is
    named by its place, from 0.
    Guarantee: of one arm's uploads together, `accounting.get_upload_budget`
    with n_rounds = a participant's uploads; of several arms, all their uploads.
    Source: wang2018, Algorithm 1.
    """
    must_be("in (0, 1]", sample_rate=sample_rate)
    must_be("a whole number >= 1", n_participants=len(participants), n_rounds=n_rounds, every=every)
    n_rounds, every = int(n_rounds), int(every)
    for arm in arms:
        refuse_frozen(arm.model)
    sizes = [arm.upload.bits(n_parameters(arm.model)) for arm in arms]  # refuses n > d
    members = []
    for k, ((X, y), child) in enumerate(zip(participants, rng.spawn(len(participants)))):
        try:
            members.append(Participant(X, y, child))
        except ValueError as error:
            raise ValueError(f"participant {k}: {error}") from None
    noises = [[copy.deepcopy(member.noise) for member in members] for _ in arms]
    flats = [_flattened(arm.model) for arm in arms]
    looks = [t for t in range(n_rounds + 1) if t % every == 0 or t == n_rounds]
    values: list[list[Any]] = [[] for _ in arms]

    def look(t: int) -> None:
        if evaluate is None or t not in looks:
            return
        for arm, seen in zip(arms, values):
            seen.append(evaluate(arm.model))

    look(0)
    for t in range(1, n_rounds + 1):
        rates = [arm.rate(t) for arm in arms]
        for k, member in enumerate(members):
            rows = torch.from_numpy(member.sample(sample_rate))
            # index_select is faster than X[rows]
            X, y = (of.index_select(0, rows) for of in (member.X, member.y))
            for arm, flat, rate, noise in zip(arms, flats, rates, noises):
                answer = arm.upload(
                    arm.model, X, y, expected_batch=sample_rate * len(member.X), rng=noise[k]
                )
                flat.add_(answer, alpha=-rate)
        look(t)
    rounds = () if evaluate is None else tuple(looks)
    return [
        History(rounds, tuple(seen), n_rounds * len(members) * size, arm.model)
        for seen, size, arm in zip(values, sizes, arms)
    ]


def run_arm(
    X: np.ndarray,
    y: np.ndarray,
    split: Split,
    *,
    upload: Upload,
    lr: float | Callable[[int], float],
    seed: int,
    sample_rate: float,
    n_rounds: int,
    every: int = 1,
    start: str = "random",
    hidden: Sequence[int] = (50, 20),
) -> History:
    """One curve of Figs 3 to 6: `run_arms` of a single arm; arguments as there."""
    histories = run_arms(
        X,
        y,
        split,
        {"": {"upload": upload, "lr": lr, "start": start}},
        seed=seed,
        sample_rate=sample_rate,
        n_rounds=n_rounds,
        every=every,
        hidden=hidden,
    )
    return histories[""]


def run_arms(
    X: np.ndarray,
    y: np.ndarray,
    split: Split,
    arms: Mapping[str, Mapping[str, Any]],
    *,
    seed: int,
    sample_rate: float,
    n_rounds: int,
    every: int = 1,
    hidden: Sequence[int] = (50, 20),
) -> dict[str, History]:
    """Curves of Figs 3 to 6, together: for each arm a fresh network, trained on a split, with its
    test AUC by round.

    X: (N, F) float32 or float64, standardised on training rows; its type is the network's.  y: (N,)
    labels in {0, 1}.
    arms: by name, upload and lr, as in `Arm`, start, as in `mlp`, "random" if it is not there,
    and sample_rate, n_rounds and every where the arm's differ from the others'.
    seed: of the start, the samples and the noise; arms with one seed start from one network and see
    the same samples, together or not.
    sample_rate, n_rounds, every: as in `train_together`.  hidden: widths of the hidden layers.
    Returns a History whose values are test AUCs, by the arms' names.  ValueError for an arm with
    another setting, and as in `train_together`.
    Plain arguments, so that joblib can run seeds side by side.
    """
    start_seed = np.random.SeedSequence(seed).spawn(1)[0].generate_state(1)[0]
    X_test, y_test = torch.from_numpy(X[split.test]), y[split.test]
    data = [(X[rows], y[rows]) for rows in split.participants]
    shared = {"sample_rate": sample_rate, "n_rounds": n_rounds, "every": every}
    for name, settings in arms.items():
        if unknown := sorted(set(settings) - set(shared) - set(ARM)):
            raise ValueError(f"arm {name!r} has no setting {', '.join(unknown)}")

    def arm(name: str) -> Arm:
        rng = torch.Generator().manual_seed(int(start_seed))
        start = arms[name].get("start", "random")
        model = mlp((X.shape[1], *hidden, 2), rng=rng, start=start, dtype=X_test.dtype)
        return Arm(model, arms[name]["upload"], arms[name]["lr"])

    def rounds(name: str) -> dict[str, Any]:
        return {key: arms[name].get(key, value) for key, value in shared.items()}

    def test_auc(model: nn.Sequential) -> float:
        with torch.no_grad():  # in blocks that stay in the cache
            logits = torch.cat([model(block) for block in X_test.split(2048)])
        return auc(y_test, (logits[:, 1] - logits[:, 0]).numpy())

    histories: dict[str, History] = {}
    for first in arms:
        alike = [name for name in arms if name not in histories and rounds(name) == rounds(first)]
        if alike:
            rng = np.random.default_rng(np.random.SeedSequence(seed).spawn(2)[1])
            group = [arm(name) for name in alike]
            done = train_together(group, data, rng=rng, evaluate=test_auc, **rounds(first))
            histories |= zip(alike, done)
    return {name: histories[name] for name in arms}


def _flattened(model: nn.Sequential) -> torch.Tensor:
    """The model's parameters as one vector, of which they are views from here on."""
    flat = nn.utils.parameters_to_vector(model.parameters()).detach()
    nn.utils.vector_to_parameters(flat, model.parameters())
    return flat


def _tensor(values) -> torch.Tensor:
    if isinstance(values, torch.Tensor):
        return values
    return torch.from_numpy(np.require(values, requirements=["C", "W"]))
