"""Bars of `ppkit.gradients`, of the selection, and of arms that are trained together: the step of
DPSTGD against Opacus and against no privacy at all, and `run_arms` against one by one."""

from __future__ import annotations

import copy
import time
from types import SimpleNamespace

import numpy as np
import torch
from bars import BATCH, SIZES, Bar, bar, on_one_core, on_one_thread, one_step, ratios
from opacus import GradSampleModule
from torch.nn import functional

from ppkit import gradients
from ppkit.dpstgd.training import run_arm, run_arms
from ppkit.dpstgd.uploads import DPSTGD, PlainSGD
from ppkit.mechanisms import SELECTIONS

CLIP_BOUND, N_UPLOADS = 0.01, 1431


@on_one_core()
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
        bar(
            "arms_together",
            "six arms of Fig. 3 one by one, over the same together: five banks of 116,640 rows, "
            "q .01, 50 rounds, test AUC in ten of them",
            together(),
            threads=1,
            at_least=1.2,
        ),
    ]


def together() -> list[float]:
    """Three ratios; the histories are compared to the bit each time."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((700_000, SIZES[0]), dtype=np.float32)
    y, rows = rng.integers(0, 2, len(X)).astype(np.int8), rng.permutation(len(X))
    split = SimpleNamespace(
        participants=tuple(np.sort(own) for own in np.array_split(rows[:583_200], 5)),
        test=np.sort(rows[583_200:]),
    )
    arms = {
        f"{epsilon:g}": dict(upload=DPSTGD(epsilon, N_UPLOADS, 2.0), lr=0.005)
        for epsilon in (0.01, 0.1, 0.5, 1.0, 10.0)
    } | {"plain": dict(upload=PlainSGD(), lr=0.1)}
    about, measured = dict(sample_rate=0.01, n_rounds=50, every=5, seed=0), []
    for _ in range(3):
        start = time.perf_counter()
        alone = {name: run_arm(X, y, split, **arm, **about) for name, arm in arms.items()}
        middle = time.perf_counter()
        if run_arms(X, y, split, arms, **about) != alone:
            raise AssertionError("arms together and one by one disagree")
        measured.append((middle - start) / (time.perf_counter() - middle))
    return measured
