"""DP-SGD for SPNN's net: held against gradients of one record at a time."""

import pytest
import torch

from ppkit.models import classification_loss
from ppkit.spnn import rivals, training
from ppkit.spnn.private_steps import PrivateSteps

N = 40


def net_and_rows(seed=0):
    net = rivals.NN([3, 2], (4, 3), rng=torch.Generator().manual_seed(seed), dtype=torch.float64)
    draws = torch.Generator().manual_seed(1)
    parts = [torch.randn(N, d, generator=draws, dtype=torch.float64) for d in (3, 2)]
    return net, parts, torch.arange(N) % 2


def one_step(*, clip, noise, seed=5):
    """Weights after one step on all rows, and what the step showed."""
    net, parts, y = net_and_rows()
    optimiser = torch.optim.SGD(net.parameters(), lr=1 / N)
    own = torch.Generator().manual_seed(seed)
    steps = PrivateSteps(l2_norm_clip=clip, noise_multiplier=noise, rng=own)
    steps.attach(net, optimiser)
    schedule = training.Schedule(1, N, loss="sum")
    run = training.train(net, parts, y, schedule, optimiser=optimiser, look_at=[0])
    return [p.detach() for p in net.parameters()], run.looks[0]


def record_gradients():
    """The slow way: one backward pass a record, all weights side by side."""
    net, parts, y = net_and_rows()
    net.prepare(parts)
    rows = []
    for i in range(N):
        net.zero_grad()
        classification_loss(net(torch.tensor([i])), y[i : i + 1]).backward()
        rows.append(torch.cat([p.grad.flatten() for p in net.parameters()]))
    return torch.stack(rows), torch.cat([p.detach().flatten() for p in net.parameters()])


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_step_is_the_sum_of_clipped_gradients(share):
    g, before = record_gradients()
    clip = float(g.norm(dim=1).quantile(share))
    by_hand = before - (g * (clip / g.norm(dim=1)).clamp(max=1)[:, None]).sum(dim=0) / N
    after, _ = one_step(clip=clip, noise=0.0)
    torch.testing.assert_close(torch.cat([p.flatten() for p in after]), by_hand)


def test_a_wide_clip_without_noise_is_plain_sgd():
    net, parts, y = net_and_rows()
    optimiser = torch.optim.SGD(net.parameters(), lr=1.0)
    plain = training.train(net, parts, y, training.Schedule(1, N), optimiser=optimiser, look_at=[0])
    after, look = one_step(clip=1e6, noise=0.0)
    torch.testing.assert_close(after, [p.detach() for p in net.parameters()])
    torch.testing.assert_close(look.h1_grad / N, plain.looks[0].h1_grad)
    torch.testing.assert_close(look.h_last_grad / N, plain.looks[0].h_last_grad)


def test_the_noise_is_the_multiplier_times_the_clip():
    quiet, _ = one_step(clip=0.2, noise=0.0)
    moved = []
    for seed in range(60):
        noisy, _ = one_step(clip=0.2, noise=3.0, seed=seed)
        moved += [N * (a - b).flatten() for a, b in zip(noisy, quiet)]
    all_moves = torch.cat(moved)
    # 60 draws of each weight: the deviation is known to a few percent
    assert float(all_moves.std()) == pytest.approx(0.6, rel=0.05)
    assert abs(float(all_moves.mean())) < 0.05


@pytest.mark.parametrize("wrong", [dict(l2_norm_clip=0.0), dict(noise_multiplier=-1.0)])
def test_settings_out_of_range_are_refused(wrong):
    about = dict(l2_norm_clip=1.0, noise_multiplier=1.0, rng=torch.Generator()) | wrong
    with pytest.raises(ValueError, match="got"):
        PrivateSteps(**about)
