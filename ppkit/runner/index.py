"""index.html, the page that a person opens first; it needs no network.

Of a run: failures, findings, scoreboard, rows, pictures, times.  Of a batch: what happened to each
point, every value against every varied parameter, and the table, with filters.
"""

import io
from pathlib import Path
from urllib.parse import quote

import jinja2
import pandas as pd

from ppkit import firmness, in_words, ledger, project, rules, show
from ppkit.runner import cut, run_folder, tables
from ppkit.runner.worker import DONE
from ppkit.writing import write_whole

PAGES = jinja2.Environment(
    loader=jinja2.PackageLoader("ppkit.runner"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
)
PAGES.filters["urlquote"] = quote
PAGES.filters["cut"] = lambda value: cut(str(value))
LEGEND = {
    rules.REPRODUCED: "our number agrees with the paper's, by the rule that stands in the row, "
    "on a formula or on the paper's own data, whole",
    in_words.ON_OTHER_DATA: "the same on a stand-in, a simulation, or other or fewer real rows "
    "than the paper's",
    rules.DIRECTION: "the sign of the paper's difference holds, its size does not",
    rules.NOT_REPRODUCED: "our number does not agree, or a proof has a gap",
    rules.REFUTED: "we attained something that contradicts a statement of mathematics or security",
    rules.UNDECIDED: "the 95% interval reaches over the threshold, or nobody knows it and other "
    "data say otherwise",
    rules.DEPENDS: "other rows, or a setting that the paper leaves open, turn it: no credit either "
    "way",
    rules.OPEN: "other data, or a choice that the paper leaves to its reader, must settle it",
    rules.NOT_TRIED: "no notebook measures it yet; the row says what will",
    rules.ANSWERED: "a question of ours, which the paper does not claim: an answer, no verdict",
    rules.PASSED: "a check of our own code or data, no verdict on the paper",
}


def write(folder) -> Path:
    """Write the index of a run from its run.json, claims.json and figures/; returns its path."""
    claims = tables.beside_reference(
        run_folder.read_json(folder.path / "claims.json")["claims"], folder.notebooks
    )
    outcomes = {in_words.outcome(row) for row in claims}
    pictures = map(run_folder.read_json, sorted((folder.path / "figures").glob("*.json")))
    page = PAGES.get_template("index.html.j2").render(
        run=folder.record,
        papers=(papers := _papers(claims)),
        softest=firmness.shown([row for of in papers for row in of["rows"] if row["notebook"]]),
        findings=_findings(claims, folder.path),
        legend=[
            {
                "verdict": name,
                "colour": show.COLOURS[name],
                "symbol": in_words.SYMBOLS[name],
                "means": means,
            }
            for name, means in LEGEND.items()
            if name in outcomes
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
    rows = [
        {
            **row,
            "colour": show.COLOURS[in_words.outcome(row)],
            "symbol": in_words.symbol(row),
            "plain": in_words.outcome(row),
            "printed": in_words.printed(row),
            "ours": in_words.ours(row),
            "why": in_words.reason(row),
            "beside": in_words.beside(row),
            "firm": in_words.firm(row),
            "short": row["id"].split(".", 1)[1],
        }
        for row in claims
        if row["notebook"] or row["note"].startswith(ledger.TO_COME)
    ]
    return [
        {
            "name": paper,
            "title": title,
            "rows": (here := [row for row in rows if row["paper"] == paper]),
            "elsewhere": sum(row["paper"] == paper for row in claims) - len(here),
            "counts": [
                {
                    "name": name,
                    "colour": show.COLOURS.get(name),
                    "symbol": in_words.SYMBOLS.get(name, ""),
                    "count": count,
                }
                for name, count in ledger.scoreboard(here).iloc[0, :-1].items()
            ],
        }
        for paper, title in ledger.titles().items()
        if any(row["paper"] == paper and row["notebook"] for row in rows)
    ]


def _findings(claims: list[dict], path: Path) -> list[dict]:
    """The findings that this run has decided rows of, with the reference's mark, how firm they
    are, and their picture if the run drew it."""
    decided = [row for row in claims if row["notebook"]]
    marked = ledger.reference() if (project.root() / tables.REFERENCE).exists() else claims
    return [
        {
            **vars(finding),
            "mark": in_words.mark(finding, marked),
            "counted": firmness.told(of) + in_words.counted(of),
            "drawn": (path / "figures" / f"{finding.picture}.png").exists(),
        }
        for finding in ledger.findings()
        if (of := [row for row in decided if row["cause"] == finding.id])
    ]


def write_batch(folder, rows: pd.DataFrame) -> None:
    """Write index.html into the folder of a batch; rows: its table."""
    decided = rows.dropna(subset=["claim"])
    of_rows = [row | {"outcome": in_words.outcome(row)} for row in decided.to_dict("records")]
    varied = folder.record["varied"]
    page = PAGES.get_template("batch.html.j2").render(
        batch=folder.record,
        varied=varied,
        points=folder.notebooks,
        rows=of_rows,
        shown=[name for name in in_words.SYMBOLS if any(row["outcome"] == name for row in of_rows)],
        marks={name: (show.COLOURS[name], symbol) for name, symbol in in_words.SYMBOLS.items()},
        pictures=[(claim, _picture(some, varied)) for claim, some in decided.groupby("claim")],
        turned=[claim for claim, some in decided.groupby("claim") if some["verdict"].nunique() > 1],
    )
    write_whole(folder.path / "index.html", page)


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
            look = {"color": show.COLOURS[verdict], "mec": "black", "mew": 0.4, "label": verdict}
            axes.plot(shown[some.index], some["value"], "o", ms=4, **look)
        axes.set_xlabel(name, fontsize=8)
        axes.tick_params(labelsize=7)
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue().partition("<svg")[2]
