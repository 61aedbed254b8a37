"""The pages that only the site has: landing, lists, ledger, papers, claims."""

import json
import re
from pathlib import Path

import jinja2
from markupsafe import Markup

from ppkit.runs import catalogue
from ppkit.verdicts import pages as verdict_pages
from ppkit.verdicts import robustness, statements, wording
from tools.site import papers

KINDS = ("claim", "question", "check")
SPECIAL = re.compile(r"([\\`*_{}\[\]<>$|#~^&])")


def _escaped(text: str) -> Markup:
    """Words as Markdown shows them, sign by sign."""
    return Markup(SPECIAL.sub(r"\\\1", " ".join(text.split())))


TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
    trim_blocks=True,
    lstrip_blocks=True,
    autoescape=True,
    undefined=jinja2.StrictUndefined,
)
TEMPLATES.filters["markdown"] = _escaped
TEMPLATES.globals |= {
    "words": wording,
    "colours": wording.COLOURS,
    "symbols": wording.SYMBOLS,
    "legend": wording.LEGEND,
    "meanings": verdict_pages.IN_A_COUNT,
}


def write(root: Path, stage: Path) -> None:
    """Write the site's own pages into folder `stage`, which holds the repository's already."""
    every_paper = papers.every_paper()
    rows = [row for paper in every_paper for row in paper.rows]
    docs = [path.stem for path in sorted((stage / "docs").glob("*.md"))]
    outcomes = {outcome for paper in every_paper for outcome, _ in paper.counts}
    write_lists(stage, docs)
    captions = captions_of(root)
    write_papers(stage, every_paper, captions)
    write_claims(stage, every_paper, captions)
    claims_first = sorted(rows, key=lambda row: KINDS.index(row.kind))
    write_page(stage / "ledger.md", rows=claims_first)
    write_page(
        stage / "index.md",
        papers=every_paper,
        n_findings=len(statements.findings()),
        n_rows=len(rows),
        n_lessons=len(lessons(stage)),
        docs=docs,
        in_all=Markup(verdict_pages.in_all(rows)),
        changed=Markup(verdict_pages.changed_in_short(rows)),
        outcomes=[outcome for outcome in wording.SYMBOLS if outcome in outcomes],
    )


def write_page(target: Path, template: str | None = None, **shown) -> None:
    """Write a page from a template, by default the one with its name; shown: what it shows."""
    text = TEMPLATES.get_template(f"{template or target.stem}.md.j2").render(shown)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text.lstrip(), encoding="utf-8")


def lessons(folder: Path) -> list[str]:
    """The lessons in `folder`/notebooks in the order of study: the start, the narratives of the
    papers (1_...), their parts (01a_...)."""
    names = [path.stem for path in (folder / "notebooks").glob("*.ipynb")]
    return sorted(names, key=catalogue.order_of_study)


def write_lists(stage: Path, docs: list[str]) -> None:
    """Write the pages that list other pages: lessons, records, solutions, and all the rest."""
    own_place = ("findings", "which_one", "pitfalls")  # in the bar at the top
    further = [f"docs/{name}" for name in docs if name not in own_place]
    lists = {
        "lessons": ("Lessons", [f"notebooks/{name}" for name in lessons(stage)]),
        "records": ("Records", _inside(stage, "notebooks/records/*.ipynb")),
        "solutions": ("Solutions of the exercises", _inside(stage, "notebooks/solutions/*.ipynb")),
    }
    repository = [page for page in _inside(stage, "**/*.md") if not page.startswith("docs/")]
    lists["more"] = ("More", [*further, "records", "solutions", *repository])
    for name, (title, pages) in lists.items():
        write_page(stage / f"{name}.md", "list", name=name, title=title, pages=pages)


def _inside(stage: Path, pattern: str) -> list[str]:
    """The pages of the stage that a pattern finds, as Sphinx names them."""
    files = sorted(stage.glob(pattern))
    return [file.relative_to(stage).with_suffix("").as_posix() for file in files]


def captions_of(root: Path) -> dict[str, str]:
    """The captions of the pictures in figures/, by name."""
    reference = json.loads((root / "figures/claims.json").read_text("utf-8"))
    return {name: about["caption"] for name, about in reference["pictures"].items()}


def write_papers(stage: Path, every_paper: list[papers.Paper], captions: dict[str, str]) -> None:
    """Write a page for each paper, and one that lists them."""
    write_page(stage / "papers.md", papers=every_paper)
    for paper in every_paper:
        target = stage / "papers" / f"{paper.key}.md"
        write_page(target, "paper", paper=paper, captions=captions)


def write_claims(stage: Path, every_paper: list[papers.Paper], captions: dict[str, str]) -> None:
    """Write a page for each row of the ledger, at an address that stays."""
    findings = {finding.id: finding for finding in statements.findings()}
    claims, choices = statements.every_claim(), robustness.choices()
    for paper in every_paper:
        neighbours = [None, *paper.rows, None]
        for before, row, after in zip(neighbours, paper.rows, neighbours[2:]):
            write_page(
                stage / "claims" / f"{row.id}.md",
                "claim",
                paper=paper,
                row=row,
                claim=claims[row.id],
                choices=[choice for choice in choices if choice.moves(row.id)],
                notebook=page_of(row.notebook or ""),
                before=before,
                after=after,
                finding=findings.get(row.cause or ""),
                table=paper.table_of(row),
                caption=captions.get(row.figure or ""),
            )


def page_of(notebook: str) -> str:
    """Where the page of a notebook lies, without its ending.

    >>> page_of("wang2018"), page_of("01a_dpstgd_upload")
    ('notebooks/records/wang2018', 'notebooks/01a_dpstgd_upload')
    """
    folder = "notebooks" if notebook[:1].isdigit() else "notebooks/records"
    return f"{folder}/{notebook}"
