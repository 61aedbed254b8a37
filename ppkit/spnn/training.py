"""Training as zhou2021 does it: SGD and SGLD by equations 1 and 2,
and one loop for every net of this paper.

With L the loss summed over a batch B of |B| records and l = L / |B| its mean,

    (1)  theta <- theta - alpha / |B| dL/dtheta
                = theta - alpha dl/dtheta
    (2)  theta <- theta - (alpha / 2 dL/dtheta + eta),  eta ~ N(0, alpha I)
                = theta - alpha |B| / 2 dl/dtheta - eta

so equation 1 is torch.optim.SGD on the mean loss, `train(..., loss="mean")`, and equation 2 is
`SGLD` on the summed one, `train(..., loss="sum")`. At equal alpha the second takes |B| / 2 times
longer steps: `equal_drift_lr` undoes that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ppkit import evaluation, optimisers
from ppkit.models import classification_loss
from ppkit.spnn.randomness import Stream
from ppkit.validation import finite, must_be, one_of

if TYPE_CHECKING:
    import pandas as pd

LOSSES = ("mean", "sum")
ORDERS = ("fixed", "reshuffled")


class SGLD(optimisers.Optimizer):
    """Stochastic gradient Langevin dynamics: half a step of gradient descent, and Gaussian noise.

    theta <- theta - (lr / 2 grad + eta),    eta ~ N(0, temperature lr I)

    params: as for any torch optimiser; .grad is that of the summed loss in equation 2, and of the
    mean loss in the other reading: whoever calls backward decides.
    lr: alpha > 0; a schedule may change it in param_groups.
    rng: of the noise: a Stream, as the roles of a run have it, each for its own part; or a
    torch.Generator on the parameters' device, whose few bits of state can be guessed: for studies
    in one process. A Stream draws in float64, and the product with the scale is rounded once.
    temperature: >= 0; 1 is equation 2, and 0 leaves the drift alone: torch.optim.SGD at lr / 2.
    ValueError for a setting out of range.  Guarantee: none; the paper states no epsilon, and there
    is none without clipping.
    Source: zhou2021, equation 2; Welling and Teh 2011, who scale the gradient of a batch by
    N / |B|, which equation 2 does not, so that it samples from no posterior of all N records.

    >>> theta = torch.nn.Parameter(torch.tensor([4.0, 2.0]))
    >>> theta.grad = torch.tensor([1.0, -1.0])
    >>> SGLD([theta], lr=0.5, temperature=0.0, rng=torch.Generator()).step()
    >>> theta.tolist()
    [3.75, 2.25]
    """

    def __init__(
        self, params, *, lr: float, rng: torch.Generator | Stream, temperature: float = 1.0
    ):
        must_be("a finite number > 0", lr=lr)
        must_be("a finite number >= 0", temperature=temperature)
        super().__init__(params, {"lr": lr, "temperature": temperature})
        self._rng = rng

    @torch.no_grad()
    def step(self):
        """One step of every parameter that has a gradient."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.add_(p.grad, alpha=-group["lr"] / 2)
                    scale = math.sqrt(group["temperature"] * group["lr"])
                    if isinstance(self._rng, Stream):
                        p.sub_(scale * self._rng.normals(tuple(p.shape)))
                    else:
                        p.sub_(torch.empty_like(p).normal_(generator=self._rng), alpha=scale)


def equal_drift_lr(lr: float, *, batch: int) -> float:
    """SGLD's alpha at which its drift on the summed loss equals that of equation 1 with learning
    rate lr.

    alpha |B| / 2 = lr, so alpha = 2 lr / |B|, and the noise of a step has deviation
    sqrt(2 lr / |B|)

    Drifts are equal for full batches only: the last batch of an epoch, of
    b < |B| records, drifts b / |B| as far as under equation 1 (227,845 rows at |B| = 5,000 leave
    b = 2,845, or 57%).
    lr: > 0.  batch: |B| >= 1.  Returns alpha > 0.  ValueError if an argument is out of range.

    >>> equal_drift_lr(0.5, batch=5_000)
    0.0002
    """
    must_be("a finite number > 0", lr=lr)
    must_be("a whole number >= 1", batch=batch)
    return 2 * lr / batch


@dataclass(frozen=True)
class Schedule:
    """Which records each step of a training takes, and how a batch's loss counts.

    epochs: >= 1.  batch: records a step, >= 1; the last batch of an epoch takes the rest.  loss:
    "mean" or "sum" of a batch, on which backward is called.  order: "fixed", batches of consecutive
    rows as in the paper's Fig. 4, or "reshuffled" every epoch.
    ValueError for a setting out of range.
    """

    epochs: int
    batch: int
    loss: str = "mean"
    order: str = "fixed"

    def __post_init__(self):
        one_of(LOSSES, loss=self.loss)
        one_of(ORDERS, order=self.order)
        must_be("a whole number >= 1", epochs=self.epochs, batch=self.batch)


class Net(Protocol):
    """What can be trained here: `rivals.NN`, `rivals.SplitNN`, `rivals.PiecewiseNet`, `layer.SPNN`.

    h1, h_last: what the server and the label holder got in the last call, with their gradients.
    """

    @property
    def h1(self) -> Tensor: ...

    @property
    def h_last(self) -> Tensor: ...

    def prepare(self, parts: Sequence[Tensor], /) -> None:
        """Give each holder its columns of the training rows."""

    def __call__(self, rows: Tensor, /) -> Tensor:
        """Logits of some of these rows."""

    def logits(self, parts: Sequence[Tensor], /) -> Tensor:
        """Logits of any rows, without a gradient."""

    def train(self) -> object: ...

    def eval(self) -> object: ...


@dataclass(frozen=True, eq=False)
class Look:
    """What one step of training showed the server and the holders.

    step, epoch: from 0.  rows: (n,), which training rows were in the batch (the server knows it
    only if it can link records).
    h1: (n, width), which the server gets, before the activation; h1_grad: its gradient, which it
    sends to every holder.
    h_last: (n, last width), which the label holder gets; h_last_grad: its gradient, which it sends
    to the server.
    Gradients are those of the loss that was trained on: of the mean loss they are 1/|B| of the
    summed one's.
    """

    step: int
    epoch: int
    rows: Tensor = field(repr=False)
    h1: Tensor = field(repr=False)
    h1_grad: Tensor = field(repr=False)
    h_last: Tensor = field(repr=False)
    h_last_grad: Tensor = field(repr=False)


@dataclass(frozen=True, eq=False)
class Record:
    """What a training left behind.

    curve: one row a measurement: step, epoch (a fraction if measured inside one), train_loss (mean
    over all training rows) and, with test rows, test_loss and test_auc, of several classes
    test_accuracy; the first row is before any step.  looks: as asked for.
    test_logits: (N,) float64 at the end, (N, classes) of several, or None without test rows.
    """

    curve: pd.DataFrame = field(repr=False)
    looks: list[Look] = field(repr=False)
    test_logits: np.ndarray | None = field(repr=False)

    @property
    def auc(self) -> float:
        """AUC on the test rows at the end.  ValueError without test rows or for several classes."""
        if "test_auc" not in self.curve:
            raise ValueError("there is no AUC: train was given no test rows, or several classes")
        return float(self.curve["test_auc"].iloc[-1])


def train(
    net: Net,
    parts: Sequence[Tensor],
    y: Tensor,
    schedule: Schedule,
    *,
    optimiser: torch.optim.Optimizer,
    criterion: Callable[[Tensor, Tensor], Tensor] = classification_loss,
    rng: torch.Generator | None = None,
    test: tuple[Sequence[Tensor], Tensor] | None = None,
    every: int | None = None,
    look_at: Collection[int] = (),
    kept: Callable[[Look], Look] | None = None,
) -> Record:
    """Train a net for some epochs; the same loop for every `Net`.

    parts: one (N, columns) tensor a holder, finite.  y: (N,) in {0, 1}, or {0, ..., K - 1} for a
    net with K logits, or floating-point numbers that stand for such labels: chances in [0, 1], or
    two values that add up to 1 (`label_defences.randomised`), and for K logits (N, K) shares of the
    classes.
    optimiser: made on net.parameters(), any of torch's.
    criterion: the mean loss of (logits, y), default cross-entropy; `PiecewiseNet.loss` for
    SecureML, in whose units the losses of the record then are.  rng: torch.Generator that
    reshuffles the rows, for that order only.
    test: (parts, y) to measure on.  every: steps between measurements, default one epoch; the first
    and the last step are always measured, in plaintext by whoever has all columns: no party sees
    this.
    look_at: numbers of steps, from 0, of which the record keeps what the parties saw.  kept: what
    it keeps of a look, default all of it; whoever leaves out what no attack reads saves memory.
    Returns a Record; net is trained in place.  ValueError for arguments out of range, and if the
    loss stops being finite.
    """
    import pandas as pd  # here: a role, which takes `SGLD` alone, starts sooner without it

    y = _labels(y)
    if schedule.order == "reshuffled" and rng is None:
        raise ValueError("order='reshuffled' needs rng, a torch.Generator")
    _check_rows(parts, y)
    if test is not None:
        test = test[0], _labels(test[1])
        _check_rows(*test)
    net.eval()
    first_row = [part[:1] for part in parts]
    n_outputs = net.logits(first_row).shape[1]  # once: a defence may draw noise in it
    _check_labels(y, n_outputs)
    if test is not None:
        _check_labels(test[1], n_outputs)
    net.prepare(parts)
    n_steps = math.ceil(len(y) / schedule.batch)
    looks: list[Look] = []
    lines = [_measured(net, parts, y, test, criterion, 0, 0.0)]
    step = 0
    for epoch in range(schedule.epochs):
        order = torch.arange(len(y))
        if schedule.order == "reshuffled":
            order = torch.randperm(len(y), generator=rng)
        for rows in order.split(schedule.batch):
            net.train()
            optimiser.zero_grad()
            loss = criterion(net(rows), y[rows])
            if schedule.loss == "sum":
                loss = loss * len(rows)
            loss.backward()
            if step in look_at:
                look = _look(net, step, epoch, rows)
                looks.append(kept(look) if kept else look)
            optimiser.step()
            step += 1
            if step % (every or n_steps) == 0 or step == schedule.epochs * n_steps:
                lines.append(_measured(net, parts, y, test, criterion, step, step / n_steps))
    logits = None if test is None else net.logits(test[0]).squeeze(1).double().numpy()
    return Record(pd.DataFrame(lines), looks, logits)


def _check_rows(parts: Sequence[Tensor], y: Tensor) -> None:
    """ValueError for features that a training cannot take."""
    for i, part in enumerate(parts):
        if not isinstance(part, Tensor) or part.ndim != 2:
            raise ValueError(
                f"the features of holder {i} must be a tensor (N, columns), got "
                f"{type(part).__name__} of shape {np.shape(part)}: torch.from_numpy makes one"
            )
    n_rows = [len(part) for part in parts]
    if set(n_rows) != {len(y)}:
        raise ValueError(f"parts and y must have the same rows, got {n_rows} for {len(y)} labels")
    finite(**{f"the features of holder {i}": part for i, part in enumerate(parts)})


def _labels(y: Any) -> Tensor:
    """Labels as a tensor, of an array or a column of pandas; ValueError for what is no number."""
    if isinstance(y, Tensor):
        return y
    # a copy: pandas does not let its own be written to, which torch warns of
    array = np.array(y)
    if array.dtype.kind not in "biuf":
        raise ValueError(
            f"labels must be numbers from 0, got {array.dtype}: pandas.factorize numbers classes"
        )
    return torch.from_numpy(array if array.dtype.kind == "f" else array.astype(np.int64))


def _check_labels(y: Tensor, n_outputs: int) -> None:
    """ValueError for labels that a training cannot take."""
    n_classes, is_float = max(2, n_outputs), y.is_floating_point()
    shape = (len(y), n_outputs) if is_float and n_outputs > 1 else (len(y),)
    if tuple(y.shape) != shape:
        what = "labels in floating point" if is_float else "labels"
        raise ValueError(
            f"{what} of a net with {n_outputs} logits must have shape {shape}, got {tuple(y.shape)}"
        )
    wrong = ~torch.isfinite(y) if is_float else (y < 0) | (y >= n_classes)
    if is_float and not wrong.any() and not _are_randomised(y):
        wrong = (y < 0) | (y > 1)
    if wrong.any():
        raise ValueError(
            f"labels must be 0 to {n_classes - 1} (chances in [0, 1], or two values that add up to "
            f"1, if they stand for such), got {y[wrong][0].item()}: number them from 0, with an "
            "output of the net for each class"
        )


def _are_randomised(y: Tensor) -> bool:
    """Whether these are the two values of `label_defences.randomised`, -q / (1 - 2q) and
    (1 - q) / (1 - 2q), which add up to 1."""
    values = y.unique()
    return len(values) == 2 and math.isclose(float(values.sum()), 1.0, abs_tol=1e-5)


def _look(net: Net, step: int, epoch: int, rows: Tensor) -> Look:
    h1_grad, h_last_grad = net.h1.grad, net.h_last.grad
    if h1_grad is None or h_last_grad is None:
        raise ValueError("a net that is looked at keeps the gradients of h1 and h_last")
    h1, h_last = net.h1.detach(), net.h_last.detach()
    return Look(step, epoch, rows, h1, h1_grad, h_last, h_last_grad)


def _measured(
    net: Net,
    parts: Sequence[Tensor],
    y: Tensor,
    test: tuple[Sequence[Tensor], Tensor] | None,
    criterion: Callable[[Tensor, Tensor], Tensor],
    step: int,
    epoch: float,
) -> dict[str, float]:
    net.eval()  # dropout and the like stay out of it, and running means as they are
    loss = float(criterion(net.logits(parts), y))
    line = {"step": step, "epoch": epoch, "train_loss": loss}
    if not math.isfinite(loss):
        raise ValueError(f"the loss is {loss} after {step} steps: lower the learning rate")
    if test is not None:
        logits = net.logits(test[0])
        line["test_loss"] = float(criterion(logits, test[1]))
        if logits.shape[1] > 1:
            line["test_accuracy"] = float((logits.argmax(1) == test[1]).double().mean())
        else:
            line["test_auc"] = evaluation.auc(test[1].numpy(), logits[:, 0].numpy())
    return line
