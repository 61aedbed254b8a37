"""`ppkit reproduce NOTEBOOK --grid ...`: one notebook at many points, a run folder each, and one
table and one page over all of them."""

import csv
import itertools
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from ppkit import project
from ppkit.refusals import must_be
from ppkit.runs import (
    Refused,
    archive,
    catalogue,
    cut,
    environment,
    index,
    jobs,
    key,
    pages,
    reason,
    run,
    run_folder,
)
from ppkit.runs.worker import DONE, RUNNING, Children
from ppkit.writing import remove, write_whole

POINTS_AT_MOST = 10_000  # their names have four digits
WHOLE_NUMBERS = re.compile(r"\s*(-?\d{1,18})\s*\.\.\s*(-?\d{1,18})\s*")
IN_A_TABLE = range(-(2**63), 2**63)  # the whole numbers that a column of a parquet file takes
RESULTS = ("value", "spread", "verdict", "alone", "detail", "data", "standing")


class BatchFolder(run_folder.RunFolder):
    """The folder of a batch: its record names points where a run's names notebooks, and each
    finished point is a run folder, points/<name>."""

    parts, mathjax_in = ("points", ".cache"), "."

    def prepare(self) -> None:
        """As of a run; and a point that is there is done, whatever the record knew when a process
        was stopped."""
        super().prepare()
        for point in self.notebooks:
            self.notebooks[point].update(self._there(point) or {})

    def is_missing(self, name: str) -> bool:
        """True if the point's run folder is not there, or damaged."""
        return self._there(name) is None

    def write_results(self) -> None:
        """Write the table and the page."""
        rows = table(self)
        write_whole(self.path / "table.parquet", rows.to_parquet(None, index=False))
        write_whole(self.path / "table.csv", rows.to_csv(None, index=False))
        index.write_batch(self, rows)

    def _there(self, point: str) -> dict | None:
        """What the run folder of a finished point says of its notebook; None unless its rows and
        its page are there, too."""
        place, name = self.path / "points" / point, self.record["batch"]
        try:
            about = run_folder.read_record(place / "run.json")["notebooks"][name]
            run_folder.read_claims(place / "claims.json")
        except (Refused, OSError, LookupError):
            return None
        left = (place / f"notebooks/{name}.ipynb", place / f"html/{name}.html")
        return about if all(file.exists() for file in left) else None


@dataclass(frozen=True)
class Point(jobs.Job):
    """One point: its run folder is made beside the finished ones, and takes its name among them in
    one step.

    batch: the folder of all.  point: its name there.
    """

    batch: BatchFolder = None
    point: str = ""

    def begin(self) -> Path:
        remove(self.folder.path)
        self.folder.make()
        (self.folder.path / "html" / pages.MATHJAX).symlink_to(f"../../../{pages.MATHJAX}")
        self.batch.notebooks[self.point].update(status=RUNNING)
        self.batch.save()
        return super().begin()

    def end(self, outcome: dict) -> None:
        super().end(outcome)
        self.batch.notebooks[self.point].update(self.folder.notebooks[self.name])
        if outcome["status"] == DONE:
            self.folder.close()
            place = self.batch.path / "points" / self.point
            remove(place)  # damaged, or it were not done again
            os.replace(self.folder.path, place)
        self.batch.save()


def reproduce(
    wanted: list[str],
    asked: list[dict[str, str]],
    *,
    profile: str = "quick",
    source: str | None = None,
    at_once: int | None = None,
    limit: float | None = None,
    fresh: bool = False,
    runs: Path | None = None,
    client=None,
) -> int:
    """Run one notebook at every point into a folder under `runs`; go on in an unfinished one.

    wanted: one notebook, of the project or any other with a parameters cell.
    asked: by point, what parameters are set to, as texts; what differs is varied.  Points that are
    equal, such as .5 and .50, run once.
    at_once: points at a time, >= 1; None for as many as cores and memory allow, in the paper
    profile for one.
    limit: seconds that a point may take, > 0.  client: of a scheduler, as `cluster.connect`
    gives it; None for this machine.
    Everything else, what is returned and what is refused: as `run.reproduce`.
    """
    asked_for = (("jobs", at_once), ("limit", limit))
    given = {name: value for name, value in asked_for if value is not None}
    must_be("a finite number > 0", **given)
    if len(wanted) != 1:
        raise Refused("a batch is of one notebook: name one, such as wang2018")
    chosen = catalogue.select(wanted)
    [(name, path)] = chosen.items()
    set_to = [
        catalogue.assign(chosen, profile=profile, source=source, given=list(point.items()))[name]
        for point in asked
    ]
    unlike = {}
    for values in set_to:
        unlike.setdefault(_identity(values), values)
    every = {f"{number:04d}": values for number, values in enumerate(unlike.values())}
    if len(every) < len(set_to):
        print(f"{len(set_to) - len(every)} of {len(set_to)} points equal another one: run once")
    beside = archive.beside(path) if client else b""
    digest = key.of(chosen, source, profile=profile, points=every)
    runs = (runs or project.root() / "runs").resolve()
    folder = None if fresh else run_folder.find_unfinished(runs, digest, BatchFolder)
    if folder is None:
        made = run.record(digest, profile, source, dict.fromkeys(every, path), every)
        seen = {each: {_identity(values[each]) for values in unlike.values()} for each in asked[0]}
        varied = [each for each in asked[0] if len(seen[each]) > 1]
        made |= {"batch": name, "varied": varied or list(asked[0])}
        folder = run_folder.create(runs, made, BatchFolder)
    missing = [point for point in every if folder.is_missing(point)]
    print(f"{folder.title}: {len(every) - len(missing)} of {len(every)} points are there")
    waiting = {}
    for point in missing:
        about = run.record(digest, profile, source, {name: path}, {name: every[point]})
        own = run_folder.RunFolder(folder.path / ".cache" / point, {"id": point, **about})
        title = f"{point} {told({k: every[point][k] for k in folder.record['varied']})}"
        waiting[title] = Point(own, name, path, every[point], source, limit, folder, point)
    if client:
        from ppkit.runs.cluster import Workers

        workers = Workers(client, source, beside)
    else:
        cores = environment.cores() if profile == "quick" else 1
        workers = Children(at_once or jobs.at_once([(name, True)] * len(waiting), cores))
    return run.carry_out(folder, waiting, workers)


def _identity(value) -> tuple:
    """Equal for values of one type that are equal, as 0.0 and -0.0 are; 1, 1.0 and True are not.

    >>> _identity([0.0]) == _identity([-0.0]), _identity([0.0]) == _identity([0])
    (True, False)
    """
    if isinstance(value, dict):
        return dict, frozenset((_identity(k), _identity(v)) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(_identity, value))
    return type(value), value


def table(folder: BatchFolder) -> pd.DataFrame:
    """One row a point and claim: point, status, its varied parameters, seconds, peak memory (MB),
    then claim, value, spread, verdict, the verdict on that data alone, the data and its standing; a
    point without a verdict has one row.

    A parameter that no column of a table can hold, such as a list, stands there as Python writes
    it."""
    rows = []
    columns = {
        name: _column([about["parameters"][name] for about in folder.notebooks.values()])
        for name in folder.record["varied"]
    }
    for number, (point, about) in enumerate(folder.notebooks.items()):
        place = folder.path / "points" / point / "claims.json"
        claims = run_folder.read_claims(place) if place.exists() else []
        decided = [row for row in claims if row.data is not None]
        first = {
            "point": point,
            **{name: column[number] for name, column in columns.items()},
            "status": about["status"],
            "seconds": about.get("seconds"),
            "memory_mb": about.get("peak_memory_mb"),
        }
        rows += [
            first | {"claim": row.id} | {name: getattr(row, name) for name in RESULTS}
            for row in decided
        ] or [first | dict.fromkeys(("claim", *RESULTS))]
    return pd.DataFrame(rows).astype({"value": float, "spread": float})


def _column(values: list) -> list:
    kinds = {type(value) for value in values}
    whole = kinds == {int} and all(value in IN_A_TABLE for value in values)
    return values if whole or kinds in ({bool}, {float}, {str}) else [repr(one) for one in values]


def points(grids: list[str], file: Path | None = None) -> list[dict[str, str]]:
    """Every point, as texts by parameter: all combinations of the grids' values and the file's
    lines.

    grids: "SEED=0..9" (whole numbers, both ends), "RECORD_L1=10,15,25,40" or "WIDTHS=(32, 4),(8,)".
    file: CSV in UTF-8, its first line the parameters' names; each further line a point.
    Refused if there is nothing to combine, a parameter stands there twice, or there are more points
    than POINTS_AT_MOST.

    >>> points(["SEED=0..1", "CLIP=.5,1"])[:2]
    [{'SEED': '0', 'CLIP': '.5'}, {'SEED': '0', 'CLIP': '1'}]
    """
    lines = [{}] if file is None else _lines(file)
    axes = {}
    for grid in grids:
        name = grid.partition("=")[0].strip()
        if name in axes:
            raise Refused(f"{cut(name)} stands in the grid twice")
        if name in lines[0]:
            raise Refused(f"{cut(name)} stands in the grid and in the file of points: not both")
        axes[name] = _values(grid)
    count = math.prod(map(len, axes.values())) * len(lines)
    if count > POINTS_AT_MOST:
        raise Refused(f"a batch has at most {POINTS_AT_MOST:,} points, and these are {count:,}")
    combined = itertools.product(lines, *axes.values())
    return [line | {n: str(v) for n, v in zip(axes, values)} for line, *values in combined]


def told(point: dict) -> str:
    """A point as a person reads it.

    >>> told({"SEED": 0, "CLIP": 0.5})
    'SEED 0, CLIP 0.5'
    """
    return ", ".join(f"{name} {cut(str(value), at=40)}" for name, value in point.items())


def _values(grid: str) -> Sequence:
    """A grid's values: a range, or texts."""
    _, _, values = grid.partition("=")
    if ends := WHOLE_NUMBERS.fullmatch(values):
        found = range(int(ends[1]), int(ends[2]) + 1)
    else:
        found = [] if ".." in values else _between_commas(values)
        found = [] if "" in found else found
    if not found:
        raise Refused(
            "--grid takes a parameter and its values, such as SEED=0..9 or CLIP=.5,1,2, "
            f"got {cut(grid)!r}"
        )
    return found


def _between_commas(text: str) -> list[str]:
    """The parts of a text between the commas that stand in no bracket; none if one stays open.

    >>> _between_commas("(32, 4), (8,)")
    ['(32, 4)', '(8,)']
    """
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts] if depth == 0 else []


def _lines(file: Path) -> list[dict[str, str]]:
    try:
        with open(file, encoding="utf-8-sig", newline="") as text:
            rows = [row for row in csv.reader(text, skipinitialspace=True) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = reason(error) if isinstance(error, OSError) else error
        raise Refused(f"{file} is no CSV file in UTF-8 that can be read: {why}") from None
    names, lines = [name.strip() for name in rows[0]] if rows else [], rows[1:]
    if not lines or any(len(line) != len(names) for line in lines):
        raise Refused(
            f"{file} must hold a line of parameters' names and, below, as many values in each line"
        )
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise Refused(f"{file} has two columns called {cut(twice[0])!r}")
    return [dict(zip(names, line)) for line in lines]
