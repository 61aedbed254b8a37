"""Many starts of one network, trained side by side on the same batches, where most columns are
codes.

One-hot codes of a column of the file hold a single 1 a row. Their part of X theta is one line of
theta, looked up, and their part of X^T G is one line added, so a step costs what the numbers cost.
The weights of all starts lie side by side: one product does for all of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ppkit import evaluation
from ppkit.models import classification_loss
from ppkit.spnn.fixed_point import FRACTIONAL_BITS
from ppkit.spnn.rivals import NN, Blocks, SplitNN
from ppkit.spnn.training import Record, Schedule
from ppkit.validation import must_be, one_of

if TYPE_CHECKING:
    from collections.abc import Iterator

HELD = ("h1", "theta", "rest")


@dataclass(frozen=True, eq=False)
class Columns:
    """One holder's columns: numbers as they are, each group of one-hot codes as one place a row.

    width: how many columns.  at: (n,), which of them hold numbers.  numbers: (N, n).
    places: (N, groups) int64, the column that is 1.  The rows of X are the rows of both.
    """

    width: int
    at: Tensor = field(repr=False)
    numbers: Tensor = field(repr=False)
    places: Tensor = field(repr=False)

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, rows: Tensor) -> Columns:
        """Some rows."""
        numbers, places = (of.index_select(0, rows) for of in (self.numbers, self.places))
        return Columns(self.width, self.at, numbers, places)

    def times(self, theta: Tensor) -> Tensor:
        """X theta: (N, m), for theta (width, m)."""
        found = self.numbers @ theta.index_select(0, self.at)
        if self.places.shape[1]:
            found += nn.functional.embedding_bag(self.places, theta, mode="sum")
        return found

    def descend(self, theta: Tensor, slope: Tensor, *, lr: float) -> None:
        """theta - lr X^T slope, in place.  slope: (N, m)."""
        theta.index_add_(0, self.at, self.numbers.T @ slope, alpha=-lr)
        for places in self.places.T:
            theta.index_add_(0, places, slope, alpha=-lr)


def columns(part: Tensor, names: Sequence[str]) -> Columns:
    """The columns of one holder, found by their names: "x80 = 1" and "x80 = 2" code x80.

    part: (N, d).  names: of its columns, d of them.
    ValueError if there are others than d names, or if the codes of a column are not one 1 a row
    among zeros.

    >>> own = columns(torch.tensor([[0.5, 0, 1], [2, 1, 0]]), ["x1", "x80 = 1", "x80 = 2"])
    >>> own.at.tolist(), own.places.tolist()
    ([0], [[2], [1]])
    >>> own.times(torch.tensor([[1.0], [10], [100]])).tolist()
    [[100.5], [12.0]]
    """
    if part.ndim != 2 or part.shape[1] != len(names):
        raise ValueError(f"{len(names)} names for columns of the shape {tuple(part.shape)}")
    groups: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        if " = " in name:
            groups.setdefault(name.split(" = ")[0], []).append(i)
    places = []
    for name, codes in groups.items():
        block = part[:, codes]
        if (
            not torch.equal(block.sum(1), torch.ones(len(part)))
            or not ((block == 0) | (block == 1)).all()
        ):
            raise ValueError(f"the codes of {name} must be one 1 a row among zeros")
        places.append(torch.tensor(codes)[block.argmax(dim=1)])
    at = torch.tensor([i for i, name in enumerate(names) if " = " not in name], dtype=torch.int64)
    coded = torch.stack(places, dim=1) if places else torch.zeros((len(part), 0), dtype=torch.int64)
    return Columns(part.shape[1], at, part[:, at].contiguous(), coded)


def train(
    nets: Sequence[NN | SplitNN],
    parts: Sequence[Columns],
    y: Tensor,
    schedule: Schedule,
    *,
    lr: float,
    criterion: Callable[[Tensor, Tensor], Tensor] = classification_loss,
    rng: torch.Generator | None = None,
    test: tuple[Sequence[Columns], Tensor],
    every: int | None = None,
    held: Collection[str] = (),
) -> list[Record]:
    """Plain SGD of several nets at once, on the same batches: as `training.train` with
    torch.optim.SGD for each of them, up to float32's rounding.

    nets: of one kind and shape (`rivals.NN`, `SplitNN`, `PiecewiseNet`), in float32, with different
    starts; they are trained in place.  parts, test: `columns` of each holder.
    schedule, criterion, rng, every: as for `training.train`; every=None measures once an epoch.
    lr: of plain SGD, > 0.
    held: what is held to 16 fractional bits, of `HELD`. "h1": what each holder adds to h1, as the
    protocols reveal it. "theta": X and the holders' weights, from the start and after every step.
    "rest": so the weights and biases behind h1.
    Returns a Record a net, without looks, whose curve has `train_auc`, too: who has the labels sees
    by it that a training has failed.  ValueError for arguments out of range.
    """
    must_be("a finite number > 0", lr=lr)
    for one in held:
        one_of(HELD, held=one)
    if len({(type(net), net.holders) for net in nets}) != 1:
        raise ValueError(
            "the nets must be of one kind, with the same columns, at least one of them"
        )
    if schedule.order == "reshuffled" and rng is None:
        raise ValueError("order='reshuffled' needs rng, a torch.Generator")
    stack = _Stack(nets, lr=lr, held=held)
    parts, unseen = stack.taken(parts), stack.taken(test[0])
    n_steps = math.ceil(len(y) / schedule.batch)
    lines = [stack.measured((parts, y), (unseen, test[1]), criterion, 0, 0.0)]
    step, factor = 0, 1
    for _epoch in range(schedule.epochs):
        order = torch.arange(len(y))
        if schedule.order == "reshuffled":
            order = torch.randperm(len(y), generator=rng)
        for rows in order.split(schedule.batch):
            factor = len(rows) if schedule.loss == "sum" else 1
            stack.step([part[rows] for part in parts], y[rows], criterion, factor)
            step += 1
            if step % (every or n_steps) == 0 or step == schedule.epochs * n_steps:
                seen = (parts, y), (unseen, test[1])
                lines.append(stack.measured(*seen, criterion, step, step / n_steps))
    stack.unload(nets)
    return stack.records(lines, unseen)


class _Stack:
    """The weights of several nets side by side.

    theta: for each holder (columns, nets x its width).  h1 of all: (nets, N, width).
    """

    def __init__(self, nets: Sequence[NN | SplitNN], *, lr: float, held: Collection[str]):
        self.n, self.lr, self.held = len(nets), lr, held
        self.beside = isinstance(nets[0], SplitNN)
        self.theta = [torch.cat([one.detach() for one in of], 1) for of in zip(*_thetas(nets))]
        self.modules = [*nets[0].hidden, nets[0].output]
        self.weights = [
            (_stacked(layer.weight for layer in of), _stacked(layer.bias for layer in of)[:, None])
            for of in zip(*map(_linear, nets))
        ]
        self._hold()

    def taken(self, parts: Sequence[Columns]) -> list[Columns]:
        if "theta" not in self.held:
            return list(parts)
        return [Columns(p.width, p.at, rounded(p.numbers), p.places) for p in parts]

    def first(self, parts: Sequence[Columns]) -> Tensor:
        """h1 of all nets: (nets, N, width)."""
        own = [part.times(theta) for part, theta in zip(parts, self.theta)]
        if "h1" in self.held:
            own = [rounded(one) for one in own]
        own = [one.view(len(one), self.n, -1) for one in own]
        if self.beside:
            return torch.cat(own, dim=2).transpose(0, 1)
        for other in own[1:]:
            own[0] += other
        return own[0].transpose(0, 1)

    def behind(self, h1: Tensor) -> Tensor:
        """Logits (nets, N, 1)."""
        weights = iter(self.weights)
        for module in self.modules:
            if isinstance(module, nn.Linear):
                weight, bias = next(weights)
                if isinstance(module, Blocks):
                    weight = module.masked(weight)
                h1 = torch.baddbmm(bias, h1, weight.transpose(1, 2))
            else:
                h1 = module(h1)
        return h1

    def step(self, parts: Sequence[Columns], y: Tensor, criterion, factor: int) -> None:
        h1 = self.first(parts).requires_grad_()
        rest = list(itertools.chain(*self.weights))
        logits = self.behind(h1)
        loss = factor * sum(criterion(logits[i], y) for i in range(self.n))
        to_h1, *to_rest = torch.autograd.grad(loss, [h1, *rest])
        with torch.no_grad():
            for weight, slope in zip(rest, to_rest):
                weight.sub_(slope, alpha=self.lr)
            for part, theta, slope in zip(parts, self.theta, self._of_holders(to_h1)):
                part.descend(theta, slope, lr=self.lr)
        self._hold()

    def _of_holders(self, to_h1: Tensor) -> list[Tensor]:
        """The gradient of h1 as each holder gets it: (N, nets x its width)."""
        widths = [theta.shape[1] // self.n for theta in self.theta]
        by_row = to_h1.transpose(0, 1)  # (N, nets, width)
        own = by_row.split(widths, dim=2) if self.beside else [by_row] * len(widths)
        return [one.reshape(len(one), -1) for one in own]

    @torch.no_grad()
    def _hold(self) -> None:
        kept = list(self.theta) if "theta" in self.held else []
        if "rest" in self.held:
            kept += itertools.chain(*self.weights)
        for one in kept:
            one.copy_(rounded(one))

    @torch.no_grad()
    def logits(self, parts: Sequence[Columns]) -> Tensor:
        """(nets, N, 1)."""
        return self.behind(self.first(parts))

    def measured(self, train, test, criterion, step: int, epoch: float) -> list[dict[str, float]]:
        """A line a net, as in `training.Record.curve`."""
        seen, unseen = self.logits(train[0]), self.logits(test[0])
        lines = []
        for of_train, of_test in zip(seen, unseen):
            loss = float(criterion(of_train, train[1]))
            if not math.isfinite(loss):
                raise ValueError(f"the loss is {loss} after {step} steps: lower the learning rate")
            lines.append(
                {
                    "step": step,
                    "epoch": epoch,
                    "train_loss": loss,
                    "train_auc": evaluation.auc(train[1].numpy(), of_train[:, 0].numpy()),
                    "test_loss": float(criterion(of_test, test[1])),
                    "test_auc": evaluation.auc(test[1].numpy(), of_test[:, 0].numpy()),
                }
            )
        return lines

    def records(self, lines: list, unseen: Sequence[Columns]) -> list[Record]:
        import pandas as pd  # as in `training`

        logits = self.logits(unseen).squeeze(2).double().numpy()
        return [Record(pd.DataFrame(of), [], z) for of, z in zip(zip(*lines), logits)]

    @torch.no_grad()
    def unload(self, nets: Sequence[NN | SplitNN]) -> None:
        """Give each net its weights back."""
        own = [theta.chunk(self.n, dim=1) for theta in self.theta]
        for i, net in enumerate(nets):
            for mine, of in zip(net.theta, own):
                mine.copy_(of[i])
            for layer, (weight, bias) in zip(_linear(net), self.weights):
                layer.weight.copy_(weight[i])
                layer.bias.copy_(bias[i, 0])


def rounded(values: Tensor) -> Tensor:
    """The nearest numbers of 16 fractional bits.

    >>> float(rounded(torch.tensor(2.0**-16 * 1.4)) * 2**16)
    1.0
    """
    return torch.round(values * 2**FRACTIONAL_BITS) / 2**FRACTIONAL_BITS


def _thetas(nets: Sequence[NN | SplitNN]) -> Iterator[list[Tensor]]:
    return (list(net.theta) for net in nets)


def _linear(net: NN | SplitNN) -> list[nn.Linear]:
    return [layer for layer in (*net.hidden, net.output) if isinstance(layer, nn.Linear)]


def _stacked(values) -> Tensor:
    return torch.stack([one.detach() for one in values]).requires_grad_()
