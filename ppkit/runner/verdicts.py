"""Tables for the terminal: the verdict on every claim, and the data sets."""

from rich import box
from rich.console import Console
from rich.table import Table

from ppkit import ledger, project, rules
from ppkit.runner import Refused, index, run_folder

STYLES = {rules.REPRODUCED: "green", rules.DIRECTION: "cyan", rules.NOT_REPRODUCED: "yellow", rules.REFUTED: "red",
          rules.NOT_TRIED: "dim"}


def show(run: str | None) -> None:
    """Print the claims of a run, or of the reference if `run` is None.  Refused if there is none."""
    file = project.root() / "figures" / "claims.json" if run is None else run_folder.open_run(run).path / "claims.json"
    if not file.exists():
        raise Refused("there is no figures/claims.json yet: name a run, for example `ppkit claims latest`" if run is None
                      else f"run {run} has no verdicts yet: it was stopped before its end")
    rows = run_folder.read_json(file)["claims"]
    table = Table("claim", "paper", "ours", "verdict", "data", box=box.SIMPLE_HEAD)
    for row in rows:
        style = STYLES[index.kind(row["verdict"])]
        table.add_row(row["id"], row["printed"] or "", index.ours(row),
                      f"[{style}]{ledger.symbol(row['verdict'])} {row['verdict']}[/]", row["data"] or "")
    Console().print(table)
    counts = {name: sum(index.kind(row["verdict"]) == name for row in rows) for name in rules.VERDICTS}
    Console().print("  ".join(f"{ledger.symbol(name)} {name} {count}" for name, count in counts.items()))


def show_data() -> None:
    """Print one row a data set: whether its real file is here, and what stands in for it."""
    from ppkit import datasets

    rows = [{name: str(value) for name, value in row.items()} for row in datasets.status()]
    table = Table(*rows[0], box=box.SIMPLE_HEAD)
    for row in rows:
        table.add_row(*row.values())
    Console().print(table)
