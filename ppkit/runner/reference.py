"""`ppkit reference`: the only writer of figures/claims.json and of the reference pictures beside it."""

import shutil
from pathlib import Path

from ppkit import ledger, project
from ppkit.runner import Refused, run_folder

LARGEST_PICTURE = 200_000  # bytes


def keep(names: list[str]) -> tuple[Path, int]:
    """Merge finished runs into figures/claims.json, later ones over earlier, and copy their pictures (PNG).

    names: runs, as `run_folder.open_run` takes them.
    Returns the file and how many of its claims are decided.
    Refused, and nothing written, if a run is unfinished or had failures, or a picture is above 200 kB.
    """
    runs = [run_folder.open_run(name) for name in names]
    if not runs:
        raise Refused("name at least one finished run, for example `ppkit reference latest`")
    for run in runs:
        if run.record["state"] != run_folder.FINISHED:
            raise Refused(f"run {run.record['id']} is not finished but {run.record['state']}: "
                          "only a run whose notebooks all went through can be a reference")
    pictures = [picture for run in runs for picture in sorted((run.path / "figures").glob("*.png"))]
    for picture in pictures:
        if picture.stat().st_size > LARGEST_PICTURE:
            raise Refused(f"{picture.name} has {picture.stat().st_size:,} bytes, more than {LARGEST_PICTURE:,}: "
                          "draw fewer points or a smaller figure")
    folder = project.root() / "figures"
    folder.mkdir(exist_ok=True)
    target = folder / "claims.json"
    kept = run_folder.read_json(target) if target.exists() else {"runs": {}, "claims": []}
    for run in runs:
        new = run_folder.read_json(run.path / "claims.json")
        kept = {"run": new["run"], "claims": ledger.best(kept["claims"], new["claims"])}
    run_folder.write_json(target, kept)
    for picture in pictures:
        shutil.copyfile(picture, folder / picture.name)
    return target, sum(row["verdict"] != "not tried" for row in kept["claims"])
