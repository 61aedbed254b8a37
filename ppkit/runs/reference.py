"""`ppkit reference`: the only writer of figures/claims.json, of the reference pictures and of
figures/measured/."""

import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd

from ppkit import project
from ppkit.runs import Refused, catalogue, run_folder
from ppkit.verdicts import curves, ledger, robustness, rows
from ppkit.verdicts.rows import Row

LARGEST_PICTURE = 200_000  # bytes


def keep(names: list[str]) -> tuple[Path, int]:
    """Merge finished runs into figures/claims.json, later ones over earlier, copy their pictures
    (PNG) and what they measured (`ppkit.measured`), renew the README.

    names: runs, as `run_folder.open_run` takes them; also batches that `--settings` ran, which
    give the rows their firmness.
    Returns the file and how many of its claims are decided.
    Refused, and nothing written, if a run is unfinished, had failures or changed parameters, or a
    picture is above 200 kB.
    """
    runs = [run_folder.open_run(name) for name in names]
    for run in runs:
        fit = (run_folder.FINISHED, run_folder.WITH_FAILURES)[: 1 + ("batch" in run.record)]
        if run.record["state"] not in fit:
            raise Refused(
                f"run {run.record['id']} is not finished but {run.record['state']}: "
                "only a run whose notebooks all went through can be a reference"
            )
        notebooks = run.record["notebooks"].values()
        if "batch" in run.record:
            _refuse_other_points(run)
        elif changed := sorted({name for about in notebooks for name in about.get("changed", ())}):
            raise Refused(
                f"run {run.record['id']} changed {', '.join(changed)}: "
                "only a run with the notebooks' own parameters can be a reference"
            )
    for picture in (picture for run in runs for picture in (run.path / "figures").glob("*.png")):
        if picture.stat().st_size > LARGEST_PICTURE:
            raise Refused(
                f"{picture.name} has {picture.stat().st_size:,} bytes, "
                f"more than {LARGEST_PICTURE:,}: draw fewer points or a smaller figure"
            )
    folder = project.root() / "figures"
    folder.mkdir(exist_ok=True)
    target = folder / "claims.json"
    about, claims = rows.read(target) if target.exists() else ({"run": {}, "pictures": {}}, [])
    for run in (run for run in runs if "batch" in run.record):
        _settings(run, folder)
    for run in (run for run in runs if "batch" not in run.record):
        about_it, new = rows.read(run.path / "claims.json")
        _measured(run, about_it["run"], folder)
        about = {"run": about_it["run"], "pictures": _pictures(run, about["pictures"], folder)}
        claims = ledger.best(claims, [_from(row, about_it["run"]) for row in new])
    # from what was found, not from the last verdict: a choice may have been taken back
    claims = robustness.settled(ledger.best(claims, ledger.merge([])))
    if (folder / "settings").exists():
        curves.draw_all(claims, folder / "settings")
    rows.write(target, claims, run=about["run"], pictures=about["pictures"])
    if after := project.hook("after_reference"):
        after(project.root())
    return target, sum(row.data is not None for row in claims)


def _from(row: Row, run: dict) -> Row:
    """A row with the run that found it, and the commit that the run ran."""
    if row.data is None:
        return row
    return replace(row, run=run["id"], commit=run.get("commit", ""))


def _refuse_other_points(batch) -> None:
    """A batch can be a reference at the settings of its record's choices file only; a setting that
    failed is one that was not tried."""
    record = batch.record["batch"]
    given = [about["parameters"] for about in batch.record["notebooks"].values()]
    wanted = robustness.points(record, batch.record["profile"])
    if [{name: str(at[name]) for name in wanted[0]} for at in given] != wanted:
        raise Refused(
            f"batch {batch.record['id']} is not at the settings of {record}'s choices: only what "
            f"`ppkit reproduce {record} --settings` ran can be a reference"
        )


def _settings(batch, folder: Path) -> None:
    """Keep what a batch found at each setting, in figures/settings/<record>.<data>.csv, and at the
    paper's size in <record>.paper.<data>.csv."""
    record, data = batch.record["batch"], batch.record["data"]
    table = pd.read_parquet(batch.path / "table.parquet")
    for choice in robustness.choices(record):  # the table has what differs between its points
        given = {k: about["parameters"] for k, about in batch.record["notebooks"].items()}
        table[choice.parameter] = [str(given[k][choice.parameter]) for k in table["point"]]
    size = "paper." if batch.record["profile"] == "paper" else ""
    (folder / "settings").mkdir(exist_ok=True)
    robustness.moved(record, table).to_csv(
        folder / "settings" / f"{record}.{size}{data}.csv",
        index=False,
        float_format="%.4g",
        lineterminator="\n",
    )


def _measured(run, about: dict, folder: Path) -> None:
    for file in sorted((run.path / "measured").glob("*.json")):
        (folder / "measured").mkdir(exist_ok=True)
        run_folder.write_json(
            folder / "measured" / file.name,
            {"run": about["id"], "machine": about["machine"], "values": run_folder.read_json(file)},
        )


def _pictures(run, kept: dict, folder: Path) -> dict:
    """Copy the run's pictures to `folder` and return what is known of all there.

    A quick picture takes no paper-profile one's place, except one of formulas, which is the same in
    every profile. A picture of real rows stays with its run. One whose notebook is gone goes, and
    one that its notebook did not draw in this run.
    """
    profile, pictures = run.record["profile"], dict(kept)
    drawn = set()
    for about in map(run_folder.read_json, sorted((run.path / "figures").glob("*.json"))):
        name = about["name"]
        drawn.add(name)
        if "real" not in about["data"] and (
            profile == "paper"
            or about["data"] == "formula"
            or pictures.get(name, {}).get("profile") != "paper"
        ):
            shutil.copyfile(run.path / "figures" / f"{name}.png", folder / f"{name}.png")
            pictures[name] = {key: about[key] for key in ("caption", "data", "notebook")} | {
                "profile": profile,
                "run": run.record["id"],
            }
    there, ran = catalogue.notebooks(), run.record["notebooks"]
    current = {
        name
        for name, about in pictures.items()
        if about["notebook"] in there and (about["notebook"] not in ran or name in drawn)
    }
    for name in pictures.keys() - current:
        (folder / f"{name}.png").unlink(missing_ok=True)
    return {name: pictures[name] for name in sorted(current)}
