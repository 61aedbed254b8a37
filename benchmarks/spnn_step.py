"""Bars of `ppkit.spnn.layer`: one training step of SPNN over the same step of a plain torch network, 28-8-8-1, batch 5,000."""

from __future__ import annotations

import itertools

import torch
from bars import Bar, bar, on_one_thread, ratios

from ppkit.models import classification_loss, mlp
from ppkit.spnn.layer import SPNN

BATCH, FEATURES, HIDDEN, LR, CALLS = 5_000, 28, (8, 8), 0.1, 20
BARS = {"masked": ({"protocol": "masked"}, 2.0), "ss": ({"protocol": "ss", "form": "lean"}, 12.0)}


@on_one_thread
def run() -> list[Bar]:
    """Time both bars; triples are dealt before each call of ss and not timed. Losses are compared first."""
    rng = torch.Generator().manual_seed(0)
    X = torch.randn(BATCH, FEATURES, generator=rng)
    y = torch.randint(0, 2, (BATCH,), generator=rng)
    bars = []
    for name, (choices, at_most) in BARS.items():
        plain, ours = _plain(X, y), _ours(X, y, choices)
        losses = [[step() for _ in range(10)] for step in (plain, ours)]
        if not torch.allclose(*(torch.tensor(each) for each in losses), rtol=0, atol=1e-4):
            raise AssertionError(f"protocol {name} and the plain network disagree")
        bars.append(bar(f"spnn_{name}_step_vs_plain", f"SPNN {name}, one step at 28-8-8-1, batch 5,000, over plain torch's; "
                        "triples given", ratios(ours, plain, calls=CALLS), threads=1, at_most=at_most))
    return bars


def _plain(X, y):
    net = mlp((FEATURES, *HIDDEN, 1), rng=torch.Generator().manual_seed(1), activation="sigmoid")
    net[0].bias = None
    return _step(net, X, y)


def _ours(X, y, choices):
    net = SPNN([FEATURES // 2] * 2, HIDDEN, rng=torch.Generator().manual_seed(1), **choices)
    net.prepare(X.split(FEATURES // 2, dim=1))
    if choices["protocol"] == "ss":
        for _ in itertools.repeat(None, 10 + 3 + 7 * CALLS):         # what is compared, warmed up and timed
            net.first.protocol.deal(slice(None), HIDDEN[0])
    return _step(net, slice(None), y)


def _step(net, batch, y):
    optimiser = torch.optim.SGD(net.parameters(), lr=LR)

    def step() -> float:
        optimiser.zero_grad()
        loss = classification_loss(net(batch), y)
        loss.backward()
        optimiser.step()
        return float(loss.detach())

    return step
