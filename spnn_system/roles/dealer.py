"""The dealer of protocol ss: triples ahead of every epoch; it gets no message that depends on
data.
"""

from torch import nn

from ppkit.spnn.party import DealerParty
from spnn_system.config import Config
from spnn_system.roles.party import Party
from spnn_system.roles.weights import Optimiser


def main(config: Config, *, resume: bool = False) -> int:
    """Run the dealer to its end; returns the exit code of `Party.play`."""
    return Party(config, "dealer", resume=resume).play(work)


def work(party: Party) -> None:
    """All that the dealer does between the plan and the last word.

    It is an epoch ahead of the others: of every step at which they write a checkpoint it writes its
    own while it deals, so that all can go on from the same step. With secretly reshuffled rows and
    triples for rows of a data set (the lean form) it is told the order, by the first holder.
    """
    config, side = party.config, party.side_as(DealerParty)
    n_train = config.training.train_rows
    n_test = party.receive_count(config.names[0], "test rows", "n")["n"]
    order = party.row_order()
    party.run(side.connect())
    if n_train:
        party.run(side.prepare(n_train))
    nothing = nn.Module()  # its part of the model
    optimiser = Optimiser(nothing, config.training, party.root)
    party.saves.begin(party.plan.start, side, nothing, optimiser)

    for epoch in party.epochs():
        began, batches = party.progress.step, order.epoch(epoch)
        for number in party.steps():
            party.run(side.deal(batches[number]))
            if config.training.saves_after(party.progress.step):
                party.saves.save(keep_from=began)
        party.control.endpoint.flush()

    party.progress.step += 1
    party.run(side.prepare(n_test))
    for rows in order.in_turn(n_test):
        party.run(side.deal(rows))
        party.progress.step += 1
