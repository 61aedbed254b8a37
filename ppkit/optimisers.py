"""The optimisers of torch.optim, to the last bit, without torch's compiler.

`torch.optim.SGD(...)` imports torch._dynamo and sympy, a second of processor time in every process:
torch wraps the methods of its optimisers in case somebody compiles them. The classes here are
torch's own, with the same methods out of their wrappers. They take the same arguments; hooks,
schedules and state dicts work as there, and a state dict of the one loads into the other.
`torch.compile` cannot take them.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch

Step = Callable[..., Any]


class Optimizer(torch.optim.Optimizer):
    """torch.optim.Optimizer: what an optimiser with a step of its own inherits."""

    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    load_state_dict = inspect.unwrap(torch.optim.Optimizer.load_state_dict)
    state_dict = inspect.unwrap(torch.optim.Optimizer.state_dict)
    zero_grad = inspect.unwrap(torch.optim.Optimizer.zero_grad)


def _step_of(kind: type[torch.optim.Optimizer]) -> Step:
    """The step of one of torch's optimisers, which records gradients only if it is made with
    differentiable=True."""
    step = inspect.unwrap(kind.step)

    @functools.wraps(step)
    def plain(self: Optimizer, closure: Callable[[], float] | None = None) -> float | None:
        with torch.set_grad_enabled(self.defaults["differentiable"]):
            return step(self, closure)

    return plain


class Adadelta(Optimizer, torch.optim.Adadelta):
    """torch.optim.Adadelta."""

    step = _step_of(torch.optim.Adadelta)


class Adagrad(Optimizer, torch.optim.Adagrad):
    """torch.optim.Adagrad."""

    step = _step_of(torch.optim.Adagrad)


class Adam(Optimizer, torch.optim.Adam):
    """torch.optim.Adam."""

    step = _step_of(torch.optim.Adam)


class Adamax(Optimizer, torch.optim.Adamax):
    """torch.optim.Adamax."""

    step = _step_of(torch.optim.Adamax)


class AdamW(Optimizer, torch.optim.AdamW):
    """torch.optim.AdamW."""

    step = _step_of(torch.optim.AdamW)


class NAdam(Optimizer, torch.optim.NAdam):
    """torch.optim.NAdam."""

    step = _step_of(torch.optim.NAdam)


class RAdam(Optimizer, torch.optim.RAdam):
    """torch.optim.RAdam."""

    step = _step_of(torch.optim.RAdam)


class RMSprop(Optimizer, torch.optim.RMSprop):
    """torch.optim.RMSprop."""

    step = _step_of(torch.optim.RMSprop)


class SGD(Optimizer, torch.optim.SGD):
    """torch.optim.SGD."""

    step = _step_of(torch.optim.SGD)
