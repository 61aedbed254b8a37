"""The dealer of protocol ss: triples ahead of every epoch; it gets no message that depends on data."""

from __future__ import annotations

from spnn_system.config import Config
from spnn_system.roles.order import Order
from spnn_system.roles.part import Part
from spnn_system.roles.sides import positions, seek, side_of

DEALER = "dealer"


def main(config: Config, *, resume: bool = False) -> int:
    """Run the dealer to its end; returns the exit code of `Part.play`."""
    return Part(config, DEALER, resume=resume).play(work)


def work(part: Part) -> None:
    """All that the dealer does between the plan and the last word.

    It is an epoch ahead of the others: of every step at which they write a checkpoint it writes its own while it deals, so
    that all can go on from the same step. With secretly reshuffled rows and triples for rows of a data set (the lean form)
    it is told the order, by the first holder.
    """
    config, plan = part.config, part.plan
    side = side_of(part)
    n_test = part.receive_counts(config.names[0], "test rows", "n")["n"]
    part.expect(n_test)
    order = Order.for_dealer(part, plan["train_rows"], plan["batch"])
    part.run(side.connect())
    part.run(side.prepare(plan["train_rows"]))

    kept = part.restore()
    if kept is None:
        part.save({}, {"streams": positions(side)})
    else:
        seek(side, kept.notes["streams"])

    for epoch in part.epochs():
        began = part.step
        for rows in order.left(part, epoch):
            part.run(side.deal(rows))
            if part.agreed(part.step):
                part.save({}, {"streams": positions(side)}, keep_from=began)
        part.flush()

    part.step += 1
    part.run(side.prepare(n_test))
    for rows in order.in_turn(n_test):
        part.run(side.deal(rows))
        part.step += 1
