"""index.html, the page that a person opens first; it needs no network.

Of a run: failures, what ran, outcome, findings, printed and ours, rows, pictures, times, the
softest verdicts.  Of a batch: what happened to each point, every value against every varied
parameter, and the table, with filters.
"""

import io
import re
from decimal import Decimal, InvalidOperation
from pathlib import Path
from urllib.parse import quote

import jinja2
import pandas as pd

from ppkit import firmness, in_words, ledger, project, rules, show
from ppkit.runner import cut, differs, run_folder, tables
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
SENTENCE_ENDS = re.compile(r"(?<=[^\s.]{2}\.) (?=[A-Z])")
OPENING = 2  # sentences of a finding that stand open
PROFILES = {
    "quick": "small sizes, minutes instead of hours; the paper profile has the papers' own sizes",
    "paper": "the papers' own sizes",
}
COUNTED = ("No paper", "One paper", "Two papers", "Three papers", "Four papers")
SAID = {  # of counted claims
    rules.DEPENDS: "that depend on a choice or on the data",
    rules.OPEN: "open until other data or a choice settles them",
}
LEGEND = {
    rules.REPRODUCED: "our number agrees with the paper's, by the rule that stands in the row, "
    "on a formula or on the paper's own data, whole",
    in_words.ON_OTHER_DATA: "our number agrees, but on a stand-in, a simulation, or other or fewer "
    "real rows than the paper's",
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
    reference = ledger.reference() if (project.root() / tables.REFERENCE).exists() else []
    rows = _rows(claims, reference, folder)
    decided = [row for row in rows if row["notebook"]]
    pictures = map(run_folder.read_json, sorted((folder.path / "figures").glob("*.json")))
    papers = _papers(rows, claims)
    shown = [row for paper in papers for row in paper["rows"]]
    page = PAGES.get_template("index.html.j2").render(
        run=folder.record,
        title=_title(len(papers)),
        minutes=sum(about.get("seconds", 0) for about in folder.notebooks.values()) / 60,
        sources=sorted({in_words.kind(row["data"]) for row in decided if row["data"]}),
        profile=PROFILES.get(folder.record["profile"], ""),
        papers=papers,
        outcome=_counts(shown),
        besides=_besides(shown),
        compared=bool(reference),
        differing=sum(row["differs"] is not None for row in decided),
        decided=len(decided),
        softest=firmness.shown(decided),
        findings=_findings(decided, reference or claims, folder.path),
        legend=_legend(shown),
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
    return f"{counted} on private learning, rerun"


def _difference(row: dict) -> str:
    """Ours less the printed number, as text.

    "0" if ours, rounded or cut off, has the printed digits, of which there are two or more: a
    printed 2 is not the same as 1.7.  "" if one of them is no number, or if the row is a question,
    whose number may be of another kind.
    """
    printed, value = row["printed"] or row["computed"], row["value"]
    if printed is None or value is None or row["kind"] == "question":
        return ""
    try:
        decimal = Decimal(printed.replace(",", ""))
    except InvalidOperation:
        return ""
    _, digits, exponent = decimal.as_tuple()
    number, unit = float(decimal), 10.0**exponent
    longer = (abs(value) - abs(number)) / unit
    if len(digits) > 1 and value * number > 0 and -0.5 <= longer < 1:
        return "0"
    difference = value - number
    return _signed(difference) + (_share(difference / abs(number)) if number else "")


def _signed(difference: float) -> str:
    return f"{difference:+,.2f}" if abs(difference) >= 10 else f"{difference:+.2g}"


def _share(of_printed: float) -> str:
    return f" ({of_printed:+,.0%})" if abs(of_printed) >= 1 else f" ({of_printed:+.1%})"


def _rows(claims: list[dict], reference: list[dict], folder) -> list[dict]:
    """The rows that this run decided, and those to come, in words."""
    kept = {row["id"]: row for row in reference}
    commit = folder.record.get("commit", "")
    return [
        row
        | {
            "plain": in_words.outcome(row),
            "colour": show.COLOURS[in_words.outcome(row)],
            "symbol": in_words.symbol(row),
            "paper_says": in_words.printed(row),
            "ours": in_words.ours(row),
            "difference": _difference(row),
            "why": in_words.reason(row),
            "beside": in_words.beside(row),
            "firm": in_words.firm(row),
            "short": row["id"].partition(".")[2],
            "in_reference": row["id"] in kept,
            "differs": differs.told(
                row, kept.get(row["id"], row), folder.notebooks.get(row["notebook"], {}), commit
            ),
        }
        for row in claims
        if row["notebook"] or row["note"].startswith(ledger.TO_COME)
    ]


def _papers(rows: list[dict], claims: list[dict]) -> list[dict]:
    """The papers of which this run decided something: their rows, those with a printed number, the
    claims that the paper is read for, counts, and how many rows are left to other notebooks."""
    papers = []
    for paper, title in ledger.titles().items():
        here = [row for row in rows if row["paper"] == paper]
        decided = [row for row in here if row["notebook"]]
        if not decided:
            continue
        numbers = [row for row in decided if row["paper_says"] and row["kind"] != "question"]
        papers.append(
            {
                "name": paper,
                "title": title,
                "rows": here,
                "numbers": numbers,
                "agreeing": sum(row["difference"] == "0" for row in numbers),
                "headlines": [row for row in decided if row["headline"]],
                "counts": _counts(here),
                "elsewhere": sum(row["paper"] == paper for row in claims) - len(here),
            }
        )
    return papers


def _counts(rows: list[dict]) -> list[dict]:
    """How many of the claims have which verdict."""
    verdicts = [row["plain"] for row in rows if row["kind"] == "claim"]
    return [
        {
            "name": name,
            "colour": show.COLOURS[name],
            "symbol": symbol,
            "count": verdicts.count(name),
            "said": SAID.get(name, name),
        }
        for name, symbol in in_words.SYMBOLS.items()
        if name in verdicts
    ]


def _besides(rows: list[dict]) -> str:
    """What was decided besides claims, in words: "2 questions of ours and 1 check"."""
    kinds = [row["kind"] for row in rows if row["notebook"]]
    questions, checks = kinds.count("question"), kinds.count("check")
    told = []
    if questions:
        told.append(f"{questions} question{'s' if questions > 1 else ''} of ours")
    if checks:
        told.append(f"{checks} check{'s' if checks > 1 else ''}")
    return " and ".join(told)


def _legend(rows: list[dict]) -> list[dict]:
    verdicts = {row["plain"] for row in rows}
    return [
        {
            "verdict": name,
            "colour": show.COLOURS[name],
            "symbol": in_words.SYMBOLS[name],
            "means": means,
        }
        for name, means in LEGEND.items()
        if name in verdicts
    ]


def _findings(decided: list[dict], marked: list[dict], path: Path) -> list[dict]:
    """The findings that this run has decided rows of, their first sentences apart from the rest,
    with the reference's mark, how firm they are, and their picture if the run drew it."""
    findings = []
    for finding in ledger.findings():
        rows = [row for row in decided if row["cause"] == finding.id]
        if not rows:
            continue
        sentences = SENTENCE_ENDS.split(finding.text)
        findings.append(
            {
                **vars(finding),
                "mark": in_words.mark(finding, marked),
                "opening": " ".join(sentences[:OPENING]),
                "rest": " ".join(sentences[OPENING:]),
                "firm": firmness.told(rows).removesuffix("; "),
                "counted": in_words.counted(rows),
                "drawn": (path / "figures" / f"{finding.picture}.png").exists(),
            }
        )
    return findings


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
