"""A row of the ledger as a page shows it."""

from dataclasses import dataclass

from ppkit.verdicts import ledger, robustness, statements, wording


@dataclass(frozen=True)
class Entry(wording.Shown):
    """A claim, a question or a check: what its file says, and what came out.

    claim: of the claims' file.
    """

    claim: statements.Claim

    @property
    def id(self) -> str:
        return self.row.id

    @property
    def short(self) -> str:
        """Its id within its paper."""
        return self.row.short_id

    @property
    def meaning(self) -> str:
        """What its outcome means, in a sentence."""
        return wording.LEGEND.get(self.outcome, "")

    @property
    def alone(self) -> str:
        """What the rule says of the deciding data alone."""
        return wording.verdict_alone(self.row)

    @property
    def seen(self) -> str:
        """The two runs that exclude each other."""
        return wording.seen(self.row)

    @property
    def price(self) -> str:
        """What it costs to have it within reach, and the command then."""
        return wording.price(self.row)

    @property
    def kind_of_data(self) -> str:
        return wording.kind(self.row.data)

    @property
    def rule(self) -> str:
        return wording.rule(self.claim.rule)

    @property
    def choices(self) -> list[robustness.Choice]:
        """What the paper leaves open and may move the row."""
        return [choice for choice in robustness.choices() if choice.moves(self.id)]

    @property
    def page(self) -> str:
        """The page of the notebook that decided it, "" where none did."""
        return page_of(self.row.notebook)

    @property
    def command(self) -> str:
        """The command that decides the row anew, "" where no notebook measures it."""
        return wording.command(self.row)


def entries() -> dict[str, Entry]:
    """Every row of the reference by its id, paper by paper in the order of the claims' files."""
    rows = {row.id: row for row in ledger.reference()}
    every = {}
    for paper in statements.titles():
        for id, claim in statements.claims(paper).items():
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
