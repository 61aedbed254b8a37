"""index.html, the page that a person opens first; it needs no network.

Of a run: failures, what ran, outcome, findings, printed and ours, rows, pictures, times, the
softest verdicts.  Of a batch: what happened to each point, every value against every varied
parameter, and the table, with filters.
"""

import io
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import jinja2
import pandas as pd

from ppkit import project
from ppkit.runs import cut, differs, run_folder
from ppkit.runs.rows import REFERENCE, beside_reference
from ppkit.runs.worker import DONE
from ppkit.verdicts import ledger, robustness, rules, statements, wording
from ppkit.verdicts.rows import Result, Row
from ppkit.writing import write_whole

PAGES = jinja2.Environment(
    loader=jinja2.PackageLoader("ppkit.runs"), autoescape=True, trim_blocks=True, lstrip_blocks=True
)
PAGES.filters["urlquote"] = quote
PAGES.filters["cut"] = lambda value: cut(str(value))
SENTENCE_ENDS = re.compile(r"(?<=[^\s.]{2}\.) (?=[A-Z])")
OPENING = 2  # sentences of a finding that stand open
PROFILES = {
    "quick": "small sizes, minutes instead of hours; the paper profile has the papers' own sizes",
    "paper": "the papers' own sizes",
}
COUNTED = ("No paper", "One paper", "Two papers", "Three papers", "Four papers")
SAID = {  # of counted claims
    rules.DEPENDS: "that depend on a choice or on the data"
}


def write(folder) -> Path:
    """Write the index of a run from its run.json, claims.json and figures/; returns its path."""
    rows = beside_reference(run_folder.read_claims(folder.path / "claims.json"), folder.notebooks)
    reference = ledger.reference() if (project.root() / REFERENCE).exists() else []
    lines = _lines(rows, reference, folder)
    decided = [line.row for line in lines]
    pictures = map(run_folder.read_json, sorted((folder.path / "figures").glob("*.json")))
    papers = _papers(lines, rows)
    page = PAGES.get_template("index.html.j2").render(
        run=folder.record,
        title=_title(len(papers)),
        minutes=sum(about.get("seconds", 0) for about in folder.notebooks.values()) / 60,
        sources=sorted({wording.kind(row.data) for row in decided if row.data}),
        profile=PROFILES.get(folder.record["profile"], ""),
        papers=papers,
        outcome=_counts(lines),
        besides=_besides(decided),
        compared=bool(reference),
        differing=sum(line.differs is not None for line in lines),
        decided=len(decided),
        softest=robustness.softest_of_each_paper(decided),
        findings=_findings(decided, reference or rows, folder.path),
        legend=_legend(lines),
        pictures=sorted(pictures, key=lambda about: about.get("notebook", "")),
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


def _title(papers: int) -> str:
    counted = COUNTED[papers] if papers < len(COUNTED) else f"{papers} papers"
    subject = project.setting("subject")
    return f"{counted} on {subject}, rerun" if subject else f"{counted}, rerun"


@dataclass(frozen=True)
class Line(wording.Shown):
    """A row of the run as the page shows it.

    differs: from the reference, and why, as `differs.told`; None if it does not.
    in_reference: whether the reference has it.
    """

    differs: dict | None
    in_reference: bool


def _lines(rows: list[Row], reference: list[Row], folder) -> list[Line]:
    """The rows that this run measured."""
    kept = {row.id: row for row in reference}
    commit = folder.record.get("commit", "")
    lines = []
    for row in rows:
        if row.data is None:
            continue
        about = folder.notebooks.get(row.notebook, {})
        differing = differs.told(row, kept.get(row.id, row), about, commit)
        lines.append(Line(row, differing, row.id in kept))
    return lines


def _papers(lines: list[Line], rows: list[Row]) -> list[dict]:
    """The papers of which this run decided something: their lines, those with a printed number, the
    claims that the paper is read for, counts, and how many rows are left to other notebooks."""
    papers = []
    for paper, title in statements.titles().items():
        here = [line for line in lines if line.row.paper == paper]
        if not here:
            continue
        numbers = [line for line in here if line.printed and line.row.kind != "question"]
        papers.append(
            {
                "name": paper,
                "title": title,
                "lines": here,
                "numbers": numbers,
                "agreeing": sum(line.difference == "0" for line in numbers),
                "headlines": [line for line in here if line.row.headline],
                "counts": _counts(here),
                "elsewhere": sum(row.paper == paper for row in rows) - len(here),
            }
        )
    return papers


def _counts(lines: list[Line]) -> list[dict]:
    """How many of the claims have which verdict."""
    verdicts = [line.outcome for line in lines if line.row.kind == "claim"]
    return [
        {
            "name": name,
            "colour": wording.COLOURS[name],
            "symbol": symbol,
            "count": verdicts.count(name),
            "said": SAID.get(name, name),
        }
        for name, symbol in wording.SYMBOLS.items()
        if name in verdicts
    ]


def _besides(rows: list[Row]) -> str:
    """What was decided besides claims, in words: "2 questions of ours and 1 check"."""
    kinds = [row.kind for row in rows]
    questions, checks = kinds.count("question"), kinds.count("check")
    told = []
    if questions:
        told.append(f"{questions} question{'s' if questions > 1 else ''} of ours")
    if checks:
        told.append(f"{checks} check{'s' if checks > 1 else ''}")
    return " and ".join(told)


def _legend(lines: list[Line]) -> list[dict]:
    verdicts = {line.outcome for line in lines}
    return [
        {
            "verdict": name,
            "colour": wording.COLOURS[name],
            "symbol": wording.SYMBOLS[name],
            "means": means,
        }
        for name, means in wording.LEGEND.items()
        if name in verdicts
    ]


def _findings(decided: list[Row], marked: list[Row], path: Path) -> list[dict]:
    """The findings that this run has decided rows of, their first sentences apart from the rest,
    with the reference's mark, how firm they are, and their picture if the run drew it."""
    findings = []
    for finding in statements.findings():
        rows = [row for row in decided if row.cause == finding.id]
        if not rows:
            continue
        sentences = SENTENCE_ENDS.split(finding.text)
        findings.append(
            {
                **vars(finding),
                "mark": wording.mark(finding, marked),
                "opening": " ".join(sentences[:OPENING]),
                "rest": " ".join(sentences[OPENING:]),
                "robust": robustness.summary(rows),
                "counted": wording.counted(rows),
                "drawn": (path / "figures" / f"{finding.picture}.png").exists(),
            }
        )
    return findings


def write_batch(folder, rows: pd.DataFrame) -> None:
    """Write index.html into the folder of a batch; rows: its table."""
    decided = rows.dropna(subset=["claim"])
    of_rows = [row | {"outcome": _outcome(row)} for row in decided.to_dict("records")]
    varied = folder.record["varied"]
    page = PAGES.get_template("batch.html.j2").render(
        batch=folder.record,
        varied=varied,
        points=folder.notebooks,
        rows=of_rows,
        shown=[name for name in wording.SYMBOLS if any(row["outcome"] == name for row in of_rows)],
        marks={name: (wording.COLOURS[name], symbol) for name, symbol in wording.SYMBOLS.items()},
        pictures=[(claim, _picture(some, varied)) for claim, some in decided.groupby("claim")],
        turned=[claim for claim, some in decided.groupby("claim") if some["verdict"].nunique() > 1],
    )
    write_whole(folder.path / "index.html", page)


def _outcome(row: dict) -> str:
    """What a line of a batch's table is counted as."""
    shown = Result(alone=row["verdict"], data=row["data"], standing=row["standing"])
    return wording.outcome_alone(shown)


def _ticks(values: pd.Series) -> dict:
    """A text for each value, with a number where two that differ would look the same."""
    texts = {value: _as_typed(value) for value in values.unique()}
    alike = [text for text in texts.values() if list(texts.values()).count(text) > 1]
    return {
        value: f"{text} ({place})" if text in alike else text
        for place, (value, text) in enumerate(texts.items(), start=1)
    }


def _as_typed(value) -> str:
    """A text for a picture, its signs as they were typed: between two $ matplotlib sees a
    formula."""
    return cut(str(value), at=20).replace("$", r"\$")


def _picture(rows: pd.DataFrame, varied: list[str]) -> str:
    """One claim as SVG: its value against each varied parameter, a dot a point, coloured by the
    verdict."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.6 * len(varied), 1.9), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(varied), squeeze=False)[0], varied):
        numbers = pd.api.types.is_numeric_dtype(rows[name])
        shown = rows[name] if numbers else rows[name].map(_ticks(rows[name]))
        for verdict, some in rows.groupby(rows["verdict"].map(rules.plain)):
            look = {"color": wording.COLOURS[verdict], "mec": "black", "mew": 0.4, "label": verdict}
            axes.plot(shown[some.index], some["value"], "o", ms=4, **look)
        axes.set_xlabel(name, fontsize=8)
        axes.tick_params(labelsize=7)
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue().partition("<svg")[2]
