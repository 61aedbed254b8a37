"""Bars of `ppkit.spnn.published`: Algorithm 2 with 14 holders beside two, 28 columns in all, width
8, batch 5,000."""

from __future__ import annotations

import subprocess
import sys
import time

import torch
from bars import REPEATS, Bar, bar, on_one_core, on_one_thread, ratios

from ppkit.spnn.layer import FirstLayer

BATCH, FEATURES, WIDTH, FEW, MANY = 5_000, 28, 8, 2, 14
SHAPE = f"{BATCH:,} x {FEATURES} x {WIDTH}"
CHILD = f"""
import threading, time
import psutil, spnn_holders
layer, _ = spnn_holders.made({MANY})
resident, seen, done = psutil.Process().memory_info, [], threading.Event()
def watch():
    while not done.wait(0.0005):
        seen.append(resident().rss)
before = resident().rss
watcher = threading.Thread(target=watch)
watcher.start()
for _ in range(10):
    layer(slice(None))
done.set()
watcher.join()
print((max(seen) - before) / 1e6)
"""


@on_one_core()
@on_one_thread
def run() -> list[Bar]:
    """Time one pass of all parties in one process, the dealer's work included; h1 is compared with
    the plain product first. Memory is that of ten passes in a process of its own, looked at
    every half millisecond; seven times."""
    few, many = (_checked(k) for k in (FEW, MANY))
    measured = ratios(
        lambda: many(slice(None)), lambda: few(slice(None)), calls=5, clock=time.process_time
    )
    megabytes = [_megabytes() for _ in range(REPEATS)]
    what = f"of the first layer by Algorithm 2, {SHAPE}, all parties in one process"
    return [
        bar(
            "spnn_holders_seconds",
            f"processor seconds {what}, {MANY} holders over {FEW}, triples dealt",
            measured,
            threads=1,
            at_most=10.0,
        ),
        bar(
            "spnn_holders_memory",
            f"MB that a pass {what}, takes at {MANY} holders",
            megabytes,
            threads=1,
            at_most=150.0,
        ),
    ]


def made(k: int) -> tuple[FirstLayer, torch.Tensor]:
    """A first layer of k holders that has computed once, on a few rows, and all columns."""
    rng = torch.Generator().manual_seed(0)
    X = torch.randn(BATCH, FEATURES, generator=rng)
    layer = FirstLayer([FEATURES // k] * k, WIDTH, rng=rng, protocol="ss", form="published")
    layer.prepare(X.split(FEATURES // k, dim=1))
    layer(slice(0, 8))
    return layer, X


def _checked(k: int) -> FirstLayer:
    layer, X = made(k)
    bound = layer.protocol.error_bound(slice(None), list(layer.theta))
    error = (layer(slice(None)) - X.double() @ torch.cat([*layer.theta]).double()).abs()
    if not bool((error <= bound + 1e-5).all()):  # 1e-5: h1 is in float32
        raise AssertionError(f"{k} holders and the plain product disagree")
    return layer


def _megabytes() -> float:
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        cwd=__file__.removesuffix("spnn_holders.py"),
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)
