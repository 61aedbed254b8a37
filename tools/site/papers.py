"""A paper's tables and figures in the paper's own layout, with our rows in their cells."""

from collections import Counter
from dataclasses import dataclass

from ppkit.verdicts import statements, wording
from tools.site.rows import Entry


@dataclass(frozen=True)
class Cell:
    """One cell that the paper prints, and the rows of the ledger that sit on it.

    setting: whether its column holds no result.
    """

    printed: str
    entries: list[Entry]
    setting: bool


@dataclass(frozen=True)
class Table:
    """A table or a figure of a paper.

    about: what `statements.tables` says of it.  rows: its cells, by the name of the row.
    entries: the rows of the ledger about the whole of it: of a figure, or of a table with no cell.
    """

    about: statements.Table
    rows: dict[str, list[Cell]]
    entries: list[Entry]

    @property
    def anchor(self) -> str:
        """Where it lies on its paper's page."""
        return anchor(self.about.name)

    @property
    def cells(self) -> list[Cell]:
        """The cells that are not empty in the paper."""
        return [cell for cells in self.rows.values() for cell in cells if cell.printed]

    @property
    def not_judged(self) -> int:
        """How many cells have no row of the ledger."""
        return sum(not cell.entries for cell in self.cells)

    @property
    def settings(self) -> int:
        """How many of these are no results."""
        return sum(cell.setting and not cell.entries for cell in self.cells)

    @property
    def commands(self) -> list[str]:
        """What reruns it: the record, also at the paper's size if that decided one of its rows."""
        inside = [entry for cell in self.cells for entry in cell.entries]
        decided = [entry.command for entry in inside + self.entries]
        return [one for one in dict.fromkeys([self.quick, *decided]) if one]

    @property
    def quick(self) -> str:
        return f"ppkit reproduce {self.about.notebook}" if self.about.notebook else ""


@dataclass(frozen=True)
class Paper:
    """A paper: its tables, and the rows of the ledger about none of them, in the paper's order.

    short: what it is about, in a few words of ours.  came_out: two sentences of ours.
    """

    key: str
    title: str
    short: str
    came_out: str
    entries: list[Entry]
    tables: list[Table]
    others: list[Entry]

    @property
    def headlines(self) -> list[Entry]:
        """The one to three claims that the paper is read for."""
        return [entry for entry in self.entries if entry.row.headline]

    @property
    def claims(self) -> list[Entry]:
        """What the paper claims, without our questions and checks."""
        return [entry for entry in self.entries if entry.row.kind == "claim"]

    @property
    def counts(self) -> list[tuple[str, int]]:
        """How many claims came out how, in the usual order."""
        number = Counter(entry.outcome for entry in self.claims)
        return [(outcome, number[outcome]) for outcome in wording.SYMBOLS if number[outcome]]

    def table_of(self, entry: Entry) -> Table | None:
        """The table or figure that a row is about."""
        name = entry.row.cell[0] if entry.row.cell else None
        return next((table for table in self.tables if table.about.name == name), None)

    @property
    def n_cells(self) -> int:
        return sum(len(table.cells) for table in self.tables)

    @property
    def not_judged(self) -> int:
        return sum(table.not_judged for table in self.tables)

    @property
    def settings(self) -> int:
        return sum(table.settings for table in self.tables)


def anchor(name: str) -> str:
    """The anchor of a table or figure.

    >>> anchor("Table I")
    'table-i'
    """
    return "-".join(name.lower().replace(".", "").split())


def shown(entries: dict[str, Entry]) -> list[Paper]:
    """Every paper with its tables.

    entries: all rows of the ledger by id.
    """
    return [_paper(key, entries) for key in statements.titles()]


def _paper(key: str, entries: dict[str, Entry]) -> Paper:
    own = [entry for entry in entries.values() if entry.row.paper == key]
    tables = [_table(about, own) for about in statements.tables(key)]
    names = {table.about.name for table in tables}
    others = [entry for entry in own if not entry.row.cell or entry.row.cell[0] not in names]
    words = statements.titles()[key], statements.short_titles()[key], statements.outcomes()[key]
    return Paper(key, *words, own, tables, others)


def _table(about: statements.Table, own: list[Entry]) -> Table:
    placed = {}
    for entry in own:
        if entry.row.cell:
            placed.setdefault(tuple(entry.row.cell), []).append(entry)
    rows = {
        name: [
            Cell(printed, placed.get((about.name, name, column), []), column in about.settings)
            for column, printed in zip(about.columns, texts, strict=True)
        ]
        for name, texts in about.rows.items()
    }
    in_cells = {entry.id for cells in rows.values() for cell in cells for entry in cell.entries}
    whole = [
        entry
        for place, some in placed.items()
        for entry in some
        if place[0] == about.name and entry.id not in in_cells
    ]
    return Table(about, rows, whole)
