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
from typing import Any

import pandas as pd

from ppkit.atomic_writing import remove, write_whole
from ppkit.runs import Refused, catalogue, cut, index, jobs, pages, run_folder
from ppkit.runs.run_folder import RunFolder, Task
from ppkit.runs.worker import DONE, RUNNING
from ppkit.verdicts import robustness
from ppkit.verdicts.rows import Row

POINTS_AT_MOST = 10_000  # their names have four digits
WHOLE_NUMBERS = re.compile(r"\s*(-?\d{1,18})\s*\.\.\s*(-?\d{1,18})\s*")
RESULTS = ("value", "spread", "verdict", "alone", "detail", "data", "standing")


class Batch(RunFolder):
    """The folder of a batch: its record names points where a run's names notebooks, and each
    finished point is a run folder, points/<name>."""

    parts = ("points", ".cache")
    mathjax_in = "."

    def prepare(self) -> None:
        """As of a run; and a point that is there is done, whatever the record knew when a process
        was stopped."""
        super().prepare()
        for point in self.notebooks:
            self.notebooks[point].update(self._there(point) or {})

    def is_missing(self, name: str) -> bool:
        """True if the point's run folder is not there, or damaged."""
        return self._there(name) is None

    def jobs(
        self, tasks: dict[str, Task], source: str | None, limit: float | None
    ) -> dict[str, jobs.Job]:
        """What has to be done, by point and what is varied there."""
        notebook, varied = self.record["batch"], self.record["varied"]
        missing: dict[str, jobs.Job] = {}
        for point, task in tasks.items():
            if self.is_missing(point):
                told = ", ".join(f"{one} {cut(str(task.parameters[one]), at=40)}" for one in varied)
                record = self.record | {"id": point, "notebooks": {notebook: self.notebooks[point]}}
                del record["batch"], record["varied"]
                folder = PointFolder(self.path / ".cache" / point, record)
                missing[f"{point} {told}"] = Point(
                    folder, notebook, task, source, limit, self, point
                )
        return missing

    def write_results(self) -> None:
        """Write the table, what the notebook kept at the points, and the page."""
        rows = table(self)
        write_whole(self.path / "table.parquet", rows.to_parquet(None, index=False))
        write_whole(self.path / "table.csv", rows.to_csv(None, index=False))
        for name, lines in kept_tables(self).items():
            (self.path / "tables").mkdir(exist_ok=True)
            write_whole(self.path / "tables" / f"{name}.csv", lines.to_csv(None, index=False))
        index.write_batch(self, rows)

    def _there(self, point: str) -> dict[str, Any] | None:
        """What the run folder of a finished point says of its notebook; None unless its rows are
        there, too."""
        place = self.path / "points" / point
        try:
            about = run_folder.read_record(place / "run.json")["notebooks"][self.record["batch"]]
            run_folder.read_claims(place / "claims.json")
        except (Refused, OSError, LookupError):
            return None
        return about


class PointFolder(RunFolder):
    """The run folder of a point: its claims.json holds what its notebook recorded, and no row for
    each of the other claims."""

    def kept(self, recorded: list[Row]) -> list[Row]:
        return [row for row in super().kept(recorded) if row.data is not None] if recorded else []


@dataclass(frozen=True)
class Point(jobs.Job):
    """One point: its run folder is made beside the finished ones, and takes its name among them in
    one step.

    batch: the folder of all.  point: its name there.
    """

    batch: Batch
    point: str

    def begin(self) -> Path:
        remove(self.folder.path)
        self.folder.make()
        (self.folder.path / "html" / pages.MATHJAX).symlink_to(f"../../../{pages.MATHJAX}")
        self.batch.notebooks[self.point].update(status=RUNNING)
        self.batch.save()
        return super().begin()

    def end(self, outcome: dict[str, Any]) -> None:
        super().end(outcome)
        self.batch.notebooks[self.point].update(self.folder.notebooks[self.name])
        if outcome["status"] == DONE:
            self.folder.close()
            place = self.batch.path / "points" / self.point
            remove(place)  # damaged, or it were not done again
            os.replace(self.folder.path, place)
        self.batch.save()


def planned(
    chosen: dict[str, Path], points: list[dict[str, str]], *, profile: str, source: str | None
) -> tuple[dict[str, Task], dict[str, Any]]:
    """The tasks of a batch by point, and what its record says beyond a run's: the notebook, and
    which parameters are varied.

    chosen: one notebook.  points: as `run.reproduce`.
    """
    if len(chosen) != 1:
        raise Refused("a batch is of one notebook: name one, such as wang2018")
    [(name, path)] = chosen.items()
    unlike: dict[tuple, dict[str, object]] = {}
    for point in points:
        values = catalogue.assign(chosen, profile=profile, source=source, given=point)[name]
        unlike.setdefault(tuple(values.values()), values)
    if len(unlike) < len(points):
        equal = len(points) - len(unlike)
        print(f"{equal} of {len(points)} points equal another one: run once")
    tasks = {f"{n:04d}": Task(path, values) for n, values in enumerate(unlike.values())}
    several = [one for one in points[0] if len({at[one] for at in unlike.values()}) > 1]
    return tasks, {"batch": name, "varied": several or list(points[0])}


def refuse_other_main(record: str) -> None:
    """Refuse choices whose main setting is not the record's own: its verdict would be compared with
    that of another setting, and nothing would turn it."""
    [path] = catalogue.select([record]).values()
    defaults = catalogue.parameters(path)
    for choice in robustness.choices(record):
        own = defaults.get(choice.parameter, choice.settings[0])
        if own != choice.settings[0]:
            raise Refused(
                f"{choice.paper}.choices.toml, {choice.name!r}: the first setting is the main one, "
                f"{own!r} as {choice.parameter} of {record} is, got {choice.settings[0]!r}"
            )


def table(folder: Batch) -> pd.DataFrame:
    """One row a point and claim: point, status, its varied parameters, seconds, peak memory (MB),
    then claim, value, spread, verdict, the verdict on that data alone, the data and its standing; a
    point without a verdict has one row."""
    rows: list[dict[str, Any]] = []
    for point, about in folder.notebooks.items():
        first = {
            "point": point,
            **{name: about["parameters"][name] for name in folder.record["varied"]},
            "status": about["status"],
            "seconds": about.get("seconds"),
            "memory_mb": about.get("peak_memory_mb"),
        }
        place = folder.path / "points" / point / "claims.json"
        claims = run_folder.read_claims(place) if place.exists() else []
        decided = [row for row in claims if row.data is not None]
        for row in decided:
            rows.append(first | {"claim": row.id} | {name: getattr(row, name) for name in RESULTS})
        if not decided:
            rows.append(first | dict.fromkeys(("claim", *RESULTS)))
    return pd.DataFrame(rows).astype({"value": float, "spread": float})


def kept_tables(folder: Batch) -> dict[str, pd.DataFrame]:
    """What the notebook kept with `show.keep` at the points, by name: the lines of all points, each
    behind its point and its varied parameters.  All are texts."""
    frames: dict[str, list[pd.DataFrame]] = {}
    for point, about in folder.notebooks.items():
        varied = {name: about["parameters"][name] for name in folder.record["varied"]}
        for file in sorted((folder.path / "points" / point / "tables").glob("*.csv")):
            lines = pd.read_csv(file, dtype=str, keep_default_na=False)
            at = pd.DataFrame([{"point": point, **varied}] * len(lines))
            frames.setdefault(file.stem, []).append(pd.concat([at, lines], axis=1))
    return {name: pd.concat(found) for name, found in frames.items()}


def points(grids: list[str], file: Path | None = None) -> list[dict[str, str]]:
    """Every point, as texts by parameter: all combinations of the grids' values and the file's
    lines.

    grids: "SEED=0..9" (whole numbers, both ends) or "RECORD_L1=10,15,25,40".
    file: CSV in UTF-8, its first line the parameters' names; each further line a point.
    Refused if there is nothing to combine, a parameter stands there twice, or there are more points
    than POINTS_AT_MOST.

    >>> points(["SEED=0..1", "CLIP=.5,1"])[:2]
    [{'SEED': '0', 'CLIP': '.5'}, {'SEED': '0', 'CLIP': '1'}]
    """
    lines = [{}] if file is None else _lines(file)
    axes = [_axis(grid) for grid in grids]
    catalogue.refuse_twice([*lines[0], *(name for name, _ in axes)])
    count = math.prod(len(values) for _, values in axes) * len(lines)
    if count > POINTS_AT_MOST:
        raise Refused(f"a batch has at most {POINTS_AT_MOST:,} points, and these are {count:,}")
    every = []
    for line, *at in itertools.product(lines, *(values for _, values in axes)):
        every.append(line | {name: str(value) for (name, _), value in zip(axes, at)})
    return every


def _axis(grid: str) -> tuple[str, Sequence]:
    """A parameter and its values: a range, or texts."""
    name, _, values = grid.partition("=")
    found: Sequence = [value.strip() for value in values.split(",")]
    if ends := WHOLE_NUMBERS.fullmatch(values):
        found = range(int(ends[1]), int(ends[2]) + 1)
    if not values or not found:
        raise Refused(
            "--grid takes a parameter and its values, such as SEED=0..9 or CLIP=.5,1,2, "
            f"got {cut(grid)!r}"
        )
    return name.strip(), found


def _lines(file: Path) -> list[dict[str, str]]:
    try:
        with open(file, encoding="utf-8-sig", newline="") as text:
            reader = csv.DictReader(text, skipinitialspace=True)
            lines = list(reader)
            catalogue.refuse_twice(list(reader.fieldnames or ()))
    except (ValueError, csv.Error) as error:
        raise Refused(f"{file} is no CSV file in UTF-8 that can be read: {error}") from None
    if not lines or any(None in line or None in line.values() for line in lines):
        raise Refused(
            f"{file} must hold a line of parameters' names and, below, as many values in each line"
        )
    return lines
