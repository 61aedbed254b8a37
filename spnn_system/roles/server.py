"""The server: it gets h1, computes the hidden layers, and hands h_L to the label holder; it has
neither X, theta nor labels.
"""

import torch

from spnn_system.config import Config
from spnn_system.roles.party import Life, Party
from spnn_system.roles.protocol_side import positions, seek, side_of
from spnn_system.roles.weights import Optimiser, Start


def main(config: Config, *, resume: bool = False) -> int:
    """Run the server to its end; returns the exit code of `Life.play`."""
    return Life(config, "server", resume=resume).play(work)


def work(party: Party) -> None:
    """All that the server does between the plan and the last word.

    A step: h1 by the protocol; h_L = f(h1) to the label holder; dL/dh_L from it; dL/dh1 to every
    holder, before the server moves its own layers.
    """
    config, plan, messages = party.config, party.plan, party.messages
    n_train = plan.training.train_rows
    side = side_of(config, party.role, plan, party.root, resume=party.resume)
    start = Start(party.root, seed=party.teaching_seed)
    hidden = start.hidden(plan.columns, plan.model.hidden, plan.model.activation)
    parameters = list(hidden.parameters())
    optimiser = Optimiser(
        parameters, name=plan.training.optimiser, lr=plan.training.lr, stream=party.root
    )
    first, label_holder = config.names[0], config.label_holder

    n_test = messages.receive_counts(first, "test rows", "n")["n"]
    party.schedule.expect(n_test)
    messages.run(side.connect())
    messages.run(side.prepare(n_train))

    def save() -> None:
        arrays = {name: value.numpy() for name, value in hidden.state_dict().items()}
        party.saves.save(arrays | optimiser.state, {"streams": positions(side)})

    kept = party.saves.restore(plan.start)
    if kept is None:
        save()
    else:
        hidden.load_state_dict(
            {name: torch.from_numpy(kept.arrays[name]) for name in hidden.state_dict()}
        )
        optimiser.state = kept.arrays
        seek(side, kept.notes["streams"])

    sizes = plan.sizes(n_train)
    for _ in party.schedule.epochs():
        for batch in party.schedule.steps():
            h1 = messages.run(side.step(sizes[batch])).requires_grad_()
            h_L = hidden(h1)
            messages.send(label_holder, "h_L", h_L.detach())
            back = messages.receive_tensor(label_holder, "dL/dh_L", h_L.shape)
            G, *gradients = torch.autograd.grad(h_L, [h1, *parameters], back)
            for name in config.names:
                messages.send(name, "dL/dh1", G)
            optimiser.step(gradients)
            if party.schedule.saves_now:
                save()

    party.progress.step += 1
    messages.run(side.prepare(n_test))
    with torch.no_grad():
        for n in plan.sizes(n_test):
            messages.send(label_holder, "h_L", hidden(messages.run(side.step(n))))
            party.progress.step += 1
    party.saves.leave(hidden.state_dict())
