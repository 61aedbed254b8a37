"""`ppkit reference`: the only writer of figures/claims.json, of the reference pictures, of
figures/measured/ and of figures/code_versions.json."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from ppkit import project
from ppkit.runs import Refused, catalogue, code_versions, json_files, run_folder
from ppkit.runs.run_folder import RunFolder
from ppkit.verdicts import curves, ledger, robustness, rows, rules, settings_files
from ppkit.verdicts.rows import Row

LARGEST_PICTURE = 200_000  # bytes


def keep(names: list[str]) -> tuple[Path, int]:
    """Merge finished runs into figures/claims.json, later ones over earlier, copy their pictures
    (PNG) and what they measured (`ppkit.measured`), note the code of their notebooks, renew what
    README and docs/ quote.

    names: runs, as `run_folder.open_run` takes them; also batches that `--settings` ran, which
    give the rows their robustness.
    Returns the file and how many of its rows were measured.
    Refused, and nothing written, if a run is unfinished, had failures or changed parameters, a
    picture is above 200 kB, or an older ppkit wrote what it measured.
    """
    every = [run_folder.open_run(name) for name in names]
    batches = [one for one in every if "batch" in one.record]
    runs = [one for one in every if "batch" not in one.record]
    for run in runs:
        _refuse_unfit(run)
    for batch in batches:
        _refuse_other_points(batch)
    code = code_versions.found_with(runs, batches)
    folder = project.root() / "figures"
    folder.mkdir(exist_ok=True)
    target = folder / "claims.json"
    about, claims = rows.read(target) if target.exists() else ({"run": {}, "pictures": {}}, [])
    for batch in batches:
        _settings(batch, folder)
    for run in runs:
        found, new = rows.read(run.path / "claims.json")
        _measured(run, found["run"], folder)
        about = {"run": found["run"], "pictures": _pictures(run, about["pictures"], folder)}
        claims = ledger.best(claims, [_from(row, found["run"]) for row in new])
    # from what was found, not from the last verdict: a choice may have been taken back
    claims = robustness.settled(ledger.best(claims, ledger.merge([])))
    if (folder / "settings").exists():
        curves.draw_all(claims, folder / "settings")
    rows.write(target, claims, run=about["run"], pictures=about["pictures"])
    code_versions.keep(code, claims, about["pictures"])
    if after := project.hook("after_reference"):
        after(project.root())
    return target, sum(row.data is not None for row in claims)


def _refuse_unfit(run: RunFolder) -> None:
    if run.record["state"] != run_folder.FINISHED:
        raise Refused(
            f"run {run.record['id']} is not finished but {run.record['state']}: "
            "only a run whose notebooks all went through can be a reference"
        )
    changed = sorted(
        {name for about in run.notebooks.values() for name in about.get("changed", ())}
    )
    if changed:
        raise Refused(
            f"run {run.record['id']} changed {', '.join(changed)}: "
            "only a run with the notebooks' own parameters can be a reference"
        )
    for file in (run.path / "measured").glob("*.json"):
        if json_files.read_json(file).keys() != {"notebook", "values"}:
            raise Refused(
                f"{file.name} of run {run.record['id']} does not say which notebook measured it: "
                "an older ppkit wrote it; run the notebook again"
            )
    for picture in (run.path / "figures").glob("*.png"):
        if picture.stat().st_size > LARGEST_PICTURE:
            raise Refused(
                f"{picture.name} has {picture.stat().st_size:,} bytes, "
                f"more than {LARGEST_PICTURE:,}: draw fewer points or a smaller figure"
            )


def _from(row: Row, run: dict[str, Any]) -> Row:
    """A row with the run that found it, and the commit that the run ran."""
    if row.data is None:
        return row
    return replace(row, run=run["id"], commit=run.get("commit", ""))


def _refuse_other_points(batch: RunFolder) -> None:
    """A batch can be a reference at the settings of its record's choices file only; a setting that
    failed is one that was not tried."""
    record, state = batch.record["batch"], batch.record["state"]
    if state not in (run_folder.FINISHED, run_folder.WITH_FAILURES):
        raise Refused(f"batch {batch.record['id']} is not finished but {state}")
    given = [about["parameters"] for about in batch.notebooks.values()]
    wanted = robustness.points(record, batch.record["profile"])
    if [{name: str(at[name]) for name in wanted[0]} for at in given] != wanted:
        raise Refused(
            f"batch {batch.record['id']} is not at the settings of {record}'s choices: only what "
            f"`ppkit reproduce {record} --settings` ran can be a reference"
        )


def _settings(batch: RunFolder, folder: Path) -> None:
    """Keep what a batch found at each setting, in figures/settings/<record>.<data>.json, and at the
    paper's size in <record>.paper.<data>.json."""
    record = batch.record["batch"]
    table = pd.read_parquet(batch.path / "table.parquet")
    for choice in robustness.choices(record):  # the table has what differs between its points
        name = choice.parameter
        table[name] = [str(batch.notebooks[point]["parameters"][name]) for point in table["point"]]
    both = _with_both_verdicts(batch) if batch.record["profile"] == "paper" else set()
    pairs = zip(table["point"], table["claim"], strict=True)
    table.loc[[pair in both for pair in pairs], "alone"] = rules.UNDECIDED
    (folder / "settings").mkdir(exist_ok=True)
    file = folder / "settings" / code_versions.settings_file(batch)
    settings_files.write(file, robustness.moved(record, table))


def _with_both_verdicts(batch: RunFolder) -> set[tuple[str, str]]:
    """The points and claims whose 95% interval holds a verdict for the paper and one against it: at
    the paper's size, where a setting takes a claim's credit, such a one decides nothing."""
    found = set()
    for point in batch.notebooks:
        place = batch.path / "points" / point / "claims.json"
        for row in run_folder.read_claims(place) if place.exists() else []:
            if row.kind == "claim" and rules.exclude(row.possible):
                found.add((point, row.id))
    return found


def _measured(run: RunFolder, about: dict[str, Any], folder: Path) -> None:
    for file in sorted((run.path / "measured").glob("*.json")):
        (folder / "measured").mkdir(exist_ok=True)
        found = {key: about.get(key, "") for key in ("commit", "machine")}
        json_files.write_json(
            folder / "measured" / file.name,
            {"run": about["id"], **found, **json_files.read_json(file)},
        )


def _pictures(run: RunFolder, kept: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Copy the run's pictures to `folder` and return what is known of all there.

    A quick picture takes no paper-profile one's place, except one of formulas, which is the same in
    every profile. A picture of real rows stays with its run. One whose notebook is gone goes, and
    one that its notebook did not draw in this run.
    """
    profile, there = run.record["profile"], catalogue.notebooks()
    every = [json_files.read_json(file) for file in (run.path / "figures").glob("*.json")]
    drawn = [about for about in every if about["notebook"] in there]
    names = {about["name"] for about in drawn}
    pictures = {}
    for name, about in kept.items():
        notebook = about["notebook"]
        if notebook in there and (notebook not in run.notebooks or name in names):
            pictures[name] = about
        else:
            (folder / f"{name}.png").unlink(missing_ok=True)
    for about in drawn:
        name = about["name"]
        larger = profile != "paper" and pictures.get(name, {}).get("profile") == "paper"
        if "real" not in about["data"] and (about["data"] == "formula" or not larger):
            shutil.copyfile(run.path / "figures" / f"{name}.png", folder / f"{name}.png")
            pictures[name] = {key: about[key] for key in ("caption", "data", "notebook")} | {
                "profile": profile,
                "run": run.record["id"],
            }
    return dict(sorted(pictures.items()))
