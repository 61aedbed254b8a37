"""The numbers in the READMEs: written from figures/claims.json and figures/bench.json, never by
hand."""

import json
from pathlib import Path

from ppkit import ledger, project, rules


def scoreboard(rows: list[dict]) -> str:
    """Verdicts by paper as a Markdown table, with the run data and profile they were decided on.

    rows: the claims of figures/claims.json.
    """
    counts = ledger.scoreboard(rows)
    heads = [f"{ledger.SYMBOLS.get(name, '')} {name}".strip() for name in counts]
    lines = [f"| paper | {' | '.join(heads)} | decided on |", "|" + "---|" * (len(heads) + 2)]
    for paper, row in counts.iterrows():
        decided = {
            (one["profile"], one["data"])
            for one in rows
            if one["paper"] == paper and one["profile"]
        }
        where = ", ".join(
            sorted(
                {
                    f"{data} ({profile} profile)" if data != "formula" else "formulas"
                    for profile, data in decided
                }
            )
        )
        lines.append(f"| {paper} | {' | '.join(map(str, row))} | {where} |")
    return "\n".join(lines)


def findings(rows: list[dict]) -> str:
    """The findings as Markdown, paper by paper: a mark for what the paper gets right or wrong, the
    title, its rows by verdict.

    rows: the claims of figures/claims.json.
    """
    lines, titles = [], ledger.titles()
    for paper in dict.fromkeys(finding.paper for finding in ledger.findings()):
        lines.append(f"**{titles[paper]}** ({paper})")
        for finding in (finding for finding in ledger.findings() if finding.paper == paper):
            mark = ledger.SYMBOLS[rules.PASSED if finding.right else rules.REFUTED]
            counted = ledger.counted(row for row in rows if row["cause"] == finding.id)
            lines.append(
                f"- {mark} {finding.title} ({counted}; [{finding.lesson}](notebooks/{finding.lesson}.ipynb))"
            )
        lines.append("")
    return "\n".join(lines).rstrip()


def every_row(rows: list[dict]) -> str:
    """Every row of every paper as Markdown tables.

    rows: the claims of figures/claims.json.
    """
    lines = []
    for paper, title in ledger.titles().items():
        lines += [
            f"### {paper}: {title}",
            "",
            "| where | what the paper says, or we ask | paper | ours | what ours is | verdict | why |",
            "|" + "---|" * 7,
        ]
        for row in (row for row in rows if row["paper"] == paper):
            cells = (
                row["where"],
                row["says"],
                row["printed"] or "",
                ledger.ours(row),
                row["measure"] or "",
                f"{ledger.symbol(row['verdict'])} {row['verdict']}",
                ledger.reason(row),
            )
            lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines).rstrip()


def bars(bench: dict) -> str:
    """The measured bars of figures/bench.json as a Markdown table."""
    lines = [
        "| bar | wanted | measured | lowest to highest of 7 | threads |",
        "|---|---|---|---|---|",
    ]
    for bar in bench["bars"]:
        wanted = (
            f"at least {bar['at_least']:g}"
            if bar["at_least"] is not None
            else f"at most {bar['at_most']:g}"
        )
        low, high = bar["spread"]
        lines.append(
            f"| {bar['what']} | {wanted} | {bar['ratio']:.2f} | {low:.2f} to {high:.2f} | {bar['threads']} |"
        )
    return "\n".join(lines)


def renewed(root: Path) -> dict[Path, str]:
    """The files of the project in `root` that show numbers, with each block between `<!-- begin
    NAME -->` and
    `<!-- end NAME -->` made anew: README.md, figures/README.md and benchmarks/README.md, where they
    are."""
    rows = json.loads((root / "figures/claims.json").read_text("utf-8"))["claims"]
    bench = root / "figures/bench.json"
    blocks = {
        "README.md": {"findings": findings(rows), "scoreboard": scoreboard(rows)},
        "figures/README.md": {"rows": every_row(rows)},
        "benchmarks/README.md": {"bars": bars(json.loads(bench.read_text("utf-8")))}
        if bench.exists()
        else {},
    }
    texts = {}
    for file in (root / name for name in blocks if (root / name).exists()):
        texts[file] = file.read_text("utf-8")
        for name, block in blocks[file.relative_to(root).as_posix()].items():
            texts[file] = project.with_block(texts[file], name, block)
    return texts


def write(root: Path) -> None:
    """Write the blocks of the project in `root` (called by `ppkit reference` and `make bench`)."""
    for file, text in renewed(root).items():
        file.write_text(text, encoding="utf-8")
