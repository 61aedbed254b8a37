"""index.html, the page of a run that a person opens first: failures, scoreboard, verdicts, pictures, times."""

from pathlib import Path
from urllib.parse import quote

import jinja2

from ppkit import ledger, rules
from ppkit.runner import run_folder
from ppkit.runner.worker import DONE

CLASSES = {rules.REPRODUCED: "reproduced", rules.DIRECTION: "direction", rules.NOT_REPRODUCED: "not",
           rules.REFUTED: "refuted", rules.NOT_TRIED: "untried"}


def write(folder) -> Path:
    """Write the index of a run from its run.json, claims.json and figures/; returns its path."""
    loader = jinja2.Environment(loader=jinja2.PackageLoader("ppkit.runner"), autoescape=True, trim_blocks=True,
                                lstrip_blocks=True)
    loader.filters["urlquote"] = quote
    claims = run_folder.read_json(folder.path / "claims.json")["claims"]
    page = loader.get_template("index.html.j2").render(
        run=folder.record, papers=_papers(claims), pictures=_pictures(folder.path), links=_links(folder.path),
        failures={name: about for name, about in folder.notebooks.items() if about.get("error")},
        missing=[name for name, about in folder.notebooks.items() if about["status"] != DONE and not about.get("error")])
    target = folder.path / "index.html"
    target.write_text(page, encoding="utf-8")
    return target


def _papers(claims: list[dict]) -> list[dict]:
    papers = []
    for paper in dict.fromkeys(row["paper"] for row in claims):
        rows = [{**row, "css": CLASSES[rules.plain(row["verdict"])], "symbol": ledger.symbol(row["verdict"]), "ours": ledger.ours(row),
                 "short": row["id"].split(".", 1)[1]} for row in claims if row["paper"] == paper]
        counts = [{"verdict": name, "css": css, "symbol": ledger.SYMBOLS[name],
                   "count": sum(row["css"] == css for row in rows)} for name, css in CLASSES.items()]
        untried = [row for row in rows if row["verdict"] == rules.NOT_TRIED]
        papers.append({"name": paper, "decided": [row for row in rows if row not in untried], "untried": untried,
                       "counts": [chip for chip in counts if chip["count"]]})
    return papers


def _pictures(path: Path) -> list[dict]:
    abouts = [run_folder.read_json(file) for file in sorted((path / "figures").glob("*.json"))]
    return sorted(abouts, key=lambda about: about.get("notebook", ""))


def _links(path: Path) -> set[str]:
    return {page.stem for page in (path / "html").glob("*.html")}
