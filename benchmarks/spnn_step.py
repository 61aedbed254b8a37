"""Bars of `ppkit.spnn.layer`: one training step of SPNN over the same step of a plain torch
network, 28-8-8-1, batch 5,000."""

from __future__ import annotations

import itertools

import torch
from bars import Bar, bar, on_one_core, on_one_thread, ratios

from ppkit.models import classification_loss, mlp
from ppkit.spnn.layer import SPNN

BATCH, FEATURES, HIDDEN, LR, CALLS = 5_000, 28, (8, 8), 0.1, 20
SS = {"protocol": "ss", "form": "lean"}
BARS = {
    "masked": ({"protocol": "masked"}, 2.0, False),
    "ss": (SS, 12.0, False),
    "masked_rows": ({"protocol": "masked"}, 2.0, True),
    "ss_rows": (SS, 12.0, True),
}


@on_one_core()
@on_one_thread
def run() -> list[Bar]:
    """Time all bars; triples are dealt before each call of ss and not timed. Losses are compared
    first.

    The batch is a slice, or, in the bars named rows, a tensor of shuffled row numbers, as
    `training.train` passes them.
    """
    rng = torch.Generator().manual_seed(0)
    X = torch.randn(BATCH, FEATURES, generator=rng)
    y = torch.randint(0, 2, (BATCH,), generator=rng)
    bars = []
    for name, (choices, at_most, shuffled) in BARS.items():
        rows = torch.randperm(BATCH, generator=rng) if shuffled else slice(None)
        plain, ours = _plain(X, y, rows), _ours(X, y, choices, rows)
        losses = [[step() for _ in range(10)] for step in (plain, ours)]
        if not torch.allclose(*(torch.tensor(each) for each in losses), rtol=0, atol=1e-4):
            raise AssertionError(f"protocol {name} and the plain network disagree")
        bars.append(
            bar(
                f"spnn_{name}_step_vs_plain",
                f"SPNN {choices['protocol']}, one step at 28-8-8-1, batch 5,000, "
                f"over plain torch's; {'rows by number' if shuffled else 'a slice of rows'}, "
                "triples given",
                ratios(ours, plain, calls=CALLS),
                threads=1,
                at_most=at_most,
            )
        )
    return bars


def _plain(X, y, rows):
    net = mlp((FEATURES, *HIDDEN, 1), rng=torch.Generator().manual_seed(1), activation="sigmoid")
    net[0].bias = None
    return _step(lambda some: net(X[some]), net.parameters(), rows, y)


def _ours(X, y, choices, rows):
    net = SPNN([FEATURES // 2] * 2, HIDDEN, rng=torch.Generator().manual_seed(1), **choices)
    net.prepare(X.split(FEATURES // 2, dim=1))
    if choices["protocol"] == "ss":
        for _ in itertools.repeat(
            None, 10 + 3 + 7 * CALLS
        ):  # what is compared, warmed up and timed
            net.first.protocol.deal(rows)
    return _step(net, net.parameters(), rows, y)


def _step(net, parameters, rows, y):
    optimiser = torch.optim.SGD(parameters, lr=LR)

    def step() -> float:
        optimiser.zero_grad()
        loss = classification_loss(net(rows), y[rows])
        loss.backward()
        optimiser.step()
        return float(loss.detach())

    return step
