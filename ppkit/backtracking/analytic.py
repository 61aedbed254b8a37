"""One record from its gradient: what a first layer with a bias gives away, exactly.

For z = W x + b and one record, dL/dW = delta x^T and dL/db = delta: every neuron j with
delta_j != 0 holds the whole row, x = dW_j / db_j. What the layers behind it are does not matter.
Batches are in `batches`, noise is in `noise`.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from ppkit.models import classification_loss
from ppkit.refusals import finite, must_be

_MIRROR = 1e-6  # two neurons closer than this to each other's negative count as one
_EXACT = 1e-6  # a residual share above this is no rounding
_DROPOUT = nn.modules.dropout._DropoutNd  # all kinds of nn.Dropout


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """What an attacker got, how sure he can be, and in words what stands in the way.

    row: (F,) float64, or None where nothing can be recovered.  confidence: in [0, 1], or None where
    nothing can be checked.  why: "" where every neuron tells the same row, else one sentence.
    n_neurons: neurons that were used.
    """

    row: np.ndarray | None
    confidence: float | None
    why: str
    n_neurons: int


def shared_gradient(model: nn.Module, X: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The gradient of the mean loss that a participant shares, one tensor per parameter of the
    model, in its order.

    model: a torch module whose first two parameters are the weight and the bias of its first layer,
    a Linear one, and whose output is one line of logits a record.  X: (N, F), N >= 1, finite, in
    the model's dtype.  y: (N,) integer classes, from 0; of a single logit 0 and 1.
    The first two are dW (H, F) and db (H,).
    ValueError for an empty batch, features that are not finite or of another shape or dtype, labels
    that are not integers or no classes of the model, batch normalisation in training with a single
    record, a model whose first two parameters are others; as in `first_layer`.

    >>> dW, db = shared_gradient(
    ...     nn.Linear(3, 1), torch.tensor([[1.0, 2.0, 4.0]]), torch.tensor([1])
    ... )
    >>> (dW / db).tolist()  # powers of 2: not even rounding is lost
    [[1.0, 2.0, 4.0]]
    """
    if len(X) == 0:
        raise ValueError("the batch is empty: X has 0 records")
    finite(X=X)
    if y.is_floating_point():
        raise ValueError(f"y must be integer class labels, got a tensor of {y.dtype}")
    named, first = dict(model.named_parameters()), first_layer(model)
    if [*map(id, named.values())][:2] != [id(first.weight), id(first.bias)]:
        raise ValueError(
            "the attack needs a model whose first two parameters are the weight and the bias of "
            f"its first layer, got {' and '.join([*named][:2])}"
        )
    _check_rows(X, first)
    layer = training_layer(model)
    if len(X) == 1 and layer.startswith("BatchNorm"):
        raise ValueError(f"{layer} is in training and a single record has no variance: call eval()")
    logits = model(X)
    _check_logits(logits, y, len(X))
    return torch.autograd.grad(
        classification_loss(logits, y), list(model.parameters()), materialize_grads=True
    )


def _check_rows(X: torch.Tensor, first: nn.Linear) -> None:
    if X.dtype != first.weight.dtype:
        raise ValueError(f"X must be of the model's {first.weight.dtype}, got {X.dtype}")
    if X.flatten(1).shape[1] != first.in_features:
        raise ValueError(
            f"X must have the {first.in_features} features of the model's first layer, "
            f"got {tuple(X.shape)}"
        )


def _check_logits(logits, y: torch.Tensor, n_records: int) -> None:
    if not isinstance(logits, torch.Tensor) or logits.ndim != 2 or len(logits) != n_records:
        raise ValueError(
            f"the model must return logits ({n_records}, n_classes), got "
            f"{tuple(getattr(logits, 'shape', [type(logits).__name__]))}"
        )
    n_classes = max(2, logits.shape[1])
    if y.shape != (n_records,) or int(y.min()) < 0 or int(y.max()) >= n_classes:
        raise ValueError(
            f"y must be {n_records} classes from 0 to {n_classes - 1}, "
            f"got shape {tuple(y.shape)} with values {int(y.min())} to {int(y.max())}"
        )


def flat(model: nn.Module) -> list[nn.Module]:
    """The layers of nested nn.Sequential and of wrappers around one module, in order, without those
    that change nothing: nn.Flatten, nn.Identity, and nn.Dropout in evaluation.

    >>> flat(nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(3, 2), nn.Dropout().eval())))
    [Linear(in_features=3, out_features=2, bias=True)]
    """
    children = list(model.children())
    if isinstance(model, nn.Sequential) or len(children) == 1:
        return [layer for child in children for layer in flat(child)]
    return [] if _changes_nothing(model) else [model]


def training_layer(model: nn.Module) -> str:
    """The kind of the first layer whose output for a record depends on chance or on the other
    records, as Dropout's and BatchNorm's does in training; "" if there is none."""
    for layer in model.modules():
        random = isinstance(layer, _DROPOUT) and layer.p > 0 or isinstance(layer, nn.RReLU)
        batch = isinstance(layer, nn.modules.batchnorm._BatchNorm)
        if layer.training and (random or batch):
            return type(layer).__name__
    return ""


def _changes_nothing(layer: nn.Module) -> bool:
    off = isinstance(layer, _DROPOUT) and not (layer.training and layer.p > 0)
    empty = isinstance(layer, nn.Sequential) and len(layer) == 0
    return off or empty or isinstance(layer, nn.Flatten | nn.Identity)


def first_layer(model: nn.Module) -> nn.Linear:
    """The Linear layer that sees the row itself.

    model: its first module without children must be nn.Linear; nn.Flatten, nn.Identity and
    nn.Dropout in evaluation may stand before it.
    ValueError that names the first layer found, if it is another one, or has no weights yet.

    >>> first_layer(nn.Sequential(nn.Linear(30, 8), nn.ReLU(), nn.Linear(8, 2)))
    Linear(in_features=30, out_features=8, bias=True)
    """
    leaves = [module for module in model.modules() if not list(module.children())]
    first = next((leaf for leaf in leaves if not _changes_nothing(leaf)), "no layer")
    if isinstance(first, _DROPOUT):
        raise ValueError(
            f"the attack needs a model whose first layer is Linear, got {first} in training first: "
            "call eval()"
        )
    if not isinstance(first, nn.Linear):
        raise ValueError(f"the attack needs a model whose first layer is Linear, got {first} first")
    if nn.parameter.is_lazy(first.weight):
        raise ValueError(f"the model's first layer has no weights yet: run it once, got {first}")
    return first


def reconstruct(weight_grad, bias_grad) -> Reconstruction:
    """The input row behind the first layer's gradient on one record, every neuron weighted by its
    reliability.

    row = sum_j db_j dW_j / sum_j db_j^2

    It minimises sum_j |dW_j - db_j a|^2 over a (derivative: -2 sum_j db_j (dW_j - db_j a) = 0), so
    it is the mean of the neurons' own answers dW_j / db_j with weights db_j^2. Equal noise on dW
    alone makes these the best weights; noise on db too pulls them towards 0.
    confidence = 1 - (what is left of that sum) / sum_j |dW_j|^2: the share of the weight gradient
    that one row explains.
    1 is necessary for a single record, not sufficient: records of one activation pattern and one
    output also give 1, an affine combination of them. None if one neuron only has a gradient, or
    two that mirror each other (softmax over two classes, no hidden layer): any batch would look the
    same; and if every entry is -1, 0 or 1 and most neurons' db_j are of one size: clipping by
    element and Adam make any row look so.  A one-hot row's db_j differ in size.

    weight_grad: dW (H, F), tensor or array.  bias_grad: db (H,), or None for a layer without bias.
    Returns a Reconstruction; its row is None if the layer has no bias (dW = delta x^T still shows
    the row up to a factor), if db is 0 everywhere, too small for its digits, or so small beside dW
    that the row is no finite number.
    ValueError if shapes do not match or a value is NaN or infinite.
    Source: kanodia2020, section 5.2: a[0]^T = dw[1] / db[1]; there for one neuron.

    >>> reconstruct([[2.0, 4.0], [-3.0, -6.0]], [2.0, -3.0])
    Reconstruction(row=array([1., 2.]), confidence=1.0, why='', n_neurons=2)
    >>> reconstruct([[0.0, 0.0]], [0.0]).why  # doctest: +NORMALIZE_WHITESPACE
    'the gradient is 0: no neuron is active for this record (a dead layer), or its loss is flat
    there'
    """
    dW, db, floor = _checked(weight_grad, bias_grad)
    if db is None:
        return _nothing("the layer has no bias: its gradient shows the row only up to a factor")
    largest = float(np.abs(db).max())
    if largest == 0 and not dW.any():
        return _nothing(
            "the gradient is 0: no neuron is active for this record (a dead layer), "
            "or its loss is flat there"
        )
    if largest == 0:
        return _nothing(
            "the bias gradient is 0 but the weight gradient is not: no single record gives that"
        )
    if largest < floor:
        return _nothing(
            f"the largest bias gradient is {largest:.1e}: "
            "too small for floating point to keep its digits"
        )
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        dW, db = dW / largest, db / largest
        row, confidence = _least_squares(dW, db) if np.isfinite(dW).all() else (dW[0], 0.0)
    if not np.isfinite(row).all():
        return _nothing(
            "the bias gradient is too small beside the weight gradient: "
            "the row would not be a finite number"
        )
    heard = np.flatnonzero((db != 0) | dW.any(axis=1))
    alone = len(heard) == 1 or (len(heard) == 2 and _mirrored(dW[heard], db[heard]))
    if _signs(row) and alone:
        return Reconstruction(
            row,
            None,
            "all entries of the gradient are of one size: either the row has no entry but -1, 0 "
            "and 1, or after clipping by element or a step of Adam only its signs are known",
            int((db != 0).sum()),
        )
    if _signs(row) and np.median(np.abs(db[db != 0])) > 1 - 1e-3:
        return Reconstruction(
            row,
            None,
            "every entry is -1, 0 or 1: after clipping by element or a step of Adam any row "
            "looks so, and only its signs are known",
            int((db != 0).sum()),
        )
    if len(heard) == 1:
        return Reconstruction(
            row,
            None,
            "one neuron only has a gradient: there is no second one to check the row by",
            1,
        )
    if alone:
        return Reconstruction(
            row,
            None,
            "two neurons mirror each other, as two-class softmax does for any batch: they "
            "count as one, and there is no second one to check the row by",
            2,
        )
    why = (
        "no single row explains all neurons: several records, noise, or clipping by element"
        if confidence < 1 - _EXACT
        else ""
    )
    return Reconstruction(row, confidence, why, int((db != 0).sum()))


def from_snapshots(before, after, *, decayed: bool = False) -> Reconstruction:
    """The row behind two snapshots of weights,
    after any number of SGD or momentum steps on this one record.

    W_after - W_before = -(sum_t lr_t delta_t) x^T, and the same factor without x for the bias:
    `reconstruct` takes the difference for the gradient. Learning rate, momentum and number of steps
    need not be known.
    decayed: with weight decay (torch's SGD, momentum too) W_after = c W_before + u x^T with one
    unknown c for all; then c is the eigenvalue of [W b]_after [W b]_before^+ that all but one
    neuron share, and it is taken out first.

    before, after: a model, or its first layer's pair W (H, F), b (H,).
    decayed needs H >= 3 and F >= 2.
    Returns a Reconstruction; after Adam's first step it has signs only, no confidence,
    and `why` says so.
    ValueError if shapes do not match, a value is not finite, or c cannot be told apart; as in
    `first_layer` for a model.
    Departs from the paper: there the aggregator has gradients;
    here it has only what the banks send, weights.
    """
    (W0, b0), (W1, b1) = _pair(before), _pair(after)
    if W0.shape != W1.shape or (b0 is None) != (b1 is None):
        raise ValueError(
            f"the snapshots must be of the same layer, got weights {W0.shape} and {W1.shape}"
        )
    factor = _decay(W0, b0, W1, b1) if decayed else 1.0
    return reconstruct(W1 - factor * W0, None if b0 is None else b1 - factor * b0)


def from_adam_step(before, after, *, lr: float, eps: float = 1e-8) -> Reconstruction:
    """The row behind the first step of Adam, whose step is almost the sign of the gradient,
    but not quite.

    step = lr g / (|g| + eps), so |g| = eps |step| / (lr - |step|) and the sign of g is the step's.

    before, after: as in `from_snapshots`.  lr: > 0, known.  eps: > 0, Adam's own.
    Returns a Reconstruction. The step is a difference of weights, so it carries their rounding,
    about |W| * 1e-16 in float64: the digits of lr - |step| suffice while
    |g| << eps * lr / (|W| * 1e-16).  In float32 (1e-7) lr - |step| is rounding, confidence says so,
    and signs are all there is.
    ValueError as in `from_snapshots`, for lr or eps out of range, or for a step longer than lr.
    """
    must_be("> 0", lr=lr, eps=eps)
    (W0, b0), (W1, b1) = _pair(before), _pair(after)
    if W0.shape != W1.shape or b0 is None or b1 is None:
        raise ValueError(
            "the snapshots must be of the same layer with a bias, "
            f"got weights {W0.shape} and {W1.shape}"
        )
    steps = [(old - new) / lr for old, new in ((W0, W1), (b0, b1))]
    longest = max(float(np.abs(step).max()) for step in steps)
    if longest > 1.01:
        raise ValueError(f"a first step of Adam is at most lr = {lr:g} long, got {longest * lr:g}")
    return reconstruct(
        *(eps * step / np.maximum(1 - np.abs(step), np.finfo(float).eps) for step in steps)
    )


def _least_squares(dW: np.ndarray, db: np.ndarray) -> tuple[np.ndarray, float]:
    row = db @ dW / (db @ db)
    total, left = float((dW**2).sum()), float(((dW - np.outer(db, row)) ** 2).sum())
    return row, 1 - left / total if total else 1.0


def _nothing(why: str) -> Reconstruction:
    return Reconstruction(None, None, why, 0)


def _signs(row: np.ndarray) -> bool:
    return bool(row.any()) and float(np.abs(np.abs(row) - (row != 0)).max()) < 1e-3


def _mirrored(dW: np.ndarray, db: np.ndarray) -> bool:
    both = np.c_[dW, db]
    return float(np.abs(both.sum(axis=0)).max()) <= _MIRROR * float(np.abs(both).max())


def _decay(W0, b0, W1, b1) -> float:
    """The c for which [W1 b1] - c [W0 b0] has rank one."""
    old, new = (W if b is None else np.c_[W, b] for W, b in ((W0, b0), (W1, b1)))
    if min(old.shape) < 3:
        raise ValueError(
            "weight decay is told apart from 3 neurons and 2 features on, "
            f"got {W0.shape[0]} and {W0.shape[1]}"
        )
    inverse = np.linalg.pinv(old)
    return float(
        np.median(
            np.linalg.eigvals(new @ inverse if len(old) <= old.shape[1] else inverse @ new).real
        )
    )


def _pair(snapshot) -> tuple[np.ndarray, np.ndarray | None]:
    if isinstance(snapshot, nn.Module):
        layer = first_layer(snapshot)
        snapshot = (layer.weight, layer.bias)
    W, b, _ = _checked(*snapshot, names=("weight", "bias"))
    return W, b


def _checked(
    weight, bias, names=("weight_grad", "bias_grad")
) -> tuple[np.ndarray, np.ndarray | None, float]:
    """Both as finite float64 (H, F) and (H,), and the size below which their own type keeps no
    digits."""
    weight, bias = (
        v.detach().cpu().numpy() if isinstance(v, torch.Tensor) else v for v in (weight, bias)
    )
    weight, bias = np.asarray(weight), None if bias is None else np.asarray(bias)
    if (
        weight.ndim != 2
        or weight.size == 0
        or (bias is not None and bias.shape != weight.shape[:1])
    ):
        raise ValueError(
            f"{names[0]} must be (H, F) and {names[1]} (H,), got {weight.shape} and "
            f"{None if bias is None else bias.shape}"
        )
    for name, values in zip(names, (weight, bias)):
        if values is not None and values.dtype.kind not in "fiu":
            raise ValueError(f"{name} must be real numbers, got an array of {values.dtype}")
        if values is not None:
            finite(**{name: values})
    kind = np.finfo(weight.dtype if np.issubdtype(weight.dtype, np.floating) else np.float64)
    return (
        weight.astype(np.float64),
        None if bias is None else bias.astype(np.float64),
        float(kind.tiny / kind.eps),
    )
