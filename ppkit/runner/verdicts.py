"""Tables for the terminal: the verdict on every claim, and the data sets."""

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ppkit import ledger, project, rules
from ppkit.runner import Refused, run_folder

STYLES = {
    rules.REPRODUCED: "green",
    rules.DIRECTION: "cyan",
    rules.NOT_REPRODUCED: "yellow",
    rules.REFUTED: "red",
    rules.UNDECIDED: "magenta",
    rules.DEPENDS: "magenta",
    rules.OPEN: "magenta",
    rules.NOT_TRIED: "dim",
    rules.ANSWERED: "blue",
    rules.PASSED: "dim",
    rules.FAILED: "red",
}

WIDTH_IN_A_FILE, DATA_WIDTH_IN_A_FILE = 140, 100


def show(run: str | None) -> None:
    """Print the claims of a run, or of the reference if `run` is None.  Refused if there is
    none."""
    file = (
        project.root() / "figures" / "claims.json"
        if run is None
        else run_folder.open_run(run).path / "claims.json"
    )
    if not file.exists():
        raise Refused(
            "there is no figures/claims.json yet: name a run, for example `ppkit claims latest`"
            if run is None
            else f"run {run} has no verdicts yet: it was stopped before its end"
        )
    rows = run_folder.read_json(file)["claims"]
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("row", "kind", "paper", "ours", "verdict", "cause", "data"):
        table.add_column(heading, no_wrap=heading in ("row", "kind", "ours"))
    for row in rows:
        style = STYLES[rules.plain(row["verdict"])]
        table.add_row(
            row["id"],
            row["kind"],
            row["printed"] or "",
            ledger.ours(row),
            Text(f"{ledger.symbol(row['verdict'])} {row['verdict']}", style=style),
            row["cause"] or "",
            row["data"] or "",
        )
    console = _console()
    console.print(table)
    counts = ledger.scoreboard(rows)
    for paper, of_paper in counts.iterrows():
        said = (
            f"{ledger.SYMBOLS.get(name, '')} {name} {n}".strip()
            for name, n in of_paper.items()
            if n
        )
        console.print(f"{paper}: {', '.join(said)}", soft_wrap=True)


def show_data() -> None:
    """Print for each data set what load takes now: real, stand-in or simulated, where, rows,
    checksum; then what is missing."""
    from ppkit import datasets
    from ppkit.datasets import fetching

    rows = datasets.status()
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("name", "source", "rows", "where", "sha256"):
        table.add_column(
            heading,
            no_wrap=heading not in ("source", "rows"),
            max_width=12 if heading == "source" else None,
        )
    notes = Table.grid(padding=(0, 2))
    for row in rows:
        kind, _, counted = row["source"].partition(": ")
        table.add_row(
            row["name"],
            kind,
            (counted or str(row["rows"])).replace(" rows", ""),
            row["where"],
            row["sha256"][:12],
        )
        notes.add_row(row["name"], row["note"])
    console = _console(DATA_WIDTH_IN_A_FILE)
    console.print(table)
    console.print(notes)
    missing = [
        row["name"] for row in rows if row["source"].startswith("stand-in") and not row["sha256"]
    ]
    public = [name for name in missing if name in fetching.PUBLIC]
    if public:
        size = sum(fetching.PUBLIC[name].n_bytes for name in public) / 1e6
        print(
            f"\nTo download what is public ({size:,.0f} MB):  ppkit data fetch {' '.join(public)}"
        )
    for name in missing:
        if name in fetching.BY_HAND:
            print(f"To read how to get {name}:  ppkit data fetch {name}")


def _console(width_in_a_file: int = WIDTH_IN_A_FILE) -> Console:
    console = Console(markup=False, highlight=False)
    return (
        console
        if console.is_terminal
        else Console(markup=False, highlight=False, width=width_in_a_file)
    )
