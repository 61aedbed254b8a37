"""index.html, the page of a run that a person opens first: failures, findings, scoreboard, rows,
pictures, times."""

from pathlib import Path
from urllib.parse import quote

import jinja2

from ppkit import firmness, ledger, project, rules
from ppkit.runner import run_folder, tables
from ppkit.runner.worker import DONE
from ppkit.writing import write_whole

PAGES = jinja2.Environment(
    loader=jinja2.PackageLoader("ppkit.runner"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
)
PAGES.filters["urlquote"] = quote
CLASSES = {
    rules.REPRODUCED: "reproduced",
    rules.DIRECTION: "direction",
    rules.NOT_REPRODUCED: "not",
    rules.REFUTED: "refuted",
    rules.UNDECIDED: "open",
    rules.DEPENDS: "open",
    rules.OPEN: "open",
    rules.NOT_TRIED: "untried",
    rules.ANSWERED: "answer",
    rules.PASSED: "untried",
    rules.FAILED: "refuted",
}
LEGEND = {
    rules.REPRODUCED: "our number agrees with the paper's, by the rule that stands in the row",
    rules.DIRECTION: "the sign of the paper's difference holds, its size does not",
    rules.NOT_REPRODUCED: "our number does not agree, or a proof has a gap",
    rules.REFUTED: "we attained something that contradicts a statement of mathematics or security",
    rules.UNDECIDED: "the 95% interval reaches over the threshold, or nobody knows it and other "
    "data say otherwise",
    rules.DEPENDS: "other rows, or a setting that the paper leaves open, turn it: no credit either "
    "way",
    rules.OPEN: "only other data can settle it",
    rules.NOT_TRIED: "no notebook measures it yet; the row says what will",
    rules.ANSWERED: "a question of ours, which the paper does not claim: an answer, no verdict",
    rules.PASSED: "a check of our own code or data, no verdict on the paper",
}


def write(folder) -> Path:
    """Write the index of a run from its run.json, claims.json and figures/; returns its path."""
    claims = tables.beside_reference(run_folder.read_json(folder.path / "claims.json")["claims"])
    verdicts = {rules.plain(row["verdict"]) for row in claims}
    pictures = map(run_folder.read_json, sorted((folder.path / "figures").glob("*.json")))
    page = PAGES.get_template("index.html.j2").render(
        run=folder.record,
        papers=_papers(claims),
        findings=_findings(claims, folder.path),
        legend=[
            {"verdict": name, "css": CLASSES[name], "symbol": ledger.SYMBOLS[name], "means": means}
            for name, means in LEGEND.items()
            if name in verdicts
        ],
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


def _papers(claims: list[dict]) -> list[dict]:
    """The papers of which this run decided something: their rows, decided, to come, and left to
    other notebooks."""
    papers = []
    for paper, title in ledger.titles().items():
        rows = [
            {
                **row,
                "css": CLASSES[rules.plain(row["verdict"])],
                "symbol": ledger.symbol(row["verdict"]),
                "plain": rules.plain(row["verdict"]),
                "ours": ledger.ours(row),
                "why": ledger.reason(row),
                "beside": ledger.beside(row),
                "firm": ledger.firm(row) if row["firmness"] else "",
                "turning": ledger.turning(row["firmness"]["turns"]) if row["firmness"] else "",
                "short": row["id"].split(".", 1)[1],
            }
            for row in claims
            if row["paper"] == paper
        ]
        here = [row for row in rows if row["notebook"] or row["note"].startswith(ledger.TO_COME)]
        if any(row["notebook"] for row in rows):
            papers.append(
                {
                    "name": paper,
                    "title": title,
                    "rows": here,
                    "elsewhere": len(rows) - len(here),
                    "softest": firmness.softest([row for row in here if row["notebook"]]),
                    "counts": [
                        {
                            "name": name,
                            "css": CLASSES.get(name, ""),
                            "symbol": ledger.SYMBOLS.get(name, ""),
                            "count": count,
                        }
                        for name, count in ledger.scoreboard(here).iloc[0, :-1].items()
                    ],
                }
            )
    return papers


def _findings(claims: list[dict], path: Path) -> list[dict]:
    """The findings that this run has decided rows of, with the reference's mark, and their picture
    if the run drew it."""
    decided = [row for row in claims if row["notebook"]]
    marked = ledger.reference() if (project.root() / tables.REFERENCE).exists() else claims
    return [
        {
            **vars(finding),
            "mark": ledger.mark(finding, marked),
            "counted": ledger.counted([row for row in decided if row["cause"] == finding.id]),
            "drawn": (path / "figures" / f"{finding.picture}.png").exists(),
        }
        for finding in ledger.findings()
        if any(row["cause"] == finding.id for row in decided)
    ]
