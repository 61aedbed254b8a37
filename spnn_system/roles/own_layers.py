"""The server's own layers: a file of Python that the server alone runs, and all roles know the
checksum of.
"""

import hashlib

import torch
from torch import nn

from spnn_system.config import Config
from spnn_system.roles.weights import arrays_of


def own_layers(config: Config) -> nn.Module:
    """What `layers(n_in)` of the server's own file returns: any module from h1 to h_L.

    It maps (n, hidden[0]) to (n, hidden[1]), float32 both; dropout, batch normalisation and the
    like may be in it. Its start is drawn from torch's global generator, which is seeded here: by
    training.seed with secrets = "teaching", as `torch.manual_seed(seed)` does in one process.
    ValueError or FileNotFoundError in one sentence: no path, no file, another checksum (then
    nothing of it has run), no such function, a module that does not fit, or an error of its own.
    """
    path, (n_in, n_out) = config.layers, config.model.hidden
    if path is None:
        raise ValueError(
            f"{config.typed}: [model] layers_sha256 is of the server's own layers, and [server] "
            "has no layers: it must be the path of their file"
        )
    if not path.is_file():
        raise FileNotFoundError(f"the file of the server's own layers is not there: {path}")
    content = path.read_bytes()
    if (found := hashlib.sha256(content).hexdigest()) != config.model.layers_sha256:
        raise ValueError(
            f"{path} is not the file that all agreed on: its SHA-256 is {found}, and [model] "
            f"layers_sha256 is {config.model.layers_sha256}"
        )
    if config.protocol.secrets == "teaching":
        torch.manual_seed(config.training.seed)
    else:
        torch.seed()
    names = {"__name__": "layers", "__file__": str(path)}
    try:
        exec(compile(content, path, "exec"), names)
        if not callable(names.get("layers")):
            raise TypeError("it has no function layers")
        made = names["layers"](n_in)
        out = made.eval()(torch.zeros(2, n_in, requires_grad=True))
        if (out.shape, out.dtype) != ((2, n_out), torch.float32):
            raise TypeError(f"it gives {tuple(out.shape)} in {out.dtype} for 2 rows")
        arrays_of(made)
    except Exception as error:
        said = (str(error).splitlines() or [""])[0]
        raise ValueError(
            f"{path} must have a function layers(n_in) that returns a torch.nn.Module from "
            f"(n, {n_in}) to (n, {n_out}) in float32: {type(error).__name__}: {said}"
        ) from None
    return made
