"""A whole batch from its mean gradient, as a hidden subset sum.

With one logit or two classes, and neurons that are on or off (ReLU: slope 1 or 0), the last hidden
layer's gradient is

    dW_j / v_j = sum_i s_ij e_i a_i,    db_j / v_j = sum_i s_ij e_i,    s_ij in {0, 1}:

v_j is the neuron's weight in the output (of two logits the difference), s_ij whether record i
switches neuron j on, a_i what the layer sees of the record, and e_i = c_i (p_i - y_i) / n its
error, with its clip. So H = [dW db] / v is a hidden subset sum of the vectors e_i [a_i, 1], and
`lattice` solves it. The last entry is e_i, so a_i comes out whatever the clip. With one hidden
layer a_i is the record. With more, the errors go back a layer at a time,

    delta_i = (W^T delta_i') * (a_i > 0),    [dW db] = sum_i delta_i [a_i', 1],

which are linear equations for what that layer saw, the a_i'; the attacker needs the gradients of
all layers, which a participant sends.
The model is the judge: each row must switch on the neurons that were found for it, and must have
the error that was found, with one of the labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from ppkit import gradients as bounded
from ppkit.backtracking import judging, lattice
from ppkit.backtracking.analytic import flat

_AGREES = 0.98  # of the neurons: one whose z is about 0 may differ by rounding
_DEVIATIONS = 20  # a row's digits are doubted up to so many root mean squares
_CLEAR = 1e-2  # a row that may be wrong by more, beside 1, is not given


@dataclass(frozen=True, eq=False)
class _Network:
    """linear: its Linear layers, two or more.  last: the activation of the last hidden layer; of
    the hidden layers before, if any, it is a ReLU."""

    linear: list[nn.Linear]
    last: nn.Module

    @property
    def v(self) -> np.ndarray:
        """What a last hidden neuron weighs in the logit, or in the difference of two, (H,)."""
        V = _array(self.linear[-1].weight)
        return V[0] if len(V) == 1 else V[1] - V[0]

    def on(self, inputs: np.ndarray) -> np.ndarray:
        """Which last hidden neurons each record switches on, by what they see, (m, H)."""
        hidden = self.linear[-2]
        z = inputs @ _array(hidden.weight).T + _array(hidden.bias)
        return _slopes(self.last, torch.from_numpy(z)).numpy() != 0


def find(
    at: judging.Round,
    gradient: Sequence[torch.Tensor],
    settings: judging.Settings,
    *,
    effort: lattice.Effort,
) -> tuple[list[judging.Candidate], str]:
    """The rows of a batch that the hidden subset sum gives and the model confirms.

    at, settings: as in `batches.from_rounds`.  gradient: of all parameters; with one hidden layer
    its first two are enough.
    Returns the rows, and "" or what stood in the way of the others, for the end of a sentence.
    """
    layers = flat(at.model)
    why = _unfit(layers, gradient)
    if why:
        return [], why
    linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
    network = _Network(linear, layers[-2])
    sums = [
        np.c_[_array(gradient[2 * k]), _array(gradient[2 * k + 1])] for k in range(len(linear) - 1)
    ]
    live = (np.abs(sums[-1]).max(axis=1) > 0) & (network.v != 0)
    n = settings.n_records
    if live.sum() <= n:
        return [], f"the {live.sum()} neurons that are on are too few for {n} records"

    def confirmed(subsets, vectors):
        on = network.on(_inputs(vectors))[:, live]
        return (on == subsets.T.astype(bool)).mean(axis=1) > _AGREES

    solution = lattice.solve(
        sums[-1][live] / network.v[live, None],
        n,
        rounding=4 * torch.finfo(at.G.dtype).eps,
        rng=np.random.default_rng(0),  # one gradient, one search
        confirmed=confirmed,
        effort=effort,
    )
    if solution is None:
        return [], f"among {live.sum()} neurons no {n} subsets of the records were found"
    errors = solution.vectors[:, -1]
    inputs = _inputs(solution.vectors)
    doubt = _DEVIATIONS * solution.residual / np.abs(errors)
    if len(linear) > 2:
        if not solution.sure.all():
            return [], "some of what the last hidden layer shows is not confirmed"
        deltas = np.zeros((len(errors), len(live)))
        deltas[:, live] = errors[:, None] * solution.subsets.T * network.v[live]
        inputs, doubt = _through(linear, sums, deltas, inputs, doubt)
    clear = solution.sure & (doubt < _CLEAR)
    found = _judged(at, inputs[clear], errors[clear], doubt[clear], settings)
    n_found = sum(one.n_copies for one in found)
    return found, "" if n_found == n else f"the model confirms {n_found} of them"


def _unfit(layers: list[nn.Module], gradient: Sequence[torch.Tensor]) -> str:
    """Why the gradient of this network is no hidden subset sum, or ""."""
    linear, between = layers[::2], layers[1::2]
    if len(layers) < 3 or len(layers) % 2 == 0 or not all(type(one) is nn.Linear for one in linear):
        return "it takes Linear layers with one activation between two of them"
    hidden, output = linear[-2], linear[-1]
    assert isinstance(hidden, nn.Linear) and isinstance(output, nn.Linear)
    if output.out_features > 2:
        return "with more than two classes a neuron has no one weight for all records"
    if any(type(one) is not nn.ReLU for one in between[:-1]):
        return "it goes back through hidden layers of ReLU only"
    if not _on_or_off(between[-1], hidden.out_features):
        return f"{type(between[-1]).__name__} has other slopes than 0 and 1"
    if len(linear) > 2 and len(gradient) < 2 * len(linear):
        return "with several hidden layers it takes the gradients of all of them"
    return ""


def _on_or_off(activation: nn.Module, width: int) -> bool:
    rng = torch.Generator().manual_seed(0)
    z = 4 * torch.randn(256, width, generator=rng, dtype=torch.float64)
    slopes = _slopes(activation, z)
    return bool(((slopes == 0) | (slopes == 1)).all() and (slopes != slopes[0, 0]).any())


def _slopes(activation: nn.Module, z: torch.Tensor) -> torch.Tensor:
    z = z.detach().requires_grad_()
    total = activation(z.clone()).sum()  # an activation in place changes the copy
    return torch.autograd.grad(total, z, materialize_grads=True)[0]


def _inputs(vectors: np.ndarray) -> np.ndarray:
    bottom = vectors[:, -1:]
    return vectors[:, :-1] / np.where(bottom == 0, np.nan, bottom)


def _through(linear, sums, deltas, inputs, doubt) -> tuple[np.ndarray, np.ndarray]:
    """What the first layer saw, from what the last hidden one saw and its errors; and the doubt."""
    for layer, G in zip(linear[-2:0:-1], sums[-2::-1]):
        on = inputs > doubt[:, None]  # what a ReLU turned off is 0, or rounding
        deltas = (deltas @ _array(layer.weight)) * on
        vectors = np.linalg.lstsq(deltas.T, G, rcond=None)[0]
        inputs = vectors[:, :-1]
        off = np.abs(vectors[:, -1] - 1)  # the bias sees a 1, if the equations have one solution
        doubt = np.maximum(doubt, _DEVIATIONS * off)
    return inputs, doubt


def _judged(
    at: judging.Round,
    rows: np.ndarray,
    errors: np.ndarray,
    doubt: np.ndarray,
    settings: judging.Settings,
) -> list[judging.Candidate]:
    """Rows whose error the model confirms, with one label or as several copies.

    doubt: (m,), by which part of themselves rows and errors may be wrong."""
    if len(rows) == 0:
        return []
    X = torch.from_numpy(rows).to(at.G.dtype)
    seen = torch.from_numpy(settings.n_records * errors).to(at.G.dtype)
    by_label = _errors(at.model, X, settings.l2_norm_clip, seen)
    most = settings.n_records - len(X) + 1
    counts = judging.label_counts(2, most, X)
    off = (by_label @ counts.T / seen[:, None] - 1).abs()
    passing = off <= at.tolerance + torch.from_numpy(doubt).to(X.dtype)[:, None]
    fewest = torch.where(passing, counts.sum(dim=1), torch.inf).argmin(dim=1)
    return [
        judging.Candidate(row, counts[k], float(miss[k]), 1)
        for row, k, miss, passes in zip(X, fewest, off, passing.any(dim=1))
        if passes
    ]


def _errors(model, X, l2_norm_clip: float | None, seen: torch.Tensor) -> torch.Tensor:
    """p - y, shortened by the clip, for both labels: (m, 2)."""
    with torch.no_grad():
        logits = model(X)
    z = logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]
    errors = torch.stack([torch.sigmoid(z), -torch.sigmoid(-z)], dim=1)
    if l2_norm_clip == torch.inf:
        return errors
    labels = torch.arange(2).repeat(len(X))
    pairs = bounded.capture(nn.Sequential(*flat(model)), X.repeat_interleave(2, dim=0), labels)
    norms = bounded.group_norms(pairs).view(-1, 2)
    if l2_norm_clip is None:
        l2_norm_clip = _clip(errors, norms, seen)
    return errors * bounded.clip_factors(norms, l2_norm_clip)


def _clip(errors: torch.Tensor, norms: torch.Tensor, seen: torch.Tensor) -> float:
    """The length of the gradients that were shortened: the median of those that are seen best;
    infinity if none was shortened."""
    label = (seen < 0).long()[:, None]
    factors = seen / errors.gather(1, label)[:, 0]
    lengths = factors * norms.gather(1, label)[:, 0]
    rounding = torch.finfo(seen.dtype).eps ** 0.5
    shortened = (factors < 1 - rounding).nonzero()[:, 0]
    if len(shortened) == 0:
        return torch.inf
    best = shortened[seen[shortened].abs().argsort(descending=True)][: (len(shortened) + 1) // 2]
    return float(lengths[best].median())


def _array(values: torch.Tensor) -> np.ndarray:
    return values.detach().double().numpy()
