"""What `ppkit claims` prints: what came out, in short; the rows of a paper; one row in full; the
claims that a choice or other data turn."""

from collections import Counter
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ppkit import project
from ppkit.runs import Refused, code_versions
from ppkit.runs.rows import REFERENCE, beside_reference, newest_run, rows_of
from ppkit.runs.screen import BOX, console
from ppkit.verdicts import anchors, pages, rules, statements, wording
from ppkit.verdicts.rows import Row

if TYPE_CHECKING:
    from ppkit.runs.run_folder import RunFolder

WIDTH = 100  # where the output is no terminal and COLUMNS is not set
NARROWEST = 40  # column of what a row says
EXISTENCE = "the sentence says that something can be: no other setting turns it"


def show(run: str | None, *, beginning: str = "", turned: bool = False) -> None:
    """Print what came out in a run; if `run` is None in the reference, or where there is none yet
    in the newest run.

    beginning: of the ids of rows to list; a row's whole id prints all that is known of it, also
    where other ids begin with it.
    turned: list the claims that a choice or other data turn.  None of these: what came out, in
    short.
    Refused if no row has this beginning, or if `run` is the id of a row or of a paper.
    """
    kinds = {"row": statements.every_claim(), "paper": statements.papers()}
    for kind, names in kinds.items():
        if run in names:
            raise Refused(f"{run} is a {kind}, not a run: type ppkit claims --rows {run}")
    if run is None and not (project.root() / REFERENCE).exists():
        run = newest_run()
    every = rows_of(run)
    rows = [row for row in every if row.id == beginning]
    rows = rows or [row for row in every if row.id.startswith(beginning)]
    if not rows:
        near = get_close_matches(beginning, [row.id for row in every], n=5, cutoff=0)
        raise Refused(
            f"no row begins with {beginning!r}: near it are {', '.join(near)}; "
            f"the papers are {', '.join(statements.papers())}"
        )
    if run:  # `ppkit reference` has weighed its own
        rows = beside_reference(rows, _folder(run).notebooks)
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
    claims = statements.every_claim().values()
    fingerprints = {
        claim.id: claim.fingerprint
        for claim in claims
        if claim.fingerprint and claim.id.startswith(beginning)
    }
    if not fingerprints:
        of_these = f"that begins with {beginning!r} " if beginning else ""
        raise Refused(
            f"no claim {of_these}has a fingerprint: ppkit.verdicts.anchors.fingerprint(SENTENCE) "
            "makes one for its file"
        )
    try:
        text = file.read_text("utf-8")
    except UnicodeDecodeError:
        raise Refused(f"{file} is no text in UTF-8; of a PDF take the text out first") from None
    words = anchors.found_in(text, list(fingerprints.values()))
    there = Counter(one.paper for one in claims if one.fingerprint and words.get(one.fingerprint))
    if not there:
        raise Refused(f"{file} has no sentence that a claim rests on")
    [(paper, _)] = there.most_common(1)
    lost = 0
    table = Table("row", "place", "the paper's words", box=BOX, padding=(0, 1, 0, 0))
    for claim in claims:
        if claim.paper == paper and claim.id in fingerprints:
            found = words[fingerprints[claim.id]]
            lost += found is None
            table.add_row(claim.id, claim.place, found or "NOT FOUND")
    screen = console(WIDTH)
    screen.print(table)
    screen.print(f"{table.row_count - lost} of {table.row_count} sentences found.")
    return 1 if lost else 0


def _folder(run: str) -> "RunFolder":
    from ppkit.runs import run_folder  # the reference needs none of what it loads

    return run_folder.open_run(run)


def _in_short(screen: Console, rows: list[Row], run: str | None) -> None:
    claims = [row for row in rows if row.kind == "claim"]
    measured = [row for row in claims if row.data]
    place = f"run {_folder(run).path.name}" if run else REFERENCE
    screen.print(f"{len(measured)} of {len(claims)} claims were measured in {place}.")
    screen.print(
        f"Data: {_counted(wording.kind(row.data) for row in measured)}. "
        f"Profile: {_counted(row.profile for row in measured)}."
    )
    grid = Table.grid(padding=(0, 2, 0, 0))
    for paper, name in statements.short_titles().items():
        of_paper = [row for row in claims if row.paper == paper]
        if of_paper:
            read_for = [
                f" {wording.symbol(row)} {row.short_id}" for row in of_paper if row.headline
            ]
            grid.add_row(paper, f"{name}: {_outcomes(of_paper)}")
            grid.add_row("", f"{len(of_paper)} claims; it is read for{''.join(read_for)}")
    screen.print(grid)
    screen.print(f"In all: {_outcomes(claims, in_words=True)}.")
    asked = _asked(run)
    commands = Table.grid(padding=(0, 2, 0, 0))
    commands.add_row(f"{asked} --rows {claims[0].paper}", "the rows of a paper")
    commands.add_row(f"{asked} --rows {claims[0].id}", "one row in full")
    commands.add_row(f"{asked} --turned", "the claims that a choice or other data turn")
    screen.print(commands)


def _asked(run: str | None) -> str:
    return f"ppkit claims {run}" if run else "ppkit claims"


def _counted(names: Iterable[str | None]) -> str:
    return ", ".join(f"{count} {name}" for name, count in Counter(names).most_common()) or "none"


def _outcomes(claims: list[Row], *, in_words: bool = False) -> str:
    """How many claims came out how, by signs."""
    counts = Counter(wording.outcome(row) for row in claims)
    told = []
    for outcome, sign in wording.SYMBOLS.items():
        if counts[outcome]:
            words = f" {pages.IN_A_COUNT.get(outcome, outcome)}" if in_words else ""
            told.append(f"{sign} {counts[outcome]}{words}")
    return (", " if in_words else " ").join(told)


def _listed(screen: Console, rows: list[Row], run: str | None) -> None:
    table = _table(rows, "paper", "ours", "verdict")
    for row in rows:
        verdict = wording.marked(row)
        table.add_row(_statement(row), wording.printed(row), wording.ours(row), verdict)
    screen.print(table)
    screen.print(f"One row in full: {_asked(run)} --rows {rows[0].id}")


def _turned(screen: Console, rows: list[Row]) -> None:
    turned = [row for row in rows if rules.plain(row.verdict) == rules.DEPENDS]
    table = _table(turned, "verdict", "at other settings, on other data")
    for row in turned:
        found = "\n".join(filter(None, (wording.robust(row), *wording.beside(row))))
        table.add_row(_statement(row), wording.marked(row), found)
    screen.print(table)
    are = "claim is" if len(turned) == 1 else "claims are"
    screen.print(f"{len(turned)} {are} turned by a choice or by other data.")


def _in_full(screen: Console, row: Row) -> None:
    claim = statements.claims(row.paper).get(row.id)
    lines = {
        "place": row.place,
        "the paper says" if row.kind == "claim" else f"a {row.kind} of ours": row.says,
        "table, cell": ", ".join(row.cell or ()),
        "printed": row.printed,
        "computed": row.computed and wording.printed(row),
        "ours": wording.ours(row),
        "what ours is": row.measure,
        "verdict": wording.marked(row),
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
        "one is enough": claim and claim.existence and EXISTENCE,
        "amended": row.amended,
        "reply": row.reply,
        "picture": row.figure and f"figures/{row.figure}.png",
        "command": wording.command(row),
        "run, commit": ", ".join(filter(None, (row.run, row.commit, code_versions.in_words(row)))),
    }
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    for name, told in lines.items():
        if told:
            grid.add_row(name, told)
    screen.print(Text(row.id, style="bold"))
    screen.print(grid)


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
