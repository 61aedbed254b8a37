"""The first layer without protection, which the protocols are compared with."""

from __future__ import annotations

import torch

from ppkit.spnn.holders import SERVER, Holder, Server
from ppkit.spnn.in_process import Protocol


class _PlainHolder(Holder):
    def begin(self, rows, theta):
        self.take(rows)
        return self.to_server("X theta", self.product(theta))


class _PlainServer(Server):
    def step(self, n):
        parts = list((yield from self.gather("X theta", n, self.dtype)).values())
        return sum(parts[1:], parts[0])


class Plain(Protocol):
    """No protection: every holder sends X_i theta_i in the clear, as floating point.

    The limit that the others are compared with; the server sees each holder's part, not only the
    sum.
    """

    name = "plain"
    sees = "server: X_i theta_i of each holder, in the clear; holders: nothing"
    compute = "k float products"
    sides = _PlainHolder, _PlainServer, None

    @classmethod
    def received(cls, role, sender, names, truncation=None):
        return ["X theta"] if role == SERVER and sender in names else []

    def error_bound(self, rows, thetas):
        """0: nothing is rounded but by floating point."""
        return torch.zeros_like(super().error_bound(rows, thetas))
