"""Each role's optimiser, kept as arrays."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from ppkit.spnn.randomness import Stream
from spnn_system.config import Training
from spnn_system.roles.weights import KINDS, Optimiser, arrays_of, put


@pytest.mark.parametrize("name", KINDS)
def test_an_optimiser_kept_as_arrays_goes_on_as_torchs_own(name):
    torch.manual_seed(5)
    gradients = [[torch.randn(3, 2), torch.randn(2)] for _ in range(9)]
    start = {"weight": torch.randn(3, 2), "bias": torch.randn(2)}

    def made(kind):
        part = nn.Module()
        for key, value in start.items():
            part.register_parameter(key, nn.Parameter(value.clone()))
        return part, kind(part)

    def moved(part, optimiser, steps):
        for step in steps:
            part.weight.grad, part.bias.grad = gradients[step]
            optimiser.step()

    training = Training(train_rows=1, optimiser=name, lr=0.02)
    ours = lambda part: Optimiser(part, training, Stream(bytes(32)))
    kind = getattr(torch.optim, KINDS[name])
    whole, its = made(lambda part: kind(part.parameters(), lr=0.02))
    moved(whole, its, range(9))
    part, optimiser = made(ours)
    moved(part, optimiser, range(4))
    kept = {key: value.copy() for key, value in arrays_of(part).items()}
    state = {key: value.copy() for key, value in optimiser.state.items()}
    assert all(type(value) is np.ndarray and value.dtype != object for value in state.values())
    again, optimiser = made(ours)
    put(again, kept)
    optimiser.state = state
    moved(again, optimiser, range(4, 9))
    for key, value in arrays_of(whole).items():
        assert np.array_equal(arrays_of(again)[key], value), key
        assert not np.array_equal(kept[key], value)


@pytest.mark.parametrize("name", ["sgd", "sgld", "adam"])
def test_a_part_without_parameters_is_moved_by_nothing(name):
    optimiser = Optimiser(nn.Sigmoid(), Training(train_rows=1, optimiser=name), Stream(bytes(32)))
    optimiser.step()
    assert optimiser.state == {}
    optimiser.state = {}


@pytest.mark.processes
@pytest.mark.slow
def test_an_optimiser_loads_no_library_that_a_role_does_not_use():
    code = (
        "import sys\n"
        "import spnn_system.roles.weights\n"
        "slow = {'pandas', 'scipy', 'sklearn', 'sympy', 'torch._dynamo'}\n"
        "print(*sorted(slow & set(sys.modules)), end='', file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
