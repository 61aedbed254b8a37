"""zhou2021's rivals: the network on plaintext (NN), the network split by holders (SplitNN), and
SecureML's network in the clear (PiecewiseNet), all with SPNN's interface.

A net takes the holders' columns once, `prepare(parts)`, then gives logits for row numbers,
`net(rows)`; `net.logits(parts)` gives them for other rows, without gradients. After a call,
`net.h1` is the first hidden layer before its activation, (rows, width), and `net.h_last` the last
hidden layer behind its activation; both keep their gradients, which are what the server and the
holders get to see. What all three nets share behind h1 is `hidden` and `output`."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from ppkit import optimisers
from ppkit.models import activations, mlp
from ppkit.spnn.party import rows_of
from ppkit.spnn.ring import total
from ppkit.validation import one_of

Layer = tuple[Tensor, Tensor | None]


class _Net(nn.Module):
    """What NN and SplitNN have in common: everything but `first(parts)`, from columns to h1."""

    h1: Tensor
    h_last: Tensor

    def __init__(
        self,
        holders: Sequence[int],
        weights: Iterable[Tensor],
        hidden: nn.Sequential,
        output: nn.Module,
    ):
        super().__init__()
        self.holders = tuple(holders)
        self.theta = nn.ParameterList(nn.Parameter(w.detach().t().contiguous()) for w in weights)
        self.hidden, self.output = hidden, output
        self._parts: list[Tensor] = []

    def first(self, parts: Sequence[Tensor]) -> Tensor:
        """h1 of these rows."""
        raise NotImplementedError

    def prepare(self, parts: Sequence[Tensor]) -> None:
        """Take the columns of the training rows, one tensor (N, holders[i]) a holder.  ValueError
        if they do not fit."""
        self._parts = self.checked(parts)

    def forward(self, rows: Tensor) -> Tensor:
        """Logits (len(rows), n_outputs) of some rows of what was prepared; leaves h1 and h_last
        behind."""
        if not self._parts:
            raise ValueError("the net has no rows yet: call prepare(parts) first")
        self.h1 = self.first([rows_of(part, rows) for part in self._parts])
        self.h_last = self.hidden(self.h1)
        for seen in (self.h1, self.h_last):
            if seen.requires_grad:
                seen.retain_grad()
        return self.output(self.h_last)

    @torch.no_grad()
    def logits(self, parts: Sequence[Tensor]) -> Tensor:
        """Logits (N, n_outputs) of any rows, such as the test rows; changes nothing."""
        return self.output(self.hidden(self.first(self.checked(parts))))

    def checked(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """The parts, if they have the columns of the holders, and the same rows."""
        shapes = [tuple(part.shape) for part in parts]
        if shapes != [(len(parts[0]), width) for width in self.holders] or not len(parts[0]):
            raise ValueError(
                f"parts must have {' + '.join(map(str, self.holders))} columns and the same rows, "
                f"at least one, got shapes {shapes}"
            )
        return list(parts)


class NN(_Net):
    """The network on plaintext, all columns in one place.

    h1 = sum_i X_i theta_i,    logits = output(hidden(h1))

    holders: columns of each holder; here they only say how X is cut.
    hidden: widths of the hidden layers.
    activation: one name for all hidden layers, or one each (`models.ACTIVATIONS`).
    rng: draws the start as `models.mlp` would: U(-1/sqrt(fan_in), 1/sqrt(fan_in)), fan_in of theta
    being sum(holders).
    h1 has no bias, as in the paper.  n_outputs: 1 for two classes.  dtype:
    torch.float32 or torch.float64.
    ValueError of `models.mlp` for widths < 1 or an unknown activation.
    Guarantee: none; whoever runs it sees everything.
    Source: zhou2021, section 6.1.

    >>> net = NN([14, 14], (8, 8), rng=torch.Generator().manual_seed(0))
    >>> net.prepare([torch.zeros(5, 14)] * 2)
    >>> net(torch.arange(3)).shape, net.h1.shape
    (torch.Size([3, 1]), torch.Size([3, 8]))
    """

    def __init__(
        self,
        holders: Sequence[int],
        hidden: Sequence[int],
        *,
        activation: str | Sequence[str] = "sigmoid",
        rng: torch.Generator,
        n_outputs: int = 1,
        dtype: torch.dtype = torch.float32,
    ):
        net = mlp((sum(holders), *hidden, n_outputs), rng=rng, activation=activation, dtype=dtype)
        weights = net.get_parameter("0.weight").split(list(holders), dim=1)
        super().__init__(holders, weights, nn.Sequential(*list(net)[1:-1]), net[-1])

    def first(self, parts: Sequence[Tensor]) -> Tensor:
        """h1 of these rows: (N, hidden[0])."""
        return total([part @ theta for part, theta in zip(parts, self.theta)])


class SplitNN(_Net):
    """Split learning: each holder encodes its own columns up to the cut; the server has the rest,
    and the labels.

    h1 = [X_1 theta_1, ..., X_k theta_k] side by side; the cut is behind `depth` hidden layers

    holders, hidden, activation, rng, n_outputs, dtype: as for NN.  The holders share the width of
    h1 evenly, so that the total is that of NN (`even_widths`); where there are more holders than
    the width, each has one neuron and the total is the number of holders.
    depth: how many hidden layers each holder has by itself, from 1 to len(hidden). They share the
    width of each as that of h1; those behind h1 are `Blocks`.
    Guarantee: none; the server sees every encoding (the last layer of the holders through its
    activation, of known origin) and the labels.
    ValueError as for NN, and for a depth out of range.
    Source: Vepakomma et al. 2018, and zhou2021, section 6.1, which does not say where it cuts: "a
    partial deep network model"; section 6.2 speaks of a "partial hidden layer", as depth=1 has it.

    >>> [
    ...     tuple(t.shape)
    ...     for t in SplitNN([10, 9, 9], (8, 8), rng=torch.Generator().manual_seed(0)).theta
    ... ]
    [(10, 3), (9, 3), (9, 2)]
    """

    def __init__(
        self,
        holders: Sequence[int],
        hidden: Sequence[int],
        *,
        activation: str | Sequence[str] = "sigmoid",
        rng: torch.Generator,
        n_outputs: int = 1,
        dtype: torch.dtype = torch.float32,
        depth: int = 1,
    ):
        one_of(range(1, len(hidden) + 1), depth=depth)
        k = len(holders)
        shares = [even_widths(max(width, k), k) for width in hidden[:depth]]
        weights = [
            mlp((columns, share), rng=rng, dtype=dtype).get_parameter("0.weight")
            for columns, share in zip(holders, shares[0])
        ]
        kinds = [activation] * len(hidden) if isinstance(activation, str) else list(activation)
        own = activations(kinds[:depth], depth)
        behind_h1 = own[:1]
        for inward, outward, after in zip(shares, shares[1:], own[1:]):
            behind_h1 += [Blocks(inward, outward, rng=rng, dtype=dtype), after]
        widths = sum(shares[-1]), *hidden[depth:], n_outputs
        rest = mlp(widths, rng=rng, activation=kinds[depth:], dtype=dtype)
        super().__init__(holders, weights, nn.Sequential(*behind_h1, *list(rest)[:-1]), rest[-1])

    def first(self, parts: Sequence[Tensor]) -> Tensor:
        """h1 of these rows, the holders' neurons side by side: (N, hidden[0]), or (N, k) if that is
        more."""
        return torch.cat([part @ theta for part, theta in zip(parts, self.theta)], dim=1)


class Blocks(nn.Linear):
    """A layer of several holders side by side: each one's neurons read its own alone.

    y = x (W * mask)^T + b,    mask: 1 in a holder's block, 0 elsewhere

    inward, outward: neurons of each holder before the layer and in it.
    rng, dtype: each block starts as a layer of `models.mlp` does.

    >>> layer = Blocks([2, 1], [1, 1], rng=torch.Generator().manual_seed(0))
    >>> layer.mask.tolist()
    [[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    mask: Tensor

    def __init__(
        self,
        inward: Sequence[int],
        outward: Sequence[int],
        *,
        rng: torch.Generator,
        dtype: torch.dtype = torch.float32,
    ):
        super().__init__(sum(inward), sum(outward), device="meta", dtype=dtype)  # draws nothing
        blocks = [mlp(sizes, rng=rng, dtype=dtype)[0] for sizes in zip(inward, outward)]
        weights, biases = zip(*([of.detach() for of in block.parameters()] for block in blocks))
        self.weight = nn.Parameter(torch.block_diag(*weights))
        self.bias = nn.Parameter(torch.cat(biases))
        self.register_buffer("mask", torch.block_diag(*map(torch.ones_like, weights)))

    def masked(self, weight: Tensor) -> Tensor:
        """Weights (..., out, in) without those between two holders."""
        return weight * self.mask

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.masked(self.weight), self.bias)


def even_widths(total: int, k: int) -> list[int]:
    """k whole numbers that differ by at most 1 and sum to total, the larger ones first.  ValueError
    unless 1 <= k <= total.

    >>> even_widths(28, 5)
    [6, 6, 6, 5, 5]
    """
    if not 1 <= k <= total:
        raise ValueError(f"{total} cannot be dealt to {k}: each of 1 to {total} gets at least one")
    return [total // k + (i < total % k) for i in range(k)]


class PiecewiseNet(NN):
    """What `secureml.SecureML` computes on shares, in floating point and at once.

    p = f(logit), f(z) = 0 for z < -1/2, z + 1/2 between, 1 above;
    hidden layers f or ReLU; output error (p - y) / |B|

    holders, hidden, rng, dtype: as for `NN`.  activation: "piecewise" or "relu" for all
    hidden layers, or one each: ("piecewise", "piecewise", "relu") for distress.  ValueError for
    another activation, or as for NN.
    Records are to be ranked by their logits: p is exactly 0 or 1 for most,
    and ties would count in an AUC.
    Source: SecureML (Mohassel and Zhang 2017); zhou2021, section 6.1.

    >>> net = PiecewiseNet([14, 14], (8, 8), rng=torch.Generator().manual_seed(0))
    >>> net.prepare([torch.zeros(5, 14, dtype=torch.float64)] * 2)
    >>> net.step(torch.arange(5), torch.ones(5), lr=0.5)
    """

    def __init__(
        self,
        holders: Sequence[int],
        hidden: Sequence[int],
        *,
        activation: str | Sequence[str] = "piecewise",
        rng: torch.Generator,
        dtype: torch.dtype = torch.float64,
    ):
        kinds = [activation] * len(hidden) if isinstance(activation, str) else list(activation)
        if set(kinds) - {"piecewise", "relu"}:
            raise ValueError(f"SecureML has the activations piecewise and relu, got {activation!r}")
        super().__init__(holders, hidden, activation=kinds, rng=rng, dtype=dtype)
        self.kinds = [*kinds, "piecewise"]

    @staticmethod
    def loss(logits: Tensor, y: Tensor) -> Tensor:
        """The loss whose gradient is SecureML's output error:
        the mean of F(z) - y z, where F' = f and F(-1/2) = 0.

        logits: (N, 1).  y: (N,) in {0, 1}.  Returns a scalar >= 0, convex in the logits;
        1/8 at z = 0. With the sigmoid itself for f it would be the logistic loss.
        """
        z = logits[:, 0]
        return ((z + 0.5).clamp(0, 1).square() / 2 + (z - 0.5).clamp(min=0) - y * z).mean()

    def step(self, rows: Tensor, y: Tensor, *, lr: float) -> None:
        """One step of gradient descent on some of the prepared rows.  y: (len(rows),), their
        labels.  lr: > 0."""
        steps = optimisers.SGD(self.parameters(), lr=lr)
        steps.zero_grad()
        self.loss(self(rows), y).backward()
        steps.step()

    def layers(self) -> list[Layer]:
        """theta (d, m) and bias (m,), or None, of every layer from the first to the output: the
        values, not copies."""
        first = torch.cat(list(self.theta)).detach(), None
        return [first, *linear_layers(self.hidden), *linear_layers([self.output])]

    @torch.no_grad()
    def load_layers(self, layers: Sequence[Layer]) -> None:
        """Take over weights in the form that `layers` gives them."""
        (theta, _), *rest = layers
        for mine, part in zip(self.theta, theta.split(self.holders)):
            mine.copy_(part)
        for (weight, bias), (theta, its) in zip(self.layers()[1:], rest, strict=True):
            weight.copy_(theta)
            if bias is not None and its is not None:
                bias.copy_(its)


def linear_layers(modules: Iterable[nn.Module]) -> list[Layer]:
    """theta (d, m) and bias (m,) of those that are linear: the values, not copies."""
    return [
        (layer.weight.detach().t(), layer.bias.detach())
        for layer in modules
        if isinstance(layer, nn.Linear)
    ]
