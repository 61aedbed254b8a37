"""Where each role's own weights start, and its own optimiser: nobody draws, holds or moves
another's.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import nn

from ppkit import optimisers
from ppkit.models import activations, mlp
from ppkit.spnn.randomness import Stream
from ppkit.spnn.training import SGLD
from spnn_system.config import TORCH_OPTIMISERS, Config, Training
from spnn_system.run.role_folder import PARAMETERS

KINDS = {"sgd": "SGD"} | TORCH_OPTIMISERS  # of `ppkit.optimisers`, by the names of a config


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
        weight = self._all(columns)[0].get_parameter("weight").detach()
        return nn.Parameter(weight.split(list(columns), dim=1)[holder].T.contiguous())

    def hidden(self, columns: Sequence[int]) -> nn.Sequential:
        """The server's part: from h1 to h_L, an activation after every layer."""
        first, *_ = activations(self._model.activation, len(self._model.hidden))
        return nn.Sequential(first, *self._all(columns)[1:-1])

    def output(self, columns: Sequence[int]) -> nn.Module:
        """The label holder's part: from h_L to the logits."""
        return self._all(columns)[-1]

    @torch.no_grad()
    def _all(self, columns: Sequence[int]) -> list[nn.Module]:
        """A whole network, layer by layer: as one process starts it from the seed, or from this
        role's own secrets.
        """
        rng, hidden = torch.Generator().manual_seed(self._seed or 0), self._model.hidden
        first = mlp((sum(columns), hidden[0]), rng=rng)
        sizes = *hidden, self._model.n_outputs
        rest = mlp(sizes, rng=rng, activation=list(self._model.activation)[1:])
        layers = [*first, *rest]
        if self._seed is not None:
            return layers
        for layer in layers:
            for parameter in layer.parameters():
                words = self._stream.words(tuple(parameter.shape))
                fraction = ((words >> 11) & (2**53 - 1)).double() * 2.0**-53
                fan_in = layer.get_parameter("weight").shape[1]
                parameter.copy_((2 * fraction - 1) / math.sqrt(fan_in))
        return layers


def arrays_of(part: nn.Module) -> dict[str, np.ndarray]:
    """A role's part of the model as arrays by name: parameters, and buffers like running means."""
    return {name: value.numpy() for name, value in part.state_dict().items()}


def put(part: nn.Module, arrays: Mapping[str, np.ndarray]) -> None:
    """The other way round.  RuntimeError for other names or shapes."""
    part.load_state_dict({name: torch.from_numpy(value) for name, value in arrays.items()})


def put_back(config: Config, role: str, part: nn.Module) -> None:
    """For a prediction: give a role's part the values that its training left; else nothing.

    ValueError if the training has left no part here, or one of another shape.
    """
    if config.trained is None:
        return
    path = config.trained / role / PARAMETERS
    if not path.is_file():
        raise ValueError(f"there is no trained network in {path.parent}: train it first")
    try:
        with np.load(path, allow_pickle=False) as kept:
            put(part, kept)
    except RuntimeError:
        raise ValueError(f"{path} is of another network than {config.typed} describes") from None


class Optimiser:
    """One role's optimiser of its own part: equation 1 ("sgd") or 2 ("sgld", on the summed loss)
    of zhou2021, or one of torch's with torch's defaults.

    stream: the role's own root secret, from which SGLD's noise is derived.
    streams: what it draws from, whose positions a checkpoint keeps: of SGLD the noise, else none.
    """

    def __init__(self, part: nn.Module, training: Training, stream: Stream):
        self._parameters = [each for each in part.parameters() if each.requires_grad]
        self._torch: torch.optim.Optimizer | None = None
        self.streams: dict[str, Stream] = {}
        if training.optimiser == "sgld" and self._parameters:
            noise = stream.derive("noise of SGLD")
            self.streams = {"noise of SGLD": noise}
            self._torch = SGLD(self._parameters, lr=training.lr, rng=noise)
        elif self._parameters:
            kind = getattr(optimisers, KINDS[training.optimiser])
            self._torch = kind(self._parameters, lr=training.lr)

    def step(self) -> None:
        """Move every parameter that has a gradient."""
        if self._torch is not None:
            self._torch.step()

    @property
    def state(self) -> dict[str, np.ndarray]:
        """What a checkpoint keeps of it, by number of the parameter and name: "0 exp_avg"."""
        kept = {} if self._torch is None else self._torch.state_dict()["state"]
        return {f"{i} {name}": kept[i][name].numpy() for i in kept for name in kept[i]}

    @state.setter
    def state(self, arrays: Mapping[str, np.ndarray]) -> None:
        state: dict[int, dict] = defaultdict(dict)
        for key, value in arrays.items():
            i, name = key.split(" ")
            state[int(i)][name] = torch.from_numpy(value)
        if self._torch is not None:
            self._torch.load_state_dict(self._torch.state_dict() | {"state": dict(state)})
