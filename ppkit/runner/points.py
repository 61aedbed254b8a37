"""The points of a batch: which values each parameter takes, side by side."""

import csv
import itertools
from pathlib import Path

from ppkit.runner import Refused


def of(grids: list[str], file: Path | None = None) -> list[dict[str, str]]:
    """Every point, as texts by parameter: all combinations of the grids' values and the file's
    lines.

    grids: "SEED=0..9" (whole numbers, both ends) or "RECORD_L1=10,15,25,40".
    file: CSV, its first line the parameters' names; each further line a point.
    Refused if there is nothing to combine, or a parameter stands there twice.

    >>> of(["SEED=0..1", "CLIP=.5,1"])[:2]
    [{'SEED': '0', 'CLIP': '.5'}, {'SEED': '0', 'CLIP': '1'}]
    """
    axes = [[{}]] if file is None else [_lines(file)]
    for grid in grids:
        name, _, values = grid.partition("=")
        axes.append([{name.strip(): value} for value in _values(grid, values)])
    names = [name for axis in axes for name in axis[0]]
    if twice := {name for name in names if names.count(name) > 1}:
        raise Refused(f"{', '.join(sorted(twice))} stands in the grid twice")
    return [{k: v for part in parts for k, v in part.items()} for parts in itertools.product(*axes)]


def told(point: dict) -> str:
    """A point as a person reads it.

    >>> told({"SEED": 0, "CLIP": 0.5})
    'SEED 0, CLIP 0.5'
    """
    return ", ".join(f"{name} {value}" for name, value in point.items())


def _values(grid: str, values: str) -> list[str]:
    first, dots, last = values.partition("..")
    try:
        found = range(int(first), int(last) + 1) if dots else values.split(",")
    except ValueError:
        found = []
    if not found or "" in found:
        raise Refused(
            "--grid takes a parameter and its values, such as SEED=0..9 or CLIP=.5,1,2, "
            f"got {grid!r}"
        )
    return [str(value).strip() for value in found]


def _lines(file: Path) -> list[dict[str, str]]:
    with open(file, encoding="utf-8-sig", newline="") as text:
        lines = list(csv.DictReader(text, skipinitialspace=True))
    if not lines or any(None in line or None in line.values() for line in lines):
        raise Refused(
            f"{file} must hold a line of parameters' names and, below, as many values in each line"
        )
    return lines
