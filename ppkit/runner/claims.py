"""What `ppkit claims` prints: what came out, in short; the rows of a paper; one row in full; the
claims that a choice or other data turn; what turned between two runs."""

from collections import Counter

from rich.table import Table
from rich.text import Text

from ppkit import in_words, ledger, rules
from ppkit.runner import Refused, run_folder, tables

STYLES = {  # of an outcome: its colour in the terminal
    rules.REPRODUCED: "green",
    in_words.ON_OTHER_DATA: "green",
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
WIDTH = 100  # where the output is no terminal and COLUMNS is not set
NARROWEST = 40  # column of what a row says


def show(run: str | None, *, beginning: str = "", turned: bool = False, since: str = "") -> None:
    """Print what came out in a run, or in the reference if `run` is None.

    beginning: of the ids of rows to list; a row's whole id prints all that is known of it, also
    where other ids begin with it.
    turned: list the claims that a choice or other data turn.  since: a run; list the rows that have
    another verdict than there.  None of these: what came out, in short.
    Refused if no row has this beginning.
    """
    notebooks = run_folder.open_run(run).notebooks if run else {}
    every = tables.rows_of(run)
    rows = [row for row in every if row["id"] == beginning]
    rows = rows or [row for row in every if row["id"].startswith(beginning)]
    if not rows:
        raise Refused(f"no row begins with {beginning!r}: there are {', '.join(ledger.papers())}")
    rows = tables.beside_reference(rows, notebooks)
    console = tables.console(WIDTH)
    if since:
        _since(console, rows, since)
    elif turned:
        _turned(console, rows)
    elif len(rows) == 1:
        _in_full(console, rows[0])
    elif beginning:
        _listed(console, rows, run)
    else:
        _in_short(console, rows, run)


def _in_short(console, rows: list[dict], run: str | None) -> None:
    claims = [row for row in rows if row["kind"] == "claim"]
    decided = [row for row in claims if row["data"]]
    place = f"run {run_folder.open_run(run).path.name}" if run else tables.REFERENCE
    console.print(f"{len(decided)} of {len(claims)} claims are decided in {place}.")
    console.print(
        f"Data: {_counted(in_words.kind(row['data']) for row in decided)}. "
        f"Profile: {_counted(row['profile'] for row in decided)}."
    )
    grid = Table.grid(padding=(0, 2, 0, 0))
    for paper, name in ledger.short_titles().items():
        of_paper = [row for row in claims if row["paper"] == paper]
        if of_paper:
            grid.add_row(paper, _outcomes(name, of_paper))
            grid.add_row("", _headlines(of_paper))
    console.print(grid)
    counts = Counter(in_words.outcome(row) for row in claims)
    in_all = [
        f"{sign} {counts[outcome]} {tables.MEANINGS.get(outcome, outcome)}"
        for outcome, sign in in_words.SYMBOLS.items()
        if counts[outcome]
    ]
    console.print(f"In all: {', '.join(in_all)}.")
    commands = Table.grid(padding=(0, 2, 0, 0))
    paper, id = claims[0]["paper"], claims[0]["id"]
    commands.add_row(f"{_asked(run)} --rows {paper}", "the rows of a paper")
    commands.add_row(f"{_asked(run)} --rows {id}", "one row in full")
    commands.add_row(f"{_asked(run)} --turned", "the claims that a choice or other data turn")
    console.print(commands)


def _asked(run: str | None) -> str:
    return f"ppkit claims {run}" if run else "ppkit claims"


def _counted(names) -> str:
    return ", ".join(f"{count} {name}" for name, count in Counter(names).most_common()) or "none"


def _outcomes(name: str, claims: list[dict]) -> Text:
    """What the paper is about, and how many of its claims came out how, by signs."""
    counts = Counter(in_words.outcome(row) for row in claims)
    text = Text(f"{name}:")
    for outcome, sign in in_words.SYMBOLS.items():
        if counts[outcome]:
            text.append(" ").append(f"{sign} {counts[outcome]}", style=STYLES[outcome])
    return text


def _headlines(claims: list[dict]) -> Text:
    """How many claims a paper has, which of them it is read for, and how those came out."""
    text = Text(f"{len(claims)} claims; it is read for")
    for row in claims:
        if row["headline"]:
            text.append(" ").append(in_words.symbol(row), style=STYLES[in_words.outcome(row)])
            text.append(f" {row['id'].partition('.')[2]}")
    return text


def _listed(console, rows: list[dict], run: str | None) -> None:
    table = _table(rows, "paper", "ours", "verdict")
    for row in rows:
        table.add_row(_statement(row), in_words.printed(row), in_words.ours(row), _verdict(row))
    console.print(table)
    console.print(f"One row in full: {_asked(run)} --rows {rows[0]['id']}")


def _turned(console, rows: list[dict]) -> None:
    turned = [row for row in rows if rules.plain(row["verdict"]) == rules.DEPENDS]
    table = _table(turned, "verdict", "at other settings, on other data")
    for row in turned:
        found = "\n".join(filter(None, (in_words.firm(row), *in_words.beside(row))))
        table.add_row(_statement(row), _verdict(row), found)
    console.print(table)
    console.print(f"{len(turned)} claims are turned by a choice or by other data.")


def _since(console, rows: list[dict], since: str) -> None:
    before = {row["id"]: row for row in tables.rows_of(since)}
    other = [row for row in rows if row["id"] in before and _differs(row, before[row["id"]])]
    table = _table(other, "now", "then", "why now")
    for row in other:
        [then] = in_words.beside(row | {"also": [before[row["id"]]]})
        why = "; ".join(filter(None, (in_words.reason(row), in_words.firm(row))))
        table.add_row(_statement(row), _verdict(row).append(f", {in_words.ours(row)}"), then, why)
    console.print(f"{len(other)} rows have another verdict than in {since}.")
    console.print(table)


def _differs(row: dict, then: dict) -> bool:
    return None not in (then["data"], row["data"]) and then["alone"] != row["alone"]


def _in_full(console, row: dict) -> None:
    claim = ledger.claims(row["paper"]).get(row["id"])
    lines = {
        "place": row["where"],
        "the paper says" if row["kind"] == "claim" else f"a {row['kind']} of ours": row["says"],
        "table, cell": ", ".join(row["cell"] or ()),
        "printed": row["printed"],
        "computed": row["computed"] and in_words.printed(row),
        "ours": in_words.ours(row),
        "what ours is": row["measure"],
        "verdict": _verdict(row),
        "why": row["note"],
        "rule": in_words.rule(claim.rule) if claim else row["rule"],
        "why that rule": claim and claim.because,
        "data": row["data"],
        "profile": row["profile"],
        "other data": "\n".join(in_words.beside(row)),
        "other settings": in_words.firm(row),
        "amended": row["amended"],
        "reply": row["reply"],
        "picture": row["figure"] and f"figures/{row['figure']}.png",
        "command": in_words.command(row),
        "run, commit": ", ".join(filter(None, (row.get("run"), row.get("commit")))),
    }
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    for name, told in lines.items():
        if told:
            grid.add_row(name, told)
    console.print(Text(row["id"], style="bold"))
    console.print(grid)


def _table(rows: list[dict], *headings: str) -> Table:
    """A table whose first column holds the rows' ids, each unbroken, and what they say."""
    table = Table(box=tables.BOX, padding=(0, 1, 0, 0))
    widest = max((len(row["id"]) for row in rows), default=0)
    table.add_column("row: what the paper says, or we ask", width=max(widest, NARROWEST))
    for heading in headings:
        table.add_column(heading)
    return table


def _statement(row: dict) -> Text:
    return Text(row["id"], style="bold").append(f"\n{row['says']}", style="not bold")


def _verdict(row: dict) -> Text:
    return Text(in_words.marked(row), style=STYLES[in_words.outcome(row)])
