"""README, docs/ and benchmarks/README.md: the blocks in them that show numbers are written from
figures/claims.json, figures/measured and figures/bench.json, never by hand."""

import json
from collections.abc import Callable
from pathlib import Path

from ppkit import measured, project
from ppkit.atomic_writing import write_whole
from ppkit.verdicts import pages
from ppkit.verdicts import rows as verdict_rows
from ppkit.verdicts.rows import Row


def bars(bench: dict) -> str:
    """The measured bars of figures/bench.json as a Markdown table, and the machines below it."""
    lines, machines = [], []
    for bar in bench["bars"]:
        if bar["machine"] not in machines:
            machines.append(bar["machine"])
        least = bar["at_least"]
        wanted = f"at most {bar['at_most']:g}" if least is None else f"at least {least:g}"
        ratio, low, high = (f"{one:.2f}" for one in (bar["ratio"], *bar["spread"]))
        machine = str(machines.index(bar["machine"]) + 1)
        spread, threads = f"{low} to {high}", str(bar["threads"])
        lines.append((bar["what"], wanted, ratio, spread, threads, machine))
    heads = ("bar", "wanted", "measured", "lowest to highest", "threads", "machine")
    said = [f"{i}. {_machine(about)}" for i, about in enumerate(machines, 1)]
    return "\n\n".join((pages.markdown_table(heads, lines), "Machines:", "\n".join(said)))


def _machine(about: dict) -> str:
    versions = ", ".join(f"{name} {about[name]}" for name in ("python", "torch", "numpy"))
    instructions = f"instructions up to {about['instructions']}"
    return f"{about['processor']}, {instructions}, {about['cores']} cores, {versions}"


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
    return f"{pages.markdown_table(heads, lines)}\n\n({about}; {kept['source']}.)"


def few_rows(kept: dict) -> str:
    """What the record which_one measured of banks with few rows, as a Markdown table.

    kept: its values in figures/measured.
    """
    heads = ("rows a bank", "model", *kept["few_rows"][0]["test AUC"])
    lines = [
        [f"{row['rows a bank']:,}", row["model"], *row["test AUC"].values()]
        for row in kept["few_rows"]
    ]
    spread = "test AUC ± its standard deviation over draws of the banks' rows"
    return f"{pages.markdown_table(heads, lines)}\n\n({spread}; {kept['profile']} profile.)"


def renewed(root: Path) -> dict[Path, str]:
    """The files of the project in `root` that show numbers, where they are, each block between
    `<!-- begin NAME -->` and `<!-- end NAME -->` made anew."""
    _, rows = verdict_rows.read(root / "figures/claims.json")
    texts = {}
    for name, blocks in BLOCKS.items():
        if (root / name).exists():
            text = (root / name).read_text("utf-8")
            for block, made in blocks.items():
                text = project.with_block(text, block, made(rows))
            texts[root / name] = text
    bench, about_it = root / "figures/bench.json", root / "benchmarks/README.md"
    if bench.exists() and about_it.exists():
        table = bars(json.loads(bench.read_text("utf-8")))
        texts[about_it] = project.with_block(about_it.read_text("utf-8"), "bars", table)
    return texts


def _which_one(_rows: list[Row]) -> str:
    return which_one(measured.reference("which_one").values)


def _few_rows(_rows: list[Row]) -> str:
    return few_rows(measured.reference("which_one").values)


BLOCKS: dict[
    str, dict[str, Callable[[list[Row]], str]]
] = {  # of each file by their names, made of the rows of figures/claims.json
    "README.md": {
        "outcome": pages.outcome,
        "findings": pages.findings_in_short,
        "changed": pages.changed_in_short,
    },
    "docs/findings.md": {"findings": pages.findings},
    "docs/verdicts.md": {"scoreboard": pages.scoreboard, "softest": pages.softest},
    "docs/which_one.md": {"which one": _which_one, "few rows": _few_rows},
    "docs/changed_rules.md": {"changed": pages.changed},
}


def renew(root: Path) -> None:
    """Write the blocks of the project in `root` (called by `ppkit reference` and `make bench`)."""
    for file, text in renewed(root).items():
        write_whole(file, text)
