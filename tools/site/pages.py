"""The pages that only the site has: landing, lists, ledger, papers, claims."""

import json
import re
from pathlib import Path

import jinja2
from markupsafe import Markup

from ppkit import show
from ppkit.runs import catalogue
from ppkit.verdicts import ledger, statements, wording
from ppkit.verdicts import pages as verdict_pages
from tools.site import papers, rows

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
TEMPLATES.globals["colours"] = show.COLOURS
TEMPLATES.globals["symbols"] = wording.SYMBOLS
TEMPLATES.globals["legend"] = wording.LEGEND
TEMPLATES.globals["meanings"] = verdict_pages.IN_A_COUNT


def write(root: Path, stage: Path) -> None:
    """Write the site's own pages into folder `stage`, which holds the repository's already."""
    entries = rows.entries()
    every_paper = papers.shown(entries)
    docs = [path.stem for path in sorted((stage / "docs").glob("*.md"))]
    outcomes = {outcome for paper in every_paper for outcome, _ in paper.counts}
    write_lists(stage, docs)
    captions = captions_of(root)
    write_papers(stage, every_paper, captions)
    write_claims(stage, every_paper, captions)
    claims_first = sorted(entries.values(), key=lambda entry: KINDS.index(entry.row.kind))
    write_page(stage / "ledger.md", entries=claims_first)
    write_page(
        stage / "index.md",
        papers=every_paper,
        n_findings=len(statements.findings()),
        n_rows=len(entries),
        n_lessons=len(lessons(stage)),
        docs=docs,
        in_all=Markup(verdict_pages.in_all(ledger.reference())),
        changed=Markup(verdict_pages.changed_in_short(ledger.reference())),
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
    for paper in every_paper:
        neighbours = [None, *paper.entries, None]
        for before, entry, after in zip(neighbours, paper.entries, neighbours[2:]):
            write_page(
                stage / "claims" / f"{entry.id}.md",
                "claim",
                paper=paper,
                entry=entry,
                row=entry.row,
                before=before,
                after=after,
                finding=findings.get(entry.row.cause),
                table=paper.table_of(entry),
                caption=captions.get(entry.row.figure),
            )
