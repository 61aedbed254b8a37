"""Three banks and a server: the federation of kanodia2020, sections 3 and 4,
and what it should be measured against.

The paper's rule adds the mean of the banks' *weights* to the global weights ("acts as a gradient").
For logistic regression that is a known multiple of the right answer: banks with rows of one
distribution, trained to their end, all come near one optimum (w, b), and so did the global bank, so
after iteration t the server holds (1 + t) (w, b), and its logit is z_t = (1 + t) z.  Then
    AUC, average precision   stay: they depend on the order of the z only
    accuracy                 stays: p > 1/2 is z > 0, and (1 + t) z > 0 is z > 0
    calibration slope        is divided by 1 + t (3 after two iterations)
    log-loss                 rises: c -> mean log(1 + exp(c z)) - y c z is convex,
                             and least at c = slope(z), near 1
Nets that start from different points may have their hidden neurons in different orders, and a mean
over neurons that do not correspond is another function.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import nn

from ppkit import evaluation, optimisers
from ppkit.federated import average
from ppkit.models import classification_loss, mlp, refuse_frozen
from ppkit.validation import binary, finite, must_be, one_of

PAPER_WEIGHTS = (0.55, 0.35, 0.10)  # section 4.2.3
BY_ROWS = (20, 15, 5)  # what "based on the amount of data" gives: .5, .375, .125
READINGS = ("iteration by iteration", "bank by bank")
RULES = ("add", "average")
_START, _SHARES = 10, (20, 15, 5)  # percent of the file; the last 10 are the test

Gradient = Callable[[nn.Module, torch.Tensor, torch.Tensor], torch.Tensor]


class Tree(NamedTuple):
    """Who holds which rows, as ascending index arrays, all disjoint.

    start: of the global bank.  iterations: for each iteration, one array a bank.  test: nobody's.
    """

    start: np.ndarray
    iterations: tuple[tuple[np.ndarray, ...], ...]
    test: np.ndarray


def split_tree(
    n_rows: int,
    *,
    reading: str = "iteration by iteration",
    sort_by: ArrayLike | None = None,
    first: int = 0,
) -> Tree:
    """The paper's tree in file order: global bank 10%, three banks 20, 15, 5% in each of two
    iterations, test 10%.

    Its Fig. 2 is missing; of its labels only "10% - 30%" is known, which is the first bank's part A
    in both readings:
        "iteration by iteration"   10-30, 30-45, 45-50 | 50-70, 70-85, 85-90
        "bank by bank"             10-30 | 30-50 of bank 1, 50-65 | 65-80 of bank 2,
                                   80-85 | 85-90 of bank 3
    n_rows: N, so many that every part holds a row (20 are enough).  sort_by: None, or (N,) finite
    numbers: the banks' 80% are put in this order (ties in file order) before they are cut, while
    global bank and test keep their rows.  The amount, or the hour of the day, makes banks that
    differ in kind; random numbers make banks alike. The file itself is in order of time, so file
    order is the split by time.
    first: the row at which the tree begins, 0 <= first < N; the file is taken as a ring, so that
    ten trees, a tenth of the file apart, have each row once in their tests.
    Returns a Tree whose parts cover all rows; each cut lies within one row of its percentage.
    ValueError if a part would be empty, the reading is unknown, or first is no row.
    Source: kanodia2020, section 4.1.2.

    >>> [len(rows) for rows in split_tree(1000).iterations[1]]
    [200, 150, 50]
    """
    one_of(READINGS, reading=reading)
    in_turn = reading == "iteration by iteration"
    shares = np.tile(_SHARES, 2) if in_turn else np.repeat(_SHARES, 2)
    cuts = n_rows * np.cumsum([_START, *shares]) // 100
    order = (np.arange(n_rows) + first) % max(n_rows, 1)
    if sort_by is not None:
        of_banks = order[cuts[0] : cuts[-1]]
        in_order = np.argsort(np.asarray(sort_by)[of_banks], kind="stable")
        order[cuts[0] : cuts[-1]] = of_banks[in_order]
    start, *parts, test = (np.sort(part) for part in np.split(order, cuts))
    if min(len(part) for part in (start, *parts, test)) == 0:
        raise ValueError(
            f"{n_rows} rows are too few for the tree: "
            f"its smallest parts are {min(_SHARES)}% of the rows"
        )
    if not 0 <= first < n_rows:
        raise ValueError(f"first must be one of the {n_rows} rows, counted from 0, got {first}")
    part_a, part_b = (parts[:3], parts[3:]) if in_turn else (parts[::2], parts[1::2])
    return Tree(start, (tuple(part_a), tuple(part_b)), test)


def one_server(tree: Tree) -> Tree:
    """One server with everything, the paper's comparison: all rows but the test are the global
    bank's, no iterations."""
    rows = [tree.start, *(part for parts in tree.iterations for part in parts)]
    return Tree(np.sort(np.concatenate(rows)), (), tree.test)


def logistic(n_features: int, rng: torch.Generator) -> nn.Sequential:
    """Logistic regression: one logit from n_features inputs, in float64."""
    return mlp((n_features, 1), rng=rng, dtype=torch.float64)


def network(n_features: int, rng: torch.Generator) -> nn.Sequential:
    """A small net with two logits, n_features-16-2 with ReLU, in float64."""
    return mlp((n_features, 16, 2), rng=rng, dtype=torch.float64)


@dataclass(frozen=True)
class Training:
    """How everyone trains: n_epochs passes over shuffled batches of batch_size, with an optimiser
    that starts anew.

    n_epochs, batch_size: >= 1.  optimizer: makes a torch optimiser from parameters.  gradient: None
    for the mean of the batch, or a function (model, X, y) -> flat (P,) in its place, such as a
    clipped or noised one (`gradients`, `dpsgd`).
    ValueError if a number is out of range.
    """

    n_epochs: int = 3
    batch_size: int = 128
    optimizer: Callable[..., torch.optim.Optimizer] = partial(optimisers.SGD, lr=0.5)
    gradient: Gradient | None = None

    def __post_init__(self) -> None:
        must_be("a whole number >= 1", n_epochs=self.n_epochs, batch_size=self.batch_size)


def fit(
    model: nn.Module, X: torch.Tensor, y: torch.Tensor, *, training: Training, rng: torch.Generator
) -> None:
    """Train a model in place on one holder's rows, without class weights.

    model: (N, F) to logits, (N, 1) with binary cross-entropy or (N, 2) with cross-entropy.
    X: (N, F), N >= 1, in the model's type.  y: (N,) int64 labels.  rng: shuffles, on the cpu.
    """
    if training.gradient is not None:
        refuse_frozen(model)
    parameters = list(model.parameters())
    optimizer = training.optimizer(parameters)
    for _ in range(training.n_epochs):
        for rows in torch.randperm(len(y), generator=rng).split(training.batch_size):
            X_batch, y_batch = X.index_select(0, rows), y.index_select(0, rows)
            optimizer.zero_grad()
            if training.gradient is None:
                classification_loss(model(X_batch), y_batch).backward()
            else:
                flat = training.gradient(model, X_batch, y_batch)
                for parameter, part in zip(parameters, flat.split([p.numel() for p in parameters])):
                    parameter.grad = part.view_as(parameter).clone()
            optimizer.step()


class Scores(NamedTuple):
    """A model on the test rows; see `ppkit.evaluation` for each. accuracy is at p > 1/2, as the
    paper has it."""

    auc: float
    average_precision: float
    accuracy: float
    log_loss: float
    slope: float


def scores(model: nn.Module, X: torch.Tensor, y: np.ndarray) -> Scores:
    """How well a model of one or two logits does on rows X (N, F) with labels y (N,)."""
    with torch.no_grad():
        logits = model(X)
    z = (logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]).numpy()
    return Scores(
        evaluation.auc(y, z),
        evaluation.average_precision(y, z),
        float(np.mean((z > 0) == y)),
        evaluation.log_loss(y, z),
        evaluation.calibration_slope(y, z),
    )


@dataclass(frozen=True)
class History:
    """What a federation left behind; entry 0 of the first two is the global bank's own model, entry
    t after iteration t.

    parameters: the server's flat vectors (P,).  scores: on the test rows.  uploads[t - 1][k]: the
    vector that bank k sent in iteration t: all that a curious server needs.  bank_scores[t - 1][k]:
    of that bank's model, used alone; empty if the banks were not to be judged.
    """

    parameters: tuple[torch.Tensor, ...]
    scores: tuple[Scores, ...]
    uploads: tuple[tuple[torch.Tensor, ...], ...]
    bank_scores: tuple[tuple[Scores, ...], ...]


@dataclass(frozen=True)
class Aggregation:
    """The server's step of one iteration, and where the banks go on from.

    rule: "add"       current + mean_k trained_k   the paper, section 4.2.3
          "average"   mean_k trained_k             FedAvg
    weights: one a bank; mean_k is `federated.average` with them.
    send_back: False (section 4) lets every bank start from weights of its own and train on from its
    own; True (section 3.2) sets all banks to the global weights before each iteration,
    the first included.
    Called with flat vectors (P,), the global weights and each bank's after its training, it returns
    the new global weights.  ValueError for another rule, and as in `average`.
    """

    rule: str = "add"
    weights: Sequence[float] = PAPER_WEIGHTS
    send_back: bool = False

    def __post_init__(self) -> None:
        one_of(RULES, rule=self.rule)

    def __call__(self, current: torch.Tensor, trained: Sequence[torch.Tensor]) -> torch.Tensor:
        mean = average(trained, self.weights)
        return mean if self.rule == "average" else current + mean


def run(
    X: np.ndarray,
    y: np.ndarray,
    tree: Tree,
    *,
    aggregation: Aggregation = Aggregation(),
    model: Callable[[int, torch.Generator], nn.Module] = logistic,
    training: Training = Training(),
    judge_banks: bool = True,
    seed: int = 0,
) -> History:
    """One federation from the first model to the last: everyone trains, the server aggregates, the
    test rows judge.

    X: (N, F) finite features; scaled by the statistics of tree.start, the only rows that the server
    has (`datasets.standardise(data, tree.start)`; leave Time out, since in file order every bank's
    clock lies outside the others').  y: (N,) labels in {0, 1}.  tree: who holds what; with a single
    bank every rule works, with no iterations the global bank is all there is.
    aggregation: the server's.
    model: called with F and a generator.  training: everyone's.  judge_banks: whether each bank's
    model is scored, too.  seed: each holder has generators of its own under it, so that arms of one
    seed share the global bank's model, and the banks' starts and shuffles.
    Returns a History.  ValueError for NaN, also of a training that diverges, labels outside {0, 1}
    and weights that do not fit.
    Source: kanodia2020, sections 3.2 and 4.  Departures: optimiser and sizes are not in the paper.
    """
    finite(X=X)
    binary(labels=y)
    n_banks = len(tree.iterations[0]) if tree.iterations else 0
    shuffles, starts = zip(*(_generators(seed, holder) for holder in range(n_banks + 1)))
    server, *banks = (model(X.shape[1], rng) for rng in starts)
    dtype = next(server.parameters()).dtype

    def held(rows: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """A holder's rows and labels."""
        return torch.from_numpy(X[rows]).to(dtype), torch.from_numpy(y[rows].astype(np.int64))

    judged = partial(scores, X=held(tree.test)[0], y=y[tree.test])
    fit(server, *held(tree.start), training=training, rng=shuffles[0])
    parameters, server_scores = [_flat(server)], [judged(server)]
    uploads, bank_scores = [], []
    for parts in tree.iterations:
        for bank, rows, rng in zip(banks, parts, shuffles[1:], strict=True):
            if aggregation.send_back:
                nn.utils.vector_to_parameters(parameters[-1].clone(), bank.parameters())
            fit(bank, *held(rows), training=training, rng=rng)
        uploads.append(tuple(_flat(bank) for bank in banks))
        parameters.append(aggregation(parameters[-1], uploads[-1]))
        nn.utils.vector_to_parameters(parameters[-1].clone(), server.parameters())
        server_scores.append(judged(server))
        if judge_banks:
            bank_scores.append(tuple(judged(bank) for bank in banks))
    return History(tuple(parameters), tuple(server_scores), tuple(uploads), tuple(bank_scores))


def _generators(seed: int, holder: int) -> list[torch.Generator]:
    """Two generators of one holder (0 is the global bank): for the shuffles and for the start."""
    return [
        torch.Generator().manual_seed(int(state))
        for state in np.random.SeedSequence([seed, holder]).generate_state(2)
    ]


def _flat(model: nn.Module) -> torch.Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach().clone()
