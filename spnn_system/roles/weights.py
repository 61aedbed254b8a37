"""Where each role's own weights start, and its own optimiser: nobody draws, holds or moves
another's.
"""

import math
from collections.abc import Sequence

import torch
from torch import nn

from ppkit.models import activations, mlp
from ppkit.spnn.randomness import Stream


class Start:
    """Draws the start of one role's part.

    stream: the role's own root secret.  seed: None, or, for teaching, the seed from which every
    role draws what SPNN(rng=torch.Generator().manual_seed(seed)) draws, and keeps its own part:
    then the start is that of one process.
    Each part ~ U(-1/sqrt(fan_in), 1/sqrt(fan_in)), the fan-in of the first layer being all holders'
    columns.
    """

    def __init__(self, stream: Stream, *, seed: int | None = None):
        self._stream = stream.derive("start of the weights") if seed is None else None
        self._seed = seed

    def theta(self, columns: Sequence[int], width: int, holder: int) -> nn.Parameter:
        """One holder's part (columns[holder], width) of the first layer."""
        if self._seed is None:
            return nn.Parameter(self._uniform((columns[holder], width), sum(columns)))
        first, _ = self._all(columns, (width,), "sigmoid")
        return nn.Parameter(
            first.weight.detach().split(list(columns), dim=1)[holder].T.contiguous()
        )

    def hidden(
        self, columns: Sequence[int], widths: Sequence[int], names: Sequence[str]
    ) -> nn.Sequential:
        """The server's part: from h1 to h_L, an activation after every layer."""
        if self._seed is None:
            rest = mlp(
                (*widths, 1), rng=torch.Generator(), start="zero", activation=list(names)[1:]
            )
            self._redraw(rest[:-1])
        else:
            _, rest = self._all(columns, widths, names)
        return nn.Sequential(activations(names, len(widths))[0], *rest[:-1])

    def output(self, columns: Sequence[int], widths: Sequence[int]) -> nn.Linear:
        """The label holder's part: from h_L to one logit.  widths: all hidden ones."""
        if self._seed is None:
            [linear] = mlp((widths[-1], 1), rng=torch.Generator(), start="zero")
            self._redraw([linear])
            return linear
        return self._all(columns, widths, "sigmoid")[1][-1]

    def _all(self, columns, widths, names):
        rng = torch.Generator().manual_seed(self._seed)
        [first] = mlp((sum(columns), widths[0]), rng=rng)
        names = names if isinstance(names, str) else list(names)[1:]
        return first, mlp((*widths, 1), rng=rng, activation=names)

    def _redraw(self, layers) -> None:
        with torch.no_grad():
            for layer in layers:
                for parameter in layer.parameters():
                    parameter.copy_(self._uniform(tuple(parameter.shape), layer.in_features))

    def _uniform(self, shape: tuple[int, ...], fan_in: int) -> torch.Tensor:
        share = ((self._stream.words(shape) >> 11) & (2**53 - 1)).double() * 2.0**-53
        return ((2 * share - 1) / math.sqrt(fan_in)).float()


class Optimiser:
    """One role's optimiser of its own parameters: equation 1 ("sgd") or 2 ("sgld", on the summed
    loss) of zhou2021.

    stream: the role's own root secret; SGLD's noise starts from it (of which torch's generator uses
    32 bits).
    Equation 1 is written out: torch.optim.SGD, with the same numbers, loads torch's compiler, a
    second in every process.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], *, name: str, lr: float, stream: Stream):
        self._parameters, self._lr, self._rng = list(parameters), lr, None
        if name == "sgld":
            # here: it brings scikit-learn, which takes seconds to load
            from ppkit.spnn.training import SGLD

            seed = int(stream.derive("noise of SGLD").words(1)) & (2**63 - 1)
            self._rng = torch.Generator().manual_seed(seed)
            self._sgld = SGLD(self._parameters, lr=lr, rng=self._rng)

    @torch.no_grad()
    def step(self, gradients: Sequence[torch.Tensor]) -> None:
        """Move every parameter along its gradient."""
        for parameter, gradient in zip(self._parameters, gradients, strict=True):
            if self._rng is None:
                parameter.add_(gradient, alpha=-self._lr)
            else:
                parameter.grad = gradient
        if self._rng is not None:
            self._sgld.step()

    @property
    def state(self) -> dict:
        """What a checkpoint keeps of it: where the noise stands."""
        return {} if self._rng is None else {"noise": self._rng.get_state().numpy()}

    @state.setter
    def state(self, kept: dict) -> None:
        if self._rng is not None:
            self._rng.set_state(torch.from_numpy(kept["noise"].copy()))


def loss_factor(optimiser: str, n: int) -> float:
    """By what the mean loss of n records is multiplied before backward: SGLD is on the summed loss,
    SGD on the mean one.
    """
    return float(n) if optimiser == "sgld" else 1.0
