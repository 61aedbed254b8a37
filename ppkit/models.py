"""The papers' networks as plain torch modules, started from an explicit generator, and the loss
that they are trained on."""

from collections.abc import Sequence

import torch
from torch import nn

from ppkit.validation import one_of


class PiecewiseSigmoid(nn.Module):
    """The sigmoid of three straight pieces that can be computed on shares: min(1, max(0, z + 1/2)).

    Its slope is 1 where |z| < 1/2 and 0 outside, where the sigmoid's is at most 1/4 and never 0.
    Source: SecureML (Mohassel and Zhang 2017), section 5.3.

    >>> PiecewiseSigmoid()(torch.tensor([-1.0, -0.25, 0.0, 2.0])).tolist()
    [0.0, 0.25, 0.5, 1.0]
    """

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return (z + 0.5).clamp(0, 1)


ACTIVATIONS = {"relu": nn.ReLU, "sigmoid": nn.Sigmoid, "piecewise": PiecewiseSigmoid}


def activations(names: str | Sequence[str], n_layers: int) -> list[nn.Module]:
    """One activation module for each of n_layers hidden layers.

    names: one of ACTIVATIONS for all of them, or n_layers of them in order.  ValueError for another
    name or number.

    >>> activations(("sigmoid", "relu"), 2)
    [Sigmoid(), ReLU()]
    """
    wanted = [names] * n_layers if isinstance(names, str) else list(names)
    if len(wanted) != n_layers:
        raise ValueError(
            f"activation must be one name or {n_layers}, one a hidden layer, got {tuple(wanted)}"
        )
    for name in wanted:
        one_of(ACTIVATIONS, activation=name)
    return [ACTIVATIONS[name]() for name in wanted]


def mlp(
    sizes: Sequence[int],
    *,
    rng: torch.Generator,
    start: str = "random",
    activation: str | Sequence[str] = "relu",
    dtype: torch.dtype = torch.float32,
) -> nn.Sequential:
    """A fully connected network: Linear layers with an activation between them and none at the end.

    weight, bias ~ U(-1/sqrt(fan_in), 1/sqrt(fan_in))    (torch's own rule for Linear), or 0

    sizes: widths from input to output, at least two, each >= 1.  rng: draws the start; the global
    generator of torch is not touched.  start: "random", or "zero" (every parameter 0; then the
    gradient of a ReLU network with a hidden layer is 0 in all parameters but the last bias, and
    plain SGD never leaves AUC .5).
    activation: "relu", "sigmoid" or "piecewise" between all layers,
    or one of them for each hidden layer.
    dtype: torch.float32 or torch.float64.
    Returns an nn.Sequential that maps (N, sizes[0]) to logits (N, sizes[-1]).
    ValueError if sizes, start or activation is not accepted.
    Source: wang2018, section V.B (264-50-20-2, ReLU); Algorithm 1 starts at 0, section III
    "randomly".  zhou2021, section 6.1: (8, 8) with sigmoid,
    and (400, 16, 8) with sigmoid, sigmoid, ReLU.

    >>> n_parameters(mlp((264, 50, 20, 2), rng=torch.Generator().manual_seed(0)))
    14312
    """
    if len(sizes) < 2 or min(sizes) < 1:
        raise ValueError(f"sizes must be at least two widths >= 1, got {tuple(sizes)}")
    one_of(("random", "zero"), start=start)
    layers: list[nn.Module] = []
    between = activations(activation, len(sizes) - 2)
    for fan_in, fan_out, after in zip(sizes[:-1], sizes[1:], [*between, nn.Identity()]):
        linear = nn.Linear(fan_in, fan_out, device="meta", dtype=dtype)  # draws nothing
        bound = fan_in**-0.5 if start == "random" else 0.0
        for name, parameter in list(linear.named_parameters()):
            drawn = torch.empty(parameter.shape, dtype=dtype)
            drawn.uniform_(-bound, bound, generator=rng)
            linear.register_parameter(name, nn.Parameter(drawn))
        layers += [linear, after]
    return nn.Sequential(*layers[:-1])


def n_parameters(model: nn.Module) -> int:
    """Number of trainable numbers in a model: the d of wang2018.

    >>> n_parameters(nn.Linear(3, 2))
    8
    """
    return sum(parameter.numel() for parameter in model.parameters())


def refuse_frozen(model: nn.Module) -> None:
    """Refuse a model with a frozen parameter (requires_grad=False): a flat gradient has all
    parameters, and a step along it would train the frozen ones too.

    ValueError with the first one's name.
    """
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            raise ValueError(
                f"{name} of the model is frozen (requires_grad=False), and a step here trains all "
                "parameters: train the other layers as a model of their own, on what the frozen "
                "ones give"
            )


def classification_loss(logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The mean loss of a classifier: cross-entropy of its logits, of a single logit the binary one.

    logits: (N, K).  y: (N,) integer classes; for K > 1 also (N, K) shares of classes.  Returns a
    scalar, in nats a record.

    >>> round(float(classification_loss(torch.zeros(3, 1), torch.tensor([0, 1, 1]))), 4)
    0.6931
    """
    if logits.shape[1] == 1:
        return nn.functional.binary_cross_entropy_with_logits(logits[:, 0], y.to(logits.dtype))
    return nn.functional.cross_entropy(logits, y if y.is_floating_point() else y.long())
