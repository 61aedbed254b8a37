"""The rows of a run or of the reference, and a run's rows beside the reference's."""

from dataclasses import replace
from typing import Any

from ppkit import project
from ppkit.runs import Refused
from ppkit.runs.claims_file import read_claims
from ppkit.verdicts import robustness
from ppkit.verdicts.rows import Result, Row

REFERENCE = "figures/claims.json"
CHANGED = "parameters were changed: choices are not weighed"


def beside_reference(rows: list[Row], notebooks: dict[str, dict[str, Any]]) -> list[Row]:
    """Rows of a run as `robustness.settled`, and beside what it decided what the reference found on
    other data.

    notebooks: of the run, as in its run.json; one whose parameters were changed has rows of which
    choices are not weighed.
    """
    kept = rows_of(None) if (project.root() / REFERENCE).exists() else []
    found = {row.id: row.results for row in kept}
    changed = {name for name, about in notebooks.items() if about.get("changed")}
    with_others = [_with_others(row, found.get(row.id, [])) for row in rows]
    shown = []
    for row, settled in zip(with_others, robustness.settled(with_others)):
        if row.notebook in changed:
            settled = replace(row, robustness=None, not_varied=CHANGED, other_data={})
        shown.append(settled)
    return shown


def _with_others(row: Row, results: list[Result]) -> Row:
    """A row of a run with what was found on data of another standing."""
    if row.data is None:
        return replace(row, also=[])
    return replace(row, also=[one for one in results if one.standing != row.standing])


def rows_of(run: str | None) -> list[Row]:
    """The rows of a run, or of the reference if `run` is None.  Refused if there are none."""
    if run is None:
        file = project.root() / REFERENCE
        missing = f"there is no {REFERENCE} yet, `ppkit reference RUN` makes a run the reference"
    else:
        from ppkit.runs import run_folder  # the reference needs none of what it loads

        file = run_folder.open_run(run).path / "claims.json"
        missing = (
            f"run {run} has no verdicts of its own: it was stopped before its end, or it is a "
            "batch, whose rows are in its table.csv"
        )
    if file.exists():
        return read_claims(file)
    if newest := newest_run():
        raise Refused(f"{missing}; the last run that has some is {newest}")
    raise Refused(f"{missing}; no run has any yet, `ppkit reproduce` makes one")


def newest_run() -> str | None:
    """The id of the newest run that has verdicts; None if none has."""
    files = (project.root() / "runs").glob("*/claims.json")
    return max((file.parent.name for file in files if not file.parent.is_symlink()), default=None)
