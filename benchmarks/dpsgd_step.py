"""Bar of `ppkit.dpsgd_optimizer`: one whole step of DP-SGD against Opacus' ghost clipping, same parts on both sides."""

from __future__ import annotations

import copy
import warnings

import torch
from bars import Bar, bar, ratios
from opacus.grad_sample import GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from torch import nn

from ppkit.dpsgd_optimizer import DPOptimizer
from ppkit.models import mlp

SIZES, BATCH, L2_NORM_CLIP, NOISE_MULTIPLIER, LR = (264, 50, 20, 2), 1166, 1.0, 1.1, 0.05


def run() -> list[Bar]:
    """Time the bar on one thread; both routes take ten noiseless steps and are compared before anything is timed."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Opacus' backward hooks warn that no input requires a gradient
            return _run()
    finally:
        torch.set_num_threads(threads)


def _run() -> list[Bar]:
    rng = torch.Generator().manual_seed(0)
    model = mlp(SIZES, rng=rng)
    X = torch.randn(BATCH, SIZES[0], generator=rng)
    y = torch.randint(0, SIZES[-1], (BATCH,), generator=rng)
    weights = [_trained(route(copy.deepcopy(model), X, y, noise_multiplier=0.0)) for route in (_ours, _opacus)]
    if not all(torch.allclose(a, b, rtol=0, atol=1e-5) for a, b in zip(*weights, strict=True)):
        raise AssertionError("DPOptimizer and Opacus disagree")
    (_, ours), (_, opacus) = (
        route(copy.deepcopy(model), X, y, noise_multiplier=NOISE_MULTIPLIER) for route in (_ours, _opacus)
    )
    return [
        bar(
            "dpsgd_step_vs_opacus", "Opacus 1.6.0 ghost clipping + noise + SGD, over one step of DPOptimizer",
            ratios(opacus, ours), threads=1, at_least=2.0,
        )
    ]


def _ours(model, X, y, *, noise_multiplier):
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    defended = DPOptimizer(optimizer, l2_norm_clip=L2_NORM_CLIP, noise_multiplier=noise_multiplier,
                           rng=torch.Generator().manual_seed(1))
    return model, lambda: defended.step(model, X, y)


def _opacus(model, X, y, *, noise_multiplier):
    hooked = GradSampleModuleFastGradientClipping(model, max_grad_norm=L2_NORM_CLIP, use_ghost_clipping=True)
    optimizer = DPOptimizerFastGradientClipping(
        torch.optim.SGD(model.parameters(), lr=LR), noise_multiplier=noise_multiplier, max_grad_norm=L2_NORM_CLIP,
        expected_batch_size=BATCH, generator=torch.Generator().manual_seed(1),
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
