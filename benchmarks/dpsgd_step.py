"""Bar of `ppkit.dpsgd.DPOptimizer`: one whole step of DP-SGD against Opacus' ghost clipping, same
parts on both sides."""

from __future__ import annotations

import copy

import torch
from bars import BATCH, Bar, bar, on_one_core, on_one_thread, one_step, ratios
from opacus.grad_sample import GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from torch import nn

from ppkit.dpsgd import DPOptimizer

L2_NORM_CLIP, NOISE_MULTIPLIER, LR = 1.0, 1.1, 0.05


@on_one_core()
@on_one_thread
def run() -> list[Bar]:
    """Time the bar; both routes take ten noiseless steps and are compared before anything is
    timed."""
    model, X, y = one_step()
    weights = [
        _trained(route(copy.deepcopy(model), X, y, noise_multiplier=0.0))
        for route in (_ours, _opacus)
    ]
    if not all(torch.allclose(a, b, rtol=0, atol=1e-5) for a, b in zip(*weights, strict=True)):
        raise AssertionError("DPOptimizer and Opacus disagree")
    (_, ours), (_, opacus) = (
        route(copy.deepcopy(model), X, y, noise_multiplier=NOISE_MULTIPLIER)
        for route in (_ours, _opacus)
    )
    return [
        bar(
            "dpsgd_step_vs_opacus",
            "Opacus 1.6.0 ghost clipping + noise + SGD, over one step of DPOptimizer",
            ratios(opacus, ours),
            threads=1,
            at_least=2.0,
        )
    ]


def _ours(model, X, y, *, noise_multiplier):
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    defended = DPOptimizer(
        optimizer,
        l2_norm_clip=L2_NORM_CLIP,
        noise_multiplier=noise_multiplier,
        rng=torch.Generator().manual_seed(1),
    )
    return model, lambda: defended.step(model, X, y)


def _opacus(model, X, y, *, noise_multiplier):
    hooked = GradSampleModuleFastGradientClipping(
        model, max_grad_norm=L2_NORM_CLIP, use_ghost_clipping=True
    )
    optimizer = DPOptimizerFastGradientClipping(
        torch.optim.SGD(model.parameters(), lr=LR),
        noise_multiplier=noise_multiplier,
        max_grad_norm=L2_NORM_CLIP,
        expected_batch_size=BATCH,
        generator=torch.Generator().manual_seed(1),
    )
    criterion = DPLossFastGradientClipping(hooked, optimizer, nn.CrossEntropyLoss())

    def step():
        optimizer.zero_grad()
        criterion(hooked(X), y).backward()
        optimizer.step()

    return model, step


def _trained(route) -> list[torch.Tensor]:
    model, step = route
    for _ in range(10):
        step()
    return [p.detach() for p in model.parameters()]
