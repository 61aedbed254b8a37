"""The server: it gets h1, computes the hidden layers, and hands h_L to the label holder; it has neither X, theta nor labels."""

from __future__ import annotations

import torch

from spnn_system.config import Config
from spnn_system.roles.part import Part
from spnn_system.roles.sides import positions, seek, side_of
from spnn_system.roles.weights import Optimiser, Start

SERVER = "server"


def main(config: Config, *, resume: bool = False) -> int:
    """Run the server to its end; returns the exit code of `Part.play`."""
    return Part(config, SERVER, resume=resume).play(work)


def work(part: Part) -> None:
    """All that the server does between the plan and the last word.

    A step: h1 by the protocol; h_L = f(h1) to the label holder; dL/dh_L from it; dL/dh1 to every holder, before the server
    moves its own layers.
    """
    config, plan = part.config, part.plan
    side = side_of(part)
    start = Start(part.root, seed=config.training.seed if part.teaching else None)
    hidden = start.hidden(plan["columns"], plan["hidden"], plan["activation"])
    parameters = list(hidden.parameters())
    optimiser = Optimiser(parameters, name=plan["optimiser"], lr=plan["lr"], stream=part.root)
    first, label_holder = config.names[0], config.label_holder

    n_test = part.receive_counts(first, "test rows", "n")["n"]
    part.expect(n_test)
    part.run(side.connect())
    part.run(side.prepare(plan["train_rows"]))

    def save() -> None:
        arrays = {name: value.numpy() for name, value in hidden.state_dict().items()}
        part.save(arrays | optimiser.state, {"streams": positions(side)})

    kept = part.restore()
    if kept is None:
        save()
    else:
        hidden.load_state_dict({name: torch.from_numpy(kept.arrays[name]) for name in hidden.state_dict()})
        optimiser.state = kept.arrays
        seek(side, kept.notes["streams"])

    sizes = part.sizes(plan["train_rows"])
    for _ in part.epochs():
        for batch in part.steps():
            h1 = part.run(side.step(sizes[batch])).requires_grad_()
            h_L = hidden(h1)
            part.send(label_holder, "h_L", h_L.detach())
            back = part.receive_tensor(label_holder, "dL/dh_L", h_L.shape)
            G, *gradients = torch.autograd.grad(h_L, [h1, *parameters], back)
            for name in config.names:
                part.send(name, "dL/dh1", G)
            optimiser.step(gradients)
            if part.agreed(part.step):
                save()

    part.step += 1
    part.run(side.prepare(n_test))
    with torch.no_grad():
        for n in part.sizes(n_test):
            part.send(label_holder, "h_L", hidden(part.run(side.step(n))))
            part.step += 1
    part.leave(hidden.state_dict())
