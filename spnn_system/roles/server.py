"""The server: it gets h1, computes the hidden layers, and hands h_L to the label holder; it has
neither X, theta nor labels.
"""

import torch
from torch import nn

from spnn_system.config import Config
from spnn_system.roles.own_layers import own_layers
from spnn_system.roles.party import Life, Party
from spnn_system.roles.weights import Optimiser, Start, put_back


def main(config: Config, *, resume: bool = False) -> int:
    """Run the server to its end; returns the exit code of `Life.play`.

    ValueError or FileNotFoundError in one sentence if its own layers are not right: before it says
    hello.
    """
    own = own_layers(config) if config.model.layers_sha256 else None
    return Life(config, "server", resume=resume).play(lambda party: work(party, own))


def work(party: Party, own: nn.Module | None) -> None:
    """All that the server does between the plan and the last word.

    A step: h1 by the protocol; h_L = f(h1) to the label holder; dL/dh_L from it; dL/dh1 to every
    holder, before the server moves its own layers.
    own: f, where it is the server's own; None for the layers that the config describes.
    """
    config, training, messages, side = (
        party.config,
        party.config.training,
        party.messages,
        party.side,
    )
    hidden = Start(config, party.root).hidden(party.plan.columns) if own is None else own
    label_holder, width = config.label_holder, config.model.hidden[-1]
    put_back(config, party.role, hidden)
    optimiser = Optimiser(hidden, training, party.root)

    n_test = messages.receive_counts(config.names[0], "test rows", "n")["n"]
    messages.run(side.connect())
    if training.train_rows:
        messages.run(side.prepare(training.train_rows))
    party.saves.begin(party.plan.start, side, hidden, optimiser)

    sizes = training.sizes(training.train_rows)
    hidden.train()
    for _ in party.epochs():
        for batch in party.steps():
            h1 = messages.run(side.step(sizes[batch])).requires_grad_()
            hidden.zero_grad()
            h_L = hidden(h1)
            messages.send(label_holder, "h_L", h_L.detach())
            h_L.backward(messages.receive_tensor(label_holder, "dL/dh_L", (len(h1), width)))
            for name in config.names:
                messages.send(name, "dL/dh1", h1.grad)
            optimiser.step()
            if training.saves_after(party.progress.step):
                party.saves.save()

    party.progress.step += 1
    messages.run(side.prepare(n_test))
    hidden.eval()
    with torch.no_grad():
        for n in training.sizes(n_test):
            messages.send(label_holder, "h_L", hidden(messages.run(side.step(n))))
            party.progress.step += 1
    if config.trained is None:
        party.saves.leave()
