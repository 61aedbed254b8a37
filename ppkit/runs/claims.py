"""What `ppkit claims` prints: what came out, in short; the rows of a paper; one row in full; the
claims that a choice or other data turn."""

from collections import Counter
from pathlib import Path

from rich.table import Table
from rich.text import Text

from ppkit.runs import Refused, run_folder
from ppkit.runs.rows import BOX, REFERENCE, beside_reference, console, rows_of
from ppkit.verdicts import anchors, pages, rules, statements, wording
from ppkit.verdicts.rows import Row

STYLES = {  # of an outcome: its colour in the terminal
    rules.REPRODUCED: "green",
    wording.ON_OTHER_DATA: "green",
    rules.NOT_REPRODUCED: "yellow",
    rules.REFUTED: "red",
    rules.UNDECIDED: "magenta",
    rules.DEPENDS: "magenta",
    rules.OUT_OF_REACH: "blue",
    rules.NOT_TRIED: "dim",
    rules.ANSWERED: "blue",
    rules.PASSED: "dim",
    rules.FAILED: "red",
}
WIDTH = 100  # where the output is no terminal and COLUMNS is not set
NARROWEST = 40  # column of what a row says


def show(run: str | None, *, beginning: str = "", turned: bool = False) -> None:
    """Print what came out in a run, or in the reference if `run` is None.

    beginning: of the ids of rows to list; a row's whole id prints all that is known of it, also
    where other ids begin with it.
    turned: list the claims that a choice or other data turn.  None of these: what came out, in
    short.
    Refused if no row has this beginning.
    """
    notebooks = run_folder.open_run(run).notebooks if run else {}
    every = rows_of(run)
    rows = [row for row in every if row.id == beginning]
    rows = rows or [row for row in every if row.id.startswith(beginning)]
    if not rows:
        there = ", ".join(statements.papers())
        raise Refused(f"no row begins with {beginning!r}: there are {there}")
    rows = beside_reference(rows, notebooks)
    screen = console(WIDTH)
    if turned:
        _turned(screen, rows)
    elif len(rows) == 1:
        _in_full(screen, rows[0])
    elif beginning:
        _listed(screen, rows, run)
    else:
        _in_short(screen, rows, run)


def check_text(file: Path, beginning: str = "") -> int:
    """Say where the sentences that claims rest on stand in the text of a paper; returns 0 if all
    were found, else 1.

    file: the text, UTF-8.  beginning: of the ids of claims to look for; "" takes the paper of which
    the text has most sentences.
    Refused if no claim with a fingerprint begins so, if the file is no text, or if the text has no
    sentence of any.
    """
    claims = [one for one in statements.every_claim().values() if one.fingerprint]
    claims = [one for one in claims if one.id.startswith(beginning)]
    if not claims:
        raise Refused(f"no claim with a fingerprint begins with {beginning!r}")
    try:
        text = file.read_text("utf-8")
    except UnicodeDecodeError:
        raise Refused(f"{file} is no text in UTF-8; of a PDF take the text out first") from None
    found = anchors.found_in(text, [one.fingerprint for one in claims])
    there = Counter(one.paper for one in claims if found[one.fingerprint])
    if not there:
        raise Refused(f"{file} has no sentence that a claim rests on")
    if not beginning:
        paper = there.most_common(1)[0][0]
        claims = [one for one in claims if one.paper == paper]
    table = Table(box=BOX, padding=(0, 1, 0, 0))
    for heading in ("row", "place", "the paper's words"):
        table.add_column(heading)
    for one in claims:
        table.add_row(one.id, one.place, found[one.fingerprint] or "NOT FOUND")
    screen = console(WIDTH)
    screen.print(table)
    lost = sum(found[one.fingerprint] is None for one in claims)
    screen.print(f"{len(claims) - lost} of {len(claims)} sentences found.")
    return 1 if lost else 0


def _in_short(console, rows: list[Row], run: str | None) -> None:
    claims = [row for row in rows if row.kind == "claim"]
    decided = [row for row in claims if row.data]
    place = f"run {run_folder.open_run(run).path.name}" if run else REFERENCE
    console.print(f"{len(decided)} of {len(claims)} claims are decided in {place}.")
    console.print(
        f"Data: {_counted(wording.kind(row.data) for row in decided)}. "
        f"Profile: {_counted(row.profile for row in decided)}."
    )
    grid = Table.grid(padding=(0, 2, 0, 0))
    for paper, name in statements.short_titles().items():
        of_paper = [row for row in claims if row.paper == paper]
        if of_paper:
            grid.add_row(paper, _outcomes(name, of_paper))
            grid.add_row("", _headlines(of_paper))
    console.print(grid)
    counts = Counter(wording.outcome(row) for row in claims)
    in_all = [
        f"{sign} {counts[outcome]} {pages.IN_A_COUNT.get(outcome, outcome)}"
        for outcome, sign in wording.SYMBOLS.items()
        if counts[outcome]
    ]
    console.print(f"In all: {', '.join(in_all)}.")
    commands = Table.grid(padding=(0, 2, 0, 0))
    paper, id = claims[0].paper, claims[0].id
    commands.add_row(f"{_asked(run)} --rows {paper}", "the rows of a paper")
    commands.add_row(f"{_asked(run)} --rows {id}", "one row in full")
    commands.add_row(f"{_asked(run)} --turned", "the claims that a choice or other data turn")
    console.print(commands)


def _asked(run: str | None) -> str:
    return f"ppkit claims {run}" if run else "ppkit claims"


def _counted(names) -> str:
    return ", ".join(f"{count} {name}" for name, count in Counter(names).most_common()) or "none"


def _outcomes(name: str, claims: list[Row]) -> Text:
    """What the paper is about, and how many of its claims came out how, by signs."""
    counts = Counter(wording.outcome(row) for row in claims)
    text = Text(f"{name}:")
    for outcome, sign in wording.SYMBOLS.items():
        if counts[outcome]:
            text.append(" ").append(f"{sign} {counts[outcome]}", style=STYLES[outcome])
    return text


def _headlines(claims: list[Row]) -> Text:
    """How many claims a paper has, which of them it is read for, and how those came out."""
    text = Text(f"{len(claims)} claims; it is read for")
    for row in claims:
        if row.headline:
            text.append(" ").append(wording.symbol(row), style=STYLES[wording.outcome(row)])
            text.append(f" {row.id.partition('.')[2]}")
    return text


def _listed(console, rows: list[Row], run: str | None) -> None:
    table = _table(rows, "paper", "ours", "verdict")
    for row in rows:
        table.add_row(_statement(row), wording.printed(row), wording.ours(row), _verdict(row))
    console.print(table)
    console.print(f"One row in full: {_asked(run)} --rows {rows[0].id}")


def _turned(console, rows: list[Row]) -> None:
    turned = [row for row in rows if rules.plain(row.verdict) == rules.DEPENDS]
    table = _table(turned, "verdict", "at other settings, on other data")
    for row in turned:
        found = "\n".join(filter(None, (wording.robust(row), *wording.beside(row))))
        table.add_row(_statement(row), _verdict(row), found)
    console.print(table)
    console.print(f"{len(turned)} claims are turned by a choice or by other data.")


def _in_full(console, row: Row) -> None:
    claim = statements.claims(row.paper).get(row.id)
    lines = {
        "place": row.place,
        "the paper says" if row.kind == "claim" else f"a {row.kind} of ours": row.says,
        "table, cell": ", ".join(row.cell or ()),
        "printed": row.printed,
        "computed": row.computed and wording.printed(row),
        "ours": wording.ours(row),
        "what ours is": row.measure,
        "verdict": _verdict(row),
        "two runs": wording.seen(row),
        "what is missing": row.missing,
        "out of reach": row.out_of_reach and wording.price(row),
        "what would be true": row.repaired,
        "why": row.note,
        "rule": wording.rule(claim.rule) if claim else row.rule,
        "why that rule": claim and claim.because,
        "data": row.data,
        "profile": row.profile,
        "other data": "\n".join(wording.beside(row)),
        "other settings": wording.robust(row),
        "amended": row.amended,
        "reply": row.reply,
        "picture": row.figure and f"figures/{row.figure}.png",
        "command": wording.command(row),
        "run, commit": ", ".join(filter(None, (row.run, row.commit))),
    }
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    for name, told in lines.items():
        if told:
            grid.add_row(name, told)
    console.print(Text(row.id, style="bold"))
    console.print(grid)


def _table(rows: list[Row], *headings: str) -> Table:
    """A table whose first column holds the rows' ids, each unbroken, and what they say."""
    table = Table(box=BOX, padding=(0, 1, 0, 0))
    widest = max((len(row.id) for row in rows), default=0)
    table.add_column("row: what the paper says, or we ask", width=max(widest, NARROWEST))
    for heading in headings:
        table.add_column(heading)
    return table


def _statement(row: Row) -> Text:
    return Text(row.id, style="bold").append(f"\n{row.says}", style="not bold")


def _verdict(row: Row) -> Text:
    return Text(wording.marked(row), style=STYLES[wording.outcome(row)])
