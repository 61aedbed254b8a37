"""A row of the ledger as a page shows it."""

import re
from dataclasses import dataclass

from ppkit import firmness, in_words, ledger, show
from ppkit.runner.index import LEGEND

NUMBER = re.compile(r"-?[\d,]*\.?\d+")


@dataclass(frozen=True)
class Entry:
    """A claim, a question or a check: what its file says, and what came out.

    row: of figures/claims.json.  claim: of the claims' file.
    """

    row: dict
    claim: ledger.Claim

    @property
    def id(self) -> str:
        return self.row["id"]

    @property
    def short(self) -> str:
        """Its id without the paper's key."""
        return self.id.partition(".")[2]

    @property
    def outcome(self) -> str:
        """What it is counted as."""
        return in_words.outcome(self.row)

    @property
    def symbol(self) -> str:
        return in_words.symbol(self.row)

    @property
    def colour(self) -> str:
        return show.COLOURS[self.outcome]

    @property
    def printed(self) -> str:
        return in_words.printed(self.row)

    @property
    def ours(self) -> str:
        return in_words.ours(self.row)

    @property
    def difference(self) -> str:
        return difference(self.row)

    @property
    def meaning(self) -> str:
        """What its outcome means, in a sentence."""
        return LEGEND.get(self.outcome, "")

    @property
    def beside(self) -> list[str]:
        return in_words.beside(self.row)

    @property
    def firm(self) -> str:
        return in_words.firm(self.row)

    @property
    def kind_of_data(self) -> str:
        return in_words.kind(self.row["data"])

    @property
    def rule(self) -> str:
        return in_words.rule(self.claim.rule)

    @property
    def choices(self) -> list[firmness.Choice]:
        """What the paper leaves open and may move the row."""
        return [choice for choice in firmness.choices() if choice.moves(self.id)]

    @property
    def page(self) -> str:
        """The page of the notebook that decided it, "" where none did."""
        return page_of(self.row["notebook"])

    @property
    def command(self) -> str:
        """The command that decides the row anew, "" where no notebook measures it."""
        return in_words.command(self.row)


def entries() -> dict[str, Entry]:
    """Every row of the reference by its id, paper by paper in the order of the claims' files."""
    rows = {row["id"]: row for row in ledger.reference()}
    every = {}
    for paper in ledger.titles():
        for id, claim in ledger.claims(paper).items():
            every[id] = Entry(rows[id], claim)
    return every


def page_of(notebook: str | None) -> str:
    """Where the page of a notebook lies, without its ending.

    >>> page_of("wang2018"), page_of("01a_dpstgd_upload")
    ('notebooks/records/wang2018', 'notebooks/01a_dpstgd_upload')
    """
    if not notebook:
        return ""
    folder = "notebooks" if notebook[0].isdigit() else "notebooks/records"
    return f"{folder}/{notebook}"


def difference(row: dict) -> str:
    """Ours less the paper's number, with as many decimals as the paper has; "" without both.

    >>> difference({"printed": "3.01", "computed": None, "value": 3.25})
    '+0.24'
    """
    paper = (row["printed"] or row["computed"] or "").strip()
    if row["value"] is None or not NUMBER.fullmatch(paper):
        return ""
    places = len(paper.partition(".")[2])
    number = round(row["value"] - float(paper.replace(",", "")), places)
    return f"{number:+,.{places}f}" if number else f"{0:.{places}f}"
