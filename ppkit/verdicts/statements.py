"""What stands in the files of claims: a TOML file a paper, its tables as printed, findings."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

from ppkit import project
from ppkit.validation import fields_of, one_of
from ppkit.verdicts import rules

KINDS = ("claim", "question", "check")
PROFILES = ("quick", "paper")
ONLY_OF_A_CLAIM = ("existence", "headline", "repaired", "witness")


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What a claim and its row in claims.json both hold: everything that is no result.

    kind: "claim" (the paper says it), "question" (ours: it gets an answer, never a verdict) or
    "check" (of our own code or data, or true by construction).
    place: section, paragraph and sentence, table or figure.  says: in our words.
    fingerprint: of the sentence that it rests on: its number of words, a colon, and the SHA-256 of
    `anchors.words`; None for a mere cell or curve.
    measure: what our number is, with its unit.  cause: the finding that it belongs to.
    printed: verbatim from the paper.  computed: by us from printed numbers, and `how`.
    cell: of the paper's table (its name, row, column) or figure (its name).
    headline: one of the one to three claims that the paper is read for.
    repaired: of a refuted claim, the nearest sentence that is true; its record asserts it.
    missing: why a claim is undecided whatever the rule says: what would decide it, and whether that
    can be had.
    out_of_reach: `what` (a file, machine or figure) nobody here can have, its `price`, and the
    `command` that decides once it is there.
    amended: what was changed after a run was seen, and why.
    reply: what an author answered, or we to an objection.
    """

    id: str
    kind: str
    paper: str
    place: str
    says: str
    fingerprint: str | None = None
    cause: str | None = None
    measure: str | None = None
    printed: str | None = None
    computed: str | None = None
    how: str | None = None
    cell: list | None = None
    headline: bool = False
    figure: str | None = None
    amended: str | None = None
    reply: str | None = None
    repaired: str | None = None
    missing: str | None = None
    out_of_reach: dict[str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class Claim(Statement):
    """One table of a paper's toml file.

    rule: as `rules.parse` takes it; a question has none.  because: why that rule.
    decided_by: the profile that decides, "quick" or "paper".
    witness: a `choice` within the paper's words and its `settings`, each with the id (without the
    paper's key) of the row whose number is ours there; they turn the claim if its rule decides for
    the paper at one and against it at another.  `against`: what the rule compares with, where it
    needs that.
    `one_profile`: true where numbers of two profiles would differ in more than the choice.
    existence: true if the sentence says that something can be, or sometimes is: then one setting at
    which it is so is enough, and no other setting turns it.
    """

    rule: str | dict | None = None
    because: str | None = None
    decided_by: str | None = None
    witness: dict | None = None
    existence: bool = False

    def __post_init__(self):
        if self.rule:
            rules.parse(self.rule)
        if self.missing and self.out_of_reach:
            raise ValueError(f"{self.id} says both what is missing and what is out of reach")
        reach = self.out_of_reach
        if reach is not None and set(reach) != {"what", "price", "command"}:
            raise ValueError(f"{self.id}: out_of_reach has what, price and command")
        if self.witness is not None:
            if not {"choice", "settings"} <= set(self.witness):
                raise ValueError("witness has a choice and its settings, each with the id of a row")
            if not isinstance(self.witness["settings"], dict):
                raise ValueError("the settings of a witness are a table, each with the id of a row")

    @property
    def rule_name(self) -> str | None:
        return rules.parse(self.rule)[0] if self.rule else None

    @property
    def rule_digest(self) -> str:
        """The SHA-256 of the rule."""
        text = json.dumps(self.rule, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table or a figure of a paper as it is printed, also the cells without a claim.

    name: as the paper calls it.  title: in our words.  notebook: the record whose run makes it.
    columns: their names.  rows: by name, the printed text of each column, "" for an empty cell. A
    figure whose points are not printed has neither.  settings: the columns that hold no result.
    picture: ours, its name in figures/, or None.
    """

    name: str
    title: str
    notebook: str
    columns: list[str] = field(default_factory=list)
    rows: dict[str, list[str]] = field(default_factory=dict)
    settings: list[str] = field(default_factory=list)
    picture: str | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What several rows say together, for a visitor who knows none: it leads the docs and the page
    of a run.

    short: the sentence for README; "" for a finding that does not stand there.  the_paper_is: of
    `wording.MARKS`; "open" where no row of it has a verdict yet.  picture: its name in figures/.
    lesson: a notebook.
    """

    id: str
    paper: str
    title: str
    text: str
    the_paper_is: str
    picture: str
    lesson: str
    short: str = ""


@dataclass(frozen=True)
class Cells:
    """A row of a table as its file has it."""

    name: str
    cells: list[str]


def folder() -> Path:
    """The folder of the files: what the project's pyproject.toml names in [tool.ppkit] as `claims`,
    else this kit's own."""
    named = project.setting("claims")
    if not named:
        return Path(__file__).parent / "claims"
    place = project.root() / named
    if not place.is_dir():
        raise ValueError(f"pyproject.toml, [tool.ppkit], claims = {named!r}: no folder {place}")
    return place


def papers() -> list[str]:
    """The papers that have a claims file, in order."""
    stems = (
        file.name.removesuffix(".toml")
        for file in folder().iterdir()
        if file.name.endswith(".toml")
    )
    return sorted(stem for stem in stems if stem != "findings" and "." not in stem)


def titles() -> dict[str, str]:
    """The title of each paper, by its key, in the order of findings.toml; a paper that it does not
    name has its key."""
    return _of_each("titles")


def short_titles() -> dict[str, str]:
    """What each paper is about, in a few words of ours, by its key."""
    return _of_each("short_titles")


def outcomes() -> dict[str, str]:
    """What came out, in two sentences for each paper, by its key; "" for a paper without."""
    return dict.fromkeys(papers(), "") | _read("findings").get("outcomes", {})


def _of_each(name: str) -> dict[str, str]:
    given = _read("findings").get(name, {})
    return given | {paper: paper for paper in papers() if paper not in given}


def findings() -> list[Finding]:
    """The findings in the order of their file.  ValueError if one lacks a field."""
    found = []
    for id, table in _read("findings").items():
        if id not in ("titles", "short_titles", "outcomes"):
            try:
                fields_of(Finding, table, given=("id",))
            except ValueError as error:
                raise ValueError(f"findings.toml, {id!r}: {error}") from None
            found.append(Finding(id=id, **table))
    return found


def claims(paper: str) -> dict[str, Claim]:
    """The rows of one paper's claims file by id: its claims, our questions and our checks, which
    `kind` tells apart; all are called claims here.

    A table with `says` is a row, and its path after the paper's key is its id.
    ValueError if the paper has no claims file, if a claim does not say all that its verdict rests
    on, or names a row or a cell that is not there.
    """
    if paper not in papers():
        there = f"{', '.join(papers()) or 'none'} in {folder()}"
        raise ValueError(f"no claims for paper {paper!r}: there are {there}")
    tree, printed = _read(paper), {table.name: table for table in tables(paper)}
    for key, value in tree.items():
        if not isinstance(value, dict):
            raise ValueError(f"{paper}.toml: {key!r} stands outside of a claim, which is a table")
    told = dict(_leaves(tree))
    found = {}
    for path, table in told.items():
        try:
            if "says" not in table:
                raise ValueError("'says' is missing: a table without it is no claim")
            fields_of(Claim, table, given=("id", "paper"))
            claim = Claim(id=f"{paper}.{path}", paper=paper, **table)
            _refuse_unsaid(claim)
            _refuse_other_cell(claim, printed)
            for id in (claim.witness or {"settings": {}})["settings"].values():
                one_of(told, **{"a row of the witness": id})
        except ValueError as error:
            raise ValueError(f"{paper}.toml, claim {path!r}: {error}") from None
        found[claim.id] = claim
    return found


def _refuse_unsaid(claim: Claim) -> None:
    """Refuse a row that does not say what its verdict, or its answer, rests on."""
    one_of(KINDS, kind=claim.kind)
    if claim.kind == "question" and claim.rule:
        raise ValueError("a question has no rule: it gets an answer and no verdict")
    for name in ONLY_OF_A_CLAIM if claim.kind != "claim" else ():
        if getattr(claim, name):
            raise ValueError(f"only a claim has {name}, and this is a {claim.kind}")
    if claim.kind == "claim" and claim.missing and not claim.measure:
        return  # it waits for a run to come
    if claim.kind != "question" and not claim.rule:
        raise ValueError(f"'rule' is missing: a {claim.kind} has one of {', '.join(rules.RULES)}")
    for name in ("measure", "decided_by", *(["because"] if claim.rule else [])):
        if not getattr(claim, name):
            raise ValueError(f"{name!r} is missing")
    one_of(PROFILES, decided_by=claim.decided_by)
    if claim.printed is not None and claim.computed is not None:
        raise ValueError("printed is the paper's number and computed is ours from it: give one")
    if (claim.computed is None) != (claim.how is None):
        raise ValueError("computed and how, the expression that gives it, need each other")
    if claim.rule_name == "digits":
        rules.number_in(claim.printed or claim.computed)


def _refuse_other_cell(claim: Claim, tables: dict[str, Table]) -> None:
    """Refuse a cell that no table of the paper has, or that does not print what the claim says."""
    if not claim.cell:
        return
    file = f"{claim.paper}.tables.toml"
    name, *place = claim.cell
    if name not in tables:
        raise ValueError(f"cell names {name!r}, and {file} has {', '.join(tables) or 'no table'}")
    if not place:
        return
    table = tables[name]
    if len(place) != 2 or place[0] not in table.rows or place[1] not in table.columns:
        raise ValueError(
            f"cell must be [table, row, column] of {file}, got {claim.cell}: {name} has the rows "
            f"{', '.join(table.rows)} and the columns {', '.join(table.columns)}"
        )
    text = table.rows[place[0]][table.columns.index(place[1])]
    if claim.printed not in (None, text):
        raise ValueError(f"printed is {claim.printed!r}, and its cell in {file} has {text!r}")


def tables(paper: str) -> list[Table]:
    """The tables and figures of one paper in its order, from `<paper>.tables.toml`: a TOML table
    each by its name, with a list `rows` of names and cells; an empty list if the paper has no such
    file.

    ValueError if the file has a table with an unknown or missing field, two rows of one name, or a
    row that has not one cell a column.
    """
    if not folder().joinpath(f"{paper}.tables.toml").is_file():
        return []
    return [_table(paper, name, told) for name, told in _read(f"{paper}.tables").items()]


def _table(paper: str, name: str, told: dict) -> Table:
    place = f"{paper}.tables.toml, {name!r}"
    try:
        if not isinstance(told, dict):
            raise ValueError("a table or a figure is a TOML table")
        for row in told.get("rows", []):
            fields_of(Cells, row)
        rows = {row["name"]: row["cells"] for row in told.get("rows", [])}
        fields_of(Table, told | {"rows": rows}, given=("name",))
        table = Table(**(told | {"name": name, "rows": rows}))
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None
    if len(rows) < len(told.get("rows", [])):
        raise ValueError(f"{place} has two rows of one name")
    for row, cells in rows.items():
        if len(cells) != len(table.columns):
            raise ValueError(
                f"{place}, row {row!r} has {len(cells)} cells for {len(table.columns)} columns"
            )
    return table


def _read(name: str) -> dict:
    """What a file of the folder holds; nothing if it has none of findings."""
    file = folder() / f"{name}.toml"
    if name == "findings" and not file.exists():
        return {}
    return project.read_toml(file)


def _leaves(tree: dict, path: str = ""):
    """The tables that hold more than tables, each with its path."""
    for key, value in tree.items():
        below = f"{path}.{key}".lstrip(".")
        only_tables = value and all(isinstance(one, dict) for one in value.values())
        yield from _leaves(value, below) if only_tables else [(below, value)]


def every_claim() -> dict[str, Claim]:
    """The rows of all papers' claims files by id, in the order of the files: claims, questions and
    checks, as `claims` gives them."""
    return {id: claim for paper in papers() for id, claim in claims(paper).items()}
