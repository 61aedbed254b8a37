"""Bars of `ppkit.spnn.ring`: an exact product mod 2^64 against float64's, at both layers' shapes,
on one and two threads."""

from __future__ import annotations

import contextlib

import torch
from bars import Bar, bar, on_one_core, ratios

from ppkit.runs import environment
from ppkit.spnn import ring
from ppkit.spnn.randomness import Stream

WIDE, NARROW = (2570, 556, 400), (5000, 28, 8)
# Intel's vectors take three steps to multiply 64-bit integers and one to add, where a double's
# product and sum are one step: the kernel alone is 2.9 there, see README.md.
NARROW_AT_MOST = 4.0 if environment.cpu_model().startswith("Intel") else 2.0


def run() -> list[Bar]:
    """Time the bars; one entry is compared with Python's integers before anything is timed."""
    return [
        _measured("ring_product_wide_1", WIDE, threads=1, at_most=4.0, calls=9),
        _measured("ring_product_wide_2", WIDE, threads=2, at_most=6.0, calls=9),
        _measured("ring_product_narrow_1", NARROW, threads=1, at_most=NARROW_AT_MOST, calls=40),
    ]


def _measured(
    name: str, shape: tuple[int, int, int], *, threads: int, at_most: float, calls: int
) -> Bar:
    n, k, m = shape
    stream = Stream.seeded_for_teaching(0)
    a, b = stream.words((n, k)), stream.words((k, m))
    x, y = a.double(), b.double()
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        exact = sum(p * q for p, q in zip(a[-1].tolist(), b[:, -1].tolist()))
        if (int(ring.matmul(a, b)[-1, -1]) - exact) % 2**64:
            raise AssertionError("the ring product is wrong")
        with on_one_core() if threads == 1 else contextlib.nullcontext():
            # the least: who shares a core only adds, and more to whole numbers' products
            measured = ratios(lambda: ring.matmul(a, b), lambda: x @ y, calls=calls, of=min)
    finally:
        torch.set_num_threads(before)
    return bar(
        name,
        f"product mod 2^64, {n} x {k} x {m}, over float64's",
        measured,
        threads=threads,
        at_most=at_most,
    )
