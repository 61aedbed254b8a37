"""The server: it gets h1, computes the hidden layers, and hands h_L to the label holder; it has
neither X, theta nor labels.
"""

import hashlib
from typing import Any

import torch
from torch import nn

from ppkit.spnn.party import Server
from spnn_system.config import Config
from spnn_system.roles.party import Party
from spnn_system.roles.weights import Optimiser, Start, arrays_of, put_back


def main(config: Config, *, resume: bool = False) -> int:
    """Run the server to its end; returns the exit code of `Party.play`.

    ValueError or FileNotFoundError in one sentence if its own layers are not right: before it says
    hello.
    """
    own = own_layers(config) if config.model.layers_sha256 else None
    return Party(config, "server", resume=resume).play(lambda party: work(party, own))


def work(party: Party, own: nn.Module | None) -> None:
    """All that the server does between the plan and the last word.

    A step: h1 by the protocol; h_L = f(h1) to the label holder; dL/dh_L from it; dL/dh1 to every
    holder, before the server moves its own layers.
    own: f, where it is the server's own; None for the layers that the config describes.
    """
    config, training, side = party.config, party.config.training, party.side_as(Server)
    hidden = Start(config, party.root).hidden(party.plan.columns) if own is None else own
    label_holder, width = config.label_holder, config.model.hidden[-1]
    put_back(config, party.role, hidden)
    optimiser = Optimiser(hidden, training, party.root)

    n_test = party.receive_count(config.names[0], "test rows", "n")["n"]
    party.run(side.connect())
    if training.train_rows:
        party.run(side.prepare(training.train_rows))
    party.saves.begin(party.plan.start, side, hidden, optimiser)

    sizes = training.sizes(training.train_rows)
    hidden.train()
    for _ in party.epochs():
        for batch in party.steps():
            h1 = party.run(side.step(sizes[batch])).requires_grad_()
            hidden.zero_grad()
            h_L = hidden(h1)
            party.send(label_holder, "h_L", h_L.detach())
            came = party.receive_tensor(label_holder, "dL/dh_L", (len(h1), width))
            # h_L.backward(came) to the bit, which would load torch's symbolic shapes, half a second
            (h_L * came).sum().backward()
            for name in config.names:
                party.send(name, "dL/dh1", h1.grad)
            optimiser.step()
            if training.saves_after(party.progress.step):
                party.saves.save()

    party.progress.step += 1
    party.run(side.prepare(n_test))
    hidden.eval()
    with torch.no_grad():
        for n in training.sizes(n_test):
            party.send(label_holder, "h_L", hidden(party.run(side.step(n))))
            party.progress.step += 1
    if config.trained is None:
        party.saves.leave()


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
    found = hashlib.sha256(content).hexdigest()
    if found != config.model.layers_sha256:
        raise ValueError(
            f"{path} is not the file that all agreed on: its SHA-256 is {found}, and [model] "
            f"layers_sha256 is {config.model.layers_sha256}"
        )
    if config.protocol.secrets == "teaching":
        torch.manual_seed(config.training.seed)
    else:
        torch.seed()
    names: dict[str, Any] = {"__name__": "layers", "__file__": str(path)}
    try:
        exec(compile(content, path, "exec"), names)
        made = names["layers"](n_in)
        out = made.eval()(torch.zeros(2, n_in, requires_grad=True))
        if (out.shape, out.dtype) != ((2, n_out), torch.float32):
            raise TypeError(f"it gives {tuple(out.shape)} in {out.dtype} for 2 rows")
        arrays_of(made)
    except (Exception, SystemExit) as error:  # a file may end its process as it is loaded
        said = (str(error).splitlines() or [""])[0]
        raise ValueError(
            f"{path} must have a function layers(n_in) that returns a torch.nn.Module from "
            f"(n, {n_in}) to (n, {n_out}) in float32: {type(error).__name__}: {said}"
        ) from None
    return made
