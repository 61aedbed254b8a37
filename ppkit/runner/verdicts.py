"""Tables for the terminal: the verdict on every claim, and the data sets."""

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ppkit import ledger, project, rules
from ppkit.runner import Refused, run_folder

STYLES = {rules.REPRODUCED: "green", rules.DIRECTION: "cyan", rules.NOT_REPRODUCED: "yellow", rules.REFUTED: "red",
          rules.NOT_TRIED: "dim"}

WIDTH_IN_A_FILE = 140


def show(run: str | None) -> None:
    """Print the claims of a run, or of the reference if `run` is None.  Refused if there is none."""
    file = project.root() / "figures" / "claims.json" if run is None else run_folder.open_run(run).path / "claims.json"
    if not file.exists():
        raise Refused("there is no figures/claims.json yet: name a run, for example `ppkit claims latest`" if run is None
                      else f"run {run} has no verdicts yet: it was stopped before its end")
    rows = run_folder.read_json(file)["claims"]
    table = Table("claim", "paper", "ours", "verdict", "data", box=box.SIMPLE_HEAD)
    for row in rows:
        style = STYLES[rules.plain(row["verdict"])]
        table.add_row(row["id"], row["printed"] or "", ledger.ours(row),
                      Text(f"{ledger.symbol(row['verdict'])} {row['verdict']}", style=style), row["data"] or "")
    _console().print(table)
    counts = {name: sum(rules.plain(row["verdict"]) == name for row in rows) for name in rules.VERDICTS}
    print("  ".join(f"{ledger.symbol(name)} {name} {count}" for name, count in counts.items()))


def show_data() -> None:
    """Print one row a data set: whether its real file is here, and what stands in for it."""
    from ppkit import datasets

    rows = [{name: str(value) for name, value in row.items()} for row in datasets.status()]
    table = Table(*rows[0], box=box.SIMPLE_HEAD)
    for row in rows:
        table.add_row(*row.values())
    _console().print(table)


def _console() -> Console:
    console = Console(markup=False)
    return console if console.is_terminal else Console(markup=False, width=WIDTH_IN_A_FILE)
