"""What a bar is: the ratio of two things timed in one process, and on which side of a number it
must lie."""

from __future__ import annotations

import contextlib
import functools
import operator
import os
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

import torch

from ppkit.models import mlp

REPEATS = 7
SIZES, BATCH = (264, 50, 20, 2), 1166  # wang2018's network and the sample of one of its uploads


@dataclass(frozen=True)
class Bar:
    """One line of figures/bench.json; exactly one of at_least and at_most is a number."""

    name: str
    what: str
    ratio: float
    spread: tuple[float, float]
    threads: int
    at_least: float | None = None
    at_most: float | None = None

    @property
    def met(self) -> bool:
        return (
            self.ratio >= self.at_least if self.at_least is not None else self.ratio <= self.at_most
        )

    def row(self) -> dict:
        return asdict(self) | {"met": self.met}


def on_one_thread(measure: Callable[[], list[Bar]]) -> Callable[[], list[Bar]]:
    """The same measurement with torch on one thread, and without Opacus' warning that no input
    requires a gradient."""

    @functools.wraps(measure)
    def alone() -> list[Bar]:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return measure()
        finally:
            torch.set_num_threads(threads)

    return alone


@contextlib.contextmanager
def on_one_core(which: int = 0) -> Iterator[None]:
    """This process, and those that it starts, on one core, number `which`, around and around, where
    the system lets one choose: two cores of a machine that others use, too, are not equally fast.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(allowed)[which % len(allowed)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def one_step() -> tuple[torch.nn.Sequential, torch.Tensor, torch.Tensor]:
    """What every step is timed on: the model, X (1166, 264) and y (1166,) of a fixed seed."""
    rng = torch.Generator().manual_seed(0)
    model = mlp(SIZES, rng=rng)
    return (
        model,
        torch.randn(BATCH, SIZES[0], generator=rng),
        torch.randint(0, SIZES[-1], (BATCH,), generator=rng),
    )


def ratios(
    numerator: Callable[[], object],
    denominator: Callable[[], object],
    *,
    calls: int = 20,
    of: Callable[[Sequence[float]], float] = statistics.median,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """REPEATS ratios of the two medians over `calls` calls, or of what else `of` takes of them,
    the two called in turn, after a warm-up of both.

    clock: time.process_time counts processor seconds, where the two differ so much in length that
    who shares the core hits one of them more.
    """
    both = numerator, denominator
    for function in both * 3:
        function()
    found = []
    for _ in range(REPEATS):
        seconds = [[_seconds(function, clock) for function in both] for _ in range(calls)]
        found.append(operator.truediv(*map(of, zip(*seconds))))
    return found


def bar(name: str, what: str, measured: list[float], *, threads: int, **side: float) -> Bar:
    measured = [float(one) for one in measured]  # numpy's numbers are not JSON
    return Bar(
        name,
        what,
        round(statistics.median(measured), 3),
        (round(min(measured), 3), round(max(measured), 3)),
        threads,
        **side,
    )


def _seconds(function: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    function()
    return clock() - start
