"""index.html, the page that a person opens first; it needs no network.

Of a run: failures, what ran, outcome, every row with the printed number and ours, pictures, times.
Of a batch: what turns, what happened to each point, and the table, with filters. Findings, and how
robust a verdict is, are the site's: they are the reference's.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
import pandas as pd

from ppkit import project
from ppkit.atomic_writing import write_whole
from ppkit.runs import cut, differs, json_files, run_folder
from ppkit.runs.rows import REFERENCE, beside_reference
from ppkit.runs.run_folder import RunFolder
from ppkit.runs.worker import DONE
from ppkit.verdicts import ledger, rules, statements, wording
from ppkit.verdicts.rows import Result, Row

PAGES = jinja2.Environment(
    loader=jinja2.PackageLoader("ppkit.runs"), autoescape=True, trim_blocks=True, lstrip_blocks=True
)
PAGES.filters["urlquote"] = quote
PAGES.filters["cut"] = lambda value: cut(str(value))
PAGES.globals |= {
    "words": wording,
    "legend": wording.LEGEND,
    "colours": wording.COLOURS,
    "symbols": wording.SYMBOLS,
    "counted_as": {rules.DEPENDS: "that depend on a choice or on the data"},
}


@dataclass(frozen=True)
class Line:
    """A row of the run as the page shows it.

    differs: from the reference, and why, as `differs.told`; "" if it does not.
    in_reference: whether the reference has it.
    """

    row: Row
    differs: str
    in_reference: bool

    @property
    def rule(self) -> str:
        """What decides it, in words."""
        claim = statements.claims(self.row.paper).get(self.row.id)
        return wording.rule(claim.rule) if claim else self.row.rule or ""


def write(folder: RunFolder) -> Path:
    """Write the index of a run from its run.json, claims.json and figures/; returns its path."""
    rows = beside_reference(run_folder.read_claims(folder.path / "claims.json"), folder.notebooks)
    reference = ledger.reference() if (project.root() / REFERENCE).exists() else []
    lines = _lines(rows, reference, folder)
    pictures = [json_files.read_json(file) for file in (folder.path / "figures").glob("*.json")]
    page = PAGES.get_template("index.html.j2").render(
        run=folder.record,
        subject=project.setting("subject"),
        minutes=sum(about.get("seconds", 0) for about in folder.notebooks.values()) / 60,
        sources=sorted({wording.kind(line.row.data) for line in lines if line.row.data}),
        papers=_papers(lines, rows),
        outcome=_counts(lines),
        compared=bool(reference),
        differing=sum(bool(line.differs) for line in lines),
        decided=len(lines),
        pictures=sorted(pictures, key=lambda about: (about["notebook"], about["name"])),
        links={page.stem for page in (folder.path / "html").glob("*.html")},
        failures={name: about for name, about in folder.notebooks.items() if about.get("error")},
        missing=[
            name
            for name, about in folder.notebooks.items()
            if about["status"] != DONE and not about.get("error")
        ],
    )
    target = folder.path / "index.html"
    write_whole(target, page)
    return target


def _lines(rows: list[Row], reference: list[Row], folder: RunFolder) -> list[Line]:
    """The rows that this run measured."""
    kept = {row.id: row for row in reference}
    commit = folder.record.get("commit", "")
    lines = []
    for row in rows:
        if row.data is not None:
            about = folder.notebooks.get(row.notebook or "", {})
            differing = differs.told(row, kept.get(row.id, row), about, commit)
            lines.append(Line(row, differing, row.id in kept))
    return lines


def _papers(lines: list[Line], rows: list[Row]) -> list[dict[str, Any]]:
    """The papers of which this run decided something: their lines, the claims that the paper is
    read for, counts, and how many rows are left to other notebooks."""
    papers = []
    for paper, title in statements.titles().items():
        here = [line for line in lines if line.row.paper == paper]
        if here:
            papers.append(
                {
                    "name": paper,
                    "title": title,
                    "lines": here,
                    "headlines": [line for line in here if line.row.headline],
                    "counts": _counts(here),
                    "elsewhere": sum(row.paper == paper for row in rows) - len(here),
                }
            )
    return papers


def _counts(lines: list[Line]) -> dict[str, int]:
    """How many of the claims have which verdict."""
    return wording.counts([line.row for line in lines if line.row.kind == "claim"])


def write_batch(folder: RunFolder, rows: pd.DataFrame) -> None:
    """Write index.html into the folder of a batch; rows: its table."""
    decided = rows.dropna(subset=["claim"])
    of_rows = [row | {"outcome": _outcome(row)} for row in decided.to_dict("records")]
    verdicts = decided.groupby("claim")["verdict"].nunique()
    page = PAGES.get_template("batch.html.j2").render(
        batch=folder.record,
        varied=folder.record["varied"],
        points=folder.notebooks,
        rows=of_rows,
        n_claims=len(verdicts),
        turned=list(verdicts.index[verdicts > 1]),
    )
    write_whole(folder.path / "index.html", page)


def _outcome(row: dict[str, Any]) -> str:
    """What a line of a batch's table is counted as."""
    shown = Result(alone=row["verdict"], data=row["data"], standing=row["standing"])
    return wording.outcome_alone(shown)
