"""`ppkit compare`: whether two runs say the same, row by row, judged by each row's own rule and
spread. Tests of digits guard what is printed; this guards what is concluded."""

import math
from collections import Counter
from dataclasses import dataclass

from rich.table import Table

from ppkit.runs import Refused
from ppkit.runs.rows import rows_of
from ppkit.runs.screen import BOX, console
from ppkit.verdicts import rules, wording
from ppkit.verdicts.rows import Row

SAME = "same digits"
WITHIN = "within its spread"
MOVED = "same verdict, beyond its spread"
WEAKER = "decided in one run only"
TURNED = "verdict turned"
OUTCOMES = (SAME, WITHIN, MOVED, WEAKER, TURNED)
SPREADS = 2.0  # standard deviations of a difference of two runs that count as chance


@dataclass(frozen=True)
class Compared:
    """One row of two runs, and how the second stands to the first (of OUTCOMES)."""

    first: Row
    second: Row
    outcome: str


def compare(first: list[Row], second: list[Row]) -> list[Compared]:
    """Every row that both runs measured, in the order of the first.

    - "verdict turned": what the rule says of the data alone is another verdict, and neither run's
      interval holds the verdict of the other.
    - "decided in one run only": one of them is undecided, or the interval of one holds the
      verdict of the other.
    - else "same digits", if all digits are; "within its spread", if the difference is at most
      twice the standard deviation of a difference of two runs; "same verdict, beyond its spread"
      otherwise, also where no spread is known.
    """
    there = {row.id: row for row in second if row.data is not None}
    return [
        Compared(row, there[row.id], _outcome(row, there[row.id]))
        for row in first
        if row.data is not None and row.id in there
    ]


def _outcome(one: Row, other: Row) -> str:
    mine, theirs = rules.plain(one.alone), rules.plain(other.alone)
    if mine != theirs:
        no_verdict = {rules.UNDECIDED, rules.NOT_TRIED}
        overlap = theirs in one.possible or mine in other.possible
        return WEAKER if {mine, theirs} & no_verdict or overlap else TURNED
    if one.value == other.value:
        return SAME
    if one.value is None or other.value is None or one.spread is None or other.spread is None:
        return MOVED
    chance = SPREADS * math.hypot(one.spread, other.spread)
    return WITHIN if abs(one.value - other.value) <= chance else MOVED


def show(first: str, second: str) -> int:
    """Print what differs between two runs, and how many rows stand how; returns 1 if a verdict
    turned, else 0.

    first, second: runs, as `run_folder.open_run` takes them, or "reference".
    Refused if one has no rows, or if they measured no row in common.
    """
    before, after = (rows_of(None if name == "reference" else name) for name in (first, second))
    compared = compare(before, after)
    if not compared:
        raise Refused(f"{first} and {second} measured no row in common")
    differing = [one for one in compared if one.outcome in (MOVED, WEAKER, TURNED)]
    screen = console(100)
    table = Table(box=BOX, padding=(0, 1, 0, 0))
    table.add_column("row", width=max((len(one.first.id) for one in differing), default=0))
    for heading in (first, second, "how they stand"):
        table.add_column(heading)
    for one in differing:
        table.add_row(one.first.id, _told(one.first), _told(one.second), one.outcome)
    if differing:
        screen.print(table)
    counts = Counter(one.outcome for one in compared)
    said = ", ".join(f"{counts[name]} {name}" for name in OUTCOMES if counts[name])
    screen.print(f"{len(compared)} rows in both: {said}.")
    return 1 if counts[TURNED] else 0


def _told(row: Row) -> str:
    return f"{wording.verdict_alone(row)}, {wording.ours(row)} ({row.data}, {row.profile})"
