#!/usr/bin/env bash
# Guess: a training in float64 that goes on from state_dict() takes the steps that it would have taken, to the last bit, as with Adam.
# Seen: torch 2.13.0 keeps NAdam's mu_product in float32. load_state_dict() casts it to the parameters' float64, and the steps differ.
#   Adam, RAdam and Adamax go on to the bit. float32 parameters are not affected.
# Why it matters: a record that is resumed must print what an uninterrupted one prints; and who compares two runs by checksum finds two.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" - <<'PY'
import copy

import torch


def step(parameter, optimiser):
    optimiser.zero_grad()
    ((parameter - 3) ** 2).sum().backward()
    optimiser.step()


def resumed_equals_uninterrupted(kind, dtype):
    """Five steps, a copy by state_dict, three more steps of both."""
    parameter = torch.nn.Parameter(torch.linspace(-1, 1, 5, dtype=dtype))
    optimiser = kind([parameter], lr=0.1)
    for _ in range(5):
        step(parameter, optimiser)
    other = torch.nn.Parameter(parameter.detach().clone())
    resumed = kind([other], lr=0.1)
    resumed.load_state_dict(copy.deepcopy(optimiser.state_dict()))
    if kind is torch.optim.NAdam:
        before, after = (o.state[p]["mu_product"].dtype for o, p in ((optimiser, parameter), (resumed, other)))
        print("mu_product of NAdam:", before, "before,", after, "after")
    for _ in range(3):
        step(parameter, optimiser), step(other, resumed)
    return torch.equal(parameter, other)


print("torch", torch.__version__)
for dtype in (torch.float32, torch.float64):
    for kind in (torch.optim.Adam, torch.optim.RAdam, torch.optim.Adamax, torch.optim.NAdam):
        same = resumed_equals_uninterrupted(kind, dtype)
        print(kind.__name__, dtype, "same bits" if same else "other numbers")
        assert same == (kind is not torch.optim.NAdam or dtype == torch.float32)
PY
