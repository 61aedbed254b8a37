"""A role's checkpoints keep what its optimiser needs to go on."""

from contextlib import closing
from types import SimpleNamespace

import torch
from torch import nn

from ppkit.spnn.randomness import Stream
from spnn_system.config import Training
from spnn_system.roles.control_channel import Progress
from spnn_system.roles.saves import Saves
from spnn_system.roles.weights import Optimiser
from spnn_system.run.checkpoints import Checkpoints
from spnn_system.run.journal import Journal
from spnn_system.run.role_folder import MessageLog


def of_sgld(folder, journal):
    """A linear part under SGLD, whose role saves into this folder."""
    rng = torch.Generator().manual_seed(1)
    part = nn.Linear(3, 2)
    for parameter in part.parameters():
        parameter.data.normal_(generator=rng)
    training = Training(train_rows=1, optimiser="sgld", lr=0.1)
    optimiser = Optimiser(part, training, Stream(bytes(32)))
    progress = Progress(last=9)
    saves = Saves(
        Checkpoints(folder, about={}),
        journal,
        MessageLog(folder / "messages.jsonl"),
        SimpleNamespace(tell=lambda kind, **what: None),
        progress,
    )
    return part, optimiser, saves, progress


def moved(part, optimiser, steps) -> None:
    for step in steps:
        for parameter in part.parameters():
            parameter.grad = torch.full_like(parameter, float(step))
        optimiser.step()


def test_sgld_goes_on_with_the_noise_that_it_would_have_had(tmp_path):
    no_protocol = SimpleNamespace(streams={})
    with closing(Journal(tmp_path)) as journal:
        journal.begin()
        whole, optimiser, saves, progress = of_sgld(tmp_path, journal)
        saves.begin(None, no_protocol, whole, optimiser)
        moved(whole, optimiser, range(4))
        progress.step = 4
        saves.save()
        moved(whole, optimiser, range(4, 9))
        part, optimiser, saves, progress = of_sgld(tmp_path, journal)
        saves.begin(4, no_protocol, part, optimiser)
    assert progress.step == 4
    at_4 = part.weight.detach().clone()
    moved(part, optimiser, range(4, 9))
    assert torch.equal(part.weight, whole.weight) and torch.equal(part.bias, whole.bias)
    assert not torch.equal(part.weight, at_4)


def test_torchs_generator_has_no_part_in_the_noise_of_sgld(tmp_path):
    found = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        part, optimiser, *_ = of_sgld(tmp_path, None)
        before = torch.get_rng_state()
        moved(part, optimiser, range(2))
        assert torch.equal(torch.get_rng_state(), before)
        found.append(part.weight.detach().clone())
    assert torch.equal(*found)
