"""Where each role's own weights start, and its own optimiser: nobody draws, holds or moves
another's.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from torch import nn

from ppkit.models import activations, mlp
from ppkit.spnn.randomness import Stream
from spnn_system.config import Config
from spnn_system.run.role_folder import PARAMETERS
from spnn_system.settings import Training


class Start:
    """Draws the start of one role's part.

    stream: the role's own root secret.  With secrets = "teaching" every role draws what
    SPNN(rng=torch.Generator().manual_seed(training.seed)) draws, and keeps its own part: then the
    start is that of one process.
    Each part ~ U(-1/sqrt(fan_in), 1/sqrt(fan_in)), the fan-in of the first layer being all holders'
    columns.
    """

    def __init__(self, config: Config, stream: Stream):
        self._stream, self._model = stream.derive("start of the weights"), config.model
        self._seed = config.training.seed if config.protocol.secrets == "teaching" else None

    def theta(self, columns: Sequence[int], holder: int) -> nn.Parameter:
        """One holder's part (columns[holder], hidden[0]) of the first layer."""
        if self._seed is None:
            shape = columns[holder], self._model.hidden[0]
            return nn.Parameter(self._uniform(shape, sum(columns)))
        first, _ = self._all(columns)
        return nn.Parameter(
            first.weight.detach().split(list(columns), dim=1)[holder].T.contiguous()
        )

    def hidden(self, columns: Sequence[int]) -> nn.Sequential:
        """The server's part: from h1 to h_L, an activation after every layer."""
        _, rest = self._all(columns)
        first, *_ = activations(self._model.activation, len(self._model.hidden))
        return nn.Sequential(first, *self._own(rest[:-1]))

    def output(self, columns: Sequence[int]) -> nn.Linear:
        """The label holder's part: from h_L to one logit."""
        return self._own(self._all(columns)[1][-1:])[0]

    def _all(self, columns: Sequence[int]) -> tuple[nn.Linear, nn.Sequential]:
        """The whole network as one process starts it from the seed: the first layer, the others."""
        rng, hidden = torch.Generator().manual_seed(self._seed or 0), self._model.hidden
        [first] = mlp((sum(columns), hidden[0]), rng=rng)
        return first, mlp((*hidden, 1), rng=rng, activation=list(self._model.activation)[1:])

    @torch.no_grad()
    def _own(self, layers: nn.Sequential) -> nn.Sequential:
        """The same layers, with a start of this role's own unless it repeats from the seed."""
        for layer in layers if self._seed is None else ():
            for parameter in layer.parameters():
                parameter.copy_(self._uniform(tuple(parameter.shape), layer.in_features))
        return layers

    def _uniform(self, shape: tuple[int, ...], fan_in: int) -> torch.Tensor:
        share = ((self._stream.words(shape) >> 11) & (2**53 - 1)).double() * 2.0**-53
        return ((2 * share - 1) / math.sqrt(fan_in)).float()


def put_back(config: Config, role: str, parameters: Mapping[str, torch.Tensor]) -> None:
    """For a prediction: give a role's parameters the values that its training left; else nothing.

    ValueError if the training has left no part here, or one of another shape.
    """
    if config.trained is None:
        return
    path = config.trained / role / PARAMETERS
    if not path.is_file():
        raise ValueError(f"there is no trained network in {path.parent}: train it first")
    with np.load(path, allow_pickle=False) as kept:
        shapes = {name: kept[name].shape for name in kept.files}
        if shapes != {name: tuple(value.shape) for name, value in parameters.items()}:
            raise ValueError(f"{path} is of another network than {config.typed} describes")
        for name, value in parameters.items():
            value.detach().copy_(torch.from_numpy(kept[name]))


class Optimiser:
    """One role's optimiser of its own parameters: equation 1 ("sgd") or 2 ("sgld", on the summed
    loss) of zhou2021.

    stream: the role's own root secret; SGLD's noise starts from it (of which torch's generator uses
    32 bits).
    Equation 1 is written out: torch.optim.SGD, with the same numbers, loads torch's compiler, a
    second in every process.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], training: Training, stream: Stream):
        self._parameters, self._lr, self._rng = list(parameters), training.lr, None
        if training.optimiser == "sgld":
            # here: it brings scikit-learn, which takes seconds to load
            from ppkit.spnn.training import SGLD

            seed = int(stream.derive("noise of SGLD").words(1)) & (2**63 - 1)
            self._rng = torch.Generator().manual_seed(seed)
            self._sgld = SGLD(self._parameters, lr=self._lr, rng=self._rng)

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
