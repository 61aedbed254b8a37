"""The numbers in README.md: written from figures/claims.json and figures/bench.json, never by hand."""

import json
from pathlib import Path

from ppkit import ledger, project, rules


def scoreboard(rows: list[dict]) -> str:
    """Verdicts by paper as a Markdown table, with the run data and profile they were decided on.

    rows: the claims of figures/claims.json.
    """
    counts = ledger.scoreboard(rows)
    heads = [f"{ledger.SYMBOLS[verdict]} {verdict}" for verdict in rules.VERDICTS]
    lines = [f"| paper | {' | '.join(heads)} | decided on |", "|" + "---|" * (len(heads) + 2)]
    for paper, row in counts.iterrows():
        decided = {(one["profile"], one["data"]) for one in rows if one["paper"] == paper and one["profile"]}
        where = ", ".join(sorted({f"{data} ({profile} profile)" if data != "formula" else "formulas" for profile, data in decided}))
        lines.append(f"| {paper} | {' | '.join(str(row[verdict]) for verdict in rules.VERDICTS)} | {where} |")
    return "\n".join(lines)


def refuted(rows: list[dict]) -> str:
    """The refuted claims as a Markdown table: which paper and where, what it says, what is attained."""
    lines = ["| refuted | the paper says | attained |", "|---|---|---|"]
    for row in (row for row in rows if row["verdict"] == rules.REFUTED):
        where, says = (row[key].replace("|", r"\|") for key in ("where", "says"))
        lines.append(f"| {row['paper']}, {where} | {says} | {ledger.ours(row)} |")
    return "\n".join(lines)


def bars(bench: dict) -> str:
    """The measured bars of figures/bench.json as a Markdown table."""
    lines = ["| bar | wanted | measured | lowest to highest of 7 | threads |", "|---|---|---|---|---|"]
    for bar in bench["bars"]:
        wanted = f"at least {bar['at_least']:g}" if bar["at_least"] is not None else f"at most {bar['at_most']:g}"
        low, high = bar["spread"]
        lines.append(f"| {bar['what']} | {wanted} | {bar['ratio']:.2f} | {low:.2f} to {high:.2f} | {bar['threads']} |")
    return "\n".join(lines)


def renewed(root: Path) -> str:
    """README.md of the project in `root` with each block between `<!-- begin NAME -->` and `<!-- end NAME -->` made anew."""
    rows = json.loads((root / "figures/claims.json").read_text("utf-8"))["claims"]
    blocks = {"scoreboard": scoreboard(rows), "refuted": refuted(rows)}
    if (root / "figures/bench.json").exists():
        blocks["bars"] = bars(json.loads((root / "figures/bench.json").read_text("utf-8")))
    text = (root / "README.md").read_text("utf-8")
    for name, block in blocks.items():
        text = project.with_block(text, name, block)
    return text


def write(root: Path) -> None:
    """Write the blocks of README.md in `root` (called by `ppkit reference` and `make bench`)."""
    (root / "README.md").write_text(renewed(root), encoding="utf-8")
