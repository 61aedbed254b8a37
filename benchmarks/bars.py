"""What a bar is: the ratio of two things timed in one process, and on which side of a number it must lie."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

REPEATS = 7


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
        return self.ratio >= self.at_least if self.at_least is not None else self.ratio <= self.at_most

    def row(self) -> dict:
        return asdict(self) | {"met": self.met}


def ratios(numerator: Callable[[], object], denominator: Callable[[], object], *, calls: int = 20) -> list[float]:
    """REPEATS ratios of the two medians over `calls` calls, the two timed alternately, after a warm-up of both."""
    for function in (numerator, denominator) * 3:
        function()
    return [_median_seconds(numerator, calls) / _median_seconds(denominator, calls) for _ in range(REPEATS)]


def bar(name: str, what: str, measured: list[float], *, threads: int, **side: float) -> Bar:
    return Bar(
        name, what, round(statistics.median(measured), 3), (round(min(measured), 3), round(max(measured), 3)), threads,
        **side,
    )


def _median_seconds(function: Callable[[], object], calls: int) -> float:
    seconds = []
    for _ in range(calls):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)
