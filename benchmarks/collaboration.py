"""Bars of `ppkit.collaboration.train`: all runs at once, over wu2020's Algorithm 2 one run after
the other with masked rows."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from bars import REPEATS, Bar, bar
from threadpoolctl import threadpool_limits

from ppkit import datasets
from ppkit.collaboration.losses import Loss, hinge, squared
from ppkit.collaboration.owners import Bounds, Owner, blocks, clip_records
from ppkit.collaboration.privacy import Privacy
from ppkit.collaboration.training import Learning, train

sys.path.append(str(Path(__file__).parents[1] / "tests/helpers"))
from collaboration_loop import run as loop

HORIZON, RUNS, STEP = 100, 100, 0.5
ROUNDS = 10  # of the loop's 99 that are timed; the rest is alike


def run() -> list[Bar]:
    """Time the bars; without noise both sides are compared to 1e-12 before anything is timed."""
    rng = np.random.default_rng(0)
    fraud = datasets.load("creditcard", source="standin")
    X = np.asarray(fraud.X, dtype=np.float64)[:90_000, -29:]
    X = clip_records((X - X.mean(axis=0)) / X.std(axis=0), l1_bound=10.0)
    y = np.where(np.asarray(fraud.y)[:90_000] > 0, 1.0, -1.0)
    detected = blocks(X, y, (30_000,) * 3)
    Z = clip_records(rng.standard_normal((750_000, 10)), l1_bound=5.0)
    lent = blocks(Z, np.clip(Z @ rng.standard_normal(10) / 5, -1, 1), (250_000,) * 3)
    with threadpool_limits(1):
        return [
            _measured(
                "collaboration_hinge",
                "3 x 30,000 x 29 (fraud stand-in), epsilon 1",
                detected,
                hinge(),
                Bounds(10.0, 2.0),
                1.0,
                20.0,
            ),
            _measured(
                "collaboration_hinge_noisy",
                "the same, epsilon 0.01: the runs are far apart",
                detected,
                hinge(),
                Bounds(10.0, 2.0),
                0.01,
                15.0,
            ),
            _measured(
                "collaboration_squared",
                "3 x 250,000 x 10, Gram matrices at hand",
                lent,
                squared(),
                Bounds(5.0, 2.0),
                1.0,
                5_000.0,
            ),
        ]


def _measured(
    name: str,
    what: str,
    owners: tuple[Owner, ...],
    loss: Loss,
    bounds: Bounds,
    epsilon: float,
    least: float,
) -> Bar:
    def ours(budget: float = epsilon, n_runs: int = RUNS):
        return train(
            owners,
            loss=loss,
            bounds=bounds,
            privacy=Privacy((budget,) * 3),
            learning=Learning(HORIZON, STEP),
            n_runs=n_runs,
            optimum=1.0,
            rng=np.random.default_rng(0),
            at="last",
        )

    def theirs(scales, rounds: int | None = ROUNDS):
        return loop(
            owners,
            loss,
            theta_max=bounds.theta_max,
            horizon=HORIZON,
            step=STEP,
            algorithm=2,
            scales=scales,
            rng=np.random.default_rng(0),
            rounds=rounds,
        )

    if np.abs(ours(np.inf, 2).iterate - theirs((0.0,) * 3, None)[0][-1]).max() > 1e-12:
        raise AssertionError("train and the loop disagree")
    scales = ours().scales
    ratios = []
    for _ in range(REPEATS):
        batched, single = _seconds(ours), _seconds(lambda: theirs(scales)) * (HORIZON - 1) / ROUNDS
        ratios.append(RUNS * single / batched)
    return bar(
        name,
        f"Algorithm 2 run by run with masked rows, over 100 runs at once; {what}",
        ratios,
        threads=1,
        at_least=least,
    )


def _seconds(function) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start
