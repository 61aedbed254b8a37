"""Tables of verdicts, which `ledger.Ledger.record` decides by `rules`: in the terminal, where the
data sets have one too, and in README and docs/, whose numbers are written from figures/claims.json
and figures/bench.json, never by hand."""

import json
import os
import re
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from ppkit import firmness, in_words, ledger, measured, project, rules
from ppkit.runner import Refused, run_folder
from ppkit.writing import write_whole

REFERENCE = "figures/claims.json"
MEANINGS = {  # of some verdicts, where a count stands before them
    rules.DIRECTION: "right in direction only",
    rules.DEPENDS: "turned by a choice or the data",
}
BOX = box.SIMPLE_HEAD


def beside_reference(rows: list[dict], notebooks: dict[str, dict]) -> list[dict]:
    """Rows of a run as `firmness.settled`, and beside what it decided what the reference found on
    other data.

    notebooks: of the run, as in its run.json; one whose parameters were changed has rows of which
    choices are not weighed.
    """
    kept = rows_of(None) if (project.root() / REFERENCE).exists() else []
    found = {row["id"]: ledger.results(row) for row in kept}
    rows = [
        row
        | {
            "also": [
                one
                for one in found.get(row["id"], ())
                if None not in (row["data"], one["data"]) and one["standing"] != row["standing"]
            ]
        }
        for row in rows
    ]
    changed = {name for name, about in notebooks.items() if about.get("changed")}
    return [
        row | {"firmness": None, "unweighed": "parameters were changed: choices are not weighed"}
        if row["notebook"] in changed
        else settled
        for row, settled in zip(rows, firmness.settled(rows))
    ]


def rows_of(run: str | None) -> list[dict]:
    """The rows of a run, or of the reference if `run` is None.  Refused if there are none."""
    file = (
        project.root() / REFERENCE if run is None else run_folder.open_run(run).path / "claims.json"
    )
    if not file.exists():
        raise Refused(
            f"there is no {REFERENCE} yet: name a run, for example `ppkit claims latest`"
            if run is None
            else f"run {run} has no verdicts of its own: it was stopped before its end, or it is a "
            "batch, whose rows are in its table.csv"
        )
    return run_folder.read_claims(file)["claims"]


def show_data() -> None:
    """Print for each data set what load takes now: real, stand-in or simulated, where, rows,
    checksum; then what is missing."""
    from ppkit import datasets

    table = Table(box=BOX, padding=(0, 1, 0, 0))
    for heading in ("name", "source", "rows", "where", "sha256"):
        table.add_column(
            heading,
            no_wrap=heading not in ("source", "rows"),
            max_width=12 if heading == "source" else None,
        )
    notes = Table.grid(padding=(0, 2))
    for row in datasets.status():
        kind, _, counted = row["source"].partition(": ")
        table.add_row(
            row["name"],
            kind,
            (counted or str(row["rows"])).replace(" rows", ""),
            row["where"],
            row["sha256"][:12],
        )
        notes.add_row(row["name"], row["note"])
    screen = console(100)
    screen.print(table)
    screen.print(notes)


def scoreboard(rows: list[dict]) -> str:
    """Verdicts by paper as a Markdown table, with the data and profile they were decided on, and
    how many claims were decided a second time, on real rows, with the names of those that differ.

    rows: the claims of figures/claims.json.
    """
    rows = [row for paper in ledger.titles() for row in rows if row["paper"] == paper]
    counts = ledger.scoreboard(rows)
    heads = [f"{in_words.SYMBOLS.get(name, '')} {name}".strip() for name in counts]
    other = {
        row["id"]: (rules.plain(row["alone"]), {rules.plain(one["alone"]) for one in row["also"]})
        for row in rows
        if row["kind"] == "claim" and row["also"]
    }
    twice = {id: both for id, both in other.items() if both[1] != {rules.NOT_TRIED}}
    differ = [f"`{id}`" for id, (mine, theirs) in twice.items() if theirs != {mine}]
    names = f" ({', '.join(differ)})" if differ else ""
    turned = sum(row["verdict"] == ledger.OTHER_DATA for row in rows)
    chosen = sum(rules.plain(row["verdict"]) == rules.DEPENDS for row in rows) - turned
    tried = [row["firmness"] for row in rows if row["kind"] == "claim" and row.get("firmness")]
    return (
        f"{_markdown(('paper', *heads), (map(str, line) for line in counts.itertuples()))}\n\n"
        f"Claims decided a second time, on other data: {len(twice)}; alike: "
        f"{len(twice) - len(differ)}; **depend on the data: {turned}**; not alike, where an "
        f"interval or a choice leaves room: {len(differ) - turned}{names}. "
        f"{len(other) - len(twice)} more need more real rows than are at hand. "
        f"Claims tried at other settings of what the paper leaves open: {len(tried)}; the same in "
        f"every setting: {sum(one['tried'] == one['same'] for one in tried)}; "
        f"**depend on a choice, and have no credit: {chosen}**."
    )


def outcome(rows: list[dict]) -> str:
    """What came out, as Markdown: how many claims have which verdict, then for each paper two
    sentences and the same count.

    rows: the claims of figures/claims.json.
    """
    claims = [row for row in rows if row["kind"] == "claim"]
    lines = [in_all(rows), ""]
    for paper, name in ledger.short_titles().items():
        of_paper = [row for row in claims if row["paper"] == paper]
        said = f"{ledger.outcomes()[paper]} *O{came_out(of_paper)[1:]}.*"
        section = anchor(f"{ledger.titles()[paper]} ({paper})")
        lines.append(f"- **{name}** ([{paper}](docs/findings.md#{section})). {said}")
    return "\n".join(lines)


def came_out(claims: list[dict]) -> str:
    """How many claims have which verdict, in words; a claim that is turned, open, undecided or not
    tried has none that counts.  Refuted claims with one cause are one mistake."""
    verdicts = [rules.plain(row["verdict"]) for row in claims]
    causes = {row["cause"] or row["id"] for row in claims if row["verdict"] == rules.REFUTED}
    counted = (rules.REPRODUCED, rules.DIRECTION, rules.NOT_REPRODUCED, rules.REFUTED)
    parts = [f"{verdicts.count(name)} {name}" for name in counted if name in verdicts]
    if causes:
        parts[-1] += f" for {len(causes)} reason{'s' if len(causes) > 1 else ''}"
    others = sum(name not in counted for name in verdicts)
    if others:
        parts.append(f"{others} without a verdict")
    return f"of {len(claims)} claims {', '.join(parts)}"


def in_all(rows: list[dict]) -> str:
    """How many claims of all papers have which verdict, and on which data, as Markdown.

    rows: the claims of figures/claims.json.
    """
    claims = [row for row in rows if row["kind"] == "claim"]
    outcomes = [in_words.outcome(row) for row in claims]
    return (
        f"**In all,** {came_out(claims)}. {outcomes.count(rules.REPRODUCED)} of the reproduced "
        f"rest on formulas or the paper's own data, {outcomes.count(in_words.ON_OTHER_DATA)} on "
        "stand-ins or simulated data."
    )


def findings_in_short(rows: list[dict]) -> str:
    """The findings that have a sentence of their own, as Markdown: mark, sentence, and a link to
    the whole finding.

    rows: the claims of figures/claims.json.
    """
    return "\n".join(
        f"- {in_words.mark(one, rows)} {one.short} "
        f"([{one.paper}](docs/findings.md#{anchor(one.title)}))"
        for one in ledger.findings()
        if one.short
    )


def anchor(title: str) -> str:
    """Where a heading stands in a Markdown page, as its readers build the address.

    >>> anchor("'Any attack' and 'any kind of information' promise too much")
    'any-attack-and-any-kind-of-information-promise-too-much'
    """
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def findings(rows: list[dict]) -> str:
    """The findings as Markdown, paper by paper: the title as a heading; a mark for what the paper
    gets right or wrong, what it means; its picture; its rows by verdict, how firm they are, its
    lesson.

    rows: the claims of figures/claims.json.
    """
    parts = []
    for paper, title in ledger.titles().items():
        parts.append(f"## {title} ({paper})")
        for one in ledger.findings():
            if one.paper == paper:
                of = [row for row in rows if row["cause"] == one.id]
                parts += [
                    f"### {one.title}",
                    f"{in_words.mark(one, rows)} {one.text}",
                    f"![{one.title}](../figures/{one.picture}.png)",
                    f"{_counted(of)} {_see(one, of)}",
                ]
    return "\n\n".join(parts)


def _counted(rows: list[dict]) -> str:
    return f"{in_words.counted(rows)}; {firmness.told(rows)}".rstrip("; ") + "."


def _see(finding, rows: list[dict]) -> str:
    lesson = f"[{finding.lesson}](../notebooks/{finding.lesson}.ipynb)"
    if not firmness.softest(rows):
        return f"Lesson: {lesson}."
    return f"Lesson: {lesson}. [Other settings](../figures/settings/{finding.id}.png)."


def softest(rows: list[dict]) -> str:
    """The softest claims of each paper, and why they are soft, as a Markdown table.

    rows: the claims of figures/claims.json.
    """
    cells = (
        (
            row["paper"],
            f"{row['says']} (`{row['id'].partition('.')[2]}`)",
            in_words.marked(row),
            row["alike"],
            row["turning"],
            row["left_open"],
        )
        for row in firmness.shown(rows)
    )
    return _markdown(
        ("paper", "claim", "verdict", "at other settings", "turned by", "why that is open"), cells
    )


def changed_in_short(rows: list[dict]) -> str:
    """How many claims had their rule or words changed after a run was seen, as a sentence.

    rows: the claims of figures/claims.json.
    """
    claims = [row for row in rows if row["kind"] == "claim"]
    changed = [row for row in claims if row["amended"]]
    return (
        f"{len(changed)} of {len(claims)} claims had their rule or words changed after a run was "
        "seen; [the list](docs/changed_rules.md) has each change, its day and its reason."
    )


def changed(rows: list[dict]) -> str:
    """Every row whose rule or words were changed after a run was seen, and what was changed, as
    Markdown tables, paper by paper.

    rows: the claims of figures/claims.json.
    """
    parts = []
    for paper, title in ledger.titles().items():
        cells = [
            (f"`{row['id'].partition('.')[2]}`", row["kind"], row["amended"])
            for row in rows
            if row["paper"] == paper and row["amended"]
        ]
        of_paper = sum(row["paper"] == paper for row in rows)
        parts += [
            f"## {title} ({paper})",
            f"{len(cells)} of {of_paper} rows.",
            _markdown(("row", "kind", "what was changed, and why"), cells),
        ]
    return "\n\n".join(parts)


def bars(bench: dict) -> str:
    """The measured bars of figures/bench.json as a Markdown table."""
    lines = []
    for bar in bench["bars"]:
        least = bar["at_least"]
        wanted = f"at most {bar['at_most']:g}" if least is None else f"at least {least:g}"
        ratio, low, high = (f"{one:.2f}" for one in (bar["ratio"], *bar["spread"]))
        lines.append((bar["what"], wanted, ratio, f"{low} to {high}", str(bar["threads"])))
    return _markdown(("bar", "wanted", "measured", "lowest to highest", "threads"), lines)


def which_one(kept: dict) -> str:
    """What the record which_one measured of each method, as a Markdown table.

    kept: its values in figures/measured.
    """
    sends = "one bank or holder sends, in all"
    heads = ("I hold", "I fear", "I run", sends, "test AUC", "an attacker")
    columns = ("I hold", "I fear", "run", "a party sends", "AUC", "it finds")
    rows = [[row[column] for column in columns] for row in kept["rows"]]
    above = ["", *(cells[0] for cells in rows)]
    lines = [
        ["", "", *cells[2:]] if cells[0] == held else cells for cells, held in zip(rows, above)
    ]
    about = f"epsilon {kept['epsilon']:g} for a training, SGLD has none; {kept['profile']} profile"
    return f"{_markdown(heads, lines)}\n\n({about}; {kept['source']}.)"


def _markdown(heads, rows) -> str:
    lines = [" | ".join(cell.replace("|", r"\|") for cell in row) for row in (heads, *rows)]
    return "\n".join(
        [f"| {lines[0]} |", "|" + "---|" * len(heads), *(f"| {line} |" for line in lines[1:])]
    )


def renewed(root: Path) -> dict[Path, str]:
    """The files of the project in `root` that show numbers, where they are, each block between
    `<!-- begin NAME -->` and `<!-- end NAME -->` made anew."""
    rows = json.loads((root / "figures/claims.json").read_text("utf-8"))["claims"]
    texts = {}
    for name, blocks in _blocks(rows, root / "figures/bench.json").items():
        if (root / name).exists():
            text = (root / name).read_text("utf-8")
            for block, content in blocks.items():
                text = project.with_block(text, block, content)
            texts[root / name] = text
    return texts


def _blocks(rows: list[dict], bench: Path) -> dict[str, dict[str, str]]:
    """The blocks of each file, by their names."""
    blocks = {
        "README.md": {
            "outcome": outcome(rows),
            "findings": findings_in_short(rows),
            "changed": changed_in_short(rows),
        },
        "docs/findings.md": {"findings": findings(rows)},
        "docs/verdicts.md": {"scoreboard": scoreboard(rows), "softest": softest(rows)},
        "docs/which_one.md": {"which one": which_one(measured.reference("which_one").values)},
        "docs/changed_rules.md": {"changed": changed(rows)},
    }
    if bench.exists():
        blocks["benchmarks/README.md"] = {"bars": bars(json.loads(bench.read_text("utf-8")))}
    return blocks


def renew(root: Path) -> None:
    """Write the blocks of the project in `root` (called by `ppkit reference` and `make bench`)."""
    for file, text in renewed(root).items():
        write_whole(file, text)


def console(width_in_a_file: int) -> Console:
    """Where tables are printed: as wide as the terminal; else as $COLUMNS says, else this wide."""
    terminal = Console(markup=False, highlight=False)
    if terminal.is_terminal:
        return terminal
    width = int(os.environ.get("COLUMNS", width_in_a_file))
    return Console(markup=False, highlight=False, width=width)
