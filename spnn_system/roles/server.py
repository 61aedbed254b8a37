"""The server: it gets h1, computes the hidden layers, and hands h_L to the label holder; it has
neither X, theta nor labels.
"""

import torch

from spnn_system.config import Config
from spnn_system.roles.party import Life, Party
from spnn_system.roles.weights import Optimiser, Start, put_back


def main(config: Config, *, resume: bool = False) -> int:
    """Run the server to its end; returns the exit code of `Life.play`."""
    return Life(config, "server", resume=resume).play(work)


def work(party: Party) -> None:
    """All that the server does between the plan and the last word.

    A step: h1 by the protocol; h_L = f(h1) to the label holder; dL/dh_L from it; dL/dh1 to every
    holder, before the server moves its own layers.
    """
    config, training, messages, side = (
        party.config,
        party.config.training,
        party.messages,
        party.side,
    )
    hidden = Start(config, party.root).hidden(party.plan.columns)
    parameters, label_holder = list(hidden.parameters()), config.label_holder
    put_back(config, party.role, hidden.state_dict())
    optimiser = Optimiser(parameters, training, party.root)

    n_test = messages.receive_counts(config.names[0], "test rows", "n")["n"]
    party.expect(n_test)
    messages.run(side.connect())
    if training.train_rows:
        messages.run(side.prepare(training.train_rows))
    party.saves.begin(party.plan.start, side, hidden.state_dict(), optimiser)

    sizes = training.sizes(training.train_rows)
    for _ in party.epochs():
        for batch in party.steps():
            h1 = messages.run(side.step(sizes[batch])).requires_grad_()
            h_L = hidden(h1)
            messages.send(label_holder, "h_L", h_L.detach())
            back = messages.receive_tensor(label_holder, "dL/dh_L", h_L.shape)
            G, *gradients = torch.autograd.grad(h_L, [h1, *parameters], back)
            for name in config.names:
                messages.send(name, "dL/dh1", G)
            optimiser.step(gradients)
            if party.saves_now:
                party.saves.save()

    party.progress.step += 1
    messages.run(side.prepare(n_test))
    with torch.no_grad():
        for n in training.sizes(n_test):
            messages.send(label_holder, "h_L", hidden(messages.run(side.step(n))))
            party.progress.step += 1
    if config.trained is None:
        party.saves.leave()
