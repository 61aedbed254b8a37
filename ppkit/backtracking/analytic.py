"""One record from its gradient: what a first layer with a bias gives away, exactly.

For z = W x + b and one record, dL/dW = delta x^T and dL/db = delta: every neuron j with
delta_j != 0 holds the whole row, x = dW_j / db_j. What the layers behind it are does not matter.
Batches are in `batches`, noise is in `noise`.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import nn

from ppkit.models import classification_loss
from ppkit.validation import finite, must_be

_MIRROR = 1e-6  # two neurons closer than this to each other's negative count as one
_EXACT = 1e-6  # a residual share above this is no rounding
_DROPOUT = nn.modules.dropout._DropoutNd  # all kinds of nn.Dropout
_TRAINED_TOGETHER = (_DROPOUT, nn.RReLU, nn.modules.batchnorm._BatchNorm)

Snapshot = nn.Module | tuple[torch.Tensor, torch.Tensor] | tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """What an attacker got, how sure he can be, and in words what stands in the way.

    row: (F,) float64, or None where nothing can be recovered.  confidence: in [0, 1], or None where
    nothing can be checked.  why: "" where every neuron tells the same row, else one sentence.
    """

    row: np.ndarray | None
    confidence: float | None
    why: str


def shared_gradient(model: nn.Module, X: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The gradient of the mean loss that a participant shares, one tensor per parameter of the
    model, in its order.

    model: a torch module whose first two parameters are the weight and the bias of its first layer,
    a Linear one, and whose output is one line of logits a record.  X: (N, F), N >= 1, finite, in
    the model's dtype.  y: (N,) integer classes, from 0; of a single logit 0 and 1.
    The first two are dW (H, F) and db (H,).
    ValueError for features that are not finite, labels that are not integers, a model whose first
    two parameters are others; as in `first_layer`.

    >>> dW, db = shared_gradient(
    ...     nn.Linear(3, 1), torch.tensor([[1.0, 2.0, 4.0]]), torch.tensor([1])
    ... )
    >>> (dW / db).tolist()  # powers of 2: not even rounding is lost
    [[1.0, 2.0, 4.0]]
    """
    finite(X=X)
    if y.is_floating_point():
        raise ValueError(f"y must be integer class labels, got a tensor of {y.dtype}")
    first = first_layer(model)
    names, parameters = zip(*model.named_parameters())
    if [id(one) for one in parameters[:2]] != [id(first.weight), id(first.bias)]:
        raise ValueError(
            "the attack needs a model whose first two parameters are the weight and the bias of "
            f"its first layer, got {' and '.join(names[:2])}"
        )
    loss = classification_loss(model(X), y)
    return torch.autograd.grad(loss, parameters, materialize_grads=True)


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
        if layer.training and isinstance(layer, _TRAINED_TOGETHER):
            return type(layer).__name__
    return ""


def _changes_nothing(layer: nn.Module) -> bool:
    if isinstance(layer, _DROPOUT):
        return not layer.training
    return isinstance(layer, nn.Flatten | nn.Identity)


def first_layer(model: nn.Module) -> nn.Linear:
    """The Linear layer that sees the row itself.

    model: its first module without children must be nn.Linear; nn.Flatten, nn.Identity and
    nn.Dropout in evaluation may stand before it.
    ValueError that names the first layer found, if it is another one.

    >>> first_layer(nn.Sequential(nn.Linear(30, 8), nn.ReLU(), nn.Linear(8, 2)))
    Linear(in_features=30, out_features=8, bias=True)
    """
    leaves = [module for module in model.modules() if not list(module.children())]
    first = next((leaf for leaf in leaves if not _changes_nothing(leaf)), "no layer")
    if not isinstance(first, nn.Linear):
        raise ValueError(f"the attack needs a model whose first layer is Linear, got {first} first")
    return first


def reconstruct(weight_grad: ArrayLike, bias_grad: ArrayLike) -> Reconstruction:
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

    weight_grad: dW (H, F), tensor or array.  bias_grad: db (H,).
    Returns a Reconstruction; its row is None if db is 0 everywhere or too small for its digits, as
    below the smallest normal number of its dtype (1e-38 in float32): there every step is rounding.
    ValueError if shapes do not match or a value is NaN or infinite.
    Source: kanodia2020, section 5.2: a[0]^T = dw[1] / db[1]; there for one neuron.

    >>> reconstruct([[2.0, 4.0], [-3.0, -6.0]], [2.0, -3.0])
    Reconstruction(row=array([1., 2.]), confidence=1.0, why='')
    >>> reconstruct([[0.0, 0.0]], [0.0]).why  # doctest: +NORMALIZE_WHITESPACE
    'the bias gradient is 0 or too small for its digits: no neuron is active for this record (a dead
    layer), or its loss is flat there'
    """
    dW, db = _weight_and_bias(weight_grad, bias_grad)
    largest = np.abs(db).max()
    if largest < _smallest_normal(bias_grad):
        why = (
            "the bias gradient is 0 or too small for its digits: no neuron is active for this "
            "record (a dead layer), or its loss is flat there"
        )
        return Reconstruction(None, None, why)
    dW, db = dW / largest, db / largest
    row = db @ dW / (db @ db)
    if _one_neuron_tells(dW, db):
        why = (
            "one neuron only has a gradient, or two that mirror each other, as two-class softmax "
            "does for any batch: there is no second one to check the row by"
        )
        return Reconstruction(row, None, why)
    if _signs(row) and np.median(np.abs(db[db != 0])) > 1 - 1e-3:
        why = (
            "every entry is -1, 0 or 1: after clipping by element or a step of Adam any row "
            "looks so, and only its signs are known"
        )
        return Reconstruction(row, None, why)
    explained = np.outer(db, row)
    total = float((dW**2).sum())
    confidence = 1 - float(((dW - explained) ** 2).sum()) / total if total else 1.0
    if confidence > 1 - _EXACT:
        return Reconstruction(row, confidence, "")
    why = "no single row explains all neurons: several records, noise, or clipping by element"
    return Reconstruction(row, confidence, why)


def from_snapshots(before: Snapshot, after: Snapshot, *, decayed: bool = False) -> Reconstruction:
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
    ValueError if a value is not finite or c cannot be told apart; as in `first_layer` for a model.
    Departs from the paper: there the aggregator has gradients;
    here it has only what the banks send, weights.
    """
    (W0, b0), (W1, b1) = _pair(before), _pair(after)
    factor = _decay(np.c_[W0, b0], np.c_[W1, b1]) if decayed else 1.0
    return reconstruct(W1 - factor * W0, b1 - factor * b0)


def from_adam_step(
    before: Snapshot, after: Snapshot, *, lr: float, eps: float = 1e-8
) -> Reconstruction:
    """The row behind the first step of Adam, whose step is almost the sign of the gradient,
    but not quite.

    step = lr g / (|g| + eps), so |g| = eps |step| / (lr - |step|) and the sign of g is the step's.

    before, after: as in `from_snapshots`.  lr: > 0, known.  eps: > 0, Adam's own.
    Returns a Reconstruction. The step is a difference of weights, so it carries their rounding,
    about |W| * 1e-16 in float64: the digits of lr - |step| suffice while
    |g| << eps * lr / (|W| * 1e-16).  In float32 (1e-7) lr - |step| is rounding, confidence says so,
    and signs are all there is.
    ValueError as in `from_snapshots`, and for lr or eps out of range.
    """
    must_be("> 0", lr=lr, eps=eps)
    gradients = []
    for old, new in zip(_pair(before), _pair(after)):
        step = (old - new) / lr
        gradients.append(eps * step / np.maximum(1 - np.abs(step), np.finfo(float).eps))
    return reconstruct(*gradients)


def _one_neuron_tells(dW: np.ndarray, db: np.ndarray) -> bool:
    """Whether one neuron only has a gradient, or two that mirror each other."""
    each = np.c_[dW, db]
    each = each[each.any(axis=1)]
    if len(each) == 2:
        return bool(np.abs(each.sum(axis=0)).max() <= _MIRROR * np.abs(each).max())
    return len(each) == 1


def _signs(row: np.ndarray) -> bool:
    return bool(row.any()) and float(np.abs(np.abs(row) - (row != 0)).max()) < 1e-3


def _decay(old: np.ndarray, new: np.ndarray) -> float:
    """The c for which new - c old has rank one."""
    if min(old.shape) < 3:
        raise ValueError(
            "weight decay is told apart from 3 neurons and 2 features on, "
            f"got {old.shape[0]} and {old.shape[1] - 1}"
        )
    inverse = np.linalg.pinv(old)
    ratios = new @ inverse if len(old) <= old.shape[1] else inverse @ new
    return float(np.median(np.linalg.eigvals(ratios).real))


def _pair(snapshot: Snapshot) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(snapshot, nn.Module):
        layer = first_layer(snapshot)
        return _weight_and_bias(layer.weight, layer.bias)
    return _weight_and_bias(*snapshot)


def _weight_and_bias(weight: ArrayLike, bias: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Both as finite float64, (H, F) and (H,)."""
    W, b = _array(weight), _array(bias)
    if W.ndim != 2 or b.shape != W.shape[:1]:
        raise ValueError(f"weight must be (H, F) and bias (H,), got {W.shape} and {b.shape}")
    finite(weight=W, bias=b)
    return W, b


def _smallest_normal(values: ArrayLike) -> float:
    """The smallest number with all digits, of the dtype that the values were computed in."""
    if isinstance(values, torch.Tensor):
        return torch.finfo(values.dtype if values.is_floating_point() else torch.float64).tiny
    dtype = np.asarray(values).dtype
    return float(np.finfo(dtype if dtype.kind == "f" else np.float64).tiny)


def _array(values: ArrayLike) -> np.ndarray:
    values = values.detach().double() if isinstance(values, torch.Tensor) else values
    return np.asarray(values, dtype=np.float64)
