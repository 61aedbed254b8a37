"""Bars of `ppkit.gradients` and of the selection: the step of DPSTGD against Opacus and against no
privacy at all."""

from __future__ import annotations

import copy

import numpy as np
import torch
from bars import BATCH, Bar, bar, on_one_thread, one_step, ratios
from opacus import GradSampleModule
from torch.nn import functional

from ppkit import gradients
from ppkit.dpstgd.training import DPSTGD
from ppkit.mechanisms import SELECTIONS

CLIP_BOUND, N_UPLOADS = 0.01, 1431


@on_one_thread
def run() -> list[Bar]:
    """Time all bars; the results of the two routes are compared before anything is timed."""
    model, X, y = one_step()
    hooked = GradSampleModule(copy.deepcopy(model), loss_reduction="sum")

    def opacus() -> torch.Tensor:
        hooked.zero_grad(set_to_none=True)
        functional.cross_entropy(hooked(X), y, reduction="sum").backward()
        means = [
            p.grad_sample.clamp(-CLIP_BOUND, CLIP_BOUND).mean(dim=0) for p in hooked.parameters()
        ]
        for p in hooked.parameters():
            p.grad_sample = None
        return torch.cat([mean.flatten() for mean in means])

    def plain() -> torch.Tensor:
        model.zero_grad(set_to_none=True)
        functional.cross_entropy(model(X), y, reduction="sum").backward()
        return torch.cat([p.grad.flatten() for p in model.parameters()])

    def fused() -> torch.Tensor:
        return gradients.mean_clipped(model, X, y, clip_bound=CLIP_BOUND)

    if not torch.allclose(fused(), opacus(), rtol=0, atol=1e-6):
        raise AssertionError("mean_clipped and Opacus disagree")
    noise, upload = np.random.default_rng(0), DPSTGD(1.0, N_UPLOADS, CLIP_BOUND)
    mean = fused().numpy()

    def select() -> object:
        return SELECTIONS["gumbel"](mean, N_UPLOADS, scale=2 * CLIP_BOUND / BATCH, rng=noise)

    def step() -> torch.Tensor:
        return upload(model, X, y, expected_batch=BATCH, rng=noise)

    return [
        bar(
            "clipped_mean_vs_opacus",
            "Opacus 1.6.0 hooks + clamp + mean, over gradients.mean_clipped",
            ratios(opacus, fused),
            threads=1,
            at_least=25.0,
        ),
        bar(
            "clipped_mean_vs_plain",
            "gradients.mean_clipped, over a plain summed gradient by autograd",
            ratios(fused, plain),
            threads=1,
            at_most=2.5,
        ),
        bar(
            "selection_share",
            "Gumbel top-n selection with its noise, over one whole DPSTGD step",
            ratios(select, step),
            threads=1,
            at_most=0.5,
        ),
    ]
